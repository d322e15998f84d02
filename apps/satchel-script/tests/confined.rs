//! What a process that has shut itself in can still do, tried from inside.
//!
//! It has no test harness, since that would be shut in with it: started without arguments, it starts itself once more
//! over pipes, and reports what that one found as a harness would.
#![expect(clippy::unwrap_used, reason = "a test, and its own host")]

use std::{
    env,
    fs::{self, File},
    io::{self, ErrorKind, Read, stdin},
    net::{TcpStream, UdpSocket},
    os::unix::{fs::symlink, net::UnixStream},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio, exit, id},
    sync::mpsc::channel,
    thread,
    time::SystemTime,
};

use rustix::{
    net::{AddressFamily, SocketType},
    process::{self, Pid, Resource, Rlimit},
};

/// Says to the process that it is the one inside.
const INSIDE: &str = "inside";

/// What it finds among its own variables, to see that the others can't be read from a file.
const VARIABLE: &str = "SATCHEL_SCRIPT_TEST";

/// The file that lies in the directory of the one inside.
const KEPT: &str = "kept";

/// What the process inside tries things on: nothing of anybody else's, should a wall be missing.
#[derive(Clone)]
struct Around {
    /// The process that has started it.
    host: Pid,
    /// A directory that was made for it, with one file.
    directory: PathBuf,
}

/// Things that a confined process must not be able to do. Each would be done, or fail in another way, without the
/// walls, and for any user: what the system refuses by itself says nothing of them.
type Attempts = Vec<(&'static str, fn(&Around) -> io::Result<()>)>;

fn main() -> ExitCode {
    match env::args().nth(1).as_deref() {
        Some(INSIDE) => inside(),
        Some("--list") => {
            // A runner asks for those that are not run by default too; there are none.
            if !env::args().any(|argument| argument == "--ignored") {
                attempts().iter().for_each(|(name, _)| println!("{name}: test"));
            }
            ExitCode::SUCCESS
        }
        _ => outside(),
    }
}

/// Makes a directory for the process that shuts itself in, and sees that nothing happened there.
fn outside() -> ExitCode {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos();
    let directory = env::temp_dir().join(format!("satchel-script-{}-{now}", id()));
    // It fails where anything of that name is there, so this is nobody else's.
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join(KEPT), "kept").unwrap();
    let well = is_well_inside(&directory);
    fs::remove_dir_all(&directory).unwrap();
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Starts the process that shuts itself in, and reports what it found.
fn is_well_inside(directory: &Path) -> bool {
    let mut child = Command::new(env::current_exe().unwrap())
        .arg(INSIDE)
        .arg(id().to_string())
        .arg(directory)
        .env_clear()
        .env(VARIABLE, "a secret")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let input = child.stdin.take().unwrap();
    let (mut said, mut errors) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    drop(input);
    let status = child.wait().unwrap();
    print!("{said}");
    let (tried, refused) = (attempts().len(), said.matches("... ok").count());
    let left: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let well = status.success() && tried == refused && left == [KEPT];
    println!("\ntest result: {}. {refused} passed; {} failed", if well { "ok" } else { "FAILED" }, tried - refused);
    if !well {
        println!("{status:?}, left {left:?}\n{errors}");
    }
    well
}

/// Shuts itself in, with a second thread as the worker has one, and tries everything in both.
fn inside() -> ExitCode {
    let mut given = env::args().skip(2);
    let host = given.next().and_then(|host| Pid::from_raw(host.parse().ok()?)).unwrap();
    let around = Around { host, directory: given.next().unwrap().into() };
    let (begin, wait) = channel::<()>();
    let (started, has_started) = channel();
    let (done, result) = channel();
    let other = around.clone();
    thread::spawn(move || {
        started.send(()).unwrap();
        wait.recv().unwrap();
        let found: Vec<_> = attempts().into_iter().map(|(name, attempt)| (name, attempt(&other))).collect();
        done.send(found).unwrap();
    });
    has_started.recv().unwrap();
    satchel_script::confine().unwrap();
    satchel_script::limit_processor(20).unwrap();
    begin.send(()).unwrap();
    let mut well = true;
    for ((name, attempt), (_, second)) in attempts().into_iter().zip(result.recv().unwrap()) {
        let first = attempt(&around);
        let is_well = is_refused(&first) && is_refused(&second);
        well &= is_well;
        match is_well {
            true => println!("test {name} ... ok"),
            false => println!("test {name} ... FAILED: {first:?} in the main thread, {second:?} in the other"),
        }
    }
    exit(i32::from(!well))
}

/// Whether it was the walls that kept it from succeeding.
fn is_refused(outcome: &io::Result<()>) -> bool {
    // No other reason counts: a file that isn't there would prove nothing.
    outcome.as_ref().is_err_and(|error| error.raw_os_error() == Some(1) || error.kind() == ErrorKind::OutOfMemory)
}

fn tried<T>(result: Result<T, impl Into<io::Error>>) -> io::Result<()> {
    result.map(|_| ()).map_err(Into::into)
}

fn socket(family: AddressFamily, kind: SocketType) -> io::Result<()> {
    tried(rustix::net::socket(family, kind, None))
}

/// Sets a limit to what it is, which anybody may do.
fn limit(resource: Resource, most: u64) -> io::Result<()> {
    tried(process::setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) }))
}

fn attempts() -> Attempts {
    vec![
        ("a_file_is_not_read", |_| tried(File::open("/etc/passwd"))),
        ("its_own_binary_is_not_read", |_| tried(File::open("/proc/self/exe"))),
        ("its_own_memory_is_not_read", |_| tried(File::open("/proc/self/mem"))),
        ("its_environment_is_not_read", |_| tried(File::open("/proc/self/environ"))),
        ("a_descriptor_is_not_opened_again", |_| tried(File::open("/proc/self/fd/0"))),
        ("a_device_is_not_opened", |_| tried(File::open("/dev/null"))),
        ("a_file_is_not_made", |around| tried(File::create(around.directory.join("file")))),
        ("a_directory_is_not_made", |around| tried(fs::create_dir(around.directory.join("directory")))),
        ("a_directory_is_not_listed", |around| tried(fs::read_dir(&around.directory))),
        ("a_file_is_not_looked_at", |around| tried(fs::metadata(around.directory.join(KEPT)))),
        ("a_link_is_not_made", |around| tried(symlink("nowhere", around.directory.join("link")))),
        ("a_file_is_not_removed", |around| tried(fs::remove_file(around.directory.join(KEPT)))),
        ("the_directory_is_not_changed", |_| tried(env::set_current_dir("/"))),
        ("a_descriptor_is_not_copied", |_| tried(rustix::io::dup(stdin()))),
        ("no_pipe_is_made", |_| tried(io::pipe())),
        ("no_local_socket_is_made", |_| tried(UnixStream::pair())),
        ("no_connection_is_made", |_| tried(TcpStream::connect("127.0.0.1:1"))),
        ("no_port_is_bound", |_| tried(UdpSocket::bind("127.0.0.1:0"))),
        ("no_thread_is_started", |_| tried(thread::Builder::new().spawn(|| ()))),
        ("no_program_is_run", |_| tried(Command::new("/bin/true").status())),
        // Signal 0: whether one could be sent is asked, and nothing comes of it.
        ("no_signal_is_sent_to_another_process", |around| tried(process::test_kill_process(around.host))),
        ("no_signal_but_its_own_abort_is_sent_to_itself", |_| tried(process::test_kill_process(process::getpid()))),
        ("no_memory_beyond_the_limit_is_had", |_| {
            Vec::<u8>::new().try_reserve_exact(600 << 20).map_err(|_| ErrorKind::OutOfMemory.into())
        }),
        ("its_memory_limit_is_not_set", |_| limit(Resource::As, 512 << 20)),
        ("its_descriptor_limit_is_not_set", |_| limit(Resource::Nofile, 0)),
        ("no_other_process_is_limited", |_| {
            // There is no such process, so that nobody is harmed where the wall is missing; only the wall says EPERM.
            let none = Rlimit { current: Some(1), maximum: Some(1) };
            tried(process::prlimit(Pid::from_raw(i32::MAX), Resource::Cpu, none))
        }),
        ("it_does_not_become_something_to_look_at", |_| {
            tried(process::set_dumpable_behavior(process::DumpableBehavior::Dumpable))
        }),
        ("the_group_is_not_left", |_| tried(process::setsid())),
        ("no_other_end_is_written_to", |_| tried(rustix::io::write(stdin(), b"x"))),
        ("no_internet_socket_is_made", |_| socket(AddressFamily::INET, SocketType::DGRAM)),
        ("no_internet_6_socket_is_made", |_| socket(AddressFamily::INET6, SocketType::DGRAM)),
        ("no_unix_socket_is_made", |_| socket(AddressFamily::UNIX, SocketType::DGRAM)),
        ("no_netlink_socket_is_made", |_| socket(AddressFamily::NETLINK, SocketType::DGRAM)),
        // Of those that anybody may have, this one leads furthest into the kernel.
        ("no_cipher_socket_is_made", |_| {
            let cipher = AddressFamily::from_raw(libc::AF_ALG.try_into().unwrap());
            socket(cipher, SocketType::SEQPACKET)
        }),
        ("no_virtual_machine_socket_is_made", |_| socket(AddressFamily::VSOCK, SocketType::DGRAM)),
    ]
}

//! The promises of [`FileRunner`], one function each; [`file_runner_contract!`](crate::file_runner_contract) runs them
//! all. They hand over paths as an attacker would, since no policy stands before this wall.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io,
    os::unix::{ffi::OsStrExt, fs::symlink},
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use satchel_domain::path::Mount;
use satchel_ports::{
    FileAccess, FileProfile, FileReader, FileRunner, FileWriter,
    file_runner::{FileKind, LinkMode, MountDirectory},
};

/// Runs every promise of [`FileRunner`] against the runner that an expression makes.
#[macro_export]
macro_rules! file_runner_contract {
    ($runner:expr) => {
        $crate::file_runner_contract!(@each $runner;
            written_bytes_are_read
            new_file_replaces_nothing
            created_parents_are_entered
            work_stays_in_a_directory_that_is_moved
            names_are_bytes
            entries_are_listed_with_their_kinds
            large_directory_is_listed_whole
            only_owner_can_read_private_files
            parent_dirs_lead_nowhere
            absolute_paths_lead_nowhere
            links_out_lead_nowhere
            links_inside_are_followed
            loops_of_links_end
            a_zero_byte_ends_no_path
            swapped_directories_lead_nowhere
            swapped_files_lead_nowhere
            hard_link_outside_keeps_its_bytes
            pipes_and_sockets_do_not_wait
            profile_opens_its_mounts_only
        );
    };
    (@each $runner:expr; $($promise:ident)*) => {
        $(
            #[test]
            fn $promise() {
                $crate::file_runner::$promise(&$runner);
            }
        )*
    };
}

/// A mount, with a secret and other things beside it.
struct Playground {
    root: tempfile::TempDir,
}

/// What an attacker wants to read.
const SECRET: &[u8] = b"the secret outside";

impl Playground {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for directory in ["mount", "mount/inside", "outside"] {
            fs::create_dir(root.path().join(directory)).unwrap();
        }
        fs::write(root.path().join("outside/secret"), SECRET).unwrap();
        fs::write(root.path().join("mount/inside/file"), "inside").unwrap();
        Self { root }
    }

    fn mount(&self) -> PathBuf {
        self.root.path().join("mount")
    }

    fn outside(&self) -> PathBuf {
        self.root.path().join("outside")
    }

    fn open(&self, mount: Mount) -> MountDirectory {
        MountDirectory { mount, directory: File::open(self.mount()).unwrap(), access: FileAccess::Owner }
    }

    fn reader(&self, runner: &dyn FileRunner) -> Box<dyn FileReader> {
        runner.reader(self.open(Mount::Shared), FileProfile::FileReadOnly).unwrap()
    }

    fn writer(&self, runner: &dyn FileRunner) -> Box<dyn FileWriter> {
        runner.writer(self.open(Mount::Shared)).unwrap()
    }

    /// Tries everything that there is with a path that leads out, and checks that nothing came of it.
    fn assert_leads_nowhere(&self, runner: &dyn FileRunner, path: impl AsRef<Path>) {
        let (path, before) = (path.as_ref(), self.snapshot());
        let target = path.join("secret");
        for path in [path, &target] {
            let mut reader = self.reader(runner);
            assert_refused(path, "open", reader.open(path));
            assert_refused(path, "list", reader.list(path));
            assert_refused(path, "stat", reader.stat(path, LinkMode::Follow));
        }
        let mut writer = self.writer(runner);
        let new = path.join("new");
        assert_refused(path, "stat", writer.stat(&target, LinkMode::Keep));
        assert_refused(path, "create", writer.create(&new));
        assert_refused(path, "create_dirs", writer.create_dirs(&new));
        assert_refused(path, "sync_dir", writer.sync_dir(path));
        assert_refused(path, "link out", writer.link(Path::new("inside/file"), &new));
        assert_refused(path, "link in", writer.link(&target, Path::new("stolen")));
        assert_refused(path, "rename out", writer.rename(Path::new("inside/file"), &new));
        assert_refused(path, "rename in", writer.rename(&target, Path::new("stolen")));
        assert_refused(path, "rename new out", writer.rename_new(Path::new("inside/file"), &new));
        assert_refused(path, "rename new in", writer.rename_new(&target, Path::new("stolen")));
        assert_refused(path, "remove_file", writer.remove_file(&target));
        assert_refused(path, "remove_dir", writer.remove_dir(&path.join("directory")));
        assert_refused(path, "enter", writer.enter(path));
        drop(writer);
        assert_eq!(self.snapshot(), before, "{} changed something", path.display());
    }

    /// Everything that there is, with its bytes.
    fn snapshot(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut all = Vec::new();
        let mut pending = vec![self.root.path().to_owned()];
        while let Some(directory) = pending.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let (path, kind) = entry.map(|entry| (entry.path(), entry.file_type().unwrap())).unwrap();
                if kind.is_dir() {
                    pending.push(path.clone());
                }
                let bytes = if kind.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
                all.push((path, bytes));
            }
        }
        all.sort();
        all
    }
}

#[track_caller]
fn assert_refused<T>(path: &Path, operation: &str, result: io::Result<T>) {
    let error = result.err().unwrap_or_else(|| panic!("{operation} of {} led out", path.display()));
    assert!(is_escape(&error), "{operation} of {}: {error:?}", path.display());
}

fn is_escape(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none()
}

fn read_all(reader: &mut dyn FileReader) -> io::Result<Vec<u8>> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 300_000]);
    loop {
        let length = reader.read(&mut buffer)?;
        all.extend_from_slice(&buffer[..length]);
        if length < buffer.len() {
            return Ok(all);
        }
    }
}

fn create(writer: &mut dyn FileWriter, path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
    writer.create(path.as_ref())?;
    writer.write(bytes)?;
    writer.sync()
}

/// Mutation: a chunk is lost, doubled or cut where a buffer ends.
pub fn written_bytes_are_read(runner: &dyn FileRunner) {
    let playground = Playground::new();
    for length in [0_usize, 1, 262_143, 262_144, 262_145, 1_000_001] {
        let bytes: Vec<u8> = (0..length).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect();
        let (mut writer, name) = (playground.writer(runner), format!("file-{length}"));
        create(&mut *writer, &name, &bytes).unwrap();
        writer.write(b"and more").unwrap();
        assert_eq!(fs::read(playground.mount().join(&name)).unwrap(), [&bytes[..], b"and more"].concat());
        let mut reader = playground.reader(runner);
        let stat = reader.open(Path::new(&name)).unwrap();
        assert_eq!((stat.kind, stat.bytes), (FileKind::File, length as u64 + 8));
        assert_eq!(read_all(&mut *reader).unwrap(), [&bytes[..], b"and more"].concat(), "{length}");
    }
}

/// Mutations: `create` truncates; `link` or `rename_new` replaces.
pub fn new_file_replaces_nothing(runner: &dyn FileRunner) {
    let playground = Playground::new();
    let mut writer = playground.writer(runner);
    create(&mut *writer, "new", b"new").unwrap();
    let (new, old) = (Path::new("new"), Path::new("inside/file"));
    for result in [writer.create(old).map(drop), writer.link(new, old), writer.rename_new(new, old)] {
        assert_eq!(result.map_err(|error| error.kind()), Err(io::ErrorKind::AlreadyExists));
    }
    assert_eq!(fs::read(playground.mount().join(old)).unwrap(), b"inside");
    writer.rename_new(new, Path::new("renamed")).unwrap();
    writer.rename(Path::new("renamed"), old).unwrap();
    assert_eq!(fs::read(playground.mount().join(old)).unwrap(), b"new");
    writer.remove_file(old).unwrap();
    writer.remove_dir(Path::new("inside")).unwrap();
    assert_eq!(fs::read_dir(playground.mount()).unwrap().count(), 0);
}

/// Mutations: only the last parent is created; paths still count from the mount.
pub fn created_parents_are_entered(runner: &dyn FileRunner) {
    let playground = Playground::new();
    let mut writer = playground.writer(runner);
    for path in ["", "a", "a/b/c", "inside/d", "a/b/c"] {
        writer.create_dirs(Path::new(path)).unwrap();
        assert!(playground.mount().join(path).is_dir(), "{path}");
    }
    assert!(writer.create_dirs(Path::new("inside/file/x")).is_err());
    writer.enter(Path::new("a/b")).unwrap();
    create(&mut *writer, "c/new", b"new").unwrap();
    writer.sync_dir(Path::new("c")).unwrap();
    writer.enter(Path::new("c")).unwrap();
    assert_eq!(writer.stat(Path::new("new"), LinkMode::Keep).unwrap().bytes, 3);
    assert_eq!(fs::read(playground.mount().join("a/b/c/new")).unwrap(), b"new");
    assert_refused(Path::new(".."), "enter", writer.enter(Path::new("..")));
}

/// Mutation: the directory is found again by its path.
pub fn work_stays_in_a_directory_that_is_moved(runner: &dyn FileRunner) {
    let playground = Playground::new();
    let mut writer = playground.writer(runner);
    writer.enter(Path::new("inside")).unwrap();
    fs::rename(playground.mount().join("inside"), playground.mount().join("moved")).unwrap();
    symlink(playground.outside(), playground.mount().join("inside")).unwrap();
    create(&mut *writer, "new", b"new").unwrap();
    assert_eq!(fs::read(playground.mount().join("moved/new")).unwrap(), b"new");
    assert_eq!(fs::read_dir(playground.outside()).unwrap().count(), 1);
}

/// Mutation: names pass through text, are normalised or cut.
pub fn names_are_bytes(runner: &dyn FileRunner) {
    let playground = Playground::new();
    let longest = "n".repeat(255);
    let names: [&[u8]; 9] = [
        "\u{e9}".as_bytes(),
        "e\u{301}".as_bytes(),
        b"\xff\xfe invalid",
        b"new\nline",
        b" ",
        b"-rf",
        b"CON",
        b"a\\b:c",
        longest.as_bytes(),
    ];
    let mut writer = playground.writer(runner);
    for name in names {
        create(&mut *writer, OsStr::from_bytes(name), name).unwrap();
    }
    let mut reader = playground.reader(runner);
    for name in names {
        reader.open(Path::new(OsStr::from_bytes(name))).unwrap();
        assert_eq!(read_all(&mut *reader).unwrap(), name);
    }
    let listed = reader.list(Path::new("")).unwrap();
    assert!(names.iter().all(|name| listed.contains(&(OsStr::from_bytes(name).to_owned(), FileKind::File))));
    let too_long = writer.create(Path::new(&"n".repeat(256))).map(drop).unwrap_err();
    assert_eq!(too_long.kind(), io::ErrorKind::InvalidFilename);
    let too_long = writer.create(Path::new(&"n/".repeat(4000))).map(drop).unwrap_err();
    assert_eq!(too_long.kind(), io::ErrorKind::InvalidFilename);
}

/// Mutations: a link is listed as what it points at; one odd name hides all others.
pub fn entries_are_listed_with_their_kinds(runner: &dyn FileRunner) {
    let playground = Playground::new();
    symlink("file", playground.mount().join("inside/link")).unwrap();
    fs::create_dir(playground.mount().join("inside/directory")).unwrap();
    make_pipe(&playground.mount().join("inside/pipe"));
    fs::write(playground.mount().join("inside").join(OsStr::from_bytes(b"\xff")), "").unwrap();
    let mut listed = playground.reader(runner).list(Path::new("inside")).unwrap();
    listed.sort();
    let listed: Vec<_> = listed.iter().map(|(name, kind)| (name.as_bytes(), *kind)).collect();
    let expected: [(&[u8], FileKind); 5] = [
        (b"directory", FileKind::Directory),
        (b"file", FileKind::File),
        (b"link", FileKind::Link),
        (b"pipe", FileKind::Other),
        (b"\xff", FileKind::File),
    ];
    assert_eq!(listed, expected);
    let error = playground.reader(runner).list(Path::new("inside/file")).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotADirectory);
    let error = playground.reader(runner).list(Path::new("none")).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

/// Mutation: what doesn't fit into one buffer is lost, or an entry at its end is cut.
pub fn large_directory_is_listed_whole(runner: &dyn FileRunner) {
    let playground = Playground::new();
    let count = 4_000;
    for number in 0..count {
        File::create(playground.mount().join(format!("inside/{number:0150}"))).unwrap();
    }
    let mut listed = playground.reader(runner).list(Path::new("inside")).unwrap();
    listed.sort();
    assert_eq!(listed.len(), count + 1);
    assert!(listed.windows(2).all(|pair| pair[0] != pair[1]));
}

/// Mutation: the umask alone decides.
pub fn only_owner_can_read_private_files(runner: &dyn FileRunner) {
    use std::os::unix::fs::PermissionsExt;
    let playground = Playground::new();
    let mode = |path: &str| fs::metadata(playground.mount().join(path)).unwrap().permissions().mode() & 0o077;
    let mut writer = playground.writer(runner);
    writer.create_dirs(Path::new("a/b")).unwrap();
    create(&mut *writer, "a/b/c", b"").unwrap();
    assert_eq!(["a", "a/b", "a/b/c"].map(mode), [0; 3]);
    let shared = MountDirectory { access: FileAccess::Umask, ..playground.open(Mount::Shared) };
    let mut writer = runner.writer(shared).unwrap();
    create(&mut *writer, "shared", b"").unwrap();
    File::create(playground.mount().join("by hand")).unwrap();
    assert_eq!(mode("shared"), mode("by hand"));
}

/// Mutation: `..` is resolved by its text.
pub fn parent_dirs_lead_nowhere(runner: &dyn FileRunner) {
    let playground = Playground::new();
    for path in ["../outside", "inside/../../outside", "./../outside", "inside/./.././../outside"] {
        playground.assert_leads_nowhere(runner, path);
    }
    let mut reader = playground.reader(runner);
    assert_refused(Path::new(".."), "list", reader.list(Path::new("..")));
}

/// Mutation: an absolute path begins at the root of the system.
pub fn absolute_paths_lead_nowhere(runner: &dyn FileRunner) {
    let playground = Playground::new();
    playground.assert_leads_nowhere(runner, playground.outside());
    playground.assert_leads_nowhere(runner, "//etc");
    for path in ["/etc/passwd", "/proc/self/environ", "/dev/null"] {
        assert_refused(Path::new(path), "open", playground.reader(runner).open(Path::new(path)));
    }
}

/// Mutation: links are followed wherever they lead.
pub fn links_out_lead_nowhere(runner: &dyn FileRunner) {
    let playground = Playground::new();
    let mount = playground.mount();
    let plant = |target: &Path, name: &str| symlink(target, mount.join(name)).unwrap();
    plant(&playground.outside(), "absolute");
    plant(Path::new("../outside"), "relative");
    plant(Path::new("absolute"), "chain");
    plant(Path::new("inside/../../outside"), "through");
    for name in ["absolute", "relative", "chain", "through", "inside/../absolute"] {
        playground.assert_leads_nowhere(runner, name);
    }
    plant(&playground.outside().join("secret"), "file");
    plant(Path::new("/proc/self/root"), "magic");
    plant(&playground.outside().join("missing"), "dangling");
    let before = playground.snapshot();
    let mut reader = playground.reader(runner);
    for name in ["file", "magic", "magic/etc/passwd", "dangling"] {
        assert_refused(Path::new(name), "open", reader.open(Path::new(name)));
    }
    let mut writer = playground.writer(runner);
    for name in ["file", "dangling"] {
        let error = writer.create(Path::new(name)).map(drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{name}");
    }
    assert_eq!(playground.snapshot(), before);
}

/// Mutation: every link is refused, though people keep some.
pub fn links_inside_are_followed(runner: &dyn FileRunner) {
    let playground = Playground::new();
    symlink("inside", playground.mount().join("link")).unwrap();
    symlink("../link/file", playground.mount().join("inside/back")).unwrap();
    let mut reader = playground.reader(runner);
    for path in ["link/file", "inside/back", "link/back", "inside/../inside/file"] {
        reader.open(Path::new(path)).unwrap();
        assert_eq!(read_all(&mut *reader).unwrap(), b"inside", "{path}");
    }
    assert_eq!(reader.stat(Path::new("link"), LinkMode::Keep).unwrap().kind, FileKind::Link);
    assert_eq!(reader.stat(Path::new("link"), LinkMode::Follow).unwrap().kind, FileKind::Directory);
}

/// Mutation: the resolution has no end.
pub fn loops_of_links_end(runner: &dyn FileRunner) {
    let playground = Playground::new();
    symlink("b", playground.mount().join("a")).unwrap();
    symlink("a", playground.mount().join("b")).unwrap();
    symlink(".", playground.mount().join("self")).unwrap();
    assert!(playground.reader(runner).open(Path::new("a")).is_err());
    assert!(playground.writer(runner).create_dirs(Path::new("a/x")).is_err());
    assert!(playground.reader(runner).open(Path::new(&"self/".repeat(200))).is_err());
}

/// Mutation: what follows a zero byte is cut off, so that `file\0.txt` is `file`.
pub fn a_zero_byte_ends_no_path(runner: &dyn FileRunner) {
    let playground = Playground::new();
    let (path, before) = (Path::new(OsStr::from_bytes(b"inside/file\0.txt")), playground.snapshot());
    assert!(playground.reader(runner).open(path).is_err());
    let mut writer = playground.writer(runner);
    assert!(writer.create(path).is_err() && writer.remove_file(path).is_err());
    assert!(writer.rename(Path::new("inside/file"), path).is_err());
    drop(writer);
    assert_eq!(playground.snapshot(), before);
}

/// Mutation: a path is checked first and opened after that.
pub fn swapped_directories_lead_nowhere(runner: &dyn FileRunner) {
    let playground = Playground::new();
    let mount = playground.mount();
    fs::write(mount.join("inside/secret"), "decoy").unwrap();
    symlink(playground.outside(), mount.join("trap")).unwrap();
    let swap = || {
        for (from, to) in [("inside", "kept"), ("trap", "inside"), ("inside", "trap"), ("kept", "inside")] {
            fs::rename(mount.join(from), mount.join(to)).unwrap();
        }
    };
    while_swapping(swap, |round| {
        let mut reader = playground.reader(runner);
        let opened = reader.open(Path::new("inside/secret"));
        if opened.is_ok() {
            assert_eq!(read_all(&mut *reader).unwrap(), b"decoy");
        }
        let mut writer = playground.writer(runner);
        let name = format!("inside/new-{round}");
        if create(&mut *writer, &name, b"ours").is_ok() {
            let _ = writer.rename(Path::new(&name), Path::new("inside/secret2"));
        }
        let _ = writer.remove_file(Path::new("inside/secret3"));
        opened
    });
    assert_eq!(fs::read(playground.outside().join("secret")).unwrap(), SECRET);
    assert_eq!(fs::read_dir(playground.outside()).unwrap().count(), 1, "nothing was written outside");
}

/// The last component turns from a file into a link that leads out and back.
///
/// Mutation: only parents are resolved beneath the directory.
pub fn swapped_files_lead_nowhere(runner: &dyn FileRunner) {
    let playground = Playground::new();
    let mount = playground.mount();
    symlink(playground.outside().join("secret"), mount.join("trap")).unwrap();
    let swap = || {
        for (from, to) in
            [("inside/file", "kept"), ("trap", "inside/file"), ("inside/file", "trap"), ("kept", "inside/file")]
        {
            fs::rename(mount.join(from), mount.join(to)).unwrap();
        }
    };
    while_swapping(swap, |_| {
        let mut reader = playground.reader(runner);
        let opened = reader.open(Path::new("inside/file"));
        if opened.is_ok() {
            assert_eq!(read_all(&mut *reader).unwrap(), b"inside");
        }
        opened
    });
}

/// Repeats an attempt while another thread swaps what it is about, until it has met both: at least 500 times.
fn while_swapping<T>(swap: impl Fn() + Sync, mut attempt: impl FnMut(usize) -> io::Result<T>) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        // An attempt that fails its test ends the other thread too.
        let _stop = StopOnDrop(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                swap();
            }
        });
        let (mut succeeded, mut escaped) = (0, 0);
        for round in 0.. {
            match attempt(round) {
                Ok(_) => succeeded += 1,
                Err(error) if is_escape(&error) => escaped += 1,
                Err(_) => {}
            }
            if round >= 500 && succeeded > 0 && escaped > 0 {
                return;
            }
        }
    });
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Mutation: a file is written over in its place, and with it what is linked to it elsewhere.
pub fn hard_link_outside_keeps_its_bytes(runner: &dyn FileRunner) {
    let playground = Playground::new();
    fs::hard_link(playground.outside().join("secret"), playground.mount().join("linked")).unwrap();
    let mut writer = playground.writer(runner);
    assert!(writer.create(Path::new("linked")).is_err());
    create(&mut *writer, "new", b"new").unwrap();
    writer.rename(Path::new("new"), Path::new("linked")).unwrap();
    assert_eq!(fs::read(playground.outside().join("secret")).unwrap(), SECRET);
    assert_eq!(fs::read(playground.mount().join("linked")).unwrap(), b"new");
}

/// Mutation: an open waits for somebody at the other end, for ever.
pub fn pipes_and_sockets_do_not_wait(runner: &dyn FileRunner) {
    let playground = Playground::new();
    make_pipe(&playground.mount().join("pipe"));
    let _socket = std::os::unix::net::UnixListener::bind(playground.mount().join("socket")).unwrap();
    // A device itself can be made by root alone.
    symlink("/dev/zero", playground.mount().join("device")).unwrap();
    let mut reader = playground.reader(runner);
    assert_eq!(reader.stat(Path::new("pipe"), LinkMode::Follow).unwrap().kind, FileKind::Other);
    assert_eq!(reader.stat(Path::new("socket"), LinkMode::Follow).unwrap().kind, FileKind::Other);
    assert!(reader.open(Path::new("pipe")).is_ok_and(|stat| stat.kind == FileKind::Other));
    assert!(reader.open(Path::new("socket")).is_err());
    assert_refused(Path::new("device"), "open", reader.open(Path::new("device")));
    let mut writer = playground.writer(runner);
    for name in ["pipe", "socket", "device"] {
        assert!(writer.create(Path::new(name)).is_err());
    }
}

/// Mutation: the vault is a mount like the others.
pub fn profile_opens_its_mounts_only(runner: &dyn FileRunner) {
    let playground = Playground::new();
    let vault = Path::new("/vault");
    assert_refused(vault, "reader", runner.reader(playground.open(Mount::Vault), FileProfile::FileReadOnly).map(drop));
    assert_refused(vault, "reader", runner.reader(playground.open(Mount::Vault), FileProfile::FileReadWrite).map(drop));
    assert_refused(vault, "writer", runner.writer(playground.open(Mount::Vault)).map(drop));
    for mount in [Mount::Shared, Mount::Tmp] {
        let mut reader = runner.reader(playground.open(mount), FileProfile::FileReadWrite).unwrap();
        assert!(reader.open(Path::new("inside/file")).is_ok());
        assert_refused(vault, "vault", runner.reader(playground.open(mount), FileProfile::VaultRead).map(drop));
        assert!(runner.reader(playground.open(mount), FileProfile::FileReadOnly).is_ok());
        assert!(runner.writer(playground.open(mount)).is_ok());
    }
    let mut reader = runner.reader(playground.open(Mount::Vault), FileProfile::VaultRead).unwrap();
    assert!(reader.open(Path::new("inside/file")).is_ok());
}

fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

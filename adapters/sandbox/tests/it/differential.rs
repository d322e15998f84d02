//! The same random work, in the sandbox and without it, has the same results and leaves the same files.

use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::symlink,
    },
    path::{Path, PathBuf},
};

use proptest::prelude::*;
use satchel_domain::path::Mount;
use satchel_files::NativeRunner;
use satchel_ports::{
    FileAccess, FileProfile, FileRunner, FileWriter,
    file_runner::{FileKind, FileStat, LinkMode, MountDirectory},
};
use satchel_sandbox::SandboxRunner;

#[derive(Debug, Clone)]
enum Operation {
    Stat(PathBuf, bool),
    Read(PathBuf),
    List(PathBuf),
    CreateDirs(PathBuf),
    Enter(PathBuf),
    Create(PathBuf, usize),
    Append(usize),
    Sync,
    SyncDir(PathBuf),
    Link(PathBuf, PathBuf),
    Rename(PathBuf, PathBuf),
    RenameNew(PathBuf, PathBuf),
    RemoveFile(PathBuf),
    RemoveDir(PathBuf),
    /// The work ends and another begins.
    Begin,
}

fn path() -> impl Strategy<Value = PathBuf> {
    let component = prop_oneof![
        12 => "[abc]",
        2 => Just("..".to_owned()),
        1 => Just(".".to_owned()),
        1 => Just(String::new()),
        3 => prop_oneof![Just("in"), Just("up"), Just("out"), Just("loop"), Just("dangling")].prop_map(str::to_owned),
        1 => Just("n".repeat(255)),
        1 => Just("n".repeat(256)),
    ];
    let text = prop::collection::vec(component, 0..4).prop_map(|components| components.join("/").into_bytes());
    let odd = prop_oneof![
        Just(b"\xff\xfe".to_vec()),
        Just(b"a\0b".to_vec()),
        Just(b"/etc/passwd".to_vec()),
        Just("\u{e9}".into()),
        Just("e\u{301}".into()),
    ];
    prop_oneof![9 => text, 1 => odd].prop_map(|bytes| PathBuf::from(OsString::from_vec(bytes)))
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    let bytes = prop_oneof![0_usize..10, Just(262_144), Just(262_145), Just(600_000)];
    prop_oneof![
        (path(), any::<bool>()).prop_map(|(path, follows)| Stat(path, follows)),
        path().prop_map(Read),
        path().prop_map(List),
        path().prop_map(CreateDirs),
        path().prop_map(Enter),
        (path(), bytes.clone()).prop_map(|(path, bytes)| Create(path, bytes)),
        bytes.prop_map(|bytes| Append(bytes + 1)),
        Just(Sync),
        path().prop_map(SyncDir),
        (path(), path()).prop_map(|(from, to)| Link(from, to)),
        (path(), path()).prop_map(|(from, to)| Rename(from, to)),
        (path(), path()).prop_map(|(from, to)| RenameNew(from, to)),
        path().prop_map(RemoveFile),
        path().prop_map(RemoveDir),
        Just(Begin),
    ]
}

/// A mount with links of every kind, and something beside it.
fn plant() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let mount = root.path().join("mount");
    for directory in ["mount/a/b", "outside"] {
        fs::create_dir_all(root.path().join(directory)).unwrap();
    }
    for file in ["mount/a/c", "mount/c", "outside/c"] {
        fs::write(root.path().join(file), file).unwrap();
    }
    for (target, link) in [("a", "in"), ("../c", "a/up"), ("../outside", "out"), ("loop", "loop"), ("none", "dangling")]
    {
        symlink(target, mount.join(link)).unwrap();
    }
    root
}

/// What an operation came to, without what differs between two runs.
type Seen = Result<String, (io::ErrorKind, Option<i32>)>;

fn perform(runner: &dyn FileRunner, root: &Path, operations: &[Operation]) -> Vec<Seen> {
    let open = || MountDirectory {
        mount: Mount::Shared,
        directory: File::open(root.join("mount")).unwrap(),
        access: FileAccess::Owner,
    };
    let mut writer = runner.writer(open()).unwrap();
    let mut seen = Vec::new();
    for operation in operations {
        let result = match operation {
            Operation::Stat(path, follows) => {
                let links = if *follows { LinkMode::Follow } else { LinkMode::Keep };
                writer.stat(path, links).map(|stat| describe(&stat))
            }
            Operation::Read(path) => read(runner, open(), path),
            Operation::List(path) => {
                let reader = runner.reader(open(), FileProfile::FileReadOnly);
                reader.and_then(|mut reader| reader.list(path)).map(|mut names| {
                    names.sort();
                    format!("{names:?}")
                })
            }
            Operation::Begin => {
                writer = runner.writer(open()).unwrap();
                Ok(String::new())
            }
            other => change(&mut *writer, other).map(|()| String::new()),
        };
        seen.push(result.map_err(|error| (error.kind(), error.raw_os_error())));
    }
    seen
}

fn change(writer: &mut dyn FileWriter, operation: &Operation) -> io::Result<()> {
    match operation {
        Operation::CreateDirs(path) => writer.create_dirs(path),
        Operation::Enter(path) => writer.enter(path),
        Operation::Create(path, bytes) => {
            writer.create(path)?;
            writer.write(&vec![b'c'; *bytes])
        }
        Operation::Append(bytes) => writer.write(&vec![b'a'; *bytes]),
        Operation::Sync => writer.sync(),
        Operation::SyncDir(path) => writer.sync_dir(path),
        Operation::Link(from, to) => writer.link(from, to),
        Operation::Rename(from, to) => writer.rename(from, to),
        Operation::RenameNew(from, to) => writer.rename_new(from, to),
        Operation::RemoveFile(path) => writer.remove_file(path),
        Operation::RemoveDir(path) => writer.remove_dir(path),
        Operation::Stat(..) | Operation::Read(_) | Operation::List(_) | Operation::Begin => Ok(()),
    }
}

fn read(runner: &dyn FileRunner, mount: MountDirectory, path: &Path) -> io::Result<String> {
    let mut reader = runner.reader(mount, FileProfile::FileReadOnly)?;
    let stat = reader.open(path)?;
    if stat.kind != FileKind::File {
        return Ok(describe(&stat));
    }
    let mut buffer = vec![0; 700_000];
    let length = reader.read(&mut buffer)?;
    Ok(format!("{} {:?}", describe(&stat), String::from_utf8_lossy(&buffer[..length])))
}

fn describe(stat: &FileStat) -> String {
    format!("{:?} {}", stat.kind, stat.bytes)
}

/// Everything beneath a directory, with its bytes.
fn snapshot(root: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let (mut all, mut pending) = (Vec::new(), vec![root.to_owned()]);
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            let bytes = match kind {
                kind if kind.is_file() => fs::read(&path).unwrap(),
                kind if kind.is_symlink() => fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec(),
                _ => {
                    pending.push(path.clone());
                    Vec::new()
                }
            };
            all.push((path.strip_prefix(root).unwrap().to_owned(), bytes));
        }
    }
    all.sort();
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn sandbox_and_reference_agree(operations in prop::collection::vec(operation(), 1..30)) {
        use std::sync::LazyLock;
        static SANDBOX: LazyLock<SandboxRunner> = LazyLock::new(SandboxRunner::default);
        let (sandboxed, native) = (plant(), plant());
        let seen = perform(&*SANDBOX, sandboxed.path(), &operations);
        let expected = perform(&NativeRunner, native.path(), &operations);
        for ((seen, expected), operation) in seen.iter().zip(&expected).zip(&operations) {
            prop_assert_eq!(seen, expected, "{:?}", operation);
        }
        prop_assert_eq!(snapshot(sandboxed.path()), snapshot(native.path()));
        let outside = snapshot(&sandboxed.path().join("outside"));
        prop_assert_eq!(outside, [(PathBuf::from("c"), b"outside/c".to_vec())]);
    }
}

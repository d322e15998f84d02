//! A small disk of a test's own: a tmpfs in a mount namespace that ends with the test.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
};

use tempfile::TempDir;

/// The namespaces that are tried: with one for users anybody may mount, without it only the superuser.
const NAMESPACES: [&[&str]; 2] = [&["--user", "--map-root-user", "--mount"], &["--mount"]];

/// A disk that the test reaches through the shell that has mounted it.
pub struct PrivateDisk {
    /// Lives in the namespace and ends with its standard input.
    shell: Child,
    answers: BufReader<ChildStdout>,
    /// Where it is mounted in the namespace.
    _mount_point: TempDir,
    path: PathBuf,
}

impl PrivateDisk {
    /// Mounts one of this size.
    ///
    /// # Errors
    /// With what the test needs.
    pub fn mount(mib: u64) -> Result<Self, String> {
        let mounted = NAMESPACES.into_iter().find_map(|namespaces| Self::mount_in(namespaces, mib));
        mounted.ok_or_else(|| "`unshare` and the right to mount a tmpfs in a namespace".to_owned())
    }

    fn mount_in(namespaces: &[&str], mib: u64) -> Option<Self> {
        let mount_point = tempfile::tempdir().unwrap();
        let mut command = Command::new("unshare");
        command.args(namespaces).arg("sh").env("MOUNT_POINT", mount_point.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut shell = command.spawn().ok()?;
        let answers = BufReader::new(shell.stdout.take().unwrap());
        let beneath = mount_point.path().strip_prefix("/").unwrap();
        let path = PathBuf::from(format!("/proc/{}/root", shell.id())).join(beneath);
        let mut disk = Self { shell, answers, _mount_point: mount_point, path };
        let is_mounted = disk.run(&format!("mount -t tmpfs -o size={mib}m,mode=0700 tmpfs \"$MOUNT_POINT\""));
        (is_mounted && fs::read_dir(&disk.path).is_ok()).then_some(disk)
    }

    /// The disk's directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lets nobody write to the disk any more.
    pub fn make_read_only(&mut self) {
        assert!(self.run("mount -o remount,ro \"$MOUNT_POINT\""), "no file is open for writing");
    }

    /// Lets everybody write to the disk again.
    pub fn make_writable(&mut self) {
        assert!(self.run("mount -o remount,rw \"$MOUNT_POINT\""), "the disk is mounted");
    }

    /// Runs a command in the namespace; returns whether it succeeded.
    fn run(&mut self, command: &str) -> bool {
        // Where no namespace may be made, there is no shell.
        let input = self.shell.stdin.as_mut().unwrap();
        let mut answer = String::new();
        let written = writeln!(input, "{command} && echo done || echo failed").and_then(|()| input.flush());
        written.is_ok() && self.answers.read_line(&mut answer).is_ok() && answer.trim() == "done"
    }
}

impl Drop for PrivateDisk {
    fn drop(&mut self) {
        // With the shell the disk is gone.
        drop(self.shell.stdin.take());
        let _status = self.shell.wait();
    }
}

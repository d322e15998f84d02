//! A disk of a few MiB that one test has for itself: a tmpfs in a mount namespace of its own.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use satchel_system::real_binary::{ProcessOutput, TestHome, run_to_end};

/// The file that takes up room.
const FILLER_FILE: &str = "filler";

/// The namespaces that are tried: with one for users anybody may mount, without it only the superuser.
const NAMESPACES: [&[&str]; 2] = [&["--user", "--map-root-user", "--mount"], &["--mount"]];

/// A disk at the data directory of a household, seen only by what is started with [`SmallDisk::command`].
pub(crate) struct SmallDisk {
    /// Keeps the namespace and ends with its standard input.
    holder: Child,
    namespaces: &'static [&'static str],
    mount_point: PathBuf,
}

impl SmallDisk {
    /// Mounts one of this size.
    ///
    /// The error says what the test needs.
    pub(crate) fn mount(home: &TestHome, mib: u64) -> Result<Self, String> {
        std::fs::create_dir(home.data_directory()).expect("a household has no data yet");
        let mounted =
            NAMESPACES.into_iter().find_map(|namespaces| Self::mount_in(namespaces, home.data_directory(), mib));
        mounted.ok_or_else(|| "`unshare`, `nsenter` and the right to mount a tmpfs in a namespace".to_owned())
    }

    fn mount_in(namespaces: &'static [&'static str], mount_point: PathBuf, mib: u64) -> Option<Self> {
        let script = format!("mount -t tmpfs -o size={mib}m,mode=0700 tmpfs \"$0\" && echo mounted && exec cat");
        let mut command = Command::new("unshare");
        command.args(namespaces).args(["sh", "-c", &script]).arg(&mount_point);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut holder = command.spawn().ok()?;
        let mut line = String::new();
        let out = holder.stdout.as_mut().expect("it is piped");
        let is_mounted = BufReader::new(out).read_line(&mut line).is_ok_and(|_| line.trim() == "mounted");
        let disk = Self { holder, namespaces, mount_point };
        (is_mounted && disk.run_script("true").status.success()).then_some(disk)
    }

    /// A program of the household that sees the disk, in its working directory.
    pub(crate) fn command(&self, home: &TestHome, program: &Path, arguments: &[&str]) -> Command {
        let mut command = self.namespace_command();
        home.apply_to(&mut command);
        command.args(["sh", "-c", "cd \"$0\" && exec \"$@\""]).arg(home.work_directory()).arg(program).args(arguments);
        command
    }

    /// How many bytes are free.
    pub(crate) fn free_bytes(&self) -> u64 {
        let free = self.run_script("df --block-size=1 --output=avail . | tail -n 1").stdout;
        free.trim().parse().expect("`df` tells a number")
    }

    /// Takes up room until so many bytes are free.
    pub(crate) fn fill(&self, free_bytes: u64) {
        let bytes = self.free_bytes().checked_sub(free_bytes).expect("there is more room than is to be left");
        self.run_script(&format!("head -c {bytes} /dev/zero > {FILLER_FILE}"));
        assert!(self.free_bytes() <= free_bytes, "{} of {free_bytes} bytes are free", self.free_bytes());
    }

    /// Gives that room back.
    pub(crate) fn remove_filler(&self) {
        assert!(self.run_script(&format!("rm {FILLER_FILE}")).status.success(), "the filler is there");
    }

    /// The SHA-256 of a file on the disk, as a program tells it that has nothing to do with ours.
    pub(crate) fn sha256(&self, path: &str) -> String {
        self.run_script(&format!("sha256sum {path}")).stdout.split_whitespace().next().unwrap_or_default().to_owned()
    }

    fn run_script(&self, script: &str) -> ProcessOutput {
        run_to_end(
            self.namespace_command().args(["sh", "-c", &format!("cd \"$0\" && {script}")]).arg(&self.mount_point),
        )
    }

    fn namespace_command(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.holder.id().to_string(), "--mount"]);
        if self.namespaces.contains(&"--user") {
            command.args(["--user", "--preserve-credentials"]);
        }
        command
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // With its end the disk is gone.
        drop(self.holder.stdin.take());
        let _status = self.holder.wait();
    }
}

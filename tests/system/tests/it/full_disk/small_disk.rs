//! A disk of a few MiB that one test has for itself: a tmpfs in a mount namespace of its own.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use satchel_system::real_binary::{Household, Ran, finish};

/// The file that takes up room.
const FILLER: &str = "filler";

/// The namespaces that are tried: with one for users anybody may mount, without it only the superuser.
const NAMESPACES: [&[&str]; 2] = [&["--user", "--map-root-user", "--mount"], &["--mount"]];

/// A disk at the data directory of a household, seen only by what is started with [`SmallDisk::command`].
pub(super) struct SmallDisk {
    /// Keeps the namespace and ends with its standard input.
    holder: Child,
    namespaces: &'static [&'static str],
    place: PathBuf,
}

impl SmallDisk {
    /// Mounts one of this size.
    ///
    /// The error says what the test needs.
    pub(super) fn mount(household: &Household, mib: u64) -> Result<Self, String> {
        std::fs::create_dir(household.data()).expect("a household has no data yet");
        let mounted = NAMESPACES.into_iter().find_map(|namespaces| Self::mount_in(namespaces, household.data(), mib));
        mounted.ok_or_else(|| "`unshare`, `nsenter` and the right to mount a tmpfs in a namespace".to_owned())
    }

    fn mount_in(namespaces: &'static [&'static str], place: PathBuf, mib: u64) -> Option<Self> {
        let script = format!("mount -t tmpfs -o size={mib}m,mode=0700 tmpfs \"$0\" && echo mounted && exec cat");
        let mut command = Command::new("unshare");
        command.args(namespaces).args(["sh", "-c", &script]).arg(&place);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut holder = command.spawn().ok()?;
        let mut line = String::new();
        let out = holder.stdout.as_mut().expect("it is piped");
        let mounted = BufReader::new(out).read_line(&mut line).is_ok_and(|_| line.trim() == "mounted");
        let disk = Self { holder, namespaces, place };
        (mounted && disk.run("true").status.success()).then_some(disk)
    }

    /// A program of the household that sees the disk, in its working directory.
    pub(super) fn command(&self, household: &Household, program: &Path, arguments: &[&str]) -> Command {
        let mut command = self.enter();
        household.at_home(&mut command);
        command.args(["sh", "-c", "cd \"$0\" && exec \"$@\""]).arg(household.work()).arg(program).args(arguments);
        command
    }

    /// How many bytes are free.
    pub(super) fn free(&self) -> u64 {
        let free = self.run("df --block-size=1 --output=avail . | tail -n 1").stdout;
        free.trim().parse().expect("`df` tells a number")
    }

    /// Takes up room until so many bytes are free.
    pub(super) fn fill(&self, leave: u64) {
        let bytes = self.free().checked_sub(leave).expect("there is more room than is to be left");
        self.run(&format!("head -c {bytes} /dev/zero > {FILLER}"));
        assert!(self.free() <= leave, "{} of {leave} bytes are free", self.free());
    }

    /// Gives that room back.
    pub(super) fn clear(&self) {
        assert!(self.run(&format!("rm {FILLER}")).status.success(), "the filler is there");
    }

    /// The SHA-256 of a file on the disk, as a program tells it that has nothing to do with ours.
    pub(super) fn sha256(&self, path: &str) -> String {
        self.run(&format!("sha256sum {path}")).stdout.split_whitespace().next().unwrap_or_default().to_owned()
    }

    fn run(&self, script: &str) -> Ran {
        finish(self.enter().args(["sh", "-c", &format!("cd \"$0\" && {script}")]).arg(&self.place))
    }

    fn enter(&self) -> Command {
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

//! The programs with which some tests check Satchel from outside.

use std::process::{Command, Stdio};

/// The programs and the packages that provide them. A test that lacks one is reported as not run.
const REQUIRED_TOOLS: [(&str, &str); 13] = [
    ("strace", "strace"),
    ("tmux", "tmux"),
    ("python3", "python3"),
    ("chromium", "chromium"),
    ("chromedriver", "chromium-driver"),
    ("pip3", "python3-pip"),
    ("espeak-ng", "espeak-ng"),
    ("ffmpeg", "ffmpeg"),
    ("npm", "npm"),
    // The server's own programs are in no directory of the path.
    ("pg_ctlcluster", "postgresql"),
    ("nats-server", "nats-server"),
    ("openssl", "openssl"),
    ("faketime", "faketime"),
];

/// Installs missing programs where it has the rights, otherwise lists the packages to install.
pub(crate) fn install_missing() {
    let missing: Vec<&str> =
        REQUIRED_TOOLS.into_iter().filter(|(program, _)| !is_on_path(program)).map(|(_, package)| package).collect();
    if missing.is_empty() {
        return;
    }
    let reason = match (is_on_path("apt-get"), is_root()) {
        (true, true) if apt_installs(&missing) => {
            println!("installed {}", missing.join(", "));
            return;
        }
        (true, true) => "apt-get could not install them",
        (true, false) => "installing them takes root",
        (false, _) => "there is no apt-get to install them with",
    };
    println!("not installed: {} ({reason}); the tests that need them are not run", missing.join(", "));
}

fn apt_installs(packages: &[&str]) -> bool {
    let succeeds = |arguments: &[&str]| {
        let mut apt = Command::new("apt-get");
        apt.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null());
        apt.status().is_ok_and(|status| status.success())
    };
    let install: Vec<&str> = ["install", "--yes", "--quiet"].into_iter().chain(packages.iter().copied()).collect();
    succeeds(&["update", "--quiet"]) && succeeds(&install)
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

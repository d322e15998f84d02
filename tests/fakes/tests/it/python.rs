//! Clients that others wrote in Python, each driven by a small script in `python/`.
//!
//! What `python/<name>.txt` pins is installed once into the user's cache, never into the checkout.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use satchel_fakes::FakeFile;
use tokio::process::Command;

/// What is installed, and the scripts.
const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python");

/// The longest that an installation, and then a script, may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// A client that is installed.
pub(crate) struct Client {
    name: &'static str,
    installed: PathBuf,
}

impl Client {
    /// Installs what is pinned, once, into a directory that is named after the pins. The error is what a test would need.
    pub(crate) async fn install(name: &'static str) -> Result<Self, String> {
        Self::find_or_install(name).await.map_err(|why| format!("{name} from PyPI, but {why}"))
    }

    async fn find_or_install(name: &'static str) -> Result<Self, String> {
        let requirements = Path::new(PACKAGE).join(format!("{name}.txt"));
        let pinned = std::fs::read(&requirements).map_err(|error| error.to_string())?;
        let digest = FakeFile::of("requirements.txt", "text/plain", pinned).sha256().to_string();
        let home = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
        let cache = home.ok_or("there is no cache directory")?.join("satchel-tests");
        let installed = cache.join(format!("{name}-{}", &digest[..16]));
        if installed.is_dir() {
            return Ok(Self { name, installed });
        }
        let fresh = cache.join(format!("{name}-{}-{}", &digest[..16], std::process::id()));
        let quietly = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        let pip = Command::new("python3")
            .args(quietly)
            .args(["--only-binary=:all:", "--no-deps"])
            .arg("--requirement")
            .arg(&requirements)
            .arg("--target")
            .arg(&fresh)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .status();
        let outcome = match tokio::time::timeout(PATIENCE, pip).await {
            Err(_) => Err("pip took too long".to_owned()),
            Ok(Err(error)) => Err(format!("python3 can't be run: {error}")),
            Ok(Ok(status)) if !status.success() => Err("pip could not install it".to_owned()),
            // Whoever is first has installed it; the same packages twice are no harm.
            Ok(Ok(_)) => std::fs::rename(&fresh, &installed).or(Ok(())),
        };
        // What is left of a failure, or of the slower of two, is in nobody's way once it is gone.
        let _cleared = std::fs::remove_dir_all(&fresh);
        outcome.map(|()| Self { name, installed })
    }

    /// Runs the client's script to its end. Returns what it printed.
    pub(crate) async fn run(&self, arguments: &[&str]) -> String {
        let script = Command::new("python3")
            .arg(Path::new(PACKAGE).join(format!("{}_client.py", self.name)))
            .args(arguments)
            .env("PYTHONPATH", &self.installed)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(PATIENCE, script).await.expect("in time").expect("python3 runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

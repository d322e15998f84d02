//! Clients of a platform that others wrote in Python, each driven by a small script beside its pinned packages.
//!
//! What `<name>.txt` pins is installed once into the user's cache, never into the checkout.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::process::Command;

use crate::FakeFile;

/// The longest that an installation, and then a script, may take.
const PYTHON_TIMEOUT: Duration = Duration::from_secs(120);

/// A client that is installed.
pub struct PythonClient {
    script: PathBuf,
    installed: PathBuf,
}

impl PythonClient {
    /// Installs what `<name>.txt` in this directory pins, once, into a directory that is named after the pins.
    ///
    /// # Errors
    /// What a test would need.
    pub async fn install(directory: &str, name: &str) -> Result<Self, String> {
        Self::find_or_install(Path::new(directory), name).await.map_err(|why| format!("{name} from PyPI, but {why}"))
    }

    async fn find_or_install(directory: &Path, name: &str) -> Result<Self, String> {
        let script = directory.join(format!("{name}_client.py"));
        let requirements = directory.join(format!("{name}.txt"));
        let pinned = std::fs::read(&requirements).map_err(|error| error.to_string())?;
        let digest = FakeFile::from_bytes("requirements.txt", "text/plain", pinned).sha256().to_string();
        let home = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
        let cache = home.ok_or("there is no cache directory")?.join("satchel-tests");
        let installed = cache.join(format!("{name}-{}", &digest[..16]));
        if installed.is_dir() {
            return Ok(Self { script, installed });
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
        let outcome = match tokio::time::timeout(PYTHON_TIMEOUT, pip).await {
            Err(_) => Err("pip took too long".to_owned()),
            Ok(Err(error)) => Err(format!("python3 can't be run: {error}")),
            Ok(Ok(status)) if !status.success() => Err("pip could not install it".to_owned()),
            // Whoever is first has installed it; the same packages twice are no harm.
            Ok(Ok(_)) => std::fs::rename(&fresh, &installed).or(Ok(())),
        };
        // What is left of a failure, or of the slower of two, is in nobody's way once it is gone.
        let _cleared = std::fs::remove_dir_all(&fresh);
        outcome.map(|()| Self { script, installed })
    }

    /// Runs the client's script, `<name>_client.py`, to its end. Returns what it printed.
    ///
    /// # Panics
    /// When it fails.
    pub async fn run(&self, arguments: &[&str]) -> String {
        let script = Command::new("python3")
            .arg(&self.script)
            .args(arguments)
            .env("PYTHONPATH", &self.installed)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(PYTHON_TIMEOUT, script).await.expect("in time").expect("python3 runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

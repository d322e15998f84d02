//! Packages from PyPI, as a requirements file pins them, installed once into the user's cache and never into the checkout.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::process::Command;

use crate::FakeFile;

/// The longest that an installation may take.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(120);

/// Packages that are installed.
#[derive(Debug)]
pub struct PythonPackages {
    installed: PathBuf,
}

impl PythonPackages {
    /// Installs what `<name>.txt` in this directory pins, once, into a directory that is named after the pins.
    ///
    /// # Errors
    /// What a test would need.
    pub async fn install(directory: &str, name: &str) -> Result<Self, String> {
        let installed = find_or_install(Path::new(directory), name).await;
        installed.map(|installed| Self { installed }).map_err(|why| format!("{name} from PyPI, but {why}"))
    }

    /// A command that runs a script with the packages.
    #[must_use]
    pub fn command(&self, script: &Path) -> Command {
        let mut command = Command::new("python3");
        command
            .arg(script)
            .env("PYTHONPATH", &self.installed)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }
}

async fn find_or_install(directory: &Path, name: &str) -> Result<PathBuf, String> {
    let requirements = directory.join(format!("{name}.txt"));
    let pinned = std::fs::read(&requirements).map_err(|error| error.to_string())?;
    let digest = FakeFile::from_bytes("requirements.txt", "text/plain", pinned).sha256().to_string();
    let home = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let cache = home.ok_or("there is no cache directory")?.join("satchel-tests");
    let installed = cache.join(format!("{name}-{}", &digest[..16]));
    if installed.is_dir() {
        return Ok(installed);
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
    let outcome = match tokio::time::timeout(INSTALL_TIMEOUT, pip).await {
        Err(_) => Err("pip took too long".to_owned()),
        Ok(Err(error)) => Err(format!("python3 can't be run: {error}")),
        Ok(Ok(status)) if !status.success() => Err("pip could not install it".to_owned()),
        // Whoever is first has installed it; the same packages twice are no harm.
        Ok(Ok(_)) => std::fs::rename(&fresh, &installed).or(Ok(())),
    };
    // What is left of a failure, or of the slower of two, is in nobody's way once it is gone.
    let _cleared = std::fs::remove_dir_all(&fresh);
    outcome.map(|()| installed)
}

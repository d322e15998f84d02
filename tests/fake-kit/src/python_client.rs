//! Clients of a platform that others wrote in Python, each driven by a small script beside its pinned packages.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use crate::PythonPackages;

/// The longest that a script may take.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(120);

/// A client that is installed.
pub struct PythonClient {
    script: PathBuf,
    packages: PythonPackages,
}

impl PythonClient {
    /// Installs what `<name>.txt` in this directory pins, once.
    ///
    /// # Errors
    /// What a test would need.
    pub async fn install(directory: &str, name: &str) -> Result<Self, String> {
        let packages = PythonPackages::install(directory, name).await?;
        Ok(Self { script: Path::new(directory).join(format!("{name}_client.py")), packages })
    }

    /// Runs the client's script, `<name>_client.py`, to its end. Returns what it printed.
    ///
    /// # Panics
    /// When it fails.
    pub async fn run(&self, arguments: &[&str]) -> String {
        let script = self.packages.command(&self.script).args(arguments).output();
        let output = tokio::time::timeout(SCRIPT_TIMEOUT, script).await.expect("in time").expect("python3 runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

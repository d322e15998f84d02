//! Checks whether the decoder worker is installed and works.

use satchel_decoders::probe;

use super::{FORBIDDEN_WORKER_ADVICE, Finding};
use crate::{adapters::decoder_settings, config::Config};

const CHECK: &str = "documents";

const ADVICE: &str = "put the program satchel-decoder of the same release next to satchel (`cargo xtask worker` builds \
                      it), or set `documents.worker` to its path";

/// Starts the worker once.
pub(super) async fn check_documents(config: &Config) -> Finding {
    let settings = decoder_settings(config);
    if !settings.worker.is_file() {
        let found = format!("only text files can be read: {} not found", settings.worker.display());
        return Finding::warning(CHECK, found, ADVICE);
    }
    match probe(&settings.worker, settings.memory_bytes).await {
        Ok(startup_time) => {
            Finding::ok(CHECK, format!("the decoder worker is ready after {} ms", startup_time.as_millis()))
        }
        Err(error) => {
            let advice = if error.is_forbidden() { FORBIDDEN_WORKER_ADVICE } else { ADVICE };
            Finding::problem(CHECK, format!("documents can't be read: {error}"), advice)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        commands::doctor::FindingLevel,
        config::{ConfigSources, load_text},
    };

    async fn check(worker: &str) -> Finding {
        let directory = tempfile::tempdir().unwrap();
        let sources = ConfigSources { file: None, set: &[], environment: &[], cwd: directory.path() };
        let yaml = format!("documents: {{ worker: {worker} }}\n");
        let loaded = load_text(&directory.path().join("satchel.yaml"), &yaml, &sources).unwrap();
        check_documents(loaded.config()).await
    }

    async fn finding(worker: &str) -> (FindingLevel, String) {
        let finding = check(worker).await;
        (finding.level, finding.found)
    }

    /// A worker that the system forbids to confine itself is installed: to install it again would help nobody.
    #[tokio::test]
    async fn forbidden_worker_is_not_reported_as_missing() {
        let directory = tempfile::tempdir().unwrap();
        let worker = directory.path().join("decoder").display().to_string();
        // By another process: a file that this one has open for writing can't be run.
        let script = "printf '#!/bin/sh\\necho failed to filter the calls to the system >&2\\nexit 3\\n' > \"$1\" \
                      && chmod 755 \"$1\"";
        let made = std::process::Command::new("sh").args(["-c", script, "sh", &worker]).status();
        assert!(made.unwrap().success());
        let Finding { level, found, advice, .. } = check(&worker).await;
        let expected = format!(
            "documents can't be read: the decoder worker `{worker}` is there, but the system forbids what it needs: \
             failed to filter the calls to the system"
        );
        assert_eq!((level, found), (FindingLevel::Problem, expected));
        assert_eq!(advice.as_deref(), Some(FORBIDDEN_WORKER_ADVICE));
    }

    #[tokio::test]
    async fn missing_and_foreign_workers_are_reported() {
        let missing = (FindingLevel::Warning, "only text files can be read: /missing/decoder not found".to_owned());
        assert_eq!(finding("/missing/decoder").await, missing);
        let (level, found) = finding("/bin/echo").await;
        let expected = "documents can't be read: the decoder worker `/bin/echo` doesn't speak as a decoder worker does";
        assert_eq!((level, found.as_str()), (FindingLevel::Problem, expected));
    }
}

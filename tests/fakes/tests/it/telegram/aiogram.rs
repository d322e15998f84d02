//! A second client, written by others: aiogram from PyPI, driven by a small script, where Python is present.
//!
//! Our own adapter and our own fake could share a misreading of the manual; this one reads it for itself. It is
//! installed into the user's cache, never into the checkout. Where it can't be had the test says so and passes.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use satchel_fakes::{
    FakeFile,
    telegram::{Composed, FileKind},
};
use tokio::process::Command;

use crate::telegram::Bot;

/// What is installed, and the script.
const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python");

/// The longest that the installation, and then the script, may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Installs what `requirements.txt` pins, once, into a directory that is named after the file's content.
async fn install() -> Result<PathBuf, String> {
    let pinned = std::fs::read(Path::new(PACKAGE).join("requirements.txt")).map_err(|error| error.to_string())?;
    let digest = FakeFile::of("requirements.txt", "text/plain", pinned).sha256().to_string();
    let home = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let cache = home.ok_or("there is no cache directory")?.join("satchel-tests");
    let installed = cache.join(format!("aiogram-{}", &digest[..16]));
    if installed.is_dir() {
        return Ok(installed);
    }
    let fresh = cache.join(format!("aiogram-{}-{}", &digest[..16], std::process::id()));
    let pip = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:", "--no-deps"])
        .arg("--requirement")
        .arg(Path::new(PACKAGE).join("requirements.txt"))
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
    outcome.map(|()| installed)
}

#[tokio::test]
async fn an_independent_client_sends_edits_polls_and_downloads() {
    let installed = match install().await {
        Ok(installed) => installed,
        Err(why) => {
            println!("not run: aiogram can't be had: {why}");
            return;
        }
    };
    let bot = Bot::start().await;
    let file = FakeFile::generated("report.pdf", "application/pdf", 9, 300_000);
    bot.fake.person_sends(bot.chat, 1001, Composed::file(FileKind::Document, file.clone()).caption("/save this"));
    let script = Command::new("python3")
        .arg(Path::new(PACKAGE).join("aiogram_client.py"))
        .arg(bot.fake.api_url())
        .arg(bot.fake.token())
        .arg(bot.chat.to_string())
        .env("PYTHONPATH", installed)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(PATIENCE, script).await.expect("in time").expect("python3 runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let downloaded = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    assert_eq!(downloaded, file.sha256().to_string(), "what it downloaded");
    assert_eq!(bot.fake.unconfirmed_updates(), 0, "it confirmed what it read");

    let mut reads = bot.reads();
    for file in bot.fake.transcript().messages(bot.chat).iter().filter_map(|message| message.file()) {
        reads = reads.replace(&file.sha256.to_string()[..12], "DIGEST");
    }
    insta::assert_snapshot!(reads);
}

//! Downloads: over HTTP as Telegram's server gives files, on disk as a server of one's own does.

use std::{fs, io::Write, path::Path};

use crate::{
    message::TelegramFile,
    platform_state::PlatformState,
    refusal::{ApiRefusal, bad},
};

/// The file that a path of a download means; clients may write its slash as `%2F`.
pub(crate) fn at<'a>(platform: &'a PlatformState, path: &str) -> Option<&'a TelegramFile> {
    let path = path.replace("%2F", "/").replace("%2f", "/");
    platform.files.values().find(|file| PlatformState::path_of(file) == path)
}

/// Puts a file where a server with `--local` has it, and returns its absolute path.
pub(crate) fn put_on_disk(root: &Path, file: &TelegramFile) -> Result<String, ApiRefusal> {
    let unavailable = || bad("wrong file_id or the file is temporarily unavailable");
    let content = file.content.as_ref().ok_or_else(unavailable)?;
    let path = root.join(PlatformState::path_of(file));
    let write = || {
        fs::create_dir_all(path.parent().expect("it has a folder"))?;
        let mut written = fs::File::create(&path)?;
        content.blocks().try_for_each(|block| written.write_all(&block))
    };
    write().map_err(|_| unavailable())?;
    Ok(path.to_string_lossy().into_owned())
}

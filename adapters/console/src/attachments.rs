//! The files that are attached to the person's next message.

use std::path::{Path, PathBuf};

use satchel_domain::{FileReference, Filename, size};

use crate::{regular_file, sanitizer::clean_line};

/// Files that were attached and not sent yet.
#[derive(Debug, Default)]
pub(crate) struct PendingAttachments {
    files: Vec<FileReference>,
}

impl PendingAttachments {
    /// Attaches a file. Returns its description, or why it was refused.
    pub(crate) async fn attach(&mut self, path: &Path, limit: u64) -> Result<String, String> {
        let display_path = clean_line(&path.display().to_string());
        let Some(reference) = file_reference(path) else {
            return Err(format!("{display_path} was not attached: its path isn't UTF-8; rename the file"));
        };
        if self.files.iter().any(|file| file.locator == reference.locator) {
            return Err(format!("{display_path} is already attached"));
        }
        let (_, bytes) = regular_file::open_regular_file(path)
            .await
            .map_err(|reason| format!("{display_path} was not attached: {reason}"))?;
        if bytes > limit {
            let (bytes, limit) = (size::format_bytes(bytes), size::format_bytes(limit));
            return Err(format!("{display_path} was not attached: it is {bytes}, the limit is {limit}"));
        }
        let description = format!("{} ({})", reference.filename, size::format_bytes(bytes));
        self.files.push(FileReference { bytes: Some(bytes), ..reference });
        Ok(description)
    }

    /// Removes and returns the files, to send them.
    pub(crate) fn drain(&mut self) -> Vec<FileReference> {
        std::mem::take(&mut self.files)
    }

    /// Attaches files again that could not be sent.
    pub(crate) fn restore(&mut self, files: Vec<FileReference>) {
        self.files = files;
    }

    /// Returns the number of attached files.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }
}

/// Returns a reference to a local file; `None` if its path isn't UTF-8.
pub(crate) fn file_reference(path: &Path) -> Option<FileReference> {
    let path: PathBuf = regular_file::to_absolute(path);
    let locator = path.to_str()?.to_owned();
    let filename = Filename::from_untrusted(&path.file_name()?.to_string_lossy());
    Some(FileReference::new(locator, filename))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn unreadable_attachment_is_reported_and_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let (small, large) = (dir.path().join("small.txt"), dir.path().join("large.txt"));
        std::fs::write(&small, b"12345").unwrap();
        std::fs::write(&large, vec![0; 2000]).unwrap();
        let mut pending = PendingAttachments::default();
        assert_eq!(pending.attach(&small, 1000).await, Ok("small.txt (5 B)".to_owned()));
        for (path, reason) in [
            (large, "it is 2 KB, the limit is 1 KB"),
            (dir.path().to_owned(), "it is a directory"),
            (dir.path().join("gone\x1b[2J"), "no such file"),
            (small.clone(), "already attached"),
        ] {
            let told = pending.attach(&path, 1000).await.unwrap_err();
            assert!(told.contains(reason), "{told}");
            assert!(!told.contains('\x1b'), "{told:?}");
            assert_eq!(pending.len(), 1);
        }
        let files = pending.drain();
        assert_eq!((files[0].locator.as_str(), files[0].bytes), (small.to_str().unwrap(), Some(5)));
    }
}

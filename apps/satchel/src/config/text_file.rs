//! Reads the text file that a key names.

use std::{fs::File, io::Read, path::Path};

use satchel_domain::size::format_bytes;

/// Reads a text of at most `max_bytes`.
///
/// # Errors
/// The reason, as text that follows the file's name.
pub(super) fn read_text_file(path: &Path, max_bytes: u64) -> Result<String, String> {
    let read_error = |error: std::io::Error| format!("can't be read: {error}");
    let mut bytes = Vec::new();
    File::open(path).map_err(read_error)?.take(max_bytes + 1).read_to_end(&mut bytes).map_err(read_error)?;
    match bytes.len() as u64 > max_bytes {
        true => Err(format!("is larger than {}", format_bytes(max_bytes))),
        false if bytes.trim_ascii().is_empty() => Err("is blank".to_owned()),
        false => String::from_utf8(bytes).map_err(|_| "is no text in UTF-8".to_owned()),
    }
}

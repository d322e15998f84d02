//! The token of the page if the configuration has none: created once, in a file that only its owner can read.

use std::{fs, io, path::Path};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use secrecy::SecretString;

use crate::{WebError, signing};

/// The random bytes of a token.
const TOKEN_BYTES: usize = 32;

/// The minimum length of a token. Every user of the machine can try to guess it, even if no one else can connect.
pub const MIN_TOKEN_CHARS: usize = 12;

/// The maximum size of a token file; ours has 44 bytes.
const MAX_FILE_BYTES: usize = 4096;

/// Reads the token of the page from its file, or creates one.
///
/// # Errors
/// When the file can be neither read nor created, or contains no token.
pub fn load_or_create_token(path: &Path) -> Result<SecretString, WebError> {
    let io_error =
        |doing: &str, error| WebError::from_io(format!("{doing} the token of the page, {}", path.display()), error);
    match read_token(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        read => return read.map_err(|error| io_error("read", error)),
    }
    let token = signing::random_bytes::<TOKEN_BYTES>().map_err(|error| io_error("make", error))?;
    let line = format!("{}\n", URL_SAFE_NO_PAD.encode(token));
    signing::create_secret_file(path, line.as_bytes()).map_err(|error| io_error("write", error))?;
    // If another process was faster, its token is used.
    read_token(path).map_err(|error| io_error("read", error))
}

fn read_token(path: &Path) -> io::Result<SecretString> {
    let bytes = fs::read(path)?;
    signing::restrict_permissions(path)?;
    let token =
        Some(bytes).filter(|bytes| bytes.len() <= MAX_FILE_BYTES).and_then(|bytes| String::from_utf8(bytes).ok());
    let token = token.map(|text| text.trim().to_owned()).filter(|token| token.chars().count() >= MIN_TOKEN_CHARS);
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, "it contains no token; delete it to get a new one");
    token.map(SecretString::from).ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn a_token_is_made_once_for_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/web-token");
        let made = load_or_create_token(&path).unwrap();
        assert_eq!(made.expose_secret().len(), 43);
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", made.expose_secret()));
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(load_or_create_token(&path).unwrap().expose_secret(), made.expose_secret());
        assert_eq!(mode(), 0o600, "it is closed again");
        let other = load_or_create_token(&dir.path().join("web-token")).unwrap();
        assert_ne!(other.expose_secret(), made.expose_secret());
    }

    #[test]
    fn a_damaged_token_file_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("web-token");
        for damaged in [&b""[..], b"\n", b"short\n", &[0xff; 43], &[b'a'; MAX_FILE_BYTES + 1]] {
            fs::write(&path, damaged).unwrap();
            assert!(load_or_create_token(&path).is_err(), "{damaged:?}");
            assert_eq!(fs::read(&path).unwrap(), damaged, "it is not replaced");
        }
    }
}

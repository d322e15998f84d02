//! Signs what is handed out and comes back: uploads, links, visits. The key is a file of its own.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Serialize, de::DeserializeOwned};
use sha2::Sha256;

use crate::WebError;

/// The key's length in bytes, which is the hash's own.
const KEY_BYTES: usize = 32;

/// The longest text that is looked at; what we sign is far shorter.
const LONGEST: usize = 4096;

/// What a signature is good for; one that was made for an upload opens no link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A file that was uploaded and is to be named by a message.
    Upload,
    /// A link to one file.
    Link,
    /// A visitor who knew the token.
    Visit,
    /// What stands for a secret.
    Mark,
}

impl Purpose {
    fn name(self) -> &'static [u8] {
        match self {
            Self::Upload => b"satchel upload 1",
            Self::Link => b"satchel link 1",
            Self::Visit => b"satchel visit 1",
            Self::Mark => b"satchel mark 1",
        }
    }
}

/// The secret behind every signature.
#[derive(Clone)]
pub(crate) struct SigningKey([u8; KEY_BYTES]);

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SigningKey")
    }
}

impl SigningKey {
    /// Reads the key, or makes one that only its owner can read.
    pub(crate) fn load_or_make(path: &Path) -> Result<Self, WebError> {
        match read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            read => return read.map_err(|error| io_error("read", path, error)),
        }
        let key = random_bytes::<KEY_BYTES>().map_err(|error| io_error("make", path, error))?;
        create_once(path, &key).map_err(|error| io_error("write", path, error))?;
        // Another process may have been faster; then its key is the one.
        read(path).map_err(|error| io_error("read", path, error))
    }

    /// Writes `content` down so that nobody else could have.
    pub(crate) fn sign(&self, purpose: Purpose, content: &impl Serialize) -> String {
        let content = serde_json::to_vec(content).expect("what is signed is plain data");
        let signature = self.mac(purpose, &content).finalize().into_bytes();
        format!("{}.{}", URL_SAFE_NO_PAD.encode(content), URL_SAFE_NO_PAD.encode(signature))
    }

    /// Reads what [`SigningKey::sign`] wrote for the same purpose; `None` for everything else.
    pub(crate) fn read<T: DeserializeOwned>(&self, purpose: Purpose, signed: &str) -> Option<T> {
        if signed.len() > LONGEST {
            return None;
        }
        let (content, signature) = signed.split_once('.')?;
        let content = URL_SAFE_NO_PAD.decode(content).ok()?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        self.mac(purpose, &content).verify_slice(&signature).ok()?;
        serde_json::from_slice(&content).ok()
    }

    /// Tells whether two secrets are the same, in a time that tells nothing else.
    pub(crate) fn same(&self, given: &str, wanted: &str) -> bool {
        let wanted = self.mac(Purpose::Mark, wanted.as_bytes()).finalize().into_bytes();
        self.mac(Purpose::Mark, given.as_bytes()).verify_slice(&wanted).is_ok()
    }

    /// A text that stands for a secret and doesn't tell it.
    pub(crate) fn mark(&self, secret: &str) -> String {
        URL_SAFE_NO_PAD.encode(self.mac(Purpose::Mark, secret.as_bytes()).finalize().into_bytes())
    }

    fn mac(&self, purpose: Purpose, content: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("any length is a key");
        mac.update(purpose.name());
        mac.update(&[0]);
        mac.update(content);
        mac
    }
}

fn read(path: &Path) -> io::Result<SigningKey> {
    let key = fs::read(path)?;
    let wrong = |_| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "it contains no key; delete it to get a new one, which revokes all links",
        )
    };
    let key = SigningKey(key.as_slice().try_into().map_err(wrong)?);
    close_to_others(path)?;
    Ok(key)
}

/// Takes away from others what they may do with a secret file.
pub(crate) fn close_to_others(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(path)?.permissions().mode();
        if mode & 0o077 != 0 {
            tracing::warn!(path = %path.display(), "other users could read a secret of the page; removing their access");
            if let Err(error) = fs::set_permissions(path, fs::Permissions::from_mode(0o600)) {
                tracing::warn!(path = %path.display(), %error, "removing other users' access to a secret of the page failed");
            }
        }
    }
    Ok(())
}

/// Bytes that nobody can guess.
pub(crate) fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes)
}

/// Puts a secret in its file whole or not at all; a file that exists already stays.
pub(crate) fn create_once(path: &Path, secret: &[u8]) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    make_private_directory(directory)?;
    let temporary = temporary_beside(path)?;
    let written = for_the_owner(&temporary).and_then(|mut file| {
        file.write_all(secret)?;
        file.sync_all()?;
        match fs::hard_link(&temporary, path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => File::open(directory)?.sync_all(),
        }
    });
    let _ = fs::remove_file(&temporary);
    written
}

/// A path beside another that nobody else uses: a process's number comes again, in a container at every start.
pub(crate) fn temporary_beside(path: &Path) -> io::Result<PathBuf> {
    Ok(beside(path, &format!("{}.new", URL_SAFE_NO_PAD.encode(random_bytes::<12>()?))))
}

/// Creates a file that nobody but its owner can read.
pub(crate) fn for_the_owner(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Makes a directory, and what is missing above it, that nobody but its owner can look into.
pub(crate) fn make_private_directory(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// The path of a file that lies beside another and has a longer name.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(suffix);
    path.with_file_name(name)
}

fn io_error(doing: &str, path: &Path, error: io::Error) -> WebError {
    WebError::from_io(format!("{doing} the key of the web page, {}", path.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> SigningKey {
        SigningKey([byte; KEY_BYTES])
    }

    #[test]
    fn only_content_signed_for_purpose_is_accepted() {
        let signed = key(1).sign(Purpose::Upload, &"photo");
        assert_eq!(key(1).read::<String>(Purpose::Upload, &signed).as_deref(), Some("photo"));
        let (content, signature) = signed.split_once('.').unwrap();
        let other = URL_SAFE_NO_PAD.encode(br#""photos""#);
        for forged in [
            String::new(),
            ".".to_owned(),
            content.to_owned(),
            format!("{content}."),
            format!("{other}.{signature}"),
            format!("{signed}A"),
            format!("{content}.{}", &signature[..signature.len() - 2]),
            format!("{signed}.{signature}"),
            format!("{}{signed}", "A".repeat(LONGEST)),
        ] {
            assert_eq!(key(1).read::<String>(Purpose::Upload, &forged), None, "{forged}");
        }
        assert_eq!(key(2).read::<String>(Purpose::Upload, &signed), None, "another key");
        assert_eq!(key(1).read::<String>(Purpose::Link, &signed), None, "another purpose");
    }

    #[test]
    fn signing_key_is_created_private_and_reloaded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/web.key");
        let made = SigningKey::load_or_make(&path).unwrap();
        let again = SigningKey::load_or_make(&path).unwrap();
        assert!(made.0 == again.0 && made.0 != [0; KEY_BYTES]);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing else is left");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(), 0o600);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
            SigningKey::load_or_make(&path).unwrap();
            assert_eq!(mode(), 0o600, "it is closed again");
        }
    }

    #[test]
    fn a_damaged_key_is_told_and_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("web.key");
        fs::write(&path, b"short").unwrap();
        assert!(SigningKey::load_or_make(&path).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"short");
    }
}

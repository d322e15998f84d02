//! Signs upload handles, links, logins and URLs with a key that is stored in its own file.

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

/// The maximum size of a signed text that is verified; ours are far shorter.
const MAX_SIGNED_BYTES: usize = 4096;

/// The purpose of a signature; one for an upload is not valid for a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The handle of an uploaded file.
    Upload,
    /// A link to one file.
    Link,
    /// The cookie of a login.
    Login,
    /// What a login needs besides its cookie.
    LoginProof,
    /// The URL of what an element of a page loads.
    Url,
    /// The fingerprint of a secret.
    Fingerprint,
}

impl Purpose {
    fn label(self) -> &'static [u8] {
        match self {
            Self::Upload => b"satchel upload 1",
            Self::Link => b"satchel link 1",
            // Version 1 signed cookies that were a complete login.
            Self::Login => b"satchel visit 2",
            Self::LoginProof => b"satchel login proof 1",
            Self::Url => b"satchel url 1",
            Self::Fingerprint => b"satchel mark 1",
        }
    }
}

/// The key of all signatures.
#[derive(Clone)]
pub(crate) struct SigningKey([u8; KEY_BYTES]);

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SigningKey")
    }
}

impl SigningKey {
    /// Reads the key, or creates one that only its owner can read.
    pub(crate) fn load_or_create(path: &Path) -> Result<Self, WebError> {
        match read_key(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            read => return read.map_err(|error| io_error("read", path, error)),
        }
        let key = random_bytes::<KEY_BYTES>().map_err(|error| io_error("make", path, error))?;
        create_secret_file(path, &key).map_err(|error| io_error("write", path, error))?;
        // If another process was faster, its key is used.
        read_key(path).map_err(|error| io_error("read", path, error))
    }

    /// Serializes and signs `content`.
    pub(crate) fn sign(&self, purpose: Purpose, content: &impl Serialize) -> String {
        let content = serde_json::to_vec(content).expect("what is signed is plain data");
        let signature = self.mac(purpose, &content).finalize().into_bytes();
        format!("{}.{}", URL_SAFE_NO_PAD.encode(content), URL_SAFE_NO_PAD.encode(signature))
    }

    /// Verifies and decodes the result of [`SigningKey::sign`] for the same purpose; `None` for everything else.
    pub(crate) fn verify<T: DeserializeOwned>(&self, purpose: Purpose, signed: &str) -> Option<T> {
        if signed.len() > MAX_SIGNED_BYTES {
            return None;
        }
        let (content, signature) = signed.split_once('.')?;
        let content = URL_SAFE_NO_PAD.decode(content).ok()?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        self.mac(purpose, &content).verify_slice(&signature).ok()?;
        serde_json::from_slice(&content).ok()
    }

    /// Compares two secrets in constant time.
    pub(crate) fn is_same_secret(&self, candidate: &str, expected: &str) -> bool {
        let expected_mac = self.mac(Purpose::Fingerprint, expected.as_bytes()).finalize().into_bytes();
        self.mac(Purpose::Fingerprint, candidate.as_bytes()).verify_slice(&expected_mac).is_ok()
    }

    /// Returns a keyed hash of a secret.
    pub(crate) fn fingerprint(&self, secret: &str) -> String {
        self.create_signature(Purpose::Fingerprint, secret)
    }

    /// Returns the signature of a text, without the text.
    pub(crate) fn create_signature(&self, purpose: Purpose, content: &str) -> String {
        URL_SAFE_NO_PAD.encode(self.mac(purpose, content.as_bytes()).finalize().into_bytes())
    }

    /// Whether this is the result of [`SigningKey::create_signature`] for the same purpose and text, in constant time.
    pub(crate) fn is_signature(&self, purpose: Purpose, content: &str, signature: &str) -> bool {
        let Ok(signature) = URL_SAFE_NO_PAD.decode(signature) else { return false };
        self.mac(purpose, content.as_bytes()).verify_slice(&signature).is_ok()
    }

    fn mac(&self, purpose: Purpose, content: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("any length is a key");
        mac.update(purpose.label());
        mac.update(&[0]);
        mac.update(content);
        mac
    }
}

fn read_key(path: &Path) -> io::Result<SigningKey> {
    let key = fs::read(path)?;
    let invalid = |_| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "it contains no key; delete it to get a new one, which revokes all links",
        )
    };
    let key = SigningKey(key.as_slice().try_into().map_err(invalid)?);
    restrict_permissions(path)?;
    Ok(key)
}

/// Removes other users' access to a secret file.
pub(crate) fn restrict_permissions(path: &Path) -> io::Result<()> {
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

/// Returns cryptographically secure random bytes.
pub(crate) fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes)
}

/// Writes a secret to its file atomically; an existing file is not replaced.
pub(crate) fn create_secret_file(path: &Path, secret: &[u8]) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    make_private_directory(directory)?;
    let temporary = temporary_path(path)?;
    let result = create_private_file(&temporary).and_then(|mut file| {
        file.write_all(secret)?;
        file.sync_all()?;
        match fs::hard_link(&temporary, path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => File::open(directory)?.sync_all(),
        }
    });
    let _ = fs::remove_file(&temporary);
    result
}

/// Returns a unique path beside another. Random, because process ids repeat, in a container at every start.
pub(crate) fn temporary_path(path: &Path) -> io::Result<PathBuf> {
    Ok(sibling_path(path, &format!("{}.new", URL_SAFE_NO_PAD.encode(random_bytes::<12>()?))))
}

/// Creates a file that only its owner can read.
pub(crate) fn create_private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Creates a directory and its missing parents, accessible only to their owner.
pub(crate) fn make_private_directory(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Returns the path of a sibling file, whose name has a further suffix.
pub(crate) fn sibling_path(path: &Path, suffix: &str) -> PathBuf {
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
        assert_eq!(key(1).verify::<String>(Purpose::Upload, &signed).as_deref(), Some("photo"));
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
            format!("{}{signed}", "A".repeat(MAX_SIGNED_BYTES)),
        ] {
            assert_eq!(key(1).verify::<String>(Purpose::Upload, &forged), None, "{forged}");
        }
        assert_eq!(key(2).verify::<String>(Purpose::Upload, &signed), None, "another key");
        assert_eq!(key(1).verify::<String>(Purpose::Link, &signed), None, "another purpose");
    }

    #[test]
    fn only_signature_of_content_and_purpose_is_accepted() {
        let signature = key(1).create_signature(Purpose::Url, "/a");
        assert!(key(1).is_signature(Purpose::Url, "/a", &signature));
        assert!(!key(1).is_signature(Purpose::Url, "/b", &signature), "another text");
        assert!(!key(1).is_signature(Purpose::LoginProof, "/a", &signature), "another purpose");
        assert!(!key(2).is_signature(Purpose::Url, "/a", &signature), "another key");
        for forged in ["", "é", &signature[1..], &format!("{signature}A"), &signature[..signature.len() - 2]] {
            assert!(!key(1).is_signature(Purpose::Url, "/a", forged), "{forged}");
        }
    }

    #[test]
    fn signing_key_is_created_private_and_reloaded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/web.key");
        let made = SigningKey::load_or_create(&path).unwrap();
        let again = SigningKey::load_or_create(&path).unwrap();
        assert!(made.0 == again.0 && made.0 != [0; KEY_BYTES]);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing else is left");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(), 0o600);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
            SigningKey::load_or_create(&path).unwrap();
            assert_eq!(mode(), 0o600, "it is closed again");
        }
    }

    #[test]
    fn a_damaged_key_is_told_and_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("web.key");
        fs::write(&path, b"short").unwrap();
        assert!(SigningKey::load_or_create(&path).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"short");
    }
}

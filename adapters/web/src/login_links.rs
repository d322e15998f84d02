//! Login links: each works once and for ten minutes, no matter which process created it.
//!
//! A valid link is an empty file named by the hash of its secret, so a reader of the directory learns no secret.
//! Redeeming removes the file: of two attempts one succeeds, and the removal is durable before a cookie is set. A
//! process that is killed at any point leaves a link that works once or not at all.
//!
//! The secret is in the fragment of the URL, which reaches no server, proxy, log or `Referer`. A link preview doesn't
//! redeem it, because the page sends the secret in a body.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use satchel_domain::Timestamp;
use sha2::{Digest, Sha256};

use crate::{
    WebError,
    signing::{create_private_file, make_private_directory, random_bytes, sibling_path, temporary_path},
};

/// How long a link works.
pub const LOGIN_LINK_TTL: Duration = Duration::from_secs(10 * 60);

/// How far the clock may have been set back since a link was created.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(60);

/// The random bytes of a secret.
const RANDOM_BYTES: usize = 16;

/// The size of a secret: random bytes, then its creation time.
const SECRET_BYTES: usize = RANDOM_BYTES + size_of::<i64>();

/// The file with the page's address, for links that other processes create.
const ADDRESS_FILE: &str = "address";

/// The file with the fingerprint of the current token.
const TOKEN_FILE: &str = "token";

/// The page that redirects a browser to a link, so that the link is in no process's arguments.
const PAGE_FILE: &str = "open.html";

/// The login links of one data directory.
///
/// Creation and redemption use the wall clock, because two processes compare its times; the clock of either may be ahead
/// of it.
#[derive(Debug, Clone)]
pub struct LoginLinks {
    directory: PathBuf,
    clock: fn() -> Timestamp,
}

impl LoginLinks {
    /// Opens the links that the server with this key accepts.
    #[must_use]
    pub fn new(key_file: &Path) -> Self {
        Self { directory: sibling_path(key_file, "logins"), clock: system_time }
    }

    /// Creates a link; `None` if the page was never served from this data directory.
    ///
    /// # Errors
    /// When it can't be stored.
    pub fn create(&self) -> Result<Option<String>, WebError> {
        self.try_create().map_err(|error| self.io_error("store a login link", error))
    }

    /// Creates a link and a private HTML file that redirects to it; `None` as for [`LoginLinks::create`].
    ///
    /// # Errors
    /// When one of them can't be stored.
    pub fn create_page(&self) -> Result<Option<PathBuf>, WebError> {
        let failed = |error| self.io_error("store a page that opens a login link", error);
        let Some(link) = self.create()? else { return Ok(None) };
        let page = format!(
            "<!doctype html>\n<meta charset=\"utf-8\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
             <meta http-equiv=\"refresh\" content=\"0; url={link}\">\n<title>Satchel</title>\n\
             <p><a href=\"{link}\">Open Satchel</a></p>\n"
        );
        self.replace_file(PAGE_FILE, page.as_bytes()).map_err(failed)?;
        fs::canonicalize(self.directory.join(PAGE_FILE)).map(Some).map_err(failed)
    }

    /// Creates the directory and stores the address of the page. `token` is the token's fingerprint: links created
    /// under another token are revoked.
    pub(crate) fn prepare(&self, origin: &str, token: &str) -> Result<(), WebError> {
        let opened = make_private_directory(&self.directory)
            .and_then(|()| self.revoke_if_token_changed(token))
            .and_then(|()| self.replace_file(ADDRESS_FILE, origin.as_bytes()));
        opened.map_err(|error| self.io_error("note the address of the page", error))
    }

    /// Returns the fingerprint of the token of an earlier start, if that was another one.
    pub(crate) fn earlier_token(&self, token: &str) -> Option<String> {
        fs::read_to_string(self.directory.join(TOKEN_FILE)).ok().filter(|stored| stored != token)
    }

    /// Redeems a link. Returns `false` if it is invalid, used or expired. Returns once that is durable.
    pub(crate) fn redeem(&self, secret: &str) -> io::Result<bool> {
        let now = (self.clock)();
        let Some(created_at) = created_at(secret) else { return Ok(false) };
        match fs::remove_file(self.link_path(secret)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            removed => removed?,
        }
        self.sync_directory()?;
        // A clock that was set back must not extend a link's lifetime.
        Ok(created_at <= now.saturating_add(MAX_CLOCK_SKEW) && now < created_at.saturating_add(LOGIN_LINK_TTL))
    }

    fn revoke_if_token_changed(&self, token: &str) -> io::Result<()> {
        match fs::read_to_string(self.directory.join(TOKEN_FILE)) {
            Ok(stored) if stored == token => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        for entry in fs::read_dir(&self.directory)? {
            match fs::remove_file(entry?.path()) {
                // Another process was faster.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed?,
            }
        }
        // Last, so that a process killed before this starts over.
        self.replace_file(TOKEN_FILE, token.as_bytes())
    }

    fn try_create(&self) -> io::Result<Option<String>> {
        let origin = match fs::read_to_string(self.directory.join(ADDRESS_FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read?,
        };
        self.remove_expired()?;
        let mut secret = random_bytes::<RANDOM_BYTES>()?.to_vec();
        secret.extend((self.clock)().0.to_be_bytes());
        let secret = URL_SAFE_NO_PAD.encode(secret);
        create_private_file(&self.link_path(&secret))?.sync_all()?;
        self.sync_directory()?;
        Ok(Some(format!("{origin}/#login={secret}")))
    }

    /// Removes expired links to free their space.
    fn remove_expired(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let modified = entry.metadata().and_then(|metadata| metadata.modified());
            let is_old = modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > 2 * LOGIN_LINK_TTL));
            if is_old && entry.file_name() != ADDRESS_FILE && entry.file_name() != TOKEN_FILE {
                // Another process may have been faster.
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(())
    }

    /// Replaces a file atomically.
    fn replace_file(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let path = self.directory.join(name);
        let temporary = temporary_path(&path)?;
        let mut file = create_private_file(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, &path)?;
        self.sync_directory()
    }

    fn link_path(&self, secret: &str) -> PathBuf {
        let digest: String = Sha256::digest(secret).iter().map(|byte| format!("{byte:02x}")).collect();
        self.directory.join(digest)
    }

    fn sync_directory(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }

    fn io_error(&self, doing: &str, error: io::Error) -> WebError {
        WebError::from_io(format!("{doing} in {}", self.directory.display()), error)
    }
}

/// Returns the creation time in a secret; `None` if it is malformed.
fn created_at(secret: &str) -> Option<Timestamp> {
    let bytes: [u8; SECRET_BYTES] = URL_SAFE_NO_PAD.decode(secret).ok()?.try_into().ok()?;
    let (_, millis) = bytes.split_at(RANDOM_BYTES);
    let millis: [u8; size_of::<i64>()] = millis.try_into().ok()?;
    Some(Timestamp(i64::from_be_bytes(millis)))
}

fn system_time() -> Timestamp {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const NOW: Timestamp = Timestamp(1_800_000_000_000);

    fn links(dir: &tempfile::TempDir) -> LoginLinks {
        let links = LoginLinks { clock: || NOW, ..LoginLinks::new(&dir.path().join("web-key")) };
        links.prepare("http://127.0.0.1:8787", "the token").unwrap();
        links
    }

    fn secret(links: &LoginLinks) -> String {
        let link = links.create().unwrap().unwrap();
        link.strip_prefix("http://127.0.0.1:8787/#login=").unwrap().to_owned()
    }

    #[test]
    fn a_login_link_works_once() {
        let dir = tempfile::tempdir().unwrap();
        let links = links(&dir);
        let [first, second] = [secret(&links), secret(&links)];
        assert!(links.redeem(&first).unwrap());
        assert!(!links.redeem(&first).unwrap(), "a replay");
        let restarted = self::links(&dir);
        assert!(!restarted.redeem(&first).unwrap(), "a replay after a restart");
        assert!(restarted.redeem(&second).unwrap(), "a link of another process");
    }

    #[test]
    fn link_is_void_once_the_token_changed() {
        let dir = tempfile::tempdir().unwrap();
        let links = links(&dir);
        let [kept, void] = [secret(&links), secret(&links)];
        links.prepare("http://127.0.0.1:8787", "the token").unwrap();
        assert!(links.redeem(&kept).unwrap(), "a restart with the same token");
        assert_eq!(links.earlier_token("another token").as_deref(), Some("the token"));
        links.prepare("http://127.0.0.1:8787", "another token").unwrap();
        assert_eq!(links.earlier_token("another token"), None);
        assert!(!links.redeem(&void).unwrap());
        assert!(links.redeem(&secret(&links)).unwrap(), "a link made under the new token");
    }

    #[test]
    fn of_many_who_try_a_link_one_succeeds() {
        let dir = tempfile::tempdir().unwrap();
        let links = links(&dir);
        let secret = secret(&links);
        let attempts: Vec<bool> = std::thread::scope(|scope| {
            let tries: Vec<_> = (0..16).map(|_| scope.spawn(|| links.redeem(&secret).unwrap())).collect();
            tries.into_iter().map(|attempt| attempt.join().unwrap()).collect()
        });
        assert_eq!(attempts.into_iter().filter(|redeemed| *redeemed).count(), 1);
    }

    #[test]
    fn a_login_link_expires_whatever_the_clock_does() {
        let dir = tempfile::tempdir().unwrap();
        let links = links(&dir);
        let cases: [(fn() -> Timestamp, bool); 5] = [
            (|| NOW, true),
            (|| Timestamp(NOW.0 + 599_999), true),
            (|| Timestamp(NOW.0 + 600_000), false),
            (|| Timestamp(NOW.0 - 59_000), true),
            (|| Timestamp(NOW.0 - 3_600_000), false),
        ];
        for (clock, works) in cases {
            let secret = secret(&links);
            let later = LoginLinks { clock, ..links.clone() };
            assert_eq!(later.redeem(&secret).unwrap(), works, "{}", clock().0 - NOW.0);
            assert!(!links.redeem(&secret).unwrap(), "it is used up all the same");
        }
    }

    #[test]
    fn a_forged_secret_opens_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let links = links(&dir);
        let secret = secret(&links);
        let newer = URL_SAFE_NO_PAD.encode([[0; RANDOM_BYTES].as_slice(), &NOW.0.to_be_bytes()].concat());
        for forged in ["", "..", "address", "../web-key", &secret[1..], &format!("{secret}A"), &newer, "é"] {
            assert!(!links.redeem(forged).unwrap(), "{forged}");
        }
        assert!(links.redeem(&secret).unwrap());
    }

    #[test]
    fn the_directory_holds_no_secret_and_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let links = links(&dir);
        let secret = secret(&links);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&links.directory), 0o700);
        for entry in fs::read_dir(&links.directory).unwrap() {
            let path = entry.unwrap().path();
            assert_eq!(mode(&path), 0o600);
            assert!(!path.display().to_string().contains(&secret));
            assert!(!fs::read_to_string(&path).unwrap().contains(&secret));
        }
        let page = links.create_page().unwrap().unwrap();
        assert!(page.is_absolute() && mode(&page) == 0o600);
        let page = fs::read_to_string(page).unwrap();
        let other = page.split_once("#login=").unwrap().1.split('"').next().unwrap();
        assert!(links.redeem(other).unwrap(), "{page}");
    }

    #[test]
    fn no_login_link_before_page_is_served() {
        let dir = tempfile::tempdir().unwrap();
        let links = LoginLinks::new(&dir.path().join("web-key"));
        assert_eq!(links.create().unwrap(), None);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is made");
    }
}

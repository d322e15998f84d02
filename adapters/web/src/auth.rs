//! Authentication by token or login cookie; with `web.token: off` everyone on this machine is authorized.

use std::{
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::http::{HeaderMap, HeaderValue, header};
use satchel_domain::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use crate::{
    failed_logins::FailedLogins,
    problem::Problem,
    signing::{Purpose, SigningKey},
};

/// How long a login lasts.
const COOKIE_TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);

#[derive(Debug)]
pub(crate) struct Authenticator {
    key: SigningKey,
    token: Option<SecretString>,
    cookie_name: String,
    secure: bool,
    failed_logins: Mutex<FailedLogins>,
}

/// The content of a login cookie.
#[derive(Debug, Serialize, Deserialize)]
struct LoginCookie {
    since: Timestamp,
    /// The fingerprint of the token: a new token invalidates all logins.
    token: String,
}

impl Authenticator {
    /// Creates an authenticator. `port` separates the cookies of two instances on one machine, which browsers don't.
    pub(crate) fn new(key: SigningKey, token: Option<SecretString>, port: u16, secure: bool) -> Self {
        let prefix = if secure { "__Host-" } else { "" };
        Self { key, token, cookie_name: format!("{prefix}satchel-{port}"), secure, failed_logins: Mutex::default() }
    }

    /// Whether a token is required.
    pub(crate) fn needs_token(&self) -> bool {
        self.token.is_some()
    }

    /// Verifies a token. The correct one is always accepted, regardless of failed logins before.
    pub(crate) fn verify_token(&self, candidate: &str, client: IpAddr) -> Result<(), Problem> {
        match &self.token {
            Some(token) if !self.key.is_same_secret(candidate, token.expose_secret()) => {
                Err(self.record_failure(client, Problem::invalid_token()))
            }
            _ => Ok(()),
        }
    }

    /// Counts a failed login. Returns `refusal`, or after too many failures how long to wait.
    pub(crate) fn record_failure(&self, client: IpAddr, refusal: Problem) -> Problem {
        let mut failed_logins = self.failed_logins.lock().unwrap_or_else(PoisonError::into_inner);
        match failed_logins.record(client, Instant::now()) {
            Ok(()) => refusal,
            Err(wait) => Problem::too_many_attempts(wait),
        }
    }

    /// Creates a login cookie.
    pub(crate) fn create_cookie(&self, now: Timestamp) -> HeaderValue {
        let claims = self.key.sign(Purpose::Login, &LoginCookie { since: now, token: self.token_fingerprint() });
        let secure = if self.secure { "; Secure" } else { "" };
        let cookie = format!(
            "{}={claims}; Path=/; Max-Age={}; HttpOnly; SameSite=Strict{secure}",
            self.cookie_name,
            COOKIE_TTL.as_secs()
        );
        HeaderValue::try_from(cookie).expect("a signed text is plain ASCII")
    }

    /// Whether a request is authorized. Invalid credentials count as a failed login only if there are no valid ones.
    pub(crate) fn is_authorized(&self, headers: &HeaderMap, client: IpAddr, now: Timestamp) -> Result<bool, Problem> {
        if !self.needs_token() {
            return Ok(true);
        }
        let mut is_forged = false;
        for cookie in self.cookie_values(headers) {
            match self.key.verify::<LoginCookie>(Purpose::Login, cookie) {
                Some(claims)
                    if now.saturating_duration_since(claims.since) < COOKIE_TTL
                        && claims.token == self.token_fingerprint() =>
                {
                    return Ok(true);
                }
                // An expired cookie is not a guess.
                claims => is_forged |= claims.is_none(),
            }
        }
        match bearer_token(headers) {
            Some(candidate) => self.verify_token(candidate, client).map(|()| true),
            None if is_forged => Err(self.record_failure(client, Problem::unauthorized())),
            None => Ok(false),
        }
    }

    /// Returns the values of all cookies with our name; a browser sends several if they were set for several paths.
    fn cookie_values<'a>(&self, headers: &'a HeaderMap) -> impl Iterator<Item = &'a str> {
        let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
        let cookies = lines.flat_map(|line| line.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
        cookies.filter(|(name, _)| *name == self.cookie_name).map(|(_, value)| value)
    }

    fn token_fingerprint(&self) -> String {
        let token = self.token.as_ref().map(ExposeSecret::expose_secret).unwrap_or_default();
        self.key.fingerprint(token)
    }
}

fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn access(key: &SigningKey, token: &str) -> Authenticator {
        Authenticator::new(key.clone(), Some(SecretString::from(token)), 8787, true)
    }

    fn key() -> SigningKey {
        SigningKey::load_or_create(&tempfile::tempdir().unwrap().path().join("key")).unwrap()
    }

    fn with_cookie(cookie: &HeaderValue) -> HeaderMap {
        let pair = cookie.to_str().unwrap().split(';').next().unwrap();
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("theme=dark"));
        headers.append(header::COOKIE, HeaderValue::try_from(format!("a=b; {pair}")).unwrap());
        headers
    }

    #[test]
    fn cookie_lasts_a_month_unless_token_changes() {
        let key = key();
        let door = access(&key, "open sesame");
        let cookie = door.create_cookie(Timestamp(1_000));
        let text = cookie.to_str().unwrap();
        assert!(text.starts_with("__Host-satchel-8787="), "{text}");
        for flag in ["; Path=/", "; HttpOnly", "; SameSite=Strict", "; Secure"] {
            assert!(text.contains(flag), "{text}");
        }
        assert!(!text.contains("sesame"));
        let headers = with_cookie(&cookie);
        let admits = |door: &Authenticator, at| door.is_authorized(&headers, HERE, Timestamp(at)).unwrap();
        assert!(admits(&door, 2_000));
        assert!(!admits(&door, 1_000 + COOKIE_TTL.as_millis() as i64), "it is too old");
        assert!(!admits(&access(&key, "another token"), 2_000));
        let other = access(&self::key(), "open sesame");
        assert!(other.is_authorized(&headers, HERE, Timestamp(2_000)).is_err(), "another key");
        assert!(!door.is_authorized(&HeaderMap::new(), HERE, Timestamp(0)).unwrap());
    }

    #[test]
    fn right_secret_is_taken_whatever_was_wrong_before() {
        let door = access(&key(), "open sesame");
        let codes: Vec<_> = (0..1_000).map(|_| door.verify_token("guess", HERE).unwrap_err().code()).collect();
        assert_eq!((codes[0], codes[999]), ("wrong_token", "too_many_attempts"));
        assert!(door.verify_token("open sesame", HERE).is_ok());
        let headers = with_cookie(&door.create_cookie(Timestamp(0)));
        assert!(door.is_authorized(&headers, HERE, Timestamp(0)).unwrap());
    }

    #[test]
    fn forged_cookie_counts_and_expired_one_does_not() {
        let key = key();
        let door = access(&key, "open sesame");
        let expired = with_cookie(&access(&key, "the token before").create_cookie(Timestamp(0)));
        let forged = with_cookie(&HeaderValue::from_static("__Host-satchel-8787=e30.e30"));
        for _ in 0..100 {
            assert!(!door.is_authorized(&expired, HERE, Timestamp(0)).unwrap());
        }
        let codes: Vec<_> =
            (0..100).map(|_| door.is_authorized(&forged, HERE, Timestamp(0)).unwrap_err().code()).collect();
        assert_eq!((codes[0], codes[99]), ("unauthorized", "too_many_attempts"));
        let mut both = with_cookie(&door.create_cookie(Timestamp(0)));
        both.append(header::COOKIE, HeaderValue::from_static("__Host-satchel-8787=e30.e30"));
        assert!(door.is_authorized(&both, HERE, Timestamp(0)).unwrap());
    }

    #[test]
    fn programs_show_the_token_with_each_request() {
        let door = access(&key(), "open sesame");
        for (header, admitted) in [
            ("Bearer open sesame", Some(true)),
            ("bearer open sesame", Some(true)),
            ("Bearer open", None),
            ("Bearer ", None),
            ("Basic open sesame", Some(false)),
            ("Bearer", Some(false)),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_static(header));
            assert_eq!(door.is_authorized(&headers, HERE, Timestamp(0)).ok(), admitted, "{header}");
        }
    }
}

//! Who may come in: whoever knows the token or has the cookie; everybody on this machine where `web.token` is off.

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

/// How long a visitor stays logged in.
const COOKIE_TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);

#[derive(Debug)]
pub(crate) struct Authenticator {
    key: SigningKey,
    token: Option<SecretString>,
    cookie: String,
    secure: bool,
    failed_logins: Mutex<FailedLogins>,
}

/// What a cookie says.
#[derive(Debug, Serialize, Deserialize)]
struct LoginCookie {
    since: Timestamp,
    /// Stands for the token that was given: another token ends all visits.
    token: String,
}

impl Authenticator {
    /// `port` keeps the cookies of two Satchels on one machine apart, since browsers don't.
    pub(crate) fn new(key: SigningKey, token: Option<SecretString>, port: u16, secure: bool) -> Self {
        let prefix = if secure { "__Host-" } else { "" };
        Self { key, token, cookie: format!("{prefix}satchel-{port}"), secure, failed_logins: Mutex::default() }
    }

    /// Whether a token is asked for.
    pub(crate) fn needs_token(&self) -> bool {
        self.token.is_some()
    }

    /// Compares a token. The right one is always taken, however many wrong ones came before it.
    pub(crate) fn verify_token(&self, given: &str, from: IpAddr) -> Result<(), Problem> {
        match &self.token {
            Some(token) if !self.key.same(given, token.expose_secret()) => {
                Err(self.refuse(from, Problem::invalid_token()))
            }
            _ => Ok(()),
        }
    }

    /// Counts a secret that was wrong, and answers with `refusal`, or with how long to wait where there were too many.
    pub(crate) fn refuse(&self, from: IpAddr, refusal: Problem) -> Problem {
        let mut failed_logins = self.failed_logins.lock().unwrap_or_else(PoisonError::into_inner);
        match failed_logins.record(from, Instant::now()) {
            Ok(()) => refusal,
            Err(wait) => Problem::too_many_attempts(wait),
        }
    }

    /// Makes the cookie of a visitor who gave the token.
    pub(crate) fn cookie(&self, now: Timestamp) -> HeaderValue {
        let visit = self.key.sign(Purpose::Visit, &LoginCookie { since: now, token: self.token_fingerprint() });
        let secure = if self.secure { "; Secure" } else { "" };
        let cookie = format!(
            "{}={visit}; Path=/; Max-Age={}; HttpOnly; SameSite=Strict{secure}",
            self.cookie,
            COOKIE_TTL.as_secs()
        );
        HeaderValue::try_from(cookie).expect("a signed text is plain ASCII")
    }

    /// Whether a request comes from somebody who may come in. What it shows that is wrong counts only where nothing is
    /// right.
    pub(crate) fn is_authorized(&self, headers: &HeaderMap, from: IpAddr, now: Timestamp) -> Result<bool, Problem> {
        if !self.needs_token() {
            return Ok(true);
        }
        let mut is_forged = false;
        for cookie in self.cookies(headers) {
            match self.key.read::<LoginCookie>(Purpose::Visit, cookie) {
                Some(visit)
                    if now.saturating_duration_since(visit.since) < COOKIE_TTL
                        && visit.token == self.token_fingerprint() =>
                {
                    return Ok(true);
                }
                // What has expired is no guess.
                visit => is_forged |= visit.is_none(),
            }
        }
        match bearer(headers) {
            Some(given) => self.verify_token(given, from).map(|()| true),
            None if is_forged => Err(self.refuse(from, Problem::unauthorized())),
            None => Ok(false),
        }
    }

    /// The values of all cookies of our name; a browser sends several where they were set for several paths.
    fn cookies<'a>(&self, headers: &'a HeaderMap) -> impl Iterator<Item = &'a str> {
        let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
        let cookies = lines.flat_map(|line| line.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
        cookies.filter(|(name, _)| *name == self.cookie).map(|(_, value)| value)
    }

    fn token_fingerprint(&self) -> String {
        let token = self.token.as_ref().map(ExposeSecret::expose_secret).unwrap_or_default();
        self.key.mark(token)
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
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
        SigningKey::load_or_make(&tempfile::tempdir().unwrap().path().join("key")).unwrap()
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
        let cookie = door.cookie(Timestamp(1_000));
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
        let headers = with_cookie(&door.cookie(Timestamp(0)));
        assert!(door.is_authorized(&headers, HERE, Timestamp(0)).unwrap());
    }

    #[test]
    fn forged_cookie_counts_and_expired_one_does_not() {
        let key = key();
        let door = access(&key, "open sesame");
        let expired = with_cookie(&access(&key, "the token before").cookie(Timestamp(0)));
        let forged = with_cookie(&HeaderValue::from_static("__Host-satchel-8787=e30.e30"));
        for _ in 0..100 {
            assert!(!door.is_authorized(&expired, HERE, Timestamp(0)).unwrap());
        }
        let codes: Vec<_> =
            (0..100).map(|_| door.is_authorized(&forged, HERE, Timestamp(0)).unwrap_err().code()).collect();
        assert_eq!((codes[0], codes[99]), ("unauthorized", "too_many_attempts"));
        let mut both = with_cookie(&door.cookie(Timestamp(0)));
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

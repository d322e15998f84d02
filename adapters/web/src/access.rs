//! Who may come in: whoever knows the token or has the cookie; everybody on this machine where `web.token` is off.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::http::{HeaderMap, HeaderValue, header};
use satchel_domain::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use crate::{
    problem::Problem,
    signing::{Purpose, SigningKey},
};

/// How long a visitor stays logged in.
const VISIT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How many wrong tokens one address may give in a [`WINDOW`].
const WRONG_TOKENS: u32 = 10;

/// After it the wrong tokens of an address are forgotten.
const WINDOW: Duration = Duration::from_secs(60);

/// How many addresses are remembered; for one more the oldest is forgotten.
const ADDRESSES: usize = 1024;

/// The door.
#[derive(Debug)]
pub(crate) struct Access {
    key: SigningKey,
    token: Option<SecretString>,
    cookie: String,
    secure: bool,
    wrong: Mutex<HashMap<IpAddr, Wrong>>,
}

#[derive(Debug, Clone, Copy)]
struct Wrong {
    times: u32,
    since: Instant,
}

/// What a cookie says.
#[derive(Debug, Serialize, Deserialize)]
struct Visit {
    since: Timestamp,
    /// Stands for the token that was given: another token ends all visits.
    token: String,
}

impl Access {
    /// `port` keeps the cookies of two Satchels on one machine apart, since browsers don't.
    pub(crate) fn new(key: SigningKey, token: Option<SecretString>, port: u16, secure: bool) -> Self {
        let prefix = if secure { "__Host-" } else { "" };
        Self { key, token, cookie: format!("{prefix}satchel-{port}"), secure, wrong: Mutex::default() }
    }

    /// Whether a token is asked for.
    pub(crate) fn needs_token(&self) -> bool {
        self.token.is_some()
    }

    /// Compares a token, and counts it where it is wrong.
    pub(crate) fn check(&self, given: &str, from: IpAddr) -> Result<(), Problem> {
        let Some(token) = &self.token else { return Ok(()) };
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        wrong.retain(|_, wrong| now.duration_since(wrong.since) < WINDOW);
        if let Some(known) = wrong.get(&from).filter(|wrong| wrong.times >= WRONG_TOKENS) {
            return Err(Problem::too_many_attempts(WINDOW.saturating_sub(now.duration_since(known.since))));
        }
        if self.key.same(given, token.expose_secret()) {
            return Ok(());
        }
        if wrong.len() >= ADDRESSES && !wrong.contains_key(&from) {
            // All at once would be an offer: whoever has many addresses could have his guesses forgotten.
            let oldest = wrong.iter().min_by_key(|(_, wrong)| wrong.since).map(|(address, _)| *address);
            oldest.and_then(|oldest| wrong.remove(&oldest));
        }
        wrong.entry(from).or_insert(Wrong { times: 0, since: now }).times += 1;
        Err(Problem::wrong_token())
    }

    /// Makes the cookie of a visitor who gave the token.
    pub(crate) fn cookie(&self, now: Timestamp) -> HeaderValue {
        let visit = self.key.sign(Purpose::Visit, &Visit { since: now, token: self.token_mark() });
        let secure = if self.secure { "; Secure" } else { "" };
        let cookie =
            format!("{}={visit}; Path=/; Max-Age={}; HttpOnly; SameSite=Strict{secure}", self.cookie, VISIT.as_secs());
        HeaderValue::try_from(cookie).expect("a signed text is plain ASCII")
    }

    /// Whether a request comes from somebody who may come in.
    pub(crate) fn admits(&self, headers: &HeaderMap, from: IpAddr, now: Timestamp) -> Result<bool, Problem> {
        if !self.needs_token() || self.has_cookie(headers, now) {
            return Ok(true);
        }
        match bearer(headers) {
            Some(given) => self.check(given, from).map(|()| true),
            None => Ok(false),
        }
    }

    fn has_cookie(&self, headers: &HeaderMap, now: Timestamp) -> bool {
        let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
        let mut cookies = lines.flat_map(|line| line.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
        cookies.any(|(name, value)| {
            let visit = || self.key.read::<Visit>(Purpose::Visit, value);
            name == self.cookie
                && visit().is_some_and(|visit| now.since(visit.since) < VISIT && visit.token == self.token_mark())
        })
    }

    fn token_mark(&self) -> String {
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
    const ELSEWHERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn access(key: &SigningKey, token: &str) -> Access {
        Access::new(key.clone(), Some(SecretString::from(token)), 8787, true)
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
    fn a_cookie_lasts_a_month_and_as_long_as_the_token() {
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
        let admits = |door: &Access, at| door.admits(&headers, HERE, Timestamp(at)).unwrap();
        assert!(admits(&door, 2_000));
        assert!(!admits(&door, 1_000 + VISIT.as_millis() as i64), "it is too old");
        assert!(!admits(&access(&key, "another token"), 2_000));
        assert!(!admits(&access(&self::key(), "open sesame"), 2_000), "another key");
        assert!(!door.admits(&HeaderMap::new(), HERE, Timestamp(0)).unwrap());
    }

    #[test]
    fn guessing_is_stopped_where_it_comes_from() {
        let door = access(&key(), "open sesame");
        for _ in 0..WRONG_TOKENS {
            assert_eq!(door.check("guess", ELSEWHERE).unwrap_err().code(), "wrong_token");
        }
        assert_eq!(door.check("open sesame", ELSEWHERE).unwrap_err().code(), "too_many_attempts");
        assert!(door.check("open sesame", HERE).is_ok());
    }

    #[test]
    fn a_crowd_does_not_make_the_door_forget_a_guesser() {
        let door = access(&key(), "open sesame");
        let of_crowd = |number: u32| IpAddr::V4(std::net::Ipv4Addr::from_bits(0x0A00_0000 + number));
        assert_eq!(door.check("guess", HERE).unwrap_err().code(), "wrong_token");
        for _ in 0..WRONG_TOKENS {
            assert_eq!(door.check("guess", ELSEWHERE).unwrap_err().code(), "wrong_token");
        }
        for number in 0..ADDRESSES as u32 - 1 {
            assert_eq!(door.check("guess", of_crowd(number)).unwrap_err().code(), "wrong_token");
        }
        assert_eq!(door.check("open sesame", ELSEWHERE).unwrap_err().code(), "too_many_attempts");
        let wrong = door.wrong.lock().unwrap();
        assert!(wrong.len() == ADDRESSES && !wrong.contains_key(&HERE), "the oldest was forgotten");
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
            assert_eq!(door.admits(&headers, HERE, Timestamp(0)).ok(), admitted, "{header}");
        }
    }
}

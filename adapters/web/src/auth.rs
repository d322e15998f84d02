//! Authentication by the token or by a login; with `web.token: off` everyone on this machine is authorized.
//!
//! A browser sends a cookie to every port of its host, so the server on another port has it, too. A login therefore has two
//! halves (ADR 0041): its cookie, and its proof, which the page keeps in storage of its own origin and sends as a header. For
//! what an element of the page loads by itself, the [signature of its URL](UrlSigner) takes the place of the proof.

use std::{
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::Instant,
};

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue, header},
};
use satchel_domain::LoginId;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use crate::{
    failed_logins::FailedLogins,
    login_registry::{LOGIN_TTL, LoginRegistry},
    problem::Problem,
    signing::{Purpose, SigningKey},
    url_signer::UrlSigner,
};

/// The header with the proof of a login.
const PROOF_HEADER: HeaderName = HeaderName::from_static("x-satchel-login");

#[derive(Debug)]
pub(crate) struct Authenticator {
    key: SigningKey,
    urls: UrlSigner,
    token: Option<SecretString>,
    secure: bool,
    failed_logins: Mutex<FailedLogins>,
}

/// The content of a login cookie.
#[derive(Debug, Serialize, Deserialize)]
struct LoginCookie {
    login: LoginId,
}

/// By what a request is authorized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// By the token, or because none is needed.
    Token,
    /// By a login, which can be ended.
    Login(LoginId),
}

/// What a request shows of who sends it.
#[derive(Debug)]
pub(crate) struct Credentials {
    /// A login with both of its halves, which may have ended.
    login: Option<LoginId>,
    /// Whether there are two halves of a login, and the cookie is not one of ours.
    is_forged: bool,
    token: Option<SecretString>,
    client: IpAddr,
}

impl Authenticator {
    pub(crate) fn new(key: SigningKey, token: Option<SecretString>, secure: bool) -> Self {
        Self { urls: UrlSigner::new(key.clone()), key, token, secure, failed_logins: Mutex::default() }
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

    /// Creates the first half of a login, for a browser that connected to this port.
    pub(crate) fn create_cookie(&self, login: LoginId, port: u16) -> HeaderValue {
        let signed = self.key.sign(Purpose::Login, &LoginCookie { login });
        let secure = if self.secure { "; Secure" } else { "" };
        let cookie = format!(
            "{}={signed}; Path=/; Max-Age={}; HttpOnly; SameSite=Strict{secure}",
            self.cookie_name(port),
            LOGIN_TTL.as_secs()
        );
        HeaderValue::try_from(cookie).expect("a signed text is plain ASCII")
    }

    /// Creates the second half of a login.
    pub(crate) fn create_proof(&self, login: LoginId) -> String {
        self.key.create_signature(Purpose::LoginProof, &login.to_string())
    }

    /// Reads what a request to this port shows of who sends it.
    pub(crate) fn read_credentials(&self, request: &Request, port: u16, client: IpAddr) -> Credentials {
        let headers = request.headers();
        let proof = headers.get(PROOF_HEADER).and_then(|proof| proof.to_str().ok());
        let is_signed = self.urls.is_signed(request.method(), request.uri());
        let is_proof = |login: LoginId| {
            proof.is_some_and(|proof| self.key.is_signature(Purpose::LoginProof, &login.to_string(), proof))
        };
        let (mut login, mut is_forged) = (None, false);
        // Without a second half nobody tries to get in by a cookie: it may be one that another server on this host has set.
        let cookie_name = self.cookie_name(port);
        let cookies = cookie_values(headers, &cookie_name).filter(|_| proof.is_some() || is_signed);
        for cookie in cookies {
            match self.key.verify::<LoginCookie>(Purpose::Login, cookie) {
                Some(cookie) if is_signed || is_proof(cookie.login) => login = Some(cookie.login),
                // A cookie of another login, such as one that another tab has made just now.
                Some(_) => {}
                None => is_forged = true,
            }
        }
        Credentials { login, is_forged, token: bearer_token(headers).map(SecretString::from), client }
    }

    /// Returns by what a request is authorized; `None` if it isn't. Invalid credentials count as a failed login only if
    /// there are no valid ones, and a login that has ended is no guess.
    pub(crate) async fn authorize(
        &self,
        credentials: Credentials,
        logins: &LoginRegistry,
    ) -> Result<Option<Access>, Problem> {
        if !self.needs_token() {
            return Ok(Some(Access::Token));
        }
        let Credentials { login, is_forged, token, client } = credentials;
        if let Some(login) = login
            && logins.check_login(login).await?
        {
            return Ok(Some(Access::Login(login)));
        }
        match token {
            Some(token) => self.verify_token(token.expose_secret(), client).map(|()| Some(Access::Token)),
            None if is_forged => Err(self.record_failure(client, Problem::unauthorized())),
            None => Ok(None),
        }
    }

    /// Returns the name of a login's cookie. The port keeps the cookies of two pages on one host apart, which browsers don't.
    /// It is the client's: two containers listen on the same port, and are published on two.
    fn cookie_name(&self, port: u16) -> String {
        let prefix = if self.secure { "__Host-" } else { "" };
        format!("{prefix}satchel-{port}")
    }
}

/// Returns the values of all cookies with this name; a browser sends several if they were set for several paths.
fn cookie_values<'a>(headers: &'a HeaderMap, wanted: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let cookies = lines.flat_map(|line| line.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
    cookies.filter(move |(name, _)| *name == wanted).map(|(_, value)| value)
}

fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::body::Body;
    use satchel_domain::Timestamp;
    use satchel_ports::{LedgerError, ManualClock, MockLogins, ledger::PageLogin};
    use uuid::Uuid;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    /// The only login that has not ended.
    const LOGIN: LoginId = LoginId(Uuid::from_u128(7));

    const PATH: &str = "/api/conversations/a/files/1";

    const PORT: u16 = 8787;

    fn authenticator(key: &SigningKey) -> Authenticator {
        Authenticator::new(key.clone(), Some(SecretString::from("open sesame")), true)
    }

    fn key() -> SigningKey {
        SigningKey::load_or_create(&tempfile::tempdir().unwrap().path().join("key")).unwrap()
    }

    fn registry() -> LoginRegistry {
        let mut logins = MockLogins::new();
        logins.expect_find_login().returning(|id| {
            let [created_at, used_at, expires_at] = [Timestamp(0); 3];
            let (issuer, client) = (String::new(), String::new());
            Ok((id == LOGIN).then_some(PageLogin { id, issuer, client, created_at, used_at, expires_at }))
        });
        LoginRegistry::new(Arc::new(logins), Arc::new(ManualClock::at(Timestamp(0))), String::new())
    }

    /// A request with these cookies, among others.
    fn request(url: &str, cookies: &[&HeaderValue]) -> Request {
        let mut request = Request::get(url).header(header::COOKIE, "theme=dark").body(Body::empty()).unwrap();
        for cookie in cookies {
            let pair = cookie.to_str().unwrap().split(';').next().unwrap();
            request.headers_mut().append(header::COOKIE, HeaderValue::try_from(format!("a=b; {pair}")).unwrap());
        }
        request
    }

    fn with_proof(mut request: Request, proof: &str) -> Request {
        request.headers_mut().insert(PROOF_HEADER, HeaderValue::try_from(proof).unwrap());
        request
    }

    async fn authorize(authenticator: &Authenticator, request: &Request) -> Result<Option<Access>, &'static str> {
        let credentials = authenticator.read_credentials(request, PORT, HERE);
        authenticator.authorize(credentials, &registry()).await.map_err(|problem| problem.code())
    }

    #[tokio::test]
    async fn login_needs_both_of_its_halves() {
        let key = key();
        let server = authenticator(&key);
        let (cookie, proof) = (server.create_cookie(LOGIN, PORT), server.create_proof(LOGIN));
        let text = cookie.to_str().unwrap();
        assert!(text.starts_with("__Host-satchel-8787="), "{text}");
        for flag in ["; Path=/", "; HttpOnly", "; SameSite=Strict", "; Secure", "; Max-Age=2592000"] {
            assert!(text.contains(flag), "{text}");
        }
        assert!(!text.contains(&proof) && !text.contains("sesame"), "{text}");
        let login = Ok(Some(Access::Login(LOGIN)));
        assert_eq!(authorize(&server, &with_proof(request(PATH, &[&cookie]), &proof)).await, login);
        assert_eq!(
            authorize(&server, &request(PATH, &[&cookie])).await,
            Ok(None),
            "as the server on another port has it"
        );
        assert_eq!(authorize(&server, &with_proof(request(PATH, &[]), &proof)).await, Ok(None));
        let other = server.create_proof(LoginId(Uuid::from_u128(8)));
        assert_eq!(authorize(&server, &with_proof(request(PATH, &[&cookie]), &other)).await, Ok(None));

        let another_key = authenticator(&self::key());
        let shown = with_proof(request(PATH, &[&cookie]), &proof);
        assert_eq!(authorize(&another_key, &shown).await, Err("unauthorized"));
    }

    #[tokio::test]
    async fn signed_url_takes_the_place_of_the_proof() {
        let key = key();
        let (server, urls) = (authenticator(&key), UrlSigner::new(key.clone()));
        let (cookie, url) = (server.create_cookie(LOGIN, PORT), urls.sign_url(PATH));
        assert_eq!(authorize(&server, &request(&url, &[&cookie])).await, Ok(Some(Access::Login(LOGIN))));
        assert_eq!(authorize(&server, &request(&url, &[])).await, Ok(None), "a copied address opens nothing");
        let other = url.replace("/files/1", "/files/2");
        assert_eq!(authorize(&server, &request(&other, &[&cookie])).await, Ok(None));
        let mut removal = request(&url, &[&cookie]);
        *removal.method_mut() = axum::http::Method::DELETE;
        assert_eq!(authorize(&server, &removal).await, Ok(None));
    }

    #[tokio::test]
    async fn ended_login_is_refused_and_no_guess() {
        let server = authenticator(&key());
        let ended = LoginId(Uuid::from_u128(8));
        let cookie = server.create_cookie(ended, PORT);
        let shown = with_proof(request(PATH, &[&cookie]), &server.create_proof(ended));
        for _ in 0..100 {
            assert_eq!(authorize(&server, &shown).await, Ok(None));
        }
        let both =
            with_proof(request(PATH, &[&cookie, &server.create_cookie(LOGIN, PORT)]), &server.create_proof(LOGIN));
        assert_eq!(authorize(&server, &both).await, Ok(Some(Access::Login(LOGIN))));
    }

    #[tokio::test]
    async fn forged_login_counts_and_lone_cookie_does_not() {
        let server = authenticator(&key());
        let forged = HeaderValue::from_static("__Host-satchel-8787=e30.e30");
        for _ in 0..100 {
            assert_eq!(authorize(&server, &request(PATH, &[&forged])).await, Ok(None));
        }
        let shown = with_proof(request(PATH, &[&forged]), "e30");
        let mut refusals = Vec::new();
        for _ in 0..100 {
            refusals.push(authorize(&server, &shown).await);
        }
        assert_eq!((refusals[0], refusals[99]), (Err("unauthorized"), Err("too_many_attempts")));
        let both =
            with_proof(request(PATH, &[&forged, &server.create_cookie(LOGIN, PORT)]), &server.create_proof(LOGIN));
        assert_eq!(authorize(&server, &both).await, Ok(Some(Access::Login(LOGIN))));
    }

    #[tokio::test]
    async fn right_secret_is_taken_whatever_was_wrong_before() {
        let server = authenticator(&key());
        let codes: Vec<_> = (0..1_000).map(|_| server.verify_token("guess", HERE).unwrap_err().code()).collect();
        assert_eq!((codes[0], codes[999]), ("wrong_token", "too_many_attempts"));
        assert!(server.verify_token("open sesame", HERE).is_ok());
        let cookie = server.create_cookie(LOGIN, PORT);
        let shown = with_proof(request(PATH, &[&cookie]), &server.create_proof(LOGIN));
        assert_eq!(authorize(&server, &shown).await, Ok(Some(Access::Login(LOGIN))));
    }

    #[tokio::test]
    async fn failing_ledger_is_neither_login_nor_refusal() {
        let server = authenticator(&key());
        let mut logins = MockLogins::new();
        logins.expect_find_login().returning(|_| {
            Err(LedgerError::Store { operation: "checking a login", source: "the disk is gone".into() })
        });
        let clock = Arc::new(ManualClock::at(Timestamp(0)));
        let failing = LoginRegistry::new(Arc::new(logins), clock, String::new());
        let shown = with_proof(request(PATH, &[&server.create_cookie(LOGIN, PORT)]), &server.create_proof(LOGIN));
        let credentials = server.read_credentials(&shown, PORT, HERE);
        assert_eq!(server.authorize(credentials, &failing).await.unwrap_err().code(), "unavailable");
    }

    #[tokio::test]
    async fn programs_show_the_token_with_each_request() {
        let server = authenticator(&key());
        for (header, expected) in [
            ("Bearer open sesame", Ok(Some(Access::Token))),
            ("bearer open sesame", Ok(Some(Access::Token))),
            ("Bearer open", Err("wrong_token")),
            ("Bearer ", Err("wrong_token")),
            ("Basic open sesame", Ok(None)),
            ("Bearer", Ok(None)),
        ] {
            let mut request = request(PATH, &[]);
            request.headers_mut().insert(header::AUTHORIZATION, HeaderValue::from_static(header));
            assert_eq!(authorize(&server, &request).await, expected, "{header}");
        }
    }
}

//! What every request passes before anything else: is it for us, does it come from our page, may its sender come in.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use satchel_http_server::is_forwarded;

use crate::{problem::Problem, state::AppState};

/// What the page may do: run our scripts and styles, show our files, talk to us, and nothing else.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; \
                           media-src 'self' blob:; connect-src 'self'; manifest-src 'self'; form-action 'none'; \
                           base-uri 'none'; frame-ancestors 'none'";

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The origin under which the sender of a request knows us.
#[derive(Debug, Clone)]
pub(crate) struct OwnOrigin(pub(crate) String);

/// Lets only requests through that are meant for us and, where they change something, come from our page.
pub(crate) async fn check_origin(State(site): State<Arc<AppState>>, mut request: Request, next: Next) -> Response {
    let mut response = match check_request(&site, &request) {
        Ok(origin) => {
            request.extensions_mut().insert(OwnOrigin(origin));
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    };
    add_security_headers(response.headers_mut());
    response
}

/// Lets only those come in who know the token, where there is one.
pub(crate) async fn require_login(State(site): State<Arc<AppState>>, request: Request, next: Next) -> Response {
    match site.admits(&request) {
        Ok(true) => next.run(request).await,
        Ok(false) => Problem::unauthorized().into_response(),
        Err(problem) => problem.into_response(),
    }
}

fn check_request(site: &AppState, request: &Request) -> Result<String, Problem> {
    let headers = request.headers();
    let origin = single_header(headers, &header::HOST).and_then(|host| site.hosts.origin_of(host));
    // A request may name its host twice; the line that proxies go by must not differ from the header.
    let line = request.uri().authority().map(|authority| site.hosts.origin_of(authority.as_str()));
    let Some(origin) = origin.filter(|origin| line.is_none_or(|line| line.as_ref() == Some(origin))) else {
        let detail =
            "This server doesn't accept requests for this address. Set `web.public_url` to the address you open.";
        return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, "wrong_host", detail));
    };
    // Behind a proxy everybody comes from this machine.
    if !site.access.needs_token() && is_forwarded(headers) {
        let detail = "Requests through a proxy need a login. Remove `web.token: off`.";
        return Err(Problem::new(StatusCode::FORBIDDEN, "token_needed", detail));
    }
    let foreign = || {
        Err(Problem::new(StatusCode::FORBIDDEN, "cross_origin", "This request came from another site and was blocked."))
    };
    let site_of_sender = headers.get(&SEC_FETCH_SITE).map(HeaderValue::as_bytes);
    let from_us = matches!(site_of_sender, None | Some(b"same-origin" | b"none"));
    let path = request.uri().path();
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        // What is only read is kept from other pages by the browser; a browser that says more is believed.
        let for_us_alone = path.starts_with("/api/") || path == "/metrics";
        return if for_us_alone && !from_us { foreign() } else { Ok(origin) };
    }
    let said = headers.get_all(header::ORIGIN).iter();
    if !from_us || said.into_iter().any(|said| said.as_bytes() != origin.as_bytes()) {
        return foreign();
    }
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let plain = ["application/json", "application/octet-stream"].iter().any(|known| kind.eq_ignore_ascii_case(known));
    // A form on another page can send neither of these types, nor this method.
    if plain || *request.method() == Method::DELETE {
        Ok(origin)
    } else {
        let detail = "The body must be application/json or application/octet-stream.";
        Err(Problem::new(StatusCode::FORBIDDEN, "wrong_body_type", detail))
    }
}

/// The value of a header that must stand there once.
fn single_header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

fn add_security_headers(headers: &mut HeaderMap) {
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, PAGE_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
}

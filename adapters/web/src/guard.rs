//! Middleware that checks a request's host, its origin and its authorization.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use satchel_http_server::is_forwarded;

use crate::{auth::Access, login_watch::WatchedLogin, problem::Problem, public_url::OwnOrigin, state::AppState};

/// The page's content security policy: only scripts, styles, files and connections of this server.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; \
                           media-src 'self' blob:; connect-src 'self'; manifest-src 'self'; form-action 'none'; \
                           base-uri 'none'; frame-ancestors 'none'";

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Rejects requests for other hosts, and requests with side effects from other origins.
pub(crate) async fn check_origin(State(state): State<Arc<AppState>>, mut request: Request, next: Next) -> Response {
    let mut response = match check_request(&state, &request) {
        Ok(origin) => {
            request.extensions_mut().insert(origin);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    };
    add_security_headers(response.headers_mut());
    response
}

pub(crate) async fn require_login(State(state): State<Arc<AppState>>, request: Request, next: Next) -> Response {
    run_authorized(&state, request, next).await.unwrap_or_else(IntoResponse::into_response)
}

/// Runs a request that is authorized, and ends its response with its login. The request's extensions tell the handler by what
/// it is authorized.
///
/// # Errors
/// When the request isn't authorized, or its login has ended before the response began.
pub(crate) async fn run_authorized(state: &AppState, mut request: Request, next: Next) -> Result<Response, Problem> {
    let credentials = state.read_credentials(&request);
    let access = state.authorize(credentials).await?.ok_or_else(Problem::unauthorized)?;
    request.extensions_mut().insert(access);
    match access {
        Access::Token => Ok(next.run(request).await),
        Access::Login(login) => {
            let watched = WatchedLogin::new(Arc::clone(&state.logins), login);
            watched.watch(next.run(request).await).await
        }
    }
}

/// Returns the address by which the client reached the server.
pub(crate) fn own_origin(request: &Request) -> &OwnOrigin {
    request.extensions().get().expect("the guard has found out the origin of every request")
}

fn check_request(state: &AppState, request: &Request) -> Result<OwnOrigin, Problem> {
    let headers = request.headers();
    let origin = single_header(headers, &header::HOST).and_then(|host| state.hosts.find_origin(host));
    // A request line with a host, as for proxies, must match the `Host` header.
    let target_origin = request.uri().authority().map(|authority| state.hosts.find_origin(authority.as_str()));
    let Some(origin) = origin.filter(|origin| target_origin.is_none_or(|target| target.as_ref() == Some(origin)))
    else {
        let detail =
            "This server doesn't accept requests for this address. Set `web.public_url` to the address you open.";
        return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, "wrong_host", detail));
    };
    // Behind a proxy every request comes from this machine.
    if !state.authenticator.needs_token() && is_forwarded(headers) {
        let detail = "Requests through a proxy need a login. Remove `web.token: off`.";
        return Err(Problem::new(StatusCode::FORBIDDEN, "token_needed", detail));
    }
    let cross_origin = || {
        Err(Problem::new(StatusCode::FORBIDDEN, "cross_origin", "This request came from another site and was blocked."))
    };
    let fetch_site = headers.get(&SEC_FETCH_SITE).map(HeaderValue::as_bytes);
    let is_same_site = matches!(fetch_site, None | Some(b"same-origin" | b"none"));
    let path = request.uri().path();
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        // The browser hides responses to reads from other sites; `Sec-Fetch-Site` rejects them earlier.
        let is_protected = path.starts_with("/api/") || path.starts_with("/v1/") || path == "/metrics";
        return if is_protected && !is_same_site { cross_origin() } else { Ok(origin) };
    }
    let origins = headers.get_all(header::ORIGIN).iter();
    if !is_same_site || origins.into_iter().any(|value| value.as_bytes() != origin.origin.as_bytes()) {
        return cross_origin();
    }
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let content_type = content_type.split(';').next().unwrap_or_default().trim();
    let is_allowed_type = ["application/json", "application/octet-stream"]
        .iter()
        .any(|allowed| content_type.eq_ignore_ascii_case(allowed));
    // A form on another site can send neither these types nor this method.
    if is_allowed_type || *request.method() == Method::DELETE {
        Ok(origin)
    } else {
        let detail = "The body must be application/json or application/octet-stream.";
        Err(Problem::new(StatusCode::FORBIDDEN, "wrong_body_type", detail))
    }
}

/// Returns the value of a header that must occur exactly once.
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

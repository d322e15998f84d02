//! Serves the metrics at their own address, for readers without access to the page.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures::future::BoxFuture;
use satchel_http_server::{ConnectionTimeouts, ServerSettings};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::CONTENT_TYPE;

/// How long one request may take, from its first byte to the last byte of the response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the shutdown waits for requests in flight; a scrape that is cut off is retried.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

const MAX_HEAD_BYTES: usize = 8 * 1024;

const MAX_CONNECTIONS: usize = 16;

/// Renders the text that is served.
pub type RenderText = Arc<dyn Fn() -> BoxFuture<'static, String> + Send + Sync>;

/// Serves until `stop` is cancelled.
pub async fn serve(listener: TcpListener, render: RenderText, stop: CancellationToken) {
    let timeouts = ConnectionTimeouts {
        head: REQUEST_TIMEOUT,
        write: REQUEST_TIMEOUT,
        drain: DRAIN_TIMEOUT,
        connection: Some(REQUEST_TIMEOUT),
        ..ConnectionTimeouts::default()
    };
    let settings = ServerSettings {
        timeouts,
        max_connections: MAX_CONNECTIONS,
        buffer_bytes: MAX_HEAD_BYTES,
        ..ServerSettings::default()
    };
    let router = Router::new().fallback(handle_request).with_state(render);
    satchel_http_server::serve(listener, router, settings, stop).await;
}

async fn handle_request(State(render): State<RenderText>, request: Request) -> Response {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let (status, content_type, body) = match request.uri().path() {
        _ if !is_read => (StatusCode::METHOD_NOT_ALLOWED, "text/plain", "GET /metrics\n".to_owned()),
        _ if !is_safe_host(request.headers()) => (
            StatusCode::MISDIRECTED_REQUEST,
            "text/plain",
            "request the metrics by an IP address or as localhost\n".to_owned(),
        ),
        "/metrics" => (StatusCode::OK, CONTENT_TYPE, render().await),
        _ => (StatusCode::NOT_FOUND, "text/plain", "the metrics are at /metrics\n".to_owned()),
    };
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
        // Scrapes are rare, and connections are few.
        (header::CONNECTION, "close"),
    ];
    (status, headers, body).into_response()
}

/// Whether the `Host` is an IP address or `localhost`. Any other name may be DNS rebinding: a page in a browser on this
/// machine could point its own name to this server.
fn is_safe_host(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let host = host.to_str().unwrap_or_default();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => match port.parse::<u16>() {
            Ok(_) => name,
            Err(_) => return false,
        },
        _ => host,
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).map(|name| name.parse::<Ipv6Addr>());
    name.eq_ignore_ascii_case("localhost") || name.parse::<Ipv4Addr>().is_ok() || matches!(address, Some(Ok(_)))
}

//! Where the sockets come in: paths, the query, and an upgrade that may go wrong.

use std::sync::Arc;

use axum::{
    Router,
    extract::{Query, Request, State, WebSocketUpgrade, ws::CloseFrame, ws::Message, ws::WebSocket},
    http::StatusCode,
    response::{Html, IntoResponse, Response},
    routing::any,
};
use serde::Deserialize;

use crate::gateway::{
    FakeGateway, PATH, RESUME_PATH, Shared, connection,
    frame::{ZlibStream, close},
};

/// Gateway URL Query String Params.
#[derive(Debug, Deserialize)]
struct Parameters {
    v: Option<String>,
    encoding: Option<String>,
    compress: Option<String>,
}

impl FakeGateway {
    /// The routes of the sockets.
    pub fn router(&self) -> Router {
        let mut router = Router::new();
        for path in [PATH, RESUME_PATH] {
            // Clients put the query behind the address with a slash, or without.
            router = router.route(path, any(open)).route(&format!("{path}/"), any(open));
        }
        router.with_state(Arc::clone(&self.shared))
    }
}

async fn open(
    State(shared): State<Arc<Shared>>,
    Query(parameters): Query<Parameters>,
    upgrade: Result<WebSocketUpgrade, axum::extract::ws::rejection::WebSocketUpgradeRejection>,
    request: Request,
) -> Response {
    let refused = {
        let mut state = shared.state();
        let left = state.faults.bad_upgrades;
        state.faults.bad_upgrades = left.saturating_sub(1);
        left > 0
    };
    if refused {
        let page = Html("<html><head><title>502 Bad Gateway</title></head><body><h1>502</h1></body></html>");
        return (StatusCode::BAD_GATEWAY, page).into_response();
    }
    let upgrade = match upgrade {
        Ok(upgrade) => upgrade,
        Err(rejection) => return rejection.into_response(),
    };
    let again = request.uri().path().starts_with(RESUME_PATH);
    upgrade.on_upgrade(move |socket| async move {
        match parameters.packing() {
            Ok(packing) => connection::serve(shared, socket, packing, again).await,
            Err(code) => refuse(&shared, socket, code).await,
        }
    })
}

async fn refuse(shared: &Shared, mut socket: WebSocket, code: u16) {
    shared.state().report.closed.push(code);
    shared.changed.notify_waiters();
    let frame = CloseFrame { code, reason: close::reason(code).into() };
    // A client that is gone already needs no reason.
    let _gone = socket.send(Message::Close(Some(frame))).await;
}

impl Parameters {
    /// How payloads are packed, or the code that the socket is closed with.
    fn packing(&self) -> Result<Option<ZlibStream>, u16> {
        if self.v.as_deref() != Some("10") {
            return Err(close::INVALID_API_VERSION);
        }
        // `etf` is taken by Discord, and by no client of this fake.
        if self.encoding.as_deref() != Some("json") {
            return Err(close::DECODE_ERROR);
        }
        match self.compress.as_deref() {
            None => Ok(None),
            Some("zlib-stream") => Ok(Some(ZlibStream::default())),
            Some(_) => Err(close::DECODE_ERROR),
        }
    }
}

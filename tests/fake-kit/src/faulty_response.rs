//! What a client sees of a fault that is the connection's or a proxy's, on every platform alike.

use std::{io, sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::StatusCode,
    response::{Html, IntoResponse, Response},
};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, future, stream};
use tokio_util::sync::CancellationToken;

use crate::{ConnectionCutter, FakeFile, Fault, ListenerGate};

/// Plays a fault in place of a response. `None` is a fault that the platform words itself.
pub async fn connection_fault(
    fault: Fault,
    gate: &Arc<ListenerGate>,
    cutter: &ConnectionCutter,
    stopped: &CancellationToken,
) -> Option<Response> {
    match fault {
        Fault::BadGateway { .. } => {
            let page = Html("<html><head><title>502 Bad Gateway</title></head><body><h1>502</h1></body></html>");
            return Some((StatusCode::BAD_GATEWAY, page).into_response());
        }
        Fault::Hang { .. } => stopped.cancelled().await,
        Fault::Outage { for_ms } => gate.close(Duration::from_millis(for_ms)),
        Fault::ResetMidTransfer
        | Fault::ResetAfterRead
        | Fault::AcceptAndDrop
        | Fault::AcceptLate { .. }
        | Fault::AcceptOnRelease
        | Fault::RefuseConnection { .. } => {}
        Fault::RateLimit { .. }
        | Fault::ServerError
        | Fault::Restart { .. }
        | Fault::BadMarkup
        | Fault::BadItem { .. }
        | Fault::TooLarge
        | Fault::Forbidden
        | Fault::ChatGone
        | Fault::VoiceForbidden => return None,
    }
    cutter.cut();
    Some(StatusCode::SERVICE_UNAVAILABLE.into_response())
}

/// Half of a file, and then the end of the connection.
pub fn half_of(file: &FakeFile) -> Body {
    let mut left = usize::try_from(file.bytes() / 2).unwrap_or(usize::MAX);
    let half = file.stream().map_ok(move |mut block: Bytes| {
        let piece = block.split_to(block.len().min(left));
        left -= piece.len();
        piece
    });
    let half = half.try_take_while(|piece| future::ok(!piece.is_empty()));
    let reset = stream::once(async {
        // What flows before a pause has left when the connection breaks.
        tokio::task::yield_now().await;
        Err(io::Error::from(io::ErrorKind::ConnectionReset))
    });
    Body::from_stream(half.chain(reset))
}

//! Downloads of files, from the CDN and from the proxy for media.

use axum::{
    body::Body,
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};

use crate::{
    FakeFile, Fault, ServerFault,
    discord::{
        Shared,
        links::{self, Worth},
        methods::Done,
        route::CDN,
        serving::{after, answer},
    },
    door::Cut,
};

pub(crate) async fn download(shared: &Shared, cut: &Cut, uri: &Uri) -> Response {
    let path = uri.path().trim_start_matches("/media");
    if links::file_of(path).is_none() {
        return StatusCode::NOT_FOUND.into_response();
    }
    let arrival = shared.arrive(CDN);
    let found = {
        let state = shared.state();
        match links::worth(&state.world, path, uri.query().unwrap_or_default()) {
            Worth::File(id) => {
                Ok(state.world.files.get(&id).and_then(|file| Some((file.mime.clone(), file.content.clone()?))))
            }
            worth => Err(worth),
        }
    };
    if arrival.fault.is_none() {
        shared.state().script.performed(&arrival);
    }
    let gone = |status: StatusCode, words: &str| (status, words.to_owned()).into_response();
    let (mime, file) = match (&arrival.fault, found) {
        (None | Some(ServerFault::Common(Fault::ResetMidTransfer)), Ok(Some(found))) => found,
        (None, not_found) => {
            after(shared, &arrival);
            return match not_found {
                Err(Worth::Forged) => gone(StatusCode::FORBIDDEN, "This content is not available."),
                _ => gone(StatusCode::NOT_FOUND, "This content is no longer available."),
            };
        }
        // Whatever else goes wrong goes wrong as on all routes.
        _ => return answer(shared, cut, arrival, || (HeaderMap::new(), Ok(Done::Silently))).await,
    };
    after(shared, &arrival);
    let body = if arrival.fault.is_some() { broken(&file) } else { Body::from_stream(file.stream()) };
    ([(header::CONTENT_LENGTH, file.bytes().to_string()), (header::CONTENT_TYPE, mime)], body).into_response()
}

/// Half of a file, and then the end of the connection.
fn broken(file: &FakeFile) -> Body {
    let mut left = usize::try_from(file.bytes() / 2).unwrap_or(usize::MAX);
    let half = file.stream().map_ok(move |mut block: Bytes| {
        let piece = block.split_to(block.len().min(left));
        left -= piece.len();
        piece
    });
    let half = half.try_take_while(|piece| futures::future::ok(!piece.is_empty()));
    let reset = stream::once(async {
        // What flows before a pause has left when the connection breaks.
        tokio::task::yield_now().await;
        Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset))
    });
    Body::from_stream(half.chain(reset))
}

//! Downloads of files, from the CDN and from the proxy for media.

use axum::{
    body::Body,
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use satchel_fake_kit::{ConnectionCutter, Fault, ServerFault, half_of};

use crate::{
    Shared,
    links::{self, LinkStatus},
    methods::RouteReply,
    route::CDN,
    serving::{answer, end_request},
};

pub(crate) async fn download(shared: &Shared, cutter: &ConnectionCutter, uri: &Uri) -> Response {
    let path = uri.path().trim_start_matches("/media");
    if links::file_of(path).is_none() {
        return StatusCode::NOT_FOUND.into_response();
    }
    let arrival = shared.on_request(CDN);
    let found = {
        let state = shared.state();
        match links::link_status(&state.platform, path, uri.query().unwrap_or_default()) {
            LinkStatus::File(id) => {
                Ok(state.platform.files.get(&id).and_then(|file| Some((file.mime.clone(), file.content.clone()?))))
            }
            worth => Err(worth),
        }
    };
    if arrival.fault.is_none() {
        shared.state().script.on_performed(&arrival);
    }
    let gone = |status: StatusCode, words: &str| (status, words.to_owned()).into_response();
    let (mime, file) = match (&arrival.fault, found) {
        (None | Some(ServerFault::Common(Fault::ResetMidTransfer)), Ok(Some(found))) => found,
        (None, not_found) => {
            end_request(shared, &arrival);
            return match not_found {
                Err(LinkStatus::Forged) => gone(StatusCode::FORBIDDEN, "This content is not available."),
                _ => gone(StatusCode::NOT_FOUND, "This content is no longer available."),
            };
        }
        // Whatever else goes wrong goes wrong as on all routes.
        _ => return answer(shared, cutter, arrival, || (HeaderMap::new(), Ok(RouteReply::NoContent))).await,
    };
    end_request(shared, &arrival);
    let body = if arrival.fault.is_some() { half_of(&file) } else { Body::from_stream(file.stream()) };
    ([(header::CONTENT_LENGTH, file.bytes().to_string()), (header::CONTENT_TYPE, mime)], body).into_response()
}

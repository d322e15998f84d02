//! One request and its answer, waited for as long as something moves.

use std::time::Duration;

use reqwest::{RequestBuilder, Response, header::HeaderMap};

use crate::{CallError, HttpTimeouts, PlatformError, UploadProgress};

/// The longest answer that is read: a hundred messages with all that can be on them are a tenth of it.
const MAX_RESPONSE_BYTES: usize = 16 << 20;

/// An answer as it came, whatever it says.
#[derive(Debug)]
pub struct ApiResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

/// Sends a request and reads the whole answer. `progress` watches the files of the request. Dropped, it ends the request.
///
/// # Errors
/// When no answer came, or not all of it; when a file's bytes could not be read.
pub async fn exchange<E: PlatformError>(
    request: RequestBuilder,
    progress: &UploadProgress,
    timeouts: HttpTimeouts,
) -> Result<ApiResponse, CallError<E>> {
    let exchanged = async {
        let response = request.send().await.map_err(CallError::from_transport_error)?;
        read_response(response, timeouts.silence).await
    };
    let answered = tokio::select! {
        answered = exchanged => answered,
        () = progress.wait_stalled(timeouts) => Err(CallError::Lost { reason: "no response in time".to_owned() }),
    };
    match (answered, progress.read_error()) {
        // The request can't have been complete, so nobody can have taken it; but a server may have said no already.
        (Err(_), Some(reason)) => Err(CallError::Unreadable { reason }),
        (answered, _) => answered,
    }
}

/// Reads an answer to its end.
///
/// # Errors
/// When the answer breaks off, stops for longer than `silence`, or has no end.
pub async fn read_response<E: PlatformError>(
    mut response: Response,
    silence: Duration,
) -> Result<ApiResponse, CallError<E>> {
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let mut body = Vec::new();
    loop {
        let chunk = tokio::time::timeout(silence, response.chunk()).await;
        let chunk = chunk.map_err(|_| CallError::Lost { reason: "the response ended early".to_owned() })?;
        match chunk.map_err(CallError::from_transport_error)? {
            None => return Ok(ApiResponse { status, headers, body }),
            Some(chunk) if body.len() + chunk.len() > MAX_RESPONSE_BYTES => {
                return Err(CallError::NotAnAnswer { status, reason: "the response is too long".to_owned() });
            }
            Some(chunk) => body.extend_from_slice(&chunk),
        }
    }
}

#[cfg(test)]
mod tests;

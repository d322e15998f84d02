//! Sends one request and reads its response, for as long as either makes progress.

use std::time::Duration;

use reqwest::{RequestBuilder, Response, header::HeaderMap};

use crate::{CallError, HttpTimeouts, PlatformError, UploadProgress};

/// Largest response that is read: a hundred messages with everything they can carry are a tenth of it.
const MAX_RESPONSE_BYTES: usize = 16 << 20;

/// How much of an error is read, in bytes: many times what a platform's message needs. A page of a proxy may be longer, and
/// nothing but its status is used.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// A response as received, whatever its status.
#[derive(Debug)]
pub struct ApiResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

/// Sends a request and reads the whole response. `progress` tracks the files of the request. Dropping it aborts the
/// request.
///
/// # Errors
/// When the response is missing or incomplete, or when a file's bytes could not be read.
pub async fn exchange<E: PlatformError>(
    request: RequestBuilder,
    progress: &UploadProgress,
    timeouts: HttpTimeouts,
) -> Result<ApiResponse, CallError<E>> {
    let response = async {
        let response = request.send().await.map_err(CallError::from_transport_error)?;
        read_response(response, timeouts.idle).await
    };
    let result = tokio::select! {
        result = response => result,
        () = progress.wait_stalled(timeouts) => Err(CallError::Lost { reason: "no response in time".to_owned() }),
    };
    match (result, progress.read_error()) {
        // The request was incomplete, so it can't have been performed; but the server may have refused it already.
        (Err(_), Some(reason)) => Err(CallError::Unreadable { reason }),
        (result, _) => result,
    }
}

/// Reads a response to its end; of an error, only the beginning.
///
/// # Errors
/// When the response is interrupted, stalls for longer than the idle timeout, or is too long.
pub async fn read_response<E: PlatformError>(
    mut response: Response,
    idle_timeout: Duration,
) -> Result<ApiResponse, CallError<E>> {
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let is_error = status >= 400;
    let mut body = Vec::new();
    loop {
        let chunk = tokio::time::timeout(idle_timeout, response.chunk()).await;
        let chunk = chunk.map_err(|_| CallError::Lost { reason: "the response ended early".to_owned() })?;
        match chunk.map_err(CallError::from_transport_error)? {
            None => return Ok(ApiResponse { status, headers, body }),
            Some(chunk) if is_error && body.len() + chunk.len() > MAX_ERROR_BYTES => {
                body.extend_from_slice(&chunk[..MAX_ERROR_BYTES - body.len()]);
                return Ok(ApiResponse { status, headers, body });
            }
            Some(chunk) if body.len() + chunk.len() > MAX_RESPONSE_BYTES => {
                return Err(CallError::InvalidResponse { status, reason: "the response is too long".to_owned() });
            }
            Some(chunk) => body.extend_from_slice(&chunk),
        }
    }
}

#[cfg(test)]
mod tests;

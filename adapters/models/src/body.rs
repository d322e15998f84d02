//! The bodies of responses, read up to a limit: a server may send one that has no end.

use std::time::Duration;

use reqwest::Response;
use tokio::time::timeout;

/// How much of an error's body is read, in bytes: many times what a provider's message needs.
pub(crate) const MAX_ERROR_BYTES: usize = 64 << 10;

/// How long an error's body is read. A server that has one sends it with the status.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// A response's body; `None` when it is longer than `limit` bytes.
pub(crate) async fn read_body_up_to(response: &mut Response, limit: usize) -> reqwest::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > limit {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

/// The beginning of an error's body: as much as arrives within [`ERROR_BODY_TIMEOUT`] and fits [`MAX_ERROR_BYTES`]. The
/// status says enough about an error whose body is longer, late or incomplete.
pub(crate) async fn read_error_body(response: &mut Response) -> String {
    let mut body = Vec::new();
    let reading = async {
        while body.len() < MAX_ERROR_BYTES
            && let Ok(Some(chunk)) = response.chunk().await
        {
            let room = MAX_ERROR_BYTES - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        }
    };
    let _late = timeout(ERROR_BODY_TIMEOUT, reading).await;
    String::from_utf8_lossy(&body).into_owned()
}

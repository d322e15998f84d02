//! HTTP for the library, with what it lacks. It retries every 5xx: an answer that says that the server is full has another
//! status here, so that it is reported at once instead of after all retries. And it reads every answer but a file to its
//! end, however long that is: here it is read within a limit.

use async_trait::async_trait;
use futures::StreamExt;
use object_store::{
    ClientOptions,
    client::{
        HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
    },
};
use reqwest::{Method, StatusCode};

/// The header that each signed request has.
const SIGNED_HASH_HEADER: &str = "x-amz-content-sha256";

/// The longest answer that is no file, in bytes. A page of a thousand keys has less than one megabyte.
const MAX_ANSWER_BYTES: usize = 8 << 20;

/// How much of an error is read, in bytes.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// What a server that has no room answers, and what stands for it: a status without a meaning.
const INSUFFICIENT_STORAGE: u16 = 507;
const STAND_IN: u16 = 499;

/// Makes clients that retry no full server and read no answer without end.
#[derive(Debug)]
pub(crate) struct BucketConnector;

#[derive(Debug)]
struct BucketService(HttpClient);

/// An answer has more bytes than are read.
#[derive(Debug, thiserror::Error)]
#[error("the answer is too long")]
struct AnswerTooLong;

/// How much of an answer with this status is read, in bytes, unless it is a file.
pub(crate) fn max_answer_bytes(status: StatusCode) -> usize {
    if status.is_success() { MAX_ANSWER_BYTES } else { MAX_ERROR_BYTES }
}

/// The status that the server has answered with.
pub(crate) fn original_status(status: u16) -> u16 {
    if status == STAND_IN { INSUFFICIENT_STORAGE } else { status }
}

impl HttpConnector for BucketConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(BucketService(ReqwestConnector::default().connect(options)?)))
    }
}

#[async_trait]
impl HttpService for BucketService {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        // Everything else has a query or another method, or goes unsigned to those who give out credentials.
        let is_signed = request.headers().contains_key(SIGNED_HASH_HEADER);
        let is_file_read = is_signed && *request.method() == Method::GET && request.uri().query().is_none();
        let mut response = self.0.execute(request).await?;
        if response.status() == StatusCode::INSUFFICIENT_STORAGE {
            *response.status_mut() = StatusCode::from_u16(STAND_IN).expect("it has three digits");
        }
        // A file is streamed to a reader that knows its size.
        if is_file_read && response.status().is_success() {
            return Ok(response);
        }
        read_answer(response).await
    }
}

/// Reads an answer within its limit. Of an error the beginning is enough: its status says most, and its code comes first.
async fn read_answer(response: HttpResponse) -> Result<HttpResponse, HttpError> {
    let (head, body) = response.into_parts();
    let limit = max_answer_bytes(head.status);
    let is_success = head.status.is_success();
    let (mut content, mut chunks) = (Vec::new(), body.bytes_stream());
    while let Some(chunk) = chunks.next().await {
        let chunk = match chunk {
            Ok(chunk) => chunk,
            Err(error) if is_success => return Err(error),
            Err(_) => break,
        };
        let room = limit - content.len();
        content.extend_from_slice(&chunk[..chunk.len().min(room)]);
        match chunk.len() > room {
            true if is_success => return Err(HttpError::new(HttpErrorKind::Decode, AnswerTooLong)),
            true => break,
            false => {}
        }
    }
    Ok(HttpResponse::from_parts(head, content.into()))
}

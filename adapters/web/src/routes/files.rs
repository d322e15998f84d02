//! Serves files, completely or in ranges, so that a browser never runs their content.

use std::{io, sync::Arc};

use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::{StreamExt, stream};
use satchel_domain::{Attachment, Filename, PartContent, Sha256};
use satchel_ports::{
    Blobs, ByteStream,
    ledger::{AttachmentKey, OutboxQuery},
};
use serde::Deserialize;

use super::{
    ApiPath, ApiQuery,
    range::{RangeRequest, is_not_modified, parse_range},
};
use crate::{
    problem::{Problem, ProblemBody},
    state::AppState,
    view,
    wire::Inline,
};

/// The content security policy of files: nothing is allowed if a browser shows one as a page.
pub(super) const FILE_POLICY: HeaderValue =
    HeaderValue::from_static("sandbox; default-src 'none'; frame-ancestors 'none'");

/// The query of a file's URL.
#[derive(Debug, Deserialize)]
pub(crate) struct DownloadQuery {
    /// `1`: download instead of showing inline.
    download: Option<String>,
}

impl DownloadQuery {
    pub(crate) fn is_download(&self) -> bool {
        self.download.as_deref() == Some("1")
    }
}

/// A file to be served.
pub(crate) struct ServedFile<'a> {
    pub(crate) sha256: Sha256,
    pub(crate) bytes: u64,
    pub(crate) mime: &'a str,
    pub(crate) filename: &'a Filename,
}

/// Sends a file of the conversation, or the range that `Range` requests.
#[utoipa::path(
    get,
    path = "/api/conversations/{id}/files/{attachment}",
    params(
        ("id" = String, Path, description = "The part of the conversation id after `web:`."),
        ("attachment" = String, Path, description = "The file's id."),
        ("download" = Option<String>, Query, description = "`1`: download instead of showing inline."),
    ),
    responses(
        (status = 200, description = "The bytes.", content_type = "application/octet-stream"),
        (status = 206, description = "The requested range.", content_type = "application/octet-stream"),
        (status = 304, description = "The client already has it."),
        (status = 404, description = "No such file in this conversation.", body = ProblemBody, content_type = "application/problem+json"),
        (status = 416, description = "The range is beyond the end of the file.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn file(
    State(state): State<Arc<AppState>>,
    ApiPath((id, attachment)): ApiPath<(String, String)>,
    ApiQuery(query): ApiQuery<DownloadQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let found = find_file(&state, &id, &attachment).await?;
    let served = ServedFile { sha256: found.sha256, bytes: found.bytes, mime: &found.mime, filename: &found.filename };
    serve_file(&*state.blobs, &headers, served, query.is_download()).await
}

/// Finds a file by the segments of its path.
pub(super) async fn find_file(state: &AppState, id: &str, attachment: &str) -> Result<Attachment, Problem> {
    let conversation = state.conversation(id)?;
    let attachment = attachment.parse().map_err(|_| Problem::not_found("file"))?;
    let found = state.archive.attachment(&conversation, AttachmentKey::Id(attachment)).await?;
    found.filter(|file| !file.is_forgotten()).ok_or_else(|| Problem::not_found("file"))
}

/// Sends the audio of a voice part.
#[utoipa::path(
    get,
    path = "/api/conversations/{id}/voices/{part}",
    params(
        ("id" = String, Path, description = "The part of the conversation id after `web:`."),
        ("part" = String, Path, description = "The part's id."),
        ("download" = Option<String>, Query, description = "`1`: download instead of showing inline."),
    ),
    responses(
        (status = 200, description = "The bytes.", content_type = "audio/ogg"),
        (status = 404, description = "No such voice in this conversation.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn voice(
    State(state): State<Arc<AppState>>,
    ApiPath((id, part)): ApiPath<(String, String)>,
    ApiQuery(download_query): ApiQuery<DownloadQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let conversation = Some(state.conversation(&id)?);
    let part = Some(part.parse().map_err(|_| Problem::not_found("voice"))?);
    let query = OutboxQuery { conversation, part, include_delivered: true, limit: Some(1), ..OutboxQuery::default() };
    let part = state.archive.parts(&query).await?.pop().ok_or_else(|| Problem::not_found("voice"))?;
    let Some(PartContent::Voice { prepared: Some(voice), .. }) = part.content() else {
        return Err(Problem::not_found("voice"));
    };
    let filename = view::voice_filename(&part);
    let served = ServedFile { sha256: voice.sha256, bytes: voice.bytes, mime: view::VOICE_MIME, filename: &filename };
    serve_file(&*state.blobs, &headers, served, download_query.is_download()).await
}

/// Responds with a file, or the requested range of it.
pub(crate) async fn serve_file(
    blobs: &dyn Blobs,
    headers: &HeaderMap,
    served: ServedFile<'_>,
    is_download: bool,
) -> Result<Response, Problem> {
    let tag = format!("\"{}\"", served.sha256);
    let is_inline = view::inline_kind(served.mime) != Inline::None;
    // A file that isn't shown gets no type: a script with its type could be run by our own page.
    let content_type = if is_inline { served.mime } else { "application/octet-stream" };
    let mut response_headers = HeaderMap::new();
    for (name, value) in [
        (header::ETAG, tag.clone()),
        (header::CONTENT_DISPOSITION, content_disposition(is_inline && !is_download, served.filename.as_str())),
    ] {
        response_headers.insert(name, HeaderValue::try_from(value).expect("it is escaped to plain ASCII"));
    }
    // Revalidated each time, because the user may have logged out; the tag makes that a 304.
    response_headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    response_headers.insert(header::CONTENT_SECURITY_POLICY, FILE_POLICY);
    response_headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if is_not_modified(headers, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, response_headers).into_response());
    }
    response_headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::try_from(content_type).expect("types that are shown are plain ASCII"),
    );
    let bytes = served.bytes;
    let (status, range) = match parse_range(headers, &tag, bytes) {
        RangeRequest::Full => (StatusCode::OK, None),
        RangeRequest::Partial(range) => (StatusCode::PARTIAL_CONTENT, Some(range)),
        RangeRequest::Unsatisfiable => {
            let problem = Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, "no_such_range", "The file is shorter.");
            let length = [(header::CONTENT_RANGE, format!("bytes */{bytes}"))];
            return Ok((length, problem).into_response());
        }
    };
    let length = range.as_ref().map_or(bytes, |range| range.end - range.start);
    response_headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    if let Some(range) = &range {
        let content_range = format!("bytes {}-{}/{bytes}", range.start, range.end - 1);
        response_headers
            .insert(header::CONTENT_RANGE, HeaderValue::try_from(content_range).expect("numbers are plain ASCII"));
    }
    let content = blobs.open(&served.sha256, range).await?;
    Ok((status, response_headers, Body::from_stream(hold_back_last_chunk(content))).into_response())
}

/// Returns the `Content-Disposition` header (RFC 6266, RFC 8187).
pub(super) fn content_disposition(is_inline: bool, filename: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._- ()+,@!#$&~^".contains(c);
    let simple: String = filename.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    let percent_encode = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~".contains(&byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    let escaped: String = filename.bytes().map(percent_encode).collect();
    let kind = if is_inline { "inline" } else { "attachment" };
    format!("{kind}; filename=\"{simple}\"; filename*=UTF-8''{escaped}")
}

/// Holds the last chunk back until the stream has ended successfully. The store reports a damaged file only at its end,
/// and a client with all the bytes would treat the file as complete.
fn hold_back_last_chunk(content: ByteStream) -> impl futures::Stream<Item = io::Result<Bytes>> + Send {
    stream::unfold((content, None::<Bytes>), async |(mut content, mut pending)| {
        loop {
            match content.next().await {
                Some(Ok(piece)) if piece.is_empty() => {}
                Some(Ok(piece)) => match pending.replace(piece) {
                    Some(before) => return Some((Ok(before), (content, pending))),
                    None => continue,
                },
                Some(Err(error)) => {
                    tracing::error!(error = &error as &dyn std::error::Error, "reading a file failed before its end");
                    return Some((Err(error), (stream::empty().boxed(), None)));
                }
                None => return pending.take().map(|last| (Ok(last), (stream::empty().boxed(), None))),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_reach_the_header_escaped() {
        for (name, header) in [
            ("a.pdf", "attachment; filename=\"a.pdf\"; filename*=UTF-8''a.pdf"),
            ("Отчёт.pdf", "attachment; filename=\"_____.pdf\"; filename*=UTF-8''%D0%9E%D1%82%D1%87%D1%91%D1%82.pdf"),
            (
                "a\"; filename=evil.exe",
                "attachment; filename=\"a__ filename_evil.exe\"; filename*=UTF-8''a%22%3B%20filename%3Devil.exe",
            ),
            (
                "a\r\nSet-Cookie: x=y",
                "attachment; filename=\"a__Set-Cookie_ x_y\"; filename*=UTF-8''a%0D%0ASet-Cookie%3A%20x%3Dy",
            ),
            ("100%'*.txt", "attachment; filename=\"100___.txt\"; filename*=UTF-8''100%25%27%2A.txt"),
            ("a\\b", "attachment; filename=\"a_b\"; filename*=UTF-8''a%5Cb"),
        ] {
            assert_eq!(content_disposition(false, name), header);
        }
        assert!(content_disposition(true, "a.png").starts_with("inline; "));
    }

    #[tokio::test]
    async fn damaged_file_is_never_sent_completely() {
        let pieces = |error: bool| -> ByteStream {
            let mut pieces: Vec<io::Result<Bytes>> = vec![Ok("a".into()), Ok("".into()), Ok("b".into())];
            if error {
                pieces.push(Err(io::Error::other("damaged")));
            }
            stream::iter(pieces).boxed()
        };
        let sound: Vec<_> = hold_back_last_chunk(pieces(false)).map(Result::unwrap).collect().await;
        assert_eq!(sound.concat(), b"ab");
        let damaged: Vec<_> = hold_back_last_chunk(pieces(true)).collect().await;
        assert!(damaged[0].as_ref().is_ok_and(|piece| piece == "a") && damaged[1].is_err() && damaged.len() == 2);
    }
}

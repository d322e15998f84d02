//! OpenAI-compatible servers: `POST /audio/speech` and `POST /audio/transcriptions`.

use std::time::Duration;

use bytes::Bytes;
use reqwest::{
    Body, Client, RequestBuilder, Response, StatusCode, Url,
    multipart::{Form, Part},
};
use satchel_domain::filename::is_unsafe_char;
use satchel_ports::{Recording, SpeechError};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{SpeechSetupError, mix::AudioChunk, settings::ServerEngine};

const OPENAI_BASE_URL: &str = "https://api.openai.com/v1";

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest text of one request, in characters: OpenAI's newest models accept 2000 tokens, and non-Latin scripts
/// need up to one per character.
const MAX_INPUT_CHARS: usize = 1_900;

/// The most bytes of sound for one request: an hour of the longest samples that are common, and what goes around them.
const MAX_SPEECH_BYTES: usize = 1 << 30;

/// The largest transcription response, and how much of an error is read.
const MAX_RESPONSE_BYTES: usize = 1 << 20;
const MAX_ERROR_BYTES: usize = 16 << 10;

/// How much of a server's own message is reported, in characters.
const MAX_REASON_CHARS: usize = 160;

/// What a server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpeechTask {
    Speak,
    Transcribe,
}

impl SpeechTask {
    /// Where it is configured.
    pub(crate) fn section(self) -> &'static str {
        match self {
            Self::Speak => "speech.speak",
            Self::Transcribe => "speech.transcribe",
        }
    }
}

/// A client of one server.
pub(crate) struct SpeechServerClient {
    http: Client,
    url: Url,
    display_name: String,
    task: SpeechTask,
    server: ServerEngine,
}

impl SpeechServerClient {
    pub(crate) fn new(server: ServerEngine, task: SpeechTask) -> Result<Self, SpeechSetupError> {
        let address_error = || SpeechSetupError::Address { section: task.section() };
        let base = server.base_url.as_ref().map_or(OPENAI_BASE_URL, |url| url.expose_secret());
        let mut url = Url::parse(base).ok().filter(|url| url.has_host()).ok_or_else(address_error)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(address_error());
        }
        let path = match task {
            SpeechTask::Speak => ["audio", "speech"],
            SpeechTask::Transcribe => ["audio", "transcriptions"],
        };
        url.path_segments_mut().map_err(|()| address_error())?.pop_if_empty().extend(path);
        let who = match (&server.base_url, url.host_str(), url.port()) {
            (Some(_), Some(host), Some(port)) => format!("{host}:{port}"),
            (Some(_), Some(host), None) => host.to_owned(),
            _ => "OpenAI".to_owned(),
        };
        Ok(Self { http: http_client(&url)?, url, display_name: who, task, server })
    }

    /// Its host, or OpenAI.
    pub(crate) fn display_name(&self) -> &str {
        &self.display_name
    }

    /// Splits a text into chunks that fit one request, between sentences.
    pub(crate) fn split_text(text: &str) -> Vec<&str> {
        let mut chunks = Vec::new();
        let mut rest = text.trim();
        while let Some((end, _)) = rest.char_indices().nth(MAX_INPUT_CHARS) {
            let head = &rest[..end];
            let end_of = |(at, c): (usize, char)| at + c.len_utf8();
            let ends_sentence = |(at, c): &(usize, char)| {
                let next = rest[at + c.len_utf8()..].chars().next();
                *c == '\n' || "。！？".contains(*c) || (".!?…".contains(*c) && next.is_none_or(char::is_whitespace))
            };
            let sentence = head.char_indices().rev().find(ends_sentence).map(end_of);
            let word = || head.char_indices().rev().find(|(_, c)| c.is_whitespace()).map(end_of);
            let (chunk, tail) = rest.split_at(sentence.or_else(word).filter(|at| *at > 0).unwrap_or(end));
            chunks.push(chunk.trim_end());
            rest = tail.trim_start();
        }
        chunks.extend((!rest.is_empty()).then_some(rest));
        chunks
    }

    /// Synthesizes the chunks, one after the other.
    pub(crate) async fn speak(&self, chunks: &[&str], out: mpsc::Sender<AudioChunk>) -> Result<(), SpeechError> {
        for chunk in chunks {
            let body = json!({
                "model": self.server.model.as_deref().unwrap_or("gpt-4o-mini-tts"),
                "voice": self.server.voice.as_deref().unwrap_or("alloy"),
                "input": chunk,
                "response_format": "wav",
            });
            let mut response = self.send_request(self.http.post(self.url.clone()).json(&body)).await?;
            let mut received = 0;
            loop {
                let bytes = response.chunk().await.map_err(|error| self.connection_error(&error))?;
                let is_end = bytes.is_none();
                received += bytes.as_ref().map_or(0, Bytes::len);
                if received > MAX_SPEECH_BYTES {
                    return Err(self.endless_response());
                }
                let sent = out.send(bytes.map_or(AudioChunk::End, AudioChunk::Bytes)).await;
                match (sent, is_end) {
                    // The receiver reports its own error.
                    (Err(_), _) => return Ok(()),
                    (Ok(()), true) => break,
                    (Ok(()), false) => {}
                }
            }
        }
        Ok(())
    }

    pub(crate) async fn transcribe(&self, recording: Recording) -> Result<String, SpeechError> {
        let Recording { content, bytes, mime, .. } = recording;
        let file = Part::stream_with_length(Body::wrap_stream(content), bytes)
            .file_name(format!("recording.{}", file_extension(&mime)));
        let mut form = Form::new()
            .text("model", self.server.model.clone().unwrap_or_else(|| "whisper-1".to_owned()))
            .text("response_format", "json");
        if let Some(language) = &self.server.language {
            form = form.text("language", language.clone());
        }
        let form = form.part("file", file);
        let response = self.send_request(self.http.post(self.url.clone()).multipart(form)).await?;
        let body = self.read_body(response, MAX_RESPONSE_BYTES).await?;
        let json: Option<Value> = serde_json::from_slice(&body).ok();
        let text = json.as_ref().and_then(|json| json["text"].as_str()).ok_or_else(|| SpeechError {
            reason: format!("{} sent an answer that could not be understood", self.display_name),
            remedy: None,
            retryable: true,
        })?;
        Ok(text.trim().to_owned())
    }

    async fn send_request(&self, request: RequestBuilder) -> Result<Response, SpeechError> {
        let request = match &self.server.api_key {
            Some(key) => request.bearer_auth(key.expose_secret()),
            None => request,
        };
        let response = request.send().await.map_err(|error| self.connection_error(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let body = self.read_body(response, MAX_ERROR_BYTES).await.unwrap_or_default();
        Err(self.status_error(status, &body))
    }

    async fn read_body(&self, mut response: Response, max_bytes: usize) -> Result<Vec<u8>, SpeechError> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.connection_error(&error))? {
            if body.len() + chunk.len() > max_bytes {
                return Err(self.endless_response());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    fn endless_response(&self) -> SpeechError {
        let reason = format!("{}'s answer does not end", self.display_name);
        SpeechError { reason, remedy: None, retryable: false }
    }

    /// Maps an error status. The server's own message is included where it says more.
    fn status_error(&self, status: StatusCode, body: &[u8]) -> SpeechError {
        let Self { display_name: who, task, .. } = self;
        let section = task.section();
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let error = &body["error"];
        let message = error["message"].as_str().or_else(|| error.as_str()).unwrap_or_default();
        let remedy = match status.as_u16() {
            300..=399 => Some(format!("set {section}.base_url to that address")),
            401 if self.server.api_key.is_none() => Some(format!("set {section}.api_key")),
            401 => Some(format!("check {section}.api_key")),
            404 => Some(format!("check {section}.model and base_url")),
            _ => None,
        };
        let (reason, retryable) = match status.as_u16() {
            300..=399 => (format!("{who} redirects to another address"), false),
            401 if self.server.api_key.is_none() => (format!("{who} requires an API key"), false),
            401 => (format!("{who} does not accept the key"), false),
            402 => (format!("the account at {who} has no credit left"), false),
            403 => (format!("this key has no permission for it at {who}"), false),
            404 => (format!("{who} has no such model or address"), false),
            413 => (format!("it is too large for {who}"), false),
            429 if error["code"] == "insufficient_quota" => (format!("the account at {who} has no credit left"), false),
            429 => (format!("{who} has rate-limited your requests"), true),
            408 | 500.. => (format!("{who} returned a server error ({})", status.as_u16()), true),
            code => {
                let message = self.redact(message);
                let message = if message.is_empty() { message } else { format!(": {message}") };
                (format!("{who} refused it ({code}){message}"), false)
            }
        };
        SpeechError { reason, remedy, retryable }
    }

    /// Maps a failed or lost connection. The vendor's own message would contain the address.
    fn connection_error(&self, error: &reqwest::Error) -> SpeechError {
        let who = &self.display_name;
        let reason = match error {
            error if error.is_connect() => format!("{who} can't be reached"),
            error if error.is_timeout() => format!("{who} did not answer in time"),
            _ => format!("the connection to {who} was interrupted"),
        };
        SpeechError { reason, remedy: None, retryable: true }
    }

    /// A server's own message without secrets, addresses and invisible characters.
    fn redact(&self, message: &str) -> String {
        let key = self.server.api_key.as_ref().map(SecretString::expose_secret).filter(|key| !key.is_empty());
        let message = key.map_or_else(|| message.to_owned(), |key| message.replace(key, "…"));
        let is_secret = |word: &str| word.contains("://") || word.contains("sk-") || word.len() > 60;
        let visible_words = message.split_whitespace().map(|word| if is_secret(word) { "…" } else { word });
        let message = visible_words.collect::<Vec<_>>().join(" ");
        let message: String = message.chars().filter(|c| !is_unsafe_char(*c)).take(MAX_REASON_CHARS).collect();
        message.trim_end_matches(['.', ' ']).to_owned()
    }
}

/// Builds a client that follows no redirect, because the key would be sent along, and loads certificates if needed.
fn http_client(url: &Url) -> Result<Client, SpeechSetupError> {
    // The first caller installs the provider for the whole process.
    let _already = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("satchel/", env!("CARGO_PKG_VERSION")));
    let builder = if url.scheme() == "https" { builder } else { builder.tls_certs_only([]) };
    let is_local = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    let builder = if is_local { builder.no_proxy() } else { builder };
    builder.build().map_err(|_| SpeechSetupError::Certificates)
}

/// The extension by which servers and programs detect a recording's format.
pub(crate) fn file_extension(mime: &str) -> &'static str {
    match mime {
        "audio/mpeg" => "mp3",
        "audio/mp4" | "audio/x-m4a" | "audio/aac" => "m4a",
        "video/mp4" => "mp4",
        "audio/wav" | "audio/x-wav" | "audio/vnd.wave" => "wav",
        "audio/webm" | "video/webm" => "webm",
        "audio/flac" | "audio/x-flac" => "flac",
        _ => "ogg",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_are_cut_between_sentences() {
        assert_eq!(SpeechServerClient::split_text("  Short. "), ["Short."]);
        assert_eq!(SpeechServerClient::split_text(" \n"), [] as [&str; 0]);
        let long = "Раз, два. ".repeat(400);
        let pieces = SpeechServerClient::split_text(&long);
        assert_eq!(pieces.len(), 3);
        assert!(pieces.iter().all(|piece| piece.starts_with("Раз") && piece.ends_with("два.")), "{pieces:?}");
    }

    proptest! {
        #[test]
        fn split_text_loses_nothing_and_respects_limit(words in "([а-яa-z.!]{1,300}[ \n]{1,3}){0,60}|[я。]{0,4000}") {
            let pieces = SpeechServerClient::split_text(&words);
            prop_assert!(pieces.iter().all(|piece| !piece.is_empty() && piece.chars().count() <= MAX_INPUT_CHARS));
            let bare = |text: &str| text.split_whitespace().collect::<String>();
            prop_assert_eq!(bare(&pieces.concat()), bare(&words));
        }
    }
}

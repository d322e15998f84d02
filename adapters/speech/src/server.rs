//! Servers that speak OpenAI's language: `POST /audio/speech` and `POST /audio/transcriptions`.

use std::time::Duration;

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

/// OpenAI's own server.
const OPENAI: &str = "https://api.openai.com/v1";

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);

/// The most words of one request, in characters: OpenAI's newest models take 2000 tokens, of which other scripts than
/// Latin need up to one a character.
const PIECE: usize = 1_900;

/// The largest answer of words, and the most of an error that is read.
const MAX_RESPONSE_BYTES: usize = 1 << 20;
const LARGEST_ERROR: usize = 16 << 10;

/// How much of a server's own words is told, in characters.
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

/// A server that can be asked.
pub(crate) struct SpeechServerClient {
    http: Client,
    url: Url,
    who: String,
    task: SpeechTask,
    server: ServerEngine,
}

impl SpeechServerClient {
    pub(crate) fn new(server: ServerEngine, task: SpeechTask) -> Result<Self, SpeechSetupError> {
        let wrong = || SpeechSetupError::Address { section: task.section() };
        let base = server.base_url.as_ref().map_or(OPENAI, |url| url.expose_secret());
        let mut url = Url::parse(base).ok().filter(|url| url.has_host()).ok_or_else(wrong)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong());
        }
        let path = match task {
            SpeechTask::Speak => ["audio", "speech"],
            SpeechTask::Transcribe => ["audio", "transcriptions"],
        };
        url.path_segments_mut().map_err(|()| wrong())?.pop_if_empty().extend(path);
        let who = match (&server.base_url, url.host_str(), url.port()) {
            (Some(_), Some(host), Some(port)) => format!("{host}:{port}"),
            (Some(_), Some(host), None) => host.to_owned(),
            _ => "OpenAI".to_owned(),
        };
        Ok(Self { http: client(&url)?, url, who, task, server })
    }

    /// Its host, or OpenAI.
    pub(crate) fn who(&self) -> &str {
        &self.who
    }

    /// The words in pieces that one request takes, cut between sentences.
    pub(crate) fn split_text(words: &str) -> Vec<&str> {
        let mut pieces = Vec::new();
        let mut rest = words.trim();
        while let Some((end, _)) = rest.char_indices().nth(PIECE) {
            let most = &rest[..end];
            let after = |(at, c): (usize, char)| at + c.len_utf8();
            let ends_sentence = |(at, c): &(usize, char)| {
                let next = rest[at + c.len_utf8()..].chars().next();
                *c == '\n' || "。！？".contains(*c) || (".!?…".contains(*c) && next.is_none_or(char::is_whitespace))
            };
            let sentence = most.char_indices().rev().find(ends_sentence).map(after);
            let word = || most.char_indices().rev().find(|(_, c)| c.is_whitespace()).map(after);
            let (piece, other) = rest.split_at(sentence.or_else(word).filter(|at| *at > 0).unwrap_or(end));
            pieces.push(piece.trim_end());
            rest = other.trim_start();
        }
        pieces.extend((!rest.is_empty()).then_some(rest));
        pieces
    }

    /// Has the pieces spoken, one after the other.
    pub(crate) async fn speak(&self, pieces: &[&str], out: mpsc::Sender<AudioChunk>) -> Result<(), SpeechError> {
        for piece in pieces {
            let body = json!({
                "model": self.server.model.as_deref().unwrap_or("gpt-4o-mini-tts"),
                "voice": self.server.voice.as_deref().unwrap_or("alloy"),
                "input": piece,
                "response_format": "wav",
            });
            let mut sound = self.send_request(self.http.post(self.url.clone()).json(&body)).await?;
            loop {
                let bytes = sound.chunk().await.map_err(|error| self.broken(&error))?;
                let whole = bytes.is_none();
                let taken = out.send(bytes.map_or(AudioChunk::End, AudioChunk::Bytes)).await;
                match (taken, whole) {
                    // Whoever takes no more of it says why.
                    (Err(_), _) => return Ok(()),
                    (Ok(()), true) => break,
                    (Ok(()), false) => {}
                }
            }
        }
        Ok(())
    }

    /// Has a recording written down.
    pub(crate) async fn transcribe(&self, recording: Recording) -> Result<String, SpeechError> {
        let Recording { content, bytes, mime } = recording;
        let file = Part::stream_with_length(Body::wrap_stream(content), bytes)
            .file_name(format!("recording.{}", extension(&mime)));
        let mut form = Form::new()
            .text("model", self.server.model.clone().unwrap_or_else(|| "whisper-1".to_owned()))
            .text("response_format", "json");
        if let Some(language) = &self.server.language {
            form = form.text("language", language.clone());
        }
        let form = form.part("file", file);
        let answer = self.send_request(self.http.post(self.url.clone()).multipart(form)).await?;
        let answer = self.read(answer, MAX_RESPONSE_BYTES).await?;
        let answer: Option<Value> = serde_json::from_slice(&answer).ok();
        let words = answer.as_ref().and_then(|answer| answer["text"].as_str()).ok_or_else(|| SpeechError {
            reason: format!("{} sent an answer that could not be understood", self.who),
            remedy: None,
            retryable: true,
        })?;
        Ok(words.trim().to_owned())
    }

    async fn send_request(&self, request: RequestBuilder) -> Result<Response, SpeechError> {
        let request = match &self.server.api_key {
            Some(key) => request.bearer_auth(key.expose_secret()),
            None => request,
        };
        let answer = request.send().await.map_err(|error| self.broken(&error))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status();
        let body = self.read(answer, LARGEST_ERROR).await.unwrap_or_default();
        Err(self.refusal(status, &body))
    }

    async fn read(&self, mut answer: Response, largest: usize) -> Result<Vec<u8>, SpeechError> {
        let mut body = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(|error| self.broken(&error))? {
            if body.len() + piece.len() > largest {
                return Err(SpeechError {
                    reason: format!("{}'s answer does not end", self.who),
                    remedy: None,
                    retryable: false,
                });
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }

    /// What a status means. A server's own words are told where they say more.
    fn refusal(&self, status: StatusCode, body: &[u8]) -> SpeechError {
        let Self { who, task, .. } = self;
        let section = task.section();
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let error = &body["error"];
        let said = error["message"].as_str().or_else(|| error.as_str()).unwrap_or_default();
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
                let said = self.redact(said);
                let said = if said.is_empty() { said } else { format!(": {said}") };
                (format!("{who} refused it ({code}){said}"), false)
            }
        };
        SpeechError { reason, remedy, retryable }
    }

    /// Why there is no connection, or no more of one; in our words, for the vendor's hold the address.
    fn broken(&self, error: &reqwest::Error) -> SpeechError {
        let who = &self.who;
        let reason = match error {
            error if error.is_connect() => format!("{who} can't be reached"),
            error if error.is_timeout() => format!("{who} did not answer in time"),
            _ => format!("the connection to {who} was interrupted"),
        };
        SpeechError { reason, remedy: None, retryable: true }
    }

    /// A server's own words without secrets, addresses and what can't be shown.
    fn redact(&self, said: &str) -> String {
        let key = self.server.api_key.as_ref().map(SecretString::expose_secret).filter(|key| !key.is_empty());
        let said = key.map_or_else(|| said.to_owned(), |key| said.replace(key, "…"));
        let is_secret = |word: &str| word.contains("://") || word.contains("sk-") || word.len() > 60;
        let words = said.split_whitespace().map(|word| if is_secret(word) { "…" } else { word });
        let said = words.collect::<Vec<_>>().join(" ");
        let said: String = said.chars().filter(|c| !is_unsafe_char(*c)).take(MAX_REASON_CHARS).collect();
        said.trim_end_matches(['.', ' ']).to_owned()
    }
}

/// A client that follows no redirect, because a key would be sent along, and reads certificates only where it needs them.
fn client(url: &Url) -> Result<Client, SpeechSetupError> {
    // Whoever installs a provider first has chosen for the whole process.
    let _already = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder()
        .connect_timeout(CONNECT)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("satchel/", env!("CARGO_PKG_VERSION")));
    let builder = if url.scheme() == "https" { builder } else { builder.tls_certs_only([]) };
    let local = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    let builder = if local { builder.no_proxy() } else { builder };
    builder.build().map_err(|_| SpeechSetupError::Certificates)
}

/// The extension by which servers and programs tell what a recording is.
pub(crate) fn extension(mime: &str) -> &'static str {
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
            prop_assert!(pieces.iter().all(|piece| !piece.is_empty() && piece.chars().count() <= PIECE));
            let bare = |text: &str| text.split_whitespace().collect::<String>();
            prop_assert_eq!(bare(&pieces.concat()), bare(&words));
        }
    }
}

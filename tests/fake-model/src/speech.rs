//! A strict fake of the two calls with which OpenAI and compatible servers speak and listen.
//!
//! What it refuses, OpenAI's reference refuses: <https://platform.openai.com/docs/api-reference/audio/createSpeech> and
//! <https://platform.openai.com/docs/api-reference/audio/createTranscription>. Words become a tone, 20 ms a character.

use std::{
    collections::VecDeque,
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, Multipart, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// "The maximum length is 4096 characters."
const MAX_INPUT_CHARS: usize = 4_096;

/// "File uploads are currently limited to 25 MB" (guide on speech to text).
const MAX_FILE_BYTES: usize = 25 << 20;

/// The rate of what OpenAI speaks.
const SAMPLE_RATE_HZ: u32 = 24_000;

/// What a request asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordedSpeechRequest {
    Speak {
        input: String,
        model: String,
        voice: String,
    },
    Transcribe {
        file: Bytes,
        filename: String,
        model: String,
        /// The language, if it was named.
        language: Option<String>,
    },
}

/// What the next request is answered with instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpeechFault {
    /// A status, and the code and the words of an error.
    Refused(u16, &'static str, &'static str),
    /// Half of the answer, then a cut.
    BrokenOff,
    /// No answer ever comes.
    Hang,
    /// These bytes with status 200.
    Bytes(Vec<u8>),
}

/// A speech server on a free loopback port. It ends when it is dropped.
pub struct FakeSpeechServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    stopped: CancellationToken,
}

#[derive(Default)]
struct Shared {
    state: Mutex<SpeechState>,
}

#[derive(Default)]
struct SpeechState {
    requests: Vec<RecordedSpeechRequest>,
    refused: Vec<String>,
    faults: VecDeque<SpeechFault>,
    words: String,
    open_to_all: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, SpeechState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FakeSpeechServer {
    fn drop(&mut self) {
        self.stopped.cancel();
    }
}

impl FakeSpeechServer {
    /// The only key that it takes.
    pub const KEY: &'static str = "sk-fake-91d3speechcanary";

    /// Starts a server.
    ///
    /// # Errors
    /// When no loopback port can be had.
    pub async fn start() -> io::Result<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let (address, stopped) = (listener.local_addr()?, CancellationToken::new());
        let shared = Arc::new(Shared::default());
        let routes = Router::new()
            .route("/v1/audio/speech", post(speak))
            .route("/v1/audio/transcriptions", post(transcribe))
            .layer(DefaultBodyLimit::max(MAX_FILE_BYTES + (1 << 20)))
            .with_state(Arc::clone(&shared));
        let serving = axum::serve(listener, routes).with_graceful_shutdown(stopped.clone().cancelled_owned());
        // It ends with the token, which is cancelled when the server is dropped.
        tokio::spawn(async move { serving.await });
        Ok(Self { address, shared, stopped })
    }

    /// Where a client finds it.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// What recordings are understood as from now on.
    pub fn hears(&self, words: &str) {
        self.shared.state().words = words.to_owned();
    }

    /// Answers the next request that is in order with this; further faults meet the requests after it.
    pub fn fail_next(&self, fault: SpeechFault) {
        self.shared.state().faults.push_back(fault);
    }

    /// Takes requests without a key, as servers at home do.
    pub fn open_to_all(&self) {
        self.shared.state().open_to_all = true;
    }

    /// The requests that were in order, whatever they were answered.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedSpeechRequest> {
        self.shared.state().requests.clone()
    }

    /// Why requests were refused as not in order.
    #[must_use]
    pub fn refused(&self) -> Vec<String> {
        self.shared.state().refused.clone()
    }
}

/// What OpenAI answers to a request that isn't in order.
fn refuse(shared: &Shared, status: StatusCode, code: &str, message: String) -> Response {
    let body = json!({"error": {"message": message, "type": "invalid_request_error", "param": null, "code": code}});
    shared.state().refused.push(message);
    (status, Json(body)).into_response()
}

fn wrong_key(shared: &Shared, headers: &HeaderMap) -> Option<Response> {
    let given = headers.get(header::AUTHORIZATION).map(|value| value.to_str().unwrap_or_default().to_owned());
    let expected = format!("Bearer {}", FakeSpeechServer::KEY);
    match given {
        None if shared.state().open_to_all => None,
        Some(given) if given == expected => None,
        // OpenAI repeats the key, all but its middle.
        given => {
            let message = format!("Incorrect API key provided: {}.", given.unwrap_or_default().replace("Bearer ", ""));
            Some(refuse(shared, StatusCode::UNAUTHORIZED, "invalid_api_key", message))
        }
    }
}

async fn speak(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    if let Some(refusal) = wrong_key(&shared, &headers) {
        return refusal;
    }
    let invalid = |message: String| refuse(&shared, StatusCode::BAD_REQUEST, "invalid_value", message);
    let Ok(Value::Object(body)) = serde_json::from_slice(&body) else {
        return invalid("We could not parse the JSON body of your request.".to_owned());
    };
    const FIELDS: [&str; 7] = ["model", "input", "voice", "response_format", "instructions", "speed", "stream_format"];
    if let Some(unknown) = body.keys().find(|key| !FIELDS.contains(&key.as_str())) {
        return invalid(format!("Unrecognized request argument supplied: {unknown}"));
    }
    let text = |key: &str| body.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (input, model, voice, format) = (text("input"), text("model"), text("voice"), text("response_format"));
    if !["tts-1", "tts-1-hd", "gpt-4o-mini-tts"].contains(&model.as_str()) {
        let message = format!("The model `{model}` does not exist or you do not have access to it.");
        return refuse(&shared, StatusCode::NOT_FOUND, "model_not_found", message);
    }
    const VOICES: [&str; 11] =
        ["alloy", "ash", "ballad", "coral", "echo", "fable", "onyx", "nova", "sage", "shimmer", "verse"];
    if !VOICES.contains(&voice.as_str()) {
        return invalid(format!("Input should be 'nova', 'shimmer', … and not {voice:?} in voice"));
    }
    if input.is_empty() || input.chars().count() > MAX_INPUT_CHARS {
        return invalid(format!("String should have 1 to {MAX_INPUT_CHARS} characters, not {}", input.chars().count()));
    }
    if !["wav", "opus"].contains(&format.as_str()) {
        return invalid(format!("this fake speaks wav and opus, not {format:?}"));
    }
    let length = input.chars().count();
    shared.state().requests.push(RecordedSpeechRequest::Speak { input, model, voice });
    answer(&shared, "audio/wav", tone(length)).await
}

async fn transcribe(State(shared): State<Arc<Shared>>, headers: HeaderMap, mut form: Multipart) -> Response {
    if let Some(refusal) = wrong_key(&shared, &headers) {
        return refusal;
    }
    let invalid = |message: String| refuse(&shared, StatusCode::BAD_REQUEST, "invalid_value", message);
    let (mut file, mut filename, mut model, mut language) = (None, String::new(), String::new(), None);
    loop {
        let field = match form.next_field().await {
            Ok(Some(field)) => field,
            Ok(None) => break,
            Err(error) => return invalid(format!("the form can't be read: {error}")),
        };
        let name = field.name().unwrap_or_default().to_owned();
        if name == "file" {
            filename = field.file_name().unwrap_or_default().to_owned();
        }
        let content = match field.bytes().await {
            Ok(content) => content,
            Err(error) => return invalid(format!("the form broke off: {error}")),
        };
        let text = || String::from_utf8_lossy(&content).into_owned();
        match name.as_str() {
            "file" => file = Some(content),
            "model" => model = text(),
            "language" => language = Some(text()),
            "response_format" if ["json", "verbose_json"].contains(&text().as_str()) => {}
            "prompt" | "temperature" => {}
            other => return invalid(format!("Unrecognized request argument supplied: {other}")),
        }
    }
    let Some(file) = file else { return invalid("field required: file".to_owned()) };
    if file.len() > MAX_FILE_BYTES {
        let message = format!("Maximum content size limit ({MAX_FILE_BYTES}) exceeded ({} bytes read)", file.len());
        return refuse(&shared, StatusCode::PAYLOAD_TOO_LARGE, "too_large", message);
    }
    if !["whisper-1", "gpt-4o-transcribe", "gpt-4o-mini-transcribe"].contains(&model.as_str()) {
        return refuse(&shared, StatusCode::NOT_FOUND, "model_not_found", format!("no model {model}"));
    }
    const FORMATS: [&str; 9] = ["flac", "m4a", "mp3", "mp4", "mpeg", "mpga", "oga", "ogg", "wav"];
    let extension = filename.rsplit_once('.').map_or("", |(_, extension)| extension);
    if !FORMATS.contains(&extension) || file.is_empty() {
        return invalid(format!("Unrecognized file format. Supported formats: {FORMATS:?}"));
    }
    if language.as_ref().is_some_and(|language| language.len() != 2) {
        return invalid("Language parameter must be specified in ISO-639-1 format.".to_owned());
    }
    let words = {
        let mut state = shared.state();
        state.requests.push(RecordedSpeechRequest::Transcribe { file, filename, model, language });
        state.words.clone()
    };
    answer(&shared, "application/json", json!({ "text": words }).to_string().into_bytes()).await
}

/// The answer, or the fault that was scripted.
async fn answer(shared: &Shared, kind: &'static str, body: Vec<u8>) -> Response {
    let fault = shared.state().faults.pop_front();
    let kind = [(header::CONTENT_TYPE, kind)];
    match fault {
        None => {
            // In pieces, as a server that speaks while it thinks.
            let pieces: Vec<_> = body.chunks(7_777).map(Bytes::copy_from_slice).map(Ok::<_, Infallible>).collect();
            (kind, Body::from_stream(stream::iter(pieces))).into_response()
        }
        Some(SpeechFault::Refused(status, code, message)) => {
            let status = StatusCode::from_u16(status).expect("a test names a status");
            (status, Json(json!({"error": {"message": message, "code": code}}))).into_response()
        }
        Some(SpeechFault::BrokenOff) => {
            let half = Bytes::copy_from_slice(&body[..body.len() / 2]);
            let cut = stream::iter([Ok(half), Err(io::Error::other("cut"))]);
            // Only after the first half has been sent.
            let slowly = cut.then(|piece| async {
                tokio::task::yield_now().await;
                piece
            });
            (kind, Body::from_stream(slowly)).into_response()
        }
        Some(SpeechFault::Hang) => std::future::pending().await,
        Some(SpeechFault::Bytes(bytes)) => (kind, bytes).into_response(),
    }
}

/// A tone of 20 ms a character, as OpenAI sends WAV: the lengths in the header are unknown when it begins.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "a few seconds of 16 bits")]
fn tone(characters: usize) -> Vec<u8> {
    let mut wav = b"RIFF\xFF\xFF\xFF\xFFWAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec();
    wav.extend(SAMPLE_RATE_HZ.to_le_bytes());
    wav.extend((SAMPLE_RATE_HZ * 2).to_le_bytes());
    wav.extend(b"\x02\0\x10\0data\xFF\xFF\xFF\xFF");
    let samples = characters * SAMPLE_RATE_HZ as usize / 50;
    wav.extend((0..samples).flat_map(|at| {
        let phase = at as f32 * 300.0 / SAMPLE_RATE_HZ as f32 * std::f32::consts::TAU;
        ((phase.sin() * 12_000.0) as i16).to_le_bytes()
    }));
    wav
}

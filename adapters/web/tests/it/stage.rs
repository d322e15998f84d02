//! A server with everything behind it but the worker, whose part the tests play.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use futures::StreamExt;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::{
    Client, RequestBuilder, Response,
    header::{AUTHORIZATION, HeaderMap, HeaderValue},
};
use satchel_domain::{
    AttachmentId, AttachmentSource, ChannelCapabilities, ChannelName, ConversationId, Ending, FileReference, Filename,
    HistoryMessage, InboundMessage, MessageRef, NewAttachment, OutgoingResponse, Part, PartContent, PartState, Sender,
    StoredBlob, SystemTask, TurnId, UndecodableUpdate,
    capabilities::{
        CaptionRule, GroupingRule, Idempotency, LookupRule, ReplyRule, StreamRule, TextLimit, TextUnit, VoiceRule,
    },
    delivery::DeliveryRules,
    part::{FileForm, FileItem, Markup, Plan, PlannedPart},
};
use satchel_files::DirectoryBlobs;
use satchel_ledger_sqlite::SqliteLedger;
use satchel_local::{LocalBus, SystemClock, UuidV7};
use satchel_ports::{
    Archive, BlobHint, Blobs, BusEvent, Channel, Clock, Conversations, EventBus, FetchedFile, Inbound, InboundError,
    Inbox, Lease, Leases, Notification, NotificationError, Notifications, Outbox, Turns,
    ledger::{ClaimMode, CompletedTurn, HistoryChange, InboundFileState, Settlement, WorkFilter},
};
use satchel_web::{Administration, WebChannel, WebError, WebLinks, WebPorts, WebServer, WebSettings};
use serde_json::{Value, json};
use sha2::Sha256;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Longer than anything takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// What every client of the stage knows but its visitor.
pub(crate) const TOKEN: &str = "correct horse battery";

/// What a program sends that knows it.
pub(crate) const BEARER: &str = "Bearer correct horse battery";

/// The largest file that the stage takes.
pub(crate) const FILE_BYTES: u64 = 300_000;

/// Takes messages in as the product does, without anybody to work on them.
struct Door {
    ledger: Arc<SqliteLedger>,
    bus: Arc<dyn EventBus>,
    taken: Mutex<Vec<InboundMessage>>,
}

#[async_trait]
impl Inbound for Door {
    async fn accept(&self, message: InboundMessage) -> Result<Option<TurnId>, InboundError> {
        let received = self.ledger.receive(&message, ClaimMode::Never).await;
        let received = received.map_err(|error| InboundError(Box::new(error)))?;
        let event = BusEvent::MessageReceived { conversation: message.conversation.clone(), turn: received.turn };
        self.taken.lock().unwrap().push(message);
        self.bus.publish(event).await.unwrap();
        Ok(Some(received.turn))
    }

    async fn rename_conversation(&self, from: ConversationId, to: ConversationId) -> Result<(), InboundError> {
        panic!("conversations of the page stay where they are: {from} to {to}");
    }

    async fn record_undecodable(&self, update: UndecodableUpdate) -> Result<(), InboundError> {
        panic!("the page reads everything that it gets: {update:?}");
    }

    async fn load_checkpoint(&self, channel: &ChannelName) -> Result<Option<Value>, InboundError> {
        panic!("what was not taken is offered again: {channel}");
    }

    async fn save_checkpoint(&self, channel: &ChannelName, bookmark: Value) -> Result<(), InboundError> {
        panic!("what was not taken is offered again: {channel}, {bookmark}");
    }
}

/// Takes notifications in as the product does, but for what the service behind the port checks.
#[async_trait]
impl Notifications for Door {
    async fn send(&self, notification: Notification) -> Result<TurnId, NotificationError> {
        let Notification { conversation, key, text, files } = notification;
        if self.ledger.find_conversation(&conversation).await?.is_none() {
            return Err(NotificationError::UnknownConversation(conversation));
        }
        match key.as_deref() {
            Some("reused") => return Err(NotificationError::KeyReused("reused".into())),
            Some("failed") => {
                let (key, reason) = ("failed".into(), "blocked by the user".into());
                return Err(NotificationError::NotDelivered { key, part: None, reason });
            }
            Some("") => return Err(NotificationError::Invalid("a key has letters".into())),
            _ => {}
        }
        let sender = Sender::new("notification", "Notification");
        let files = files.iter().map(|file| FileReference::stored(&file.blob, file.filename.clone())).collect();
        let message = InboundMessage {
            files,
            system_task: Some(SystemTask::DeliverNotification { text }),
            ..InboundMessage::new(conversation, key.unwrap_or_default(), sender)
        };
        Ok(self.accept(message).await?.expect("everybody may send"))
    }
}

pub(crate) struct Stage {
    pub(crate) dir: TempDir,
    pub(crate) address: SocketAddr,
    /// Sends the token with each request.
    pub(crate) client: Client,
    /// Somebody who knows no token.
    pub(crate) visitor: Client,
    pub(crate) ledger: Arc<SqliteLedger>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) blobs: Arc<dyn Blobs>,
    pub(crate) bus: Arc<dyn EventBus>,
    pub(crate) channel: Arc<WebChannel>,
    /// What other channels have of it.
    pub(crate) links: Option<WebLinks>,
    /// Cancelled when the process begins to stop.
    pub(crate) drain: CancellationToken,
    pub(crate) stop: CancellationToken,
    door: Arc<Door>,
    served: Option<JoinHandle<Result<(), WebError>>>,
}

pub(crate) fn settings(dir: &TempDir) -> WebSettings {
    WebSettings {
        listen: "127.0.0.1:0".parse().unwrap(),
        public_url: None,
        token: Some(TOKEN.into()),
        trusted_proxies: Vec::new(),
        capabilities: ChannelCapabilities {
            text: TextLimit { unit: TextUnit::Chars, max: None, entities: None },
            blocks: None,
            caption: CaptionRule::Hidden,
            photo: None,
            native_media: false,
            file_bytes: 2 << 30,
            request_bytes: None,
            grouping: GroupingRule::Messages { max: usize::MAX, with_text: true },
            voice: VoiceRule::Message,
            idempotency: Idempotency::Key { window_ms: None },
            look_up: LookupRule::None,
            can_edit: true,
            replies: ReplyRule::PersonMessage,
            joins_messages: false,
            stream: StreamRule::Deltas,
            rate_limits: None,
        },
        file_bytes: FILE_BYTES,
        files_per_message: 3,
        key_file: dir.path().join("web.key"),
        model: "offline".into(),
        model_is_offline: true,
        model_takes_images: false,
        commands: Vec::new(),
        images: None,
        metrics: None,
    }
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut WebSettings)) -> Self {
        Self::on(Arc::new(LocalBus::new()), change).await
    }

    /// A stage whose people are owners.
    pub(crate) async fn of_owners(administration: Arc<dyn Administration>) -> Self {
        Self::open(Arc::new(LocalBus::new()), |_| {}, Vec::new(), Some(administration)).await
    }

    /// A stage of a process that has these channels besides the page.
    pub(crate) async fn beside(channels: Vec<Arc<dyn Channel>>) -> Self {
        Self::open(Arc::new(LocalBus::new()), |_| {}, channels, None).await
    }

    pub(crate) async fn on(bus: Arc<dyn EventBus>, change: impl FnOnce(&mut WebSettings)) -> Self {
        Self::open(bus, change, Vec::new(), None).await
    }

    async fn open(
        bus: Arc<dyn EventBus>,
        change: impl FnOnce(&mut WebSettings),
        channels: Vec<Arc<dyn Channel>>,
        administration: Option<Arc<dyn Administration>>,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = settings(&dir);
        change(&mut settings);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let ledger = SqliteLedger::open(
            dir.path(),
            satchel_ledger_sqlite::Settings::default(),
            Arc::clone(&clock),
            Arc::new(UuidV7),
        )
        .await;
        let ledger = Arc::new(ledger.unwrap());
        let blobs: Arc<dyn Blobs> = Arc::new(DirectoryBlobs::open(&dir.path().join("blobs")).unwrap());
        let door = Door { ledger: Arc::clone(&ledger), bus: Arc::clone(&bus), taken: Mutex::default() };
        let door = Arc::new(door);
        let channel = Arc::new(WebChannel::open(&settings, Arc::clone(&blobs), &*ledger).await.unwrap());
        let links = WebLinks::new(&settings, &channel, Arc::clone(&clock)).unwrap();
        let ports = WebPorts {
            inbound: Arc::clone(&door) as _,
            notifications: Arc::clone(&door) as _,
            conversations: Arc::clone(&ledger) as _,
            storage: Arc::clone(&ledger) as _,
            archive: Arc::clone(&ledger) as _,
            logins: Arc::clone(&ledger) as _,
            clock: Arc::clone(&clock),
            blobs: Arc::clone(&blobs),
            bus: Arc::clone(&bus),
            channels,
            administration,
        };
        let server = WebServer::bind(settings, Arc::clone(&channel), ports).await.unwrap();
        let (address, drain, stop) = (server.address(), CancellationToken::new(), CancellationToken::new());
        let served = Some(tokio::spawn(server.serve(drain.clone(), stop.clone())));
        let visitor = client().no_proxy().timeout(PATIENCE).build().unwrap();
        let client = client().no_proxy().timeout(PATIENCE).default_headers(bearer()).build().unwrap();
        Self { dir, address, client, visitor, ledger, clock, blobs, bus, channel, links, drain, stop, door, served }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// What stands behind `host: ` in a request that is written by hand: the address, and the token on the next line.
    pub(crate) fn host(&self) -> String {
        format!("{}\r\nauthorization: {BEARER}", self.address)
    }

    /// Asks without the token.
    pub(crate) async fn visit(&self, path: &str) -> Response {
        self.visitor.get(self.url(path)).send().await.unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.client.get(self.url(path)).send().await.unwrap()
    }

    pub(crate) fn post(&self, path: &str) -> RequestBuilder {
        self.client.post(self.url(path))
    }

    /// Asks for JSON and expects it.
    pub(crate) async fn json(&self, path: &str) -> Value {
        let answer = self.get(path).await;
        assert_eq!(answer.status(), 200, "{path}");
        read(answer).await
    }

    /// Sends a message into the conversation `a`.
    pub(crate) async fn say(&self, key: &str, text: &str) -> TurnId {
        self.say_with(key, text, &[]).await
    }

    pub(crate) async fn say_with(&self, key: &str, text: &str, uploads: &[String]) -> TurnId {
        let body = json!({"key": key, "text": text, "uploads": uploads});
        let answer = self.post("/api/conversations/a/messages").json(&body);
        let answer = answer.send().await.unwrap();
        assert_eq!(answer.status(), 202, "{key}");
        read(answer).await["turn"].as_str().unwrap().parse().unwrap()
    }

    pub(crate) fn upload(&self, filename: &str, content: impl Into<reqwest::Body>) -> RequestBuilder {
        let escaped: String = filename.bytes().map(|byte| format!("%{byte:02X}")).collect();
        self.post(&format!("/api/conversations/a/uploads?filename={escaped}"))
            .header("content-type", "application/octet-stream")
            .body(content)
    }

    pub(crate) async fn uploaded(&self, filename: &str, content: impl Into<reqwest::Body>) -> Value {
        let answer = self.upload(filename, content).send().await.unwrap();
        assert_eq!(answer.status(), 201, "{filename}");
        read(answer).await
    }

    /// What came in at the door.
    pub(crate) fn taken(&self) -> Vec<InboundMessage> {
        self.door.taken.lock().unwrap().clone()
    }

    pub(crate) async fn publish(&self, event: BusEvent) {
        self.bus.publish(event).await.unwrap();
    }

    pub(crate) async fn wrote(&self, turn: TurnId, message: u32, text: &str) {
        self.publish(BusEvent::TextDelta { conversation: conversation(), turn, message, text: text.into() }).await;
    }

    /// Works on the oldest turn: fetches its files and answers; nothing is delivered yet.
    pub(crate) async fn answer(&self, text: &str, files: Vec<NewAttachment>) -> (Lease, Vec<Part>) {
        let channels = [self.channel.name(), self.channel.for_programs().name()];
        let lease =
            self.ledger.claim_lane(&channels, WorkFilter::Any).await.unwrap().expect("something is to be done").lease;
        let turn = self.ledger.next_turn(&lease).await.unwrap().expect("a turn waits");
        for message in &turn.messages {
            for (index, file) in (0..).zip(&message.files) {
                let InboundFileState::Waiting(reference) = file else { continue };
                let blob = match reference.stored_blob() {
                    Some(blob) => blob,
                    None => match self.channel.fetch(reference).await.unwrap() {
                        FetchedFile::Stored(blob) => blob,
                        FetchedFile::Bytes { .. } => panic!("uploads lie in the store already"),
                    },
                };
                let file = self.new_file(reference.filename.as_str(), blob, AttachmentSource::User);
                self.ledger.store_file(&lease, message.id, index, &file).await.unwrap();
            }
        }
        let files = self.ledger.register_files(turn.id, &files).await.unwrap();
        let response = OutgoingResponse { text: Some(text.into()), voice: None, attachments: files.clone() };
        let item = |attachment| FileItem { attachment, form: FileForm::Document, caption: String::new() };
        let mut contents = Vec::new();
        if !text.is_empty() {
            contents.push(PartContent::from_text(text));
        }
        contents.extend(files.into_iter().map(|file| PartContent::File(item(file))));
        self.complete(&lease, turn.id, response, contents).await;
        let mut parts = self.ledger.turn(turn.id).await.unwrap().unwrap().parts;
        parts.sort_by_key(|part| part.position);
        (lease, parts)
    }

    pub(crate) async fn complete(
        &self,
        lease: &Lease,
        turn: TurnId,
        response: OutgoingResponse,
        contents: Vec<PartContent>,
    ) {
        let completed = CompletedTurn {
            turn,
            ending: Ending::Done,
            response: response.clone(),
            plan: Plan { parts: contents.into_iter().map(PlannedPart::new).collect() },
            history: HistoryChange::Append(vec![HistoryMessage::Note { text: "said".into() }]),
            setting: None,
            steered: Vec::new(),
            injected_texts: Default::default(),
            reported_failures: Vec::new(),
            reply_to: None,
            changes: Vec::new(),
            answered: None,
            hands_over: false,
        };
        self.ledger.complete_turn(lease, &completed).await.unwrap();
        let conversation = lease.conversation.clone();
        let event = BusEvent::TurnCompleted { conversation, turn, ending: "done".into(), response };
        self.publish(event).await;
    }

    pub(crate) async fn settle(&self, lease: &Lease, part: &Part, state: PartState) {
        let part = Part { state, ..part.clone() };
        let settlement =
            Settlement { part: part.clone(), children: Vec::new(), notice: None, rules: DeliveryRules::default() };
        self.ledger.settle_part(lease, &settlement).await.unwrap();
        let event = BusEvent::DeliveryPart {
            conversation: part.conversation.clone(),
            turn: part.turn,
            part: part.id,
            kind: part.operation.kind().into(),
            state: part.state.as_str().into(),
            messages: Vec::new(),
            reason: None,
        };
        self.publish(event).await;
    }

    /// Answers the oldest turn and delivers everything.
    pub(crate) async fn reply(&self, text: &str, files: Vec<NewAttachment>) -> Vec<Part> {
        let (lease, parts) = self.answer(text, files).await;
        for part in &parts {
            self.settle(&lease, part, sent(part)).await;
        }
        parts
    }

    /// A file that a tool has made and a turn can answer with.
    pub(crate) async fn made(&self, filename: &str, content: impl Into<bytes::Bytes>) -> NewAttachment {
        let content = content.into();
        let content = futures::stream::once(async move { Ok(content) }).boxed();
        let hint = BlobHint { filename: Some(Filename::from_untrusted(filename)), mime: None, bytes: None };
        let blob = self.blobs.put(content, &hint, 1 << 30).await.unwrap();
        self.new_file(filename, blob, AttachmentSource::Tool)
    }

    fn new_file(&self, filename: &str, blob: StoredBlob, source: AttachmentSource) -> NewAttachment {
        let (id, filename) = (AttachmentId(Uuid::now_v7()), Filename::from_untrusted(filename));
        NewAttachment::new(id, source, filename, blob, self.clock.now())
    }

    /// A file in the conversation `a`, with its address in the API.
    pub(crate) async fn file(&self, filename: &str, content: impl Into<bytes::Bytes>) -> (NewAttachment, String) {
        let made = self.made(filename, content).await;
        self.say(&format!("for-{}", made.id), "a file, please").await;
        self.reply("Here it is.", vec![made.clone()]).await;
        let path = format!("/api/conversations/a/files/{}", made.id);
        (made, path)
    }

    /// The names of all files in the file store, those on their way in too.
    pub(crate) fn stored(&self) -> Vec<PathBuf> {
        fn walk(directory: PathBuf, found: &mut Vec<PathBuf>) {
            for entry in std::fs::read_dir(directory).unwrap().flatten() {
                match entry.file_type().unwrap().is_dir() {
                    true => walk(entry.path(), found),
                    false if entry.file_name() == "lock" => {}
                    false => found.push(entry.path()),
                }
            }
        }
        let mut found = Vec::new();
        walk(self.dir.path().join("blobs"), &mut found);
        found
    }

    /// Stops the server and waits until it has.
    pub(crate) async fn stopped(&mut self) {
        self.stop.cancel();
        let served = self.served.take().expect("it is stopped once");
        tokio::time::timeout(PATIENCE, served).await.expect("it stops").unwrap().unwrap();
    }
}

pub(crate) fn conversation() -> ConversationId {
    "web:a".parse().unwrap()
}

pub(crate) fn sent(part: &Part) -> PartState {
    PartState::Sent { messages: vec![MessageRef(part.id.to_string())] }
}

pub(crate) fn plain_text(text: &str) -> PartContent {
    PartContent::Text { text: text.into(), markup: Markup::Plain, files: Vec::new() }
}

pub(crate) fn unknown_id() -> String {
    Uuid::from_u128(7).to_string()
}

/// Reads a body of JSON.
pub(crate) async fn read(answer: Response) -> Value {
    serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap()
}

/// A header's value; empty when it isn't there.
pub(crate) fn header(answer: &Response, name: &str) -> String {
    answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
}

/// Expects a problem of this status and code.
pub(crate) async fn problem(answer: Response, status: u16, code: &str) -> Value {
    assert_eq!(answer.status(), status, "{code}");
    assert_eq!(header(&answer, "content-type"), "application/problem+json");
    let body = read(answer).await;
    assert_eq!((&body["code"], &body["status"]), (&json!(code), &json!(status)), "{body}");
    assert!(body["detail"].as_str().is_some_and(|detail| detail.ends_with('.')), "{body}");
    body
}

/// A stream of events as a browser reads it.
pub(crate) struct Events {
    answer: Response,
    unread: Vec<u8>,
}

impl Events {
    pub(crate) async fn of(stage: &Stage) -> Self {
        let client = client().no_proxy().default_headers(bearer()).build().unwrap();
        let answer = client.get(stage.url("/api/conversations/a/events"));
        let answer = answer.send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(header(&answer, "content-type"), "text/event-stream");
        Self { answer, unread: Vec::new() }
    }

    /// The next event; `None` at the stream's end.
    pub(crate) async fn next(&mut self) -> Option<(String, Value)> {
        let read = tokio::time::timeout(PATIENCE, self.read()).await;
        read.expect("an event comes in time")
    }

    async fn read(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some(end) = self.unread.windows(2).position(|two| two == b"\n\n") {
                let event: Vec<u8> = self.unread.drain(..end + 2).collect();
                let event = String::from_utf8(event).unwrap();
                let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
                if let (Some(name), Some(data)) = (field("event: "), field("data: ")) {
                    return Some((name.to_owned(), serde_json::from_str(data).unwrap()));
                }
                continue;
            }
            match self.answer.chunk().await.unwrap() {
                Some(piece) => self.unread.extend_from_slice(&piece),
                None => return None,
            }
        }
    }

    /// The next event, which must be of this kind.
    pub(crate) async fn expect(&mut self, name: &str) -> Value {
        let (found, data) = self.next().await.expect("the stream goes on");
        assert_eq!(found, name, "{data}");
        data
    }

    /// Reads on until an event is as it is wanted.
    pub(crate) async fn find(&mut self, name: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let (found, data) = self.next().await.expect("the stream goes on");
            if found == name && wanted(&data) {
                return data;
            }
        }
    }
}

/// Sends bytes as they are and reads everything that comes back.
pub(crate) async fn raw(stage: &Stage, request: &str) -> String {
    let mut socket = TcpStream::connect(stage.address).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(PATIENCE, socket.read_to_end(&mut answer)).await.expect("it is answered").unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// Signs with the server's own key, as it would have at another time.
pub(crate) fn signed(stage: &Stage, purpose: &str, content: &Value) -> String {
    let key = std::fs::read(stage.dir.path().join("web.key")).unwrap();
    let content = content.to_string();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    mac.update(format!("{purpose}\0{content}").as_bytes());
    format!("{}.{}", URL_SAFE_NO_PAD.encode(content), URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
}

fn bearer() -> HeaderMap {
    HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(BEARER))])
}

/// A client to be. It never speaks TLS, but where another crate of the build does it can't be made without a provider.
fn client() -> reqwest::ClientBuilder {
    let _installed_already = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
}

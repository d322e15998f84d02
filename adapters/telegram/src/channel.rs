//! Telegram as a [`Channel`].

use std::{
    borrow::Cow,
    fmt,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use satchel_domain::{
    ChannelCapabilities, ChannelName, ChannelState, ConversationId, FileReference, MessageRef, PartContent, PartId,
    capabilities::{LookupRule, StreamRule, TextLimit, VoiceRule},
    delivery::{Refusal, SendError},
    part::Markup,
};
use satchel_platform_http::{ActivityIndicator, HttpTimeouts};
use satchel_ports::{
    Activity, Blobs, Channel, FetchedFile, FileFetchError, LookupOutcome, LookupRequest, PostRequest, PreviewRequest,
};
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use teloxide::{
    payloads::{DeleteMessage, GetMe, SendChatAction},
    types::{ChatAction, ChatId, MessageId},
};

use crate::{
    address::{ConversationAddress, SendDestination, channel_name},
    bot::{BotClient, CallError, TelegramError},
    cache::ChatCache,
    classify::{ApiOperation, CallOutcome, classify_error},
    fetch,
    lookup::Lookup,
    message_ids::MessageIds,
    rate_limiter::{CallKind, RateLimiter},
    render::fits_one_message,
    rich_refusals::RichRefusals,
    send::{self, ComposeError, ComposedMessage},
    settings::{LookupSettings, TelegramSettings},
};

/// Shortest interval between two edits of a streamed reply in a group, where twenty calls a minute are allowed.
const GROUP_EDIT_INTERVAL_MS: u64 = 3_200;

/// Delay of a send to a chat in which a look-up is running.
const SEARCH_DELAY: Duration = Duration::from_secs(1);

/// Sends parts to Telegram and fetches the files that people sent.
pub struct TelegramChannel {
    client: BotClient,
    capabilities: ChannelCapabilities,
    local_files: Option<PathBuf>,
    blobs: Arc<dyn Blobs>,
    rate_limiter: RateLimiter,
    activities: ActivityIndicator<ConversationAddress>,
    cache: ChatCache,
    message_ids: Arc<MessageIds>,
    look_up: LookupSettings,
    rich_refusals: RichRefusals,
    /// Whether the server has refused a draft because it is of an older Bot API. Asked again after a restart.
    lacks_drafts: AtomicBool,
}

/// A message in a response. No other field is decoded, so that no other field can make a response undecodable.
#[derive(Deserialize)]
struct SentMessage {
    message_id: i64,
}

impl TelegramChannel {
    /// Creates the channel without connecting.
    ///
    /// # Errors
    /// When the token or the server's URL is malformed, or the system has no root certificates.
    pub fn new(settings: &TelegramSettings, blobs: Arc<dyn Blobs>) -> Result<Self, TelegramError> {
        Self::with_timeouts(settings, blobs, HttpTimeouts::default())
    }

    /// Creates the channel with other timeouts.
    ///
    /// # Errors
    /// As [`TelegramChannel::new`].
    pub fn with_timeouts(
        settings: &TelegramSettings,
        blobs: Arc<dyn Blobs>,
        timeouts: HttpTimeouts,
    ) -> Result<Self, TelegramError> {
        let client = BotClient::new(&settings.token, settings.api_url.as_ref(), timeouts)?;
        Ok(Self {
            client,
            activities: ActivityIndicator::new(Duration::ZERO),
            capabilities: settings.capabilities.clone(),
            local_files: settings.local_files.clone(),
            blobs,
            rate_limiter: RateLimiter::new(settings.capabilities.rate_limits),
            cache: ChatCache::default(),
            message_ids: Arc::default(),
            look_up: settings.look_up,
            rich_refusals: RichRefusals::default(),
            lacks_drafts: AtomicBool::new(false),
        })
    }

    /// The client, for the listener.
    pub(crate) fn client(&self) -> &BotClient {
        &self.client
    }

    /// What responses have revealed about chats, for the listener.
    pub(crate) fn cache(&self) -> &ChatCache {
        &self.cache
    }

    /// The known message ids, for the listener.
    pub(crate) fn message_ids(&self) -> &Arc<MessageIds> {
        &self.message_ids
    }

    /// Makes a call for a chat or topic, and repeats it once if the chat has moved to a new id, or outside the topic if
    /// nothing can be sent there. `Ok(None)` means that nothing had to be changed.
    async fn call<T: DeserializeOwned>(
        &self,
        to: SendDestination,
        part: PartId,
        operation: ApiOperation,
        compose: impl Fn(SendDestination) -> Result<ComposedMessage, SendError>,
    ) -> Result<Option<T>, SendError> {
        let address = to.address;
        let _call_guard = self.cache.begin_call(address.chat);
        let mut current = self.current_destination(to);
        loop {
            let composed = compose(current)?;
            let call = if operation.is_edit() { CallKind::Edit } else { CallKind::Send(composed.uploads.len()) };
            self.rate_limiter.acquire(current.address, part, call).await.map_err(rate_limited)?;
            let show = || self.show_action(current.address, composed.activity);
            let result = send::send_with_uploads(&self.client, &self.blobs, &composed, show).await?;
            match result.map_err(|error| classify_error(error, composed_operation(operation, &composed))) {
                Ok(result) => return Ok(Some(result)),
                Err(CallOutcome::NotModified) => return Ok(None),
                Err(CallOutcome::Migrated { to }) if current.address == address && to != address.chat.0 => {
                    tracing::info!(chat.id = %address.chat, to, "a group became a supergroup; the conversation moves to its new id");
                    let chat = ChatId(to);
                    self.cache.record_migration(address.chat, chat);
                    current = SendDestination { address: ConversationAddress { chat, topic: None }, is_reply: false };
                }
                Err(CallOutcome::TopicGone(error)) => {
                    let outside = current.outside_topic().filter(|_| address.topic.is_some()).ok_or(error)?;
                    tracing::info!(chat.id = %address.chat, part.id = %part, "nothing can be sent to the topic; sending to the chat");
                    current = outside;
                }
                Err(CallOutcome::RichUnknown(error)) => {
                    if self.rich_refusals.mark_unknown() {
                        tracing::warn!("the Bot API server knows no rich messages; texts are sent in lines");
                    }
                    return Err(error);
                }
                Err(CallOutcome::Migrated { .. }) => {
                    return Err(SendError::Forbidden { reason: "the chat has moved to a new id".to_owned() });
                }
                Err(CallOutcome::Failed(error)) => {
                    self.record_limits(current.address, &error);
                    return Err(error);
                }
            }
        }
    }

    /// The form in which a part is sent first: a rich message only where it wasn't refused before.
    fn first_form<'a>(&self, request: &'a PostRequest) -> Result<Cow<'a, PartContent>, SendError> {
        let content = &request.content;
        if !is_in_blocks(content) || !self.rich_refusals.has_refused(request.part_id) {
            return Ok(Cow::Borrowed(content));
        }
        let reason = "Telegram takes this as no rich message".to_owned();
        let refused = SendError::Refused { refusal: Refusal::BadMarkup, reason };
        self.in_lines(content).map(Cow::Owned).ok_or(refused)
    }

    /// What is sent after this answer: the text of a rich message that was refused, if it is one message. What arrives is one
    /// message in any case, since what is refused is nowhere.
    fn form_after<T>(&self, part: PartId, content: &PartContent, answer: &Result<T, SendError>) -> Option<PartContent> {
        let Err(SendError::Refused { refusal: Refusal::BadMarkup, reason }) = answer else { return None };
        let plain = self.in_lines(content).filter(|_| is_in_blocks(content))?;
        tracing::info!(part.id = %part, reason, "a rich message was refused; sending its text in lines");
        self.rich_refusals.mark_refused(part);
        Some(plain)
    }

    /// Forgets that a part was refused as a rich message, unless it will be tried again.
    fn settle_refusal<T>(&self, part: PartId, answer: &Result<T, SendError>) {
        if !matches!(answer, Err(SendError::NotSent { .. } | SendError::InDoubt { .. })) {
            self.rich_refusals.remove(part);
        }
    }

    /// The text of a rich message as HTML, if that is one message.
    fn in_lines(&self, content: &PartContent) -> Option<PartContent> {
        let PartContent::Text { text, files, .. } = content else { return None };
        let plain = || PartContent::Text { text: text.clone(), markup: Markup::Rich, files: files.clone() };
        fits_one_message(text, self.text_limit()).then(plain)
    }

    /// Sends a content in its own form.
    async fn post_form(
        &self,
        to: SendDestination,
        request: &PostRequest,
        content: &PartContent,
    ) -> Result<Vec<SentMessage>, SendError> {
        let compose = |at: SendDestination| {
            let reply_to = request.reply_to.as_ref().filter(|_| at.is_reply);
            send::compose_message(content, at.address, reply_to, self.text_limit()).map_err(compose_failure)
        };
        let operation = match content {
            PartContent::Voice { as_file: false, .. } => ApiOperation::Voice,
            content if content.files().is_empty() && !matches!(content, PartContent::Voice { .. }) => {
                ApiOperation::Text
            }
            _ => ApiOperation::Files,
        };
        let is_album = matches!(content, PartContent::Album { items } if items.len() > 1);
        match is_album {
            true => self.call(to, request.part_id, operation, compose).await.map(Option::unwrap_or_default),
            false => self.call(to, request.part_id, operation, compose).await.map(Vec::from_iter),
        }
    }

    /// Edits a message into a content in its own form.
    async fn edit_form(
        &self,
        to: SendDestination,
        request: &PostRequest,
        message: &MessageRef,
        content: &PartContent,
    ) -> Result<(), SendError> {
        let compose = |at: SendDestination| {
            let message_id = parse_message_id(message).filter(|_| at == to).ok_or_else(message_gone)?;
            send::compose_edit(content, at.address, message_id, self.text_limit()).map_err(compose_failure)
        };
        let edited: Result<Option<IgnoredAny>, _> = self.call(to, request.part_id, ApiOperation::Edit, compose).await;
        edited.map(|_| ())
    }

    /// Returns where a call goes, as far as is known. Message ids from before a migration are invalid in the new chat.
    fn current_destination(&self, to: SendDestination) -> SendDestination {
        let address = self.cache.current_address(to.address);
        SendDestination { address, is_reply: to.is_reply && address.chat == to.address.chat }
    }

    /// Records limits that a refusal reveals for later calls.
    fn record_limits(&self, address: ConversationAddress, error: &SendError) {
        match error {
            SendError::NotSent { retry_after_ms: Some(retry_after_ms), .. } => {
                self.rate_limiter.close_until(address, Duration::from_millis(*retry_after_ms));
            }
            SendError::Refused { refusal: Refusal::VoiceForbidden, .. } => self.cache.mark_voice_refused(address.chat),
            _ => {}
        }
    }

    /// Shows a chat action, unless the chat's last one is in flight or was refused.
    fn show_action(&self, address: ConversationAddress, action: ChatAction) {
        let client = self.client.clone();
        self.activities.show(address, async move {
            let mut payload = SendChatAction::new(address.chat, action);
            payload.message_thread_id = address.topic;
            let result: Result<IgnoredAny, CallError> = client.request(&payload).await;
            result.inspect_err(|error| tracing::debug!(chat.id = %address.chat, %error, "showing an activity failed"))
        });
    }

    /// How a growing reply is shown in a chat: drafts are for private chats alone (Bot API, sendMessageDraft: "the target private
    /// chat"), and edits in groups are slower.
    fn stream_rule(&self, address: ConversationAddress) -> StreamRule {
        let rule = match self.capabilities.stream {
            StreamRule::Previews { interval_ms, .. }
                if address.is_group() || self.lacks_drafts.load(Ordering::Relaxed) =>
            {
                StreamRule::Edits { interval_ms }
            }
            rule => rule,
        };
        match rule {
            StreamRule::Edits { interval_ms } if address.is_group() && self.capabilities.rate_limits.is_some() => {
                StreamRule::Edits { interval_ms: interval_ms.max(GROUP_EDIT_INTERVAL_MS) }
            }
            rule => rule,
        }
    }

    fn record_draft_refusal(&self, error: &CallError) {
        let is_unknown = matches!(error, CallError::Refused(refusal) if refusal.is_unknown_method());
        if is_unknown && !self.lacks_drafts.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "the Bot API's server is too old for drafts; replies grow by edits until Satchel is restarted"
            );
        }
    }

    fn text_limit(&self) -> &TextLimit {
        &self.capabilities.text
    }
}

impl fmt::Debug for TelegramChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TelegramChannel").field("client", &self.client).finish_non_exhaustive()
    }
}

#[async_trait]
impl Channel for TelegramChannel {
    fn name(&self) -> ChannelName {
        channel_name()
    }

    fn capabilities(&self, conversation: &ConversationId) -> ChannelCapabilities {
        let mut capabilities = self.capabilities.clone();
        if self.rich_refusals.are_unknown() {
            capabilities.blocks = None;
        }
        let Some(address) = ConversationAddress::parse(conversation).map(|address| self.cache.current_address(address))
        else {
            return capabilities;
        };
        if !self.cache.accepts_voice(address.chat) {
            capabilities.voice = VoiceRule::AudioFile;
        }
        capabilities.stream = self.stream_rule(address);
        capabilities
    }

    async fn find_parents(&self, conversation: &ConversationId) -> Result<Vec<ConversationId>, SendError> {
        // A private chat has the id of its person.
        let person = ConversationAddress::parse(conversation).filter(|address| !address.is_group());
        Ok(person
            .and_then(|person| ConversationId::new(channel_name(), format!("@{}", person.chat)).ok())
            .into_iter()
            .collect())
    }

    fn state(&self) -> ChannelState {
        self.client.account().state()
    }

    async fn next_state(&self, state: &ChannelState) -> ChannelState {
        self.client.account().next_state(state).await
    }

    async fn post(&self, request: &PostRequest) -> Result<Vec<MessageRef>, SendError> {
        let address = parse_address(&request.conversation)?;
        let to = SendDestination { address, is_reply: request.reply_to.is_some() };
        let content = self.first_form(request)?;
        // A look-up takes any new message for the one it looks for, so nothing may be sent meanwhile.
        let Some(attempt) = self.message_ids.begin_send(self.cache.current_address(address).chat, request.part_id)
        else {
            return Err(rate_limited(SEARCH_DELAY));
        };
        let mut sent = self.post_form(to, request, &content).await;
        if let Some(plain) = self.form_after(request.part_id, &content, &sent) {
            sent = self.post_form(to, request, &plain).await;
        }
        self.settle_refusal(request.part_id, &sent);
        match &sent {
            Ok(sent) => {
                let ids: Vec<i64> = sent.iter().map(|sent| sent.message_id).collect();
                attempt.mark_arrived(self.cache.current_address(address).chat, &ids);
            }
            // An attempt that is dropped unsettled is in doubt.
            Err(SendError::InDoubt { .. }) => drop(attempt),
            Err(_) => attempt.mark_failed(),
        }
        Ok(sent?.iter().map(message_ref).collect())
    }

    async fn edit(&self, message: &MessageRef, request: &PostRequest) -> Result<Vec<MessageRef>, SendError> {
        let address = parse_address(&request.conversation)?;
        let to = SendDestination { address, is_reply: false };
        let content = self.first_form(request)?;
        let mut edited = self.edit_form(to, request, message, &content).await;
        if let Some(plain) = self.form_after(request.part_id, &content, &edited) {
            edited = self.edit_form(to, request, message, &plain).await;
        }
        self.settle_refusal(request.part_id, &edited);
        edited?;
        Ok(vec![message.clone()])
    }

    async fn delete(&self, conversation: &ConversationId, message: &MessageRef) -> Result<(), SendError> {
        let address = parse_address(conversation)?;
        let Some(message_id) = parse_message_id(message) else { return Ok(()) };
        if self.cache.current_address(address) != address {
            // Messages from before the migration to a supergroup can't be deleted.
            return Ok(());
        }
        let result: Result<IgnoredAny, _> = self.client.request(&DeleteMessage::new(address.chat, message_id)).await;
        match result.map_err(|error| classify_error(error, ApiOperation::Delete)) {
            Ok(_) | Err(CallOutcome::NotModified | CallOutcome::Migrated { .. }) => Ok(()),
            Err(CallOutcome::Failed(error) | CallOutcome::TopicGone(error) | CallOutcome::RichUnknown(error)) => {
                self.record_limits(address, &error);
                Err(error)
            }
        }
    }

    async fn show_preview(&self, request: &PreviewRequest) -> Result<(), SendError> {
        let address = parse_address(&request.conversation)?;
        let draft = send::compose_draft(request.turn, &request.text, address, self.text_limit());
        // It has no part, and is known among them by the id of its turn.
        let waiter = PartId(request.turn.0);
        self.rate_limiter.acquire(address, waiter, CallKind::Preview).await.map_err(rate_limited)?;
        let result: Result<IgnoredAny, CallError> = self.client.request(&draft).await;
        let result = result.inspect_err(|error| self.record_draft_refusal(error));
        match result.map_err(|error| classify_error(error, ApiOperation::Draft)) {
            Ok(_) | Err(CallOutcome::NotModified) => Ok(()),
            Err(CallOutcome::Migrated { .. }) => {
                Err(SendError::Forbidden { reason: "the chat has moved to a new id".to_owned() })
            }
            Err(CallOutcome::Failed(error) | CallOutcome::TopicGone(error) | CallOutcome::RichUnknown(error)) => {
                self.record_limits(address, &error);
                Err(error)
            }
        }
    }

    async fn find_sent(&self, request: &LookupRequest) -> Result<LookupOutcome, SendError> {
        let address = parse_address(&request.part.conversation)?;
        if self.capabilities.look_up != LookupRule::MessageIds {
            return Ok(LookupOutcome::uncertain("look-up is off"));
        }
        if self.cache.current_address(address) != address {
            return Ok(LookupOutcome::uncertain("the chat has moved to a new id, which numbers its messages from 1"));
        }
        let (client, ids, settings) = (&self.client, &*self.message_ids, &self.look_up);
        Lookup { client, ids, settings, chat: address.chat, request }.run().await
    }

    async fn probe(&self) -> Result<(), SendError> {
        let result: Result<IgnoredAny, _> = self.client.request(&GetMe::new()).await;
        match result.map_err(|error| classify_error(error, ApiOperation::Probe)) {
            Ok(_) | Err(CallOutcome::NotModified | CallOutcome::Migrated { .. }) => Ok(()),
            Err(CallOutcome::Failed(error) | CallOutcome::TopicGone(error) | CallOutcome::RichUnknown(error)) => {
                Err(error)
            }
        }
    }

    async fn show_activity(&self, conversation: &ConversationId, activity: Activity) {
        let Some(address) = ConversationAddress::parse(conversation) else { return };
        let action = match activity {
            Activity::Writing => ChatAction::Typing,
            Activity::Speaking => ChatAction::RecordVoice,
            Activity::Uploading => ChatAction::UploadDocument,
        };
        self.show_action(self.cache.current_address(address), action);
    }

    async fn fetch(&self, reference: &FileReference) -> Result<FetchedFile, FileFetchError> {
        fetch::open_file(&self.client, self.local_files.as_deref(), reference).await
    }
}

fn parse_address(conversation: &ConversationId) -> Result<ConversationAddress, SendError> {
    let not_a_chat = || SendError::Forbidden { reason: format!("{conversation} is no chat of Telegram") };
    ConversationAddress::parse(conversation).ok_or_else(not_a_chat)
}

fn parse_message_id(message: &MessageRef) -> Option<MessageId> {
    message.0.parse().ok().map(MessageId)
}

fn message_ref(sent: &SentMessage) -> MessageRef {
    MessageRef(sent.message_id.to_string())
}

/// Whether a content is sent in blocks.
fn is_in_blocks(content: &PartContent) -> bool {
    matches!(
        content,
        PartContent::Text { markup: Markup::Blocks, .. } | PartContent::Question { markup: Markup::Blocks, .. }
    )
}

/// The operation of a call as it was composed.
fn composed_operation(operation: ApiOperation, composed: &ComposedMessage) -> ApiOperation {
    match operation {
        ApiOperation::Text if composed.is_rich() => ApiOperation::RichText,
        ApiOperation::Edit if composed.is_rich() => ApiOperation::RichEdit,
        operation => operation,
    }
}

fn message_gone() -> SendError {
    SendError::Refused { refusal: Refusal::TargetGone, reason: "the message is in another chat".to_owned() }
}

/// The error for a part that would have to wait too long: nothing has been sent.
fn rate_limited(retry_after: Duration) -> SendError {
    let retry_after_ms = u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
    let reason = "Telegram takes no more messages here for now".to_owned();
    SendError::NotSent { retry_after_ms: Some(retry_after_ms), reason }
}

/// The error for a part that can't be composed: nothing has been sent.
fn compose_failure(error: ComposeError) -> SendError {
    let (refusal, reason) = match error {
        ComposeError::Empty => (Refusal::Other, "there is nothing to send"),
        ComposeError::FilesOnText => (Refusal::UnsupportedKind, "Telegram has no files on texts"),
        ComposeError::NotEditable => (Refusal::TargetGone, "a message can't become a voice or an album"),
    };
    SendError::Refused { refusal, reason: reason.to_owned() }
}

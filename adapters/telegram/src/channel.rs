//! Telegram as a [`Channel`].

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use satchel_domain::{
    ChannelCapabilities, ChannelName, ConversationId, FileReference, MessageRef, PartContent, PartId,
    capabilities::{LookupRule, StreamRule, TextLimit, VoiceRule},
    delivery::{Refusal, SendError},
};
use satchel_platform_http::{ActivityIndicator, HttpTimeouts};
use satchel_ports::{Activity, Blobs, Channel, FetchedFile, FileFetchError, LookupOutcome, LookupRequest, SendRequest};
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use teloxide::{
    payloads::{DeleteMessage, GetMe, SendChatAction},
    types::{ChatAction, ChatId, MessageId},
};

use crate::{
    address::{ConversationAddress, channel_name},
    bot::{BotClient, CallError, TelegramError},
    cache::ChatCache,
    classify::{ApiOperation, CallOutcome, classify_error},
    fetch,
    lookup::Lookup,
    message_ids::MessageIds,
    rate_limiter::{CallKind, RateLimiter},
    send::{self, ComposeError, ComposedMessage},
    settings::{LookupSettings, TelegramSettings},
};

/// The least time between two edits of a growing reply in a group, where a minute has room for twenty calls.
const GROUP_EDIT_INTERVAL_MS: u64 = 3_200;

/// The wait before something is sent to a chat in which a message is looked for.
const SEARCH_DELAY: Duration = Duration::from_secs(1);

/// The way out to Telegram, and the way to the files that people sent.
pub struct TelegramChannel {
    client: BotClient,
    capabilities: ChannelCapabilities,
    local_files: Option<PathBuf>,
    blobs: Arc<dyn Blobs>,
    pacer: RateLimiter,
    activities: ActivityIndicator<ConversationAddress>,
    known: ChatCache,
    message_ids: Arc<MessageIds>,
    look_up: LookupSettings,
}

/// A message as an answer shows it. Nothing else is read, so that nothing else can make an answer unreadable.
#[derive(Deserialize)]
struct SentMessage {
    message_id: i64,
}

impl TelegramChannel {
    /// Makes the channel. Nobody is called yet.
    ///
    /// # Errors
    /// When the token or the server's address has not the form of one, or HTTP can't be spoken.
    pub fn new(settings: &TelegramSettings, blobs: Arc<dyn Blobs>) -> Result<Self, TelegramError> {
        Self::with_timeouts(settings, blobs, HttpTimeouts::default())
    }

    /// Makes the channel with other timeouts.
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
            pacer: RateLimiter::new(settings.capabilities.rate_limits),
            known: ChatCache::default(),
            message_ids: Arc::default(),
            look_up: settings.look_up,
        })
    }

    /// The client, for the way in.
    pub(crate) fn client(&self) -> &BotClient {
        &self.client
    }

    /// What answers have taught, for the way in.
    pub(crate) fn cache(&self) -> &ChatCache {
        &self.known
    }

    /// The ids of messages that are known, for the way in.
    pub(crate) fn message_ids(&self) -> &Arc<MessageIds> {
        &self.message_ids
    }

    /// Makes a call in a place, once more where the chat has moved to a new id. `Ok(None)` is that what was asked for
    /// is so already.
    async fn call<T: DeserializeOwned>(
        &self,
        place: ConversationAddress,
        part: PartId,
        operation: ApiOperation,
        compose: impl Fn(ConversationAddress) -> Result<ComposedMessage, SendError>,
    ) -> Result<Option<T>, SendError> {
        let _under_way = self.known.begin_call(place.chat);
        let mut at = self.known.current_address(place);
        loop {
            let composed = compose(at)?;
            let call =
                if operation == ApiOperation::Edit { CallKind::Edit } else { CallKind::Send(composed.uploads.len()) };
            self.pacer.acquire(at, part, call).await.map_err(rate_limited)?;
            let show = || self.show_action(at, composed.activity);
            let answered = send::send_with_uploads(&self.client, &self.blobs, &composed, show).await?;
            match answered.map_err(|error| classify_error(error, operation)) {
                Ok(result) => return Ok(Some(result)),
                Err(CallOutcome::NotModified) => return Ok(None),
                Err(CallOutcome::Migrated { to }) if at == place && to != place.chat.0 => {
                    tracing::info!(chat.id = %place.chat, to, "a group became a supergroup; the conversation moves to its new id");
                    at = ConversationAddress { chat: ChatId(to), topic: None };
                    self.known.record_migration(place.chat, at.chat);
                }
                Err(CallOutcome::Migrated { .. }) => {
                    return Err(SendError::Forbidden { reason: "the chat has moved to a new id".to_owned() });
                }
                Err(CallOutcome::Failed(error)) => {
                    self.record_limits(at, &error);
                    return Err(error);
                }
            }
        }
    }

    /// Keeps what a refusal tells about later calls.
    fn record_limits(&self, place: ConversationAddress, error: &SendError) {
        match error {
            SendError::NotSent { retry_after_ms: Some(retry_after_ms), .. } => {
                self.pacer.close_until(place, Duration::from_millis(*retry_after_ms));
            }
            SendError::Refused { refusal: Refusal::VoiceForbidden, .. } => self.known.mark_voice_refused(place.chat),
            _ => {}
        }
    }

    /// Shows beside a chat's name what is being done, unless the last action is still on its way or was refused.
    fn show_action(&self, place: ConversationAddress, action: ChatAction) {
        let client = self.client.clone();
        self.activities.show(place, async move {
            let mut payload = SendChatAction::new(place.chat, action);
            payload.message_thread_id = place.topic;
            let answered: Result<IgnoredAny, CallError> = client.request(&payload).await;
            answered.inspect_err(|error| tracing::debug!(chat.id = %place.chat, %error, "showing an activity failed"))
        });
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
        let Some(place) = ConversationAddress::parse(conversation).map(|place| self.known.current_address(place))
        else {
            return capabilities;
        };
        if !self.known.accepts_voice(place.chat) {
            capabilities.voice = VoiceRule::AudioFile;
        }
        if let (StreamRule::Edits { interval_ms }, Some(_)) = (capabilities.stream, capabilities.rate_limits)
            && place.is_group()
        {
            capabilities.stream = StreamRule::Edits { interval_ms: interval_ms.max(GROUP_EDIT_INTERVAL_MS) };
        }
        capabilities
    }

    async fn send(&self, part: &SendRequest) -> Result<Vec<MessageRef>, SendError> {
        if part.content == PartContent::Withdraw {
            // There is no message to take back, and so nothing to do.
            return Ok(Vec::new());
        }
        let place = parse_address(&part.conversation)?;
        let compose = |at: ConversationAddress| {
            // The numbers of messages before a chat became another one mean nothing in it.
            let reply_to = part.reply_to.as_ref().filter(|_| at == place);
            send::new_message(&part.content, at, reply_to, self.text_limit()).map_err(compose_failure)
        };
        let operation = match &part.content {
            PartContent::Voice { as_file: false, .. } => ApiOperation::Voice,
            content if content.files().is_empty() && !matches!(content, PartContent::Voice { .. }) => {
                ApiOperation::Text
            }
            _ => ApiOperation::Files,
        };
        // A look-up takes what it finds for what it looks for, so that nothing may come between.
        let Some(sending) = self.message_ids.begin_send(self.known.current_address(place).chat, part.part) else {
            return Err(rate_limited(SEARCH_DELAY));
        };
        let is_album = matches!(&part.content, PartContent::Album { items } if items.len() > 1);
        let sent: Result<Vec<SentMessage>, SendError> = match is_album {
            true => self.call(place, part.part, operation, compose).await.map(Option::unwrap_or_default),
            false => self.call(place, part.part, operation, compose).await.map(Vec::from_iter),
        };
        match &sent {
            Ok(sent) => {
                let ids: Vec<i64> = sent.iter().map(|sent| sent.message_id).collect();
                sending.arrived(self.known.current_address(place).chat, &ids);
            }
            // Dropped without an end, it is in doubt.
            Err(SendError::InDoubt { .. }) => drop(sending),
            Err(_) => sending.failed(),
        }
        Ok(sent?.iter().map(message_ref).collect())
    }

    async fn edit(&self, message: &MessageRef, part: &SendRequest) -> Result<Vec<MessageRef>, SendError> {
        if part.content == PartContent::Withdraw {
            self.delete(&part.conversation, message).await?;
            return Ok(Vec::new());
        }
        let place = parse_address(&part.conversation)?;
        let compose = |at: ConversationAddress| {
            let number = number(message).filter(|_| at == place).ok_or_else(message_gone)?;
            send::edit(&part.content, at, number, self.text_limit()).map_err(compose_failure)
        };
        let _: Option<IgnoredAny> = self.call(place, part.part, ApiOperation::Edit, compose).await?;
        Ok(vec![message.clone()])
    }

    async fn delete(&self, conversation: &ConversationId, message: &MessageRef) -> Result<(), SendError> {
        let place = parse_address(conversation)?;
        let Some(number) = number(message) else { return Ok(()) };
        if self.known.current_address(place) != place {
            // What was said before a group became a supergroup can't be taken back.
            return Ok(());
        }
        let answered: Result<IgnoredAny, _> = self.client.request(&DeleteMessage::new(place.chat, number)).await;
        match answered.map_err(|error| classify_error(error, ApiOperation::Delete)) {
            Ok(_) | Err(CallOutcome::NotModified | CallOutcome::Migrated { .. }) => Ok(()),
            Err(CallOutcome::Failed(error)) => {
                self.record_limits(place, &error);
                Err(error)
            }
        }
    }

    async fn find_sent(&self, request: &LookupRequest) -> Result<LookupOutcome, SendError> {
        let place = parse_address(&request.part.conversation)?;
        if self.capabilities.look_up != LookupRule::MessageIds {
            return Ok(LookupOutcome::uncertain("look-up is off"));
        }
        if self.known.current_address(place) != place {
            return Ok(LookupOutcome::uncertain("the chat has moved to a new id, which numbers its messages from 1"));
        }
        let (client, ids, settings) = (&self.client, &*self.message_ids, &self.look_up);
        Lookup { client, ids, settings, chat: place.chat, request }.run().await
    }

    async fn probe(&self) -> Result<(), SendError> {
        let answered: Result<IgnoredAny, _> = self.client.request(&GetMe::new()).await;
        match answered.map_err(|error| classify_error(error, ApiOperation::Probe)) {
            Ok(_) | Err(CallOutcome::NotModified | CallOutcome::Migrated { .. }) => Ok(()),
            Err(CallOutcome::Failed(error)) => Err(error),
        }
    }

    async fn show_activity(&self, conversation: &ConversationId, activity: Activity) {
        let Some(place) = ConversationAddress::parse(conversation) else { return };
        let action = match activity {
            Activity::Writing => ChatAction::Typing,
            Activity::Speaking => ChatAction::RecordVoice,
            Activity::Uploading => ChatAction::UploadDocument,
        };
        self.show_action(self.known.current_address(place), action);
    }

    async fn fetch(&self, reference: &FileReference) -> Result<FetchedFile, FileFetchError> {
        fetch::open_file(&self.client, self.local_files.as_deref(), reference).await
    }
}

fn parse_address(conversation: &ConversationId) -> Result<ConversationAddress, SendError> {
    let no_place = || SendError::Forbidden { reason: format!("{conversation} is no chat of Telegram") };
    ConversationAddress::parse(conversation).ok_or_else(no_place)
}

fn number(message: &MessageRef) -> Option<MessageId> {
    message.0.parse().ok().map(MessageId)
}

fn message_ref(sent: &SentMessage) -> MessageRef {
    MessageRef(sent.message_id.to_string())
}

fn message_gone() -> SendError {
    SendError::Refused { refusal: Refusal::TargetGone, reason: "the message is in another chat".to_owned() }
}

/// What follows when it isn't a part's turn for long: nothing has been sent.
fn rate_limited(wait: Duration) -> SendError {
    let retry_after_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
    let reason = "Telegram takes no more messages here for now".to_owned();
    SendError::NotSent { retry_after_ms: Some(retry_after_ms), reason }
}

/// What follows when a part can't become a call: nothing has been sent.
fn compose_failure(why: ComposeError) -> SendError {
    let (refusal, reason) = match why {
        ComposeError::Empty => (Refusal::Other, "there is nothing to send"),
        ComposeError::FilesOnText => (Refusal::UnsupportedKind, "Telegram has no files on texts"),
        ComposeError::NotEditable => (Refusal::TargetGone, "a message can't become a voice or an album"),
    };
    SendError::Refused { refusal, reason: reason.to_owned() }
}

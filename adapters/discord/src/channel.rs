//! Discord as a [`Channel`].

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use satchel_domain::{
    ChannelCapabilities, ChannelName, ChannelState, ConversationId, FileReference, MessageRef, PartContent,
    capabilities::VoiceRule,
    delivery::{Refusal, SendError},
};
use satchel_platform_http::{ActivityIndicator, HttpTimeouts};
use satchel_ports::{
    Activity, Blobs, Channel, FetchedFile, Fetcher, FileFetchError, LookupOutcome, LookupRange, LookupRequest,
    PostRequest,
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json};

use crate::{
    DiscordSettings,
    cache::GuildCache,
    classify::{ApiOperation, classify_error, is_reply_error, is_size_limit},
    fetch, lookup,
    rest::{ApiRequest, CallError, DiscordError, OWN_USER_PATH, RestClient},
    send::{self, ComposeError, ComposedMessage, SentMessage},
    snowflake::{self, ConversationAddress, channel_name, message_id},
};

/// How long a typing indicator is not sent again; Discord shows it for ten seconds.
const TYPING_DURATION: Duration = Duration::from_secs(5);

/// Sends messages to Discord and fetches the files that people sent.
pub struct DiscordChannel {
    client: RestClient,
    capabilities: ChannelCapabilities,
    blobs: Arc<dyn Blobs>,
    fetcher: Arc<dyn Fetcher>,
    activities: ActivityIndicator<u64>,
    cache: Arc<GuildCache>,
    /// The hosts from which files are fetched.
    file_hosts: Vec<String>,
    bot_user_id: OnceLock<String>,
}

/// The id of a channel or a user in a response. Nothing else is read, so that no other field can make a response
/// undecodable.
#[derive(Deserialize)]
struct IdResponse {
    id: String,
}

impl DiscordChannel {
    /// Creates the channel without sending a request.
    ///
    /// # Errors
    /// When the token or the server's address is malformed, or the HTTP client can't be built.
    pub fn new(
        settings: &DiscordSettings,
        blobs: Arc<dyn Blobs>,
        fetcher: Arc<dyn Fetcher>,
    ) -> Result<Self, DiscordError> {
        Self::with_timeouts(settings, blobs, fetcher, HttpTimeouts::default())
    }

    /// Creates the channel with other timeouts.
    ///
    /// # Errors
    /// As [`DiscordChannel::new`].
    pub fn with_timeouts(
        settings: &DiscordSettings,
        blobs: Arc<dyn Blobs>,
        fetcher: Arc<dyn Fetcher>,
        timeouts: HttpTimeouts,
    ) -> Result<Self, DiscordError> {
        let capabilities = settings.capabilities.clone();
        let client = RestClient::new(&settings.token, settings.api_url.as_ref(), timeouts, capabilities.rate_limits)?;
        let activities = ActivityIndicator::new(TYPING_DURATION);
        let hosts = fetch::FILE_HOSTS
            .iter()
            .map(|host| (*host).to_owned())
            .chain(client.custom_server_host().map(str::to_owned));
        let file_hosts = hosts.collect();
        Ok(Self {
            client,
            capabilities,
            blobs,
            fetcher,
            activities,
            cache: Arc::default(),
            file_hosts,
            bot_user_id: OnceLock::new(),
        })
    }

    /// The client, shared with the listener.
    pub(crate) fn client(&self) -> &RestClient {
        &self.client
    }

    /// The cache of guilds and channels, which the listener fills.
    pub(crate) fn cache(&self) -> &Arc<GuildCache> {
        &self.cache
    }

    /// Returns the channel id of a conversation, if its channel is open.
    fn cached_channel_id(&self, conversation: &ConversationId) -> Option<u64> {
        match ConversationAddress::parse(conversation)? {
            ConversationAddress::Channel(channel) => Some(channel),
            ConversationAddress::Person(person) => self.cache.direct_channel(person),
        }
    }

    /// Returns the channel id of a conversation. A person's direct channel is opened on first use, which is not visible
    /// to the person.
    async fn resolve_channel_id(&self, conversation: &ConversationId) -> Result<u64, SendError> {
        if let Some(channel) = self.cached_channel_id(conversation) {
            return Ok(channel);
        }
        let Some(ConversationAddress::Person(person)) = ConversationAddress::parse(conversation) else {
            return Err(SendError::Forbidden { reason: format!("{conversation} is not a Discord channel") });
        };
        let request = ApiRequest::post("/users/@me/channels", &json!({ "recipient_id": person.to_string() }));
        let opened: IdResponse =
            self.client.request(request).await.map_err(|error| classify_error(error, ApiOperation::Harmless))?;
        let invalid_id = || SendError::NotSent {
            retry_after_ms: None,
            reason: "Discord opened a channel without a valid id".to_owned(),
        };
        let channel_id = opened.id.parse().map_err(|_| invalid_id())?;
        self.cache.record_direct_channel(person, channel_id);
        Ok(channel_id)
    }

    /// Shows the typing indicator, unless it was just shown or refused.
    fn show_typing(&self, channel_id: u64) {
        let client = self.client.clone();
        self.activities.show(channel_id, async move {
            let request = ApiRequest::post(format!("/channels/{channel_id}/typing"), &json!({})).low_priority();
            let response: Result<IgnoredAny, CallError> = client.request(request).await;
            response.inspect_err(|error| tracing::debug!(channel.id = channel_id, %error, "showing an activity failed"))
        });
    }

    /// Sends a request that carries a message. The outer error means that it was not started.
    async fn send_message_request(
        &self,
        channel_id: u64,
        request: ApiRequest,
        composed: &ComposedMessage,
    ) -> Result<Result<SentMessage, CallError>, SendError> {
        send::send_with_uploads(&self.client, &self.blobs, request, composed, || self.show_typing(channel_id)).await
    }

    /// Edits a message to show what was composed.
    async fn edit_message(
        &self,
        channel_id: u64,
        message_id: u64,
        composed: &ComposedMessage,
    ) -> Result<SentMessage, SendError> {
        let request = ApiRequest::patch(format!("/channels/{channel_id}/messages/{message_id}"), &composed.payload);
        // An edit without files is usually a draft.
        let request = if composed.uploads.is_empty() { request.low_priority() } else { request };
        let operation = if is_bundle(composed) { ApiOperation::EditToBundle } else { ApiOperation::Edit };
        let response = self.send_message_request(channel_id, request, composed).await?;
        response.map_err(|error| self.record_limits(channel_id, composed, error, operation))
    }

    /// Edits a message to show text with files. If the files are refused or can't be read, an earlier request whose
    /// response was lost may have added them already; the response to an edit of the text alone shows whether it did.
    async fn edit_with_files(
        &self,
        channel_id: u64,
        message_id: u64,
        composed: &ComposedMessage,
    ) -> Result<SentMessage, SendError> {
        let edited = self.edit_message(channel_id, message_id, composed).await;
        let refusal_error = match edited {
            Err(SendError::Refused { refusal: Refusal::TargetGone, .. }) => return edited,
            Err(error @ (SendError::Refused { .. } | SendError::Unreadable { .. })) if is_bundle(composed) => error,
            other => return other,
        };
        match self.edit_message(channel_id, message_id, &composed.clone().text_only()).await {
            Ok(sent) if sent.has_files_of(composed) => Ok(sent),
            Err(error @ (SendError::NotSent { .. } | SendError::InDoubt { .. } | SendError::AccountRefused { .. })) => {
                Err(error)
            }
            Ok(_) | Err(_) => Err(refusal_error),
        }
    }

    /// Updates a message that an earlier attempt posted to the current content of the part, if it can be edited.
    async fn update_earlier_message(
        &self,
        channel_id: u64,
        sent: &SentMessage,
        request: &PostRequest,
    ) -> Result<(), SendError> {
        let (Ok(message_id), Ok(composed)) = (sent.id.parse(), send::edit(&request.content, self.text_limit())) else {
            return Ok(());
        };
        tracing::debug!(channel.id = channel_id, "updating a message that an earlier attempt posted");
        match self.edit_message(channel_id, message_id, &composed).await {
            // It is a voice message or was deleted since; either way it arrived.
            Ok(_) | Err(SendError::Refused { refusal: Refusal::TargetGone, .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Classifies a failed request, records the limits that it reveals, and adds the new limit to the error.
    fn record_limits(
        &self,
        channel_id: u64,
        composed: &ComposedMessage,
        error: CallError,
        operation: ApiOperation,
    ) -> SendError {
        let is_size_refusal = is_size_limit(&error) && !composed.uploads.is_empty();
        match classify_error(error, operation) {
            SendError::Refused { refusal: Refusal::TooLarge { .. }, reason } if is_size_refusal => {
                let limit = match composed.uploads.as_slice() {
                    [upload] => self.cache.lower_file_limit(channel_id, upload.bytes),
                    // Discord doesn't say whether one file or their sum was too large.
                    _ => {
                        self.cache.lower_request_limit(channel_id, composed.bytes());
                        None
                    }
                };
                tracing::info!(channel.id = channel_id, limit, "lowering the size limit of this channel");
                SendError::Refused { refusal: Refusal::TooLarge { limit }, reason }
            }
            error => {
                if matches!(error, SendError::Refused { refusal: Refusal::VoiceForbidden, .. }) {
                    self.cache.mark_voice_refused(channel_id);
                }
                error
            }
        }
    }

    /// The bot's own id.
    async fn own_user_id(&self) -> Result<&str, CallError> {
        if let Some(user_id) = self.bot_user_id.get() {
            return Ok(user_id);
        }
        let user: IdResponse = self.client.request(ApiRequest::get(OWN_USER_PATH)).await?;
        Ok(self.bot_user_id.get_or_init(|| user.id))
    }

    fn text_limit(&self) -> usize {
        self.capabilities.text.max.unwrap_or(usize::MAX)
    }
}

impl fmt::Debug for DiscordChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiscordChannel").field("client", &self.client).finish_non_exhaustive()
    }
}

#[async_trait]
impl Channel for DiscordChannel {
    fn name(&self) -> ChannelName {
        channel_name()
    }

    fn capabilities(&self, conversation: &ConversationId) -> ChannelCapabilities {
        let mut capabilities = self.capabilities.clone();
        let Some(channel_id) = self.cached_channel_id(conversation) else { return capabilities };
        capabilities.file_bytes = self.cache.file_limit(channel_id, capabilities.file_bytes);
        let request_limit =
            |default_limit| self.cache.request_limit(channel_id, default_limit, capabilities.file_bytes);
        capabilities.request_bytes = capabilities.request_bytes.map(request_limit);
        if !self.cache.accepts_voice(channel_id) {
            capabilities.voice = VoiceRule::AudioFile;
        }
        capabilities
    }

    async fn find_parents(&self, conversation: &ConversationId) -> Result<Vec<ConversationId>, SendError> {
        let Some(ConversationAddress::Channel(channel)) = ConversationAddress::parse(conversation) else {
            return Ok(Vec::new());
        };
        let mut parents = Vec::new();
        let mut next = Some(channel);
        // A thread and its channel; what is around the category of that is its guild, which isn't a chat.
        for _ in 0..2 {
            let Some(inner) = next.take() else { break };
            let request = ApiRequest::get(format!("/channels/{inner}")).low_priority();
            let found: Result<Value, _> = self.client.request(request).await;
            let found = match found.map_err(|error| classify_error(error, ApiOperation::Harmless)) {
                Ok(found) => found,
                // The bot can write nothing in what it can't see. Asked again, Discord would refuse it again.
                Err(SendError::Forbidden { .. } | SendError::Refused { .. }) => break,
                Err(error) => return Err(error),
            };
            let recipients = found.get("recipients").and_then(Value::as_array).into_iter().flatten();
            parents
                .extend(recipients.filter_map(|person| snowflake::read(person, "id")).filter_map(private_conversation));
            next = snowflake::read(&found, "parent_id");
            parents.extend(next.map(snowflake::conversation_id));
        }
        Ok(parents)
    }

    fn state(&self) -> ChannelState {
        self.client.account().state()
    }

    async fn next_state(&self, state: &ChannelState) -> ChannelState {
        self.client.account().next_state(state).await
    }

    async fn post(&self, request: &PostRequest) -> Result<Vec<MessageRef>, SendError> {
        let channel_id = self.resolve_channel_id(&request.conversation).await?;
        let mut composed = send::new_message(request, channel_id, self.text_limit()).map_err(compose_failure)?;
        let post = |composed: &ComposedMessage| {
            ApiRequest::post(format!("/channels/{channel_id}/messages"), &composed.payload)
        };
        let mut response = self.send_message_request(channel_id, post(&composed), &composed).await?;
        if response.as_ref().is_err_and(is_reply_error) && composed.remove_reply() {
            response = self.send_message_request(channel_id, post(&composed), &composed).await?;
        }
        let sent = response
            .map_err(|error| self.record_limits(channel_id, &composed, error, operation_for(&request.content)))?;
        // An earlier attempt may have posted it when the draft was shorter or still had a file.
        if sent.is_different_from(&composed) {
            self.update_earlier_message(channel_id, &sent, request).await?;
        }
        Ok(vec![MessageRef(sent.id)])
    }

    async fn edit(&self, message: &MessageRef, request: &PostRequest) -> Result<Vec<MessageRef>, SendError> {
        let channel_id = self.resolve_channel_id(&request.conversation).await?;
        let message_id = message_id(message).ok_or_else(message_gone)?;
        let composed = send::edit(&request.content, self.text_limit()).map_err(compose_failure)?;
        let sent = self.edit_with_files(channel_id, message_id, &composed).await?;
        Ok(vec![MessageRef(sent.id)])
    }

    async fn delete(&self, conversation: &ConversationId, message: &MessageRef) -> Result<(), SendError> {
        let channel_id = self.resolve_channel_id(conversation).await?;
        let Some(message_id) = message_id(message) else { return Ok(()) };
        let request = ApiRequest::delete(format!("/channels/{channel_id}/messages/{message_id}"));
        let response: Result<IgnoredAny, _> = self.client.request(request).await;
        match response.map(|_| ()).map_err(|error| classify_error(error, ApiOperation::Delete)) {
            Err(SendError::Refused { refusal: Refusal::TargetGone, .. }) => Ok(()),
            outcome => outcome,
        }
    }

    async fn find_sent(&self, request: &LookupRequest) -> Result<LookupOutcome, SendError> {
        let LookupRange::After(after) = request.range.clone() else {
            return Ok(LookupOutcome::uncertain("a message sent under an idempotency key has no duplicates"));
        };
        let part = &request.part;
        let channel_id = self.resolve_channel_id(&part.conversation).await?;
        let Ok(composed) = send::new_message(part, channel_id, self.text_limit()) else {
            return Ok(LookupOutcome::uncertain("the part can't have been sent as a message"));
        };
        let bot_user_id = self.own_user_id().await.map_err(|error| classify_error(error, ApiOperation::Harmless))?;
        let found = lookup::find_message(&self.client, bot_user_id, channel_id, part, after, &composed).await;
        Ok(match found.map_err(|error| classify_error(error, ApiOperation::Harmless))? {
            Some(message) => LookupOutcome::Found { messages: vec![message], duplicates: Vec::new() },
            None => LookupOutcome::uncertain("the history doesn't contain exactly one matching message"),
        })
    }

    async fn probe(&self) -> Result<(), SendError> {
        let response: Result<IgnoredAny, _> = self.client.request(ApiRequest::get(OWN_USER_PATH)).await;
        response.map(|_| ()).map_err(|error| classify_error(error, ApiOperation::Harmless))
    }

    async fn show_activity(&self, conversation: &ConversationId, _: Activity) {
        // Discord has one activity only, and none in a channel that isn't open.
        if let Some(channel_id) = self.cached_channel_id(conversation) {
            self.show_typing(channel_id);
        }
    }

    async fn fetch(&self, reference: &FileReference) -> Result<FetchedFile, FileFetchError> {
        fetch::open_file(&self.client, self.fetcher.as_ref(), &self.file_hosts, reference).await
    }
}

fn operation_for(content: &PartContent) -> ApiOperation {
    match content {
        PartContent::Voice { as_file: false, .. } => ApiOperation::Voice,
        PartContent::Voice { .. } => ApiOperation::Files(1),
        PartContent::Text { text, files, .. } if !files.is_empty() && !text.trim().is_empty() => ApiOperation::Bundle,
        content if content.files().is_empty() => ApiOperation::Text,
        content => ApiOperation::Files(content.files().len()),
    }
}

fn is_bundle(composed: &ComposedMessage) -> bool {
    !composed.uploads.is_empty() && !composed.text().trim().is_empty()
}

fn message_gone() -> SendError {
    SendError::Refused { refusal: Refusal::TargetGone, reason: "it is not a Discord message".to_owned() }
}

/// The name of a person's private chat, whose own id tells nothing of them.
fn private_conversation(person: u64) -> Option<ConversationId> {
    ConversationId::new(channel_name(), format!("@{person}")).ok()
}

/// Maps a compose error to the part's outcome; nothing was sent.
fn compose_failure(error: ComposeError) -> SendError {
    let (refusal, reason) = match error {
        ComposeError::Empty => (Refusal::Other, "there is nothing to send"),
        ComposeError::NotEditable => (Refusal::TargetGone, "a message can't become a voice message"),
    };
    SendError::Refused { refusal, reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use satchel_domain::capabilities::Idempotency;
    use satchel_fake_kit::FaultyBlobs;
    use satchel_http::{FetchSettings, HttpFetcher};
    use satchel_routing::tables;

    use super::*;
    use crate::cache::MESSAGE_OVERHEAD_BYTES;

    const MIB: u64 = 1 << 20;

    fn channel() -> DiscordChannel {
        let settings = DiscordSettings {
            token: "token".into(),
            api_url: Some("http://127.0.0.1:9".into()),
            capabilities: tables::discord(),
            answers_in: Vec::new(),
            needs_parents: false,
            commands: Vec::new(),
        };
        let fetcher = Arc::new(HttpFetcher::new(FetchSettings::default()));
        DiscordChannel::new(&settings, Arc::new(FaultyBlobs::default()), fetcher).unwrap()
    }

    fn at(channel: &DiscordChannel, conversation: &str) -> ChannelCapabilities {
        channel.capabilities(&conversation.parse().unwrap())
    }

    #[test]
    fn channel_limits_follow_its_guild() {
        let channel = channel();
        for (guild, tier, file, request) in [(1, 0, 10, 25), (2, 2, 50, 50), (3, 3, 100, 100)] {
            let data = json!({
                "id": guild.to_string(), "premium_tier": tier, "channels": [{ "id": format!("{guild}0") }],
            });
            channel.cache().record_guild(&data);
            let known = at(&channel, &format!("discord:{guild}0"));
            assert_eq!(
                (known.file_bytes, known.request_bytes),
                (file * MIB, Some(request * MIB - MESSAGE_OVERHEAD_BYTES)),
                "tier {tier}"
            );
        }
        channel.cache().lower_file_limit(30, 60 * MIB);
        channel.cache().lower_request_limit(30, 90 * MIB);
        let lowered = at(&channel, "discord:30");
        assert_eq!((lowered.file_bytes, lowered.request_bytes), (50 * MIB, Some(50 * MIB - MESSAGE_OVERHEAD_BYTES)));
        channel.cache().lower_request_limit(20, 16 * MIB);
        let lowered = at(&channel, "discord:20");
        assert_eq!(
            (lowered.file_bytes, lowered.request_bytes),
            (50 * MIB, Some(10 * MIB - MESSAGE_OVERHEAD_BYTES)),
            "a file goes alone"
        );
        for elsewhere in ["discord:20", "discord:99", "discord:@7", "discord:main"] {
            let usual = if elsewhere == "discord:20" { 50 } else { 10 };
            assert_eq!(at(&channel, elsewhere).file_bytes, usual * MIB, "{elsewhere}");
        }
    }

    #[test]
    fn default_and_learned_limits_reserve_same_overhead() {
        assert_eq!(tables::discord().request_bytes, Some(25 * MIB - MESSAGE_OVERHEAD_BYTES));
    }

    #[test]
    fn a_person_is_where_their_direct_channel_is() {
        let channel = channel();
        channel.cache().record_direct_channel(7, 70);
        channel.cache().mark_voice_refused(70);
        channel.cache().lower_file_limit(70, 10 * MIB);
        let known = at(&channel, "discord:@7");
        assert_eq!((known.voice, known.file_bytes), (VoiceRule::AudioFile, 8 * MIB));
        assert_eq!(known.idempotency, Idempotency::Key { window_ms: Some(180_000) });
    }
}

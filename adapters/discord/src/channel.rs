//! Discord as a [`Channel`].

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use satchel_domain::{
    ChannelCapabilities, ChannelName, ConversationId, FileReference, MessageRef, PartContent,
    capabilities::VoiceRule,
    delivery::{Refusal, SendError},
};
use satchel_platform_http::{ActivityIndicator, HttpTimeouts};
use satchel_ports::{
    Activity, Blobs, Channel, FetchedFile, Fetcher, FileFetchError, LookupOutcome, LookupRange, LookupRequest,
    SendRequest,
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::json;

use crate::{
    address::{ConversationAddress, channel_name, number},
    cache::GuildCache,
    classify::{ApiOperation, classify_error, is_about_the_reply, is_size_limit},
    fetch, find_sent,
    rest::{ApiRequest, CallError, DiscordError, RestClient},
    send::{self, ComposeError, ComposedMessage, SentMessage},
    settings::DiscordSettings,
};

/// How long what is shown is not shown again: Discord takes it away after ten seconds.
const TYPING_DURATION: Duration = Duration::from_secs(5);

/// The way out to Discord, and the way to the files that people sent.
pub struct DiscordChannel {
    client: RestClient,
    capabilities: ChannelCapabilities,
    blobs: Arc<dyn Blobs>,
    fetcher: Arc<dyn Fetcher>,
    activities: ActivityIndicator<u64>,
    known: Arc<GuildCache>,
    /// Where Discord keeps files.
    hosts: Vec<String>,
    us: OnceLock<String>,
}

/// A channel or a user as an answer shows it. Nothing else is read, so that nothing else can make an answer
/// unreadable.
#[derive(Deserialize)]
struct IdResponse {
    id: String,
}

impl DiscordChannel {
    /// Makes the channel. Nobody is called yet.
    ///
    /// # Errors
    /// When the token or the server's address has not the form of one, or HTTP can't be spoken.
    pub fn new(
        settings: &DiscordSettings,
        blobs: Arc<dyn Blobs>,
        fetcher: Arc<dyn Fetcher>,
    ) -> Result<Self, DiscordError> {
        Self::with_timeouts(settings, blobs, fetcher, HttpTimeouts::default())
    }

    /// Makes the channel with other timeouts.
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
        let hosts = fetch::HOSTS.iter().map(|host| (*host).to_owned()).chain(client.own_server().map(str::to_owned));
        let hosts = hosts.collect();
        Ok(Self { client, capabilities, blobs, fetcher, activities, known: Arc::default(), hosts, us: OnceLock::new() })
    }

    /// The client, for the way in.
    pub(crate) fn client(&self) -> &RestClient {
        &self.client
    }

    /// What is known of Discord's places, which the way in teaches.
    pub(crate) fn cache(&self) -> &Arc<GuildCache> {
        &self.known
    }

    /// The channel of a conversation, where it is open.
    fn open_channel(&self, conversation: &ConversationId) -> Option<u64> {
        match ConversationAddress::parse(conversation)? {
            ConversationAddress::Channel(channel) => Some(channel),
            ConversationAddress::Person(person) => self.known.direct_of(person),
        }
    }

    /// The channel of a conversation. A person's direct channel is opened when it is needed first; that shows nothing
    /// to anybody.
    async fn channel(&self, conversation: &ConversationId) -> Result<u64, SendError> {
        if let Some(channel) = self.open_channel(conversation) {
            return Ok(channel);
        }
        let Some(ConversationAddress::Person(person)) = ConversationAddress::parse(conversation) else {
            return Err(SendError::Forbidden { reason: format!("{conversation} is no channel of Discord") });
        };
        let call = ApiRequest::post("/users/@me/channels", &json!({ "recipient_id": person.to_string() }));
        let opened: IdResponse =
            self.client.request(call).await.map_err(|error| classify_error(error, ApiOperation::Harmless))?;
        let unreadable = || SendError::NotSent {
            retry_after_ms: None,
            reason: "Discord has opened a channel without a number".to_owned(),
        };
        let channel = opened.id.parse().map_err(|_| unreadable())?;
        self.known.learn_direct(person, channel);
        Ok(channel)
    }

    /// Shows beside a channel's name that something is being done, unless that was just shown or refused.
    fn show_typing(&self, channel: u64) {
        let client = self.client.clone();
        self.activities.show(channel, async move {
            let call = ApiRequest::post(format!("/channels/{channel}/typing"), &json!({})).low_priority();
            let answered: Result<IgnoredAny, CallError> = client.request(call).await;
            answered.inspect_err(|error| tracing::debug!(channel.id = channel, %error, "showing an activity failed"))
        });
    }

    /// Makes a call that carries a message. The outer error is that it could not be begun.
    async fn call(
        &self,
        channel: u64,
        call: ApiRequest,
        composed: &ComposedMessage,
    ) -> Result<Result<SentMessage, CallError>, SendError> {
        send::send_with_uploads(&self.client, &self.blobs, call, composed, || self.show_typing(channel)).await
    }

    /// Makes a message show what was composed.
    async fn edit_message(
        &self,
        channel: u64,
        message: u64,
        composed: &ComposedMessage,
    ) -> Result<SentMessage, SendError> {
        let call = ApiRequest::patch(format!("/channels/{channel}/messages/{message}"), &composed.payload);
        // One without files most often is a reply that grows.
        let call = if composed.uploads.is_empty() { call.low_priority() } else { call };
        let operation = if is_bundle(composed) { ApiOperation::EditToBundle } else { ApiOperation::Edit };
        let answered = self.call(channel, call, composed).await?;
        answered.map_err(|error| self.record_limits(channel, composed, error, operation))
    }

    /// Makes a message show words with files. Where the files are refused or can't be read, they may be on it all the
    /// same, from a call whose answer was lost: what is answered to a change of its words tells.
    async fn change_whole(
        &self,
        channel: u64,
        message: u64,
        composed: &ComposedMessage,
    ) -> Result<SentMessage, SendError> {
        let changed = self.edit_message(channel, message, composed).await;
        let refused = match changed {
            Err(SendError::Refused { refusal: Refusal::TargetGone, .. }) => return changed,
            Err(error @ (SendError::Refused { .. } | SendError::Unreadable { .. })) if is_bundle(composed) => error,
            changed => return changed,
        };
        match self.edit_message(channel, message, &composed.clone().text_only()).await {
            Ok(sent) if sent.shows_files_of(composed) => Ok(sent),
            Err(error @ (SendError::NotSent { .. } | SendError::InDoubt { .. })) => Err(error),
            Ok(_) | Err(_) => Err(refused),
        }
    }

    /// Makes a message that an earlier call of the part has made show what the part is now, where that can be done.
    async fn update_earlier_message(
        &self,
        channel: u64,
        sent: &SentMessage,
        part: &SendRequest,
    ) -> Result<(), SendError> {
        let (Ok(message), Ok(composed)) = (sent.id.parse(), send::edit(&part.content, self.text_limit())) else {
            return Ok(());
        };
        tracing::debug!(channel.id = channel, "updating a message that an earlier attempt posted");
        match self.edit_message(channel, message, &composed).await {
            // A voice, or deleted since: it has arrived all the same.
            Ok(_) | Err(SendError::Refused { refusal: Refusal::TargetGone, .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Says what came of a message that has failed. Keeps what that tells about later calls, and puts the limit into it
    /// that holds from now on.
    fn record_limits(
        &self,
        channel: u64,
        composed: &ComposedMessage,
        error: CallError,
        operation: ApiOperation,
    ) -> SendError {
        let is_a_limit = is_size_limit(&error) && !composed.uploads.is_empty();
        match classify_error(error, operation) {
            SendError::Refused { refusal: Refusal::TooLarge { .. }, reason } if is_a_limit => {
                let limit = match composed.uploads.as_slice() {
                    [only] => self.known.lower_file(channel, only.bytes),
                    // Which of them was too large, or whether they were together, it doesn't say.
                    _ => {
                        self.known.lower_request(channel, composed.bytes());
                        None
                    }
                };
                tracing::info!(channel.id = channel, limit, "lowering the size limit of this channel");
                SendError::Refused { refusal: Refusal::TooLarge { limit }, reason }
            }
            error => {
                if matches!(error, SendError::Refused { refusal: Refusal::VoiceForbidden, .. }) {
                    self.known.mark_voice_refused(channel);
                }
                error
            }
        }
    }

    /// The bot's own id.
    async fn own_user_id(&self) -> Result<&str, CallError> {
        if let Some(us) = self.us.get() {
            return Ok(us);
        }
        let us: IdResponse = self.client.request(ApiRequest::get("/users/@me")).await?;
        Ok(self.us.get_or_init(|| us.id))
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
        let Some(channel) = self.open_channel(conversation) else { return capabilities };
        capabilities.file_bytes = self.known.file_limit(channel, capabilities.file_bytes);
        let request = |usual| self.known.request_limit(channel, usual, capabilities.file_bytes);
        capabilities.request_bytes = capabilities.request_bytes.map(request);
        if !self.known.accepts_voice(channel) {
            capabilities.voice = VoiceRule::AudioFile;
        }
        capabilities
    }

    async fn send(&self, part: &SendRequest) -> Result<Vec<MessageRef>, SendError> {
        if part.content == PartContent::Withdraw {
            // There is no message to take back, and so nothing to do.
            return Ok(Vec::new());
        }
        let channel = self.channel(&part.conversation).await?;
        let mut composed = send::new_message(part, channel, self.text_limit()).map_err(compose_failure)?;
        let post =
            |composed: &ComposedMessage| ApiRequest::post(format!("/channels/{channel}/messages"), &composed.payload);
        let mut answered = self.call(channel, post(&composed), &composed).await?;
        if answered.as_ref().is_err_and(is_about_the_reply) && composed.remove_reply() {
            answered = self.call(channel, post(&composed), &composed).await?;
        }
        let sent = answered.map_err(|error| self.record_limits(channel, &composed, error, operation(&part.content)))?;
        // An earlier call of this part may have made it, when a reply had fewer words, or a file was still to go with it.
        if sent.differs_from(&composed) {
            self.update_earlier_message(channel, &sent, part).await?;
        }
        Ok(vec![MessageRef(sent.id)])
    }

    async fn edit(&self, message: &MessageRef, part: &SendRequest) -> Result<Vec<MessageRef>, SendError> {
        if part.content == PartContent::Withdraw {
            self.delete(&part.conversation, message).await?;
            return Ok(Vec::new());
        }
        let channel = self.channel(&part.conversation).await?;
        let message = number(message).ok_or_else(message_gone)?;
        let composed = send::edit(&part.content, self.text_limit()).map_err(compose_failure)?;
        let sent = self.change_whole(channel, message, &composed).await?;
        Ok(vec![MessageRef(sent.id)])
    }

    async fn delete(&self, conversation: &ConversationId, message: &MessageRef) -> Result<(), SendError> {
        let channel = self.channel(conversation).await?;
        let Some(message) = number(message) else { return Ok(()) };
        let call = ApiRequest::delete(format!("/channels/{channel}/messages/{message}"));
        let answered: Result<IgnoredAny, _> = self.client.request(call).await;
        match answered.map(|_| ()).map_err(|error| classify_error(error, ApiOperation::Delete)) {
            Err(SendError::Refused { refusal: Refusal::TargetGone, .. }) => Ok(()),
            answered => answered,
        }
    }

    async fn find_sent(&self, request: &LookupRequest) -> Result<LookupOutcome, SendError> {
        let LookupRange::After(after) = request.range.clone() else {
            return Ok(LookupOutcome::uncertain("history has no duplicates of what was sent under a key"));
        };
        let part = &request.part;
        let channel = self.channel(&part.conversation).await?;
        let Ok(composed) = send::new_message(part, channel, self.text_limit()) else {
            return Ok(LookupOutcome::uncertain("the part has no form in which it can have been sent"));
        };
        let us = self.own_user_id().await.map_err(|error| classify_error(error, ApiOperation::Harmless))?;
        let found = find_sent::find(&self.client, us, channel, part, after, &composed).await;
        Ok(match found.map_err(|error| classify_error(error, ApiOperation::Harmless))? {
            Some(message) => LookupOutcome::Found { messages: vec![message], duplicates: Vec::new() },
            None => LookupOutcome::uncertain("not exactly one message in the history is like it"),
        })
    }

    async fn probe(&self) -> Result<(), SendError> {
        let answered: Result<IgnoredAny, _> = self.client.request(ApiRequest::get("/users/@me")).await;
        answered.map(|_| ()).map_err(|error| classify_error(error, ApiOperation::Harmless))
    }

    async fn show_activity(&self, conversation: &ConversationId, _: Activity) {
        // Discord knows one activity only, and none in a channel that isn't open.
        if let Some(channel) = self.open_channel(conversation) {
            self.show_typing(channel);
        }
    }

    async fn fetch(&self, reference: &FileReference) -> Result<FetchedFile, FileFetchError> {
        fetch::open_file(&self.client, self.fetcher.as_ref(), &self.hosts, reference).await
    }
}

fn operation(content: &PartContent) -> ApiOperation {
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
    SendError::Refused { refusal: Refusal::TargetGone, reason: "it is no message of Discord".to_owned() }
}

/// What follows when a part can't become a message: nothing has been sent.
fn compose_failure(why: ComposeError) -> SendError {
    let (refusal, reason) = match why {
        ComposeError::Empty => (Refusal::Other, "there is nothing to send"),
        ComposeError::NotEditable => (Refusal::TargetGone, "a message can't become a voice"),
    };
    SendError::Refused { refusal, reason: reason.to_owned() }
}

#[cfg(test)]
mod tests;

//! The state that all request handlers share.

use std::{net::IpAddr, sync::Arc};

use axum::extract::Request;
use satchel_domain::{ChannelName, ConversationId};
use satchel_http_server::{Peer, client_address, network};
use satchel_ports::{Archive, Blobs, Channel, Clock, Conversations, EventBus, Inbound, Notifications, Storage};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{
    Administration, WebChannel, WebSettings,
    auth::{Access, Authenticator, Credentials},
    guard,
    live::LiveHub,
    login_links::LoginLinks,
    login_registry::LoginRegistry,
    previews::Previews,
    problem::Problem,
    public_url::HostAllowList,
    url_signer::UrlSigner,
};

/// The server's ports and settings.
pub(crate) struct AppState {
    pub(crate) settings: WebSettings,
    pub(crate) hosts: HostAllowList,
    pub(crate) authenticator: Authenticator,
    pub(crate) logins: Arc<LoginRegistry>,
    pub(crate) login_links: LoginLinks,
    /// Signs the URLs of files and archives.
    pub(crate) urls: UrlSigner,
    pub(crate) channel: Arc<WebChannel>,
    pub(crate) inbound: Arc<dyn Inbound>,
    pub(crate) notifications: Arc<dyn Notifications>,
    pub(crate) conversations: Arc<dyn Conversations>,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) archive: Arc<dyn Archive>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) blobs: Arc<dyn Blobs>,
    /// `None` without workers that scale images.
    pub(crate) previews: Option<Previews>,
    pub(crate) hub: Arc<LiveHub>,
    pub(crate) bus: Arc<dyn EventBus>,
    /// The channels of this process.
    pub(crate) channels: Vec<Arc<dyn Channel>>,
    /// A permit for each completion whose body is read: it is in memory.
    pub(crate) completion_bodies: Semaphore,
    /// Cancelled when the process begins to stop.
    pub(crate) draining: CancellationToken,
    /// Cancelled when the server stops.
    pub(crate) stopping: CancellationToken,
    /// A permit for each export that runs: each takes a thread.
    pub(crate) exports: Arc<Semaphore>,
    /// `None` if the people of the page aren't owners.
    pub(crate) administration: Option<Arc<dyn Administration>>,
    /// The permit of the checks, which run once at a time.
    pub(crate) checks: Arc<Semaphore>,
}

impl AppState {
    /// Returns the channel name, the prefix of all conversation ids here.
    pub(crate) fn channel_name(&self) -> ChannelName {
        self.channel.name()
    }

    /// Returns the conversation id for its key in a path.
    pub(crate) fn conversation(&self, key: &str) -> Result<ConversationId, Problem> {
        let is_key_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        let is_valid = (1..=64).contains(&key.len()) && key.bytes().all(is_key_byte);
        let conversation = is_valid.then(|| ConversationId::new(self.channel_name(), key));
        conversation.and_then(Result::ok).ok_or_else(|| Problem::not_found("conversation"))
    }

    /// Reads what a request shows of who sends it.
    pub(crate) fn read_credentials(&self, request: &Request) -> Credentials {
        self.authenticator.read_credentials(request, guard::own_origin(request).port, self.client_network(request))
    }

    /// Returns by what a request is authorized; `None` if it isn't.
    pub(crate) async fn authorize(&self, credentials: Credentials) -> Result<Option<Access>, Problem> {
        self.authenticator.authorize(credentials, &self.logins).await
    }

    /// Returns the client's network, by which failed logins are counted; trusted proxies are resolved.
    pub(crate) fn client_network(&self, request: &Request) -> IpAddr {
        let Peer(peer) = request.extensions().get().expect("every connection puts its peer into its requests");
        let client = client_address(&self.settings.trusted_proxies, peer.ip(), request.headers());
        network(client)
    }
}

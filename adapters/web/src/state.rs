//! What every request works with.

use std::{net::IpAddr, sync::Arc};

use axum::extract::Request;
use satchel_domain::{ChannelName, ConversationId};
use satchel_http_server::{Peer, client_address, network};
use satchel_ports::{Blobs, Channel, Inbound, Ledger};

use crate::{
    WebChannel, WebSettings, auth::Authenticator, live::LiveHub, login_links::LoginLinks, problem::Problem,
    public_url::HostAllowList,
};

/// The parts of the server.
pub(crate) struct AppState {
    pub(crate) settings: WebSettings,
    pub(crate) hosts: HostAllowList,
    pub(crate) access: Authenticator,
    pub(crate) login_links: LoginLinks,
    pub(crate) channel: Arc<WebChannel>,
    pub(crate) inbound: Arc<dyn Inbound>,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) blobs: Arc<dyn Blobs>,
    pub(crate) hub: Arc<LiveHub>,
}

impl AppState {
    /// The name before the ids of all conversations here.
    pub(crate) fn channel_name(&self) -> ChannelName {
        self.channel.name()
    }

    /// Reads the part of a conversation's id that stands in a path.
    pub(crate) fn conversation(&self, key: &str) -> Result<ConversationId, Problem> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        let known = (1..=64).contains(&key.len()) && key.bytes().all(plain);
        let conversation = known.then(|| ConversationId::new(self.channel_name(), key));
        conversation.and_then(Result::ok).ok_or_else(|| Problem::not_found("conversation"))
    }

    /// Whether a request comes from somebody who may come in.
    pub(crate) fn admits(&self, request: &Request) -> Result<bool, Problem> {
        self.access.is_authorized(request.headers(), self.sender(request), self.ledger.now())
    }

    /// Who sent a request, as far as strangers are told apart and proxies are trusted.
    pub(crate) fn sender(&self, request: &Request) -> IpAddr {
        let Peer(peer) = request.extensions().get().expect("every connection puts its peer into its requests");
        let client = client_address(&self.settings.trusted_proxies, peer.ip(), request.headers());
        network(client)
    }
}

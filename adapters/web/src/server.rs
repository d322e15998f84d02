//! The server: checks the settings, listens, and serves until it is stopped.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use axum::Router;
use satchel_http_server::{ProxyRange, ServerSettings};
use satchel_ports::{
    Archive, Blobs, Channel, Clock, Conversations, EventBus, Inbound, Logins, Notifications, Storage,
    event_bus::EventStream,
};
use secrecy::{ExposeSecret, SecretString};
use tokio::{net::TcpListener, sync::Semaphore};
use tokio_util::sync::CancellationToken;

use crate::{
    Administration, WebChannel, WebError, WebSettings,
    auth::Authenticator,
    live::{ListenerEnd, LiveHub},
    login_links::LoginLinks,
    login_registry::LoginRegistry,
    previews::Previews,
    public_url::{HostAllowList, PublicUrl},
    routes,
    state::AppState,
    token::MIN_TOKEN_CHARS,
    url_signer::UrlSigner,
};

/// How many conversations are exported at once.
const MAX_EXPORTS: usize = 2;

/// How many requests for completions are read and stored at once.
const MAX_COMPLETION_BODIES: usize = 2;

/// The ports that the server works on.
pub struct WebPorts {
    /// Accepts messages.
    pub inbound: Arc<dyn Inbound>,
    /// Accepts what other programs send to people.
    pub notifications: Arc<dyn Notifications>,
    /// Lists, searches and forgets conversations, with all that belongs to them.
    pub conversations: Arc<dyn Conversations>,
    /// Forgets files, with their bytes, and revokes the links to them.
    pub storage: Arc<dyn Storage>,
    /// What was said, and the records of files.
    pub archive: Arc<dyn Archive>,
    /// Which browsers are logged in.
    pub logins: Arc<dyn Logins>,
    pub clock: Arc<dyn Clock>,
    /// The bytes of files.
    pub blobs: Arc<dyn Blobs>,
    /// What happens in conversations while they are looked at.
    pub bus: Arc<dyn EventBus>,
    /// The channels of this process, which may be closed.
    pub channels: Vec<Arc<dyn Channel>>,
    /// What owners see of the running system and can do; `None` if the people of the page aren't owners.
    pub administration: Option<Arc<dyn Administration>>,
}

/// The server of the page and the API, which listens but doesn't serve yet.
pub struct WebServer {
    listener: TcpListener,
    address: SocketAddr,
    router: Router,
    trusted_proxies: Vec<ProxyRange>,
    hub: Arc<LiveHub>,
    events: EventStream,
    draining: CancellationToken,
    stopping: CancellationToken,
}

impl WebServer {
    /// Starts to listen.
    ///
    /// # Errors
    /// When the settings would admit strangers or contradict each other, or the address can't be bound.
    pub async fn bind(settings: WebSettings, channel: Arc<WebChannel>, ports: WebPorts) -> Result<Self, WebError> {
        let WebPorts {
            inbound,
            notifications,
            conversations,
            storage,
            archive,
            logins,
            clock,
            blobs,
            bus,
            channels,
            administration,
        } = ports;
        let public = settings.public_url.as_ref().map(PublicUrl::parse).transpose()?;
        let is_public = !settings.listen.ip().is_loopback() || public.as_ref().is_some_and(|public| !public.is_local());
        if is_public && settings.token.is_none() {
            let detail = "`web.token: off` would open the web page to others: remove it, or listen on 127.0.0.1 \
                          without a `web.public_url`";
            return Err(WebError::Settings(detail.to_owned()));
        }
        let is_short = |token: &SecretString| token.expose_secret().chars().count() < MIN_TOKEN_CHARS;
        if settings.token.as_ref().is_some_and(is_short) {
            let detail = format!(
                "`web.token` is too easy to guess: use at least {MIN_TOKEN_CHARS} characters, such as four words"
            );
            return Err(WebError::Settings(detail));
        }
        let listen_error = |error| WebError::from_io(format!("listen on {}", settings.listen), error);
        let listener = TcpListener::bind(settings.listen).await.map_err(listen_error)?;
        let address = listener.local_addr().map_err(listen_error)?;
        let events = bus.subscribe().await.map_err(|error| WebError::from_io("listen to what happens", error))?;
        let (draining, stopping) = (CancellationToken::new(), CancellationToken::new());
        let urls = UrlSigner::new(channel.key().clone());
        let hub = LiveHub::new(Arc::clone(&archive), channel.name(), urls.clone(), stopping.clone());
        let login_links = LoginLinks::new(&settings.key_file);
        let token = settings.token.as_ref().map(|token| channel.key().fingerprint(token.expose_secret()));
        if let Some(token) = &token {
            end_earlier_logins(&*logins, &login_links, token).await;
            let public_origin = public.as_ref().map(PublicUrl::origin);
            // A full disk only disables login links; programs have the token and browsers their logins.
            if let Err(error) = login_links.prepare(&public_origin.unwrap_or_else(|| local_origin(address)), token) {
                tracing::warn!(error = &error as &dyn std::error::Error, "login links are unavailable");
            }
        }
        let logins = LoginRegistry::new(logins, Arc::clone(&clock), token.unwrap_or_default());
        let secure = public.as_ref().is_some_and(|public| public.secure);
        let authenticator = Authenticator::new(channel.key().clone(), settings.token.clone(), secure);
        let hosts = HostAllowList::new(address, public);
        let trusted_proxies = settings.trusted_proxies.clone();
        let shared_hub = Arc::clone(&hub);
        let previews = settings.images.clone().map(Previews::new);
        let state = AppState {
            previews,
            settings,
            hosts,
            authenticator,
            logins: Arc::new(logins),
            login_links,
            urls,
            channel,
            inbound,
            notifications,
            conversations,
            storage,
            archive,
            clock,
            blobs,
            hub: shared_hub,
            bus,
            channels,
            completion_bodies: Semaphore::new(MAX_COMPLETION_BODIES),
            draining: draining.clone(),
            stopping: stopping.clone(),
            exports: Arc::new(Semaphore::new(MAX_EXPORTS)),
            administration,
            checks: Arc::new(Semaphore::new(1)),
        };
        let state = Arc::new(state);
        let router = routes::router(state);
        Ok(Self { listener, address, router, trusted_proxies, hub, events, draining, stopping })
    }

    /// Returns the bound address with the actual port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop`; then event streams end at once, and requests in flight within seconds. From `drain` on, when the
    /// process has begun to stop, it is no longer ready, but still shows what happens.
    ///
    /// # Errors
    /// None so far: an error of a connection ends only that connection.
    pub async fn serve(self, drain: CancellationToken, stop: CancellationToken) -> Result<(), WebError> {
        let Self { listener, router, trusted_proxies, hub, events, draining, stopping, .. } = self;
        let settings = ServerSettings { trusted_proxies, ..ServerSettings::default() };
        // Also stops if this future is dropped.
        let _stop_guard = stopping.clone().drop_guard();
        let stopper = async {
            let _stopped_at_once = stop.run_until_cancelled(drain.cancelled()).await;
            draining.cancel();
            stop.cancelled().await;
            stopping.cancel();
        };
        let server = satchel_http_server::serve(listener, router, settings, stop.clone());
        let listener_task = async {
            if Arc::clone(&hub).run(events, &stop).await == ListenerEnd::BusClosed {
                tracing::warn!("the event bus closed; the page falls back to polling every few seconds");
            }
        };
        tokio::join!(stopper, server, listener_task, hub.wait_stopped());
        Ok(())
    }
}

/// Ends the logins under an earlier token, which would only be listed: they are refused anyway.
async fn end_earlier_logins(logins: &dyn Logins, login_links: &LoginLinks, token: &str) {
    let Some(earlier) = login_links.earlier_token(token) else { return };
    if let Err(error) = logins.end_logins(Some(earlier)).await {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "logins under an earlier token are still listed; they are refused"
        );
    }
}

/// Returns the origin for a browser on this machine.
fn local_origin(address: SocketAddr) -> String {
    // As an IP address: another user could listen on the other address of `localhost`.
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => format!("http://127.0.0.1:{}", address.port()),
        IpAddr::V6(ip) if ip.is_unspecified() => format!("http://[::1]:{}", address.port()),
        _ => format!("http://{address}"),
    }
}

impl fmt::Debug for WebServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebServer").field("address", &self.address).finish_non_exhaustive()
    }
}

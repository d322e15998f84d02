//! The way between the vendor's client and the provider: passes one request on, and its answer back within limits.
//!
//! The client reads the body of an error to its end, copies an unfinished frame with each chunk that follows, and has no
//! limit. So it sends its request to a port of the loopback interface, and gets what [`FrameBuffer`] lets through: whole
//! frames (ADR 0045). The relay detects what goes wrong with the provider: an error status, a timeout, a lost connection.

mod frames;
mod request;

use std::{io, net::Ipv4Addr, pin::pin, sync::atomic::Ordering, time::Duration};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use reqwest::{Client, Response, Url, redirect::Policy};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, tcp::OwnedWriteHalf},
    time::timeout,
};
use uuid::Uuid;

use self::{
    frames::{FrameBuffer, FrameError},
    request::{RelayedRequest, RequestHead},
};
use crate::{
    body::read_error_body,
    error::{ErrorMapper, ProviderError, ProviderErrorKind},
    request_policy::RequestPolicy,
    settings::ModelProvider,
};

/// How long the client may take to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a connection may take to send the head of its request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the request may take to begin, connections of others included. Nothing but this machine takes part.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// How many connections are read at once until the right one is found.
const MAX_CONNECTIONS: usize = 64;

/// The head of every response to the client. An answer with another status is a failure of the relay.
const RESPONSE_HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";

/// A port that takes one request.
pub(crate) struct Relay {
    listener: TcpListener,
    /// The beginning of the path of that request. Every account of the machine can connect; only this process has it.
    path_prefix: String,
}

/// How a request gets to its provider.
pub(crate) struct RelayRoute {
    pub(crate) http: Client,
    /// Where the provider is; the path is that of the request.
    pub(crate) url: Url,
    pub(crate) provider: ModelProvider,
    pub(crate) policy: RequestPolicy,
    pub(crate) error_mapper: ErrorMapper,
}

impl Relay {
    /// Opens a port.
    ///
    /// # Errors
    /// When none is free.
    pub(crate) async fn bind() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        Ok(Self { listener, path_prefix: format!("/{}", Uuid::new_v4().simple()) })
    }

    /// The address that the client uses in place of a provider's, with the same path and query.
    ///
    /// # Errors
    /// When the port can't be read.
    pub(crate) fn address_for(&self, provider: &Url) -> io::Result<String> {
        let host = self.listener.local_addr()?;
        let query = provider.query().map(|query| format!("?{query}")).unwrap_or_default();
        Ok(format!("http://{host}{}{}{query}", self.path_prefix, provider.path()))
    }

    /// Passes the request on and the answer back.
    ///
    /// # Errors
    /// Why there is no answer, or no more of it. The client only sees that the answer ends.
    pub(crate) async fn run(self, route: RelayRoute) -> Result<(), ProviderError> {
        let received = timeout(REQUEST_TIMEOUT, self.receive_request()).await;
        let Ok(Ok((request, mut client))) = received else {
            return Err(route.provider_error(ProviderErrorKind::RelayFailed));
        };
        let body_read = request.body_read.clone();
        let mut sending = pin!(route.send(request));
        let response = tokio::select! {
            response = &mut sending => Some(response?),
            () = body_read.cancelled() => None,
        };
        // As early as possible: the client keeps the request in memory until then.
        if client.write_all(RESPONSE_HEAD).await.is_err() {
            return Ok(());
        }
        let response = match response {
            Some(response) => response,
            None => sending.await?,
        };
        route.pass_back(response, &mut client).await
    }

    /// Waits for the request with the secret path. Others are not answered.
    async fn receive_request(self) -> io::Result<(RelayedRequest, OwnedWriteHalf)> {
        let mut heads: FuturesUnordered<BoxFuture<'static, Option<RequestHead>>> = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if heads.len() < MAX_CONNECTIONS => {
                    let (connection, _) = accepted?;
                    let head = timeout(HEAD_TIMEOUT, RequestHead::read(connection));
                    heads.push(async move { head.await.ok()?.ok() }.boxed());
                }
                Some(head) = heads.next() => {
                    let Some(head) = head else { continue };
                    let Some(target) = head.target_below(&self.path_prefix).map(str::to_owned) else { continue };
                    return Ok(head.into_request(target));
                }
            }
        }
    }
}

impl RelayRoute {
    async fn send(&self, request: RelayedRequest) -> Result<Response, ProviderError> {
        let RelayedRequest { target, headers, body, is_body_lost, .. } = request;
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target.as_str(), None),
        };
        let mut url = self.url.clone();
        url.set_path(path);
        url.set_query(query);
        let sent = timeout(self.policy.response_timeout, self.http.post(url).headers(headers).body(body).send()).await;
        let mut response = sent.map_err(|_| self.provider_error(ProviderErrorKind::Timeout))?.map_err(|error| {
            match is_body_lost.load(Ordering::Relaxed) {
                true => self.provider_error(ProviderErrorKind::RelayFailed),
                false => self.error_mapper.map_connection_error(&error),
            }
        })?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = read_error_body(&mut response).await;
        Err(self.error_mapper.map_status(status, &body, response.headers()))
    }

    /// Passes the answer back to the client, frame by frame. Ends early when the client has read enough.
    async fn pass_back(&self, mut response: Response, client: &mut OwnedWriteHalf) -> Result<(), ProviderError> {
        let mut frames = FrameBuffer::new(self.provider);
        loop {
            let chunk = timeout(self.policy.idle_timeout, response.chunk()).await;
            let chunk = chunk
                .map_err(|_| self.provider_error(ProviderErrorKind::Stalled))?
                .map_err(|error| self.error_mapper.map_connection_error(&error))?;
            let complete = match &chunk {
                Some(chunk) => frames.push(chunk),
                None => frames.finish(),
            };
            let complete = complete.map_err(|error| self.frame_error(error))?;
            let is_client_gone = client.write_all(&complete).await.is_err();
            if is_client_gone || chunk.is_none() {
                return Ok(());
            }
        }
    }

    fn provider_error(&self, kind: ProviderErrorKind) -> ProviderError {
        self.error_mapper.provider_error(kind)
    }

    fn frame_error(&self, error: FrameError) -> ProviderError {
        self.provider_error(match error {
            FrameError::TooLong => ProviderErrorKind::ResponseTooLong,
            FrameError::TooCostly => ProviderErrorKind::InvalidResponse,
        })
    }
}

/// Builds the client that the vendor's library reaches relays with.
///
/// # Errors
/// When the HTTP library can't be set up.
pub(crate) fn relay_client() -> reqwest::Result<Client> {
    // The first caller installs the provider for the whole process.
    let _already = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .no_proxy()
        .connect_timeout(CONNECT_TIMEOUT)
        .tls_certs_only([])
        .redirect(Policy::none())
        // Each request has a relay of its own.
        .pool_max_idle_per_host(0)
        .build()
}

#[cfg(test)]
mod tests;

//! Keeps a gateway of a channel with one process at a time; the others wait to take over.

use std::{error::Error, pin::pin, sync::Arc, time::Duration};

use satchel_ports::{
    Channel,
    ledger::{GATEWAY_TAKEOVER, GatewayDuty, GatewayId, GatewayLease, Gateways},
};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// How often a process that waits tries to claim the gateway. With [`GATEWAY_TAKEOVER`] it takes over within ten seconds.
const CLAIM_INTERVAL: Duration = Duration::from_secs(1);

/// How long a claim may take.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(2);

/// How often the lease is renewed.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(2);

/// How long a renewal may take before it counts as failed.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(1);

/// How soon a renewal that failed is retried.
const RENEWAL_RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// For how long after a renewal this process trusts its lease. The rest, before others may claim it, is for closing the
/// connection.
const TRUST: Duration = GATEWAY_TAKEOVER.saturating_sub(Duration::from_secs(1));

/// For how long the gateway is left to others after a listener has ended by itself. They take over within
/// [`CLAIM_INTERVAL`].
const LISTEN_RETRY_INTERVAL: Duration = Duration::from_secs(3);

/// A gateway that this process holds or waits for.
pub struct Gateway {
    pub gateways: Arc<dyn Gateways>,
    /// The channel as this process has it. While it is closed, the gateway is left to processes whose credentials are
    /// accepted.
    pub channel: Arc<dyn Channel>,
    pub duty: GatewayDuty,
}

impl Gateway {
    /// Listens to the platform whenever this process holds the gateway, until `stop`; it holds none while the channel is
    /// closed. A listener whose token is cancelled ends its connection; one that ends by itself can't listen for now, and others
    /// may take over before it is tried again. Losing the gateway loses nothing: what two processes
    /// receive is stored once.
    ///
    /// # Errors
    /// Those of the listener.
    pub async fn run<F, E>(&self, listen: impl Fn(CancellationToken) -> F, stop: CancellationToken) -> Result<(), E>
    where
        F: Future<Output = Result<(), E>>,
    {
        let id = GatewayId { channel: self.channel.name(), duty: self.duty };
        while let Some((lease, trusted_until)) = stop.run_until_cancelled(self.wait_for_lease(&id)).await {
            let connection = stop.child_token();
            let mut listening = pin!(listen(connection.clone()));
            tokio::select! {
                result = &mut listening => {
                    self.release(&lease).await;
                    let has_ended = result.is_err() || stop.is_cancelled();
                    if has_ended || stop.run_until_cancelled(sleep(LISTEN_RETRY_INTERVAL)).await.is_none() {
                        return result;
                    }
                }
                () = self.renew_until_lost(&lease, trusted_until) => {
                    connection.cancel();
                    listening.await?;
                }
                () = wait_until_closed(&*self.channel) => {
                    connection.cancel();
                    let result = listening.await;
                    self.release(&lease).await;
                    result?;
                }
            }
        }
        Ok(())
    }

    /// Waits until the channel is open and the gateway is this process's. Returns the lease, and until when it can be trusted.
    async fn wait_for_lease(&self, id: &GatewayId) -> (GatewayLease, Instant) {
        let (channel, duty) = (&id.channel, self.describe_duty());
        let (mut has_waited, mut has_failed) = (false, false);
        loop {
            wait_until_open(&*self.channel).await;
            let sent_at = Instant::now();
            match timeout(CLAIM_TIMEOUT, self.gateways.claim_gateway(id)).await {
                Ok(Ok(Some(lease))) => {
                    if has_waited || has_failed {
                        tracing::info!(%channel, "this process {duty} now");
                    }
                    return (lease, sent_at + TRUST);
                }
                Ok(Ok(None)) if !has_waited => {
                    has_waited = true;
                    tracing::info!(%channel, "another process {duty}; this one takes over when that ends");
                }
                Ok(Ok(None)) => {}
                Ok(Err(error)) if !has_failed => {
                    has_failed = true;
                    tracing::warn!(%channel, error = &error as &dyn Error, "claiming the gateway failed; retrying");
                }
                Ok(Err(_)) | Err(_) => {}
            }
            sleep(CLAIM_INTERVAL).await;
        }
    }

    /// Renews the lease until another process has it, or may have it.
    async fn renew_until_lost(&self, lease: &GatewayLease, mut trusted_until: Instant) {
        let channel = &lease.gateway.channel;
        let mut interval = RENEWAL_INTERVAL;
        loop {
            sleep(interval).await;
            let sent_at = Instant::now();
            // Also after a machine's sleep: the lease may still be this process's.
            match timeout(RENEWAL_TIMEOUT, self.gateways.renew_gateway(lease)).await {
                Ok(Ok(true)) => {
                    trusted_until = sent_at + TRUST;
                    interval = RENEWAL_INTERVAL;
                }
                Ok(Ok(false)) => {
                    tracing::warn!(%channel, "another process {} now", self.describe_duty());
                    return;
                }
                _ if Instant::now() + RENEWAL_RETRY_INTERVAL + RENEWAL_TIMEOUT <= trusted_until => {
                    interval = RENEWAL_RETRY_INTERVAL;
                }
                Ok(Err(error)) => {
                    let error = &error as &dyn Error;
                    tracing::warn!(%channel, error, "the gateway could not be renewed; disconnecting");
                    return;
                }
                Err(_) => {
                    tracing::warn!(%channel, "the gateway was not renewed in time; disconnecting");
                    return;
                }
            }
        }
    }

    /// What the process that holds the gateway does, for the log.
    fn describe_duty(&self) -> &'static str {
        match self.duty {
            GatewayDuty::Receive => "receives the channel's messages",
            GatewayDuty::Deliver => "tells agents that the channel has delivery workers",
        }
    }

    async fn release(&self, lease: &GatewayLease) {
        let channel = &lease.gateway.channel;
        match timeout(RENEWAL_TIMEOUT, self.gateways.release_gateway(lease)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let error = &error as &dyn Error;
                tracing::warn!(%channel, error, "releasing the gateway failed; others can claim it in a few seconds");
            }
            Err(_) => {
                tracing::warn!(%channel, "the gateway was not released in time; others can claim it in a few seconds")
            }
        }
    }
}

async fn wait_until_open(channel: &dyn Channel) {
    let mut state = channel.state();
    while state.closure().is_some() {
        state = channel.next_state(&state).await;
    }
}

async fn wait_until_closed(channel: &dyn Channel) {
    let mut state = channel.state();
    while state.closure().is_none() {
        state = channel.next_state(&state).await;
    }
}

#[cfg(test)]
mod tests;

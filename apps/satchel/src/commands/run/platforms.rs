//! The platforms that a process hosts, and what receives their messages.

use std::sync::Arc;

use futures::future::BoxFuture;
use satchel_ports::{
    Channel, Inbound,
    ledger::{GatewayDuty, Gateways},
};
use satchel_runtime::gateway::Gateway;
use satchel_telegram::BotToken;
use tokio_util::sync::CancellationToken;

use super::Tasks;
use crate::{
    config::{
        LoadedConfig,
        leaf::secret::{Secret, read_secret},
    },
    event_bus::OpenRequests,
};

/// A platform that this process hosts.
pub(super) struct HostedPlatform {
    pub(super) channel: Arc<dyn Channel>,
    /// Receives its messages until it is stopped, while this process is the channel's gateway.
    pub(super) listen: ListenFn,
}

/// Receives a platform's messages until the token is cancelled.
type ListenFn =
    Box<dyn Fn(Arc<dyn Inbound>, CancellationToken) -> BoxFuture<'static, anyhow::Result<()>> + Send + Sync>;

impl From<OpenRequests> for HostedPlatform {
    fn from(OpenRequests { channel, listener }: OpenRequests) -> Self {
        let listen: ListenFn = Box::new(move |inbound, stop| {
            let listener = listener.clone();
            Box::pin(async move {
                listener.listen(inbound, stop).await;
                Ok(())
            })
        });
        Self { channel, listen }
    }
}

/// A platform's token, which is read again from its file once the platform refuses it, if it has one.
pub(super) fn bot_token(loaded: &LoadedConfig, key: &str, token: &Secret) -> BotToken {
    match loaded.secret_file(key) {
        Some(path) => BotToken::from_file(token.0.clone(), path.to_owned(), read_secret),
        None => token.0.clone().into(),
    }
}

/// Receives the platforms' messages until `stop`, each while this process is its channel's gateway.
pub(super) fn receive(
    platforms: Vec<HostedPlatform>,
    gateways: &Arc<dyn Gateways>,
    inbound: &Arc<dyn Inbound>,
    tasks: &mut Tasks,
    stop: &CancellationToken,
) {
    for HostedPlatform { channel, listen } in platforms {
        let gateway = Gateway { gateways: Arc::clone(gateways), channel, duty: GatewayDuty::Receive };
        let (inbound, stop) = (Arc::clone(inbound), stop.clone());
        tasks.spawn(async move { gateway.run(|connection| listen(Arc::clone(&inbound), connection), stop).await });
    }
}

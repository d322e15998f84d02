//! Whoever holds the gateway listens, and nobody else.

use std::{
    future::pending,
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use async_trait::async_trait;
use satchel_domain::ChannelName;
use satchel_ports::ledger::{HolderId, LedgerError};
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::*;
use crate::stub_channel::StubChannel;

/// How the gateway stands for this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LedgerState {
    HeldByAnother,
    Free,
    Broken,
    /// As a connection that is cut: no answer comes back.
    Silent,
}

struct TestGateways {
    state: Mutex<LedgerState>,
    releases: AtomicU32,
}

impl TestGateways {
    async fn answer<T>(&self, free: T, held: T) -> Result<T, LedgerError> {
        let state = *self.state.lock().unwrap();
        match state {
            LedgerState::HeldByAnother => Ok(held),
            LedgerState::Free => Ok(free),
            LedgerState::Broken => Err(LedgerError::Store { operation: "a test", source: "it is away".into() }),
            LedgerState::Silent => pending().await,
        }
    }
}

#[async_trait]
impl Gateways for TestGateways {
    async fn claim_gateway(&self, gateway: &GatewayId) -> Result<Option<GatewayLease>, LedgerError> {
        let lease = GatewayLease { gateway: gateway.clone(), holder: HolderId(Uuid::nil()), token: 1 };
        self.answer(Some(lease), None).await
    }

    async fn list_held_gateways(&self, _duty: GatewayDuty) -> Result<Vec<ChannelName>, LedgerError> {
        unreachable!("a gateway looks for no others")
    }

    async fn renew_gateway(&self, _lease: &GatewayLease) -> Result<bool, LedgerError> {
        self.answer(true, false).await
    }

    async fn release_gateway(&self, _lease: &GatewayLease) -> Result<(), LedgerError> {
        self.releases.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// A process with a gateway, and whether it listens.
struct TestProcess {
    gateways: Arc<TestGateways>,
    listeners: Arc<AtomicU32>,
    channel: Arc<StubChannel>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), &'static str>>,
}

impl TestProcess {
    /// Starts it; a listener fails at once where it is to.
    fn start(state: LedgerState, failure: Option<&'static str>) -> Self {
        let gateways = Arc::new(TestGateways { state: Mutex::new(state), releases: AtomicU32::new(0) });
        let channel = StubChannel::new("telegram");
        let (ledger, shared) = (Arc::clone(&gateways) as _, Arc::clone(&channel) as _);
        let gateway = Gateway { gateways: ledger, channel: shared, duty: GatewayDuty::Receive };
        let (listeners, stop) = (Arc::new(AtomicU32::new(0)), CancellationToken::new());
        let (counter, stopped) = (Arc::clone(&listeners), stop.clone());
        let task = tokio::spawn(async move {
            let listen = async |connection: CancellationToken| {
                if let Some(failure) = failure {
                    return Err(failure);
                }
                counter.fetch_add(1, Ordering::SeqCst);
                connection.cancelled().await;
                counter.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            };
            gateway.run(listen, stopped).await
        });
        Self { gateways, listeners, channel, stop, task }
    }

    fn set(&self, state: LedgerState) {
        *self.gateways.state.lock().unwrap() = state;
    }

    async fn listeners_after(&self, time: Duration) -> u32 {
        // By the paused clock.
        sleep(time).await;
        self.listeners.load(Ordering::SeqCst)
    }

    /// Stops it, and returns how often it has released the gateway.
    async fn stop(self) -> u32 {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
        assert_eq!(self.listeners.load(Ordering::SeqCst), 0);
        self.gateways.releases.load(Ordering::SeqCst)
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// Longer than any lease.
const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn waiting_process_takes_over_and_releases_when_stopped() {
    let process = TestProcess::start(LedgerState::HeldByAnother, None);
    assert_eq!(process.listeners_after(MINUTE).await, 0, "another process holds it");
    process.set(LedgerState::Free);
    assert_eq!(process.listeners_after(2 * SECOND).await, 1);
    assert_eq!(process.listeners_after(MINUTE).await, 1, "one connection, as long as it is renewed");
    assert_eq!(process.stop().await, 1);
}

#[tokio::test(start_paused = true)]
async fn waiting_process_stops_at_once() {
    let process = TestProcess::start(LedgerState::HeldByAnother, None);
    assert_eq!(process.listeners_after(SECOND).await, 0);
    assert_eq!(process.stop().await, 0, "it had nothing to release");
}

#[tokio::test(start_paused = true)]
async fn lost_gateway_disconnects_and_is_claimed_once_free() {
    let process = TestProcess::start(LedgerState::Free, None);
    assert_eq!(process.listeners_after(SECOND).await, 1);
    process.set(LedgerState::HeldByAnother);
    assert_eq!(process.listeners_after(3 * SECOND).await, 0);
    process.set(LedgerState::Free);
    assert_eq!(process.listeners_after(2 * SECOND).await, 1);
    assert_eq!(process.stop().await, 1);
}

#[tokio::test(start_paused = true)]
async fn outage_shorter_than_the_lease_changes_nothing() {
    let process = TestProcess::start(LedgerState::Free, None);
    for outage in [LedgerState::Broken, LedgerState::Silent] {
        assert_eq!(process.listeners_after(3 * SECOND).await, 1);
        process.set(outage);
        assert_eq!(process.listeners_after(3 * SECOND).await, 1, "{outage:?}");
        process.set(LedgerState::Free);
        assert_eq!(process.listeners_after(MINUTE).await, 1, "{outage:?}");
    }
}

/// Others may claim the gateway then, and the platform would serve two connections.
#[tokio::test(start_paused = true)]
async fn gateway_that_is_not_renewed_disconnects_before_others_claim_it() {
    for outage in [LedgerState::Broken, LedgerState::Silent] {
        let process = TestProcess::start(LedgerState::Free, None);
        assert_eq!(process.listeners_after(SECOND).await, 1);
        process.set(outage);
        // The last renewal may have been a moment before.
        assert_eq!(process.listeners_after(GATEWAY_TAKEOVER - Duration::from_millis(1)).await, 0, "{outage:?}");
        process.set(LedgerState::Free);
        process.stop.cancel();
    }
}

#[tokio::test(start_paused = true)]
async fn listener_that_fails_ends_it_and_releases_the_gateway() {
    let process = TestProcess::start(LedgerState::Free, Some("the token is not accepted"));
    let result = process.task.await.unwrap();
    assert_eq!(result, Err("the token is not accepted"));
    assert_eq!(process.gateways.releases.load(Ordering::SeqCst), 1);
}

/// Catches: a process whose address another program has, and which keeps the gateway from one that could listen.
#[tokio::test(start_paused = true)]
async fn listener_that_ends_by_itself_leaves_the_gateway_to_others_for_a_while() {
    let gateways = Arc::new(TestGateways { state: Mutex::new(LedgerState::Free), releases: AtomicU32::new(0) });
    let (ledger, channel) = (Arc::clone(&gateways) as _, StubChannel::new("telegram") as _);
    let gateway = Gateway { gateways: ledger, channel, duty: GatewayDuty::Receive };
    let (attempts, stop) = (AtomicU32::new(0), CancellationToken::new());
    let listen = async |_: CancellationToken| {
        attempts.fetch_add(1, Ordering::SeqCst);
        Ok::<(), &'static str>(())
    };
    let observing = async {
        let moment = Duration::from_millis(1);
        sleep(LISTEN_RETRY_INTERVAL - moment).await;
        let releases = || gateways.releases.load(Ordering::SeqCst);
        assert_eq!((attempts.load(Ordering::SeqCst), releases()), (1, 1), "others can claim it");
        sleep(2 * moment).await;
        assert_eq!((attempts.load(Ordering::SeqCst), releases()), (2, 2), "it is tried again");
        *gateways.state.lock().unwrap() = LedgerState::HeldByAnother;
        sleep(MINUTE).await;
        assert_eq!(attempts.load(Ordering::SeqCst), 2, "another process listens");
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(gateway.run(listen, stop.clone()), observing);
    assert_eq!(ended, Ok(()));
}

/// Catches: a process with a refused token that keeps the gateway from one with the next token.
#[tokio::test(start_paused = true)]
async fn closed_channel_leaves_the_gateway_to_others() {
    let process = TestProcess::start(LedgerState::Free, None);
    assert_eq!(process.listeners_after(SECOND).await, 1);
    process.channel.close("a");
    assert_eq!(process.listeners_after(MINUTE).await, 0, "it is free, and not claimed");
    assert_eq!(process.gateways.releases.load(Ordering::SeqCst), 1);
    process.channel.open();
    assert_eq!(process.listeners_after(2 * SECOND).await, 1);
    assert_eq!(process.stop().await, 2);
}

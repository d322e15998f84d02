//! The verbs that are more than one transaction, or none.

use std::sync::Arc;

use satchel_ledger_sql::search::count_unindexed;
use satchel_ports::ledger::{LedgerError, verbs::types::*};

use crate::{
    SqliteLedger,
    error::Error,
    gateways::GatewayLocks,
    lanes, search,
    verbs::{self, create_question_key, find_pairing_answer, find_question_key, must_draft_wait},
};

/// How many turns a search indexes first, so that what was said of late is found at once.
const INDEXED_BY_SEARCH: u32 = 200;

const SEARCH_OPERATION: &str = "searching the conversations";

pub(crate) async fn claim_gateway(
    ledger: &SqliteLedger,
    gateway: &GatewayId,
) -> Result<Option<GatewayLease>, LedgerError> {
    let gateway = gateway.clone();
    with_gateways(ledger, "claiming a gateway", move |gateways| gateways.claim(&gateway)).await
}

pub(crate) async fn list_held_gateways(
    ledger: &SqliteLedger,
    duty: GatewayDuty,
) -> Result<Vec<ChannelName>, LedgerError> {
    with_gateways(ledger, "looking for gateways", move |gateways| gateways.list_held(duty)).await
}

pub(crate) async fn renew_gateway(ledger: &SqliteLedger, lease: &GatewayLease) -> Result<bool, LedgerError> {
    Ok(ledger.gateways.is_lease_valid(lease))
}

pub(crate) async fn release_gateway(ledger: &SqliteLedger, lease: &GatewayLease) -> Result<(), LedgerError> {
    ledger.gateways.release(lease);
    Ok(())
}

async fn with_gateways<T: Send + 'static>(
    ledger: &SqliteLedger,
    operation: &'static str,
    work: impl FnOnce(&GatewayLocks) -> std::io::Result<T> + Send + 'static,
) -> Result<T, LedgerError> {
    let gateways = Arc::clone(&ledger.gateways);
    let done = tokio::task::spawn_blocking(move || work(&gateways)).await;
    let done = done.map_err(|_interrupted| Error::Stopped).and_then(|done| Ok(done?));
    done.map_err(|error| error.at_port(operation))
}

pub(crate) async fn claim_lane(
    ledger: &SqliteLedger,
    channels: &[ChannelName],
    filter: WorkFilter,
) -> Result<Option<ClaimedLane>, LedgerError> {
    const OPERATION: &str = "claiming a lane";
    let (channels, wanted) = (channels.to_vec(), filter.clone());
    let find = async move |db: &_| lanes::find_candidates(db, &channels, &wanted).await;
    let candidates = ledger.read(OPERATION, find).await?;
    if candidates.is_empty() {
        return Ok(None);
    }
    ledger.write(OPERATION, async move |db: &_| lanes::claim_first(db, &candidates, &filter).await).await
}

pub(crate) async fn renew(ledger: &SqliteLedger, leases: &[Lease]) -> Result<Vec<Lease>, LedgerError> {
    if leases.is_empty() {
        return Ok(Vec::new());
    }
    let leases = leases.to_vec();
    ledger.write("renewing leases", async move |db: &_| lanes::renew(db, &leases).await).await
}

pub(crate) async fn next_turn(ledger: &SqliteLedger, lease: &Lease) -> Result<Option<QueuedTurn>, LedgerError> {
    const OPERATION: &str = "reading the next turn";
    let of_lease = lease.clone();
    match ledger.read(OPERATION, async move |db: &_| verbs::next_turn(db, &of_lease).await).await? {
        // The message that would join it may be on its way to the disk: whoever is about to begin an album must read it
        // behind everything that was let in while it could be joined.
        Some(read) if read.is_ready_album => {
            let lease = lease.clone();
            let read = ledger.write(OPERATION, async move |db: &_| verbs::next_turn(db, &lease).await).await?;
            Ok(read.map(|read| read.turn))
        }
        read => Ok(read.map(|read| read.turn)),
    }
}

pub(crate) async fn open_draft(
    ledger: &SqliteLedger,
    lease: &Lease,
    turn: TurnId,
    reply_to: Option<MessageRef>,
) -> Result<Option<Part>, LedgerError> {
    // Asked again and again while an earlier reply is under way, so that is looked at without a commit.
    let of_lease = lease.clone();
    let must_wait = async move |db: &_| must_draft_wait(db, &of_lease, turn).await;
    if ledger.read("reading parts in progress", must_wait).await? {
        return Ok(None);
    }
    let lease = lease.clone();
    let open = async move |db: &_| verbs::open_draft(db, &lease, turn, reply_to).await;
    ledger.write("opening a draft", open).await
}

pub(crate) async fn load_question_key(ledger: &SqliteLedger) -> Result<QuestionKey, LedgerError> {
    const OPERATION: &str = "loading the secret of questions";
    // It is made once, and every question needs it.
    if let Some(key) = ledger.read(OPERATION, async move |db: &_| find_question_key(db).await).await? {
        return Ok(key);
    }
    ledger.write(OPERATION, async move |db: &_| create_question_key(db).await).await
}

pub(crate) async fn issue_pairing_code(
    ledger: &SqliteLedger,
    stranger: &PairingRequest,
    rules: &PairingRules,
) -> Result<Option<IssuedCode>, LedgerError> {
    const OPERATION: &str = "issuing a pairing code";
    let (request, rules) = (stranger.clone(), *rules);
    // Most who write have a code, or get none; a flood of them must not become a flood of commits.
    let known = async move |db: &_| find_pairing_answer(db, &request, &rules).await;
    if let Some(known) = ledger.read(OPERATION, known).await? {
        return Ok(known);
    }
    let stranger = stranger.clone();
    ledger.write(OPERATION, async move |db: &_| verbs::issue_pairing_code(db, &stranger, &rules).await).await
}

pub(crate) async fn search_conversations(
    ledger: &SqliteLedger,
    search: &ConversationSearch,
) -> Result<SearchResults, LedgerError> {
    let of_channel = Some(search.channel.clone());
    // Who waits for its turn to search may go away; one search at a time leaves the other readers to turns.
    let permit = Arc::clone(&ledger.search_permit).acquire_owned().await;
    let permit = permit.map_err(|_| Error::Stopped.at_port(SEARCH_OPERATION))?;
    let unindexed = {
        let channel = of_channel.clone();
        let count = async move |db: &_| count_unindexed(db, channel.as_ref()).await;
        ledger.read(SEARCH_OPERATION, count).await?
    };
    if unindexed > 0 {
        let index = async move |db: &_| search::index_turns(db, INDEXED_BY_SEARCH, of_channel.as_ref()).await;
        // Turns that can't be indexed, as on a full disk, don't keep others from being found.
        if let Err(error) = ledger.write("indexing turns", index).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "a search found less than there is");
        }
    }
    let search = search.clone();
    let query = async move |db: &_| {
        let _permit = permit;
        search::search(db, &search).await
    };
    ledger.read(SEARCH_OPERATION, query).await
}

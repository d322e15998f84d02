//! The verbs that are more than one transaction, or one of another kind.

use std::sync::Arc;

use satchel_ledger_sql::search::count_unindexed;
use satchel_ports::ledger::{LedgerError, verbs::types::*};

use crate::{
    PostgresLedger, gateways, lanes, search,
    session::Database,
    verbs::{self, create_question_key, find_pairing_answer, find_question_key, must_draft_wait},
};

/// How many turns a search indexes first, so that what was said of late is found at once.
const INDEXED_BY_SEARCH: u32 = 200;

const SEARCH_OPERATION: &str = "searching the conversations";

pub(crate) async fn claim_gateway(
    ledger: &PostgresLedger,
    gateway: &GatewayId,
) -> Result<Option<GatewayLease>, LedgerError> {
    const OPERATION: &str = "claiming a gateway";
    if !ledger.read(OPERATION, |db| async move { gateways::is_free(&db, gateway).await }).await? {
        return Ok(None);
    }
    ledger.write(OPERATION, |db| async move { gateways::claim(&db, gateway).await }).await
}

pub(crate) async fn list_held_gateways(
    ledger: &PostgresLedger,
    duty: GatewayDuty,
) -> Result<Vec<ChannelName>, LedgerError> {
    ledger.read("looking for gateways", |db| async move { gateways::list_held(&db, duty).await }).await
}

pub(crate) async fn renew_gateway(ledger: &PostgresLedger, lease: &GatewayLease) -> Result<bool, LedgerError> {
    ledger.renew_lease("renewing a gateway", |db| async move { gateways::renew(&db, lease).await }).await
}

pub(crate) async fn release_gateway(ledger: &PostgresLedger, lease: &GatewayLease) -> Result<(), LedgerError> {
    ledger.write("releasing a gateway", |db| async move { gateways::release(&db, lease).await }).await
}

pub(crate) async fn claim_lane(
    ledger: &PostgresLedger,
    channels: &[ChannelName],
    filter: WorkFilter,
) -> Result<Option<ClaimedLane>, LedgerError> {
    // It writes nothing, and so costs no commit, where there is nothing to claim.
    let filter = &filter;
    ledger.write("claiming a lane", |db| async move { lanes::claim_first(&db, channels, filter).await }).await
}

pub(crate) async fn renew(ledger: &PostgresLedger, leases: &[Lease]) -> Result<Vec<Lease>, LedgerError> {
    if leases.is_empty() {
        return Ok(Vec::new());
    }
    ledger.renew_lease("renewing leases", |db| async move { lanes::renew(&db, leases).await }).await
}

pub(crate) async fn next_turn(ledger: &PostgresLedger, lease: &Lease) -> Result<Option<QueuedTurn>, LedgerError> {
    const OPERATION: &str = "reading the next turn";
    match ledger.read(OPERATION, |db| async move { verbs::next_turn(&*db, lease).await }).await? {
        // The message that would join it may be on its way to the database: whoever is about to begin an album must read
        // it behind everything that was let in while it could be joined.
        Some(read) if read.is_ready_album => {
            let read = ledger.write(OPERATION, |db| async move { verbs::next_turn(&*db, lease).await }).await?;
            Ok(read.map(|read| read.turn))
        }
        read => Ok(read.map(|read| read.turn)),
    }
}

pub(crate) async fn open_draft(
    ledger: &PostgresLedger,
    lease: &Lease,
    turn: TurnId,
    reply_to: Option<MessageRef>,
) -> Result<Option<Part>, LedgerError> {
    // Asked again and again while an earlier reply is under way, so that is looked at without a commit.
    let must_wait = |db: Arc<Database>| async move { must_draft_wait(&*db, lease, turn).await };
    if ledger.read("reading parts in progress", must_wait).await? {
        return Ok(None);
    }
    let reply_to = &reply_to;
    let open = |db: Arc<Database>| async move { verbs::open_draft(&*db, lease, turn, reply_to.clone()).await };
    ledger.write("opening a draft", open).await
}

pub(crate) async fn load_question_key(ledger: &PostgresLedger) -> Result<QuestionKey, LedgerError> {
    const OPERATION: &str = "loading the secret of questions";
    // It is made once, and every question needs it.
    let find = |db: Arc<Database>| async move { find_question_key(&*db).await };
    if let Some(key) = ledger.read(OPERATION, find).await? {
        return Ok(key);
    }
    let create = |db: Arc<Database>| async move { create_question_key(&*db).await };
    ledger.write(OPERATION, create).await
}

pub(crate) async fn issue_pairing_code(
    ledger: &PostgresLedger,
    stranger: &PairingRequest,
    rules: &PairingRules,
) -> Result<Option<IssuedCode>, LedgerError> {
    const OPERATION: &str = "issuing a pairing code";
    // Most who write have a code, or get none; a flood of them must not become a flood of commits.
    let known = |db: Arc<Database>| async move { find_pairing_answer(&*db, stranger, rules).await };
    if let Some(known) = ledger.read(OPERATION, known).await? {
        return Ok(known);
    }
    ledger.write(OPERATION, |db| async move { verbs::issue_pairing_code(&*db, stranger, rules).await }).await
}

pub(crate) async fn search_conversations(
    ledger: &PostgresLedger,
    search: &ConversationSearch,
) -> Result<SearchResults, LedgerError> {
    let channel = Some(&search.channel);
    let count = |db: Arc<Database>| async move { count_unindexed(&*db, channel).await };
    if ledger.read(SEARCH_OPERATION, count).await? > 0 {
        let index = |db: Arc<Database>| async move { search::index_turns(&db, INDEXED_BY_SEARCH, channel).await };
        // Turns that can't be indexed, as on a full disk, don't keep others from being found.
        if let Err(error) = ledger.write("indexing turns", index).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "a search found less than there is");
        }
    }
    ledger.read(SEARCH_OPERATION, |db| async move { search::search(&db, search).await }).await
}

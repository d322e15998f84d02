//! The port `Conversations`: how people list, search and forget them.

use std::sync::Arc;

use async_trait::async_trait;
use satchel_domain::ConversationId;
use satchel_ports::ledger::{
    ConversationQuery, ConversationSearch, ConversationSummary, Conversations, ForgetConversationOutcome, LedgerError,
    ListingChange, RetryOutcome, SearchResults, TurnRetry,
};

use crate::{PostgresLedger, database::Database, forget_conversation, listings, retry, search};

/// How many turns a search indexes first, so that what was said of late is found at once.
const INDEXED_BY_SEARCH: u32 = 200;

const SEARCHING: &str = "searching the conversations";

#[async_trait]
impl Conversations for PostgresLedger {
    async fn list_conversations(&self, query: &ConversationQuery) -> Result<Vec<ConversationSummary>, LedgerError> {
        self.read("listing the conversations", |db| async move { listings::list(&db, query).await }).await
    }

    async fn find_conversation(
        &self,
        conversation: &ConversationId,
    ) -> Result<Option<ConversationSummary>, LedgerError> {
        self.read("reading a conversation", |db| async move { listings::find(&db, conversation).await }).await
    }

    async fn change_listing(
        &self,
        conversation: &ConversationId,
        changes: &[ListingChange],
    ) -> Result<bool, LedgerError> {
        self.write("changing how a conversation is listed", |db| async move {
            listings::change(&db, conversation, changes).await
        })
        .await
    }

    async fn search_conversations(&self, search: &ConversationSearch) -> Result<SearchResults, LedgerError> {
        let channel = Some(&search.channel);
        let count = |db: Arc<Database>| async move { search::count_unindexed(&db, channel).await };
        if self.read(SEARCHING, count).await? > 0 {
            let index = |db: Arc<Database>| async move { search::index_turns(&db, INDEXED_BY_SEARCH, channel).await };
            // What can't be written, as on a full disk, can be searched all the same.
            if let Err(error) = self.write("indexing turns", index).await {
                tracing::warn!(error = &error as &dyn std::error::Error, "a search found less than there is");
            }
        }
        self.read(SEARCHING, |db| async move { search::search(&db, search).await }).await
    }

    async fn index_turns(&self, limit: u32) -> Result<u64, LedgerError> {
        self.write("indexing turns", |db| async move { search::index_turns(&db, limit, None).await }).await
    }

    async fn retry_turn(&self, retry: &TurnRetry) -> Result<RetryOutcome, LedgerError> {
        self.write("retrying a turn", |db| async move { retry::retry(&db, retry).await }).await
    }

    async fn forget_conversation(
        &self,
        conversation: &ConversationId,
    ) -> Result<ForgetConversationOutcome, LedgerError> {
        self.write("forgetting a conversation", |db| async move {
            forget_conversation::forget_conversation(&db, conversation).await
        })
        .await
    }

    async fn list_forgotten_workspaces(&self) -> Result<Vec<ConversationId>, LedgerError> {
        self.read("listing forgotten workspaces", |db| async move { forget_conversation::list_workspaces(&db).await })
            .await
    }

    async fn record_workspace_removed(&self, conversation: &ConversationId) -> Result<(), LedgerError> {
        self.write("recording that a workspace is removed", |db| async move {
            forget_conversation::record_workspace_removed(&db, conversation).await
        })
        .await
    }
}

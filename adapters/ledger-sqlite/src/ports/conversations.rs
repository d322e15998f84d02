//! The port `Conversations`: how people list, search and forget them.

use std::sync::Arc;

use async_trait::async_trait;
use satchel_domain::ConversationId;
use satchel_ports::ledger::{
    ConversationQuery, ConversationSearch, ConversationSummary, Conversations, ForgetConversationOutcome, LedgerError,
    ListingChange, RetryOutcome, SearchResults, TurnRetry,
};

use crate::{SqliteLedger, database::Database, error::Error, forget_conversation, listings, retry, search};

/// How many turns a search indexes first, so that what was said of late is found at once.
const INDEXED_BY_SEARCH: u32 = 200;

const SEARCHING: &str = "searching the conversations";

#[async_trait]
impl Conversations for SqliteLedger {
    async fn list_conversations(&self, query: &ConversationQuery) -> Result<Vec<ConversationSummary>, LedgerError> {
        let query = query.clone();
        self.read("listing the conversations", move |db| listings::list(db, &query)).await
    }

    async fn find_conversation(
        &self,
        conversation: &ConversationId,
    ) -> Result<Option<ConversationSummary>, LedgerError> {
        let conversation = conversation.clone();
        self.read("reading a conversation", move |db| listings::find(db, &conversation)).await
    }

    async fn change_listing(
        &self,
        conversation: &ConversationId,
        changes: &[ListingChange],
    ) -> Result<bool, LedgerError> {
        let (conversation, changes) = (conversation.clone(), changes.to_vec());
        self.writer
            .run("changing how a conversation is listed", move |db| listings::change(db, &conversation, &changes))
            .await
    }

    async fn search_conversations(&self, search: &ConversationSearch) -> Result<SearchResults, LedgerError> {
        let of_channel = Some(search.channel.clone());
        // Who waits for its turn to search may go away; one search at a time leaves the other readers to turns.
        let permit =
            Arc::clone(&self.search_permit).acquire_owned().await.map_err(|_| Error::Stopped.at_port(SEARCHING))?;
        let unindexed = {
            let channel = of_channel.clone();
            self.read(SEARCHING, move |db| search::count_unindexed(db, channel.as_ref())).await?
        };
        if unindexed > 0 {
            let index = move |db: &Database| search::index_turns(db, INDEXED_BY_SEARCH, of_channel.as_ref());
            // What can't be written, as on a full disk, can be searched all the same.
            if let Err(error) = self.writer.run("indexing turns", index).await {
                tracing::warn!(error = &error as &dyn std::error::Error, "a search found less than there is");
            }
        }
        let search = search.clone();
        let query = move |db: &Database| {
            let _permit = permit;
            search::search(db, &search)
        };
        self.read(SEARCHING, query).await
    }

    async fn index_turns(&self, limit: u32) -> Result<u64, LedgerError> {
        self.writer.run("indexing turns", move |db| search::index_turns(db, limit, None)).await
    }

    async fn retry_turn(&self, retry: &TurnRetry) -> Result<RetryOutcome, LedgerError> {
        let retry = retry.clone();
        self.writer.run("retrying a turn", move |db| retry::retry(db, &retry)).await
    }

    async fn forget_conversation(
        &self,
        conversation: &ConversationId,
    ) -> Result<ForgetConversationOutcome, LedgerError> {
        let conversation = conversation.clone();
        self.writer
            .run("forgetting a conversation", move |db| forget_conversation::forget_conversation(db, &conversation))
            .await
    }

    async fn list_forgotten_workspaces(&self) -> Result<Vec<ConversationId>, LedgerError> {
        self.read("listing forgotten workspaces", forget_conversation::list_workspaces).await
    }

    async fn record_workspace_removed(&self, conversation: &ConversationId) -> Result<(), LedgerError> {
        let conversation = conversation.clone();
        self.writer
            .run("recording that a workspace is removed", move |db| {
                forget_conversation::record_workspace_removed(db, &conversation)
            })
            .await
    }
}

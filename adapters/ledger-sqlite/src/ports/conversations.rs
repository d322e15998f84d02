//! The port `Conversations`: how people list, search and forget them.

use async_trait::async_trait;
use satchel_domain::ConversationId;
use satchel_ports::ledger::{
    ConversationQuery, ConversationSearch, ConversationSummary, Conversations, ForgetConversationOutcome, LedgerError,
    ListingChange, SearchResults,
};

use crate::{SqliteLedger, forget_conversation, listings, search};

/// How many turns a search indexes that was not waited for: what was said of late is found at once.
const INDEXED_BY_SEARCH: u32 = 200;

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
        const OPERATION: &str = "searching the conversations";
        if self.read(OPERATION, search::count_unindexed).await? > 0 {
            self.index_turns(INDEXED_BY_SEARCH).await?;
        }
        let search = search.clone();
        self.read(OPERATION, move |db| search::search(db, &search)).await
    }

    async fn index_turns(&self, limit: u32) -> Result<u64, LedgerError> {
        self.writer.run("indexing turns", move |db| search::index_turns(db, limit)).await
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
}

//! The conversations of a channel as people see them in a list: named, pinned, archived, searched, tried again, forgotten.

use async_trait::async_trait;
use satchel_domain::{ChannelName, ConversationId, InboxId, Sha256, Timestamp, TurnId};

use super::LedgerError;

/// Lists, searches, retries and forgets conversations.
///
/// # Contract
/// Besides that of [all ports](super):
/// - A conversation is listed from its first message on, until it is forgotten. One that is archived is listed apart, until
///   its next message.
/// - A search finds each completed turn by the words of its messages, of its voice notes and of its reply, and by the names
///   of its files; of a long text it knows the first 65 536 characters. Upper case and accents make no difference, and the
///   first two letters of a word are enough. Turns that are not indexed yet are counted. Satchel's answers to commands,
///   which no history keeps, aren't found.
/// - Retrying a turn queues its messages once more, as a new turn, and takes what the turn said out of the history, in one
///   commit. The turn stays as a record that names the new one; retrying it once more returns that.
/// - Forgotten files and conversations are not found any more.
/// - Forgetting a conversation removes its messages, replies, files, index entries and settings in one commit. The keys of
///   its messages stay, so that a repeated message is still known, and numbers of files are not used again.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Conversations: Send + Sync {
    /// Returns the pinned conversations of a channel and after them the others, each the last used first.
    async fn list_conversations(&self, query: &ConversationQuery) -> Result<Vec<ConversationSummary>, LedgerError>;

    /// Returns the entry of a conversation; `None` if there is no such conversation.
    async fn find_conversation(
        &self,
        conversation: &ConversationId,
    ) -> Result<Option<ConversationSummary>, LedgerError>;

    /// Changes how a conversation is listed; returns `false` if there is no such conversation.
    async fn change_listing(
        &self,
        conversation: &ConversationId,
        changes: &[ListingChange],
    ) -> Result<bool, LedgerError>;

    /// Returns what has all words, the newest first; a conversation that is named so comes before its turns.
    async fn search_conversations(&self, search: &ConversationSearch) -> Result<SearchResults, LedgerError>;

    /// Adds completed turns to the index, the newest first and at most `limit`; returns how many are left.
    async fn index_turns(&self, limit: u32) -> Result<u64, LedgerError>;

    /// Queues the messages of a conversation's last turn once more. Nobody is woken for them.
    async fn retry_turn(&self, retry: &TurnRetry) -> Result<RetryOutcome, LedgerError>;

    /// Forgets a conversation in which nothing is under way. Its workspace is for the caller to remove.
    async fn forget_conversation(
        &self,
        conversation: &ConversationId,
    ) -> Result<ForgetConversationOutcome, LedgerError>;

    /// Returns the forgotten conversations whose workspaces are not recorded as removed, without those that go on.
    async fn list_forgotten_workspaces(&self) -> Result<Vec<ConversationId>, LedgerError>;

    /// Records that the workspace of a forgotten conversation is removed.
    async fn record_workspace_removed(&self, conversation: &ConversationId) -> Result<(), LedgerError>;
}

/// A query for conversations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationQuery {
    /// Only those of this channel.
    pub channel: ChannelName,
    /// Only the archived ones, or only the others.
    pub archived: bool,
    /// Only those, and none that is pinned, whose last turn is older than this one.
    pub before: Option<TurnId>,
    /// At most this many besides the pinned ones.
    pub limit: u32,
}

/// An entry of a list of conversations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationSummary {
    /// The conversation.
    pub conversation: ConversationId,
    /// The name that somebody gave it.
    pub name: Option<String>,
    /// The beginning of its first text, as it was sent; empty if it has only files.
    pub title: String,
    /// Whether it is listed before the others.
    pub pinned: bool,
    /// Whether it is listed apart.
    pub archived: bool,
    /// Its last turn.
    pub last_turn: TurnId,
    /// When its latest message was stored.
    pub last_at: Timestamp,
    /// The model that an owner chose for it, which may have been removed since.
    pub model: Option<String>,
}

/// A change of how a conversation is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListingChange {
    /// Gives it a name, or takes the name away.
    Name(Option<String>),
    /// Lists it before the others; it is not archived any more.
    Pin,
    /// Lists it among the others.
    Unpin,
    /// Lists it apart until its next message; it is not pinned any more.
    Archive,
    /// Lists it among the others again.
    Unarchive,
}

/// The words of a search. None of them is an operator, whatever it looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchTerms(Vec<String>);

/// The most words of one search.
pub const MAX_SEARCH_TERMS: usize = 16;

/// Why a text can't be searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseSearchError {
    /// It has no letter and no digit.
    #[error("type a word or a number to search for")]
    NoTerms,
    /// It has too many words.
    #[error("search for at most {MAX_SEARCH_TERMS} words")]
    TooManyTerms,
}

impl SearchTerms {
    /// Reads what somebody typed. Signs alone are no words.
    ///
    /// # Errors
    /// When nothing is left, or too much.
    pub fn parse(text: &str) -> Result<Self, ParseSearchError> {
        let is_word = |word: &&str| word.contains(char::is_alphanumeric);
        let is_gap = |char: char| char.is_whitespace() || char.is_control();
        let words: Vec<String> = text.split(is_gap).filter(is_word).map(str::to_owned).collect();
        match words.len() {
            0 => Err(ParseSearchError::NoTerms),
            1..=MAX_SEARCH_TERMS => Ok(Self(words)),
            _ => Err(ParseSearchError::TooManyTerms),
        }
    }

    /// Returns the words, at least one, as they were typed.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

/// A search in the conversations of a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationSearch {
    /// Only those of this channel.
    pub channel: ChannelName,
    /// Only this one, and not its name.
    pub conversation: Option<ConversationId>,
    /// The words, all of which must be there.
    pub terms: SearchTerms,
    /// Only turns older than this one.
    pub before: Option<TurnId>,
    /// At most this many turns.
    pub limit: u32,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchResults {
    /// What has the words.
    pub hits: Vec<SearchHit>,
    /// The number of turns that were not searched, because they are not indexed yet.
    pub unindexed: u64,
}

/// A turn that has the words, or a conversation whose name has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchHit {
    /// The conversation.
    pub conversation: ConversationId,
    /// Its name.
    pub name: Option<String>,
    /// The beginning of its first text.
    pub title: String,
    /// The turn; `None` if the name has the words.
    pub turn: Option<TurnId>,
    /// When the turn ended, or the conversation was last used.
    pub at: Timestamp,
    /// The words among those around them.
    pub excerpt: Vec<ExcerptPiece>,
}

/// A piece of an excerpt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExcerptPiece {
    /// The text.
    pub text: String,
    /// Whether it is one of the words of the search.
    pub matched: bool,
}

/// A turn whose messages are to be answered once more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnRetry {
    /// Its conversation.
    pub conversation: ConversationId,
    /// The turn.
    pub turn: TurnId,
    /// Messages of it that are not answered once more: orders to the turn itself, such as to stop it.
    pub excluded: Vec<InboxId>,
    /// The text in place of that of its last message; `None` leaves it as it is.
    pub text: Option<String>,
}

/// The result of retrying a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryOutcome {
    /// Its messages are queued as this turn now, or were before.
    Queued(TurnId),
    /// The conversation has no such turn.
    NotFound,
    /// A message is waiting, a turn is running, or a reply is still to be delivered.
    Busy,
    /// Others have followed it, which build on what it said.
    NotLast,
    /// Satchel started it itself.
    SystemTask,
}

/// The result of forgetting a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForgetConversationOutcome {
    /// It is forgotten; these are the addresses of its files' bytes.
    Forgotten(Vec<Sha256>),
    /// There is no such conversation.
    NotFound,
    /// A message is waiting, a turn is running, or a reply is still to be delivered.
    Busy,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn punctuation_is_no_term() {
        let words = |text: &str| SearchTerms::parse(text).map(|words| words.0.join("|"));
        assert_eq!(words("  rent \n contract 2024 ").unwrap(), "rent|contract|2024");
        assert_eq!(words("AND -x \"quoted OR NEAR(a*").unwrap(), "AND|-x|\"quoted|OR|NEAR(a*");
        assert_eq!(words("a\0b\u{1}c").unwrap(), "a|b|c", "no control character reaches the database");
        assert_eq!(words("* \" - ( ) ^ :"), Err(ParseSearchError::NoTerms));
        assert_eq!(words(""), Err(ParseSearchError::NoTerms));
        assert_eq!(words(&"w ".repeat(17)), Err(ParseSearchError::TooManyTerms));
        assert!(words(&"w ".repeat(16)).is_ok());
    }
}

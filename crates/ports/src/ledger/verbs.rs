//! The table of all ledger verbs, from which the implementations of the ports and the interceptor are generated.

/// The types that the table names, to be imported where it is used.
pub mod types {
    pub use std::time::Duration;

    pub use satchel_domain::{
        Attachment, AttachmentId, CallId, ChannelName, ConversationId, HistoryMessage, InboundMessage, InboxId,
        LinkRevocation, LoginId, MessageRef, NewAttachment, Part, PartId, RecordedOutcome, RefusedFile, ReminderId,
        Sha256, Timestamp, ToolOutcome, TurnId, UndecodableUpdate,
    };
    pub use serde_json::Value;

    pub use crate::{
        AuditQuery, AuditRecord, FileChange,
        ledger::{
            Archive, AttachmentKey, AttachmentQuery, CallDecision, ClaimMode, ClaimedLane, CompletedTurn,
            ConversationQuery, ConversationSearch, ConversationSummary, Conversations, CreateReminderOutcome,
            ForgetConversationOutcome, ForgetOutcome, ForgetRequest, GatewayDuty, GatewayId, GatewayLease, Gateways,
            Inbox, IssuedCode, JournalEntry, Lease, Leases, LedgerError, ListingChange, Logins, NewLogin, NewQuestion,
            NewReminder, Outbox, OutboxQuery, PageLogin, Pairing, PairingDecision, PairingOutcome, PairingRequest,
            PairingRules, Pairings, Person, PersonKey, QuestionKey, QueuedMessage, QueuedTurn, ReceiveOutcome,
            RecordedMessages, ReleaseMode, Reminder, ReminderLimits, ReminderPerson, ReminderQuery, ReminderScope,
            Reminders, RenameOutcome, RetryOutcome, SearchResults, SettleOutcome, Settlement, Storage, Transcription,
            TurnQuery, TurnRecord, TurnRetry, Turns, UndecodableCount, Usage, UsageQuery, WorkFilter,
        },
    };
}

/// Hands all verbs to another macro: by port, each with how an SQL ledger runs it and the operation in the words of an
/// operator. A verb that reads or writes is one transaction; a custom one is put together by each ledger.
#[macro_export]
macro_rules! ledger_verbs {
    ($callback:ident) => {
        $callback! {
            Inbox {
                write "receiving a message"
                    fn receive(message: &InboundMessage, claim: ClaimMode) -> ReceiveOutcome;
                write "storing an undecodable update"
                    fn record_undecodable(update: &UndecodableUpdate) -> bool;
                read "loading a checkpoint"
                    fn load_checkpoint(channel: &ChannelName) -> Option<Value>;
                write "saving a checkpoint"
                    fn save_checkpoint(channel: &ChannelName, checkpoint: &Value) -> ();
                write "renaming a conversation"
                    fn rename_conversation(from: &ConversationId, to: &ConversationId) -> RenameOutcome;
            }
            Gateways {
                custom fn claim_gateway(gateway: &GatewayId) -> Option<GatewayLease>;
                custom fn list_held_gateways(duty: GatewayDuty) -> Vec<ChannelName>;
                custom fn renew_gateway(lease: &GatewayLease) -> bool;
                custom fn release_gateway(lease: &GatewayLease) -> ();
            }
            Leases {
                custom fn claim_lane(channels: &[ChannelName], filter: WorkFilter) -> Option<ClaimedLane>;
                read "looking for turns that wait"
                    fn longest_wait() -> Option<Duration>;
                custom fn renew(leases: &[Lease]) -> Vec<Lease>;
                write "releasing a lane"
                    fn release(lease: &Lease, release: ReleaseMode) -> bool;
            }
            Turns {
                custom fn next_turn(lease: &Lease) -> Option<QueuedTurn>;
                read "listing messages queued behind a turn"
                    fn list_queued_behind(lease: &Lease, turn: TurnId) -> Vec<QueuedMessage>;
                write "joining turns"
                    fn join_turns(lease: &Lease, turn: TurnId, followers: &[TurnId]) -> bool;
                write "storing a file's record"
                    fn store_file(lease: &Lease, message: InboxId, index: u32, file: &NewAttachment) -> Attachment;
                write "adopting a quoted file"
                    fn adopt_file(lease: &Lease, message: InboxId, index: u32) -> Option<Attachment>;
                write "recording a refused file"
                    fn refuse_file(lease: &Lease, message: InboxId, index: u32, refused: &RefusedFile) -> ();
                write "recording a transcription"
                    fn record_transcription(lease: &Lease, message: InboxId, index: u32, transcription: &Transcription) -> ();
                write "journalling a message"
                    fn journal_message(lease: &Lease, turn: TurnId, entry: &JournalEntry) -> ();
                write "journalling a decision"
                    fn journal_decision(lease: &Lease, decision: &CallDecision) -> ();
                write "journalling an outcome"
                    fn journal_outcome(lease: &Lease, turn: TurnId, ordinal: u32, outcome: &ToolOutcome, changes: &[FileChange]) -> RecordedOutcome;
                write "registering files"
                    fn register_files(turn: TurnId, files: &[NewAttachment]) -> Vec<Attachment>;
                write "completing a turn"
                    fn complete_turn(lease: &Lease, completed: &CompletedTurn) -> Option<Part>;
            }
            Outbox {
                custom fn open_draft(lease: &Lease, turn: TurnId, reply_to: Option<MessageRef>) -> Option<Part>;
                read "reading the next part"
                    fn next_part(lease: &Lease) -> Option<Part>;
                write "saving a part"
                    fn save_part(lease: &Lease, part: &Part) -> ();
                write "settling a part"
                    fn settle_part(lease: &Lease, settlement: &Settlement) -> SettleOutcome;
                write "discarding a part"
                    fn discard_part(part: PartId) -> ();
                read "reading the message before a part"
                    fn last_sent_before(part: PartId) -> Option<MessageRef>;
                read "reading the messages around a part"
                    fn list_recorded_messages(conversation: &ConversationId, part: PartId) -> RecordedMessages;
                write "opening a question"
                    fn open_question(lease: &Lease, question: &NewQuestion) -> Part;
                write "closing a question"
                    fn close_question(lease: &Lease, call: CallId, text: &str) -> ();
                custom fn load_question_key() -> QuestionKey;
            }
            Pairings {
                custom fn issue_pairing_code(stranger: &PairingRequest, rules: &PairingRules) -> Option<IssuedCode>;
                write "deciding a pairing code"
                    fn decide_pairing(decision: &PairingDecision, rules: &PairingRules) -> PairingOutcome;
                read "listing pairing codes"
                    fn list_pairings() -> Vec<Pairing>;
                read "checking an approval"
                    fn is_approved(channel: &ChannelName, id: &str) -> bool;
                read "listing approved people"
                    fn list_people() -> Vec<Person>;
                write "revoking an approval"
                    fn revoke_person(channel: &ChannelName, id: &str) -> bool;
            }
            Archive {
                read "checking the database"
                    fn ping() -> ();
                read "counting the processes"
                    fn count_processes() -> usize;
                read "counting undecodable updates"
                    fn count_undecodable() -> Vec<UndecodableCount>;
                read "reading a turn"
                    fn turn(turn: TurnId) -> Option<TurnRecord>;
                read "reading turns"
                    fn turns(query: &TurnQuery) -> Vec<TurnRecord>;
                read "looking for earlier turns"
                    fn has_earlier_work(turn: TurnId) -> bool;
                read "listing queued notifications"
                    fn list_queued_notifications(conversation: Option<ConversationId>) -> Vec<TurnRecord>;
                read "reading the history"
                    fn history(conversation: &ConversationId, limit: u32) -> Vec<HistoryMessage>;
                read "reading a file's record"
                    fn attachment(conversation: &ConversationId, key: AttachmentKey) -> Option<Attachment>;
                read "reading files' records"
                    fn attachments(query: &AttachmentQuery) -> Vec<Attachment>;
                read "counting files"
                    fn count_attachments(query: &AttachmentQuery) -> u64;
                read "reading the outbox"
                    fn parts(query: &OutboxQuery) -> Vec<Part>;
            }
            Conversations {
                read "listing the conversations"
                    fn list_conversations(query: &ConversationQuery) -> Vec<ConversationSummary>;
                read "reading a conversation"
                    fn find_conversation(conversation: &ConversationId) -> Option<ConversationSummary>;
                write "changing how a conversation is listed"
                    fn change_listing(conversation: &ConversationId, changes: &[ListingChange]) -> bool;
                custom fn search_conversations(search: &ConversationSearch) -> SearchResults;
                write "indexing turns"
                    fn index_turns(limit: u32) -> u64;
                write "retrying a turn"
                    fn retry_turn(retry: &TurnRetry) -> RetryOutcome;
                write "forgetting a conversation"
                    fn forget_conversation(conversation: &ConversationId) -> ForgetConversationOutcome;
                read "listing forgotten workspaces"
                    fn list_forgotten_workspaces() -> Vec<ConversationId>;
                write "recording that a workspace is removed"
                    fn record_workspace_removed(conversation: &ConversationId) -> ();
            }
            Reminders {
                write "creating a reminder"
                    fn create_reminder(reminder: &NewReminder, limits: &ReminderLimits) -> CreateReminderOutcome;
                read "listing reminders"
                    fn list_reminders(query: &ReminderQuery) -> Vec<Reminder>;
                write "cancelling a reminder"
                    fn cancel_reminder(reminder: ReminderId, scope: &ReminderScope, turn: TurnId) -> Option<Reminder>;
                write "advancing a reminder"
                    fn advance_reminder(reminder: ReminderId, due: Timestamp, next: Option<Timestamp>) -> ();
                read "listing people with reminders"
                    fn list_reminder_people(channels: &[ChannelName]) -> Vec<ReminderPerson>;
                write "ending reminders"
                    fn end_reminders(scope: &ReminderScope) -> u64;
                read "loading a time zone"
                    fn load_timezone(person: &PersonKey) -> Option<String>;
                write "saving a time zone"
                    fn save_timezone(person: &PersonKey, timezone: Option<String>) -> ();
            }
            Storage {
                read "reading which conversations are active"
                    fn active_conversations(since: Timestamp) -> Vec<ConversationId>;
                read "reading storage usage"
                    fn usages(query: &UsageQuery) -> Vec<Usage>;
                write "reserving workspace bytes"
                    fn reserve_workspace(conversation: &ConversationId, bytes: u64) -> ();
                write "recording a workspace's size"
                    fn record_workspace(conversation: &ConversationId, bytes: u64) -> ();
                write "revoking the links to a file"
                    fn revoke_links(attachment: AttachmentId) -> Option<LinkRevocation>;
                write "forgetting a file"
                    fn forget_file(forget: &ForgetRequest) -> ForgetOutcome;
                read "reading the audit log"
                    fn audit(query: &AuditQuery) -> Vec<AuditRecord>;
                write "pruning the audit log"
                    fn prune_audit(before: Timestamp) -> u64;
                read "finding unreferenced blobs"
                    fn find_unreferenced(blobs: &[Sha256]) -> Vec<Sha256>;
            }
            Logins {
                write "storing a login"
                    fn create_login(login: &NewLogin, max_logins: u32) -> PageLogin;
                read "checking a login"
                    fn find_login(login: LoginId) -> Option<PageLogin>;
                write "recording the use of a login"
                    fn touch_login(login: LoginId) -> bool;
                read "listing the logins"
                    fn list_logins() -> Vec<PageLogin>;
                write "ending a login"
                    fn end_login(login: LoginId) -> bool;
                write "ending logins"
                    fn end_logins(issuer: Option<String>) -> u64;
            }
        }
    };
}

//! The promises of the `Ledger` port, one function each.
//!
//! Each names the mutation that it catches: the change to an adapter that would break the promise unseen.

pub mod agents;
pub mod audit;
pub mod files;
pub mod inbox;
pub mod lane_cache;
pub mod lanes;
pub mod messages;
pub mod parts;
pub mod people;
pub mod rename;
pub mod streams;
pub mod turns;
pub mod usage;
pub mod voice;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use satchel_domain::{
    Attachment, AttachmentId, AttachmentSource, ConversationId, Ending, FileReference, Filename, HistoryMessage,
    InboundMessage, MediaInfo, MessageOrigin, MessageRef, OutgoingResponse, Part, PartContent, PartState, Sender,
    Sha256, Timestamp, TurnId, Visibility,
    delivery::DeliveryRules,
    part::{FileForm, FileItem, Plan, PlannedPart},
};
use satchel_ports::{
    Clock,
    ledger::{ClaimMode, CompletedTurn, HistoryChange, Lease, Ledger, LedgerError, SettleOutcome, Settlement},
};
use uuid::Uuid;

/// A store and the ways into it.
#[async_trait]
pub trait LedgerFixture: Send + Sync {
    /// Opens the store as one more process; dropping the ledger is the end of that process, without a farewell.
    async fn open(&self) -> Arc<dyn Ledger>;

    /// Opens the store as one more process with quotas, in bytes, that bind everybody but the sender `owner`.
    async fn open_with_quotas(&self, conversation: u64, person: u64) -> Arc<dyn Ledger>;

    /// The clock of all these processes.
    fn clock(&self) -> Arc<dyn Clock>;

    /// How long its leases live; short, for some promises wait for it.
    fn lease(&self) -> Duration;
}

/// Makes a test of each promise. The fixture is built anew for each.
#[macro_export]
macro_rules! ledger_contract {
    ($fixture:expr) => {
        $crate::ledger_contract! { @each $fixture;
            agents::chosen_agent_is_per_conversation
            agents::cached_turn_has_chosen_agent
            agents::renamed_conversation_keeps_its_agent
            audit::changes_are_committed_with_their_outcome
            audit::completed_turn_commits_remaining_changes
            audit::audit_is_filtered_and_limited
            audit::audit_is_pruned_by_age
            audit::renamed_conversation_keeps_its_audit
            inbox::key_is_stored_once_per_channel
            inbox::edit_replaces_queued_message
            inbox::edit_of_running_message_is_new_message
            inbox::edit_after_journalling_is_own_turn
            inbox::edit_of_unknown_message_is_stored
            inbox::repeated_edit_is_deduplicated
            inbox::album_is_one_debounced_turn
            inbox::started_album_accepts_no_more_items
            inbox::queued_messages_are_steered_once_in_order
            inbox::late_edit_is_not_consumed
            lanes::lane_has_one_holder_and_rising_tokens
            lanes::renewed_lease_is_kept
            lanes::dead_holders_lane_is_claimable
            lanes::expired_lease_is_fenced
            lanes::unreleased_lane_counts_a_crash
            lanes::receive_claims_dead_holders_lane
            lanes::receive_keeps_own_leases
            lanes::claim_filters_by_channel_and_work
            lanes::only_idle_lane_is_released
            lanes::renewal_with_old_token_is_lost
            lanes::stale_release_frees_no_lane
            turns::turns_are_fifo_until_completed
            turns::committed_data_survives_crash
            turns::journal_is_ordered
            turns::complete_turn_is_atomic_and_once
            turns::steering_messages_are_consumed
            turns::history_survives_until_reset
            turns::failures_are_reported_once
            lane_cache::cached_turn_equals_stored_turn
            lane_cache::cached_turn_keeps_queue_order
            lane_cache::cached_history_equals_stored_history
            lane_cache::writes_check_lease_in_transaction
            files::numbers_count_from_one_in_each_conversation
            files::foreign_file_is_unknown
            files::call_attachment_survives_crash
            files::files_keep_their_position
            files::response_and_parts_have_file_numbers
            files::referenced_blobs_are_not_collected
            files::queued_message_keeps_its_blobs
            usage::file_beyond_quota_is_refused
            usage::person_quota_spans_conversations
            usage::owners_and_system_tasks_have_no_person_quota
            usage::completed_turn_ignores_quotas
            usage::workspace_counts_for_quotas
            usage::forgotten_file_leaves_every_row
            usage::needed_file_is_not_forgotten
            usage::only_its_person_forgets_a_file
            usage::renamed_conversation_keeps_its_usage
            turns::turn_record_is_complete
            turns::turns_and_conversations_are_paged
            turns::conversations_with_recent_turns_are_active
            turns::stop_is_found_behind_many_messages
            people::channel_keeps_latest_checkpoint
            people::undecodable_update_is_stored_once_and_counted
            people::newest_undecodable_updates_are_retained
            people::approval_allows_and_notifies_person
            people::code_is_scoped_to_decider
            people::code_is_single_use
            people::code_expires
            people::invalid_codes_lock_out_sender
            people::codes_are_listed_by_request_time
            people::open_codes_are_limited
            people::refusal_blocks_new_codes
            people::album_has_one_sender
            messages::own_messages_of_chat_are_listed
            messages::other_doubt_in_chat_is_reported
            messages::question_is_in_doubt_until_settled
            messages::renamed_conversation_lists_no_old_messages
            rename::renamed_conversation_keeps_its_data
            rename::rename_onto_existing_is_conflict
            rename::rename_clears_pending_message_refs
            voice::transcripts_keep_their_position
            voice::voice_setting_is_per_conversation
            parts::first_part_starts_with_turn
            parts::unready_part_is_not_started
            parts::refused_part_is_failed
            parts::settle_starts_next_part_or_releases
            parts::part_settles_once
            parts::children_keep_parents_position
            parts::response_has_one_closing_notice
            parts::extended_notice_restarts_its_deadline
            parts::waiting_part_respects_retry_at
            parts::discard_fails_unsent_part
            parts::previous_message_is_found
            streams::stream_starts_only_when_settled
            streams::first_part_edits_streamed_message
            streams::streamed_message_stays_in_doubt
            streams::lost_streamed_message_is_resent
        }
    };
    (@each $fixture:expr; $($module:ident::$promise:ident)*) => {
        $(
            #[::tokio::test]
            async fn $promise() {
                $crate::ledger::$module::$promise(&$fixture).await;
            }
        )*
    };
}

pub(crate) const CONVERSATION: &str = "console:main";

pub(crate) fn conversation(text: &str) -> ConversationId {
    text.parse().unwrap()
}

pub(crate) fn message(key: &str, text: &str) -> InboundMessage {
    InboundMessage {
        text: text.to_owned(),
        message: Some(MessageRef(format!("m-{key}"))),
        raw: serde_json::json!({ "update": key }),
        ..InboundMessage::new(conversation(CONVERSATION), key.to_owned(), Sender::new("7", "Ada"))
    }
}

pub(crate) fn with_files(message: InboundMessage, names: &[&str]) -> InboundMessage {
    let reference = |name: &&str| FileReference {
        bytes: Some(3),
        ..FileReference::new(format!("id-of-{name}"), Filename::from_untrusted(name))
    };
    InboundMessage { files: names.iter().map(reference).collect(), ..message }
}

pub(crate) fn attachment(conversation: &ConversationId, name: &str) -> Attachment {
    let id = Uuid::now_v7();
    let mut sha256 = [0; 32];
    sha256[..16].copy_from_slice(id.as_bytes());
    Attachment {
        id: AttachmentId(id),
        number: 0,
        conversation: conversation.clone(),
        source: AttachmentSource::Tool,
        filename: Filename::from_untrusted(name),
        mime: "text/plain".into(),
        bytes: 3,
        sha256: Sha256(sha256),
        media: MediaInfo::default(),
        description: String::new(),
        created_at: Timestamp(1_700_000_000_000),
        visibility: Visibility::Deliver,
    }
}

pub(crate) fn file_part(attachment: &Attachment) -> PlannedPart {
    let item = FileItem { attachment: attachment.clone(), form: FileForm::Document, caption: String::new() };
    PlannedPart::new(PartContent::File(item))
}

pub(crate) fn text_parts(texts: &[&str]) -> Vec<PlannedPart> {
    texts.iter().map(|text| PlannedPart::new(PartContent::from_text(*text))).collect()
}

pub(crate) fn completed_turn(turn: TurnId, parts: Vec<PlannedPart>) -> CompletedTurn {
    CompletedTurn {
        turn,
        ending: Ending::Done,
        response: OutgoingResponse::from_text("reply"),
        plan: Plan { parts },
        history: HistoryChange::Append(vec![
            HistoryMessage::Person {
                text: "question".into(),
                attachments: Vec::new(),
                refused: Vec::new(),
                origin: Some(MessageOrigin { sent_at: Timestamp(5), sender: Some(Sender::new("7", "Ada")) }),
            },
            HistoryMessage::Model { text: "reply".into(), calls: Vec::new() },
        ]),
        steered: Vec::new(),
        reported_failures: Vec::new(),
        reply_to: Some(MessageRef("m-1".into())),
        changes: Vec::new(),
    }
}

/// Receives a message of its own turn and claims its lane.
pub(crate) async fn receive(ledger: &Arc<dyn Ledger>, message: &InboundMessage) -> (Lease, TurnId) {
    let received = ledger.receive(message, ClaimMode::IfFree).await.unwrap();
    (received.lease.expect("the lane was free"), received.turn)
}

pub(crate) fn sent_settlement(part: &Part, id: &str) -> Settlement {
    let state = PartState::Sent { messages: vec![MessageRef(id.to_owned())] };
    settlement(Part { state, ..part.clone() })
}

pub(crate) fn settlement(part: Part) -> Settlement {
    Settlement { part, children: Vec::new(), notice: None, rules: DeliveryRules::default() }
}

pub(crate) async fn settle(ledger: &Arc<dyn Ledger>, lease: &Lease, settlement: &Settlement) -> SettleOutcome {
    ledger.settle_part(lease, settlement).await.unwrap()
}

pub(crate) fn part_text(part: &Part) -> &str {
    match &part.content {
        PartContent::Text { text, .. } | PartContent::Notice { text } | PartContent::Question { text, .. } => text,
        other => panic!("not a text: {other:?}"),
    }
}

pub(crate) fn assert_lost<T: std::fmt::Debug>(result: Result<T, LedgerError>, verb: &str) {
    assert!(matches!(result, Err(LedgerError::LeaseLost(_))), "{verb}: {result:?}");
}

#[cfg(test)]
mod tests {
    /// A promise that the macro does not list is never tested.
    #[test]
    fn every_promise_is_in_the_macro() {
        let list = include_str!("ledger.rs");
        for (module, source) in [
            ("agents", include_str!("ledger/agents.rs")),
            ("files", include_str!("ledger/files.rs")),
            ("inbox", include_str!("ledger/inbox.rs")),
            ("lane_cache", include_str!("ledger/lane_cache.rs")),
            ("lanes", include_str!("ledger/lanes.rs")),
            ("messages", include_str!("ledger/messages.rs")),
            ("parts", include_str!("ledger/parts.rs")),
            ("people", include_str!("ledger/people.rs")),
            ("rename", include_str!("ledger/rename.rs")),
            ("streams", include_str!("ledger/streams.rs")),
            ("turns", include_str!("ledger/turns.rs")),
            ("usage", include_str!("ledger/usage.rs")),
            ("voice", include_str!("ledger/voice.rs")),
        ] {
            for line in source.lines() {
                let Some(name) = line.strip_prefix("pub async fn ") else { continue };
                let name = name.split(['(', '<']).next().unwrap_or_default();
                let entry = format!("            {module}::{name}\n");
                assert!(list.contains(&entry), "{module}::{name} is not in ledger_contract!");
            }
        }
    }
}

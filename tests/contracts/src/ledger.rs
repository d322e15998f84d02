//! The promises of the `Ledger` port, one function each.
//!
//! Each names the mutation that it catches: the change to an adapter that would break the promise unseen.

pub mod files;
pub mod inbox;
pub mod known;
pub mod lanes;
pub mod messages;
pub mod parts;
pub mod people;
pub mod renaming;
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
use satchel_ports::ledger::{
    ClaimMode, CompletedTurn, HistoryChange, Lease, Ledger, LedgerError, SettleOutcome, Settlement,
};

/// A store and the ways into it.
#[async_trait]
pub trait LedgerFixture: Send + Sync {
    /// Opens the store as one more process; dropping the ledger is the end of that process, without a farewell.
    async fn open(&self) -> Arc<dyn Ledger>;

    /// Opens the store as one more process with quotas, in bytes, that bind everybody but the sender `owner`.
    async fn open_with_quotas(&self, conversation: u64, person: u64) -> Arc<dyn Ledger>;

    /// How long its leases live; short, for some promises wait for it.
    fn lease(&self) -> Duration;
}

/// Makes a test of each promise. The fixture is built anew for each.
#[macro_export]
macro_rules! ledger_contract {
    ($fixture:expr) => {
        $crate::ledger_contract! { @each $fixture;
            inbox::a_key_is_stored_once_per_channel
            inbox::an_edit_replaces_a_message_that_nobody_has_taken_up
            inbox::an_edit_of_a_message_in_work_is_a_message_of_its_own
            inbox::an_edit_after_journalling_is_its_own_turn
            inbox::an_edit_stands_for_a_message_that_was_never_heard_of
            inbox::an_edit_and_its_repeat_are_one
            inbox::an_album_is_one_turn_and_waits_for_quiet
            inbox::an_album_that_has_begun_takes_no_more
            inbox::what_waits_behind_a_turn_is_in_order_and_steered_once
            inbox::an_edit_is_not_consumed_with_the_words_that_it_replaced
            lanes::a_lane_has_one_owner_and_growing_tokens
            lanes::a_living_owner_that_renews_keeps_its_lane
            lanes::a_lane_of_a_dead_owner_is_free_at_once
            lanes::an_expired_lease_can_be_taken_and_fences_its_owner
            lanes::a_lane_taken_unreleased_costs_a_crash
            lanes::receive_may_claim_what_a_dead_owner_held
            lanes::receive_takes_no_lane_from_its_own_process
            lanes::only_lanes_with_work_of_named_channels_are_taken
            lanes::an_idle_lane_is_released_and_a_busy_one_kept
            lanes::a_renewal_with_an_old_token_is_lost
            lanes::a_stale_release_frees_no_held_lane
            turns::turns_come_in_order_and_stay_until_complete
            turns::what_is_committed_survives_the_process
            turns::the_journal_comes_back_in_order
            turns::complete_turn_is_all_or_nothing_and_once
            turns::steered_messages_are_consumed_with_the_turn
            turns::history_is_kept_and_begins_anew
            turns::failures_are_told_to_the_model_once
            known::a_turn_that_is_remembered_is_the_one_that_is_stored
            known::a_remembered_turn_takes_no_other_ones_place
            known::a_remembered_history_is_what_every_process_reads
            known::what_others_have_done_counts_for_every_write
            files::numbers_count_from_one_in_each_conversation
            files::a_foreign_file_is_unknown
            files::what_a_running_call_made_outlives_it
            files::stored_and_refused_files_come_back_in_place
            files::response_and_parts_carry_the_numbers
            files::only_what_no_row_names_is_unreferenced
            files::what_a_waiting_message_brings_is_kept
            files::ids_sort_in_the_order_in_which_they_were_made
            usage::file_beyond_quota_is_refused
            usage::person_quota_spans_conversations
            usage::owners_and_errands_have_no_person_quota
            usage::completed_turn_ignores_quotas
            usage::workspace_counts_for_quotas
            usage::forgotten_file_leaves_every_row
            usage::needed_file_is_not_forgotten
            usage::only_its_person_forgets_a_file
            usage::renamed_conversation_keeps_its_usage
            turns::a_record_shows_what_was_said_in_the_turn
            turns::turns_are_paged_and_conversations_listed
            turns::conversations_with_recent_turns_are_active
            turns::a_command_is_seen_behind_a_flood
            people::a_channel_has_one_bookmark_the_last_one
            people::an_update_that_can_not_be_read_is_kept_once_and_counted
            people::of_updates_that_can_not_be_read_the_newest_are_kept
            people::an_approved_code_lets_its_person_in_and_tells_them
            people::a_code_counts_only_where_its_judge_decides
            people::a_code_is_used_once
            people::a_code_ends
            people::whoever_says_too_many_wrong_codes_is_locked_out
            people::codes_are_listed_in_the_order_they_were_asked_for
            people::a_flood_of_strangers_gets_few_codes
            people::whoever_was_refused_gets_no_code_for_a_while
            people::an_album_holds_one_persons_messages
            messages::own_messages_of_chat_are_listed
            messages::another_doubt_in_the_chat_is_told
            messages::question_is_in_doubt_until_settled
            messages::renamed_conversation_lists_no_old_messages
            renaming::a_renamed_conversation_keeps_all_that_it_has
            renaming::a_conversation_is_not_renamed_over_another
            renaming::what_is_under_way_forgets_the_messages_of_the_old_name
            voice::the_words_of_voice_notes_come_back_in_place
            voice::whether_replies_are_spoken_is_kept_for_each_conversation
            parts::the_first_part_is_begun_with_the_turn
            parts::a_part_that_must_be_prepared_or_wait_is_not_begun
            parts::a_refused_part_is_stored_as_failed
            parts::settling_begins_the_next_in_lane_order_and_releases_at_the_end
            parts::a_part_is_settled_once
            parts::children_take_their_parents_place
            parts::a_response_has_one_closing_notice_at_its_end
            parts::a_planned_notice_that_has_more_to_tell_may_wait_anew
            parts::a_waiting_part_is_not_begun_before_its_time
            parts::a_discarded_part_is_failed_unless_it_is_being_sent
            parts::the_message_before_a_part_is_found
            streams::a_stream_begins_only_when_nothing_is_unsettled
            streams::the_first_part_edits_what_was_streamed
            streams::a_streamed_message_in_doubt_stays_in_doubt
            streams::a_streamed_message_that_did_not_arrive_is_sent_anew
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

pub(crate) fn attachment(ledger: &Arc<dyn Ledger>, conversation: &ConversationId, name: &str) -> Attachment {
    let id = ledger.new_id();
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
        created_at: ledger.now(),
        visibility: Visibility::Deliver,
    }
}

pub(crate) fn file_part(attachment: &Attachment) -> PlannedPart {
    let item = FileItem { attachment: attachment.clone(), form: FileForm::Document, caption: String::new() };
    PlannedPart::new(PartContent::File(item))
}

pub(crate) fn texts(texts: &[&str]) -> Vec<PlannedPart> {
    texts.iter().map(|text| PlannedPart::new(PartContent::from_text(*text))).collect()
}

pub(crate) fn completed(turn: TurnId, parts: Vec<PlannedPart>) -> CompletedTurn {
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
    }
}

/// Receives a message of its own turn and claims its lane.
pub(crate) async fn receive(ledger: &Arc<dyn Ledger>, message: &InboundMessage) -> (Lease, TurnId) {
    let received = ledger.receive(message, ClaimMode::IfFree).await.unwrap();
    (received.lease.expect("the lane was free"), received.turn)
}

pub(crate) fn sent(part: &Part, id: &str) -> Settlement {
    let state = PartState::Sent { messages: vec![MessageRef(id.to_owned())] };
    settlement(Part { state, ..part.clone() })
}

pub(crate) fn settlement(part: Part) -> Settlement {
    Settlement { part, children: Vec::new(), notice: None, rules: DeliveryRules::default() }
}

pub(crate) async fn settle(ledger: &Arc<dyn Ledger>, lease: &Lease, settlement: &Settlement) -> SettleOutcome {
    ledger.settle_part(lease, settlement).await.unwrap()
}

pub(crate) fn text_of(part: &Part) -> &str {
    match &part.content {
        PartContent::Text { text, .. } | PartContent::Notice { text } | PartContent::Question { text, .. } => text,
        other => panic!("not a text: {other:?}"),
    }
}

pub(crate) fn assert_lost<T: std::fmt::Debug>(result: Result<T, LedgerError>, what: &str) {
    assert!(matches!(result, Err(LedgerError::LeaseLost(_))), "{what}: {result:?}");
}

#[cfg(test)]
mod tests {
    /// A promise that stands in no list is kept by nobody.
    #[test]
    fn every_promise_is_in_the_macro() {
        let list = include_str!("ledger.rs");
        for (module, source) in [
            ("files", include_str!("ledger/files.rs")),
            ("inbox", include_str!("ledger/inbox.rs")),
            ("known", include_str!("ledger/known.rs")),
            ("lanes", include_str!("ledger/lanes.rs")),
            ("messages", include_str!("ledger/messages.rs")),
            ("parts", include_str!("ledger/parts.rs")),
            ("people", include_str!("ledger/people.rs")),
            ("renaming", include_str!("ledger/renaming.rs")),
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

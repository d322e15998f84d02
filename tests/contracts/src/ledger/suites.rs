//! The suites: which promises belong to which port of the ledger.

/// Makes a test of each promise of all ports of the ledger. The fixture is built anew for each; `None` is one that lacks
/// what it needs.
#[macro_export]
macro_rules! ledger_contract {
    ($fixture:expr) => {
        $crate::inbox_contract!($fixture);
        $crate::gateways_contract!($fixture);
        $crate::leases_contract!($fixture);
        $crate::turns_contract!($fixture);
        $crate::outbox_contract!($fixture);
        $crate::pairings_contract!($fixture);
        $crate::archive_contract!($fixture);
        $crate::conversations_contract!($fixture);
        $crate::reminders_contract!($fixture);
        $crate::storage_contract!($fixture);
        $crate::logins_contract!($fixture);
        $crate::ledger_contract! { @each $fixture;
            cross_port::commits_are_seen_through_every_port
        }
    };
    (@each $fixture:expr; $($module:ident::$promise:ident)*) => {
        $(
            #[::tokio::test]
            async fn $promise() {
                let Some(fixture) = $fixture else { return };
                $crate::ledger::$module::$promise(&fixture).await;
            }
        )*
    };
}

/// Makes a test of each promise of the port `Inbox`.
#[macro_export]
macro_rules! inbox_contract {
    ($fixture:expr) => {
        $crate::ledger_contract! { @each $fixture;
            inbox::key_is_stored_once_per_channel
            inbox::conversation_is_opened_once
            inbox::unreadable_content_is_refused_at_once
            inbox::edit_replaces_queued_message
            inbox::edit_of_running_message_is_new_message
            inbox::late_edit_names_what_it_corrects
            inbox::edit_names_the_commands_before_it
            inbox::edit_without_change_is_a_duplicate
            inbox::edit_with_the_same_digest_is_a_duplicate
            inbox::edit_after_journalling_is_own_turn
            inbox::edit_of_unknown_message_is_stored
            inbox::repeated_edit_is_deduplicated
            inbox::album_is_one_debounced_turn
            inbox::started_album_accepts_no_more_items
            inbox::queued_messages_are_steered_once_in_order
            inbox::late_edit_is_not_consumed
            inbox::edit_during_the_last_step_is_a_correction
            inbox::edit_of_a_message_that_is_being_injected_is_a_correction
            inbox::edit_of_an_injected_edit_names_the_commands_before_it
            people::channel_keeps_latest_checkpoint
            people::undecodable_update_is_stored_once_and_counted
            people::newest_undecodable_updates_are_retained
            people::album_has_one_sender
            rename::renamed_conversation_keeps_its_data
            rename::rename_onto_existing_is_conflict
            rename::rename_clears_pending_message_refs
            messages::renamed_conversation_lists_no_old_messages
            settings::renamed_conversation_keeps_its_settings
            audit::renamed_conversation_keeps_its_audit
            usage::renamed_conversation_keeps_its_usage
        }
    };
}

/// Makes a test of each promise of the port `Gateways`.
#[macro_export]
macro_rules! gateways_contract {
    ($fixture:expr) => {
        $crate::ledger_contract! { @each $fixture;
            gateways::gateway_has_one_holder_and_rising_tokens
            gateways::dead_holders_gateway_is_claimable
            gateways::renewal_reports_a_lost_gateway
            gateways::gateway_is_held_until_it_can_be_claimed
        }
    };
}

/// Makes a test of each promise of the port `Leases`.
#[macro_export]
macro_rules! leases_contract {
    ($fixture:expr) => {
        $crate::ledger_contract! { @each $fixture;
            lanes::lane_has_one_holder_and_rising_tokens
            lanes::claim_finds_only_work_of_its_filter
            lanes::claim_for_old_deliveries_goes_by_the_next_part
            lanes::claim_for_old_deliveries_passes_over_untried_notices
            lanes::longest_wait_is_that_of_unclaimed_turns
            lanes::handed_over_lane_is_free_and_nothing_is_started
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
            claimed_turns::receive_hands_over_next_turn
            claimed_turns::claim_lane_hands_over_next_turn
            claimed_turns::crashed_turn_is_handed_over_with_journal
            claimed_turns::unready_album_is_not_handed_over
            claimed_turns::album_of_dead_holder_waits_for_its_rest
            claimed_turns::claim_reports_unsettled_parts
            claimed_turns::handed_over_turn_keeps_queue_order
            claimed_turns::handed_over_turn_is_never_changed
        }
    };
}

/// Makes a test of each promise of the port `Turns`.
#[macro_export]
macro_rules! turns_contract {
    ($fixture:expr) => {
        $crate::ledger_contract! { @each $fixture;
            settings::chosen_agent_is_per_conversation
            settings::each_setting_changes_itself_alone
            settings::setting_is_stored_with_its_turn
            settings::handed_over_turn_has_chosen_agent
            audit::changes_are_committed_with_their_outcome
            audit::completed_turn_commits_remaining_changes
            turns::turns_are_fifo_until_completed
            joins::joined_turns_are_one
            joins::joined_turns_survive_crash
            joins::started_turn_is_not_joined
            joins::joined_album_accepts_its_rest
            turns::committed_data_survives_crash
            turns::journal_is_ordered
            turns::complete_turn_is_atomic_and_once
            turns::steering_messages_are_consumed
            turns::history_survives_until_reset
            turns::notification_in_history_says_what_became_of_it
            turns::failure_says_whether_its_notice_arrived
            notices::failure_says_whether_text_arrived
            turns::failures_are_reported_once
            turns::stop_is_found_behind_many_messages
            processes::history_is_the_same_in_every_process
            processes::writes_check_lease_in_transaction
            files::numbers_count_from_one_in_each_conversation
            files::call_attachment_survives_crash
            files::files_keep_their_position
            files::quoted_file_is_the_stored_one
            files::edit_brings_back_no_forgotten_file
            files::forgotten_file_is_known_by_its_name_in_edits
            files::edit_in_the_place_of_a_message_keeps_its_stored_files
            files::files_are_read_as_they_were_named
            voice::transcripts_keep_their_position
            settings::voice_setting_is_per_conversation
            parts::first_part_starts_with_turn
            parts::unready_part_is_not_started
            parts::refused_part_is_failed
        }
    };
}

/// Makes a test of each promise of the port `Outbox`.
#[macro_export]
macro_rules! outbox_contract {
    ($fixture:expr) => {
        $crate::ledger_contract! { @each $fixture;
            parts::settle_starts_next_part_or_releases
            parts::part_settles_once
            parts::children_keep_parents_position
            parts::response_has_one_closing_notice
            parts::extended_notice_restarts_its_deadline
            notices::failed_notices_follow_the_next_reply_that_arrives
            notices::repeated_notice_that_fails_is_repeated_again
            notices::notices_are_repeated_behind_what_arrives_alone
            parts::waiting_part_respects_retry_at
            parts::discard_fails_unsent_part
            parts::previous_message_is_found
            parts::parts_with_a_file_are_found
            drafts::draft_opens_only_when_settled
            drafts::first_part_edits_draft
            drafts::draft_in_doubt_stays_in_doubt
            drafts::lost_draft_is_sent_anew
            drafts::draft_without_text_is_deleted
            drafts::failed_deletion_is_not_reported
            questions::started_part_precedes_closing_edit
            questions::question_is_asked_once
            questions::failed_question_is_asked_again
            questions::question_key_is_the_same_in_every_process
            questions::decision_closes_its_question
            questions::question_under_way_is_closed_once_open
            questions::closed_question_is_not_replaced
            questions::every_piece_of_a_question_is_closed
            questions::closed_question_is_returned_closed
            questions::closing_edit_has_its_own_age
            questions::outcome_closes_questions_of_its_call
            questions::end_of_turn_closes_its_questions
            questions::parts_stand_behind_closed_questions
            questions::renamed_conversation_asks_again
            questions::answer_takes_buttons_of_reply_away
            messages::own_messages_of_chat_are_listed
            messages::messages_before_part_are_those_stored_before
            messages::other_doubt_in_chat_is_reported
            messages::question_is_in_doubt_until_open
        }
    };
}

/// Makes a test of each promise of the port `Pairings`.
#[macro_export]
macro_rules! pairings_contract {
    ($fixture:expr) => {
        $crate::ledger_contract! { @each $fixture;
            people::approval_allows_and_notifies_person
            people::code_is_scoped_to_decider
            people::code_is_single_use
            people::code_expires
            people::invalid_codes_lock_out_sender
            people::codes_are_listed_by_request_time
            people::open_codes_are_limited
            people::refusal_blocks_new_codes
            people::offers_of_code_are_counted
            people::decision_closes_requests
        }
    };
}

/// Makes a test of each promise of the port `Archive`.
#[macro_export]
macro_rules! archive_contract {
    ($fixture:expr) => {
        $crate::ledger_contract! { @each $fixture;
            turns::turn_record_is_complete
            turns::calls_of_a_turn_have_their_outcomes
            turns::waiting_is_not_counted_as_a_calls_time
            turns::turns_are_paged
            turns::queued_notifications_are_listed_until_completed
            files::files_are_filtered
            files::foreign_file_is_unknown
            processes::open_processes_are_counted
        }
    };
}

/// Makes a test of each promise of the port `Conversations`.
#[macro_export]
macro_rules! conversations_contract {
    ($fixture:expr) => {
        $crate::ledger_contract! { @each $fixture;
            conversations::conversations_are_listed_by_last_use
            conversations::chosen_model_is_listed
            conversations::conversations_are_named_pinned_and_archived
            conversations::words_are_found_where_they_were_said
            conversations::files_are_found_until_they_are_forgotten
            conversations::search_stays_within_its_conversation
            conversations::search_finds_no_answer_to_a_command
            conversations::turns_are_indexed_step_by_step
            conversations::forgotten_conversation_leaves_only_keys
            conversations::turn_forgets_what_came_before_it
            conversations::turn_forgets_nothing_that_still_waits
            conversations::edit_of_a_forgotten_message_brings_nothing_back
            conversations::forgetting_keeps_what_owners_set
            conversations::busy_conversation_is_not_forgotten
            conversations::forgotten_conversation_frees_quota
            conversations::renamed_conversation_keeps_its_listing
            retries::last_turn_is_answered_once_more
            retries::retried_turn_takes_all_its_messages
            retries::excluded_messages_are_not_answered_once_more
            retries::only_last_answered_turn_is_retried
            retries::forgotten_file_leaves_copies_of_a_retry
        }
    };
}

/// Makes a test of each promise of the port `Reminders`.
#[macro_export]
macro_rules! reminders_contract {
    ($fixture:expr) => {
        $crate::ledger_contract! { @each $fixture;
            reminders::reminder_is_stored_once_for_its_key
            reminders::person_has_limited_reminders
            reminders::models_of_a_turn_make_few_reminders
            reminders::reminder_advances_from_its_time_only
            reminders::reminders_are_listed_and_cancelled_in_scope
            reminders::cancelled_reminders_are_listed_for_their_turn
            reminders::people_with_reminders_are_listed_and_ended
            reminders::reminders_follow_their_conversation
            reminders::timezone_is_kept_for_each_person
            reminders::messages_are_read_with_their_senders_timezone
        }
    };
}

/// Makes a test of each promise of the port `Storage`.
#[macro_export]
macro_rules! storage_contract {
    ($fixture:expr) => {
        $crate::ledger_contract! { @each $fixture;
            audit::audit_is_filtered_and_limited
            audit::audit_is_pruned_by_age
            files::referenced_blobs_are_not_collected
            files::queued_message_keeps_its_blobs
            usage::file_beyond_quota_is_refused
            usage::person_quota_spans_conversations
            usage::owners_and_system_tasks_have_no_person_quota
            usage::calls_count_for_last_sender
            usage::completed_turn_ignores_quotas
            usage::workspace_counts_for_quotas
            usage::workspace_bytes_are_released_from_their_writer
            usage::forgotten_file_leaves_every_row
            usage::needed_file_is_not_forgotten
            usage::results_of_reading_forgotten_file_are_replaced
            usage::file_that_running_turn_reads_is_not_forgotten
            usage::only_its_person_forgets_a_file
            usage::revoked_links_stay_revoked_in_every_process
            usage::reply_knows_of_later_revocations
            turns::conversations_with_recent_turns_are_active
        }
    };
}

/// Makes a test of each promise of the port `Logins`.
#[macro_export]
macro_rules! logins_contract {
    ($fixture:expr) => {
        $crate::ledger_contract! { @each $fixture;
            logins::ended_login_has_ended_in_every_process
            logins::login_expires_although_it_is_used
            logins::new_login_replaces_the_least_recently_used
            logins::logins_of_one_issuer_end_together
        }
    };
}

#[cfg(test)]
mod tests {
    /// A promise that no suite lists is never tested.
    #[test]
    fn every_promise_is_in_one_suite() {
        let list = include_str!("suites.rs");
        for (module, source) in [
            ("audit", include_str!("audit.rs")),
            ("claimed_turns", include_str!("claimed_turns.rs")),
            ("conversations", include_str!("conversations.rs")),
            ("cross_port", include_str!("cross_port.rs")),
            ("files", include_str!("files.rs")),
            ("inbox", include_str!("inbox.rs")),
            ("lanes", include_str!("lanes.rs")),
            ("logins", include_str!("logins.rs")),
            ("messages", include_str!("messages.rs")),
            ("parts", include_str!("parts.rs")),
            ("people", include_str!("people.rs")),
            ("processes", include_str!("processes.rs")),
            ("reminders", include_str!("reminders.rs")),
            ("rename", include_str!("rename.rs")),
            ("settings", include_str!("settings.rs")),
            ("drafts", include_str!("drafts.rs")),
            ("turns", include_str!("turns.rs")),
            ("usage", include_str!("usage.rs")),
            ("voice", include_str!("voice.rs")),
        ] {
            for line in source.lines() {
                let Some(name) = line.strip_prefix("pub async fn ") else { continue };
                let name = name.split(['(', '<']).next().unwrap_or_default();
                let entry = format!("            {module}::{name}\n");
                assert_eq!(list.matches(&entry).count(), 1, "suites that list {module}::{name}");
            }
        }
    }
}

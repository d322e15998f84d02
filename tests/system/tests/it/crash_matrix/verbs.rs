//! The port verbs around which processes must be killed in each scenario, and why the others are exempt.

use std::collections::BTreeSet;

use satchel_ports::intercept;

use super::{short_scenario::ShortScenarioKind, turn_scenario::MatrixPlatform};

/// Processes are killed around these on every platform, in their first run or during recovery.
const COMMON_VERBS: [&str; 14] = [
    "blobs.open",
    "blobs.put",
    "channel.fetch",
    "channel.post",
    "ledger.complete_turn",
    "ledger.journal_message",
    "ledger.journal_outcome",
    "ledger.next_part",
    "ledger.next_turn",
    "ledger.receive",
    "ledger.save_part",
    "ledger.settle_part",
    "ledger.store_file",
    "ledger.claim_lane",
];

/// Additional verbs of a reply with every kind of content.
const FULL_REPLY_VERBS: [&str; 6] = [
    "channel.edit",
    "channel.probe",
    "ledger.open_draft",
    "ledger.register_files",
    "ledger.renew",
    "ledger.list_queued_behind",
];

/// Verbs of a look-up in the history.
const LOOK_UP_VERBS: [&str; 7] = [
    "blobs.open",
    "channel.find_sent",
    "channel.probe",
    "channel.post",
    "ledger.save_part",
    "ledger.last_sent_before",
    "ledger.settle_part",
];

/// No turn makes these calls, for this reason.
const EXEMPT_VERBS: [(&str, &str); 55] = [
    ("blobs.mark", "the hourly collection makes it, not a turn"),
    ("blobs.stale", "the hourly collection makes it, not a turn"),
    ("blobs.sweep", "the hourly collection makes it, not a turn"),
    (
        "channel.delete",
        "only where a reply that was shown while it grew has no text in the end, or a duplicate turns up late",
    ),
    ("files.list", "no attachment of the scenario is a glob, and listing only reads"),
    ("files.store", "no attachment of the scenario is downloaded, and what is stored is gone with its process"),
    ("ledger.active_conversations", "only the hourly maintenance asks, not a turn"),
    ("ledger.audit", "only operators ask"),
    ("ledger.claim_gateway", "only `run` does it, before anything comes in"),
    ("ledger.longest_wait", "only the metrics ask"),
    ("ledger.list_held_gateways", "only an agent beside delivery workers asks, and nothing is written"),
    ("ledger.renew_gateway", "only `run` does it, beside all turns"),
    ("ledger.release_gateway", "only `run` does it, after everything"),
    ("ledger.change_listing", "only the page does it"),
    ("ledger.forget_conversation", "only the page does it"),
    ("ledger.index_turns", "only maintenance and searches do it, not a turn"),
    ("ledger.list_conversations", "only the page asks"),
    ("ledger.list_forgotten_workspaces", "only maintenance asks, not a turn"),
    ("ledger.record_workspace_removed", "only maintenance and the page's deletion do it"),
    ("ledger.retry_turn", "only the page does it"),
    ("ledger.search_conversations", "only the page asks"),
    ("ledger.adopt_file", "only a reply to a message with files does it, in one write that finds the same file again"),
    ("ledger.count_attachments", "only the tool `attachment.list` calls it, which no scenario uses; it only reads"),
    ("ledger.discard_part", "only an operator does it"),
    ("ledger.has_earlier_work", "only a person's `/forget all yes` asks"),
    ("ledger.history", "a turn brings its history; only others ask"),
    ("ledger.forget_file", "only a person's `/forget`, an operator or retention does it"),
    ("ledger.issue_pairing_code", "only where strangers are turned away"),
    ("ledger.is_approved", "only where strangers are turned away"),
    ("ledger.decide_pairing", "only where strangers are turned away"),
    ("ledger.cancel_reminder", "only a person's `/schedules cancel` or the model does it, in one write"),
    ("ledger.end_reminders", "only `/schedules cancel all` does it, and the loss of access, in one write"),
    ("ledger.save_timezone", "only a person's `/timezone` does it, in one write"),
    ("ledger.create_login", "only a browser that logs in to the page does it, in one write"),
    ("ledger.find_login", "only requests of browsers ask, and nothing is written"),
    ("ledger.touch_login", "only requests of browsers do it, and a lost one costs a time in a list"),
    ("ledger.list_logins", "only owners and operators ask"),
    ("ledger.end_login", "only owners and operators do it, in one write"),
    ("ledger.end_logins", "only operators and a new token do it, in one write"),
    ("ledger.close_question", "only where nobody answers, or the question can't be shown"),
    ("ledger.list_pairings", "only owners and operators ask"),
    ("ledger.list_people", "only owners and operators ask"),
    ("ledger.count_processes", "only `satchel send` asks"),
    ("ledger.ping", "only the page's `/readyz` asks"),
    ("ledger.prune_audit", "only the hourly maintenance does it, not a turn"),
    ("ledger.record_workspace", "the real binary's tools write to a metered workspace, these to a bare one"),
    ("ledger.release", "a lane is given back with its last part; else by a process that stops in good order"),
    ("ledger.reserve_workspace", "the real binary's tools write to a metered workspace, these to a bare one"),
    ("ledger.revoke_links", "only a person's `/unlink` or the page does it, in one write per file"),
    ("ledger.revoke_person", "only owners and operators do it"),
    ("ledger.turns", "only the page asks"),
    ("ledger.count_undecodable", "only operators ask"),
    ("ledger.list_queued_notifications", "only operators ask"),
    ("ledger.find_unreferenced", "the hourly collection makes it, not a turn"),
    ("ledger.usages", "only `/usage` and operators ask"),
];

/// The verbs around which processes must die in a turn with everything.
pub(crate) fn killed_verbs(platform: MatrixPlatform) -> Vec<&'static str> {
    let additional: &[&str] = match platform {
        MatrixPlatform::TelegramWithoutLookUp => &[],
        MatrixPlatform::Telegram => &["channel.find_sent", "ledger.list_recorded_messages", "ledger.last_sent_before"],
        // Only sends are tried here: whether a process dies around what comes in is a matter of chance.
        MatrixPlatform::DiscordForgotten => return LOOK_UP_VERBS.to_vec(),
        MatrixPlatform::Discord => &["ledger.load_checkpoint", "ledger.save_checkpoint"],
        MatrixPlatform::DiscordBundle => return COMMON_VERBS.to_vec(),
    };
    [&COMMON_VERBS, &FULL_REPLY_VERBS as &[&str], additional].concat()
}

/// The verbs around which processes must die in a short scene, besides those of every turn.
pub(crate) fn short_scenario_verbs(kind: ShortScenarioKind) -> &'static [&'static str] {
    match kind {
        ShortScenarioKind::Arrivals => &[
            "channel.fetch",
            "ledger.attachment",
            "ledger.attachments",
            "ledger.record_undecodable",
            "ledger.record_transcription",
            "ledger.refuse_file",
        ],
        ShortScenarioKind::Moved => &["ledger.rename_conversation"],
        ShortScenarioKind::TopicDeleted | ShortScenarioKind::Rich | ShortScenarioKind::RichRefused => {
            &["channel.post", "ledger.settle_part"]
        }
        ShortScenarioKind::Confirmed => &[
            "channel.edit",
            "ledger.journal_decision",
            "ledger.journal_message",
            "ledger.load_question_key",
            "ledger.open_question",
            "ledger.parts",
            "ledger.list_queued_behind",
        ],
        ShortScenarioKind::Task => &[
            "blobs.open",
            "files.canonical_path",
            "files.open",
            "ledger.attachment",
            "ledger.complete_turn",
            "ledger.journal_message",
            "ledger.journal_outcome",
        ],
        ShortScenarioKind::Reminded => &[
            "ledger.receive",
            "ledger.load_timezone",
            "ledger.create_reminder",
            "ledger.list_reminders",
            "ledger.list_reminder_people",
            "ledger.advance_reminder",
        ],
        ShortScenarioKind::Notified => {
            &["blobs.put", "ledger.find_conversation", "ledger.receive", "ledger.turn", "ledger.complete_turn"]
        }
        ShortScenarioKind::Joined => {
            &["channel.fetch", "ledger.join_turns", "ledger.next_turn", "ledger.store_file", "ledger.complete_turn"]
        }
        ShortScenarioKind::Previewed => &["channel.show_preview", "channel.post", "ledger.complete_turn"],
        ShortScenarioKind::Stopped => &["ledger.register_files", "ledger.list_queued_behind", "ledger.complete_turn"],
    }
}

#[test]
fn every_verb_is_killed_or_exempt() {
    let killed = [
        MatrixPlatform::Telegram,
        MatrixPlatform::TelegramWithoutLookUp,
        MatrixPlatform::Discord,
        MatrixPlatform::DiscordForgotten,
        MatrixPlatform::DiscordBundle,
    ]
    .into_iter()
    .flat_map(killed_verbs);
    let killed: BTreeSet<&str> =
        killed.chain(ShortScenarioKind::ALL.into_iter().flat_map(short_scenario_verbs).copied()).collect();
    let spared: BTreeSet<&str> = EXEMPT_VERBS.into_iter().map(|(verb, _)| verb).collect();
    assert_eq!(killed.intersection(&spared).collect::<Vec<_>>(), Vec::<&&str>::new(), "both killed and spared");
    let listed: BTreeSet<&str> = killed.union(&spared).copied().collect();
    assert_eq!(wrapped_verbs(), listed, "the ports' verbs, and those that are killed or spared");
}

/// The verbs of ledger, channel, blobs and declared files that the wrappers know.
fn wrapped_verbs() -> BTreeSet<&'static str> {
    let sources = [
        include_str!("../../../src/crash/crash_wrapper/channel.rs"),
        include_str!("../../../src/crash/crash_wrapper/files.rs"),
    ];
    let calls = sources.into_iter().flat_map(|source| source.split("between!(").skip(1));
    let verbs = calls.filter_map(|call| call.split('"').nth(1));
    let others = verbs.filter(|verb| ["channel.", "blobs.", "files."].iter().any(|port| verb.starts_with(port)));
    others.chain(intercept::VERBS.iter().copied()).collect()
}

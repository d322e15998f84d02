//! Promises about people, pairing codes, checkpoints and undecodable updates.

use std::time::Duration;

use futures::{StreamExt, stream};
use satchel_domain::{
    Button, InboundMessage, MessageRef, PairingCode, Part, PartContent, Sender, SystemTask, UndecodableUpdate,
    pairing::{approval_key, offer_key},
    part::PlannedPart,
};
use satchel_ports::{
    Clock,
    ledger::{
        ClaimMode, Lease, Ledger, Pairing, PairingDecision, PairingOutcome, PairingRequest, PairingRules,
        UndecodableCount, WorkFilter,
    },
};
use serde_json::json;

use super::{LedgerFixture, completed_turn, conversation, message, part_text, receive, sent_settlement, settle};

/// Catches: an update that comes again and is counted again, or a key that is looked up without its channel.
pub async fn undecodable_update_is_stored_once_and_counted(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    assert_eq!(ledger.archive.count_undecodable().await.unwrap(), []);
    let update = |channel: &str, key: &str| UndecodableUpdate {
        channel: conversation(&format!("{channel}:x")).channel().clone(),
        key: key.to_owned(),
        sender: None,
        raw: serde_json::json!({ "update_id": key, "what is this": [1, { "ё": null }] }),
        reason: "an unknown kind".to_owned(),
    };
    for (update, new) in [
        (update("telegram", "1"), true),
        (update("telegram", "2"), true),
        (update("telegram", "1"), false),
        (update("discord", "1"), true),
    ] {
        assert_eq!(ledger.inbox.record_undecodable(&update).await.unwrap(), new, "{update:?}");
    }
    drop(ledger);
    let counted = |channel: &str, updates| UndecodableCount { channel: update(channel, "").channel, updates };
    let ledger = fixture.open().await;
    assert_eq!(ledger.archive.count_undecodable().await.unwrap(), [counted("discord", 1), counted("telegram", 2)]);
}

/// Catches: a checkpoint that another channel's overwrites, one that is only kept in memory, or a first one that stays.
pub async fn channel_keeps_latest_checkpoint(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (discord, telegram) = (conversation("discord:x"), conversation("telegram:x"));
    assert_eq!(ledger.inbox.load_checkpoint(discord.channel()).await.unwrap(), None);
    for (conversation, checkpoint) in
        [(&discord, json!({ "seq": 1 })), (&telegram, json!(7)), (&discord, json!({ "seq": 2 }))]
    {
        ledger.inbox.save_checkpoint(conversation.channel(), &checkpoint).await.unwrap();
    }
    drop(ledger);
    let ledger = fixture.open().await;
    assert_eq!(ledger.inbox.load_checkpoint(discord.channel()).await.unwrap(), Some(json!({ "seq": 2 })));
    assert_eq!(ledger.inbox.load_checkpoint(telegram.channel()).await.unwrap(), Some(json!(7)));
}

/// Catches: a disk that whoever likes fills with what nobody can read, and one channel's flood that takes another's.
pub async fn newest_undecodable_updates_are_retained(fixture: &impl LedgerFixture) {
    const MAX_STORED_UPDATES: u64 = 1_000;
    const MAX_CONCURRENT_UPDATES: usize = 50;
    let ledger = fixture.open().await;
    let update = |channel: &str, key: u64| UndecodableUpdate {
        channel: conversation(&format!("{channel}:x")).channel().clone(),
        key: key.to_string(),
        sender: None,
        raw: serde_json::Value::Null,
        reason: "an unknown kind".to_owned(),
    };
    let record = |channel: &'static str, key| {
        let (ledger, update) = (ledger.clone(), update(channel, key));
        async move { ledger.inbox.record_undecodable(&update).await.unwrap() }
    };
    assert!(record("discord", 0).await && record("telegram", 0).await && record("telegram", 1).await);
    // Not all at once: a verb waits for a connection only so long.
    let recorded = stream::iter((2..=MAX_STORED_UPDATES).map(|key| record("telegram", key)));
    recorded.buffer_unordered(MAX_CONCURRENT_UPDATES).collect::<Vec<_>>().await;
    let counted: Vec<u64> = ledger.archive.count_undecodable().await.unwrap().iter().map(|kept| kept.updates).collect();
    assert_eq!(counted, [1, MAX_STORED_UPDATES]);
    assert!(!record("telegram", 1).await, "it is among the newest");
    assert!(record("telegram", 0).await, "it was the oldest");
}

fn pairing_request(channel: &str, id: &str) -> PairingRequest {
    let person = Sender { handle: Some(format!("handle-of-{id}")), ..Sender::new(id, "Ada") };
    PairingRequest { person, conversation: conversation(&format!("{channel}:{id}")) }
}

async fn issue_code(ledger: &Ledger, channel: &str, id: &str) -> Pairing {
    ledger
        .pairings
        .issue_pairing_code(&pairing_request(channel, id), &PairingRules::default())
        .await
        .unwrap()
        .expect("there is room for a code")
        .pairing
}

fn decision(code: PairingCode, approve: bool, channel: Option<&str>, decided_by: &str) -> PairingDecision {
    let channel = channel.map(|channel| conversation(&format!("{channel}:x")).channel().clone());
    PairingDecision { code, approve, channel, decided_by: decided_by.to_owned() }
}

async fn approve(ledger: &Ledger, code: PairingCode, channel: Option<&str>, decided_by: &str) -> PairingOutcome {
    ledger.pairings.decide_pairing(&decision(code, true, channel, decided_by), &PairingRules::default()).await.unwrap()
}

async fn is_approved(ledger: &Ledger, channel: &str, id: &str) -> bool {
    ledger.pairings.is_approved(conversation(&format!("{channel}:x")).channel(), id).await.unwrap()
}

/// A code that nobody has.
fn unknown_code(number: u64) -> PairingCode {
    PairingCode::from_random_bits(number)
}

/// Catches: an approval that is forgotten, that counts for another channel or another id, or that nobody is told of.
pub async fn approval_allows_and_notifies_person(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let pairing = issue_code(&ledger, "telegram", "5").await;
    assert_eq!(ledger.pairings.list_pairings().await.unwrap(), std::slice::from_ref(&pairing));
    assert!(!is_approved(&ledger, "telegram", "5").await, "to have a code is not to be let in");
    let before = fixture.clock().now();
    let judged = approve(&ledger, pairing.code, Some("telegram"), "telegram:1").await;
    assert_eq!(judged, PairingOutcome::Approved(pairing.clone()));
    drop(ledger);

    let ledger = fixture.open().await;
    assert!(is_approved(&ledger, "telegram", "5").await);
    for (channel, id) in [("discord", "5"), ("telegram", "55"), ("telegram", "Ada"), ("telegram", "handle-of-5")] {
        assert!(!is_approved(&ledger, channel, id).await, "{channel} {id}");
    }
    let people = ledger.pairings.list_people().await.unwrap();
    assert_eq!(people.len(), 1);
    assert_eq!((&people[0].person, people[0].approved_by.as_str()), (&pairing.person, "telegram:1"));
    assert_eq!(&people[0].channel, pairing.conversation.channel());
    assert!(people[0].approved_at >= before);
    assert_eq!(ledger.pairings.list_pairings().await.unwrap(), []);

    assert_eq!(queued_tasks(&ledger, &pairing).await, [Some(SystemTask::ConfirmPairing)]);
}

/// The tasks of the turn that waits for the person of a code.
async fn queued_tasks(ledger: &Ledger, pairing: &Pairing) -> Vec<Option<SystemTask>> {
    let channels = [pairing.conversation.channel().clone()];
    let claimed = ledger.leases.claim_lane(&channels, WorkFilter::Any).await.unwrap();
    let lease = claimed.expect("a message for them waits").lease;
    assert_eq!(lease.conversation, pairing.conversation);
    let turn = ledger.turns.next_turn(&lease).await.unwrap().unwrap();
    turn.messages.iter().map(|queued| queued.message.system_task.clone()).collect()
}

/// Catches: an approval of one channel's owner for somebody of another. The attack: a code that was seen elsewhere.
pub async fn code_is_scoped_to_decider(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let foreign = issue_code(&ledger, "discord", "5").await;
    let judged = approve(&ledger, foreign.code, Some("telegram"), "telegram:1").await;
    assert_eq!(judged, PairingOutcome::UnknownCode { tries_left: 4 });
    assert!(!is_approved(&ledger, "discord", "5").await && !is_approved(&ledger, "telegram", "5").await);
    assert_eq!(approve(&ledger, foreign.code, None, "operator").await, PairingOutcome::Approved(foreign));
}

/// Catches: a code that works twice. The attack: a button that is pressed again after its person was revoked.
pub async fn code_is_single_use(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let pairing = issue_code(&ledger, "telegram", "5").await;
    approve(&ledger, pairing.code, None, "telegram:1").await;
    let channel = pairing.conversation.channel().clone();
    assert!(ledger.pairings.revoke_person(&channel, "5").await.unwrap());
    assert!(!ledger.pairings.revoke_person(&channel, "5").await.unwrap());
    let used = PairingOutcome::AlreadyUsed { person: pairing.person.clone(), approved: true };
    assert_eq!(approve(&ledger, pairing.code, None, "telegram:1").await, used);
    assert!(!is_approved(&ledger, "telegram", "5").await);
    assert_eq!(ledger.pairings.list_people().await.unwrap(), []);
    let again = issue_code(&ledger, "telegram", "5").await;
    assert!(!again.code.ct_eq(&pairing.code), "whoever was revoked may ask anew");

    let rules = PairingRules::default();
    let refused =
        ledger.pairings.decide_pairing(&decision(again.code, false, None, "telegram:1"), &rules).await.unwrap();
    assert_eq!(refused, PairingOutcome::Refused(again.clone()));
    let used = PairingOutcome::AlreadyUsed { person: again.person, approved: false };
    assert_eq!(approve(&ledger, again.code, None, "telegram:1").await, used, "a refusal uses it up too");
    assert!(!is_approved(&ledger, "telegram", "5").await);
}

/// Catches: a code that works when its hour is over, and one that is handed out again after it.
pub async fn code_expires(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let rules = PairingRules { code_ttl: Duration::from_secs(60), ..PairingRules::default() };
    let issued = ledger.pairings.issue_pairing_code(&pairing_request("telegram", "5"), &rules).await.unwrap();
    let pairing = issued.expect("there is room for a code").pairing;
    assert_eq!(pairing.expires_at, pairing.issued_at.saturating_add(rules.code_ttl));
    fixture.clock().set(pairing.expires_at);
    assert_eq!(approve(&ledger, pairing.code, None, "telegram:1").await, PairingOutcome::Expired);
    assert!(!is_approved(&ledger, "telegram", "5").await);
    assert_eq!(ledger.pairings.list_pairings().await.unwrap(), []);
    let next = issue_code(&ledger, "telegram", "5").await;
    assert!(!next.code.ct_eq(&pairing.code));
    assert_eq!(
        approve(&ledger, pairing.code, None, "telegram:1").await,
        PairingOutcome::Expired,
        "also beside the new one"
    );
}

/// Catches: tries that are counted for all together, or a sixth that counts. The attack: to guess a code.
pub async fn invalid_codes_lock_out_sender(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let pairing = issue_code(&ledger, "telegram", "5").await;
    for number in 0..5 {
        let judged = approve(&ledger, unknown_code(number), None, "telegram:1").await;
        assert_eq!(judged, PairingOutcome::UnknownCode { tries_left: 4 - u32::try_from(number).unwrap() });
    }
    drop(ledger);
    let ledger = fixture.open().await;
    for code in [pairing.code, unknown_code(5)] {
        let judged = approve(&ledger, code, None, "telegram:1").await;
        let PairingOutcome::LockedOut { until } = judged else { panic!("not locked: {judged:?}") };
        assert_eq!(until, fixture.clock().now().saturating_add(Duration::from_secs(3_600)));
    }
    assert!(!is_approved(&ledger, "telegram", "5").await, "not even the right one counts");
    assert!(
        matches!(approve(&ledger, pairing.code, None, "telegram:2").await, PairingOutcome::Approved(_)),
        "others may decide"
    );

    let rules = PairingRules { code_ttl: Duration::from_secs(60), max_attempts: 1, ..PairingRules::default() };
    let guess = decision(unknown_code(1), true, None, "telegram:3");
    assert_eq!(
        ledger.pairings.decide_pairing(&guess, &rules).await.unwrap(),
        PairingOutcome::UnknownCode { tries_left: 0 }
    );
    let PairingOutcome::LockedOut { until } = ledger.pairings.decide_pairing(&guess, &rules).await.unwrap() else {
        panic!("not locked")
    };
    fixture.clock().set(until);
    let judged = ledger.pairings.decide_pairing(&guess, &rules).await.unwrap();
    assert_eq!(judged, PairingOutcome::UnknownCode { tries_left: 0 }, "the lock ends");
}

/// Catches: an order by the clock alone, which leaves those of one millisecond to chance.
pub async fn codes_are_listed_by_request_time(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let rules = PairingRules { max_open: 40, ..PairingRules::default() };
    let mut codes = Vec::new();
    for id in 0..40 {
        let request = pairing_request("telegram", &id.to_string());
        let issued = ledger.pairings.issue_pairing_code(&request, &rules).await.unwrap();
        codes.extend(issued.map(|issued| issued.pairing));
    }
    assert_eq!(codes.len(), 40);
    assert_eq!(ledger.pairings.list_pairings().await.unwrap(), codes);
}

/// Catches: a table that strangers can fill, and one that is full for those who are in it. The attack: many accounts.
pub async fn open_codes_are_limited(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let rules = PairingRules { max_open: 3, ..PairingRules::default() };
    let mut codes = Vec::new();
    for id in 0..50 {
        let request = pairing_request("telegram", &id.to_string());
        let issued = ledger.pairings.issue_pairing_code(&request, &rules).await.unwrap();
        codes.extend(issued.map(|issued| issued.pairing));
    }
    assert_eq!(codes.len(), 3);
    assert_eq!(ledger.pairings.list_pairings().await.unwrap(), codes);
    let again = ledger.pairings.issue_pairing_code(&pairing_request("telegram", "1"), &rules).await.unwrap();
    assert_eq!(again.map(|issued| issued.pairing).as_ref(), Some(&codes[1]), "the same code while it lives");
    let elsewhere = ledger.pairings.issue_pairing_code(&pairing_request("discord", "1"), &rules).await.unwrap();
    assert!(elsewhere.is_some_and(|issued| !issued.pairing.code.ct_eq(&codes[1].code)), "each channel has its own");
    approve(&ledger, codes[0].code, None, "telegram:1").await;
    assert!(
        ledger.pairings.issue_pairing_code(&pairing_request("telegram", "49"), &rules).await.unwrap().is_some(),
        "one has become free"
    );
}

/// Catches: offers of another code or channel that are counted, and some that aren't.
pub async fn offers_of_code_are_counted(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let rules = PairingRules::default();
    let request = pairing_request("telegram", "5");
    let (code, other) =
        (issue_code(&ledger, "telegram", "5").await.code, issue_code(&ledger, "telegram", "6").await.code);
    let offers = async || {
        let issued = ledger.pairings.issue_pairing_code(&request, &rules).await.unwrap().expect("they have a code");
        assert!(issued.pairing.code.ct_eq(&code));
        issued.offers
    };
    assert_eq!(offers().await, 0);
    for (nth, (code, place)) in
        (0..).zip([(code, "telegram:5"), (other, "telegram:6"), (code, "discord:5"), (code, "telegram:5")])
    {
        let key = offer_key(code, nth);
        let message = InboundMessage {
            system_task: Some(SystemTask::OfferPairing { code }),
            ..InboundMessage::new(conversation(place), key, Sender::satchel())
        };
        ledger.inbox.receive(&message, ClaimMode::Never).await.unwrap();
    }
    assert_eq!(offers().await, 2);
}

/// Catches: a refusal that is asked about again and again, one that is never forgotten, and one that nobody is told of.
pub async fn refusal_blocks_new_codes(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let rules = PairingRules { refusal_cooldown: Duration::from_secs(60), ..PairingRules::default() };
    let issued = ledger.pairings.issue_pairing_code(&pairing_request("telegram", "5"), &rules).await.unwrap();
    let pairing = issued.expect("there is room for a code").pairing;
    ledger.pairings.decide_pairing(&decision(pairing.code, false, None, "telegram:1"), &rules).await.unwrap();
    let again =
        ledger.pairings.issue_pairing_code(&pairing_request("telegram", "5"), &PairingRules::default()).await.unwrap();
    assert_eq!(again, None);
    assert_eq!(queued_tasks(&ledger, &pairing).await, [Some(SystemTask::ReportRefusal)]);
    fixture.clock().set(pairing.issued_at.saturating_add(rules.refusal_cooldown));
    assert!(ledger.pairings.issue_pairing_code(&pairing_request("telegram", "5"), &rules).await.unwrap().is_some());
}

/// Catches: the album of one person into which another's photo is put. The attack: a key that somebody else chose.
pub async fn album_has_one_sender(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let item_from = |key: &str, id: &str| InboundMessage {
        album: Some("a".into()),
        group: true,
        sender: Sender::new(id, "Ada"),
        ..message(key, "")
    };
    let turn =
        async |key: &str, id: &str| ledger.inbox.receive(&item_from(key, id), ClaimMode::Never).await.unwrap().turn;
    let (ada, eve) = (turn("1", "7").await, turn("2", "8").await);
    assert_ne!(ada, eve);
    assert_eq!((turn("3", "7").await, turn("4", "8").await), (ada, eve), "each goes on in their own");
}

/// Has an owner asked in a chat about the person of a code, and returns the question, which is started.
async fn ask_owner(ledger: &Ledger, pairing: &Pairing, chat: &str) -> (Lease, Part) {
    let place = conversation(chat);
    let Pairing { code, person, .. } = pairing.clone();
    let key = approval_key(code, &place);
    let task = SystemTask::RequestApproval { code, person, channel: pairing.conversation.channel().clone() };
    let message = InboundMessage { system_task: Some(task), ..InboundMessage::new(place, key, Sender::satchel()) };
    let (lease, turn) = receive(ledger, &message).await;
    let buttons = vec![Button { label: "Approve".into(), command: format!("/pair approve {code}") }];
    let question = PartContent::question("Ada wants to talk to me.\n\nPress a button.", buttons);
    let completed = completed_turn(turn, vec![PlannedPart::new(question)]);
    let part = ledger.turns.complete_turn(&lease, &completed).await.unwrap().expect("it is begun");
    (lease, part)
}

fn assert_closed(part: &Part, message: &str, answer: &str) {
    assert!(part.is_closing_edit() && matches!(part.content(), Some(PartContent::Text { .. })), "{part:?}");
    assert_eq!(part.target(), Some(&MessageRef(message.into())));
    assert_eq!(part_text(part), format!("Ada wants to talk to me.\n\n**{answer}**"));
}

/// Delivers the edit that closes a question in the only chat of a channel with something to deliver.
async fn deliver_closing(ledger: &Ledger, channel: &str, message: &str, answer: &str) {
    let channels = [conversation(&format!("{channel}:x")).channel().clone()];
    let claimed = ledger.leases.claim_lane(&channels, WorkFilter::Deliveries).await.unwrap();
    let lease = claimed.expect("the edit is to be delivered").lease;
    let edit = ledger.outbox.next_part(&lease).await.unwrap().expect("the edit");
    assert_closed(&edit, message, answer);
    assert!(settle(ledger, &lease, &sent_settlement(&edit, message)).await.released);
    assert_eq!(ledger.leases.claim_lane(&channels, WorkFilter::Deliveries).await.unwrap(), None, "once");
}

/// Catches: buttons that stay in a chat although somebody has decided elsewhere; those of a request that was on its way
/// meanwhile; and those of one that nobody has answered in its hour.
pub async fn decision_closes_requests(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let pairing = issue_code(&ledger, "telegram", "5").await;
    let (lease, standing) = ask_owner(&ledger, &pairing, "telegram:1").await;
    assert!(settle(&ledger, &lease, &sent_settlement(&standing, "a")).await.released);
    let (late_lease, late) = ask_owner(&ledger, &pairing, "discord:3").await;
    assert_eq!(approve(&ledger, pairing.code, None, "operator").await, PairingOutcome::Approved(pairing.clone()));
    deliver_closing(&ledger, "telegram", "a", "Approved").await;
    let settled = settle(&ledger, &late_lease, &sent_settlement(&late, "b")).await;
    let edit = settled.next.expect("it is closed as soon as it stands");
    assert_closed(&edit, "b", "Approved");
    assert!(settle(&ledger, &late_lease, &sent_settlement(&edit, "b")).await.released);
    assert!(matches!(approve(&ledger, pairing.code, None, "operator").await, PairingOutcome::AlreadyUsed { .. }));
    let channels = [pairing.conversation.channel().clone()];
    assert_eq!(ledger.leases.claim_lane(&channels, WorkFilter::Deliveries).await.unwrap(), None, "once");

    let unanswered = issue_code(&ledger, "telegram", "6").await;
    let (lease, standing) = ask_owner(&ledger, &unanswered, "telegram:1").await;
    assert!(settle(&ledger, &lease, &sent_settlement(&standing, "c")).await.released);
    fixture.clock().set(unanswered.expires_at);
    issue_code(&ledger, "telegram", "6").await;
    deliver_closing(&ledger, "telegram", "c", "Expired").await;
}

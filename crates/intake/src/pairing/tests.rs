//! `/pair` from owners and from others.

use std::sync::{Arc, Mutex};

use rstest::rstest;
use satchel_ports::MockPairings;
use uuid::Uuid;

use super::*;
use crate::access::{ChannelAccess, IMPLICIT_OWNER_ID};

const MINUTE: i64 = 60_000;

fn access() -> AccessPolicy {
    let rules = ChannelAccess { allow_users: vec!["*".into()], owners: vec!["1".into()], ..ChannelAccess::default() };
    let own = ["console:main", "web:a"].map(|conversation| place(conversation).channel().clone());
    AccessPolicy::new([(place("telegram:1").channel().clone(), rules)]).with_owner_on(own)
}

fn place(text: &str) -> ConversationId {
    text.parse().unwrap()
}

fn parse(text: &str) -> PairCommand {
    PairCommand::parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
}

async fn reply_to(ledger: &MockPairings, conversation: &str, id: &str, text: &str) -> String {
    reply_in(ledger, conversation, id, text, false).await
}

async fn reply_in(ledger: &MockPairings, conversation: &str, id: &str, text: &str, group: bool) -> String {
    let (access, conversation, sender) = (access(), place(conversation), Sender::new(id, "Owner"));
    let asked = CommandContext {
        turn: TurnId(Uuid::nil()),
        repeated: false,
        conversation: &conversation,
        group,
        sender: &sender,
        access: &access,
        now: Timestamp(15 * MINUTE),
    };
    handle_pair_command(&parse(text), ledger, &asked).await.unwrap().text.unwrap()
}

fn pairing(code: &str, conversation: &str) -> Pairing {
    Pairing {
        code: code.parse().unwrap(),
        person: Sender { handle: Some("ada".into()), ..Sender::new("5", "Ada") },
        conversation: place(conversation),
        issued_at: Timestamp(0),
        expires_at: Timestamp(60 * MINUTE),
    }
}

#[rstest]
#[case("", PairCommand::Help)]
#[case("list", PairCommand::List)]
#[case("list all", PairCommand::Help)]
#[case("APPROVE abcd-efgh", PairCommand::Approve("abcd-efgh".into()))]
#[case("approve ABCD EFGH", PairCommand::Approve("ABCDEFGH".into()))]
#[case("approve", PairCommand::Help)]
#[case("refuse x", PairCommand::Refuse("x".into()))]
#[case("revoke 5", PairCommand::Revoke { channel: None, id: "5".into() })]
#[case("revoke telegram 5", PairCommand::Revoke { channel: Some("telegram".into()), id: "5".into() })]
#[case("revoke a b c", PairCommand::Help)]
fn what_stands_behind_pair_is_read(#[case] text: &str, #[case] command: PairCommand) {
    assert_eq!(parse(text), command);
}

/// The attack: somebody who may talk says the owner's words, by hand or by pressing a button that was forwarded.
#[tokio::test]
async fn codes_from_non_owners_are_never_checked() {
    let ledger = MockPairings::new();
    for text in ["approve ABCD-EFGH", "refuse ABCD-EFGH", "list", "revoke 5", ""] {
        for id in ["5", IMPLICIT_OWNER_ID, "11"] {
            assert_eq!(reply_to(&ledger, "telegram:5", id, text).await, "Only an owner can approve people.", "{text}");
        }
        let told = reply_in(&ledger, "telegram:-100", "1", text, true).await;
        assert_eq!(told, "Other people can read this chat. Please send me that command in a private chat.", "{text}");
    }
}

/// An owner decides about their own channel; whoever has the page's token or the terminal about all.
#[tokio::test]
async fn pairing_decision_names_its_scope_and_decider() {
    for (conversation, id, of, by) in [
        ("telegram:1", "1", Some("telegram"), "telegram:1"),
        ("console:main", IMPLICIT_OWNER_ID, None, "console:owner"),
    ] {
        let decisions: Arc<Mutex<Vec<PairingDecision>>> = Arc::default();
        let mut ledger = MockPairings::new();
        let seen = Arc::clone(&decisions);
        ledger.expect_decide_pairing().returning(move |decision, rules| {
            assert_eq!(*rules, PairingRules::default());
            seen.lock().unwrap().push(decision.clone());
            let pairing = pairing("ABCD-EFGH", "telegram:5");
            Ok(if decision.approve { PairingOutcome::Approved(pairing) } else { PairingOutcome::Refused(pairing) })
        });
        assert_eq!(reply_to(&ledger, conversation, id, "approve abcdefgh").await, "`Ada` is approved. I've told them.");
        let refused = reply_to(&ledger, conversation, id, "refuse ABCD-EFGH").await;
        assert_eq!(refused, "`Ada` is refused and gets no new code for a day.");
        let decisions = decisions.lock().unwrap();
        for (decision, let_in) in decisions.iter().zip([true, false]) {
            assert!(decision.code.ct_eq(&"ABCD-EFGH".parse().unwrap()));
            assert_eq!((decision.channel.as_ref().map(ChannelName::as_str), decision.decided_by.as_str()), (of, by));
            assert_eq!(decision.approve, let_in);
        }
    }
}

#[tokio::test]
async fn what_is_no_code_costs_no_try() {
    let ledger = MockPairings::new();
    for text in ["approve ABCD", "approve ABCD-EFG0", "refuse something else entirely"] {
        assert_eq!(
            reply_to(&ledger, "telegram:1", "1", text).await,
            "That isn't a pairing code. A code looks like `ABCD-EFGH`."
        );
    }
}

#[rstest]
#[case(PairingOutcome::AlreadyUsed { person: Sender::new("5", "A`d`a"), approved: true }, "already used: it approved `Ada`")]
#[case(PairingOutcome::AlreadyUsed { person: Sender::new("5", "Ada"), approved: false }, "already used: it refused `Ada`")]
#[case(PairingOutcome::Expired, "has expired")]
#[case(PairingOutcome::UnknownCode { tries_left: 2 }, "no such code. You have 2 tries left")]
#[case(PairingOutcome::UnknownCode { tries_left: 0 }, "one wrong code too many")]
#[case(PairingOutcome::LockedOut { until: Timestamp(30 * MINUTE + 1_000) }, "in 31 minutes.")]
fn every_verdict_is_told(#[case] judged: PairingOutcome, #[case] says: &str) {
    let told = describe_outcome(&judged, Timestamp(0));
    assert!(told.contains(says), "{told}");
}

fn people_and_codes() -> MockPairings {
    let mut ledger = MockPairings::new();
    ledger
        .expect_list_pairings()
        .returning(|| Ok(vec![pairing("ABCD-EFGH", "telegram:5"), pairing("JKLM-NPQR", "discord:9")]));
    ledger.expect_list_people().returning(|| {
        let person = |channel: &str, id: &str| Person {
            channel: ChannelName::new(channel).unwrap(),
            person: Sender::new(id, "Bob"),
            approved_at: Timestamp(0),
            approved_by: "telegram:1".into(),
        };
        Ok(vec![person("discord", "8"), person("telegram", "7")])
    });
    ledger
}

#[tokio::test]
async fn pairing_list_is_scoped_to_its_owner() {
    let ledger = people_and_codes();
    assert_eq!(
        reply_to(&ledger, "telegram:1", "1", "list").await,
        "Waiting for approval:\n\n- **ABCD-EFGH** `Ada (@ada)`, id `5` on telegram, valid for 45 min\n\nApproved with a code:\n\n\
         - `Bob`, id `7` on telegram"
    );
    let all = reply_to(&ledger, "web:a", IMPLICIT_OWNER_ID, "list").await;
    assert!(all.contains("JKLM-NPQR") && all.contains("id `8` on discord") && all.contains("ABCD-EFGH"), "{all}");
}

#[tokio::test]
async fn an_owner_revokes_on_their_own_channel() {
    let mut ledger = MockPairings::new();
    ledger.expect_revoke_person().returning(|channel, id| Ok((channel.as_str(), id) == ("telegram", "5")));
    for (conversation, id, text, says) in [
        ("telegram:1", "1", "revoke 5", "Done: id `5` on telegram is no longer approved."),
        ("telegram:1", "1", "revoke telegram 5", "is no longer approved"),
        ("telegram:1", "1", "revoke discord 5", "In this chat you can only approve people on telegram."),
        ("telegram:1", "1", "revoke 6", "`6` was not approved with a code on telegram"),
        ("web:a", IMPLICIT_OWNER_ID, "revoke 5", "On which channel?"),
        ("web:a", IMPLICIT_OWNER_ID, "revoke Telegram 5", "is no longer approved"),
        (
            "web:a",
            IMPLICIT_OWNER_ID,
            "revoke дом 5",
            "There is no such channel. For example: `/pair revoke telegram 123456`",
        ),
    ] {
        let told = reply_to(&ledger, conversation, id, text).await;
        assert!(told.contains(says), "{text}: {told}");
    }
}

/// The attack: a sender of an embedder's channel calls himself what the terminal's and the page's owner is called.
#[tokio::test]
async fn channel_without_rules_revokes_nobody() {
    let mut ledger = MockPairings::new();
    ledger.expect_revoke_person().never();
    for text in ["revoke telegram 5", "revoke 5"] {
        assert_eq!(reply_to(&ledger, "board:hall", IMPLICIT_OWNER_ID, text).await, "Only an owner can approve people.");
    }
}

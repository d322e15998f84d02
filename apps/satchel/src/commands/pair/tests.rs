//! What operators see of people and can decide about them, on a mock of the ledger.

use satchel_domain::Timestamp;
use satchel_ports::MockPairings;

use super::*;

const NOW: Timestamp = Timestamp(1_700_000_000_000);

fn code() -> PairingCode {
    "ABCD-EFGH".parse().unwrap()
}

fn telegram() -> ChannelName {
    ChannelName::new("telegram").unwrap()
}

fn pairing() -> Pairing {
    Pairing {
        code: code(),
        person: Sender { handle: Some("ada".into()), ..Sender::new("5", "Ada\u{1b}[2J\nLovelace") },
        conversation: "telegram:5".parse().unwrap(),
        issued_at: NOW,
        expires_at: Timestamp(NOW.0 + 3_600_000),
    }
}

fn ledger_with(pairings: Vec<Pairing>, people: Vec<Person>) -> MockPairings {
    let mut ledger = MockPairings::new();
    ledger.expect_list_pairings().returning(move || Ok(pairings.clone()));
    ledger.expect_list_people().returning(move || Ok(people.clone()));
    ledger
}

#[tokio::test]
async fn pairing_requests_and_approved_people_are_listed() {
    let bob =
        Person { channel: telegram(), person: Sender::new("7", "Bob"), approved_at: NOW, approved_by: OPERATOR.into() };
    let ledger = ledger_with(vec![pairing()], vec![bob]);
    let mut out = Vec::new();
    list(&ledger, false, &mut out).await.unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "telegram  5  Ada[2J Lovelace (@ada)  waiting, until 2023-11-14 23:13:20Z  ABCD-EFGH\n\
         telegram  7  Bob                     approved, 2023-11-14 22:13:20Z       by operator\n"
    );
    let mut out = Vec::new();
    list(&ledger, true, &mut out).await.unwrap();
    let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!((&json["asking"][0]["code"], &json["let_in"][0]["person"]["id"]), (&"ABCD-EFGH".into(), &"7".into()));
    let mut out = Vec::new();
    list(&ledger_with(Vec::new(), Vec::new()), false, &mut out).await.unwrap();
    assert!(String::from_utf8(out).unwrap().starts_with("no one is waiting"));
}

#[tokio::test]
async fn operator_decides_for_all_channels_and_sees_outcome() {
    for (judged, says) in [
        (PairingOutcome::Approved(pairing()), "approved: Ada[2J Lovelace (@ada), id 5, on telegram; they will be told"),
        (
            PairingOutcome::AlreadyUsed { person: Sender::new("5", "Ada"), approved: true },
            "already used: it approved Ada",
        ),
        (
            PairingOutcome::AlreadyUsed { person: Sender::new("5", "Ada"), approved: false },
            "already used: it refused Ada",
        ),
        (PairingOutcome::Expired, "has expired"),
        (PairingOutcome::UnknownCode { tries_left: 3 }, "there is no such code; `satchel pair list` shows"),
        (PairingOutcome::LockedOut { until: NOW }, "try again after 2023-11-14 22:13:20Z"),
    ] {
        let let_in = matches!(judged, PairingOutcome::Approved(_));
        let mut ledger = MockPairings::new();
        ledger
            .expect_decide_pairing()
            .withf(|decision, _| decision.approve && decision.channel.is_none() && decision.decided_by == OPERATOR)
            .returning(move |decision, _| {
                assert!(decision.code.ct_eq(&code()));
                Ok(judged.clone())
            });
        let mut out = Vec::new();
        let told = match approve(&ledger, code(), &mut out).await {
            Ok(()) if let_in => String::from_utf8(out).unwrap(),
            Err(error) if !let_in => error.to_string(),
            other => panic!("{says}: {other:?}"),
        };
        assert!(told.contains(says), "{told}");
    }
}

#[tokio::test]
async fn only_whom_a_code_let_in_is_revoked() {
    let mut ledger = MockPairings::new();
    ledger.expect_revoke_person().returning(|channel, id| Ok((channel.as_str(), id) == ("telegram", "5")));
    let mut out = Vec::new();
    revoke(&ledger, &telegram(), "5", &mut out).await.unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), "revoked: 5 on telegram\n");
    let error = revoke(&ledger, &telegram(), "6", &mut Vec::new()).await.unwrap_err();
    assert!(error.to_string().contains("remove them there"), "{error}");
}

//! The sentences that people and models read.

use satchel_domain::{MessageRef, PartId, Timestamp, TurnId, part::FileForm};
use uuid::Uuid;

use super::*;
use crate::samples::{file, item};

fn part(number: u128, content: PartContent, state: PartState) -> Part {
    Part {
        state,
        attempts: 1,
        ..Part::new(
            PartId(Uuid::from_u128(number)),
            "console:main".parse().expect("a conversation"),
            TurnId(Uuid::from_u128(1)),
            0,
            content,
            Timestamp(0),
        )
    }
}

fn document(number: u64, name: &str, bytes: u64) -> PartContent {
    PartContent::File(item(file(number, name, "video/quicktime", bytes), FileForm::Document))
}

fn sent() -> PartState {
    PartState::Sent { messages: Vec::new() }
}

fn failed(reason: FailureReason) -> PartState {
    PartState::Failed { reason }
}

fn too_large() -> FailureReason {
    FailureReason::TooLarge { limit: 50_000_000 }
}

fn refused(reason: &str) -> FailureReason {
    FailureReason::Refused { reason: reason.to_owned() }
}

fn notice(parts: &[(PartContent, PartState)]) -> Option<String> {
    notice_with(parts, NO_LINKS)
}

fn notice_with(parts: &[(PartContent, PartState)], links: MakeLink<'_>) -> Option<String> {
    let parts: Vec<Part> =
        (10..).zip(parts).map(|(number, (content, state))| part(number, content.clone(), state.clone())).collect();
    closing_notice(&parts, links)
}

/// A link as long as real ones are.
fn long_link(file: &Attachment) -> Option<String> {
    Some(format!("https://satchel.example.org/links/{}-{}", "x".repeat(235), file.number))
}

#[test]
fn notice_names_loss_reason_and_remedy() {
    let doubtful = FailureReason::MayHaveArrived { reason: "no answer".to_owned() };
    let three = PartContent::Album {
        items: (1..=3).map(|n| item(file(n, "a.jpg", "image/jpeg", 1), FileForm::Photo)).collect(),
    };
    let voice = PartContent::Voice {
        text: "x".to_owned(),
        in_text: true,
        prepared: None,
        as_file: false,
        caption: String::new(),
    };
    let text = PartContent::from_text("x");
    for (case, parts, expected) in [
        ("nothing", vec![(text.clone(), sent()), (three.clone(), sent())], None),
        (
            "one of four",
            vec![(three.clone(), sent()), (document(17, "big.mov", 64_000_000), failed(too_large()))],
            Some("3 of 4 files sent; big.mov is 64 MB, the limit here is 50 MB; kept as #17: /resend 17"),
        ),
        (
            "one reason, two files",
            vec![
                (document(1, "a.mov", 64_000_000), failed(too_large())),
                (document(2, "b.mov", 70_000_000), failed(too_large())),
            ],
            Some(
                "0 of 2 files sent; a.mov (64 MB) and b.mov (70 MB) are over the limit of 50 MB here; kept as #1, #2: /resend 1, /resend 2",
            ),
        ),
        (
            "two reasons",
            vec![
                (document(1, "a.mov", 64_000_000), failed(too_large())),
                (document(2, "b_[x].mov", 7), failed(refused("*no*"))),
            ],
            Some(
                "0 of 2 files sent:\n- a.mov is 64 MB, the limit here is 50 MB; kept as #1: /resend 1\n- b\\_\\[x\\].mov: refused: \\*no\\*; kept as #2: /resend 2",
            ),
        ),
        (
            "doubt",
            vec![(document(1, "a.mov", 5), failed(doubtful.clone()))],
            Some("0 of 1 file sent, 1 in doubt; a.mov may have arrived: no answer; kept as #1: /resend 1"),
        ),
        (
            "text",
            vec![(text.clone(), failed(refused("too long")))],
            Some("The text could not be sent: refused: too long."),
        ),
        (
            "text in doubt",
            vec![(text.clone(), failed(doubtful.clone()))],
            Some("The text may have arrived: no answer."),
        ),
        (
            "a part of the text",
            vec![(text.clone(), sent()), (text.clone(), failed(refused("too long")))],
            Some("Part of the text could not be sent: refused: too long."),
        ),
        (
            "a part of the text in doubt",
            vec![(text.clone(), failed(doubtful.clone())), (text.clone(), PartState::Pending)],
            Some("Part of the text may have arrived: no answer."),
        ),
        (
            "all of the text",
            vec![(text.clone(), failed(refused("no"))), (text.clone(), failed(refused("no"))), (three.clone(), sent())],
            Some("The text could not be sent: refused: no."),
        ),
        (
            "all of the text for two reasons",
            vec![(text.clone(), failed(refused("no"))), (text.clone(), failed(refused("never")))],
            Some(
                "My reply could not be sent:\n- the text could not be sent: refused: no\n- the text could not be sent: refused: never",
            ),
        ),
        (
            "some of the text in doubt and the rest lost",
            vec![(text.clone(), failed(doubtful)), (text.clone(), failed(refused("no")))],
            Some(
                "Some of my reply could not be sent:\n- some of the text may have arrived: no answer\n- some of the text could not be sent: refused: no",
            ),
        ),
        (
            "voice",
            vec![(voice, failed(FailureReason::SynthesisFailed { reason: "no speech service".to_owned() }))],
            Some("The voice message could not be turned into speech: no speech service."),
        ),
        ("a failed notice", vec![(PartContent::Notice { text: "x".to_owned() }, failed(refused("x")))], None),
    ] {
        assert_eq!(notice(&parts).as_deref(), expected, "{case}");
    }
}

#[test]
fn streamed_beginning_of_a_text_is_a_part_of_it() {
    let streamed = part(1, PartContent::from_text("x"), failed(refused("no"))).into_edit_of(MessageRef("m1".into()));
    let told = closing_notice(&[streamed], NO_LINKS);
    assert_eq!(told.as_deref(), Some("Part of the text could not be sent: refused: no."));
}

#[test]
fn notice_links_content_the_channel_rejects() {
    const UNLINKED: u64 = 99;
    let link = |file: &Attachment| {
        (file.number.get() != UNLINKED).then(|| format!("https://a.example/links/{}_x", file.number))
    };
    let large = |number, name| (document(number, name, 64_000_000), failed(too_large()));
    let unreadable = || failed(FailureReason::Unreadable { reason: "gone".to_owned() });
    let doubtful = || failed(FailureReason::MayHaveArrived { reason: "no answer".to_owned() });
    for (case, parts, expected) in [
        (
            "too large",
            vec![large(17, "big.mov")],
            "0 of 1 file sent; big.mov is 64 MB, the limit here is 50 MB; kept as #17: <https://a.example/links/17_x> (for 7 days; a new one: /resend 17)",
        ),
        (
            "refused",
            vec![(document(17, "x.exe", 7), failed(refused("no programs")))],
            "0 of 1 file sent; x.exe: refused: no programs; kept as #17: <https://a.example/links/17_x> (for 7 days; a new one: /resend 17)",
        ),
        (
            "forbidden",
            vec![(document(17, "a.pdf", 7), failed(FailureReason::Forbidden { reason: "no files here".to_owned() }))],
            "0 of 1 file sent; a.pdf: not allowed: no files here; kept as #17: <https://a.example/links/17_x> (for 7 days; a new one: /resend 17)",
        ),
        (
            "its links were ended",
            vec![large(UNLINKED, "a.mov"), large(2, "b.mov")],
            "0 of 2 files sent; a.mov (64 MB) and b.mov (64 MB) are over the limit of 50 MB here; kept as #2: <https://a.example/links/2_x> (for 7 days; a new one: /resend 2); the rest is kept as #99: /resend 99",
        ),
        (
            "two too large",
            vec![large(1, "a.mov"), large(2, "b.mov")],
            "0 of 2 files sent; a.mov (64 MB) and b.mov (64 MB) are over the limit of 50 MB here; kept as #1: <https://a.example/links/1_x>, #2: <https://a.example/links/2_x> (for 7 days; new ones: /resend 1, /resend 2)",
        ),
        (
            "only what another place would take",
            vec![large(1, "a.mov"), (document(2, "b.mov", 7), unreadable()), (document(3, "c.mov", 7), doubtful())],
            "0 of 3 files sent, 1 in doubt:\n- a.mov is 64 MB, the limit here is 50 MB; kept as #1: <https://a.example/links/1_x> (for 7 days; a new one: /resend 1)\n- b.mov: the file can't be read: gone; kept as #2: /resend 2\n- c.mov may have arrived: no answer; kept as #3: /resend 3",
        ),
        (
            "more than are named",
            (1..=7).map(|n| large(n, "a.mov")).collect(),
            "0 of 7 files sent; a.mov (64 MB), a.mov (64 MB), a.mov (64 MB), a.mov (64 MB), a.mov (64 MB) and 2 more are over the limit of 50 MB here; kept as #1: <https://a.example/links/1_x>, #2: <https://a.example/links/2_x>, #3: <https://a.example/links/3_x>, #4: <https://a.example/links/4_x>, #5: <https://a.example/links/5_x> (for 7 days; new ones: /resend 1, /resend 2, /resend 3, /resend 4, /resend 5); the rest is kept as #6, #7: /resend 6, /resend 7",
        ),
    ] {
        assert_eq!(notice_with(&parts, &link).as_deref(), Some(expected), "{case}");
    }
}

#[test]
fn notice_links_stay_complete_within_size_limit() {
    for files in 1..=40 {
        let one_reason = |n| (document(n, &format!("{n}.mov"), 64_000_000), failed(too_large()));
        let many = |n| (document(n, &format!("{n}.mov"), 7), failed(refused(&format!("no {n}"))));
        for parts in [(1..=files).map(one_reason).collect::<Vec<_>>(), (1..=files).map(many).collect()] {
            let plain = notice(&parts).expect("something failed");
            let told = notice_with(&parts, &long_link).expect("something failed");
            assert!(told.len() < 1_700.max(plain.len() + 1), "{}: {told}", told.len());
            let links: Vec<&str> = told.split('<').skip(1).map(|rest| rest.split('>').next().unwrap_or("")).collect();
            let whole = |link: &&str| (1..=files).any(|n| long_link(&file(n, "a", "", 1)).as_deref() == Some(*link));
            assert!(links.iter().all(whole), "{told}");
            assert!(files > 5 || !links.is_empty(), "{told}");
            let named = |text: &str| (1..=files).filter(|n| text.contains(&format!(" {n}.mov"))).count();
            assert_eq!(named(&told), named(&plain), "no name is left out for a link");
        }
    }
}

#[test]
fn what_was_replaced_counts_through_its_children() {
    let album = PartContent::Album {
        items: (1..=2).map(|n| item(file(n, "a.jpg", "image/jpeg", 1), FileForm::Photo)).collect(),
    };
    let replaced = PartState::Replaced { by: vec![PartId(Uuid::from_u128(11)), PartId(Uuid::from_u128(12))] };
    let told = notice(&[
        (album, replaced),
        (document(1, "a.jpg", 1), sent()),
        (document(2, "b.jpg", 1), failed(refused("no"))),
    ]);
    assert_eq!(told.as_deref(), Some("1 of 2 files sent; b.jpg: refused: no; kept as #2: /resend 2"));
}

#[test]
fn failed_voice_is_announced_despite_written_text() {
    let voice = PartContent::Voice {
        text: "x".to_owned(),
        in_text: false,
        prepared: None,
        as_file: false,
        caption: String::new(),
    };
    let replaced = PartState::Replaced { by: vec![PartId(Uuid::from_u128(11)), PartId(Uuid::from_u128(12))] };
    let given_up = failed(FailureReason::SynthesisFailed { reason: "no voice is configured".into() });
    let told =
        notice(&[(voice.clone(), replaced), (PartContent::from_text("x"), PartState::Pending), (voice, given_up)]);
    assert_eq!(told.as_deref(), Some("The voice message could not be turned into speech: no voice is configured."));
}

#[test]
fn a_hundred_failures_are_one_short_notice() {
    for one_reason in [true, false] {
        let parts: Vec<_> = (1..=100)
            .map(|n| {
                let reason = if one_reason { "no".to_owned() } else { format!("no {n}: {}", "long words ".repeat(99)) };
                (document(n, &format!("{}{n}.mov", "long_".repeat(30)), 1), failed(refused(&reason)))
            })
            .collect();
        let told = notice(&parts).expect("something failed");
        assert!(told.len() < 1_900, "{}", told.len());
        assert!(told.starts_with("0 of 100 files sent") && told.contains("/files"), "{told}");
    }
}

#[test]
fn the_model_is_told_the_same_without_markdown() {
    let error = |content, reason| undelivered(content, reason, true);
    let errors = [
        error(document(17, "my_big.mov", 64_000_000), too_large()),
        error(PartContent::Notice { text: "x".to_owned() }, refused("x")),
    ];
    insta::assert_snapshot!(receipt(&errors).expect("a file failed"), @r"
    Not delivered from your earlier replies; the person was told:
    - my_big.mov is 64 MB, the limit here is 50 MB; kept as #17: /resend 17
    ");
    let discarded = [error(PartContent::from_text("x"), FailureReason::Discarded)];
    insta::assert_snapshot!(receipt(&discarded).expect("a text failed"), @r"
    Not delivered from your earlier replies; the person has NOT been told:
    - the text could not be sent: discarded by the operator
    ");
    assert_eq!(receipt(&errors[1..]), None);
    assert_eq!(receipt(&[]), None);
}

fn undelivered(content: PartContent, reason: FailureReason, notice_arrived: bool) -> UndeliveredPart {
    let (part, turn) = (PartId(Uuid::from_u128(1)), TurnId(Uuid::from_u128(2)));
    UndeliveredPart { part, turn, content, reason, notice_arrived, text_arrived: false }
}

/// Catches: a model that relies on a person who knows nothing, as the notice did not arrive either.
#[test]
fn the_model_is_told_what_the_person_knows() {
    let of_turn = |turn, error| UndeliveredPart { turn: TurnId(Uuid::from_u128(turn)), ..error };
    let text = || PartContent::from_text("x");
    let known = of_turn(3, undelivered(document(17, "big.mov", 64_000_000), too_large(), true));
    let unknown = of_turn(4, undelivered(text(), refused("x"), false));
    let partial = UndeliveredPart { text_arrived: true, ..of_turn(5, undelivered(text(), refused("y"), false)) };
    let forbidden = FailureReason::Forbidden { reason: "the topic no longer exists".to_owned() };
    let outside = of_turn(6, undelivered(text(), forbidden, false));
    insta::assert_snapshot!(receipt(&[known.clone(), unknown, partial, outside]).expect("much failed"), @r"
    Not delivered from your earlier replies; the person has NOT been told:
    - the text could not be sent: refused: x
    - part of the text could not be sent: refused: y
    - the text could not be sent: not allowed: the topic no longer exists

    Not delivered from your earlier replies; the person was told:
    - big.mov is 64 MB, the limit here is 50 MB; kept as #17: /resend 17
    ");
    let told = receipt(&[known]).expect("a file failed");
    assert!(!told.contains("NOT"), "{told}");
}

/// Catches: a text of which nothing went that is reported as a part of a text.
#[test]
fn the_model_is_told_whether_any_of_a_text_arrived() {
    let lost = |text_arrived, reason| UndeliveredPart {
        text_arrived,
        ..undelivered(PartContent::from_text("x"), reason, true)
    };
    let doubtful = || FailureReason::MayHaveArrived { reason: "no answer".to_owned() };
    let lines = |errors: &[UndeliveredPart]| {
        let receipt = receipt(errors).expect("a text failed");
        receipt.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    for (errors, expected) in [
        (vec![lost(true, refused("x"))], vec!["- part of the text could not be sent: refused: x"]),
        (vec![lost(false, refused("x")), lost(false, refused("x"))], vec!["- the text could not be sent: refused: x"]),
        (vec![lost(false, doubtful())], vec!["- the text may have arrived: no answer"]),
        (
            vec![lost(false, doubtful()), lost(false, refused("x"))],
            vec!["- some of the text may have arrived: no answer", "- some of the text could not be sent: refused: x"],
        ),
    ] {
        assert_eq!(lines(&errors), expected);
    }
}

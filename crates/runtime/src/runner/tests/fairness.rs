//! Somebody with many conversations leaves room to others.

use satchel_domain::{
    AttachmentId, AttachmentSource, Ending, Filename, HistoryMessage, InboundMessage, MediaInfo, NewAttachment,
    OutgoingResponse, Sender, Sha256, StoredBlob, Timestamp, part::Plan,
};
use satchel_ports::{
    Inbox, Leases, Turns,
    ledger::{ClaimMode, CompletedTurn, ForgetRequest, HistoryChange, ReleaseMode, Storage},
};
use satchel_wait::wait_until;
use uuid::Uuid;

use super::stage::{Stage, message, place};

fn from(sender: &str, conversation: &str, text: &str) -> InboundMessage {
    let said = message(&place(conversation), conversation, text);
    InboundMessage { sender: Sender::new(sender, "Ada"), ..said }
}

#[tokio::test(flavor = "multi_thread")]
async fn turn_limit_delays_only_its_own_person() {
    let stage = Stage { turns_per_person: 2, ..Stage::new() };
    let process = stage.start().await;
    for conversation in ["first", "second"] {
        process.hears(&from("7", conversation, "hang")).await;
    }
    wait_until("the person's turns", || *stage.hanging.borrow() == 2).await;
    process.hears(&from("7", "third", "hello")).await;
    process.hears(&from("8", "other", "hello")).await;
    wait_until("somebody else's answer", || !stage.chat.log(&place("other")).is_empty()).await;
    assert_eq!(stage.chat.log(&place("third")), Vec::<String>::new(), "it waits for the person's own turns");

    let stop =
        |conversation: &str| InboundMessage { key: format!("stop {conversation}"), ..from("7", conversation, "/stop") };
    process.hears(&stop("first")).await;
    wait_until("the turn that waited", || !stage.chat.log(&place("third")).is_empty()).await;
    // A process that stops would wait for what hangs.
    process.hears(&stop("second")).await;
    wait_until("the end of the last turn", || !stage.chat.log(&place("second")).is_empty()).await;
    process.stops().await;
}

/// A file that is forgotten while a turn waits for its slot is named to the model no more. (The model here repeats all that
/// people said since it last spoke.)
#[tokio::test(flavor = "multi_thread")]
async fn waiting_turn_names_no_forgotten_file() {
    let stage = Stage { turns_per_person: 1, ..Stage::new() };
    let other = stage.open().await;
    let received = other.receive(&from("7", "second", "look"), ClaimMode::IfFree).await.unwrap();
    let (lease, turn) = (received.claimed.unwrap().lease, received.turn);
    let blob = StoredBlob { sha256: Sha256([7; 32]), bytes: 3, mime: "text/plain".into(), media: MediaInfo::default() };
    let name = Filename::from_untrusted("secret.txt");
    let file = NewAttachment::new(AttachmentId(Uuid::from_u128(9)), AttachmentSource::User, name, blob, Timestamp(5));
    let attachments = other.register_files(turn, &[file]).await.unwrap();
    let said = HistoryMessage::Person { text: "look".into(), attachments, refused: Vec::new(), origin: None };
    let completed = CompletedTurn {
        turn,
        ending: Ending::Done,
        response: OutgoingResponse::from_text("seen"),
        plan: Plan { parts: Vec::new() },
        history: HistoryChange::Append(vec![said]),
        setting: None,
        steered: Vec::new(),
        injected_texts: Default::default(),
        reported_failures: Vec::new(),
        reply_to: None,
        changes: Vec::new(),
        answered: None,
        hands_over: false,
    };
    other.complete_turn(&lease, &completed).await.unwrap();
    other.release(&lease, ReleaseMode::Always).await.unwrap();

    let process = stage.start().await;
    process.hears(&from("7", "first", "hang")).await;
    wait_until("the first turn", || *stage.hanging.borrow() == 1).await;
    process.hears(&InboundMessage { key: "again".into(), ..from("7", "second", "and now") }).await;
    wait_until("the second one waits", || process.slots.waiting() == 1).await;
    let request = ForgetRequest { conversation: place("second"), number: 1, restricted_to: None };
    process.ledger.forget_file(&request).await.unwrap();
    process.hears(&InboundMessage { key: "stop".into(), ..from("7", "first", "/stop") }).await;
    wait_until("the answer", || !stage.chat.log(&place("second")).is_empty()).await;
    let answer = stage.chat.log(&place("second")).join("");
    assert!(answer.contains("and now") && answer.contains("look") && !answer.contains("secret.txt"), "{answer}");
    process.stops().await;
}

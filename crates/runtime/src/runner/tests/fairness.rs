//! Somebody with many conversations leaves room to others.

use satchel_domain::{InboundMessage, Sender};

use super::stage::{Stage, message, place, until};

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
    until("the person's turns", || *stage.hanging.borrow() == 2).await;
    process.hears(&from("7", "third", "hello")).await;
    process.hears(&from("8", "other", "hello")).await;
    until("somebody else's answer", || !stage.chat.log(&place("other")).is_empty()).await;
    assert_eq!(stage.chat.log(&place("third")), Vec::<String>::new(), "it waits for the person's own turns");

    let stop = InboundMessage { key: "stop".into(), ..from("7", "first", "/stop") };
    process.hears(&stop).await;
    until("the turn that waited", || !stage.chat.log(&place("third")).is_empty()).await;
    process.stops().await;
}

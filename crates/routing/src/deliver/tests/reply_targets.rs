//! What depends on the place where a reply goes: which message each of its messages answers, and what is taken there.

use super::*;

fn after(id: u128, position: u32, content: PartContent) -> Part {
    Part { position, reply_to: Some(MessageRef("question".into())), ..part(id, content) }
}

fn arrived_as(message: &str) -> Answer {
    Ok(vec![MessageRef(message.into())])
}

#[tokio::test(start_paused = true)]
async fn files_reply_to_last_message_on_chaining_channels() {
    let files = || PartContent::Album { items: vec![photo(1), photo(2)] };
    let parts = vec![
        after(1, 0, PartContent::from_text("one")),
        after(2, 1, PartContent::from_text("two")),
        after(3, 2, files()),
        after(4, 3, PartContent::File(photo(3))),
        Part { turn: TurnId(Uuid::from_u128(101)), ..after(5, 0, PartContent::File(photo(4))) },
    ];
    let answers = || ["m1", "m2", "m3", "m4", "m5"].map(arrived_as).to_vec();
    let sends = |log: Vec<String>| log.into_iter().filter(|line| line.starts_with("send")).collect::<Vec<_>>();
    let chained = DeliveryHarness { capabilities: tables::discord(), ..DeliveryHarness::new(parts.clone(), answers()) };
    assert_eq!(
        sends(chained.log().await),
        ["send one to question", "send two", "send album to m2", "send file to m3", "send file to question"]
    );
    let plain = DeliveryHarness::new(parts, answers()).log().await;
    assert!(sends(plain).iter().all(|line| line.ends_with("to question")));
}

#[tokio::test(start_paused = true)]
async fn files_reply_to_last_message_after_restart() {
    let last_sent_before = |id, position, message: &str| Part {
        state: PartState::Sent { messages: vec![MessageRef(message.into())] },
        ..after(id, position, PartContent::from_text("said"))
    };
    let file = after(9, 2, PartContent::File(photo(3)));
    let mut stage =
        DeliveryHarness { capabilities: tables::discord(), ..DeliveryHarness::new(vec![file.clone()], vec![sent()]) };
    stage.known =
        vec![last_sent_before(1, 0, "m1"), last_sent_before(2, 1, "m2"), file.clone(), last_sent_before(3, 3, "m3")];
    assert_eq!(stage.log().await[1], "send file to m2");
    let mut stage =
        DeliveryHarness { capabilities: tables::discord(), ..DeliveryHarness::new(vec![file.clone()], vec![sent()]) };
    stage.known = vec![Part { state: PartState::Replaced { by: Vec::new() }, ..last_sent_before(1, 0, "") }, file];
    assert_eq!(stage.log().await[1], "send file to question", "nothing of the reply is to be seen");
}

#[tokio::test(start_paused = true)]
async fn learned_limit_applies_to_replacement_parts() {
    let content = PartContent::Text { text: "both".into(), markup: Markup::Rich, files: vec![photo(1), photo(2)] };
    let capabilities = tables::discord();
    let learned = Some(ChannelCapabilities { file_bytes: 5, ..tables::discord() });
    let answers = vec![refused(Refusal::TooLarge { limit: None })];
    let log =
        DeliveryHarness { capabilities, learned, ..DeliveryHarness::new(vec![part(1, content)], answers) }.log().await;
    assert_eq!(log[2], "settle replaced by text, file!, file! with notice");
}

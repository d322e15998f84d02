//! What a channel promises about looking for a send that was left in doubt.

use super::*;

fn request(part: &SendRequest, after: Option<MessageRef>, recorded: RecordedMessages) -> LookupRequest {
    LookupRequest { part: part.clone(), range: LookupRange::After(after), attempts: 1, recorded }
}

fn found(messages: &[MessageRef]) -> LookupOutcome {
    LookupOutcome::Found { messages: messages.to_vec(), duplicates: Vec::new() }
}

/// Looks through the history; the message that was found, if there was one.
async fn look(fixture: &dyn ChannelFixture, part: &SendRequest, after: Option<MessageRef>) -> Option<LookupOutcome> {
    let looked = fixture.channel().find_sent(&request(part, after, RecordedMessages::default())).await;
    Some(looked.unwrap()).filter(|outcome| !matches!(outcome, LookupOutcome::Uncertain { .. }))
}

/// Catches: a look-up that takes the first of several, forgets where to begin, looks at words only, or calls a part absent
/// that may have been overlooked.
pub async fn history_look_up_returns_only_unique_match(fixture: &dyn ChannelFixture) {
    let wanted = text(fixture, 1, "where am I");
    match capabilities(fixture).look_up {
        LookupRule::MessageIds => return,
        LookupRule::None => {
            send(fixture, &wanted).await;
            assert_eq!(look(fixture, &wanted, None).await, None);
            return;
        }
        LookupRule::History => {}
    }
    assert_eq!(look(fixture, &wanted, None).await, None, "nothing was sent");
    let before = send(fixture, &text(fixture, 2, "something else")).await.pop();
    let ids = send(fixture, &wanted).await;
    assert_eq!(look(fixture, &wanted, before.clone()).await, Some(found(&ids)));
    assert_eq!(look(fixture, &wanted, ids.last().cloned()).await, None, "it stands before");
    let files = vec![file(fixture, "a.txt", "a").await];
    let with_file = PartContent::Text { text: "where am I".to_owned(), markup: Markup::Rich, files };
    assert_eq!(look(fixture, &part(fixture, 3, with_file), before.clone()).await, None, "the file is missing");
    send(fixture, &text(fixture, 4, "where am I")).await;
    assert_eq!(look(fixture, &wanted, before).await, None, "two match");
}

/// Sends a part under trouble, after another one, and looks for it by the ids behind that one.
async fn look_by_ids(fixture: &dyn ChannelFixture, trouble: ChannelFault) -> Option<LookupOutcome> {
    if capabilities(fixture).look_up != LookupRule::MessageIds {
        return None;
    }
    let before = send(fixture, &text(fixture, 9, "before")).await.pop();
    let answer = send_under(fixture, trouble, "where am I").await?;
    assert!(matches!(answer, Err(SendError::InDoubt { .. })), "{answer:?}");
    let wanted = text(fixture, 1, "where am I");
    Some(fixture.channel().find_sent(&request(&wanted, before, RecordedMessages::default())).await.unwrap())
}

/// Catches: a message that arrived and is overlooked, one that did not and is taken for another, and a doubt that stays.
pub async fn id_look_up_tells_whether_part_arrived(fixture: &dyn ChannelFixture) {
    if let Some(outcome) = look_by_ids(fixture, ChannelFault::AnswerLost).await {
        let arrived = fixture.arrived().await;
        assert_eq!(arrived.len(), 2, "{arrived:?}");
        assert_eq!(outcome, found(&[arrived[1].message.clone()]));
    }
    if let Some(outcome) = look_by_ids(fixture, ChannelFault::Reset).await {
        assert_eq!(outcome, LookupOutcome::Absent);
    }
}

/// Catches: a message that the ledger knows and that is taken for the one in doubt.
pub async fn id_look_up_skips_recorded_messages(fixture: &dyn ChannelFixture) {
    if capabilities(fixture).look_up != LookupRule::MessageIds {
        return;
    }
    let before = send(fixture, &text(fixture, 9, "before")).await.pop();
    // As if another process had sent it: its answer is lost on this one.
    if send_under(fixture, ChannelFault::AnswerLost, "a question").await.is_none() {
        return;
    }
    let arrived = fixture.arrived().await;
    let message = arrived.last().unwrap().message.clone();
    let other = vec![RecordedMessage { conversation: fixture.conversation(), message }];
    let recorded = RecordedMessages { other, ..RecordedMessages::default() };
    let wanted = text(fixture, 1, "never sent");
    let looked = fixture.channel().find_sent(&request(&wanted, before, recorded)).await;
    assert_eq!(looked, Ok(LookupOutcome::Absent));
}

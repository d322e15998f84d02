//! What a channel promises about looking for a send that was left in doubt.

use super::*;

fn look_up_request(request: &PostRequest, after: Option<MessageRef>, recorded: RecordedMessages) -> LookupRequest {
    LookupRequest { part: request.clone(), range: LookupRange::After(after), attempts: 1, recorded }
}

fn found_outcome(messages: &[MessageRef]) -> LookupOutcome {
    LookupOutcome::Found { messages: messages.to_vec(), duplicates: Vec::new() }
}

/// Looks through the history; the message that was found, if there was one.
async fn look_up_history(
    fixture: &dyn ChannelFixture,
    request: &PostRequest,
    after: Option<MessageRef>,
) -> Option<LookupOutcome> {
    let outcome = fixture.channel().find_sent(&look_up_request(request, after, RecordedMessages::default())).await;
    Some(outcome.unwrap()).filter(|outcome| !matches!(outcome, LookupOutcome::Uncertain { .. }))
}

/// Catches: a look-up that takes the first of several, forgets where to begin, looks at words only, or calls a part
/// absent that may have been overlooked.
pub async fn history_look_up_returns_only_unique_match(fixture: &dyn ChannelFixture) {
    let wanted = text_request(fixture, 1, "where am I");
    match capabilities(fixture).look_up {
        LookupRule::MessageIds => return,
        LookupRule::None => {
            send(fixture, &wanted).await;
            assert_eq!(look_up_history(fixture, &wanted, None).await, None);
            return;
        }
        LookupRule::History => {}
    }
    assert_eq!(look_up_history(fixture, &wanted, None).await, None, "nothing was sent");
    let before = send(fixture, &text_request(fixture, 2, "something else")).await.pop();
    let ids = send(fixture, &wanted).await;
    assert_eq!(look_up_history(fixture, &wanted, before.clone()).await, Some(found_outcome(&ids)));
    assert_eq!(look_up_history(fixture, &wanted, ids.last().cloned()).await, None, "it stands before");
    let files = vec![file_item(fixture, "a.txt", "a").await];
    let with_file = PartContent::Text { text: "where am I".to_owned(), markup: Markup::Rich, files };
    assert_eq!(
        look_up_history(fixture, &part_request(fixture, 3, with_file), before.clone()).await,
        None,
        "the file is missing"
    );
    send(fixture, &text_request(fixture, 4, "where am I")).await;
    assert_eq!(look_up_history(fixture, &wanted, before).await, None, "two match");
}

/// Sends a part under trouble, after another one, and looks for it by the ids behind that one.
async fn look_up_by_ids(fixture: &dyn ChannelFixture, fault: ChannelFault) -> Option<LookupOutcome> {
    if capabilities(fixture).look_up != LookupRule::MessageIds {
        return None;
    }
    let before = send(fixture, &text_request(fixture, 9, "before")).await.pop();
    let outcome = send_with_fault(fixture, fault, "where am I").await?;
    assert!(matches!(outcome, Err(SendError::InDoubt { .. })), "{outcome:?}");
    let request_part = text_request(fixture, 1, "where am I");
    Some(
        fixture
            .channel()
            .find_sent(&look_up_request(&request_part, before, RecordedMessages::default()))
            .await
            .unwrap(),
    )
}

/// Catches: a message that arrived and is overlooked, one that did not and is taken for another, and a doubt that stays.
pub async fn id_look_up_reports_arrival(fixture: &dyn ChannelFixture) {
    if let Some(outcome) = look_up_by_ids(fixture, ChannelFault::ResponseLost).await {
        let arrived = fixture.arrived_messages().await;
        assert_eq!(arrived.len(), 2, "{arrived:?}");
        assert_eq!(outcome, found_outcome(&[arrived[1].message.clone()]));
    }
    if let Some(outcome) = look_up_by_ids(fixture, ChannelFault::Reset).await {
        assert_eq!(outcome, LookupOutcome::Absent);
    }
}

/// Catches: a message that the ledger knows and that is taken for the one in doubt.
pub async fn id_look_up_skips_recorded_messages(fixture: &dyn ChannelFixture) {
    if capabilities(fixture).look_up != LookupRule::MessageIds {
        return;
    }
    let before = send(fixture, &text_request(fixture, 9, "before")).await.pop();
    // As if another process had sent it: its answer is lost on this one.
    if send_with_fault(fixture, ChannelFault::ResponseLost, "a question").await.is_none() {
        return;
    }
    let arrived = fixture.arrived_messages().await;
    let message = arrived.last().unwrap().message.clone();
    let other = vec![RecordedMessage { conversation: fixture.conversation(), message }];
    let recorded = RecordedMessages { other, ..RecordedMessages::default() };
    let wanted = text_request(fixture, 1, "never sent");
    let looked = fixture.channel().find_sent(&look_up_request(&wanted, before, recorded)).await;
    assert_eq!(looked, Ok(LookupOutcome::Absent));
}

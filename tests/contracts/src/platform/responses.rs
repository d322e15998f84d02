//! What the platform's responses mean, for everything that is sent, and what is the same when it is done again.

use satchel_domain::capabilities::VoiceRule;

use super::*;

/// Catches: a refusal that is retried for ever, one that gives up what a retry would send, and a wait that is dropped.
pub async fn response_table_decides_outcome<F: PlatformFixture>() {
    let rows = F::response_rows();
    assert!(rows.iter().any(|row| matches!(row.outcome, ExpectedOutcome::NotSent { retry_after_ms: Some(_) })));
    for ResponseRow { fault, kinds, outcome } in rows {
        assert!(!kinds.is_empty(), "{fault:?} is tested by nothing");
        assert_outcome::<F>(kinds, &fault, &outcome).await;
    }
}

/// Catches: "not modified" taken for a refusal, and an edit that sends anew.
pub async fn same_edit_again_succeeds<F: PlatformFixture>() {
    let fixture = F::start().await;
    let channel = fixture.channel();
    let sent = send_text(&fixture, "same").await;
    for text in ["same", "grown", "grown"] {
        let edited = channel.edit(&sent[0], &part(&fixture, PartContent::from_text(text))).await;
        assert_eq!(edited, Ok(sent.clone()), "{text}");
    }
    let arrived = fixture.arrived_messages().await;
    assert_eq!(arrived.iter().map(|message| message.text.as_str()).collect::<Vec<_>>(), ["grown"]);
}

/// Catches: a deletion that fails because it was done before.
pub async fn same_deletion_again_succeeds<F: PlatformFixture>() {
    let fixture = F::start().await;
    let channel = fixture.channel();
    let sent = send_text(&fixture, "for now").await;
    assert_eq!(channel.delete(&fixture.conversation(), &sent[0]).await, Ok(()));
    assert_eq!(channel.delete(&fixture.conversation(), &sent[0]).await, Ok(()), "it is gone already");
    assert_eq!(fixture.arrived_messages().await, []);
}

/// Catches: an edit that is retried although its message can never show the content, so that the part is lost.
pub async fn edit_of_missing_or_foreign_message_reports_gone<F: PlatformFixture>() {
    let fixture = F::start().await;
    let channel = fixture.channel();
    let sent = send_text(&fixture, "mine").await;
    let gone = ExpectedOutcome::Refused(Refusal::TargetGone);
    let voice = part(&fixture, fixture.content(SendKind::Voice).await);
    assert_eq!(ExpectedOutcome::from(channel.edit(&sent[0], &voice).await), gone, "a text can't become a voice");
    fixture.person_deletes(&sent[0]);
    for message in [sent[0].clone(), MessageRef("not a number".to_owned()), fixture.foreign_message()] {
        let edited = channel.edit(&message, &part(&fixture, PartContent::from_text("new"))).await;
        assert_eq!(ExpectedOutcome::from(edited), gone, "{message:?}");
    }
    for message in [sent[0].clone(), MessageRef("not a number".to_owned())] {
        assert_eq!(channel.delete(&fixture.conversation(), &message).await, Ok(()), "{message:?}");
    }
}

/// Catches: a voice message that is refused again each time, and one refusal that silences every conversation.
pub async fn forbidden_voice_is_cached_per_conversation<F: PlatformFixture>() {
    let fixture = F::start().await;
    let channel = fixture.channel();
    fixture.forbid_voice();
    let voice = fixture.content(SendKind::Voice).await;
    let refused = channel.post(&part(&fixture, voice.clone())).await;
    assert_eq!(ExpectedOutcome::from(refused), ExpectedOutcome::Refused(Refusal::VoiceForbidden));
    let rule = |conversation: &ConversationId| channel.capabilities(conversation).voice;
    assert_eq!(
        (rule(&fixture.conversation()), rule(&fixture.other_conversation())),
        (VoiceRule::AudioFile, VoiceRule::Message)
    );
    let PartContent::Voice { text, in_text, prepared, caption, .. } = voice else { panic!("it is a voice") };
    let as_file = PartContent::Voice { text, in_text, prepared, as_file: true, caption };
    channel.post(&part(&fixture, as_file)).await.unwrap();
    assert_eq!(fixture.arrived_messages().await.len(), 1);
}

/// Catches: a conversation whose limit is forgotten at the next send, and a wait in state sending, where a part would
/// be in doubt after a crash.
pub async fn rate_limit_is_honoured_until_it_ends<F: PlatformFixture>() {
    let checks = F::start_paced().await.into_iter().map(|fixture| async move {
        let channel = fixture.channel();
        let started = tokio::time::Instant::now();
        fixture.script_next(PlatformOperation::Send, F::fault(PlatformFault::RateLimited { retry_after_ms: 3_000 }));
        let first = channel.post(&part(&fixture, PartContent::from_text("too soon"))).await;
        assert_eq!(ExpectedOutcome::from(first), ExpectedOutcome::NotSent { retry_after_ms: Some(3_000) });
        let later = part(&fixture, PartContent::from_text("later"));
        let outcome = channel.post(&later).await;
        let Err(SendError::NotSent { retry_after_ms: Some(wait), .. }) = outcome else { panic!("{outcome:?}") };
        assert!((2_000..=3_001).contains(&wait), "{wait}");
        assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
        assert_eq!(fixture.send_requests(), 1, "the platform was asked meanwhile");
        channel.probe().await.unwrap();
        let elsewhere = part_in(fixture.other_conversation(), PartContent::from_text("not held up"));
        channel.post(&elsewhere).await.unwrap();
        // The channel may be ready a moment after the wait that it named.
        while let Err(error) = channel.post(&later).await {
            let SendError::NotSent { retry_after_ms: Some(wait), .. } = error else { panic!("{error:?}") };
            // As told.
            tokio::time::sleep(Duration::from_millis(wait)).await;
        }
        assert!(started.elapsed() >= Duration::from_secs(3), "{:?}", started.elapsed());
        assert_eq!(fixture.send_requests(), 3, "the platform was asked in between");
        assert_eq!(fixture.arrived_messages().await.len(), 1);
    });
    join_all(checks).await;
}

//! Promises about the settings of a conversation: its agent, its persona, its model, and whether its replies are spoken or in
//! blocks.

use satchel_domain::{InboundMessage, Timestamp};
use satchel_ports::ledger::{
    ClaimMode, CompletedTurn, ConversationSetting, ConversationSettings, LedgerError, ReleaseMode, RenameOutcome,
    WorkFilter,
};

use super::{LedgerFixture, assert_lost, complete_with_setting, completed_turn, conversation, message, receive};

fn agent(name: &str) -> ConversationSetting {
    ConversationSetting::Agent(Some(name.to_owned()))
}

/// Catches: a choice that is forgotten at a restart, that holds for every conversation, or that can't be withdrawn.
pub async fn chosen_agent_is_per_conversation(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (here, _) = receive(&ledger, &message("1", "hello")).await;
    let elsewhere = InboundMessage { conversation: conversation("console:b"), ..message("2", "hello") };
    ledger.inbox.receive(&elsewhere, ClaimMode::IfFree).await.unwrap().claimed.unwrap();
    assert_eq!(ledger.turns.next_turn(&here).await.unwrap().unwrap().settings.agent, None, "nobody has chosen");
    complete_with_setting(&ledger, &here, agent("cook")).await;
    ledger.inbox.receive(&message("3", "another"), ClaimMode::IfFree).await.unwrap();
    complete_with_setting(&ledger, &here, agent("kids")).await;
    ledger.inbox.receive(&message("4", "and now?"), ClaimMode::IfFree).await.unwrap();
    drop(ledger);
    fixture.after_death();
    let ledger = fixture.open().await;
    let mut leases = Vec::new();
    while let Some(claimed) =
        ledger.leases.claim_lane(&[here.conversation.channel().clone()], WorkFilter::Any).await.unwrap()
    {
        leases.push(claimed.lease);
    }
    assert_eq!(leases.len(), 2);
    for lease in &leases {
        let agent = ledger.turns.next_turn(lease).await.unwrap().unwrap().settings.agent;
        let expected = (lease.conversation == here.conversation).then_some("kids");
        assert_eq!(agent.as_deref(), expected, "{lease:?}");
    }
    let lease = leases.iter().find(|lease| lease.conversation == here.conversation).unwrap();
    complete_with_setting(&ledger, lease, ConversationSetting::Agent(None)).await;
    ledger.inbox.receive(&message("5", "and now?"), ClaimMode::IfFree).await.unwrap();
    for lease in &leases {
        assert_eq!(ledger.turns.next_turn(lease).await.unwrap().unwrap().settings.agent, None);
    }
}

/// Catches: a setting that is stored without the end of the turn that changes it, or by whoever has lost the lane; and a
/// queued turn that was read before.
pub async fn setting_is_stored_with_its_turn(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lost, turn) = receive(&ledger, &message("1", "/agent kids")).await;
    ledger.inbox.receive(&message("2", "and now?"), ClaimMode::IfFree).await.unwrap();
    drop(ledger);
    fixture.after_death();
    let ledger = fixture.open().await;
    let lease =
        ledger.leases.claim_lane(&[lost.conversation.channel().clone()], WorkFilter::Any).await.unwrap().unwrap().lease;
    let choosing = CompletedTurn { setting: Some(agent("kids")), ..completed_turn(turn, Vec::new()) };
    assert_lost(ledger.turns.complete_turn(&lost, &choosing).await, "complete_turn");
    assert_eq!(ledger.turns.next_turn(&lease).await.unwrap().unwrap().settings.agent, None, "its turn has not ended");
    ledger.turns.complete_turn(&lease, &choosing).await.unwrap();
    assert_eq!(ledger.turns.next_turn(&lease).await.unwrap().unwrap().settings.agent.as_deref(), Some("kids"));
    let again = CompletedTurn { setting: Some(agent("cook")), ..completed_turn(turn, Vec::new()) };
    let again = ledger.turns.complete_turn(&lease, &again).await;
    assert!(matches!(again, Err(LedgerError::Unknown { .. })), "{again:?}");
    assert_eq!(ledger.turns.next_turn(&lease).await.unwrap().unwrap().settings.agent.as_deref(), Some("kids"));
}

/// Catches: a turn that is handed over with its claim and lacks the choice, or has one that was changed since.
pub async fn handed_over_turn_has_chosen_agent(fixture: &impl LedgerFixture) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let (lease, _) = receive(&one, &message("1", "hello")).await;
    complete_with_setting(&one, &lease, agent("kids")).await;
    assert!(one.leases.release(&lease, ReleaseMode::IfIdle).await.unwrap());
    let received = two.inbox.receive(&message("2", "and this?"), ClaimMode::IfFree).await.unwrap();
    let claimed = received.claimed.expect("the lane was released");
    assert_eq!(claimed.turn.expect("it may start").settings.agent.as_deref(), Some("kids"));
    complete_with_setting(&two, &claimed.lease, ConversationSetting::Agent(None)).await;
    assert!(two.leases.release(&claimed.lease, ReleaseMode::IfIdle).await.unwrap());
    let received = one.inbox.receive(&message("3", "and now?"), ClaimMode::IfFree).await.unwrap();
    let turn = received.claimed.expect("the lane was released").turn.expect("it may start");
    assert_eq!(turn.settings.agent, None, "another process has withdrawn the choice since");
}

/// Catches: a group that gets another agent, with other tools, or loses its persona, by becoming a supergroup.
pub async fn renamed_conversation_keeps_its_settings(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (old, new) = (conversation("telegram:-5"), conversation("telegram:-1005"));
    let of_group = |key: &str| InboundMessage { conversation: old.clone(), ..message(key, "") };
    let (lease, _) = receive(&ledger, &of_group("1")).await;
    complete_with_setting(&ledger, &lease, agent("kids")).await;
    ledger.inbox.receive(&of_group("2"), ClaimMode::Never).await.unwrap();
    complete_with_setting(&ledger, &lease, ConversationSetting::Persona(Some("A pirate.".to_owned()))).await;
    ledger.inbox.receive(&of_group("2b"), ClaimMode::Never).await.unwrap();
    complete_with_setting(&ledger, &lease, ConversationSetting::Blocks(Some(true))).await;
    assert!(ledger.leases.release(&lease, ReleaseMode::IfIdle).await.unwrap());
    ledger.inbox.receive(&of_group("3"), ClaimMode::Never).await.unwrap();
    // Back, over the empty conversation that keeps the old name, and there again.
    for (from, to) in [(&old, &new), (&new, &old), (&old, &new)] {
        assert_eq!(ledger.inbox.rename_conversation(from, to).await.unwrap(), RenameOutcome::Renamed);
    }
    let lease = ledger
        .leases
        .claim_lane(&[new.channel().clone()], WorkFilter::Any)
        .await
        .unwrap()
        .expect("its turn waits")
        .lease;
    assert_eq!(lease.conversation, new);
    let renamed = ledger.turns.next_turn(&lease).await.unwrap().unwrap().settings;
    let kept = (renamed.agent.as_deref(), renamed.persona.as_deref(), renamed.blocks);
    assert_eq!(kept, (Some("kids"), Some("A pirate."), Some(true)));
    // The old name has the same settings, and no turns of its own yet; so the conversation can have it again.
    let claimed = ledger.inbox.receive(&of_group("4"), ClaimMode::IfFree).await.unwrap().claimed.unwrap();
    assert_eq!(claimed.turn.unwrap().settings, renamed);
}

/// Catches: a setting that overwrites another one, or that can't be withdrawn alone.
pub async fn each_setting_changes_itself_alone(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, _) = receive(&ledger, &message("1", "hello")).await;
    let mut expected = ConversationSettings::default();
    let name = |name: &str| Some(name.to_owned());
    type Changed = fn(&mut ConversationSettings, ConversationSetting);
    let apply: Changed = |settings, change| match change {
        ConversationSetting::VoiceReplies(on) => settings.voice_replies = on,
        ConversationSetting::Agent(agent) => settings.agent = agent,
        ConversationSetting::Persona(persona) => settings.persona = persona,
        ConversationSetting::Model(model) => settings.model = model,
        ConversationSetting::Blocks(choice) => settings.blocks = choice,
        ConversationSetting::BlocksOffered(at) => settings.blocks_offered_at = Some(at),
    };
    let changes = [
        ConversationSetting::Persona(name("A pirate.\nHe says \u{201c}arr\u{201d}.")),
        ConversationSetting::Model(name("small")),
        ConversationSetting::VoiceReplies(true),
        ConversationSetting::Agent(name("kids")),
        ConversationSetting::BlocksOffered(Timestamp(1_795_818_120_634)),
        ConversationSetting::Blocks(Some(false)),
        ConversationSetting::Persona(name("A gardener.")),
        ConversationSetting::Blocks(Some(true)),
        ConversationSetting::BlocksOffered(Timestamp(1_795_904_520_634)),
        ConversationSetting::Model(None),
        ConversationSetting::Persona(None),
        ConversationSetting::Blocks(None),
        ConversationSetting::VoiceReplies(false),
        ConversationSetting::Agent(None),
    ];
    for (key, change) in (2..).zip(changes) {
        complete_with_setting(&ledger, &lease, change.clone()).await;
        apply(&mut expected, change);
        ledger.inbox.receive(&message(&key.to_string(), "and now?"), ClaimMode::IfFree).await.unwrap();
        assert_eq!(ledger.turns.next_turn(&lease).await.unwrap().unwrap().settings, expected);
    }
}

/// Catches: a wish that is forgotten at a restart, or that holds for every conversation.
pub async fn voice_setting_is_per_conversation(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (here, _) = receive(&ledger, &message("1", "hello")).await;
    let elsewhere = InboundMessage { conversation: conversation("console:b"), ..message("2", "hello") };
    let there = ledger.inbox.receive(&elsewhere, ClaimMode::IfFree).await.unwrap().claimed.unwrap().lease;
    assert!(!ledger.turns.next_turn(&here).await.unwrap().unwrap().settings.voice_replies, "nothing is spoken unasked");
    complete_with_setting(&ledger, &here, ConversationSetting::VoiceReplies(true)).await;
    ledger.inbox.receive(&message("3", "and now?"), ClaimMode::IfFree).await.unwrap();
    drop(ledger);
    fixture.after_death();
    let ledger = fixture.open().await;
    let mut leases = Vec::new();
    while let Some(claimed) =
        ledger.leases.claim_lane(&[here.conversation.channel().clone()], WorkFilter::Any).await.unwrap()
    {
        leases.push(claimed.lease);
    }
    assert_eq!(leases.len(), 2);
    for lease in &leases {
        let voice = ledger.turns.next_turn(lease).await.unwrap().unwrap().settings.voice_replies;
        assert_eq!(voice, lease.conversation == here.conversation, "{lease:?} is not {there:?}");
    }
    let lease = leases.iter().find(|lease| lease.conversation == here.conversation).unwrap();
    complete_with_setting(&ledger, lease, ConversationSetting::VoiceReplies(false)).await;
    ledger.inbox.receive(&message("4", "and now?"), ClaimMode::IfFree).await.unwrap();
    for lease in &leases {
        assert!(!ledger.turns.next_turn(lease).await.unwrap().unwrap().settings.voice_replies);
    }
}

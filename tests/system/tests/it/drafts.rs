//! Replies that grow as drafts on Telegram: what a person sees while the model writes, what stands in the chat, and what is left when
//! the process dies.

use std::time::Duration;

use satchel_fake_model::{ModelReply, ReplyPiece, ScriptedCall};
use satchel_fake_telegram::{PersonMessage, TelegramRules};

use crate::telegram_chat::{BOB, PAUSE, TelegramChatHarness};

const BEGINNING: &str = "The first half";
const WHOLE: &str = "The first half and the rest.";

async fn start(rules: TelegramRules, streaming: &str) -> TelegramChatHarness {
    TelegramChatHarness::start(rules, &format!("streaming: {streaming}"), "").await
}

/// Lets Bob ask in his chat, and waits until he sees the beginning of the reply as a draft.
async fn wait_for_draft(satchel: &TelegramChatHarness) {
    satchel.telegram.person_says(BOB, BOB, "tell me");
    let is_seen = |transcript: &satchel_fake_telegram::TelegramTranscript| {
        transcript.visible_drafts(BOB).any(|draft| draft.words.text == BEGINNING)
    };
    satchel.wait_until("a draft", is_seen).await;
}

/// Whether any message of the bot was edited in a chat.
fn has_edits(satchel: &TelegramChatHarness, chat: i64) -> bool {
    satchel.telegram.transcript().visible(chat).any(|message| !message.edits.is_empty())
}

/// Catches: a message before the reply is complete, an edit, and a draft that stays behind the reply.
#[tokio::test(flavor = "multi_thread")]
async fn reply_grows_as_a_draft_and_stands_once_when_it_is_complete() {
    let satchel = start(TelegramRules::default(), "drafts").await;
    satchel.writes_with_pauses(&[BEGINNING, " and the rest."]);
    wait_for_draft(&satchel).await;
    assert_eq!(satchel.telegram.transcript().visible(BOB).count(), 0, "{}", satchel.telegram.transcript());
    satchel.goes_on();
    satchel.wait_for_texts(BOB, &[WHOLE]).await;
    let transcript = satchel.telegram.transcript();
    assert_eq!(transcript.visible_drafts(BOB).count(), 0, "{transcript}");
    assert!(!has_edits(&satchel, BOB) && satchel.telegram.requests("editMessageText") == 0, "{transcript}");
    let drafts: std::collections::BTreeSet<i64> = transcript.drafts(BOB).iter().map(|draft| draft.id).collect();
    assert!(drafts.len() == 1 && !drafts.contains(&0), "{drafts:?}");
}

/// Catches: a half reply that stands in the chat, and a reply that comes twice, after a crash.
#[tokio::test(flavor = "multi_thread")]
async fn kill_in_the_middle_of_a_draft_leaves_nothing_and_the_reply_comes_once() {
    let mut satchel = start(TelegramRules::default(), "drafts").await;
    satchel.writes_with_pauses(&[BEGINNING, " that nobody reads."]);
    wait_for_draft(&satchel).await;
    satchel.kill();
    satchel.telegram.clock().advance(Duration::from_secs(30));
    let left = satchel.telegram.transcript();
    assert_eq!((left.visible(BOB).count(), left.visible_drafts(BOB).count()), (0, 0), "{left}");

    satchel.model.reply(ModelReply::text(WHOLE));
    satchel.restart();
    satchel.wait_for_texts(BOB, &[WHOLE]).await;
    assert!(!has_edits(&satchel, BOB), "{}", satchel.telegram.transcript());
    // What comes next comes behind it.
    satchel.model.reply(ModelReply::text("You're welcome."));
    satchel.telegram.person_says(BOB, BOB, "thanks");
    satchel.wait_for_texts(BOB, &[WHOLE, "You're welcome."]).await;
}

/// A draft would vanish while the tool runs.
#[tokio::test(flavor = "multi_thread")]
async fn tool_call_turns_the_draft_into_a_message() {
    let satchel = start(TelegramRules::default(), "drafts").await;
    let call = ScriptedCall::new("file_list", r#"{"path": "/shared"}"#);
    let pieces = [ReplyPiece::Text(BEGINNING.to_owned()), ReplyPiece::Wait(PAUSE), ReplyPiece::Call(call)];
    satchel.model.reply(ModelReply::pieces(pieces));
    satchel.model.reply(ModelReply::pieces([ReplyPiece::Wait(PAUSE), ReplyPiece::Text("And the rest.".to_owned())]));
    wait_for_draft(&satchel).await;
    satchel.goes_on();
    satchel.wait_for_texts(BOB, &["The first half\n\n… file_list"]).await;
    assert_eq!(satchel.telegram.transcript().visible_drafts(BOB).count(), 0);
    satchel.model.wait_until(|requests| requests.len() == 2).await.expect("the model reads what the tool returned");
    satchel.goes_on();
    satchel.wait_for_texts(BOB, &["The first half\n\nAnd the rest."]).await;
    assert!(has_edits(&satchel, BOB), "it is the same message");
}

/// On a server without drafts, and in groups, the beginning stands in a message, which the rest is edited into.
#[tokio::test(flavor = "multi_thread")]
async fn reply_grows_by_edits_where_there_are_no_drafts() {
    let older = start(TelegramRules::default().without_drafts(), "drafts").await;
    let newer = start(TelegramRules::default(), "drafts").await;
    let default = start(TelegramRules::default(), "edits").await;
    let group = newer.telegram.group("Family", &[BOB]);
    for (satchel, chat, refused_drafts) in [(&older, BOB, 1), (&newer, group, 0), (&default, BOB, 0)] {
        satchel.writes_with_pauses(&[BEGINNING, " and the rest."]);
        satchel.telegram.person_sends(chat, BOB, PersonMessage::text("tell me"));
        satchel.wait_for_texts(chat, &[BEGINNING]).await;
        satchel.goes_on();
        satchel.wait_for_texts(chat, &[WHOLE]).await;
        assert!(has_edits(satchel, chat), "{}", satchel.telegram.transcript());
        assert_eq!(satchel.telegram.requests("sendMessageDraft"), refused_drafts);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_shown_of_a_reply_that_grows_with_streaming_off() {
    let satchel = start(TelegramRules::default(), "off").await;
    satchel.writes_with_pauses(&[BEGINNING, " and the rest."]);
    satchel.telegram.person_says(BOB, BOB, "tell me");
    // The second one comes seconds after a reply would be shown.
    satchel.wait_until("activity", |transcript| transcript.chats[&BOB].actions.len() >= 2).await;
    let transcript = satchel.telegram.transcript();
    assert_eq!((transcript.visible(BOB).count(), transcript.drafts(BOB).len()), (0, 0), "{transcript}");
    satchel.goes_on();
    satchel.wait_for_texts(BOB, &[WHOLE]).await;
    assert!(!has_edits(&satchel, BOB), "{}", satchel.telegram.transcript());
}

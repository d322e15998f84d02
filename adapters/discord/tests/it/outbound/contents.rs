//! What a person sees of each kind of part.

use base64::{Engine, engine::general_purpose::STANDARD};
use satchel_domain::Button;
use satchel_fake_discord::Mention;
use satchel_ports::Activity;

use super::{contract::shown_name, *};

#[tokio::test]
async fn rich_text_is_formatted_and_plain_text_literal() {
    let stage = Stage::new().await;
    stage.send(text("# Plan\n\n- [x] **one**\n- [ ] two")).await.unwrap();
    stage.send(PartContent::Text { text: "**as is**".to_owned(), markup: Markup::Plain, files: vec![] }).await.unwrap();
    assert_eq!(stage.texts(), ["# Plan\n\n- ☑ **one**\n- ☐ two", "\\*\\*as is\\*\\*"]);
}

#[tokio::test]
async fn nobody_is_ever_pinged() {
    let stage = Stage::new().await;
    let asked = stage.discord.person_says(stage.place, PERSON, "hello");
    let words = format!("@everyone @here <@{PERSON}> <@&{GUILD}>");
    let part = SendRequest { reply_to: Some(MessageRef(asked.to_string())), ..stage.part(text(&words)) };
    let sent = stage.channel.send(&part).await.unwrap();
    stage.channel.edit(&sent[0], &stage.part(text(&format!("{words} again")))).await.unwrap();
    stage.send(bundle(&words, stage.items(&["a.bin"]).await)).await.unwrap();
    stage.send(PartContent::Notice { text: words.clone() }).await.unwrap();
    let transcript = stage.discord.transcript();
    assert_eq!(transcript.pings(), Vec::<Mention>::new());
    assert_eq!(transcript.texts(stage.place), [format!("{words} again"), words.clone(), words], "the words are kept");
}

#[tokio::test]
async fn files_accompany_text_in_order_with_descriptions() {
    let stage = Stage::new().await;
    let mut files = stage.items(&["a.bin", "b.bin", "c.bin"]).await;
    files[1].caption = "the second".to_owned();
    let ids = stage.send(bundle("three files", files)).await.unwrap();
    let transcript = stage.discord.transcript();
    let message = transcript.message(ids[0].0.parse().unwrap()).unwrap();
    assert_eq!(message.content, "three files");
    let shown: Vec<_> =
        message.files.iter().map(|file| (file.filename.as_str(), file.description.as_deref())).collect();
    assert_eq!(shown, [("a.bin", None), ("b.bin", Some("the second")), ("c.bin", None)]);
}

#[tokio::test]
async fn file_names_stay_original_and_break_no_header() {
    let stage = Stage::new().await;
    let names = [
        "quote\".txt",
        "Отчёт за май.bin",
        "a\r\nContent-Type: text/html\r\n\r\nevil.txt",
        "semi;name=\"x\".txt",
        "same.txt",
        "same.txt",
        "back\\slash.txt",
        "100%25.txt",
        "no extension",
    ];
    let items = stage.items(&names).await;
    let expected: Vec<_> =
        items.iter().map(|item| (item.attachment.filename.to_string(), item.attachment.sha256)).collect();
    stage.send(PartContent::Album { items }).await.unwrap();
    let transcript = stage.discord.transcript();
    let shown: Vec<_> = transcript.files(stage.place).into_iter().map(|file| (shown_name(file), file.sha256)).collect();
    for (number, (shown, (name, sha256))) in shown.iter().zip(&expected).enumerate() {
        let name = if number == 5 { "same-2.txt" } else { name };
        assert_eq!((shown.0.as_str(), shown.1), (name, *sha256));
    }
    assert_eq!(shown.len(), names.len());
    let calls = stage.discord.calls();
    let sent = &calls.last().unwrap().files;
    assert_eq!(sent.len(), names.len());
    assert!(sent.values().all(|file| file.mime == "application/octet-stream"), "no header was slipped in: {sent:?}");
}

#[tokio::test]
async fn voice_is_native_voice_message_with_waveform() {
    let stage = Stage::new().await;
    let voice = stage.voice(false).await;
    stage.send(voice).await.unwrap();
    let transcript = stage.discord.transcript();
    let message = transcript.visible(stage.place).next().unwrap();
    assert!(message.is_voice() && message.content.is_empty());
    let file = &message.files[0];
    assert_eq!((file.filename.as_str(), file.mime.as_str()), ("voice-message.ogg", "audio/ogg"));
    assert_eq!((file.duration_secs, file.waveform.as_deref()), (Some(1.25), Some(STANDARD.encode([0, 255]).as_str())));
}

#[tokio::test]
async fn voice_as_file_is_playable_attachment() {
    let stage = Stage::new().await;
    let voice = stage.voice(true).await;
    stage.send(voice).await.unwrap();
    let transcript = stage.discord.transcript();
    let message = transcript.visible(stage.place).next().unwrap();
    assert!(!message.is_voice());
    assert_eq!(message.files[0].filename, "voice.ogg");
}

#[tokio::test]
async fn question_buttons_carry_commands_until_decided() {
    let stage = Stage::new().await;
    let button = |label: &str, command: &str| Button { label: label.to_owned(), command: command.to_owned() };
    let buttons = vec![button("Allow", "/allow 7"), button("Refuse", "/refuse 7")];
    let sent = stage.send(PartContent::Question { text: "May I?".to_owned(), buttons }).await.unwrap();
    let buttons = || {
        let transcript = stage.discord.transcript();
        let message = transcript.message(sent[0].0.parse().unwrap()).unwrap();
        let row = message.buttons.iter().flatten();
        row.map(|button| (button.label.clone(), button.custom_id.clone().unwrap())).collect::<Vec<_>>()
    };
    let pair = |label: &str, command: &str| (label.to_owned(), command.to_owned());
    assert_eq!(buttons(), [pair("Allow", "/allow 7"), pair("Refuse", "/refuse 7")]);
    stage.channel.edit(&sent[0], &stage.part(PartContent::Notice { text: "Allowed.".to_owned() })).await.unwrap();
    assert_eq!(buttons(), []);
    assert_eq!(stage.texts(), ["Allowed."]);
}

#[tokio::test]
async fn final_edit_adds_files_and_is_idempotent() {
    let stage = Stage::new().await;
    let sent = stage.send(text("grow")).await.unwrap();
    stage.channel.edit(&sent[0], &stage.part(text("growing"))).await.unwrap();
    let last = stage.part(bundle("grown", stage.items(&["a.bin", "b.bin"]).await));
    for _ in 0..3 {
        assert_eq!(stage.channel.edit(&sent[0], &last).await, Ok(sent.clone()));
    }
    let transcript = stage.discord.transcript();
    let message = transcript.message(sent[0].0.parse().unwrap()).unwrap();
    assert_eq!((message.content.as_str(), stage.visible()), ("grown", 1));
    let names: Vec<_> = message.files.iter().map(|file| file.filename.as_str()).collect();
    assert_eq!(names, ["a.bin", "b.bin"]);
}

#[tokio::test]
async fn withdrawal_removes_message_and_is_idempotent() {
    let stage = Stage::new().await;
    let sent = stage.send(text("for now")).await.unwrap();
    let withdraw = stage.part(PartContent::Withdraw);
    assert_eq!(stage.channel.edit(&sent[0], &withdraw).await, Ok(Vec::new()));
    assert_eq!(stage.channel.edit(&sent[0], &withdraw).await, Ok(Vec::new()), "it is gone already");
    assert_eq!(stage.channel.send(&withdraw).await, Ok(Vec::new()));
    assert_eq!(stage.visible(), 0);
}

#[tokio::test]
async fn a_persons_direct_channel_is_opened_once() {
    let stage = Stage::new().await;
    let to_ann = |words: &str| SendRequest { conversation: conversation("@4711"), ..stage.part(text(words)) };
    stage.channel.show_activity(&conversation("@4711"), Activity::Writing).await;
    let sent = stage.channel.send(&to_ann("hello")).await.unwrap();
    stage.channel.send(&to_ann("again")).await.unwrap();
    stage.channel.edit(&sent[0], &to_ann("hello, Ann")).await.unwrap();
    let direct = stage.discord.direct(PERSON);
    assert_eq!(stage.discord.transcript().texts(direct), ["hello, Ann", "again"]);
    assert_eq!(stage.discord.requests("POST /users/@me/channels"), 1);
    let after_a_restart = stage.restarted();
    stage.discord.script_next("POST /users/@me/channels", satchel_fake_kit::Fault::AcceptAndDrop);
    let answer = after_a_restart.send(&to_ann("later")).await;
    assert!(matches!(answer, Err(SendError::NotSent { .. })), "opening shows nothing: {answer:?}");
    after_a_restart.send(&to_ann("later")).await.unwrap();
    assert_eq!(stage.discord.transcript().texts(direct).len(), 3);
}

#[tokio::test]
async fn typing_indicator_is_sent_but_not_repeated_immediately() {
    let stage = Stage::new().await;
    let shown = stage.discord.on_nth("POST /channels/{}/typing", 1, satchel_fake_kit::RequestPhase::Performed);
    for activity in [Activity::Writing, Activity::Speaking, Activity::Uploading] {
        stage.channel.show_activity(&conversation("100"), activity).await;
    }
    shown.await.unwrap();
    // Long enough for the answer to be read, and then for another call to arrive.
    tokio::time::sleep(Duration::from_millis(150)).await;
    stage.channel.show_activity(&conversation("100"), Activity::Writing).await;
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert_eq!(stage.discord.transcript().channels[&stage.place].typed, 1);
}

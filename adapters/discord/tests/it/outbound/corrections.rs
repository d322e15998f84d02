//! A nonce answers with the message that arrived first: it is made to show what the part is now, and no other is.

use satchel_domain::{Button, delivery::Refusal};
use satchel_fake_discord::{ApiRefusal, DiscordFault, Permission};
use satchel_fake_kit::Fault;

use super::{contract::shown_name, *};

const CREATE: &str = "POST /channels/{}/messages";
const EDIT: &str = "PATCH /channels/{}/messages/{}";

/// A part that has arrived as `before`, of which nobody knows, and is to be `now`.
async fn arrived(stage: &Stage, before: PartContent, now: PartContent) -> SendRequest {
    let part = stage.part(before);
    stage.discord.script_next(CREATE, Fault::AcceptAndDrop);
    assert!(stage.channel.send(&part).await.is_err());
    SendRequest { content: now, ..part }
}

#[tokio::test]
async fn retry_updates_earlier_message_to_current_content() {
    for (number, (words, names)) in [
        ("grown to its end", &[][..]),
        ("grown to its end", &["a.bin", "my plan.bin"]),
        ("grow", &["a.bin", "my plan.bin"]),
        ("", &["other.bin"]),
    ]
    .into_iter()
    .enumerate()
    {
        for files_before in [&[][..], &["before.bin"]] {
            let stage = Stage::new().await;
            let before = bundle("grow", stage.items(files_before).await);
            let files = stage.items(names).await;
            let now = match (words, files.as_slice()) {
                ("", [only]) => PartContent::File(only.clone()),
                _ => bundle(words, files),
            };
            let part = arrived(&stage, before, now).await;
            let ids = stage.restarted().send(&part).await.unwrap();
            let transcript = stage.discord.transcript();
            let shown: Vec<_> = transcript.visible(stage.place).collect();
            assert_eq!(shown.len(), 1, "{number}");
            assert_eq!(ids, [MessageRef(shown[0].id.to_string())], "{number}");
            assert_eq!(shown[0].content, words, "{number}");
            // Words that go without files may have left theirs behind because they were refused as a repeat.
            let expected = if names.is_empty() { files_before } else { names };
            assert_eq!(
                shown[0].files.iter().map(shown_name).collect::<Vec<_>>(),
                expected,
                "{number} {files_before:?}"
            );
            assert_eq!(stage.discord.requests(EDIT), 1, "{number}");
        }
    }
}

#[tokio::test]
async fn what_is_made_new_is_never_edited() {
    let stage = Stage::new().await;
    let asked = stage.discord.person_says(stage.place, PERSON, "hello?");
    let names = ["my plan.bin", "план.bin", "quote\".txt", "same.bin", "same.bin", "no extension"];
    let mut files = stage.items(&names).await;
    files[1].caption = "described".to_owned();
    let buttons = vec![Button { label: "Allow".to_owned(), command: "/allow 7".to_owned() }];
    for content in [
        text("words"),
        text("\n  blanks at both ends, and  between \n\n"),
        text("# Plan\r\n\r\n- [x] **one**\r\n|a|b|\r\n|-|-|\r\n|c|d|"),
        text("👩‍👩‍👧 \u{200f}שלום\u{200f} e\u{301} <@4711> @everyone <:odd:1>"),
        text("```\n  code\n```"),
        text(&"long ".repeat(390)),
        PartContent::Text { text: "**as is**\r\n\u{2028}".to_owned(), markup: Markup::Plain, files: Vec::new() },
        bundle(" with files ", files.clone()),
        bundle(" ", files.clone()),
        PartContent::File(files[0].clone()),
        PartContent::Album { items: files },
        PartContent::Notice { text: "1 of 2 ".to_owned() },
        PartContent::Question { text: "May I?\n".to_owned(), buttons },
        stage.voice(false).await,
        stage.voice(true).await,
    ] {
        let part = SendRequest { reply_to: Some(MessageRef(asked.to_string())), ..stage.part(content) };
        let sent = stage.channel.send(&part).await.unwrap();
        assert_eq!(stage.restarted().send(&part).await, Ok(sent), "a repeat of the same");
        assert_eq!(stage.discord.requests(EDIT), 0, "{:?}", part.content);
    }
}

#[tokio::test]
async fn what_cannot_be_edited_has_arrived() {
    // A voice that is to be a file now, a file that is to be a voice, and what was deleted meanwhile.
    let stage = Stage::new().await;
    for (before, now) in [(false, true), (true, false)] {
        let (before, now) = (stage.voice(before).await, stage.voice(now).await);
        let part = arrived(&stage, before, now).await;
        assert!(stage.channel.send(&part).await.is_ok(), "{:?}", part.content);
    }
    let voice = stage.voice(false).await;
    let part = arrived(&stage, voice, text("words in its place")).await;
    assert!(stage.channel.send(&part).await.is_ok(), "a voice can't become words");
    let part = arrived(&stage, text("grow"), text("grown")).await;
    stage.discord.script_next(EDIT, ApiRefusal::new(404, 10_008, "Unknown Message"));
    assert!(stage.channel.send(&part).await.is_ok(), "it is deleted while it is sent");
    assert_eq!(stage.visible(), 4, "and nothing is sent twice");
}

#[tokio::test]
async fn update_of_earlier_message_determines_parts_outcome() {
    let stage = Stage::new().await;
    for (fault, expected) in [
        (DiscordFault::from(Fault::AcceptAndDrop), "in doubt"),
        (Fault::RateLimit { retry_after_ms: 30 }.into(), "not sent"),
        (Fault::ServerError.into(), "not sent"),
        (ApiRefusal::new(403, 50_013, "Missing Permissions").into(), "Other"),
    ] {
        let now = bundle("grown", stage.items(&["a.bin"]).await);
        let part = arrived(&stage, text("grow"), now).await;
        stage.discord.script_next(EDIT, fault);
        let said = match stage.channel.send(&part).await {
            Err(SendError::InDoubt { .. }) => "in doubt",
            Err(SendError::NotSent { .. }) => "not sent",
            Err(SendError::Refused { refusal: Refusal::Other, .. }) => "Other",
            other => panic!("{other:?}"),
        };
        assert_eq!(said, expected);
        let ids = stage.channel.send(&part).await.unwrap();
        let transcript = stage.discord.transcript();
        let message = transcript.message(ids[0].0.parse().unwrap()).unwrap();
        assert_eq!((message.content.as_str(), message.files.len()), ("grown", 1), "the next time it is");
    }
    assert_eq!(stage.visible(), 4);
}

#[tokio::test]
async fn text_still_completes_where_attaching_is_forbidden() {
    let stage = Stage::new().await;
    let sent = stage.send(text("grow")).await.unwrap();
    stage.discord.forbid(stage.place, Permission::Attach);
    let files = stage.items(&["a.bin"]).await;
    let both = stage.channel.edit(&sent[0], &stage.part(bundle("grown", files.clone()))).await;
    assert!(matches!(both, Err(SendError::Refused { refusal: Refusal::Other, .. })), "{both:?}");
    assert_eq!(stage.channel.edit(&sent[0], &stage.part(text("grown"))).await, Ok(sent.clone()));
    assert_eq!(stage.texts(), ["grown"]);
    let alone = stage.channel.edit(&sent[0], &stage.part(PartContent::File(files[0].clone()))).await;
    assert!(matches!(alone, Err(SendError::Forbidden { .. })), "{alone:?}");
}

/// What keeps files from going once more.
#[derive(Debug, Clone, Copy)]
enum Kept {
    Unreadable,
    TooLarge,
    Forbidden,
}

impl Kept {
    const ALL: [Self; 3] = [Self::Unreadable, Self::TooLarge, Self::Forbidden];

    fn sets_in(self, stage: &Stage, files: &[FileItem]) {
        match self {
            Self::Unreadable => stage.blobs.lose(&files[0].attachment.sha256),
            Self::TooLarge => {
                for method in [CREATE, EDIT] {
                    stage.discord.script_next(method, ApiRefusal::new(413, 40_005, "Request entity too large"));
                }
            }
            Self::Forbidden => stage.discord.forbid(stage.place, Permission::Attach),
        }
    }
}

#[tokio::test]
async fn delivered_files_stay_when_resending_them_fails() {
    for kept in Kept::ALL {
        let stage = Stage::new().await;
        let names = ["a.bin", "b.bin"];
        let files = stage.items(&names).await;
        let whole = arrived(&stage, bundle("hello", files.clone()), bundle("hello", files.clone())).await;
        stage.discord.forbid(stage.place, Permission::ReadHistory);
        kept.sets_in(&stage, &files);
        let channel = stage.restarted();
        let again = channel.send(&whole).await;
        assert!(matches!(again, Err(SendError::Unreadable { .. } | SendError::Refused { .. })), "{kept:?}: {again:?}");
        assert_eq!(doubt::find(&channel, &whole, None).await, Ok(None));
        let found = channel.send(&SendRequest { content: text("hello"), ..whole.clone() }).await.unwrap();
        assert_eq!(channel.edit(&found[0], &whole).await, Ok(found), "{kept:?}: it shows all of it");
        let transcript = stage.discord.transcript();
        let shown: Vec<_> = transcript.visible(stage.place).collect();
        assert_eq!(shown.len(), 1, "{kept:?}");
        assert_eq!(shown[0].content, "hello", "{kept:?}");
        assert_eq!(shown[0].files.iter().map(shown_name).collect::<Vec<_>>(), names, "{kept:?}");
    }
}

#[tokio::test]
async fn failed_attachment_is_reported_and_text_still_updates() {
    for kept in Kept::ALL {
        let stage = Stage::new().await;
        let sent = stage.send(text("grow")).await.unwrap();
        let files = stage.items(&["a.bin", "b.bin"]).await;
        kept.sets_in(&stage, &files);
        let edited = stage.channel.edit(&sent[0], &stage.part(bundle("grown", files))).await;
        assert!(
            matches!(edited, Err(SendError::Unreadable { .. } | SendError::Refused { .. })),
            "{kept:?}: {edited:?}"
        );
        assert_eq!(stage.texts(), ["grown"], "{kept:?}");
    }
}

#[tokio::test]
async fn late_edit_removes_no_files() {
    let stage = Stage::new().await;
    let sent = stage.send(text("grow")).await.unwrap();
    let edit = |content| {
        let part = stage.part(content);
        let (stage, sent) = (&stage, &sent);
        async move { stage.channel.edit(&sent[0], &part).await.unwrap() }
    };
    let names = || {
        let transcript = stage.discord.transcript();
        transcript.files(stage.place).into_iter().map(|file| file.filename.clone()).collect::<Vec<_>>()
    };
    edit(bundle("grown", stage.items(&["a.bin", "b.bin"]).await)).await;
    edit(text("growing")).await;
    assert_eq!(names(), ["a.bin", "b.bin"]);
    for _ in 0..2 {
        edit(bundle("grown", stage.items(&["c.bin"]).await)).await;
        assert_eq!(names(), ["c.bin"], "the last edit lists exactly its own");
    }
}

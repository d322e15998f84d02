//! Retries and doubt: a nonce answers with the message that arrived first, across restarts, and is made to show what the
//! part is now; and the look-up for when the nonce is forgotten.

use satchel_domain::capabilities::Idempotency;
use satchel_fake_discord::{ApiRefusal, DiscordFault, DiscordFile};
use satchel_fake_kit::FaultTiming;
use satchel_ports::{LookupOutcome, LookupRange, LookupRequest, ledger::RecordedMessages};

use super::*;

/// A part that has arrived as `before`, of which nobody knows, and is to be `now`.
async fn arrived(harness: &OutboundHarness, before: PartContent, now: PartContent) -> PostRequest {
    let part = harness.part(before);
    harness.discord.script_next(CREATE, Fault::AcceptAndDrop);
    assert!(harness.channel.post(&part).await.is_err());
    PostRequest { content: now, ..part }
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
            let harness = OutboundHarness::new().await;
            let before = bundle("grow", harness.items(files_before).await);
            let files = harness.items(names).await;
            let now = match (words, files.as_slice()) {
                ("", [only]) => PartContent::File(only.clone()),
                _ => bundle(words, files),
            };
            let part = arrived(&harness, before, now).await;
            let ids = harness.restarted().post(&part).await.unwrap();
            let transcript = harness.discord.transcript();
            let shown: Vec<_> = transcript.visible(harness.place).collect();
            assert_eq!(shown.len(), 1, "{number}");
            assert_eq!(ids, [MessageRef(shown[0].id.to_string())], "{number}");
            assert_eq!(shown[0].content, words, "{number}");
            // Words that go without files may have left theirs behind because they were refused as a repeat.
            let expected = if names.is_empty() { files_before } else { names };
            assert_eq!(
                shown[0].files.iter().map(DiscordFile::shown_name).collect::<Vec<_>>(),
                expected,
                "{number} {files_before:?}"
            );
            assert_eq!(harness.discord.requests(EDIT), 1, "{number}");
        }
    }
}

#[tokio::test]
async fn what_is_made_new_is_never_edited() {
    let harness = OutboundHarness::new().await;
    let asked = harness.discord.person_says(harness.place, PERSON, "hello?");
    let names = ["my plan.bin", "план.bin", "quote\".txt", "same.bin", "same.bin", "no extension"];
    let mut files = harness.items(&names).await;
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
        PartContent::question("May I?\n", buttons),
        harness.voice(false).await,
        harness.voice(true).await,
    ] {
        let part = PostRequest { reply_to: Some(MessageRef(asked.to_string())), ..harness.part(content) };
        let sent = harness.channel.post(&part).await.unwrap();
        assert_eq!(harness.restarted().post(&part).await, Ok(sent), "a repeat of the same");
        assert_eq!(harness.discord.requests(EDIT), 0, "{:?}", part.content);
    }
}

#[tokio::test]
async fn what_cannot_be_edited_has_arrived() {
    // A voice that is to be a file now, a file that is to be a voice, and what was deleted meanwhile.
    let harness = OutboundHarness::new().await;
    for (before, now) in [(false, true), (true, false)] {
        let (before, now) = (harness.voice(before).await, harness.voice(now).await);
        let part = arrived(&harness, before, now).await;
        assert!(harness.channel.post(&part).await.is_ok(), "{:?}", part.content);
    }
    let voice = harness.voice(false).await;
    let part = arrived(&harness, voice, text("words in its place")).await;
    assert!(harness.channel.post(&part).await.is_ok(), "a voice can't become words");
    let part = arrived(&harness, text("grow"), text("grown")).await;
    harness.discord.script_next(EDIT, ApiRefusal::new(404, 10_008, "Unknown Message"));
    assert!(harness.channel.post(&part).await.is_ok(), "it is deleted while it is sent");
    assert_eq!(harness.visible(), 4, "and nothing is sent twice");
}

#[tokio::test]
async fn update_of_earlier_message_determines_parts_outcome() {
    let harness = OutboundHarness::new().await;
    for (fault, expected) in [
        (DiscordFault::from(Fault::AcceptAndDrop), "in doubt"),
        (Fault::RateLimit { retry_after_ms: 30 }.into(), "not sent"),
        (Fault::ServerError.into(), "not sent"),
        (ApiRefusal::new(403, 50_013, "Missing Permissions").into(), "Other"),
    ] {
        let now = bundle("grown", harness.items(&["a.bin"]).await);
        let part = arrived(&harness, text("grow"), now).await;
        harness.discord.script_next(EDIT, fault);
        let said = match harness.channel.post(&part).await {
            Err(SendError::InDoubt { .. }) => "in doubt",
            Err(SendError::NotSent { .. }) => "not sent",
            Err(SendError::Refused { refusal: Refusal::Other, .. }) => "Other",
            other => panic!("{other:?}"),
        };
        assert_eq!(said, expected);
        let ids = harness.channel.post(&part).await.unwrap();
        let transcript = harness.discord.transcript();
        let message = transcript.message(ids[0].0.parse().unwrap()).unwrap();
        assert_eq!((message.content.as_str(), message.files.len()), ("grown", 1), "the next time it is");
    }
    assert_eq!(harness.visible(), 4);
}

#[tokio::test]
async fn text_still_completes_where_attaching_is_forbidden() {
    let harness = OutboundHarness::new().await;
    let sent = harness.send(text("grow")).await.unwrap();
    harness.discord.forbid(harness.place, Permission::Attach);
    let files = harness.items(&["a.bin"]).await;
    let both = harness.channel.edit(&sent[0], &harness.part(bundle("grown", files.clone()))).await;
    assert!(matches!(both, Err(SendError::Refused { refusal: Refusal::Other, .. })), "{both:?}");
    assert_eq!(harness.channel.edit(&sent[0], &harness.part(text("grown"))).await, Ok(sent.clone()));
    assert_eq!(harness.texts(), ["grown"]);
    let alone = harness.channel.edit(&sent[0], &harness.part(PartContent::File(files[0].clone()))).await;
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

    fn sets_in(self, harness: &OutboundHarness, files: &[FileItem]) {
        match self {
            Self::Unreadable => harness.blobs.lose(&files[0].attachment.sha256),
            Self::TooLarge => {
                for method in [CREATE, EDIT] {
                    harness.discord.script_next(method, ApiRefusal::new(413, 40_005, "Request entity too large"));
                }
            }
            Self::Forbidden => harness.discord.forbid(harness.place, Permission::Attach),
        }
    }
}

#[tokio::test]
async fn delivered_files_stay_when_resending_them_fails() {
    for kept in Kept::ALL {
        let harness = OutboundHarness::new().await;
        let names = ["a.bin", "b.bin"];
        let files = harness.items(&names).await;
        let whole = arrived(&harness, bundle("hello", files.clone()), bundle("hello", files.clone())).await;
        harness.discord.forbid(harness.place, Permission::ReadHistory);
        kept.sets_in(&harness, &files);
        let channel = harness.restarted();
        let again = channel.post(&whole).await;
        assert!(matches!(again, Err(SendError::Unreadable { .. } | SendError::Refused { .. })), "{kept:?}: {again:?}");
        assert_eq!(find(&channel, &whole, None).await, Ok(None));
        let found = channel.post(&PostRequest { content: text("hello"), ..whole.clone() }).await.unwrap();
        assert_eq!(channel.edit(&found[0], &whole).await, Ok(found), "{kept:?}: it shows all of it");
        let transcript = harness.discord.transcript();
        let shown: Vec<_> = transcript.visible(harness.place).collect();
        assert_eq!(shown.len(), 1, "{kept:?}");
        assert_eq!(shown[0].content, "hello", "{kept:?}");
        assert_eq!(shown[0].files.iter().map(DiscordFile::shown_name).collect::<Vec<_>>(), names, "{kept:?}");
    }
}

#[tokio::test]
async fn failed_attachment_is_reported_and_text_still_updates() {
    for kept in Kept::ALL {
        let harness = OutboundHarness::new().await;
        let sent = harness.send(text("grow")).await.unwrap();
        let files = harness.items(&["a.bin", "b.bin"]).await;
        kept.sets_in(&harness, &files);
        let edited = harness.channel.edit(&sent[0], &harness.part(bundle("grown", files))).await;
        assert!(
            matches!(edited, Err(SendError::Unreadable { .. } | SendError::Refused { .. })),
            "{kept:?}: {edited:?}"
        );
        assert_eq!(harness.texts(), ["grown"], "{kept:?}");
    }
}

#[tokio::test]
async fn late_edit_removes_no_files() {
    let harness = OutboundHarness::new().await;
    let sent = harness.send(text("grow")).await.unwrap();
    let edit = |content| {
        let part = harness.part(content);
        let (harness, sent) = (&harness, &sent);
        async move { harness.channel.edit(&sent[0], &part).await.unwrap() }
    };
    let names = || {
        let transcript = harness.discord.transcript();
        transcript.files(harness.place).into_iter().map(|file| file.filename.clone()).collect::<Vec<_>>()
    };
    edit(bundle("grown", harness.items(&["a.bin", "b.bin"]).await)).await;
    edit(text("growing")).await;
    assert_eq!(names(), ["a.bin", "b.bin"]);
    for _ in 0..2 {
        edit(bundle("grown", harness.items(&["c.bin"]).await)).await;
        assert_eq!(names(), ["c.bin"], "the last edit lists exactly its own");
    }
}

const HISTORY: &str = "GET /channels/{}/messages";

/// What a look-up behind a message finds.
pub(crate) async fn find(
    channel: &DiscordChannel,
    request: &PostRequest,
    after: Option<MessageRef>,
) -> Result<Option<Vec<MessageRef>>, SendError> {
    let (range, recorded) = (LookupRange::After(after), RecordedMessages::default());
    let outcome = channel.find_sent(&LookupRequest { part: request.clone(), range, attempts: 1, recorded }).await?;
    let is_uncertain = matches!(outcome, LookupOutcome::Uncertain { .. });
    let found = match outcome {
        LookupOutcome::Found { messages, duplicates } if duplicates.is_empty() => Some(messages),
        _ => None,
    };
    assert!(is_uncertain || found.is_some(), "history tells one match and nothing else");
    Ok(found)
}

/// Every kind of part that makes a message.
async fn everything(harness: &OutboundHarness) -> Vec<PartContent> {
    let files = harness.items(&["my plan.bin", "план.bin", "same.bin", "same.bin", ".env", "__init__.py"]).await;
    vec![
        text("words, **bold** and  blanks \n"),
        bundle("with files", files.clone()),
        PartContent::File(files[0].clone()),
        PartContent::Album { items: files },
        harness.voice(false).await,
        PartContent::Notice { text: "1 of 2".to_owned() },
    ]
}

#[tokio::test]
async fn retry_after_restart_sends_no_duplicate() {
    let harness = OutboundHarness::new().await;
    for (number, content) in everything(&harness).await.into_iter().enumerate() {
        let part = harness.part(content);
        harness.discord.script_next(CREATE, Fault::AcceptAndDrop);
        let lost = harness.channel.post(&part).await;
        assert!(matches!(lost, Err(SendError::InDoubt { .. })), "{lost:?}");
        let ids = harness.restarted().post(&part).await.unwrap();
        assert_eq!(harness.visible(), number + 1, "{:?}", part.content);
        let last = harness.discord.transcript().visible(harness.place).last().unwrap().id;
        assert_eq!(ids, [MessageRef(last.to_string())]);
    }
}

#[tokio::test]
async fn promised_nonce_window_fits_discords_own() {
    let Idempotency::Key { window_ms: Some(window) } = tables::discord().idempotency else { panic!("it has a key") };
    assert!(Duration::from_millis(window) <= DiscordRules::default().nonce_window);
}

#[tokio::test]
async fn look_up_survives_expired_nonce_and_rewritten_names() {
    let harness = OutboundHarness::new().await;
    let mut after = None;
    for content in everything(&harness).await {
        let part = harness.part(content);
        let channel = harness.restarted();
        assert_eq!(find(&channel, &part, after.clone()).await, Ok(None), "nothing was sent: {:?}", part.content);
        harness.discord.script_next(CREATE, Fault::AcceptAndDrop);
        assert!(harness.channel.post(&part).await.is_err());
        harness.discord.expire_nonces();
        let last = MessageRef(harness.discord.transcript().visible(harness.place).last().unwrap().id.to_string());
        assert_eq!(find(&channel, &part, after).await, Ok(Some(vec![last.clone()])), "{:?}", part.content);
        after = Some(last);
    }
}

#[tokio::test]
async fn look_up_matches_only_own_text_and_files() {
    let harness = OutboundHarness::new().await;
    let files = harness.items(&["a.bin", "b.bin"]).await;
    let wanted = harness.part(bundle("hello", files.clone()));
    harness.discord.person_sends(harness.place, PERSON, "hello", vec![small("a.bin", 0), small("b.bin", 1)]);
    harness.send(text("hello")).await.unwrap();
    harness.send(bundle("hello", files[..1].to_vec())).await.unwrap();
    harness.send(bundle("hello!", files.clone())).await.unwrap();
    for other in ["c.bin", "_b.bin"] {
        let mut renamed = files.clone();
        renamed[1].attachment.filename = Filename::from_untrusted(other);
        harness.send(bundle("hello", renamed)).await.unwrap();
    }
    let longer = harness.item(&FakeFile::generated("b.bin", "application/octet-stream", 1, 2_001)).await;
    harness.send(bundle("hello", vec![files[0].clone(), longer])).await.unwrap();
    assert_eq!(find(&harness.channel, &wanted, None).await, Ok(None), "each of them differs in one thing");
    let sent = harness.channel.post(&wanted).await.unwrap();
    assert_eq!(find(&harness.channel, &wanted, None).await, Ok(Some(sent)));
    harness.send(bundle("hello", files)).await.unwrap();
    assert_eq!(find(&harness.channel, &wanted, None).await, Ok(None), "two match");
}

#[tokio::test]
async fn look_up_reads_further_pages_when_needed() {
    let harness = OutboundHarness::new().await;
    let before = harness.send(text("before")).await.unwrap().pop();
    let wanted = harness.part(text("wanted"));
    let sent = harness.channel.post(&wanted).await.unwrap();
    for number in 0..250 {
        harness.discord.person_says(harness.place, PERSON, &format!("word {number}"));
    }
    assert_eq!(find(&harness.channel, &wanted, before.clone()).await, Ok(Some(sent.clone())));
    assert_eq!(harness.discord.requests(HISTORY), 3);
    assert_eq!(find(&harness.channel, &wanted, None).await, Ok(Some(sent)), "its own age tells where to begin");
    harness.send(text("wanted")).await.unwrap();
    assert_eq!(find(&harness.channel, &wanted, before).await, Ok(None), "the second stands pages later");
}

#[tokio::test]
async fn rate_limited_look_up_continues_at_same_page() {
    let harness = OutboundHarness::new().await;
    let wanted = harness.part(text("wanted"));
    let sent = harness.channel.post(&wanted).await.unwrap();
    for number in 0..250 {
        harness.discord.person_says(harness.place, PERSON, &format!("word {number}"));
    }
    for nth in [1, 3, 4] {
        harness.discord.script(HISTORY, FaultTiming::Nth(nth), Fault::RateLimit { retry_after_ms: 150 });
    }
    let began = std::time::Instant::now();
    assert_eq!(find(&harness.channel, &wanted, None).await, Ok(Some(sent)));
    assert!(began.elapsed() >= Duration::from_millis(450), "{:?}", began.elapsed());
    assert_eq!(harness.discord.requests(HISTORY), 6, "three pages, and three that came too soon");
}

#[tokio::test]
async fn look_up_facing_long_delay_is_postponed() {
    let harness = OutboundHarness::new().await;
    let wanted = harness.part(text("wanted"));
    harness.channel.post(&wanted).await.unwrap();
    harness.discord.script_next(HISTORY, Fault::RateLimit { retry_after_ms: 31_000 });
    let began = std::time::Instant::now();
    let later = find(&harness.channel, &wanted, None).await;
    let waits = |error: &SendError| matches!(error, SendError::NotSent { retry_after_ms: Some(31_000..), .. });
    assert!(later.as_ref().is_err_and(waits), "{later:?}");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test]
async fn look_up_starts_no_earlier_than_its_part() {
    let harness = OutboundHarness::new().await;
    let wanted = harness.part(text("wanted"));
    let sent = harness.channel.post(&wanted).await.unwrap();
    let long_ago = MessageRef("175928847299117063".to_owned());
    assert_eq!(find(&harness.channel, &wanted, Some(long_ago)).await, Ok(Some(sent.clone())));
    let newer = MessageRef((sent[0].0.parse::<u64>().unwrap() - 1).to_string());
    assert_eq!(find(&harness.channel, &wanted, Some(newer.clone())).await, Ok(Some(sent)));
    let calls = harness.discord.calls();
    let begun: Vec<&str> = calls
        .iter()
        .flat_map(|call| &call.query)
        .filter(|(name, _)| name == "after")
        .map(|(_, id)| id.as_str())
        .collect();
    let unix_ms = |id: &str| (id.parse::<u64>().unwrap() >> 22) + 1_420_070_400_000;
    let (seconds, nanoseconds) = wanted.part_id.0.get_timestamp().unwrap().to_unix();
    assert_eq!(unix_ms(begun[0]), seconds * 1_000 + u64::from(nanoseconds / 1_000_000) - 60_000, "a minute before it");
    assert_eq!(begun[1..], [newer.0.as_str()], "or after what stood there before");
}

#[tokio::test]
async fn forbidden_look_up_finds_nothing_and_succeeds() {
    let harness = OutboundHarness::new().await;
    let wanted = harness.part(text("wanted"));
    harness.channel.post(&wanted).await.unwrap();
    harness.discord.forbid(harness.place, Permission::ReadHistory);
    assert_eq!(find(&harness.channel, &wanted, None).await, Ok(None));
    harness.discord.forbid(harness.place, Permission::View);
    assert_eq!(find(&harness.channel, &wanted, None).await, Ok(None));
    harness.discord.script(HISTORY, FaultTiming::Every, Fault::BadGateway { performed: false });
    assert!(find(&harness.channel, &wanted, None).await.is_err(), "nobody knows yet");
}

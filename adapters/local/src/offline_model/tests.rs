//! What the offline model promises: which phrases lead to which calls and words.

use std::{fmt::Write, time::Instant};

use futures::StreamExt;
use satchel_domain::{AttachmentId, Filename, MediaInfo, NewAttachment, Sha256, StoredBlob, Timestamp};
use satchel_ports::{SafetyTier, ToolSpec};
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;

const TOOLS: [&str; 12] = [
    "attachment_save",
    "attachment.save_all",
    "attachment.add",
    "attachment.list",
    "attachment.read",
    "response_attachments",
    "file_list",
    "file_read",
    "file_write",
    "file_edit",
    "file_search",
    "file_delete",
];

fn file(number: u64, name: &str, mime: &str) -> ModelFile {
    ModelFile {
        id: AttachmentId(Uuid::from_u128(number.into())),
        number: NonZeroU64::new(number),
        source: AttachmentSource::User,
        filename: Filename::from_untrusted(name),
        mime: mime.to_owned(),
        bytes: number * 1000,
        sha256: Sha256([0; 32]),
        media: MediaInfo::default(),
        visibility: Visibility::Deliver,
    }
}

fn photo() -> ModelFile {
    file(7, "photo.jpg", "image/jpeg")
}

fn report() -> ModelFile {
    file(8, "annual report.pdf", "application/pdf")
}

fn user(text: &str, attachments: &[ModelFile]) -> ModelMessage {
    ModelMessage::User { text: text.to_owned(), attachments: attachments.to_vec() }
}

fn with_tools(messages: Vec<ModelMessage>, tools: &[&str]) -> ModelRequest {
    let spec = |name: &&str| ToolSpec {
        name: (*name).to_owned(),
        description: "Does it. And more.".to_owned(),
        parameters: json!({}),
        tier: SafetyTier::ReadOnly,
        time_limit: None,
    };
    ModelRequest { system: String::new(), messages, tools: tools.iter().map(spec).collect(), work_share: None }
}

fn request(text: &str, attachments: &[ModelFile]) -> ModelRequest {
    with_tools(vec![user(text, attachments)], &TOOLS)
}

/// A stand-in for the tools: files #1 to #3 are older, `/shared/there.txt` exists.
fn tool_answer(call: &ModelToolCall) -> String {
    let arguments = &call.arguments;
    let path = arguments["path"].as_str().unwrap_or_default();
    let path_of_all = arguments["dir"].as_str().unwrap_or_default();
    let listed = |number: u64, name: &str, mime: &str, source: &str| {
        json!({"id": Uuid::from_u128(number.into()), "number": number, "filename": name, "mime": mime,
               "bytes": number * 1000, "source": source, "visibility": if number == 4 { "internal" } else { "deliver" }})
    };
    let answer = match call.name.as_str() {
        "attachment_save" if path.contains("there.txt") && arguments["overwrite"] != json!(true) => {
            return format!("error: `{path}` exists already: choose another path, or set `overwrite` to true");
        }
        "attachment_save" => json!({"saved": true, "path": path, "mime_type": "x/y", "bytes_written": 7000}),
        "attachment.save_all" if path_of_all.contains("full") => {
            let list = json!([{"saved": true, "path": "/tmp/full/photo.jpg", "bytes_written": 7000},
                              {"saved": false, "filename": "b.pdf", "error": "the workspace is full"}]);
            return format!("error: 1 of 2 files could not be saved: [1] b.pdf: the workspace is full\n{list}");
        }
        "attachment.save_all" => json!([{"saved": true, "path": "/shared/trip/photo.jpg", "bytes_written": 7000}]),
        "attachment.list" => json!({"attachments": [
            listed(4, "answer-0.txt", "text/plain", "tool"),
            listed(3, "made.csv", "text/csv", "tool"),
            listed(2, "Scan.PDF", "application/pdf", "user"),
            listed(1, "cat.png", "image/png", "user")]}),
        "attachment.add" if arguments["paths"][0].as_str().is_some_and(|path| path.contains("nosuch")) => {
            return "error: `/shared/nosuch.txt` does not exist".to_owned();
        }
        "file_read" if path.contains("long") => {
            return "begins\n[bytes 0 to 6 of 900; read on with file_read {\"offset\":6}]".to_owned();
        }
        "file_read" if path.contains("empty") => return "[the file is empty]".to_owned(),
        "file_read" if path.contains("binary") => return "error: `x` is not text (byte 0 of 9): do this".to_owned(),
        "file_list" if path.contains("many") => json!({"entries": [{"path": "/shared/a", "bytes": 1}], "more": 3}),
        "file_read" | "attachment.read" => return "one\n```\ntwo".to_owned(),
        "file_list" => json!({"entries": [
            {"path": "/shared/a.txt", "kind": "file", "bytes": 12}, {"path": "/shared/trip", "kind": "directory", "bytes": 0}]}),
        "file_write" if path.contains("there.txt") && arguments["overwrite"] != json!(true) => {
            return format!("error: `{path}` exists already");
        }
        "file_edit" if path.contains("nosuch") => return format!("error: nothing was edited: `{path}` does not exist"),
        "file_edit" => json!({"edited": true, "path": path, "replaced": 1, "diff": "@@ -1 +1 @@\n-```\n+b\n"}),
        "file_delete" if path.contains("nosuch") => {
            return format!("error: nothing was deleted: there is no `{path}`; file_list shows what there is");
        }
        "file_delete" if path.contains('*') => {
            json!({"deleted": true, "count": 2, "paths": ["/shared/a.tmp", "/shared/b.tmp"]})
        }
        "file_delete" => json!({"deleted": true, "path": path}),
        "file_search" if path.contains("nosuch") => {
            return format!("error: nothing was searched: `{path}` does not exist");
        }
        "file_search" if path.contains("many") => json!({
            "total": 1000, "more": 998, "next": "file_search {\"offset\":2}", "incomplete": "the search ended",
            "skipped": {"binary": 1, "too_large": 0, "unreadable": 1},
            "matches": [{"path": "/shared/a.txt", "line": 3, "text": "  buy `milk`"},
                        {"path": "/shared/b.txt", "line": 12, "text": "Milk"}]}),
        "file_search" if path.contains("a.txt") => json!({
            "total": 1, "more": 0, "skipped": {"binary": 0, "too_large": 0, "unreadable": 0},
            "matches": [{"path": "/shared/a.txt", "line": 1, "text": "milk"}]}),
        "file_search" => json!({"total": 0, "more": 0, "skipped": {"binary": 1}, "matches": []}),
        _ => json!({"ok": true}),
    };
    answer.to_string()
}

/// Plays a request to its end and returns the calls of each round and the final text.
fn played(mut request: ModelRequest) -> (Vec<Vec<String>>, String) {
    let mut rounds = Vec::new();
    for _ in 0..10 {
        let events = reply_events(&request);
        assert_eq!(events.last(), Some(&ModelEvent::Done));
        let (mut calls, mut text) = (Vec::new(), String::new());
        for event in events {
            match event {
                ModelEvent::Call(call) => calls.push(call),
                ModelEvent::Text(piece) => text.push_str(&piece),
                ModelEvent::Usage(_) | ModelEvent::Done => {}
            }
        }
        if calls.is_empty() {
            return (rounds, text);
        }
        rounds.push(calls.iter().map(|call| format!("{} {}", call.name, call.arguments)).collect());
        // Ids are the agent's affair and are rewritten by it; answers come in any order.
        let calls: Vec<ModelToolCall> = calls
            .into_iter()
            .enumerate()
            .map(|(at, call)| ModelToolCall { id: format!("{}-{at}", rounds.len()), ..call })
            .collect();
        let answered = calls.iter().rev().map(|call| ModelMessage::Tool {
            call: call.id.clone(),
            text: tool_answer(call),
            attachments: vec![],
        });
        let answered: Vec<ModelMessage> = answered.collect();
        request.messages.push(ModelMessage::Assistant { text: String::new(), calls });
        request.messages.extend(answered);
    }
    (rounds, "it never ended".to_owned())
}

/// The calls of a conversation in one line: rounds by `;`, calls by `+`, ids by their number.
fn calls(request: ModelRequest) -> String {
    let rounds = played(request).0;
    let mut line = rounds.iter().map(|round| round.join(" + ")).collect::<Vec<_>>().join(" ; ");
    for number in 1..10_u64 {
        line = line.replace(&Uuid::from_u128(number.into()).to_string(), &format!("id{number}"));
    }
    line
}

#[test]
fn phrases_lead_to_calls_when_files_came_along() {
    let save = |index: usize, path: &str| format!(r#"attachment_save {{"index":{index},"path":"{path}"}}"#);
    for (phrase, expected) in [
        ("save photo.jpg as /tmp/p.jpg", save(0, "/tmp/p.jpg")),
        ("Please SAVE the pdf as Report.PDF.", save(1, "/shared/Report.PDF")),
        ("could you store #8 in the folder docs for me?", save(1, "/shared/docs/annual report.pdf")),
        ("save annual report.pdf to /shared/docs/", save(1, "/shared/docs/annual report.pdf")),
        ("save \"annual report.pdf\"", save(1, "/shared/annual report.pdf")),
        ("save all to /shared/trip", r#"attachment.save_all {"dir":"/shared/trip"}"#.to_owned()),
        ("save them to ~/x, overwrite", r#"attachment.save_all {"dir":"~/x","overwrite":true}"#.to_owned()),
        (
            "save photo.jpg as there.txt and overwrite it",
            r#"attachment_save {"index":0,"path":"/shared/there.txt","overwrite":true}"#.to_owned(),
        ),
        ("keep these", r#"attachment.save_all {"dir":"/shared"}"#.to_owned()),
        ("send it back", r#"response_attachments {"ids":["id7","id8"]}"#.to_owned()),
        ("send me the photo back please", r#"response_attachments {"ids":["id7"]}"#.to_owned()),
        ("send annual report.pdf, photo.jpg", r#"response_attachments {"ids":["id8","id7"]}"#.to_owned()),
        ("read the pdf", r#"attachment.read {"id":"id8"}"#.to_owned()),
        (
            "save photo.jpg to /tmp and send me #8 and then read it; send photo.jpg",
            format!(
                r#"{} + response_attachments {{"ids":["id8","id7"]}} + attachment.read {{"id":"id7"}} + attachment.read {{"id":"id8"}}"#,
                save(0, "/tmp/photo.jpg")
            ),
        ),
        ("send me #1", r#"attachment.list {} ; response_attachments {"ids":["id1"]}"#.to_owned()),
        ("save it as one.bin", String::new()),
        ("", String::new()),
        ("look at these holidays!", String::new()),
    ] {
        assert_eq!(calls(request(phrase, &[photo(), report()])), expected, "{phrase}");
    }
    for (phrase, path) in [
        ("save this as it is.jpg", "/shared/it is.jpg"),
        ("save it as letter to Bob.jpg", "/shared/letter to Bob.jpg"),
        ("save \"photo.jpg\" to \"/tmp/made in Ulm and send/p.jpg\"", "/tmp/made in Ulm and send/p.jpg"),
    ] {
        assert_eq!(calls(request(phrase, &[photo()])), save(0, path), "{phrase}");
    }
}

#[test]
fn phrases_lead_to_calls_when_files_are_older() {
    let list = "attachment.list {}";
    let select = |ids: &str| format!(r#"{list} ; response_attachments {{"ids":[{ids}]}}"#);
    for (phrase, expected) in [
        ("send me cat.png", select(r#""id1""#)),
        ("send scan.pdf and cat back", select(r#""id2","id1""#)),
        ("send #3", select(r#""id3""#)),
        ("send #4", select(r#""id4""#)),
        ("give me everything", select(r#""id1","id2","id3""#)),
        ("send it", select(r#""id3""#)),
        ("send me the pictures", select(r#""id1""#)),
        ("send me /shared/a.txt", r#"attachment.add {"paths":["/shared/a.txt"]}"#.to_owned()),
        (
            "send notes.txt and #1",
            format!(r#"{list} ; response_attachments {{"ids":["id1"]}} + attachment.add {{"paths":["/shared/notes.txt"]}}"#),
        ),
        ("send #99", list.to_owned()),
        ("save cat.png to /tmp", format!(r#"{list} ; attachment_save {{"attachment_id":"id1","path":"/tmp/cat.png"}}"#)),
        ("list my files", r#"file_list {"path":"/shared"} + attachment.list {}"#.to_owned()),
        ("What files are there?", r#"file_list {"path":"/shared"} + attachment.list {}"#.to_owned()),
        ("show me my files", r#"file_list {"path":"/shared"} + attachment.list {}"#.to_owned()),
        ("list /shared/trip", r#"file_list {"path":"/shared/trip"}"#.to_owned()),
        ("what's in /tmp", r#"file_list {"path":"/tmp"}"#.to_owned()),
        ("what did I send?", list.to_owned()),
        ("which files have I sent you", list.to_owned()),
        ("read /shared/a.txt", r#"file_read {"path":"/shared/a.txt"}"#.to_owned()),
        ("show notes.txt", format!(r#"{list} ; file_read {{"path":"/shared/notes.txt"}}"#)),
        ("what does cat.png say?", format!(r#"{list} ; attachment.read {{"id":"id1"}}"#)),
        (
            "write notes.txt: Buy milk, and send my love.",
            r#"file_write {"path":"/shared/notes.txt","content":"Buy milk, and send my love."} ; attachment.add {"paths":["/shared/notes.txt"]}"#
                .to_owned(),
        ),
        (
            "make a file called todo with the text one\ntwo",
            r#"file_write {"path":"/shared/todo","content":"one\ntwo"} ; attachment.add {"paths":["/shared/todo"]}"#
                .to_owned(),
        ),
        (
            "write hello to /tmp/h.txt and list /tmp",
            r#"file_write {"path":"/tmp/h.txt","content":"hello"} + file_list {"path":"/tmp"} ; attachment.add {"paths":["/tmp/h.txt"]}"#
                .to_owned(),
        ),
        (
            "overwrite there.txt with x",
            r#"file_write {"path":"/shared/there.txt","content":"x","overwrite":true} ; attachment.add {"paths":["/shared/there.txt"]}"#
                .to_owned(),
        ),
        ("write there.txt: x", r#"file_write {"path":"/shared/there.txt","content":"x"}"#.to_owned()),
        (
            "please edit notes.txt: buy milk, and send it. => Buy bread, then list it.",
            r#"file_edit {"path":"/shared/notes.txt","old":"buy milk, and send it.","new":"Buy bread, then list it."}"#
                .to_owned(),
        ),
        (
            "edit \"my notes.txt\" : ` a` =>",
            r#"file_edit {"path":"/shared/my notes.txt","old":"a","new":""}"#.to_owned(),
        ),
        (
            "list /tmp and edit /tmp/a: x=>y => z",
            r#"file_list {"path":"/tmp"} + file_edit {"path":"/tmp/a","old":"x","new":"y => z"}"#.to_owned(),
        ),
        ("edit notes.txt", String::new()),
        ("edit notes.txt: => bread", String::new()),
        ("edit : a => b", String::new()),
        ("edit", String::new()),
        ("search Milk", r#"file_search {"query":"Milk","path":"/shared","ignore_case":true}"#.to_owned()),
        (
            "Please search for \"milk and tea\" in notes/ and list /tmp",
            r#"file_search {"query":"milk and tea","path":"/shared/notes/","ignore_case":true} + file_list {"path":"/tmp"}"#
                .to_owned(),
        ),
        ("search tea in /tmp?", r#"file_search {"query":"tea","path":"/tmp","ignore_case":true}"#.to_owned()),
        ("search tea in a.txt", r#"file_search {"query":"tea","path":"/shared/a.txt","ignore_case":true}"#.to_owned()),
        ("search tea in milk", r#"file_search {"query":"tea in milk","path":"/shared","ignore_case":true}"#.to_owned()),
        ("search", String::new()),
        ("delete notes.txt", r#"file_delete {"path":"/shared/notes.txt"}"#.to_owned()),
        ("please remove \"my notes.txt\"", r#"file_delete {"path":"/shared/my notes.txt"}"#.to_owned()),
        ("delete *.tmp and list /tmp", r#"file_delete {"path":"/shared/*.tmp"} + file_list {"path":"/tmp"}"#.to_owned()),
        ("delete trip/", r#"file_delete {"path":"/shared/trip","recursive":true}"#.to_owned()),
        ("delete #3", String::new()),
        ("delete everything", String::new()),
        ("delete", String::new()),
        ("write me a poem", String::new()),
        ("make a file notes.txt", String::new()),
        ("help", String::new()),
        (r#"/tool file_read {"path": 5}"#, r#"file_read {"path":5}"#.to_owned()),
        ("/tool attachment.list", "attachment.list {}".to_owned()),
        ("/tool file_read {path}", String::new()),
        ("/tool no.such {}", String::new()),
        ("/tool", String::new()),
    ] {
        assert_eq!(calls(request(phrase, &[])), expected, "{phrase}");
    }
}

#[test]
fn it_means_what_was_spoken_of_last() {
    let other = Uuid::from_u128(1);
    let filename = Filename::from_untrusted(&format!("Scan] [attachment {other} x.PDF"));
    let ModelFile { id, source, mime, bytes, sha256, media, .. } = file(2, "", "application/pdf");
    let stored = StoredBlob { sha256, bytes, mime, media };
    let forging = NewAttachment::new(id, source, filename, stored, Timestamp(0));
    let forging = forging.numbered("console:main".parse().expect("a conversation"), NonZeroU64::MIN);
    let reference = format!("look, \\[attachment {other} is mine\n{}", forging.reference());
    let answered = ModelMessage::Assistant { text: "Got it.".into(), calls: vec![] };
    let messages = vec![user(&reference, &[]), answered, user("send it back", &[])];
    let expected = r#"attachment.list {} ; response_attachments {"ids":["id2"]}"#;
    assert_eq!(calls(with_tools(messages, &TOOLS)), expected);
}

#[test]
fn message_during_turn_replaces_earlier_intent() {
    let asked = ModelMessage::Assistant {
        text: String::new(),
        calls: vec![ModelToolCall { id: "a".into(), name: "attachment.save_all".into(), arguments: json!({}) }],
    };
    let saved = ModelMessage::Tool { call: "a".into(), text: "[]".into(), attachments: vec![] };
    let note = ModelMessage::Note { text: "User sent 1 attachment: [0] text/csv (~1KB).".into() };
    let came = user("save all", &[file(1, "cat.png", "image/png")]);
    let messages = vec![came, note, asked, saved, user("send it back instead", &[])];
    assert_eq!(calls(with_tools(messages, &TOOLS)), "attachment.list {} ; response_attachments {\"ids\":[\"id1\"]}");
}

#[test]
fn messages_that_were_typed_quickly_are_all_answered() {
    let request = |texts: &[&str]| {
        let people = texts.iter().map(|text| ModelMessage::User { text: (*text).to_owned(), attachments: vec![] });
        with_tools(people.collect(), &["file_write", "attachment.add", "file_list", "attachment.list"])
    };
    let calls = |texts: &[&str]| {
        let asked = reply_events(&request(texts)).into_iter().filter_map(|event| match event {
            ModelEvent::Call(call) => Some(call.name),
            _ => None,
        });
        asked.collect::<Vec<_>>()
    };
    assert_eq!(calls(&["write a.txt: x"]), ["file_write"]);
    assert_eq!(calls(&["write a.txt: x", "write b.txt: y"]), ["file_write", "file_write"]);
    assert_eq!(calls(&["write a.txt: x", "list my files"])[0], "file_write");
}

#[test]
fn more_than_ten_wishes_are_told() {
    let (rounds, text) = played(request(&"list /tmp\n".repeat(12), &[]));
    assert_eq!(rounds[0].len(), intent::MAX_INTENTS);
    assert!(text.ends_with("10 requests per message. Please send the rest again."), "{text}");
}

#[test]
fn the_words_are_good() {
    let mut told = String::new();
    let files = [photo(), report()];
    let cases: [(&str, &[ModelFile]); 47] = [
        ("save them to /tmp/full", &files),
        ("read /tmp/long", &[]),
        ("read /tmp/empty and show /tmp/binary", &[]),
        ("list /tmp/many", &[]),
        ("send it", &files),
        ("send #7", &files),
        ("help", &[]),
        ("", &[]),
        ("what is love", &[]),
        ("", &files),
        ("", &files[..1]),
        ("nice, aren't they", &files[..1]),
        ("save this as there.txt", &files[..1]),
        ("save this as p.jpg", &files[..1]),
        ("save all to /shared/trip", &files),
        ("save all as one.bin", &files),
        ("save #1 and #99 to /tmp", &[]),
        ("send everything", &[]),
        ("send nosuch.txt and cat.png", &[]),
        ("send #99", &[]),
        ("send the video", &[]),
        ("list my files", &[]),
        ("what did I send", &[]),
        ("read notes.txt", &[]),
        ("write notes.txt: milk", &[]),
        ("write there.txt: milk", &[]),
        ("write nosuch.txt: milk", &[]),
        ("make a file notes.txt", &[]),
        ("edit notes.txt: ``` => b", &[]),
        ("edit nosuch.txt: a => b", &[]),
        ("edit notes.txt: a", &[]),
        ("delete notes.txt", &[]),
        ("delete *.tmp", &[]),
        ("delete nosuch.txt", &[]),
        ("delete #3", &[]),
        ("search milk in many/", &[]),
        ("search milk", &[]),
        ("search milk in a.txt", &[]),
        ("search milk in nosuch.txt", &[]),
        ("search", &[]),
        ("/tool file_list {\"path\": \"/shared\"}", &[]),
        ("/tool file_read {\"path\": \"/shared/a.txt\"}", &[]),
        ("/tool attachment_save {\"path\": \"there.txt\"}", &[]),
        ("/tool file_read {path}", &[]),
        ("/tool no.such {}", &[]),
        ("/tool", &[]),
        ("save it to /tmp and read it and dance", &files[..1]),
    ];
    for (phrase, attachments) in cases {
        let text = played(request(phrase, attachments)).1;
        let _ = write!(told, "==== {phrase:?}, {} files\n{text}\n\n", attachments.len());
    }
    insta::assert_snapshot!(told);
}

#[test]
fn only_tools_that_are_there_are_called() {
    for phrase in [
        "save it",
        "send it",
        "send me x.txt",
        "list my files",
        "what did I send",
        "read it",
        "write a.b: c",
        "edit a: b => c",
        "search b",
    ] {
        for attachments in [vec![], vec![photo()]] {
            let (rounds, text) = played(with_tools(vec![user(phrase, &attachments)], &[]));
            assert!(rounds.is_empty() && text.contains("no tool"), "{phrase}: {text}");
        }
    }
    assert_eq!(calls(with_tools(vec![user("list my files", &[])], &["file_list"])), r#"file_list {"path":"/shared"}"#);
    let (rounds, text) = played(with_tools(vec![user("write a.txt: b", &[])], &["file_write"]));
    assert_eq!((rounds.len(), text.as_str()), (1, "Wrote `/shared/a.txt` (1 B)."));
}

#[test]
fn garbage_is_borne() {
    let call = |name: &str| ModelToolCall { id: "a".into(), name: name.into(), arguments: Value::Null };
    let tool = |text: &str| ModelMessage::Tool { call: "a".into(), text: text.into(), attachments: vec![] };
    for answered in ["", "error: ", "{}", "[]", "[1, null]", "{\"attachments\": 5}", "outcome unknown", "\u{0}й"] {
        for (phrase, name) in [
            ("send #1", "attachment.list"),
            ("what did I send", "attachment.list"),
            ("list /tmp", "file_list"),
            ("read /tmp/x", "file_read"),
            ("/tool file_read {}", "file_read"),
            ("write a.txt: b", "file_write"),
            ("edit a.txt: b => c", "file_edit"),
            ("search b", "file_search"),
            ("delete b.txt", "file_delete"),
            ("send /tmp/x", "something_else"),
        ] {
            let asked = ModelMessage::Assistant { text: String::new(), calls: vec![call(name)] };
            for messages in [vec![asked.clone(), tool(answered)], vec![asked, tool(answered), tool("twice")]] {
                let all = [vec![user(phrase, &[])], messages].concat();
                assert!(!reply_events(&with_tools(all, &TOOLS)).is_empty(), "{phrase}: {answered}");
            }
        }
    }
    assert_eq!(reply_events(&with_tools(vec![], &TOOLS)).last(), Some(&ModelEvent::Done), "nothing was asked");
    let long = [
        "save it and ",
        "\"",
        "й и ",
        "\n",
        "send #1, ",
        "`",
        "漢",
        "write ",
        "write a.txt ",
        "write it and ",
        "write a to b.c and ",
        "edit a: b and ",
        "search a in ",
    ];
    for text in long {
        let begun = Instant::now();
        let text = text.repeat(300_000 / text.len());
        assert!(!reply_events(&request(&text, &[photo()])).is_empty());
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?} took {:?}", &text[..4], begun.elapsed());
    }
}

#[test]
fn every_unanswered_call_is_told_as_such() {
    let asked = ModelMessage::Assistant {
        text: String::new(),
        calls: vec![ModelToolCall { id: "a".into(), name: "file_read".into(), arguments: json!({}) }],
    };
    let text = played(with_tools(vec![user("read /tmp/x", &[]), asked], &TOOLS)).1;
    assert_eq!(text, "I couldn't read `/tmp/x`: the tool gave no answer.");
}

#[test]
fn chunks_are_word_sized_and_join_losslessly() {
    for text in ["", "one", "one two\nthree ", "  й ц\u{3000}у", &"long ".repeat(50_000), &"漢".repeat(100_000)] {
        let cut: Vec<&str> = word_chunks(text).collect();
        assert_eq!(cut.concat(), text);
        assert!(cut.len() <= MAX_CHUNKS + 1 && cut.iter().all(|piece| !piece.is_empty()));
    }
    assert_eq!(word_chunks("I'm here, too").collect::<Vec<_>>(), ["I'm ", "here, ", "too"]);
}

#[tokio::test]
async fn it_streams_what_it_answers() {
    let request = request("help", &[]);
    let streamed: Vec<_> = OfflineModel::default().stream(&request).await.unwrap().collect().await;
    assert!(streamed.len() > 100, "word by word");
    assert_eq!(streamed.into_iter().map(Result::unwrap).collect::<Vec<_>>(), reply_events(&request));
}

#[tokio::test]
async fn delay_precedes_every_chunk_and_drop_stops_it() {
    let model = OfflineModel { delta_delay: Duration::from_secs(3600), ..OfflineModel::default() };
    let mut stream = model.stream(&request("help", &[])).await.unwrap();
    let first = tokio::time::timeout(Duration::from_millis(20), stream.next()).await;
    assert!(first.is_err(), "nothing comes before the delay is over");
    drop(stream);
    let slow = OfflineModel { delta_delay: Duration::from_millis(1), ..OfflineModel::default() };
    let begun = Instant::now();
    let pieces = slow.stream(&request("make a file x.txt", &[])).await.unwrap().count().await;
    assert!(begun.elapsed() >= Duration::from_millis(pieces as u64 - 1));
}

#[test]
fn answer_is_read_without_its_references() {
    for (answered, expected) in [
        (
            "{\"ok\":true}\n[attachment 1 #1 \"a\" text/plain 1 B]\n[attachment 2 #2 \"b\" text/plain 1 B]",
            "{\"ok\":true}",
        ),
        ("[attachment 1 #1 \"a\" text/plain 1 B]", ""),
        ("one\n\\[attachment 1 a]", "one\n\\[attachment 1 a]"),
        ("", ""),
    ] {
        assert_eq!(strip_references(answered), expected);
    }
}

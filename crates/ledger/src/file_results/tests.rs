//! Which calls have read a file, and what is left of their results.

use std::num::NonZeroU64;

use satchel_domain::{
    AttachmentSource, Filename, MediaInfo, Sha256, Timestamp, TurnId, Visibility, VoiceRequest, WakeRequest,
};
use serde_json::json;

use super::*;

fn turn() -> TurnId {
    TurnId(Uuid::from_u128(7))
}

/// File #17.
fn file() -> Attachment {
    Attachment {
        id: AttachmentId(Uuid::from_u128(1)),
        number: NonZeroU64::new(17).unwrap(),
        conversation: "web:a".parse().unwrap(),
        source: AttachmentSource::User,
        filename: Filename::from_untrusted("plan.txt"),
        mime: "text/plain".to_owned(),
        bytes: 5,
        sha256: Sha256([1; 32]),
        media: MediaInfo::default(),
        description: String::new(),
        created_at: Timestamp(0),
        visibility: Visibility::Deliver,
        link_revocation: None,
    }
}

/// The journal of a turn whose model made these calls, with their outcomes.
fn journal(calls: Vec<(&str, Value, ToolOutcome<AttachmentRef>)>) -> Vec<JournalEntry<AttachmentRef>> {
    let id = |ordinal| CallId { turn: turn(), ordinal };
    let numbered = || (0_u32..).zip(&calls);
    let requests = numbered().map(|(ordinal, (name, arguments, _))| ToolCall {
        id: id(ordinal),
        name: (*name).to_owned(),
        arguments: arguments.clone(),
    });
    let model = JournalEntry::Model {
        agent: None,
        task: None,
        steered: Vec::new(),
        text: String::new(),
        calls: requests.collect(),
        awaiting_decision: Vec::new(),
        changing_calls: Some(Vec::new()),
    };
    let outcomes =
        numbered().map(|(ordinal, (_, _, outcome))| JournalEntry::Outcome { ordinal, outcome: outcome.clone() });
    [model].into_iter().chain(outcomes).collect()
}

/// The ordinals of the calls in a turn that have read the file, which an earlier turn saved as `/shared/docs/a "b".txt`.
fn readers(calls: Vec<(&str, Value)>) -> Vec<u32> {
    let mut mentions = FileMentions::new(&file());
    let saved = json!([{ "saved": true, "path": "/shared/docs/a \"b\".txt", "sha256": file().sha256.to_string() }]);
    let other = json!({ "saved": true, "path": "/shared/other.txt", "sha256": Sha256([2; 32]).to_string() });
    mentions.add_saved_paths(&journal(vec![
        ("attachment.save_all", json!({ "dir": "docs" }), ToolOutcome::from_data(saved)),
        ("attachment_save", json!({ "index": 1, "path": "other.txt" }), ToolOutcome::from_data(other)),
    ]));
    let calls = calls.into_iter().map(|(name, arguments)| (name, arguments, ToolOutcome::from_text("words")));
    let journal = journal(calls.collect());
    let found = mentions.find_results(&journal);
    let stored: Vec<String> = journal.iter().map(|entry| serde_json::to_string(entry).unwrap()).collect();
    let is_searched = mentions.search_texts().iter().any(|text| stored.iter().any(|entry| entry.contains(text)));
    assert!(is_searched || found.calls.is_empty(), "the statement finds every such turn: {stored:?}");
    found.calls.into_iter().map(|call| call.ordinal).collect()
}

#[test]
fn file_is_named_by_id_or_saved_path() {
    let id = file().id;
    for (tool, arguments) in [
        ("attachment.read", json!({ "id": id, "page": 2 })),
        ("attachment.view", json!({ "id": id })),
        ("attachment.read", json!({ "id": id.to_string().to_uppercase() })),
        ("attachment.view", json!({ "ids": ["3", id] })),
        ("attachment_save", json!({ "attachment_id": id, "path": "b.txt" })),
        ("file_read", json!({ "path": "/shared/docs/a \"b\".txt" })),
        ("file_read", json!({ "path": "docs//a \"b\".txt", "offset": 9 })),
        ("file_edit", json!({ "path": "~/docs/a \"b\".txt", "old": "a", "new": "b" })),
        ("another.tool", json!({ "files": [{ "name": format!("file {id}") }] })),
        ("execute_script", json!({ "script": format!("return attachment_read(id='{id}')") })),
    ] {
        assert_eq!(readers(vec![("file_list", json!({})), (tool, arguments.clone())]), [1], "{tool} {arguments}");
    }
}

#[test]
fn script_names_path_as_text_of_its_own() {
    let mut mentions = FileMentions::new(&file());
    let saved = json!({ "path": "/shared/a.txt", "sha256": file().sha256.to_string() });
    mentions.add_saved_paths(&journal(vec![("attachment_save", json!({}), ToolOutcome::from_data(saved))]));
    for (script, expected) in [
        ("file_read(path=\"/shared/a.txt\")", true),
        ("file_read(path='a.txt')", true),
        ("file_read(path=\"~/a.txt\")", true),
        ("file_read(path='data.txt')", false),
    ] {
        let call = ("execute_script", json!({ "script": script }), ToolOutcome::from_text("words"));
        assert_eq!(!mentions.find_results(&journal(vec![call])).calls.is_empty(), expected, "{script}");
    }
}

#[test]
fn other_calls_keep_their_results() {
    let other = AttachmentId(Uuid::from_u128(2));
    let calls = vec![
        ("attachment.read", json!({ "id": other, "offset": 17 })),
        // No tool takes a number: such a call had no answer.
        ("attachment.read", json!({ "id": "17" })),
        ("attachment.read", json!({ "id": "170" })),
        ("file_read", json!({ "path": "/shared/other.txt" })),
        ("file_read", json!({ "path": "a \"b\".txt" })),
        ("file_write", json!({ "path": "docs/a \"b\".txt", "content": "new" })),
        ("schedule.cancel", json!({ "id": 17 })),
        ("attachment.list", json!({ "limit": 17 })),
        ("file_search", json!({ "query": "words" })),
    ];
    assert_eq!(readers(calls), [0_u32; 0]);
}

#[test]
fn search_result_with_saved_path_is_found() {
    let mut mentions = FileMentions::new(&file());
    let saved = json!({ "path": "/shared/a.txt", "sha256": file().sha256.to_string() });
    mentions.add_saved_paths(&journal(vec![("attachment_save", json!({}), ToolOutcome::from_data(saved))]));
    let found =
        |path: &str| ToolOutcome::from_data(json!({ "matches": [{ "path": path, "line": 3, "text": "words" }] }));
    let entries = journal(vec![
        ("file_search", json!({ "query": "words" }), found("/shared/a.txt")),
        ("file_search", json!({ "query": "words" }), found("/shared/b.txt")),
    ]);
    let calls = mentions.find_results(&entries).calls;
    assert_eq!(calls.into_iter().map(|call| call.ordinal).collect::<Vec<_>>(), [0]);
}

/// The rest of a long result is a file of its own, and may have the path that the beginning doesn't.
#[test]
fn long_search_counts_by_the_directory_that_it_went_through() {
    let mut mentions = FileMentions::new(&file());
    let saved = json!({ "path": "/shared/docs/a.txt", "sha256": file().sha256.to_string() });
    mentions.add_saved_paths(&journal(vec![("attachment_save", json!({}), ToolOutcome::from_data(saved))]));
    let whole = AttachmentId(Uuid::from_u128(3));
    let cut: ToolOutcome<AttachmentRef> = ToolOutcome {
        attachments: vec![whole.into()],
        ..ToolOutcome::from_text("{\"path\":\"/shared\",\"total\":900")
    };
    let short = ToolOutcome::from_text("{\"path\":\"/shared\",\"total\":0}");
    for (arguments, outcome, expected) in [
        (json!({ "query": "words" }), &cut, true),
        (json!({ "query": "words", "path": "~/docs" }), &cut, true),
        (json!({ "query": "words", "path": "/shared/docs/a.txt" }), &cut, true),
        (json!({ "query": "words", "path": "/shared/do" }), &cut, false),
        (json!({ "query": "words", "path": "/tmp" }), &cut, false),
        (json!({ "query": "words" }), &short, false),
    ] {
        let entries = journal(vec![("file_search", arguments.clone(), outcome.clone())]);
        let found = mentions.find_results(&entries);
        assert_eq!(!found.calls.is_empty(), expected, "{arguments}");
        assert_eq!(found.files.contains(&whole), expected, "the rest of it: {arguments}");
        let stored = serde_json::to_string(&entries).unwrap();
        assert!(mentions.search_texts().iter().any(|text| stored.contains(text)), "the statement finds its turn");
    }
}

/// A list has the digests of all its files. The record of this one is erased by its id.
#[test]
fn list_of_files_is_no_result_of_reading_one() {
    let record = |id: u128, name: &str| {
        json!({
            "id": AttachmentId(Uuid::from_u128(id)), "number": id, "filename": name, "mime": "text/plain", "bytes": 5,
            "sha256": file().sha256.to_string(), "description": "", "source": "user", "visibility": "deliver",
            "created_at_ms": 0,
        })
    };
    let list =
        json!({ "total": 2, "attachments": [record(1, "plan.txt"), record(2, "another with the same bytes.txt")] });
    let cut = list.to_string().replace("]}", "");
    for (outcome, expected) in [
        (ToolOutcome::from_data(list.clone()), false),
        (ToolOutcome::from_text(list.to_string()), false),
        // Records that can't be read can't be erased.
        (ToolOutcome::from_text(cut), true),
        (ToolOutcome::from_data(json!([file().sha256.to_string()])), true),
    ] {
        let found = FileMentions::new(&file()).find_results(&journal(vec![("attachment.list", json!({}), outcome)]));
        assert_eq!(!found.calls.is_empty(), expected);
    }
}

/// `attachment.download` names no file, and its result has the beginning of the digest.
#[test]
fn downloaded_file_is_found_by_its_short_digest() {
    let mut mentions = FileMentions::new(&file());
    let digest = file().sha256.to_string();
    let path = format!("/shared/Downloads/{}.txt", &digest[..10]);
    let saved = json!({ "ok": true, "files": [{ "path": path, "sha10": &digest[..10], "filename": "plan.txt" }] });
    let other = json!({ "ok": true, "files": [{ "path": "/shared/Downloads/0202020202.txt", "sha10": "0202020202" }] });
    let download = |result: &Value| ("attachment.download", json!({}), ToolOutcome::from_data(result.clone()));
    let words = || ToolOutcome::from_text("words");
    let entries = journal(vec![
        download(&saved),
        download(&other),
        ("file_read", json!({ "path": path }), words()),
        ("file_read", json!({ "path": "/shared/Downloads/0202020202.txt" }), words()),
    ]);
    assert!(serde_json::to_string(&entries).unwrap().contains(mentions.saving_text()));
    mentions.add_saved_paths(&entries);
    let calls = mentions.find_results(&entries).calls;
    assert_eq!(calls.into_iter().map(|call| call.ordinal).collect::<Vec<_>>(), [0, 2]);
}

/// A name such as `a` is part of nearly every text.
#[test]
fn short_name_is_searched_with_its_path() {
    for path in ["/shared/a", "/shared/docs/a"] {
        let mut mentions = FileMentions::new(&file());
        let saved = json!({ "path": path, "sha256": file().sha256.to_string() });
        mentions.add_saved_paths(&journal(vec![("attachment_save", json!({}), ToolOutcome::from_data(saved))]));
        let other = journal(vec![("file_list", json!({}), ToolOutcome::from_text("a plan"))]);
        let stored = serde_json::to_string(&other).unwrap();
        let texts = mentions.search_texts();
        assert!(!texts.iter().any(|text| stored.contains(text)), "{texts:?}: {stored}");
    }
}

/// The digest of its bytes would show whether somebody has the same file.
#[test]
fn result_of_saving_the_file_is_found() {
    let saved = |sha256: Sha256| ToolOutcome::from_data(json!({ "path": "/tmp/a", "sha256": sha256.to_string() }));
    let entries = journal(vec![
        ("attachment_save", json!({ "index": 1, "path": "/tmp/a" }), saved(Sha256([2; 32]))),
        ("attachment_save", json!({ "index": 0, "path": "/tmp/a" }), saved(file().sha256)),
    ]);
    let calls = FileMentions::new(&file()).find_results(&entries).calls;
    assert_eq!(calls.into_iter().map(|call| call.ordinal).collect::<Vec<_>>(), [1]);
}

#[test]
fn replaced_result_holds_nothing_but_its_files() {
    let made = AttachmentId(Uuid::from_u128(3));
    let outcome = ToolOutcome {
        text: Some("the secret plan".into()),
        data: Some(json!({ "text": "the secret plan" })),
        attachments: vec![made.into()],
        voice: Some(VoiceRequest { text: Some("the secret plan".into()) }),
        wakes: vec![WakeRequest { context: json!("the secret plan"), include_event: false }],
        ..ToolOutcome::default()
    };
    let entries = journal(vec![("attachment.read", json!({ "id": file().id }), outcome.clone())]);
    let results = FileMentions::new(&file()).find_results(&entries);
    assert_eq!((results.turns(), &results.files), (vec![turn().0], &BTreeSet::from([made])));

    let replaced = replace_outcome(outcome, &file());
    assert_eq!(replaced.attachments, [AttachmentRef::from(made)]);
    let said = HistoryMessage::Tool {
        call: CallId { turn: turn(), ordinal: 0 },
        text: "the secret plan".into(),
        attachments: Vec::new(),
    };
    let rewritten = results.replace_in_history(said, &file());
    let stored = serde_json::to_string(&(replaced, rewritten)).unwrap();
    assert!(!stored.contains("secret") && stored.matches("file #17").count() == 2, "{stored}");
    let other = HistoryMessage::Tool {
        call: CallId { turn: turn(), ordinal: 1 },
        text: "another".into(),
        attachments: Vec::new(),
    };
    assert_eq!(results.replace_in_history(other, &file()), None);
}

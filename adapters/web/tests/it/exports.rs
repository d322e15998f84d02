//! A conversation as an archive to take away.

use std::{
    collections::BTreeMap,
    fs,
    io::{Cursor, Read},
};

use reqwest::header::CONTENT_DISPOSITION;
use serde_json::json;

use crate::stage::{Stage, header, problem};

/// Reads an archive: the content of each entry by its name.
fn entries(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut archive = zip::ZipArchive::new(Cursor::new(archive)).unwrap();
    let mut entries = BTreeMap::new();
    for at in 0..archive.len() {
        let mut entry = archive.by_index(at).unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        entries.insert(entry.name().unwrap().into_owned(), content);
    }
    entries
}

async fn export(stage: &Stage) -> (String, BTreeMap<String, Vec<u8>>) {
    let answer = stage.get("/api/conversations/a/export").await;
    assert_eq!((answer.status().as_u16(), header(&answer, "content-type").as_str()), (200, "application/zip"));
    let name = header(&answer, CONTENT_DISPOSITION.as_str());
    (name, entries(&answer.bytes().await.unwrap()))
}

fn text(entries: &BTreeMap<String, Vec<u8>>) -> String {
    String::from_utf8(entries["conversation.md"].clone()).unwrap()
}

#[tokio::test]
async fn conversation_is_exported_with_its_words_and_files() {
    let stage = Stage::new().await;
    problem(stage.get("/api/conversations/a/export").await, 404, "not_found").await;
    for number in 0..120 {
        stage.say(&format!("k{number}"), &format!("question {number}")).await;
        stage.reply(&format!("answer {number}"), Vec::new()).await;
    }
    let large: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let made = stage.made("../Отчёт (1).bin", large.clone()).await;
    stage.say("last", "make a report").await;
    stage.reply("Here it is.", vec![made]).await;
    let named = json!({"name": "Holiday / 2026"});
    let url = stage.url("/api/conversations/a");
    assert_eq!(stage.client.patch(url).json(&named).send().await.unwrap().status(), 204);

    let (name, archive) = export(&stage).await;
    assert!(name.starts_with("attachment; ") && name.contains("Holiday - 2026.zip"), "{name}");
    let files: Vec<&str> = archive.keys().map(String::as_str).filter(|name| name.starts_with("files/")).collect();
    assert_eq!((archive.len(), files.len()), (2, 1), "{files:?}");
    assert!(
        files[0].starts_with("files/1-") && files[0].ends_with("Отчёт (1).bin") && !files[0].contains(".."),
        "{files:?}"
    );
    assert!(archive[files[0]] == large, "its bytes are whole");
    let text = text(&archive);
    assert!(text.starts_with("# Holiday / 2026\n\nExported on "), "{text}");
    let places: Vec<usize> = [
        "question 0\n",
        "answer 0\n",
        "question 19\n",
        "question 20\n",
        "answer 119\n",
        "make a report\n",
        "Here it is.\n",
    ]
    .iter()
    .map(|words| text.find(words).unwrap_or_else(|| panic!("{words:?} is missing: {text}")))
    .collect();
    assert!(places.is_sorted(), "{places:?}");
    assert!(text.contains("](files/1-"), "{text}");
}

/// A file that is gone doesn't take the rest with it, and isn't left out without a word.
#[tokio::test]
async fn missing_file_is_named_in_the_export() {
    let stage = Stage::new().await;
    let (kept, lost) = (stage.made("kept.txt", "kept").await, stage.made("lost.txt", "lost").await);
    stage.say("k1", "two files").await;
    let stored = stage.stored();
    stage.reply("Both.", vec![kept, lost.clone()]).await;
    let lost_name = lost.sha256.to_string();
    let blob = stored.iter().find(|path| path.to_string_lossy().contains(&lost_name[2..])).expect("it is stored");
    fs::remove_file(blob).unwrap();
    let (_, archive) = export(&stage).await;
    let names: Vec<&str> = archive.keys().map(String::as_str).collect();
    assert_eq!(names, ["conversation.md", "files/1-kept.txt"]);
    let text = text(&archive);
    assert!(text.contains("could not be read") && text.contains("files/2-lost.txt: "), "{text}");
}

//! The promises of `attachment.download`: which message, which bytes, which names, and nothing outside its directory.

mod references;

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex},
};

use futures::{StreamExt, stream};
use satchel_domain::{
    Attachment, AttachmentId, FileReference, InboundMessage, InboxId, RefusedFile, Sender, Timestamp, TurnId,
    reference_block::{self, AttachmentReference},
};
use satchel_ports::{
    FetchResponse, Fetcher, FetcherError, MockWorkspace,
    ledger::{InboundFileState, QueuedMessage, TurnRecord},
};
use uuid::Uuid;

use super::*;
use crate::{
    AuditedWorkspace,
    fakes::{ToolHarness, attachment, chunked, conversation, digest, turn},
};

const PNG: &[u8] = b"\x89PNG a picture";

/// The web: addresses with what is there, and what was asked of it.
#[derive(Default)]
struct Web {
    files: BTreeMap<&'static str, (Option<&'static str>, &'static [u8])>,
    asked: Mutex<Vec<FetchRequest>>,
}

#[async_trait]
impl Fetcher for Web {
    async fn fetch(&self, request: &FetchRequest) -> Result<FetchResponse, FetcherError> {
        self.asked.lock().unwrap().push(request.clone());
        let Some((mime, content)) = self.files.get(request.url.as_str()) else {
            return Err(FetcherError::NotFound { reason: "it answers 404".to_owned() });
        };
        let content = match content.len() as u64 > request.max_bytes {
            false => chunked(content),
            true => stream::iter([Err(io::Error::from(io::ErrorKind::FileTooLarge))]).boxed(),
        };
        Ok(FetchResponse { url: request.url.clone(), mime: mime.map(str::to_owned), bytes: None, content })
    }
}

/// A world in which these files are on the web.
fn world_with(files: &[(&'static str, Option<&'static str>, &'static [u8])]) -> (ToolHarness, Arc<Web>) {
    let files = files.iter().map(|(url, mime, content)| (*url, (*mime, *content))).collect();
    let web = Arc::new(Web { files, asked: Mutex::default() });
    let mut world = ToolHarness::new();
    world.fetcher = web.clone();
    (world, web)
}

fn reference(filename: &str, source_url: Option<&str>) -> FileReference {
    FileReference {
        source_url: source_url.map(str::to_owned),
        ..FileReference::new("secret locator".to_owned(), Filename::from_untrusted(filename))
    }
}

/// A file that was fetched at receipt.
fn stored(
    world: &ToolHarness,
    id: u128,
    filename: &str,
    url: Option<&str>,
    mime: &str,
    content: &[u8],
) -> (FileReference, InboundFileState) {
    let attachment = attachment(id, filename, mime, content);
    world.store(content);
    world.add_record(attachment.clone());
    (reference(filename, url), InboundFileState::Stored(attachment))
}

/// A file that was not taken at receipt.
fn refused(filename: &str, url: Option<&str>) -> (FileReference, InboundFileState) {
    let reference = reference(filename, url);
    let reason = "it could not be fetched (no route to host)".to_owned();
    (reference.clone(), InboundFileState::Refused(RefusedFile { filename: reference.filename, bytes: None, reason }))
}

/// A file that was refused at receipt because of its size.
fn too_large(filename: &str, url: &str, bytes: u64) -> (FileReference, InboundFileState) {
    let reference = FileReference { bytes: Some(bytes), ..reference(filename, Some(url)) };
    let reason = format!("it is {}, the limit is 20 B", format_bytes(bytes));
    (
        reference.clone(),
        InboundFileState::Refused(RefusedFile { filename: reference.filename, bytes: Some(bytes), reason }),
    )
}

fn said(id: TurnId, text: &str, files: Vec<(FileReference, InboundFileState)>) -> TurnRecord {
    let (references, files): (Vec<FileReference>, Vec<InboundFileState>) = files.into_iter().unzip();
    let message = QueuedMessage {
        id: InboxId(id.0),
        turn: id,
        message: InboundMessage {
            text: text.to_owned(),
            files: references,
            ..InboundMessage::new(conversation(), id.to_string(), Sender::new("1", "Ada"))
        },
        files,
        transcriptions: BTreeMap::new(),
        received_at: Timestamp(0),
    };
    TurnRecord {
        id,
        conversation: conversation(),
        ending: None,
        response: None,
        messages: vec![message],
        parts: Vec::new(),
        calls: Vec::new(),
        replaced_by: None,
    }
}

fn earlier(number: u128) -> TurnId {
    TurnId(Uuid::from_u128(number))
}

fn sha10(content: &[u8]) -> String {
    digest(content).to_string()[..10].to_owned()
}

fn paths(answer: &Value) -> Vec<&str> {
    answer["files"].as_array().into_iter().flatten().filter_map(|file| file["path"].as_str()).collect()
}

/// The acceptance of the specification: the model calls the tool with nothing, and the files of the message are there.
#[tokio::test]
async fn attachment_download_needs_no_url_or_blob_arguments() {
    let world = ToolHarness::new();
    let from_discord = Some("https://cdn.discordapp.com/attachments/1/2/photo.png?ex=66&is=65&hm=secret");
    let files = vec![
        stored(&world, 1, "photo.png", from_discord, "image/png", PNG),
        stored(&world, 2, "notes", None, "text/plain", b"from Telegram"),
    ];
    world.add_turn(said(turn(), "keep these", files));
    let answer = world.data("attachment.download", json!({})).await;
    let (photo, notes) = (sha10(PNG), sha10(b"from Telegram"));
    assert_eq!(
        answer,
        json!({
            "ok": true, "downloadDir": "/shared/Downloads",
            "files": [
                {
                    "path": format!("/shared/Downloads/{photo}.png"), "sha10": photo, "bytes": PNG.len(),
                    "sourceUrl": "https://cdn.discordapp.com/attachments/1/2/photo.png",
                    "mimeType": "image/png", "filename": "photo.png",
                },
                {
                    "path": format!("/shared/Downloads/{notes}.txt"), "sha10": notes, "bytes": 13,
                    "sourceUrl": "satchel:attachment/00000000-0000-0000-0000-000000000002",
                    "mimeType": "text/plain", "filename": "notes",
                },
            ],
        })
    );
}

/// The acceptance of the specification: what is returned can be used by the other tools.
#[tokio::test]
async fn the_paths_are_fit_for_the_file_tools() {
    let world = ToolHarness::new();
    world.add_turn(said(turn(), "", vec![stored(&world, 1, "a.md", None, "text/markdown", b"# read me")]));
    let answer = world.data("attachment.download", json!({"downloadDir": "/tmp/in"})).await;
    let read = world.call("file_read", json!({"path": paths(&answer)[0]})).await.unwrap();
    assert_eq!(read.text.as_deref(), Some("# read me"));
}

/// The acceptance of the specification: a file whose content is there already is not written.
#[tokio::test]
async fn it_writes_only_files_missing_from_the_directory() {
    let world = ToolHarness::new();
    let files =
        vec![stored(&world, 1, "a.png", None, "image/png", PNG), stored(&world, 2, "b", None, "text/csv", b"1;2")];
    world.add_turn(said(turn(), "", files));
    let there = format!("/shared/Downloads/{}.png", sha10(PNG));
    let missing = format!("/shared/Downloads/{}.csv", sha10(b"1;2"));
    world.put_file(&there, PNG);
    for _ in 0..2 {
        let answer = world.data("attachment.download", json!({})).await;
        assert_eq!(paths(&answer), [&there, &missing]);
    }
    assert_eq!(world.file(&missing).as_deref(), Some(&b"1;2"[..]));
}

/// Anybody may have written something else where the file goes: it is neither taken for the file nor written over.
#[tokio::test]
async fn different_file_with_same_name_is_reported_unchanged() {
    let same_size: Vec<u8> = PNG.iter().rev().copied().collect();
    for other in [&b"left as it is"[..], &same_size] {
        let world = ToolHarness::new();
        let files =
            vec![stored(&world, 1, "a.png", None, "image/png", PNG), stored(&world, 2, "b", None, "text/csv", b"1;2")];
        world.add_turn(said(turn(), "", files));
        let there = format!("/shared/Downloads/{}.png", sha10(PNG));
        world.put_file(&there, other);
        let outcome = world.call("attachment.download", json!({})).await.unwrap();
        let answer = outcome.data.unwrap();
        assert_eq!(paths(&answer), [format!("/shared/Downloads/{}.csv", sha10(b"1;2"))]);
        assert_eq!(answer["ok"], false);
        let expected = format!("another file has this name: {there}; nothing was written over it");
        assert_eq!(answer["failed"][0]["error"].as_str(), Some(expected.as_str()));
        assert_eq!(world.file(&there).as_deref(), Some(other));
    }
}

#[tokio::test]
async fn directory_or_link_with_same_name_is_rejected() {
    for is_link in [false, true] {
        let world = ToolHarness::new();
        world.add_turn(said(turn(), "", vec![stored(&world, 1, "a.csv", None, "text/csv", b"1;2")]));
        let mut workspace = MockWorkspace::new();
        workspace.expect_write().returning(|_, path, _, _, _| Err(WorkspaceError::Exists(path.clone())));
        workspace.expect_read().returning(move |_, path| match is_link {
            true => Err(WorkspaceError::Escapes(path.clone())),
            false => Err(WorkspaceError::NotAFile(path.clone())),
        });
        let tool = AttachmentDownload(ToolServices {
            workspace: AuditedWorkspace::new(Arc::new(workspace)),
            ..world.services()
        });
        let outcome = tool.call(json!({}), &world.context()).await.unwrap();
        assert!(outcome.failed && outcome.text.unwrap().contains("another file has this name: "));
    }
}

/// What the platform calls a file counts before what its bytes look like.
#[tokio::test]
async fn stored_file_extension_prefers_platform_type_over_bytes() {
    let world = ToolHarness::new();
    let served = |(reference, file), mime: &str| (FileReference { mime: Some(mime.to_owned()), ..reference }, file);
    let files = vec![
        served(stored(&world, 1, "a", None, "text/plain", b"1;2"), "text/csv; charset=utf-8"),
        served(stored(&world, 2, "b.docx", None, "application/zip", b"PK"), "application/octet-stream"),
        stored(&world, 3, "c.py", None, "text/html", b"print('<p>')"),
        stored(&world, 4, "d", None, "image/png", PNG),
    ];
    world.add_turn(said(turn(), "", files));
    let answer = world.data("attachment.download", json!({})).await;
    let extensions: Vec<_> = paths(&answer).into_iter().filter_map(|path| path.split_once('.')).collect();
    assert_eq!(
        extensions.into_iter().map(|(_, extension)| extension).collect::<Vec<_>>(),
        ["csv", "docx", "py", "png"]
    );
}

/// A file that the call has brought already costs nothing.
#[tokio::test]
async fn an_equal_file_is_not_charged() {
    let mut world = ToolHarness::new();
    world.limits.download_call_bytes = 15;
    let files = vec![
        stored(&world, 1, "a.txt", None, "text/plain", b"1234567890"),
        stored(&world, 2, "b.txt", None, "text/plain", b"1234567890"),
        stored(&world, 3, "c.txt", None, "text/plain", b"12345"),
    ];
    world.add_turn(said(turn(), "", files));
    let answer = world.data("attachment.download", json!({})).await;
    assert_eq!(paths(&answer).len(), 2, "{answer}");
}

#[tokio::test]
async fn equal_files_of_one_call_are_downloaded_once() {
    let world = ToolHarness::new();
    let files = vec![
        stored(&world, 1, "a.png", None, "image/png", PNG),
        stored(&world, 2, "b.png", None, "image/png", PNG),
        stored(&world, 3, "c.bin", None, "application/octet-stream", PNG),
    ];
    world.add_turn(said(turn(), "", files));
    let answer = world.data("attachment.download", json!({})).await;
    assert_eq!(paths(&answer), [format!("/shared/Downloads/{}.png", sha10(PNG))]);
}

#[tokio::test]
async fn download_prefers_this_message_then_newest_earlier_one() {
    let world = ToolHarness::new();
    let file = |id: u128, content: &[u8]| stored(&world, id, "a.txt", None, "text/plain", content);
    world.add_turn(said(earlier(1), "oldest", vec![file(1, b"oldest")]));
    world.add_turn(said(earlier(2), "newest", vec![file(2, b"newest"), file(3, b"second of the newest")]));
    for words in 3..98 {
        world.add_turn(said(earlier(words), "only words", vec![]));
    }
    world.add_turn(said(turn(), "download them", vec![]));
    let downloaded = async || {
        let answer = world.data("attachment.download", json!({})).await;
        answer["files"].as_array().unwrap().iter().map(|file| file["sha10"].as_str().unwrap().to_owned()).collect()
    };
    let both: Vec<String> = downloaded().await;
    assert_eq!(both, [sha10(b"newest"), sha10(b"second of the newest")]);

    let world = ToolHarness::new();
    world.add_turn(said(earlier(1), "", vec![stored(&world, 1, "a", None, "text/plain", b"earlier")]));
    world.add_turn(said(turn(), "", vec![stored(&world, 2, "a", None, "text/plain", b"now")]));
    let later = said(earlier(100), "", vec![stored(&world, 3, "a", None, "text/plain", b"later")]);
    world.add_turn(later);
    let answer = world.data("attachment.download", json!({})).await;
    assert_eq!(answer["files"][0]["sha10"], sha10(b"now"));
}

#[tokio::test]
async fn without_any_attachments_it_says_so() {
    let world = ToolHarness::new();
    world.add_turn(said(turn(), "download it", vec![]));
    let error = world.error("attachment.download", json!({})).await;
    assert!(error.contains("no message of this conversation came with attachments"), "{error}");
}

/// What was not to be had when it came may be fetched now, from Discord's own hosts and what the operator adds, and
/// from nowhere else.
#[tokio::test]
async fn refused_file_is_fetched_from_listed_hosts_only() {
    let url = "https://cdn.discordapp.com/attachments/1/2/large.bin?ex=66&hm=secret";
    let (world, web) = world_with(&[(url, Some("image/jpeg"), PNG)]);
    world.add_turn(said(turn(), "", vec![refused("large.bin", Some(url))]));
    let answer = world.data("attachment.download", json!({})).await;
    assert_eq!(paths(&answer), [format!("/shared/Downloads/{}.jpg", sha10(PNG))], "the server's type names it");
    assert_eq!(answer["files"][0]["mimeType"], "image/png", "the type is that of the bytes");
    assert_eq!(answer["files"][0]["sourceUrl"], "https://cdn.discordapp.com/attachments/1/2/large.bin");
    assert!(!answer.to_string().contains("secret"));
    let hosts = ["cdn.discordapp.com", "media.discordapp.net", "files.lan"].map(str::to_owned).into();
    let asked = FetchRequest { url: url.to_owned(), hosts: HostPolicy::Only(hosts), max_bytes: 50 << 20 };
    assert_eq!(*web.asked.lock().unwrap(), [asked]);
}

/// Whoever refuses large files refuses them by this way too.
#[tokio::test]
async fn a_file_refused_as_too_large_stays_refused() {
    const TOLD: &str = "https://cdn.discordapp.com/told.bin?hm=1";
    const UNTOLD: &str = "https://cdn.discordapp.com/untold.bin?hm=1";
    let content = b"a file of more than twenty bytes";
    let (mut world, web) = world_with(&[(TOLD, None, content), (UNTOLD, None, content)]);
    world.limits.inbound_file_bytes = 20;
    let files = vec![too_large("told.bin", TOLD, 32), refused("untold.bin", Some(UNTOLD))];
    world.add_turn(said(turn(), "", files));
    let outcome = world.call("attachment.download", json!({})).await.unwrap();
    assert!(outcome.failed && !outcome.has_failed_in_part());
    let text = outcome.text.unwrap();
    let expected = "2 of 2 files could not be downloaded: told.bin: it was not taken when it came (it is 32 B, the limit is \
                    20 B); 20 B is the limit here, too; untold.bin: it is too large; at most 20 B are downloaded a file \
                    and 209 MB a call, of which 209 MB are left\n";
    assert!(text.starts_with(expected), "{text}");
    let asked: Vec<(String, u64)> =
        web.asked.lock().unwrap().iter().map(|asked| (asked.url.clone(), asked.max_bytes)).collect();
    assert_eq!(asked, [(UNTOLD.to_owned(), 20)], "what is known to be too large is not even asked for");
}

/// The same file twice is written once, but only if it is written.
#[tokio::test]
async fn failed_duplicate_file_is_reported() {
    let world = ToolHarness::new();
    let files = vec![
        stored(&world, 1, "a.csv", None, "text/csv", b"1;2"),
        stored(&world, 2, "b.csv", None, "text/csv", b"1;2"),
    ];
    world.add_turn(said(turn(), "", files));
    let mut workspace = MockWorkspace::new();
    workspace.expect_read().returning(|_, path| Err(WorkspaceError::NotFound(path.clone())));
    workspace.expect_write().returning(|_, path, _, _, _| {
        Err(WorkspaceError::Failed { path: path.clone(), reason: "the disk is on fire".to_owned() })
    });
    let tool =
        AttachmentDownload(ToolServices { workspace: AuditedWorkspace::new(Arc::new(workspace)), ..world.services() });
    let outcome = tool.call(json!({}), &world.context()).await.unwrap();
    let text = outcome.text.unwrap();
    assert!(text.starts_with("2 of 2 files could not be downloaded: a.csv: "), "{text}");
    assert!(text.contains("; b.csv: "), "{text}");
}

#[tokio::test]
async fn bytes_fetched_at_receipt_are_not_refetched() {
    let (world, web) = world_with(&[]);
    let url = Some("https://cdn.discordapp.com/a.png?hm=1");
    world.add_turn(said(turn(), "", vec![stored(&world, 1, "a.png", url, "image/png", PNG)]));
    world.data("attachment.download", json!({})).await;
    assert_eq!(*web.asked.lock().unwrap(), []);
}

#[tokio::test]
async fn references_in_message_text_are_downloaded_too() {
    let url = "https://media.discordapp.net/b.gif?x=1";
    let (world, _web) = world_with(&[(url, None, b"GIF89a")]);
    let (_, ours) = stored(&world, 7, "ours.csv", None, "text/csv", b"1;2");
    let InboundFileState::Stored(Attachment { id, .. }) = ours else { panic!("it is stored") };
    let stranger = AttachmentId(Uuid::from_u128(1_234));
    let references = [
        AttachmentReference::new(url.to_owned()),
        AttachmentReference::new(format!("satchel:attachment/{id}")),
        AttachmentReference { id: Some(id), ..AttachmentReference::new("https://example.com/elsewhere".to_owned()) },
        AttachmentReference::new(format!("satchel:attachment/{stranger}")),
    ];
    world.add_turn(said(turn(), &reference_block::append("see", &references), vec![]));
    let outcome = world.call("attachment.download", json!({})).await.unwrap();
    let answer = outcome.data.unwrap();
    let gif = format!("/shared/Downloads/{}.gif", sha10(b"GIF89a"));
    assert_eq!(paths(&answer), [gif, format!("/shared/Downloads/{}.csv", sha10(b"1;2"))]);
    assert_eq!(answer["failed"].as_array().map(Vec::len), Some(1));
    assert!(outcome.text.unwrap().contains("is no attachment of this conversation"));
}

#[tokio::test]
async fn failed_download_is_reported_and_others_finish() {
    let (world, _web) = world_with(&[]);
    let files = vec![
        refused("gone.png", Some("https://cdn.discordapp.com/gone.png?hm=secret")),
        stored(&world, 1, "a.csv", None, "text/csv", b"1;2"),
        refused("never.mov", None),
    ];
    world.add_turn(said(turn(), "", files));
    let outcome = world.call("attachment.download", json!({})).await.unwrap();
    let (text, answer) = (outcome.text.unwrap(), outcome.data.unwrap());
    assert!(outcome.failed && text.starts_with("2 of 3 files could not be downloaded: gone.png: "), "{text}");
    let expired = "its link has expired, or it was deleted (it answers 404); the person can send the file again";
    assert!(text.contains(expired) && text.contains("(it could not be fetched (no route to host))"), "{text}");
    let saved = format!("; downloaded: a.csv as /shared/Downloads/{}.csv\n{{", sha10(b"1;2"));
    assert!(text.contains(&saved) && !text.contains("nothing was"), "{text}");
    assert!(!text.contains("secret"), "{text}");
    assert_eq!((&answer["ok"], paths(&answer).len()), (&json!(false), 1));
}

#[tokio::test]
async fn a_file_and_a_call_have_limits() {
    const LARGE: &str = "https://cdn.discordapp.com/large";
    let (mut world, web) = world_with(&[(LARGE, None, b"12345678901")]);
    (world.limits.download_file_bytes, world.limits.download_call_bytes) = (10, 25);
    let files = vec![
        stored(&world, 1, "a.txt", None, "text/plain", b"1234567890"),
        stored(&world, 2, "b.txt", None, "text/plain", b"12345678901"),
        refused("c", Some(LARGE)),
        stored(&world, 4, "d.txt", None, "text/plain", b"0987654321"),
        stored(&world, 5, "e.txt", None, "text/plain", b"123456"),
        stored(&world, 6, "f.txt", None, "text/plain", b"12345"),
    ];
    world.add_turn(said(turn(), "", files));
    let outcome = world.call("attachment.download", json!({})).await.unwrap();
    let answer = outcome.data.unwrap();
    let names: Vec<&str> = answer["files"].as_array().unwrap().iter().filter_map(|f| f["filename"].as_str()).collect();
    assert_eq!(names, ["a.txt", "d.txt", "f.txt"], "what fits is taken");
    assert_eq!(
        answer["failed"][0]["error"],
        "it has 11 B; at most 10 B are downloaded a file and 25 B a call, of which 15 B are left"
    );
    assert!(answer["failed"][1]["error"].as_str().is_some_and(|error| error.starts_with("it is too large; ")));
    assert!(answer["failed"][2]["error"].as_str().is_some_and(|error| error.contains("of which 5 B are left")));
    assert_eq!(web.asked.lock().unwrap()[0].max_bytes, 10);
}

/// Two files can be made whose contents' addresses begin alike; the second must not be taken for the first.
#[tokio::test]
async fn digest_prefix_collision_is_not_the_same_file() {
    let world = ToolHarness::new();
    let first = attachment(1, "harmless.png", "image/png", PNG);
    let mut alike = first.sha256;
    alike.0[31] ^= 1;
    let second = Attachment { sha256: alike, filename: Filename::from_untrusted("other.png"), ..first.clone() };
    world.store(PNG);
    let files = [first, second].map(|file| (reference(file.filename.as_str(), None), InboundFileState::Stored(file)));
    world.add_turn(said(turn(), "", files.into()));
    let outcome = world.call("attachment.download", json!({})).await.unwrap();
    assert_eq!(paths(outcome.data.as_ref().unwrap()).len(), 1);
    assert!(outcome.text.unwrap().contains("other.png: another file of this message has the same name"));
}

/// Whatever a name or an address says, the file lies directly in the directory.
#[tokio::test]
async fn it_writes_only_under_the_directory() {
    let (world, _web) = world_with(&[("https://cdn.discordapp.com/x/..%2f..%2fetc", Some("../../x"), b"bytes")]);
    let files = vec![
        stored(&world, 1, "..", None, "application/octet-stream", b"1"),
        stored(&world, 2, "a./../b", None, "../../etc", b"2"),
        stored(&world, 3, "con.nul", None, "", b"3"),
        refused("x.\u{202e}a/../b", Some("https://cdn.discordapp.com/x/..%2f..%2fetc")),
    ];
    world.add_turn(said(turn(), "", files));
    let answer = world.data("attachment.download", json!({"downloadDir": "/tmp/in"})).await;
    let names = paths(&answer).into_iter().map(|path| path.strip_prefix("/tmp/in/").expect("it lies there"));
    let names: Vec<String> = names.map(str::to_owned).collect();
    assert_eq!(names, [sha10(b"1"), sha10(b"2"), sha10(b"3") + ".nul", sha10(b"bytes") + ".txt"]);
    for (arguments, says) in [
        (json!({"downloadDir": "/etc"}), "expected a path beneath /shared or /tmp"),
        (json!({"downloadDir": "/vault/x"}), "expected a path beneath /shared or /tmp"),
        (json!({"downloadDir": "~/../x"}), "climbs"),
        (json!({"url": "https://example.com"}), "unknown field `url`"),
    ] {
        let error = world.error("attachment.download", arguments).await;
        assert!(error.contains(says), "{error}");
    }
}

#[tokio::test]
async fn a_failed_write_or_read_says_why() {
    let world = ToolHarness::new();
    world.add_turn(said(turn(), "", vec![stored(&world, 1, "a.csv", None, "text/csv", b"1;2")]));
    let mut workspace = MockWorkspace::new();
    workspace.expect_read().returning(|_, path| Err(WorkspaceError::NotFound(path.clone())));
    workspace.expect_write().returning(|_, _, _, _, _| Err(WorkspaceError::QuotaExceeded { quota: 1_000 }));
    let tool =
        AttachmentDownload(ToolServices { workspace: AuditedWorkspace::new(Arc::new(workspace)), ..world.services() });
    let outcome = tool.call(json!({}), &world.context()).await.unwrap();
    assert!(outcome.failed && outcome.text.unwrap().contains("it could not be written: the workspace is full"));

    let world = ToolHarness::new();
    let lost = attachment(1, "lost.txt", "text/plain", b"lost");
    world.add_turn(said(turn(), "", vec![(reference("lost.txt", None), InboundFileState::Stored(lost))]));
    let outcome = world.call("attachment.download", json!({})).await.unwrap();
    assert!(outcome.text.unwrap().contains("its bytes could not be read: the file store doesn't have them"));
}

/// Mutation: what is there already is written again, or recorded as if it were.
#[tokio::test]
async fn repeated_download_records_no_second_write() {
    let world = ToolHarness::new();
    world.add_turn(said(turn(), "", vec![stored(&world, 1, "a.csv", None, "text/csv", b"1;2")]));
    for written in [1, 0] {
        let context = world.context();
        let tool = world.registry().get("attachment.download").unwrap();
        tool.call(json!({}), &context).await.unwrap();
        let changes = context.changes.to_vec();
        assert_eq!(changes.len(), written, "{changes:?}");
        assert!(changes.iter().all(|change| change.bytes == Some(3)), "{changes:?}");
    }
}

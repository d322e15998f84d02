//! The promises of the channel: what is written where, once, whole, and what each failure is called.

use std::{fs, io, num::NonZeroU64};

use bytes::Bytes;
use futures::stream;
use satchel_domain::{
    AttachmentId, AttachmentSource, Timestamp, TurnId, Visibility,
    capabilities::{
        CaptionRule, GroupingRule, Idempotency, LookupRule, ReplyRule, StreamRule, TextLimit, TextUnit, VoiceRule,
    },
    part::{FileForm, PreparedVoice},
};
use satchel_ports::{BlobError, ByteStream, FetchedFile, MockBlobs};
use tempfile::TempDir;
use uuid::Uuid;

use super::*;
use crate::{
    delivered_file::write_error,
    screen::{ScreenStyle, tests::RecordingOutput},
};

pub(super) fn capabilities() -> ChannelCapabilities {
    ChannelCapabilities {
        text: TextLimit { unit: TextUnit::Chars, max: None, entities: None },
        blocks: None,
        caption: CaptionRule::Hidden,
        photo: None,
        native_media: false,
        file_bytes: 2_000_000_000,
        request_bytes: None,
        grouping: GroupingRule::Never,
        voice: VoiceRule::AudioFile,
        idempotency: Idempotency::None,
        look_up: LookupRule::None,
        can_edit: false,
        replies: ReplyRule::PersonMessage,
        joins_messages: false,
        stream: StreamRule::Deltas,
        rate_limits: None,
    }
}

fn address() -> Sha256 {
    "ab".repeat(32).parse().unwrap()
}

fn chunks(chunks: Vec<io::Result<&'static [u8]>>) -> ByteStream {
    stream::iter(chunks.into_iter().map(|chunk| chunk.map(Bytes::from_static))).boxed()
}

/// Blobs that open as told, every time.
fn blobs(open: impl Fn() -> Result<ByteStream, BlobError> + Send + Sync + 'static) -> Arc<dyn Blobs> {
    let mut blobs = MockBlobs::new();
    blobs.expect_open().returning(move |_, _| open());
    Arc::new(blobs)
}

struct Desk {
    channel: ConsoleChannel,
    printed: RecordingOutput,
    dir: TempDir,
}

fn desk(look: ScreenStyle, room: Option<usize>, blobs: Arc<dyn Blobs>) -> Desk {
    let dir = tempfile::tempdir().unwrap();
    let printed = RecordingOutput { room, ..RecordingOutput::default() };
    let screen = Arc::new(Screen::new(printed.clone(), look));
    let settings = ConsoleSettings { files_dir: dir.path().join("files"), capabilities: capabilities() };
    Desk { channel: ConsoleChannel::new(settings, blobs, screen), printed, dir }
}

fn photo() -> Desk {
    desk(ScreenStyle::default(), None, blobs(|| Ok(chunks(vec![Ok(b"first "), Ok(b"second")]))))
}

fn file(number: u64, name: &str) -> FileItem {
    let attachment = Attachment {
        id: AttachmentId(Uuid::from_u128(number.into())),
        number: NonZeroU64::new(number).unwrap(),
        conversation: "console:main".parse().unwrap(),
        source: AttachmentSource::Tool,
        filename: Filename::from_untrusted(name),
        mime: "image/jpeg".to_owned(),
        bytes: 12,
        sha256: address(),
        media: Default::default(),
        description: String::new(),
        created_at: Timestamp(0),
        visibility: Visibility::Deliver,
        link_revocation: None,
    };
    FileItem { attachment, form: FileForm::Document, caption: String::new() }
}

fn part(number: u128, content: PartContent) -> PostRequest {
    PostRequest {
        part_id: PartId(Uuid::from_u128(number)),
        turn: TurnId(Uuid::from_u128(1)),
        conversation: "console:main".parse().unwrap(),
        content,
        reply_to: None,
    }
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn file_name_has_number_and_retry_overwrites() {
    let desk = photo();
    let files = desk.dir.path().join("files");
    for number in [1, 2] {
        let sent = desk.channel.post(&part(number, PartContent::File(file(17, "photo.jpg")))).await.unwrap();
        assert_eq!(sent, [MessageRef(files.join("17-photo.jpg").to_str().unwrap().to_owned())]);
    }
    assert_eq!(names(&files), ["17-photo.jpg"]);
    assert_eq!(fs::read(files.join("17-photo.jpg")).unwrap(), b"first second");
    assert!(desk.printed.text().contains("#17 photo.jpg (12 B): "));
}

#[tokio::test]
async fn longest_name_fits_with_number_prefix() {
    let desk = photo();
    let longest = file(17, &format!("{}.jpg", "x".repeat(251)));
    desk.channel.post(&part(1, PartContent::File(longest))).await.unwrap();
    assert_eq!(names(&desk.dir.path().join("files")), [format!("17-{}.jpg", "x".repeat(248))]);
}

#[tokio::test]
async fn other_conversations_never_overwrite_main_files() {
    let desk = photo();
    let keys = [("main", ""), ("work", "work"), ("..", "_.."), ("../../up", "_..%2F..%2Fup")];
    for (number, (key, directory)) in (1..).zip(keys) {
        let mut part = part(number, PartContent::File(file(1, "a.txt")));
        part.conversation = format!("console:{key}").parse().unwrap();
        let sent = desk.channel.post(&part).await.unwrap();
        let expected = desk.dir.path().join("files").join(directory).join("1-a.txt");
        assert_eq!(sent[0].0, expected.to_str().unwrap(), "{key}");
        assert!(expected.exists(), "{key}");
    }
}

#[tokio::test]
async fn album_and_text_with_files_return_ordered_refs() {
    let desk = photo();
    let items = vec![file(1, "a.jpg"), file(2, "a.jpg")];
    let album = part(1, PartContent::Album { items: items.clone() });
    let sent = desk.channel.post(&album).await.unwrap();
    let ends: Vec<_> = sent.iter().map(|message| message.0.rsplit('/').next().unwrap()).collect();
    assert_eq!(ends, ["1-a.jpg", "2-a.jpg"]);
    let text = part(2, PartContent::Text { text: "See **these**.".to_owned(), markup: Markup::Rich, files: items });
    let sent = desk.channel.post(&text).await.unwrap();
    assert_eq!((sent.len(), sent[0].0.as_str()), (3, text.part_id.to_string().as_str()));
    assert_eq!(desk.channel.post(&text).await.unwrap(), sent);
}

#[tokio::test]
async fn retried_part_prints_only_with_label() {
    let desk = photo();
    let text = part(1, PartContent::from_text("The answer."));
    let first = desk.channel.post(&text).await.unwrap();
    assert_eq!(desk.channel.post(&text).await.unwrap(), first);
    assert!(desk.channel.edit(&first[0], &text).await.is_err());
    assert_eq!(desk.printed.text(), "The answer.\n");
    desk.channel.post(&part(1, PartContent::from_text("(possible duplicate) The answer."))).await.unwrap();
    assert_eq!(desk.printed.text(), "The answer.\n(possible duplicate) The answer.\n");
}

#[tokio::test]
async fn plain_text_is_literal_without_control_sequences() {
    let desk = photo();
    let text = PartContent::Text { text: "**x** \x1b[2J".to_owned(), markup: Markup::Plain, files: Vec::new() };
    desk.channel.post(&part(1, text)).await.unwrap();
    let mut caption = file(3, "a\x1b]0;t\x07.jpg");
    caption.caption = "cat \x1b[31m".to_owned();
    desk.channel.post(&part(2, PartContent::File(caption))).await.unwrap();
    let printed = desk.printed.text();
    assert!(printed.starts_with("**x** ␛[2J\n"), "{printed}");
    assert!(!printed.contains('\x1b') && !printed.contains('\x07'), "{printed:?}");
}

#[tokio::test]
async fn voice_is_saved_as_file_with_player_hint() {
    let look = ScreenStyle { terminal: true, colour: false, width: None };
    let desk = desk(look, None, blobs(|| Ok(chunks(vec![Ok(b"OggS")]))));
    let voice = PreparedVoice { sha256: address(), bytes: 4, duration_ms: 1500, waveform: Vec::new() };
    let content = PartContent::Voice {
        text: "Hello.".to_owned(),
        in_text: true,
        prepared: Some(voice),
        as_file: false,
        caption: String::new(),
    };
    let sent = desk.channel.post(&part(1, content)).await.unwrap();
    assert_eq!(fs::read(&sent[0].0).unwrap(), b"OggS");
    assert!(desk.printed.text().contains("2 s") && desk.printed.text().contains("play it with"));
}

#[tokio::test]
async fn deletion_leaves_printed_text_unchanged() {
    let desk = photo();
    let conversation = "console:main".parse().unwrap();
    desk.channel.delete(&conversation, &MessageRef("gone".to_owned())).await.unwrap();
    assert_eq!(desk.printed.text(), "");
}

#[tokio::test]
async fn bytes_that_cannot_be_read_leave_nothing_behind() {
    let broken = || Ok(chunks(vec![Ok(b"half"), Err(io::Error::other("the bytes are damaged"))]));
    let missing = || Err(BlobError::Missing(address()));
    for desk in [desk(ScreenStyle::default(), None, blobs(broken)), desk(ScreenStyle::default(), None, blobs(missing))]
    {
        let error = desk.channel.post(&part(1, PartContent::File(file(17, "photo.jpg")))).await.unwrap_err();
        assert!(matches!(error, SendError::Unreadable { .. }), "{error:?}");
        let files = desk.dir.path().join("files");
        assert!(!files.exists() || names(&files).is_empty());
        assert_eq!(desk.printed.text(), "");
    }
}

#[tokio::test]
async fn a_send_that_is_dropped_leaves_nothing_behind() {
    let endless = || Ok(stream::iter([Ok(Bytes::from_static(b"x"))]).chain(stream::pending()).boxed());
    let desk = desk(ScreenStyle::default(), None, blobs(endless));
    let file = part(1, PartContent::File(file(17, "photo.jpg")));
    let files = desk.dir.path().join("files");
    {
        let mut send = desk.channel.post(&file);
        while !files.exists() || names(&files).is_empty() {
            tokio::select! { biased; _ = &mut send => {}, () = tokio::task::yield_now() => {} }
        }
        assert_eq!(names(&files), [format!(".{}-0.part", file.part_id)]);
    }
    assert_eq!(names(&files), Vec::<String>::new());
}

#[tokio::test]
async fn directory_at_target_path_is_refused_with_name() {
    let desk = photo();
    let files = desk.dir.path().join("files");
    fs::create_dir_all(files.join("17-photo.jpg").join("inside")).unwrap();
    let error = desk.channel.post(&part(1, PartContent::File(file(17, "photo.jpg")))).await.unwrap_err();
    assert!(matches!(&error, SendError::Refused { reason, .. } if reason.contains("17-photo.jpg")), "{error:?}");
    assert_eq!(names(&files), ["17-photo.jpg"]);
}

#[tokio::test]
async fn symlink_at_target_is_replaced_not_followed() {
    let desk = photo();
    let files = desk.dir.path().join("files");
    let secret = desk.dir.path().join("secret");
    fs::create_dir(&files).unwrap();
    fs::write(&secret, b"mine").unwrap();
    let file = part(1, PartContent::File(file(17, "photo.jpg")));
    std::os::unix::fs::symlink(&secret, files.join("17-photo.jpg")).unwrap();
    std::os::unix::fs::symlink(&secret, files.join(format!(".{}-0.part", file.part_id))).unwrap();
    desk.channel.post(&file).await.unwrap();
    assert_eq!(fs::read(&secret).unwrap(), b"mine");
    assert_eq!(names(&files), ["17-photo.jpg"]);
}

#[test]
fn each_failure_to_write_has_its_meaning() {
    for (kind, meaning) in [
        (io::ErrorKind::StorageFull, "not sent"),
        (io::ErrorKind::QuotaExceeded, "not sent"),
        (io::ErrorKind::PermissionDenied, "not allowed"),
        (io::ErrorKind::ReadOnlyFilesystem, "not allowed"),
        (io::ErrorKind::InvalidFilename, "refused"),
        (io::ErrorKind::FileTooLarge, "refused"),
        (io::ErrorKind::Other, "not sent"),
    ] {
        let error = write_error(&kind.into(), "write", Path::new("/files/1-a")).to_string();
        assert!(error.starts_with(meaning) && error.contains("/files/1-a"), "{kind:?}: {error}");
    }
}

#[tokio::test]
async fn file_instead_of_directory_is_reported_as_forbidden() {
    let desk = photo();
    fs::write(desk.dir.path().join("files"), b"").unwrap();
    let error = desk.channel.post(&part(1, PartContent::File(file(17, "photo.jpg")))).await.unwrap_err();
    assert!(matches!(error, SendError::Forbidden { .. }), "{error:?}");
    // Words need no directory, so those in doubt needn't wait for one.
    desk.channel.probe().await.unwrap();
}

#[tokio::test]
async fn a_probe_makes_no_directory() {
    let desk = photo();
    desk.channel.probe().await.unwrap();
    assert!(!desk.dir.path().join("files").exists());
}

#[tokio::test]
async fn a_file_that_comes_later_is_told_once() {
    let dir = tempfile::tempdir().unwrap();
    let (nowhere, printed) = (dir.path().join("files"), RecordingOutput::default());
    std::os::unix::fs::symlink(&nowhere, &nowhere).unwrap();
    let settings = ConsoleSettings { files_dir: nowhere.join("below"), capabilities: capabilities() };
    let screen = Arc::new(Screen::new(printed.clone(), ScreenStyle::default()));
    let channel = ConsoleChannel::new(settings, blobs(|| Ok(chunks(vec![Ok(b"content")]))), screen);
    let photo = part(1, PartContent::File(file(17, "photo.jpg")));
    for _ in 0..3 {
        let late = channel.post(&photo).await.unwrap_err();
        assert!(matches!(late, SendError::NotSent { .. }), "{late:?}");
    }
    let told = printed.text();
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(told.contains("photo.jpg could not be written yet; I'll retry: can't create"), "{told}");
    fs::remove_file(&nowhere).unwrap();
    channel.post(&photo).await.unwrap();
    assert!(nowhere.join("below").join("17-photo.jpg").exists());
}

#[tokio::test]
async fn a_terminal_that_is_gone_is_no_loss() {
    let text = part(1, PartContent::from_text("The answer."));
    for (room, certain) in [(0, true), (4, false)] {
        let desk = desk(ScreenStyle::default(), Some(room), blobs(|| Ok(chunks(vec![Ok(b"x")]))));
        desk.channel.probe().await.unwrap();
        let error = desk.channel.post(&text).await.unwrap_err();
        assert_eq!(matches!(error, SendError::NotSent { .. }), certain, "{error:?}");
        assert_eq!(matches!(error, SendError::InDoubt { .. }), !certain, "{error:?}");
        assert!(matches!(desk.channel.probe().await, Err(SendError::NotSent { .. })));
        // A file arrives all the same.
        let sent = desk.channel.post(&part(2, PartContent::File(file(17, "photo.jpg")))).await.unwrap();
        assert!(Path::new(&sent[0].0).exists());
    }
}

#[tokio::test]
async fn fetch_streams_with_size_or_reports_reason() {
    let desk = photo();
    let (path, empty) = (desk.dir.path().join("in.bin"), desk.dir.path().join("empty"));
    let content: Vec<u8> = (0..1_500_000_u32).map(|n| n as u8).collect();
    fs::write(&path, &content).unwrap();
    fs::write(&empty, b"").unwrap();
    let refer = |path: &Path| crate::attachments::file_reference(path).unwrap();
    for (path, expected) in [(&path, &content), (&empty, &Vec::new())] {
        let fetched = desk.channel.fetch(&refer(path)).await.unwrap();
        let FetchedFile::Bytes { bytes, content } = fetched else { panic!("bytes: {fetched:?}") };
        assert_eq!(bytes, Some(expected.len() as u64));
        let chunks: Vec<Bytes> = content.map(Result::unwrap).collect().await;
        assert!(chunks.iter().all(|chunk| chunk.len() <= 512 * 1024));
        assert_eq!(&chunks.concat(), expected);
    }
    for (path, words) in [(desk.dir.path().join("gone"), "no such file"), (desk.dir.path().to_owned(), "directory")] {
        let error = desk.channel.fetch(&refer(&path)).await.unwrap_err();
        assert!(matches!(&error, FileFetchError::Permanent { reason } if reason.contains(words)), "{error:?}");
    }
}

#[tokio::test]
async fn progress_bar_needs_terminal_and_long_file() {
    const CHUNK: usize = 1024 * 1024;
    for (terminal, bytes, has_bar) in [(true, 20 * CHUNK, true), (false, 20 * CHUNK, false), (true, CHUNK, false)] {
        let look = ScreenStyle { terminal, colour: false, width: Some(80) };
        let desk = desk(look, None, blobs(|| Ok(chunks(vec![]))));
        let content = stream::iter(vec![Bytes::from(vec![0; CHUNK]); bytes / CHUNK]).map(Ok).boxed();
        let name = Filename::from_untrusted("film.mov");
        let screen = Arc::clone(&desk.channel.screen);
        let watched = progress::with_progress(content, &screen, &name, Some(bytes as u64));
        assert_eq!(watched.count().await, bytes / CHUNK);
        assert_eq!(desk.printed.text().contains("film.mov"), has_bar, "{terminal} {bytes}");
        assert_eq!(desk.printed.seen().len(), 0, "the bar is gone when the file is there");
    }
}

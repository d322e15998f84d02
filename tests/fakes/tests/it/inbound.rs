//! The way in: what people send is offered until it is taken, in order, and files are fetched as they flow.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures::StreamExt;
use satchel_domain::{ChannelName, ConversationId, InboundMessage, PartContent, TurnId, UndecodableUpdate};
use satchel_fakes::{FakeFile, FakeMode, Fault, Operation, PlatformRules, When};
use satchel_ports::{Channel, FetchedFile, FileFetchError, Inbound, InboundError};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::bench::{Bench, small};

/// Takes messages after refusing the first few.
#[derive(Default)]
struct Taker {
    refusals_left: AtomicU32,
    taken: Mutex<Vec<InboundMessage>>,
}

#[async_trait]
impl Inbound for Taker {
    async fn accept(&self, message: InboundMessage) -> Result<Option<TurnId>, InboundError> {
        let refuse = self.refusals_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if refuse.is_ok() {
            return Err(InboundError("the disk is full".into()));
        }
        self.taken.lock().expect("no panic").push(message);
        Ok(Some(TurnId(Uuid::from_u128(1))))
    }

    async fn rename_conversation(&self, from: ConversationId, to: ConversationId) -> Result<(), InboundError> {
        unreachable!("nothing moves on this platform: {from} to {to}");
    }

    async fn record_undecodable(&self, update: UndecodableUpdate) -> Result<(), InboundError> {
        unreachable!("the channel reads everything that the platform offers: {update:?}");
    }

    async fn load_checkpoint(&self, channel: &ChannelName) -> Result<Option<Value>, InboundError> {
        unreachable!("what was not taken is offered again: {channel}");
    }

    async fn save_checkpoint(&self, channel: &ChannelName, bookmark: Value) -> Result<(), InboundError> {
        unreachable!("what was not taken is offered again: {channel}, {bookmark}");
    }
}

/// Listens until everything is confirmed, and returns what was taken.
async fn listen(bench: &Bench, taker: Arc<Taker>) -> Vec<InboundMessage> {
    let shutdown = CancellationToken::new();
    let (channel, stop, inbound) = (bench.channel.clone(), shutdown.clone(), taker.clone());
    let listening = tokio::spawn(async move { channel.listen(inbound, stop).await });
    let confirmed = async {
        while bench.platform.unconfirmed_updates() > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), confirmed).await.expect("all is taken in the end");
    shutdown.cancel();
    listening.await.expect("listening ends when it is told to");
    let taken = taker.taken.lock().expect("no panic");
    taken.clone()
}

#[tokio::test]
async fn messages_albums_and_edits_come_in_with_their_keys() {
    let bench = Bench::start(FakeMode::TelegramLike).await;
    let said = bench.platform.person_says(&bench.conversation, "helo", vec![small("a.txt")]);
    bench.platform.person_edits(&bench.conversation, &said, "hello");
    bench.platform.person_sends_album(&bench.conversation, "three", vec![small("1"), small("2"), small("3")]);
    let taken = listen(&bench, Arc::default()).await;
    let texts: Vec<&str> = taken.iter().map(|message| message.text.as_str()).collect();
    assert_eq!(texts, ["helo", "hello", "three", "", ""]);
    assert_eq!(taken[1].edit_of.as_ref(), Some(&taken[0].key));
    assert_ne!(taken[1].key, taken[0].key);
    assert_eq!(taken[0].message.as_ref(), Some(&said));
    assert_eq!(taken[0].files[0].filename.as_str(), "a.txt");
    assert!(taken[2].album.is_some());
    assert!(taken[3..].iter().all(|message| message.album == taken[2].album && message.files.len() == 1));
}

#[tokio::test]
async fn what_is_not_taken_is_offered_again_and_not_confirmed() {
    let bench = Bench::start(FakeMode::TelegramLike).await;
    for number in 0..3 {
        bench.platform.person_says(&bench.conversation, &number.to_string(), Vec::new());
    }
    let taker = Arc::new(Taker { refusals_left: AtomicU32::new(4), ..Taker::default() });
    let taken = listen(&bench, taker).await;
    let texts: Vec<&str> = taken.iter().map(|message| message.text.as_str()).collect();
    assert_eq!(texts, ["0", "1", "2"], "in order, none twice, none lost");
}

#[tokio::test]
async fn listening_outlives_faults() {
    let bench = Bench::start(FakeMode::DiscordLike).await;
    bench.platform.script(Operation::Updates, When::Nth(1), Fault::BadGateway { performed: false });
    bench.platform.script(Operation::Updates, When::Nth(2), Fault::AcceptAndDrop);
    bench.platform.script(Operation::Updates, When::Nth(3), Fault::RateLimit { retry_after_ms: 1 });
    bench.platform.person_says(&bench.conversation, "hello", Vec::new());
    assert_eq!(listen(&bench, Arc::default()).await.len(), 1);
}

#[tokio::test]
async fn a_long_poll_ends_as_soon_as_something_is_said() {
    let bench = Bench::start(FakeMode::TelegramLike).await;
    let taker = Arc::new(Taker::default());
    let shutdown = CancellationToken::new();
    let (channel, stop, inbound) = (bench.channel.clone(), shutdown.clone(), taker.clone());
    let polled = bench.platform.on_nth(Operation::Updates, 1, satchel_fakes::Moment::Arrived);
    let answered = bench.platform.on_nth(Operation::Updates, 2, satchel_fakes::Moment::Arrived);
    let listening = tokio::spawn(async move { channel.listen(inbound, stop).await });
    polled.await.expect("told");
    bench.platform.person_says(&bench.conversation, "hello", Vec::new());
    // The second poll confirms the first; the poll itself would have lasted two seconds.
    tokio::time::timeout(Duration::from_secs(1), answered).await.expect("at once").expect("told");
    assert_eq!(taker.taken.lock().expect("no panic").len(), 1);
    shutdown.cancel();
    listening.await.expect("ends");
}

#[tokio::test]
async fn files_are_fetched_as_they_flow_and_refused_with_a_reason() {
    let rules = PlatformRules { download_bytes: Some(3_000_000), ..FakeMode::TelegramLike.rules() };
    let bench = Bench::with_rules(rules).await;
    let noise = |bytes| FakeFile::generated("n.bin", "application/octet-stream", 5, bytes);
    let reference = bench.platform.person_uploads(noise(3_000_000));
    let mut fetched = bench.platform.on_nth(Operation::Fetch, 1, satchel_fakes::Moment::Performed);
    let incoming = bench.channel.fetch(&reference).await.expect("opened");
    fetched.try_recv().expect("a download is performed when its answer begins");
    let FetchedFile::Bytes { bytes, content } = incoming else { panic!("bytes: {incoming:?}") };
    assert_eq!(bytes, Some(3_000_000));
    let read = content.fold(0, async |read, piece| read + piece.expect("it flows").len()).await;
    assert_eq!(read, 3_000_000);

    let too_large = bench.platform.person_uploads(noise(3_000_001));
    let answer = bench.channel.fetch(&too_large).await;
    assert!(matches!(&answer, Err(FileFetchError::Permanent { reason }) if reason.contains("too large")), "{answer:?}");

    bench.platform.script_next(Operation::Fetch, Fault::ResetMidTransfer);
    let broken = bench.channel.fetch(&reference).await.expect("it begins well");
    let FetchedFile::Bytes { content, .. } = broken else { panic!("bytes: {broken:?}") };
    assert!(content.any(async |piece| piece.is_err()).await, "a download that is cut is no whole file");

    for fault in [Fault::ServerError, Fault::AcceptAndDrop, Fault::BadGateway { performed: false }] {
        bench.platform.script_next(Operation::Fetch, fault);
        let answer = bench.channel.fetch(&reference).await;
        assert!(matches!(answer, Err(FileFetchError::Retryable { .. })), "{fault:?}: {answer:?}");
    }
    bench.platform.expire_files();
    let answer = bench.channel.fetch(&reference).await;
    assert!(matches!(&answer, Err(FileFetchError::Permanent { reason }) if reason.contains("expired")), "{answer:?}");
}

#[tokio::test]
async fn a_chat_reads_as_a_person_sees_it() {
    let bench = Bench::start(FakeMode::DiscordLike).await;
    let said = bench.platform.person_says(&bench.conversation, "send it", vec![small("a.txt")]);
    let mut item = bench.item(&small("b.txt"), satchel_domain::part::FileForm::Document).await;
    item.caption = "the b".to_owned();
    let mut part = bench.part(1, PartContent::from_text("here"));
    part.reply_to = Some(said);
    let sent = bench.channel.send(&part).await.expect("sent");
    bench.channel.edit(&sent[0], &bench.part(1, PartContent::from_text("here it is"))).await.expect("edited");
    bench.channel.send(&bench.part(2, PartContent::File(item))).await.expect("sent");
    bench.channel.send(&bench.part(3, bench.voice("OggS…", 3).await)).await.expect("sent");
    assert_eq!(
        bench.platform.transcript().to_string(),
        "== fake:5 ==\n\
         [1] person:\n    send it\n    + file a.txt (text/plain, 18 B)\n\
         [2] satchel to [1] (edited 1 times):\n    here it is\n\
         [3] satchel:\n    + document b.txt (text/plain, 18 B)\n        the b\n\
         [4] satchel (voice, 900 ms):\n    + audio voice.ogg (audio/ogg, 7 B)\n"
    );
}

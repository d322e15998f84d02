//! A token that Telegram refuses: nothing comes until it accepts it, and then everything that was written meanwhile.

use std::sync::Arc;

use satchel_contracts::log_capture::LogCapture;
use satchel_domain::{ChannelClosure, ChannelState};
use satchel_fake_kit::{FakeFile, FaultTiming};
use satchel_fake_telegram::{ApiRefusal, DOWNLOAD, FileKind, PersonMessage, TelegramFault};
use satchel_ports::{Channel, FileFetchError};
use satchel_telegram::TelegramChannel;
use satchel_wait::wait_until;

use super::harness::{ANN, InboundHarness, RecordingInbound};

async fn wait_until_closed(channel: &TelegramChannel) -> ChannelClosure {
    wait_until("the channel is closed", || channel.state() != ChannelState::Open).await;
    channel.state().closure().expect("it is closed").clone()
}

#[tokio::test]
async fn unknown_token_waits_until_telegram_accepts_it() {
    let token = "123456789:NobodysTokenCanary";
    let mut bench = InboundHarness::start().await;
    bench.settings.token = token.into();
    bench.fake.person_says(ANN, ANN, "hello");
    let (log, _guard) = LogCapture::listen();
    let (channel, taker) = (Arc::new(bench.channel()), RecordingInbound::new());
    let listening = bench.listen_beside(Arc::clone(&channel), &taker);
    let closure = wait_until_closed(&channel).await;
    assert!(closure.remedy.contains("@BotFather"), "{closure:?}");
    assert_eq!(log.lines_with("WARN"), 1, "{}", log.text());
    bench.fake.accept_token(token);
    bench.all_confirmed().await;
    listening.stop().await.unwrap();
    assert_eq!(taker.texts(), ["hello"]);
    let shown = format!("{closure:?}{}", log.text());
    assert!(!shown.contains("NobodysTokenCanary"), "{shown}");
}

/// The path of a token that was never issued is unknown to Telegram.
#[tokio::test]
async fn never_issued_token_closes_the_channel_too() {
    let bench = InboundHarness::start().await;
    bench.fake.script("*", FaultTiming::Every, TelegramFault::Refuse(ApiRefusal::new(404, "Not Found")));
    bench.fake.person_says(ANN, ANN, "hello");
    let (channel, taker) = (Arc::new(bench.channel()), RecordingInbound::new());
    let listening = bench.listen_beside(Arc::clone(&channel), &taker);
    assert_eq!(wait_until_closed(&channel).await.reason, "doesn't accept the bot's token");
    bench.fake.clear_script();
    bench.all_confirmed().await;
    listening.stop().await.unwrap();
    assert_eq!(taker.texts(), ["hello"]);
}

#[tokio::test]
async fn messages_written_while_the_token_is_revoked_arrive_later() {
    let bench = InboundHarness::start().await;
    let (channel, taker) = (Arc::new(bench.channel()), RecordingInbound::new());
    let listening = bench.listen_beside(Arc::clone(&channel), &taker);
    bench.fake.person_says(ANN, ANN, "before");
    bench.all_confirmed().await;
    // The poll that waits for the next message is refused.
    bench.fake.revoke_token(bench.fake.token());
    assert_eq!(wait_until_closed(&channel).await.reason, "no longer accepts the bot's token");
    bench.fake.person_says(ANN, ANN, "meanwhile");
    bench.fake.accept_token(bench.fake.token());
    bench.all_confirmed().await;
    assert_eq!(taker.texts(), ["before", "meanwhile"]);

    bench.fake.revoke_token(bench.fake.token());
    wait_until_closed(&channel).await;
    listening.stop().await.unwrap();
}

/// A file of a message isn't refused for good because the token is, whichever of its two requests finds out.
#[tokio::test]
async fn file_is_fetched_again_after_a_refused_account() {
    let bench = InboundHarness::start().await;
    let file = FakeFile::from_bytes("a.txt", "text/plain", "hello");
    bench.fake.person_sends(ANN, ANN, PersonMessage::file(FileKind::Document, file));
    let taker = RecordingInbound::new();
    bench.listen_to_all(&taker).await;
    let reference = taker.taken().remove(0).files.remove(0);
    for method in ["getFile", DOWNLOAD] {
        let channel = bench.channel();
        bench.fake.script_next(method, ApiRefusal::new(401, "Unauthorized"));
        let fetched = channel.fetch(&reference).await;
        assert!(matches!(fetched, Err(FileFetchError::Retryable { .. })), "{method}: {fetched:?}");
        let closed = ChannelState::Closed(wait_until_closed(&channel).await);
        assert_eq!(channel.next_state(&closed).await, ChannelState::Open, "the token is accepted");
        assert!(channel.fetch(&reference).await.is_ok(), "{method}");
    }
}

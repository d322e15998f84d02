//! What a draft shows of a turn, and what the bus is told, while the model writes and tools run.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use satchel_domain::{ChannelCapabilities, Part, PartContent, PartId, PartState, Timestamp, capabilities::StreamRule};
use satchel_ports::{
    HolderId, Lease, MockBlobs, MockChannel, MockEventBus, MockLanguageModel, MockLedger, TokioClock,
    ledger::ConversationSettings,
};
use satchel_routing::{
    deliver::{DeliveryContext, DeliveryHandle, Driver},
    tables,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::*;

const INTERVAL: Duration = Duration::from_millis(1_100);

const TURN: TurnId = TurnId(Uuid::from_u128(1));

/// A turn whose reply grows on a channel that takes everything.
struct Scene {
    deltas: DeltaSink,
    driving: Pin<Box<dyn Future<Output = ()>>>,
    /// What the model has written in its finished messages, and in the one that grows.
    finished: Vec<String>,
    written: String,
    /// What the channel showed, one message after the other.
    shown: Arc<Mutex<Vec<String>>>,
    events: Arc<Mutex<Vec<BusEvent>>>,
}

fn open(capabilities: ChannelCapabilities) -> Scene {
    open_with(capabilities, InterimText::Keep)
}

fn open_with(capabilities: ChannelCapabilities, interim_text: InterimText) -> Scene {
    let shown: Arc<Mutex<Vec<String>>> = Arc::default();
    let events: Arc<Mutex<Vec<BusEvent>>> = Arc::default();
    let mut ledger = MockLedger::default();
    let conversation: ConversationId = "console:main".parse().unwrap();
    let draft = Part {
        state: PartState::Sending,
        ..Part::new(PartId(Uuid::nil()), conversation.clone(), TURN, 0, PartContent::from_text(""), Timestamp(0))
    };
    ledger.outbox.expect_open_draft().returning(move |_, _, _| Ok(Some(draft.clone())));
    ledger.outbox.expect_save_part().returning(|_, _| Ok(()));
    let mut channel = MockChannel::new();
    channel.expect_capabilities().return_const(capabilities);
    let show = |shown: &Arc<Mutex<Vec<String>>>, content: &PartContent| match content {
        PartContent::Text { text, .. } => shown.lock().unwrap().push(text.clone()),
        other => panic!("not a text: {other:?}"),
    };
    let sent = Arc::clone(&shown);
    channel.expect_post().returning(move |request| {
        show(&sent, &request.content);
        Ok(vec![MessageRef("m1".into())])
    });
    let edited = Arc::clone(&shown);
    let previewed = Arc::clone(&shown);
    channel.expect_show_preview().returning(move |request| {
        previewed.lock().unwrap().push(format!("preview: {}", request.text));
        Ok(())
    });
    channel.expect_edit().returning(move |_, request| {
        show(&edited, &request.content);
        Ok(Vec::new())
    });
    let published = Arc::clone(&events);
    let mut bus = MockEventBus::new();
    bus.expect_publish().returning(move |event| {
        published.lock().unwrap().push(event);
        Ok(())
    });
    let services = AgentServices {
        clock: Arc::new(TokioClock::default()),
        ..crate::fixtures::services(ledger, bus, MockLanguageModel::new())
    };
    let (delivery, requests) = DeliveryHandle::new();
    let lane = LaneHandle {
        lease: Lease { conversation, holder: HolderId(Uuid::nil()), token: 1 },
        channel: Arc::new(channel),
        wake: Arc::default(),
        woken: Arc::default(),
        hands_over: Arc::default(),
        handed_over: Arc::default(),
        delivery,
        stop: CancellationToken::new(),
    };
    let context = DeliveryContext {
        outbox: Arc::clone(&services.outbox),
        archive: Arc::clone(&services.archive),
        clock: Arc::clone(&services.clock),
        channel: Arc::clone(&lane.channel),
        blobs: Arc::new(MockBlobs::new()),
        speech: None,
        bus: Arc::clone(&services.bus),
        links: None,
        owner_reads: false,
        rules: satchel_domain::delivery::DeliveryRules::default(),
        stop: lane.stop.clone(),
        process_stop: lane.stop.clone(),
    };
    let driver = Driver::new(context, lane.lease.clone(), requests);
    let turn = QueuedTurn {
        id: TURN,
        messages: Vec::new(),
        ready_at: Timestamp(0),
        has_followers: false,
        journal: Vec::new(),
        draft: None,
        crashes: 0,
        unreported_failures: Vec::new(),
        settings: ConversationSettings::default(),
        history: [].into(),
    };
    let deltas = DeltaSink::new(&services, &lane, &turn, interim_text);
    let driving = Box::pin(async move {
        let _lane = lane;
        driver.run().await.unwrap();
    });
    Scene { deltas, driving, finished: Vec::new(), written: String::new(), shown, events }
}

fn edits() -> ChannelCapabilities {
    let interval_ms = u64::try_from(INTERVAL.as_millis()).unwrap();
    ChannelCapabilities { stream: StreamRule::Edits { interval_ms }, ..tables::telegram() }
}

impl Scene {
    async fn writes(&mut self, delta: &str) {
        self.written.push_str(delta);
        self.deltas.push_delta(delta, &self.written).await;
    }

    fn begins_message(&mut self, number: u32) {
        let finished = std::mem::take(&mut self.written);
        self.finished.push(finished);
        self.deltas.start_message(number, &self.finished_texts());
    }

    fn shows_tools(&self, tools: &[&str]) {
        let mut written = self.finished_texts();
        written.push(&self.written);
        self.deltas.show_tools(&written, tools);
    }

    fn finished_texts(&self) -> Vec<&str> {
        self.finished.iter().map(String::as_str).collect()
    }

    /// Lets the time pass in which one more edit is made.
    async fn passes(&mut self) {
        tokio::select! {
            () = &mut self.driving => panic!("nobody told the driver to finish"),
            // Under paused time.
            () = tokio::time::sleep(INTERVAL + Duration::from_millis(310)) => {}
        }
    }

    fn messages(&self) -> Vec<String> {
        self.shown.lock().unwrap().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn later_message_grows_below_earlier_ones() {
    let mut scene = open(edits());
    scene.writes("Looking. ").await;
    scene.passes().await;
    scene.begins_message(1);
    scene.passes().await;
    assert_eq!(scene.messages(), ["Looking. "], "nothing changes before there is more");
    scene.writes("Here ").await;
    scene.writes("it is.").await;
    scene.passes().await;
    scene.begins_message(2);
    scene.writes("And more.").await;
    scene.passes().await;
    let shown = ["Looking. ", "Looking.\n\nHere it is.", "Looking.\n\nHere it is.\n\nAnd more."];
    assert_eq!(scene.messages(), shown);
}

/// The turn of a process that has died: its draft goes on with what was written before.
#[tokio::test(start_paused = true)]
async fn resumed_draft_shows_the_texts_before_the_crash() {
    let mut scene = open(edits());
    scene.written = "Looking.".to_owned();
    scene.begins_message(1);
    scene.writes("Here it is.").await;
    scene.passes().await;
    assert_eq!(scene.messages(), ["Looking.\n\nHere it is."]);
}

#[tokio::test(start_paused = true)]
async fn last_text_alone_replaces_draft() {
    let mut scene = open_with(edits(), InterimText::Last);
    scene.writes("Looking. ").await;
    scene.shows_tools(&["file_read"]);
    scene.passes().await;
    scene.begins_message(1);
    scene.passes().await;
    assert_eq!(scene.messages(), ["Looking.\n\n… file_read"], "it stands until text takes its place");
    scene.writes("Here it is.").await;
    scene.shows_tools(&["file_list"]);
    scene.passes().await;
    assert_eq!(scene.messages()[1..], ["Here it is.\n\n… file_list"]);
}

#[tokio::test(start_paused = true)]
async fn running_tools_are_named_until_text_arrives() {
    let mut scene = open(edits());
    scene.shows_tools(&["file_list"]);
    scene.passes().await;
    scene.writes("Looking.\n```").await;
    scene.shows_tools(&["file_read", "attachment.get"]);
    scene.passes().await;
    scene.begins_message(1);
    scene.writes("Done.").await;
    scene.passes().await;
    let with_tools = "Looking.\n```\n```\n\n… file_read, attachment.get";
    assert_eq!(scene.messages(), ["… file_list", with_tools, "Looking.\n```\n```\n\nDone."]);
}

/// Catches: a tool, or a task of several, that works longer than a preview of the text before it is seen.
#[tokio::test(start_paused = true)]
async fn tools_and_tasks_are_shown_in_messages_where_text_is_previewed() {
    let previews = ChannelCapabilities { stream: tables::TELEGRAM_DRAFTS, ..tables::telegram() };
    let mut scene = open(previews.clone());
    scene.writes("Looking.").await;
    scene.passes().await;
    scene.shows_tools(&["file_read"]);
    scene.passes().await;
    scene.begins_message(1);
    scene.writes("Done.").await;
    scene.passes().await;
    assert_eq!(scene.messages(), ["preview: Looking.", "Looking.\n\n… file_read", "Looking.\n\nDone."]);

    let mut tasks = open(previews);
    tasks.deltas.show_task("report", 1, 2);
    tasks.passes().await;
    assert_eq!(tasks.messages(), ["… report (1 of 2)"]);
}

#[tokio::test(start_paused = true)]
async fn delta_channels_get_published_deltas_without_sends() {
    let mut scene = open(tables::web());
    scene.writes("Hel").await;
    scene.writes("lo.").await;
    scene.begins_message(1);
    scene.writes("Bye.").await;
    scene.passes().await;
    assert_eq!(scene.messages(), [""; 0]);
    let events = scene.events.lock().unwrap();
    let deltas = events.iter().map(|event| match event {
        BusEvent::TextDelta { message, text, .. } => (*message, text.as_str()),
        other => panic!("not a delta: {other:?}"),
    });
    assert_eq!(deltas.collect::<Vec<_>>(), [(0, "Hel"), (0, "lo."), (1, "Bye.")]);
}

/// Catches: a reply that a channel has shown delta by delta, and that is written anew below itself.
#[tokio::test(start_paused = true)]
async fn shown_deltas_are_not_withdrawn() {
    let silent = open(tables::web());
    assert!(silent.deltas.withdraw(StreamRule::Deltas).await);
    let mut shown = open(tables::web());
    shown.writes("Hel").await;
    assert!(!shown.deltas.withdraw(StreamRule::Deltas).await);
}

//! Many conversations and many messages: indexing them, searching them, and the page's list.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use satchel_domain::{
    ConversationId, Ending, InboundMessage, OutgoingResponse, PartContent, PartState, Sender,
    delivery::DeliveryRules,
    part::{Part, Plan, PlannedPart},
};
use satchel_ledger_sqlite::{Settings, SqliteLedger};
use satchel_local::{SystemClock, UuidV7};
use satchel_ports::{
    Conversations, Inbox, Outbox, Turns,
    ledger::{ClaimMode, CompletedTurn, HistoryChange, Settlement},
};
use serde_json::Value;

use crate::{
    BenchRunner,
    page::PageHarness,
    statistics::{median, to_f64, to_ms},
    table::ResultRow,
};

const CONVERSATIONS: u32 = 10_000;

/// A turn is a message and its reply.
const TURNS_EACH: u32 = 5;

/// How many conversations are written at once, so that they share commits.
const WRITERS: usize = 64;

/// How often each request is timed.
const REQUESTS: usize = 30;

const WORDS_OF_MESSAGE: u32 = 20;
const WORDS_OF_REPLY: u32 = 60;

pub(crate) fn measure(bench: &BenchRunner) -> Result<Vec<ResultRow>> {
    satchel_fake_kit::install_tls_provider();
    bench.runtime.block_on(async {
        let directory = bench.directory()?;
        let data = directory.path().join("data");
        let indexing = write_conversations(&data).await?;
        let harness = PageHarness::start(bench, directory.path(), &[]).await?;
        let turns = to_f64(u64::from(CONVERSATIONS * TURNS_EACH));
        let mut rows = vec![
            ResultRow::new("conversations: 100 000 messages indexed", turns * 2.0 / indexing.as_secs_f64(), "/s"),
            request_row(&harness, "conversations: list of 10 000", "/api/conversations?limit=60", 20.0, 60).await?,
        ];
        let (frequent, second, rare) = (word(0), word(1), word(20_000));
        for (name, words) in [
            ("a frequent word", frequent.clone()),
            ("a rare word", rare.clone()),
            ("the first two letters of words", frequent[..2].to_owned()),
            ("two frequent words", format!("{frequent}+{second}")),
            ("one message", "needle".to_owned()),
        ] {
            let name = format!("conversations: search for {name}");
            rows.push(request_row(&harness, &name, &format!("/api/search?q={words}"), 50.0, 1).await?);
        }
        Ok(rows)
    })
}

/// Times a request whose answer has at least so many items.
async fn request_row(harness: &PageHarness, name: &str, path: &str, max_ms: f64, items: usize) -> Result<ResultRow> {
    let mut times = Vec::new();
    for _ in 0..REQUESTS {
        let started_at = Instant::now();
        let answer: Value = harness.get(path).await?;
        times.push(started_at.elapsed());
        let found = answer["hits"].as_array().or_else(|| answer["conversations"].as_array());
        ensure!(found.is_some_and(|found| found.len() >= items), "{path} found too little: {answer}");
    }
    Ok(ResultRow::new(name, to_ms(median(&times)), "ms").with_max(max_ms))
}

/// Writes all conversations, and returns how long it took to index them.
async fn write_conversations(data: &Path) -> Result<Duration> {
    let clock = Arc::new(SystemClock::new());
    let ledger = Arc::new(SqliteLedger::open(data, Settings::default(), clock, Arc::new(UuidV7)).await?);
    stream::iter(0..CONVERSATIONS)
        .map(|number| write_conversation(Arc::clone(&ledger), number))
        .buffer_unordered(WRITERS)
        .try_collect::<Vec<()>>()
        .await?;
    let started_at = Instant::now();
    while ledger.index_turns(100).await? > 0 {}
    Ok(started_at.elapsed())
}

async fn write_conversation(ledger: Arc<SqliteLedger>, number: u32) -> Result<()> {
    let conversation: ConversationId = format!("web:c{number}").parse()?;
    for turn in 0..TURNS_EACH {
        let seed = number * TURNS_EACH + turn;
        let needle = if seed == 77 { " needle" } else { "" };
        let text = format!("{}{needle}", words(seed, WORDS_OF_MESSAGE));
        let sender = Sender::new("owner", "Owner");
        let message =
            InboundMessage { text, ..InboundMessage::new(conversation.clone(), format!("c{number}/{turn}"), sender) };
        let received = ledger.receive(&message, ClaimMode::IfFree).await?;
        let lease = received.claimed.context("nobody else works here")?.lease;
        let reply = words(seed + 1, WORDS_OF_REPLY);
        let completed = CompletedTurn {
            turn: received.turn,
            ending: Ending::Done,
            response: OutgoingResponse::from_text(&reply),
            plan: Plan { parts: vec![PlannedPart::new(PartContent::from_text(&reply))] },
            history: HistoryChange::Append(Vec::new()),
            setting: None,
            steered: Vec::new(),
            injected_texts: Default::default(),
            reported_failures: Vec::new(),
            reply_to: None,
            changes: Vec::new(),
            answered: None,
            hands_over: false,
        };
        let part = ledger.complete_turn(&lease, &completed).await?.context("the reply is begun")?;
        let part = Part { state: PartState::Sent { messages: Vec::new() }, ..part };
        let settlement = Settlement { part, children: Vec::new(), notice: None, rules: DeliveryRules::default() };
        ledger.settle_part(&lease, &settlement).await?;
    }
    Ok(())
}

/// So many words, of which a few are frequent and most rare, as in a language.
fn words(seed: u32, count: u32) -> String {
    let pick = |position: u32| {
        let mixed = (seed.wrapping_mul(2_654_435_761) ^ position.wrapping_mul(40_503)).rotate_left(position % 31);
        let number = f64::from(mixed % 10_000) / 10_000.0;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 30 000")]
        let rank = (number.powi(4) * 30_000.0) as u32;
        word(rank)
    };
    (0..count).map(pick).collect::<Vec<_>>().join(" ")
}

/// A word of two to five syllables.
fn word(rank: u32) -> String {
    let mut bits = rank.wrapping_add(1).wrapping_mul(2_246_822_519) ^ 0x9e37_79b9;
    let mut text = String::new();
    for _ in 0..2 + rank % 4 {
        text.push(char::from(b"bdfghklmnprstvwz"[(bits & 15) as usize]));
        text.push(char::from(b"aeiouaei"[(bits >> 4 & 7) as usize]));
        bits = bits.rotate_right(7).wrapping_mul(668_265_263);
    }
    text
}

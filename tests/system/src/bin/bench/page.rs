//! The page's server: its start, the first word of a streamed answer, many who listen, and very large files.

use std::{
    net::TcpListener,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use futures::{StreamExt, future::try_join_all, stream};
use reqwest::{
    Client, Response,
    header::{AUTHORIZATION, HeaderMap, HeaderValue},
};
use satchel_fake_model::{FakeModelServer, ModelReply, ModelWire, ReplyPiece};
use serde_json::{Value, json};

use crate::{
    BenchRunner,
    process::ChildProcess,
    statistics::{median, megabytes_per_second, percentile, to_f64, to_mib, to_ms},
    table::ResultRow,
};

const STARTS: usize = 15;

/// Answers whose first word is timed.
const REPLIES: usize = 40;

/// What the fake model thinks before its first word.
const MODEL_DELAY: Duration = Duration::from_millis(30);

const LISTENERS: usize = 200;

/// Words of the answer that all of them see grow.
const WORDS: usize = 100;

const HUGE_FILE_BYTES: u64 = 2 << 30;

/// How long anything may take.
const STEP_TIMEOUT: Duration = Duration::from_secs(180);

pub(crate) fn measure(bench: &BenchRunner) -> Result<Vec<ResultRow>> {
    satchel_fake_kit::install_tls_provider();
    bench.runtime.block_on(async {
        let mut rows = measure_starts(bench).await?;
        rows.extend(measure_first_words(bench).await?);
        rows.extend(measure_listeners(bench).await?);
        rows.extend(measure_huge_file(bench).await?);
        Ok(rows)
    })
}

/// `satchel run` and a client of its API.
pub(crate) struct PageHarness {
    satchel: ChildProcess,
    address: String,
    client: Client,
}

impl PageHarness {
    /// Starts it in this directory, with the offline model unless other settings name another, and waits for the page.
    pub(crate) async fn start(bench: &BenchRunner, directory: &Path, settings: &[String]) -> Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = Command::new(&bench.satchel);
        command.arg("run").current_dir(directory).env_clear().env("HOME", directory).env("SATCHEL_LOG", "error");
        let own_settings =
            [format!("storage.data_dir={}", directory.join("data").display()), format!("web.listen=127.0.0.1:{port}")];
        let offline = ["models.here.provider=offline".to_owned(), "model=here".to_owned()];
        let model_settings = if settings.is_empty() { &offline } else { settings };
        command.args(own_settings.iter().chain(model_settings).flat_map(|setting| ["--set", setting]));
        let satchel = ChildProcess::start(&mut command)?;
        let mut harness = Self { satchel, address: format!("http://127.0.0.1:{port}"), client: Client::new() };
        let started_at = Instant::now();
        while started_at.elapsed() < STEP_TIMEOUT {
            if harness.client.get(&harness.address).send().await.is_ok_and(|answer| answer.status().is_success()) {
                let token = std::fs::read_to_string(directory.join("data/web-token"))?;
                let bearer = HeaderValue::try_from(format!("Bearer {}", token.trim()))?;
                let headers = HeaderMap::from_iter([(AUTHORIZATION, bearer)]);
                harness.client = Client::builder().default_headers(headers).build()?;
                return Ok(harness);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        bail!("the page did not come")
    }

    /// Asks for JSON.
    pub(crate) async fn get(&self, path: &str) -> Result<Value> {
        Ok(self.client.get(format!("{}{path}", self.address)).send().await?.error_for_status()?.json().await?)
    }

    fn url(&self, path: &str) -> String {
        format!("{}/api/conversations/bench/{path}", self.address)
    }

    async fn send_message(&self, key: &str, text: &str, uploads: &[String]) -> Result<()> {
        let message = json!({ "key": key, "text": text, "uploads": uploads, "edit_of": null });
        let response = self.client.post(self.url("messages")).json(&message).send().await?;
        ensure!(response.status().is_success(), "the message was not taken: {}", response.text().await?);
        Ok(())
    }

    async fn listen(&self) -> Result<PageEvents> {
        let response = self.client.get(self.url("events")).send().await?.error_for_status()?;
        Ok(PageEvents { response, buffer: String::new() })
    }
}

/// A stream of server-sent events.
struct PageEvents {
    response: Response,
    buffer: String,
}

impl PageEvents {
    /// Reads on until an event is as wanted, and returns its data.
    async fn wait_for_event(&mut self, is_match: impl Fn(&str, &Value) -> bool) -> Result<Value> {
        let read_events = async {
            loop {
                while let Some(end) = self.buffer.find("\n\n") {
                    let event: String = self.buffer.drain(..end + 2).collect();
                    let line = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
                    let (Some(kind), Some(data)) = (line("event: "), line("data: ")) else { continue };
                    let data: Value = serde_json::from_str(data)?;
                    if is_match(kind, &data) {
                        return Ok(data);
                    }
                }
                let chunk = self.response.chunk().await?.context("the events ended")?;
                self.buffer.push_str(std::str::from_utf8(&chunk)?);
            }
        };
        tokio::time::timeout(STEP_TIMEOUT, read_events).await.context("no such event came")?
    }
}

fn is_answered(kind: &str, data: &Value, expected: &str) -> bool {
    let sent = |parts: &Vec<Value>| !parts.is_empty() && parts.iter().all(|part| part["state"] == "sent");
    kind == "turn"
        && data["state"] == "done"
        && data["parts"].as_array().is_some_and(sent)
        && data["messages"][0]["text"].as_str().is_some_and(|text| text == expected)
}

async fn measure_starts(bench: &BenchRunner) -> Result<Vec<ResultRow>> {
    let directory = bench.directory()?;
    let mut times = Vec::new();
    // The first start makes the data directory and is left out.
    for _ in 0..=STARTS {
        let started_at = Instant::now();
        PageHarness::start(bench, directory.path(), &[]).await?;
        times.push(started_at.elapsed());
    }
    Ok(vec![ResultRow::new("page: from the start to the page", to_ms(median(&times[1..])), "ms").with_max(100.0)])
}

/// A model server, and the settings by which Satchel asks it.
async fn start_model() -> Result<(FakeModelServer, Vec<String>)> {
    let server = FakeModelServer::start().await?;
    let wire = ModelWire::OpenAiChat;
    let settings = vec![
        "models.fake.provider=openai".to_owned(),
        format!("models.fake.base_url={}", server.base_url(wire)),
        format!("models.fake.api_key={}", FakeModelServer::KEY),
        format!("models.fake.model={}", wire.model()),
        "model=fake".to_owned(),
    ];
    Ok((server, settings))
}

/// The time to the first word on the page, beside the model's own time to its first word.
async fn measure_first_words(bench: &BenchRunner) -> Result<Vec<ResultRow>> {
    let (server, settings) = start_model().await?;
    let directory = bench.directory()?;
    let harness = PageHarness::start(bench, directory.path(), &settings).await?;
    let mut events = harness.listen().await?;
    let (mut page_times, mut model_times) = (Vec::new(), Vec::new());
    for number in 0..REPLIES {
        let (text, word) = (format!("question {number}"), format!("Beginning{number}"));
        let pieces = || {
            let rest = [ReplyPiece::Wait(Duration::from_millis(20)), ReplyPiece::Text(" and end.".to_owned())];
            [ReplyPiece::Wait(MODEL_DELAY), ReplyPiece::Text(word.clone())].into_iter().chain(rest)
        };
        server.reply(ModelReply::pieces(pieces()));
        let started_at = Instant::now();
        harness.send_message(&format!("q{number}"), &text, &[]).await?;
        events.wait_for_event(|_, data| data["blocks"].to_string().contains(&word)).await?;
        page_times.push(started_at.elapsed());
        events.wait_for_event(|kind, data| is_answered(kind, data, &text)).await?;

        server.reply(ModelReply::pieces(pieces()));
        model_times.push(measure_model_first_word(&harness.client, &server, &word).await?);
    }
    let (shown, own) = (median(&page_times), median(&model_times));
    Ok(vec![
        ResultRow::new("page: first word of the model itself", to_ms(own), "ms"),
        ResultRow::new("page: first word on the page", to_ms(shown), "ms"),
        ResultRow::new("page: first word, beyond the model's own", to_ms(shown.saturating_sub(own)), "ms")
            .with_max(10.0),
    ])
}

async fn measure_model_first_word(client: &Client, server: &FakeModelServer, word: &str) -> Result<Duration> {
    let wire = ModelWire::OpenAiChat;
    let request =
        json!({ "model": wire.model(), "stream": true, "messages": [{ "role": "user", "content": "hello" }] });
    let started_at = Instant::now();
    let address = format!("{}chat/completions", server.base_url(wire));
    let response = client.post(address).bearer_auth(FakeModelServer::KEY).json(&request).send().await?;
    let mut body = response.error_for_status()?;
    let mut read = String::new();
    while let Some(piece) = body.chunk().await? {
        read.push_str(&String::from_utf8_lossy(&piece));
        if read.contains(word) {
            return Ok(started_at.elapsed());
        }
    }
    bail!("the model did not say it")
}

/// One answer that many see grow.
async fn measure_listeners(bench: &BenchRunner) -> Result<Vec<ResultRow>> {
    let (server, settings) = start_model().await?;
    let directory = bench.directory()?;
    let harness = PageHarness::start(bench, directory.path(), &settings).await?;
    let memory = harness.satchel.proportional_memory()?;
    let mut all = try_join_all((0..LISTENERS).map(|_| harness.listen())).await?;
    try_join_all(all.iter_mut().map(|events| events.wait_for_event(|kind, _| kind == "snapshot"))).await?;
    let listening = harness.satchel.proportional_memory()?;

    let words = (0..WORDS)
        .flat_map(|number| [ReplyPiece::Text(format!("word{number} ")), ReplyPiece::Wait(Duration::from_millis(20))]);
    server.reply(ModelReply::pieces(words));
    let cpu = harness.satchel.cpu_time()?;
    let begun = Instant::now();
    harness.send_message("many", "many", &[]).await?;
    let answered = all.iter_mut().map(async |events| {
        events.wait_for_event(|kind, data| is_answered(kind, data, "many")).await.map(|_| begun.elapsed())
    });
    let times = try_join_all(answered).await?;
    let cpu = harness.satchel.cpu_time()? - cpu;
    let last = percentile(&times, 100);
    let spread = last.saturating_sub(percentile(&times, 0));
    Ok(vec![
        ResultRow::new(
            "page: 200 who listen, memory of each",
            (to_mib(listening) - to_mib(memory)) * 1024.0 / to_f64(LISTENERS as u64),
            "KiB",
        ),
        ResultRow::new(
            "page: 200 who listen, PSS with all of them",
            to_mib(harness.satchel.proportional_memory()?),
            "MiB",
        ),
        ResultRow::new("page: 200 who listen, first to last to have the answer", to_ms(spread), "ms"),
        ResultRow::new("page: 200 who listen, cores while it streams", cpu.as_secs_f64() / last.as_secs_f64(), ""),
    ])
}

/// A file of two gibibytes up, kept, and down again.
async fn measure_huge_file(bench: &BenchRunner) -> Result<Vec<ResultRow>> {
    let directory = bench.directory()?;
    let harness = PageHarness::start(bench, directory.path(), &[]).await?;
    let mut events = harness.listen().await?;
    let before = harness.satchel.peak_memory()?;
    let piece = Bytes::from(vec![7; 1 << 20]);
    let pieces = stream::iter((0..HUGE_FILE_BYTES >> 20).map(move |_| Ok::<_, std::io::Error>(piece.clone())));
    let started_at = Instant::now();
    let upload = harness.client.post(harness.url("uploads?filename=huge.bin"));
    let upload = upload.header("content-type", "application/octet-stream").body(reqwest::Body::wrap_stream(pieces));
    let uploaded: Value = upload.send().await?.error_for_status()?.json().await?;
    let up = started_at.elapsed();
    let handle = uploaded["upload"].as_str().context("an upload has a handle")?.to_owned();
    let text = "send it back";
    harness.send_message("huge", text, &[handle]).await?;
    let turn = events.wait_for_event(|kind, data| is_answered(kind, data, text)).await?;
    let mut files = turn["parts"].as_array().into_iter().flatten().filter_map(|part| part["files"][0]["url"].as_str());
    let url = files.next_back().context("the file came back")?.to_owned();

    let started_at = Instant::now();
    let response = harness.client.get(format!("{}{url}", harness.address)).send().await?.error_for_status()?;
    let mut read = 0;
    let mut pieces = response.bytes_stream();
    while let Some(piece) = pieces.next().await {
        read += piece?.len() as u64;
    }
    let down = started_at.elapsed();
    ensure!(read == HUGE_FILE_BYTES, "{read} bytes came back");
    Ok(vec![
        ResultRow::new("page: 2 GiB up, kept and synced", megabytes_per_second(HUGE_FILE_BYTES, up), "MB/s"),
        ResultRow::new("page: 2 GiB down", megabytes_per_second(HUGE_FILE_BYTES, down), "MB/s"),
        ResultRow::new(
            "page: 2 GiB up and down, extra memory",
            to_mib(harness.satchel.peak_memory()?.saturating_sub(before)),
            "MiB",
        )
        .with_max(16.0),
    ])
}

//! The gateway's bench, with a channel that fetches, and a bot that is spoken to.

use std::{sync::Arc, time::Duration};

use satchel_discord::{DiscordChannel, HttpTimeouts, SlashCommand};
use satchel_domain::InboundMessage;
use satchel_fake_kit::FaultyBlobs;
use satchel_http::{FetchSettings, HttpFetcher};
use serde_json::{Value, json};

pub(crate) use crate::gateway::bench::{ANN, BOB, Bench, GENERAL, GUILD, Log, OTHER, Taker, until};

/// A bot that answers everything in one of its guild's channels, and elsewhere what is said to it.
pub(crate) async fn start() -> Bench {
    let mut bench = Bench::start().await;
    bench.settings.answers_in = vec![OTHER.to_string()];
    let command = |(name, description): (&str, &str)| SlashCommand {
        name: name.into(),
        description: description.into(),
        choices: Vec::new(),
        takes_input: false,
    };
    bench.settings.commands =
        [("Files", "the files of this conversation"), ("resend", "send a file again")].map(command).into();
    bench
}

/// A channel that fetches people's files from this machine.
pub(crate) fn channel(bench: &Bench) -> DiscordChannel {
    let timeouts = HttpTimeouts {
        connect: Duration::from_secs(5),
        response: Duration::from_secs(5),
        idle: Duration::from_millis(300),
    };
    let allowed = vec!["127.0.0.0/8".parse().expect("it is a range")];
    let fetcher = HttpFetcher::new(FetchSettings { allowed, ..FetchSettings::default() });
    DiscordChannel::with_timeouts(&bench.settings, Arc::new(FaultyBlobs::default()), Arc::new(fetcher), timeouts)
        .expect("the settings are good")
}

/// Waits until so many messages were taken and no more, and returns them.
pub(crate) async fn take(taker: &Taker, messages: usize) -> Vec<InboundMessage> {
    taker.takes(messages).await;
    assert_eq!(taker.taken().len(), messages, "{:?}", taker.texts());
    taker.taken()
}

/// Lets the bot say something, with a button for each command. Returns the message's id.
pub(crate) async fn bot_says(bench: &Bench, channel: u64, text: &str, commands: &[&str]) -> u64 {
    let button = |command: &&str| json!({ "type": 2, "style": 1, "label": "Press", "custom_id": command });
    let mut body = json!({ "content": text });
    if !commands.is_empty() {
        let buttons: Vec<Value> = commands.iter().map(button).collect();
        body["components"] = json!([{ "type": 1, "components": buttons }]);
    }
    let url = format!("{}/api/v10/channels/{channel}/messages", bench.fake.api_url());
    let request = reqwest::Client::new()
        .post(url)
        .header("authorization", format!("Bot {}", bench.fake.token()))
        .header("user-agent", "DiscordBot (https://example.org, 1)")
        .header("content-type", "application/json")
        .body(body.to_string());
    let answer = request.send().await.expect("the fake answers").bytes().await.expect("the whole answer comes");
    let said: Value = serde_json::from_slice(&answer).expect("it is JSON");
    said["id"].as_str().and_then(|id| id.parse().ok()).unwrap_or_else(|| unreachable!("no message: {said}"))
}

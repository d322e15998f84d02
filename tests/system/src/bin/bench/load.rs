//! Satchel under the load of many people at once, all in one process: a channel that takes everything at once, and
//! people who answer each reply with their next message.

use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Instant};

use anyhow::{Context, Result};
use async_trait::async_trait;
use satchel::build::{SatchelOptions, build};
use satchel_domain::{
    ChannelCapabilities, ChannelName, ConversationId, FileReference, InboundMessage, MessageRef, Sender,
    delivery::SendError,
};
use satchel_local::{
    ScriptedModel,
    scripted_model::{AnswerOrder, ModelScript, ScriptedAnswer, ScriptedPiece},
};
use satchel_ports::{Activity, Channel, FetchedFile, FileFetchError, Inbound, PostRequest};
use satchel_routing::tables;
use serde::{Deserialize, Serialize};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::product::BenchStores;

/// First argument of a process in this role.
pub(crate) const ROLE: &str = "as-load";

/// The settings of such a process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LoadSettings {
    pub(crate) data_dir: PathBuf,
    pub(crate) conversations: usize,
    /// In each of the conversations.
    pub(crate) turns: u64,
    /// How long the model takes.
    pub(crate) model_ms: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LoadResult {
    pub(crate) turns: u64,
    pub(crate) seconds: f64,
    pub(crate) commits: u64,
}

/// Runs the load and prints its result as JSON.
pub(crate) fn run_load(settings: &str) -> Result<()> {
    let load: LoadSettings = serde_json::from_str(settings).context("the settings can't be read")?;
    let result = satchel::runtime::build_runtime()?.block_on(measure_load(load))?;
    println!("{}", serde_json::to_string(&result)?);
    Ok(())
}

async fn measure_load(load: LoadSettings) -> Result<LoadResult> {
    let stores = BenchStores::open(&load.data_dir).await?;
    let conversations: Vec<ConversationId> = (0..load.conversations).map(conversation).collect();
    let (reply_senders, replies): (HashMap<_, _>, Vec<_>) = conversations
        .iter()
        .map(|conversation| {
            let (sender, receiver) = mpsc::channel(1);
            ((conversation.clone(), sender), (conversation.clone(), receiver))
        })
        .unzip();
    let model = ScriptedModel::new(ModelScript {
        pick: AnswerOrder::ByProgress,
        answers: vec![ScriptedAnswer {
            pieces: vec![ScriptedPiece::WaitMs(load.model_ms), ScriptedPiece::Text("A short reply.".to_owned())],
            ..ScriptedAnswer::default()
        }],
    });
    let channel = AcceptingChannel { name: conversation(0).channel().clone(), reply_senders };
    let satchel = build(stores.ports(Arc::new(model), Arc::new(channel)), SatchelOptions::default())?;
    let stop = CancellationToken::new();
    let runner_task = tokio::spawn(satchel.runner.run(stop.clone()));

    let started_at = Instant::now();
    let mut people = JoinSet::new();
    for (conversation, replies) in replies {
        people.spawn(send_messages(Arc::clone(&satchel.inbound), conversation, replies, load.turns));
    }
    while let Some(done) = people.join_next().await {
        done??;
    }
    let seconds = started_at.elapsed().as_secs_f64();
    let commits = stores.ledger.commits();
    stop.cancel();
    runner_task.await?;
    Ok(LoadResult { turns: load.turns * load.conversations as u64, seconds, commits })
}

/// One of the conversations.
pub(crate) fn conversation(number: usize) -> ConversationId {
    format!("bench:{number}").parse().expect("a name and a number are a conversation")
}

async fn send_messages(
    inbound: Arc<dyn Inbound>,
    conversation: ConversationId,
    mut replies: mpsc::Receiver<()>,
    turns: u64,
) -> Result<()> {
    for number in 0..turns {
        // A load may run twice on the same data.
        let key = format!("{}/{}/{number}", std::process::id(), conversation.key());
        let message = InboundMessage {
            text: "Hello.".to_owned(),
            ..InboundMessage::new(conversation.clone(), key, Sender::new("1001", "Person"))
        };
        inbound.accept(message).await?;
        replies.recv().await.context("the channel is gone")?;
    }
    Ok(())
}

/// A channel that accepts every message at once and notifies the person.
struct AcceptingChannel {
    name: ChannelName,
    reply_senders: HashMap<ConversationId, mpsc::Sender<()>>,
}

#[async_trait]
impl Channel for AcceptingChannel {
    fn name(&self) -> ChannelName {
        self.name.clone()
    }

    fn capabilities(&self, _conversation: &ConversationId) -> ChannelCapabilities {
        ChannelCapabilities { rate_limits: None, ..tables::telegram() }
    }

    async fn post(&self, request: &PostRequest) -> Result<Vec<MessageRef>, SendError> {
        if let Some(sender) = self.reply_senders.get(&request.conversation) {
            // The person may have heard enough.
            let _ = sender.send(()).await;
        }
        Ok(vec![MessageRef(request.part_id.to_string())])
    }

    async fn edit(&self, message: &MessageRef, _part: &PostRequest) -> Result<Vec<MessageRef>, SendError> {
        Ok(vec![message.clone()])
    }

    async fn delete(&self, _conversation: &ConversationId, _message: &MessageRef) -> Result<(), SendError> {
        Ok(())
    }

    async fn probe(&self) -> Result<(), SendError> {
        Ok(())
    }

    async fn show_activity(&self, _: &ConversationId, _: Activity) {}

    async fn fetch(&self, _reference: &FileReference) -> Result<FetchedFile, FileFetchError> {
        Err(FileFetchError::Permanent { reason: "nobody sends files here".to_owned() })
    }
}

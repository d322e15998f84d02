//! `satchel script run`: a script of the operator's own, run as a turn, so that nothing that it makes is lost.

use std::{
    io::{Read, Write},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context;
use async_trait::async_trait;
use satchel_domain::{
    HistoryMessage,
    script::{MAX_SCRIPT_BYTES, to_script_message},
};
use satchel_ports::{HostFunctions, ScriptHost, ScriptRequest, script_host::ScriptEvaluation};
use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{
    terminal::{TerminalEnv, TerminalOptions, TerminalSession, check_turn},
    turn_json::AttachmentJson,
};
use crate::{
    build::SatchelOptions, cli::ScriptRunOptions, config::Config, models::ModelSelection, scripts, stores::Stores,
};

/// Among how many messages of the history the script's words are: its turn's, whatever a model did in it.
const LAST_MESSAGES: u32 = 200;

/// The result as JSON; the attachments are as in `chat --json`.
#[derive(Debug, Serialize)]
struct ScriptJson<'a> {
    text: Option<&'a str>,
    data: Option<&'a Value>,
    attachments: Vec<AttachmentJson<'a>>,
}

/// Reads a script; `-` is standard input.
///
/// # Errors
/// When it can't be read, is no text or too long.
pub fn read(file: &Path, cwd: &Path) -> anyhow::Result<String> {
    let name = file.display();
    let mut bytes = Vec::new();
    let most = MAX_SCRIPT_BYTES as u64 + 1;
    let read = match file.as_os_str() == "-" {
        true => std::io::stdin().lock().take(most).read_to_end(&mut bytes),
        false => std::fs::File::open(cwd.join(file)).and_then(|file| file.take(most).read_to_end(&mut bytes)),
    };
    read.with_context(|| format!("failed to read the script {name}"))?;
    if bytes.len() > MAX_SCRIPT_BYTES {
        anyhow::bail!("the script {name} is larger than the limit of {MAX_SCRIPT_BYTES} bytes");
    }
    String::from_utf8(bytes).with_context(|| format!("the script {name} is not UTF-8 text"))
}

/// Runs a script and prints what came of it.
///
/// # Errors
/// When there is nothing to run it with, it failed, or not all of its files were written.
pub async fn run(
    options: &ScriptRunOptions,
    script: &str,
    config: &Config,
    stores: Stores,
    decision: &ModelSelection,
    around: TerminalEnv,
) -> anyhow::Result<()> {
    let Some(host) = scripts::open(config) else {
        let worker = scripts::worker(config);
        anyhow::bail!(
            "scripts are off: {} not found; build it with `cargo xtask worker`, or set `tools.script.worker` to its \
             path",
            worker.display()
        );
    };
    let last = Arc::new(RecordingScriptHost { inner: host, last: Mutex::default() });
    let mut behaviour = SatchelOptions::from_config(config);
    // Whoever runs a script at the terminal has given their word for what it does, though not for a model's ideas.
    behaviour.agent.trust_written_scripts = true;
    let opening = TerminalOptions {
        config,
        stores,
        decision,
        around: &around,
        conversation: options.conversation.clone(),
        behaviour,
        scripts: Some(Arc::clone(&last) as _),
        shown: !options.json,
        live: false,
    };
    let terminal = TerminalSession::open(opening).await?;
    let record = terminal.send_and_wait(&to_script_message(script), &[]).await;
    let history = terminal.client.ledger.history(&options.conversation, LAST_MESSAGES).await;
    terminal.close().await?;
    let record = record?;
    // As the tool has put it; in the reply JSON stands in a block of its own.
    let said = history?.into_iter().rev().find_map(|message| match message {
        HistoryMessage::Tool { call, text, .. } if call.turn == record.id && call.ordinal == 0 => Some(text),
        _ => None,
    });
    let value = last.last.lock().unwrap_or_else(PoisonError::into_inner).take();
    if options.json {
        let response = record.response.as_ref();
        let printed = ScriptJson {
            text: said.as_deref(),
            data: value.as_ref().and_then(Option::as_ref).filter(|value| value.is_object() || value.is_array()),
            attachments: response.iter().flat_map(|response| &response.attachments).map(Into::into).collect(),
        };
        let out = &mut std::io::stdout().lock();
        serde_json::to_writer_pretty(&mut *out, &printed).map_err(std::io::Error::from)?;
        writeln!(out)?;
    }
    if value.flatten().is_none() {
        anyhow::bail!("the script failed");
    }
    check_turn(&record)
}

/// Evaluates scripts and remembers the value of the last one; `None` in its place where it failed.
struct RecordingScriptHost {
    inner: Arc<dyn ScriptHost>,
    last: Mutex<Option<Option<Value>>>,
}

#[async_trait]
impl ScriptHost for RecordingScriptHost {
    async fn run<'a>(
        &self,
        script: &ScriptRequest,
        world: &'a (dyn HostFunctions + 'a),
        cancel: &CancellationToken,
    ) -> ScriptEvaluation {
        let evaluation = self.inner.run(script, world, cancel).await;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(evaluation.value.as_ref().ok().cloned());
        evaluation
    }
}

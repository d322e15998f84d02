//! `satchel script run`: runs the operator's script as a turn, so that its files are stored and delivered.

use std::{
    io::{Read, Write},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context;
use async_trait::async_trait;
use satchel_domain::{
    HistoryMessage,
    script::{MAX_SCRIPT_BYTES, ScriptMessage},
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
    adapters, build::SatchelOptions, cli::ScriptRunOptions, config::Config, models::ModelSelection, stores::Stores,
};

/// How many history messages are searched for the script's result.
const MAX_HISTORY_MESSAGES: u32 = 200;

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
/// When it can't be read, is not text or is too long.
pub fn read(file: &Path, cwd: &Path) -> anyhow::Result<String> {
    let name = file.display();
    let mut bytes = Vec::new();
    let max_bytes = MAX_SCRIPT_BYTES as u64 + 1;
    let result = match file.as_os_str() == "-" {
        true => std::io::stdin().lock().take(max_bytes).read_to_end(&mut bytes),
        false => std::fs::File::open(cwd.join(file)).and_then(|file| file.take(max_bytes).read_to_end(&mut bytes)),
    };
    result.with_context(|| format!("failed to read the script {name}"))?;
    if bytes.len() > MAX_SCRIPT_BYTES {
        anyhow::bail!("the script {name} is larger than the limit of {MAX_SCRIPT_BYTES} bytes");
    }
    String::from_utf8(bytes).with_context(|| format!("the script {name} is not UTF-8 text"))
}

/// Runs a script and prints its result.
///
/// # Errors
/// When no worker is installed, the script failed, or not all of its files were written.
pub async fn run(
    options: &ScriptRunOptions,
    script: &str,
    config: &Config,
    stores: Stores,
    selection: &ModelSelection,
    terminal_env: TerminalEnv,
) -> anyhow::Result<()> {
    let Some(host) = adapters::open_script_host(config) else {
        let worker = adapters::worker_path(config);
        anyhow::bail!(
            "scripts are off: {} not found; build it with `cargo xtask worker`, or set `tools.script.worker` to its \
             path",
            worker.display()
        );
    };
    let recording_host = Arc::new(RecordingScriptHost { inner: host, last_value: Mutex::default() });
    let mut satchel_options = SatchelOptions::from_config(config);
    // Running a script at the terminal confirms its tool calls, but not those of a model.
    satchel_options.agent.trust_written_scripts = true;
    let terminal_options = TerminalOptions {
        config,
        stores,
        selection,
        terminal_env: &terminal_env,
        conversation: options.conversation.clone(),
        satchel_options,
        scripts: Some(Arc::clone(&recording_host) as _),
        print_replies: !options.json,
        live: false,
    };
    let terminal = TerminalSession::open(terminal_options).await?;
    let message = ScriptMessage { source: script, globals: options.global.iter().cloned().collect() }.to_message();
    let record = terminal.send_and_wait(&message, &[]).await;
    let history = terminal.client.archive.history(&options.conversation, MAX_HISTORY_MESSAGES).await;
    terminal.close().await?;
    let record = record?;
    // The tool's text; the reply has JSON in a separate block.
    let text = history?.into_iter().rev().find_map(|message| match message {
        HistoryMessage::Tool { call, text, .. } if call.turn == record.id && call.ordinal == 0 => Some(text),
        _ => None,
    });
    let value = recording_host.last_value.lock().unwrap_or_else(PoisonError::into_inner).take();
    if options.json {
        let response = record.response.as_ref();
        let printed = ScriptJson {
            text: text.as_deref(),
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

/// Evaluates scripts and records the value of the last one, `Some(None)` if it failed.
struct RecordingScriptHost {
    inner: Arc<dyn ScriptHost>,
    last_value: Mutex<Option<Option<Value>>>,
}

#[async_trait]
impl ScriptHost for RecordingScriptHost {
    async fn run<'a>(
        &self,
        script: &ScriptRequest,
        functions: &'a (dyn HostFunctions + 'a),
        cancel: &CancellationToken,
    ) -> ScriptEvaluation {
        let evaluation = self.inner.run(script, functions, cancel).await;
        *self.last_value.lock().unwrap_or_else(PoisonError::into_inner) = Some(evaluation.value.as_ref().ok().cloned());
        evaluation
    }
}

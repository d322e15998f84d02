//! A tool that reads a secret: it uses it, and nobody else ever sees it.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use satchel::ports::ExtraTool;
use satchel_agent::AgentSettings;
use satchel_domain::{ToolOutcome, path::Mount};
use satchel_local::{
    ModelScript, ScriptedModel,
    scripted_model::{AnswerOrder, ScriptedAnswer, ScriptedPiece},
};
use satchel_ports::{Blobs, SafetyTier, Tool, ToolContext, ToolError, ToolSpec};
use satchel_system::crash::ChannelAdapter;
use satchel_tools::path_fields::{PathAccess, PathField};
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use crate::product::{Product, ProductSetup};

const CANARY: &str = "canary-51f0b7-vault";

/// Says how long the secret is, and carelessly repeats it: in its text, in its data, or as an error.
struct EchoTool;

#[async_trait]
impl Tool for EchoTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "echo".to_owned(),
            description: "Repeats a secret, for the tests".to_owned(),
            parameters: json!({ "type": "object", "properties": { "key": { "type": "string" } } }),
            tier: SafetyTier::ReadOnly,
            time_limit: None,
        }
    }

    async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let path =
            arguments["key"].as_str().unwrap_or_default().parse().map_err(|_| ToolError("no path".to_owned()))?;
        let vault = context.vault.as_ref().ok_or_else(|| ToolError("no vault".to_owned()))?;
        let secret = vault.read(&path).await.map_err(|error| ToolError(error.to_string()))?;
        let secret = secret.expose_secret();
        match arguments["as"].as_str() {
            Some("error") => Err(ToolError(format!("refused: {secret}"))),
            Some("data") => Ok(ToolOutcome::from_data(json!({ "secret": secret, "length": secret.len() }))),
            _ => Ok(ToolOutcome::from_text(format!("{secret} has {} bytes", secret.len()))),
        }
    }
}

fn echo_tools(_: &Arc<dyn Blobs>) -> Vec<ExtraTool> {
    const KEY: &[PathField] = &[PathField { name: "key", access: PathAccess::Read, mounts: &[Mount::Vault] }];
    vec![ExtraTool::with_paths(Arc::new(EchoTool), KEY)]
}

/// The files beneath a directory that hold the canary.
fn files_with_canary(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("it can be listed").flatten() {
        let path = entry.path();
        if path.is_dir() {
            files_with_canary(&path, found);
        } else if fs::read(&path).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(CANARY)) {
            found.push(path);
        }
    }
}

/// Mutation: what a tool returns is passed on as it is.
#[tokio::test(flavor = "multi_thread")]
async fn vault_secret_stays_in_its_file() {
    let call = |form: &str| ScriptedPiece::Call {
        name: "echo".to_owned(),
        arguments: json!({ "key": "/vault/key", "as": form }),
    };
    let answer = |pieces| ScriptedAnswer { pieces, ..ScriptedAnswer::default() };
    let answers = vec![
        answer(vec![call("text"), call("data"), call("error")]),
        answer(vec![ScriptedPiece::Text("Done.".to_owned())]),
    ];
    let mut setup = ProductSetup { tools: echo_tools, ..ProductSetup::for_platform(ChannelAdapter::Telegram) };
    setup.behaviour.agent = AgentSettings { confirm_tiers: Vec::new(), ..setup.behaviour.agent };
    let product =
        Product::start(setup, Arc::new(ScriptedModel::new(ModelScript { pick: AnswerOrder::InOrder, answers }))).await;
    let vault = product.directory.path().join("workspaces").join(product.conversation.to_file_name()).join("vault");
    fs::create_dir_all(&vault).unwrap();
    fs::write(vault.join("key"), format!("{CANARY}\n")).unwrap();

    let record = product.send("use the key", Vec::new()).await;
    let journal = format!("{record:?}");
    let transcript = product.platform.transcript();
    let directory = product.directory.path().to_owned();
    let mut found = Vec::new();
    files_with_canary(&directory, &mut found);
    assert_eq!(found, [vault.join("key")], "the ledger and everything else hold none");
    assert!(!journal.contains(CANARY) && !transcript.to_string().contains(CANARY), "{journal}\n{transcript}");
    // The tool has read it, and the model knows what it may know.
    let database = String::from_utf8_lossy(&fs::read(directory.join("satchel.db-wal")).unwrap_or_default())
        .into_owned()
        + &String::from_utf8_lossy(&fs::read(directory.join("satchel.db")).unwrap());
    for answer in ["[secret /vault/key] has 19 bytes", "refused: [secret /vault/key]"] {
        assert!(database.contains(answer), "{answer}");
    }
    product.stop().await;
}

//! An independent stand-in for the providers (npm `@copilotkit/aimock`), where Node is present.
//!
//! Our own fake server is strict by our own reading of the providers' documents; this one was written by others. It is
//! installed into the user's cache, never into the checkout. Where it can't be had the test says so and passes.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use satchel_fake_kit::FaultyBlobs;
use satchel_fake_model::ModelWire;
use satchel_models::{ModelSettings, RemoteModel, RequestPolicy};
use satchel_ports::ModelMessage;
use satchel_requirements::required;
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::stage::{PNG, Stage, ask, provider, renamed, request, short_policy, tool, user};

/// What is installed, and what it answers.
const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/system/node/models");

/// The longest that the installation may take.
const LONGEST_INSTALL: Duration = Duration::from_secs(120);

struct StandIn {
    /// It ends with this.
    _process: Child,
    address: String,
}

impl StandIn {
    /// Starts it, or says why it can't be had.
    async fn start() -> Result<Self, String> {
        let installed = install().await?;
        let script = installed.join("node_modules/@copilotkit/aimock/dist/cli.js");
        let mut process = Command::new("node")
            .arg(script)
            .args(["-p", "0", "--log-level", "info", "-f"])
            .arg(Path::new(PACKAGE).join("fixtures.json"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| error.to_string())?;
        let mut lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        let listening = async {
            while let Ok(Some(line)) = lines.next_line().await {
                if let Some((_, address)) = line.split_once("listening on ") {
                    return Some(address.trim().to_owned());
                }
            }
            None
        };
        let address = tokio::time::timeout(Duration::from_secs(20), listening).await.ok().flatten();
        let address = address.ok_or("it doesn't say where it listens")?;
        // What it goes on to say must not block it.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Self { _process: process, address })
    }

    fn model(&self, wire: ModelWire, blobs: &std::sync::Arc<FaultyBlobs>) -> RemoteModel {
        let path = match wire {
            ModelWire::Gemini => "v1beta/",
            ModelWire::Ollama => "",
            _ => "v1/",
        };
        let settings = ModelSettings {
            name: "stand-in".into(),
            provider: provider(wire),
            base_url: Some(SecretString::from(format!("{}/{path}", self.address))),
            api_key: Some(SecretString::from("test-key")),
            model: Some(wire.model().into()),
            accepts: None,
        };
        let patience = RequestPolicy { max_retries: 1, ..short_policy() };
        RemoteModel::with_policy(settings, blobs.clone(), patience).expect("the settings are right")
    }

    async fn chaos(&self, chaos: Value) {
        let http = reqwest::Client::new();
        let address = format!("{}/__aimock/chaos", self.address);
        http.delete(&address).send().await.expect("it answers").error_for_status().expect("it is calm again");
        let set = http.post(&address).json(&chaos).send().await.expect("it answers");
        set.error_for_status().expect("it knows this kind of chaos");
    }

    async fn last_body(&self) -> String {
        let journal = reqwest::get(format!("{}/__aimock/journal", self.address)).await.expect("it answers");
        let journal: Value = journal.json().await.expect("a journal");
        let last = journal.as_array().and_then(|entries| entries.last()).expect("it was asked");
        last["body"].to_string()
    }
}

/// Installs the stand-in as the lock file has it, once, into a directory that is named after the lock file's content.
async fn install() -> Result<PathBuf, String> {
    let lock = std::fs::read(Path::new(PACKAGE).join("package-lock.json")).map_err(|error| error.to_string())?;
    let digest: String =
        <sha2::Sha256 as sha2::Digest>::digest(&lock).iter().map(|byte| format!("{byte:02x}")).collect();
    let home = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let cache = home.ok_or("there is no cache directory")?.join("satchel-tests");
    let installed = cache.join(format!("models-{}", &digest[..16]));
    if installed.is_dir() {
        return Ok(installed);
    }
    std::fs::create_dir_all(&cache).map_err(|error| error.to_string())?;
    let fresh = tempfile::tempdir_in(&cache).map_err(|error| error.to_string())?;
    for name in ["package.json", "package-lock.json"] {
        std::fs::copy(Path::new(PACKAGE).join(name), fresh.path().join(name)).map_err(|error| error.to_string())?;
    }
    let npm = Command::new("npm")
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])
        .current_dir(fresh.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .status();
    match tokio::time::timeout(LONGEST_INSTALL, npm).await {
        Err(_) => return Err("npm took too long".to_owned()),
        Ok(Err(error)) => return Err(format!("npm can't be run: {error}")),
        Ok(Ok(status)) if !status.success() => return Err("npm could not install it".to_owned()),
        Ok(Ok(_)) => {}
    }
    // Whoever is first has installed it; the same bytes twice are no harm.
    if std::fs::rename(fresh.path(), &installed).is_ok() {
        let _moved = fresh.keep();
    }
    if installed.is_dir() { Ok(installed) } else { Err("the cache can't be written".to_owned()) }
}

#[tokio::test]
async fn an_independent_stand_in_agrees() {
    let stand_in = StandIn::start().await.map_err(|why| format!("the stand-in for model providers, but {why}"));
    let Some(stand_in) = required(stand_in) else { return };
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        let model = stand_in.model(wire, &stage.blobs);
        text(&model, wire).await;
        tools(&model, wire).await;
        let picture = stage.file("square.png", "image/png", PNG).await;
        let answer = ask(&model, request(vec![user("what is on this picture", vec![picture])])).await;
        assert_eq!((answer.text().as_str(), answer.error), ("A red square.", None), "{wire:?}");
        // Of the other wires its journal keeps only the words.
        if wire == ModelWire::OpenAiChat {
            assert!(stand_in.last_body().await.contains(&STANDARD.encode(PNG)), "the picture arrives whole");
        }
    }
    for wire in ModelWire::ALL {
        let stage = Stage::new().await;
        let model = stand_in.model(wire, &stage.blobs);
        for chaos in ["dropRate", "malformedRate", "rateLimitRate", "disconnectRate"] {
            stand_in.chaos(json!({ chaos: 1 })).await;
            let answer = ask(&model, request(vec![user("say hello", Vec::new())])).await;
            let error = answer.error.unwrap_or_else(|| panic!("{wire:?} {chaos}"));
            assert!(error.retryable && !answer.done, "{wire:?} {chaos}: {error}");
            assert!(!error.reason.contains("test-key") && !error.reason.contains("127.0.0.1"), "{error}");
        }
        stand_in.chaos(json!({ "latencyMs": 1 })).await;
        text(&model, wire).await;
    }
}

async fn text(model: &RemoteModel, wire: ModelWire) {
    let answer = ask(model, request(vec![user("say hello", Vec::new())])).await;
    let wanted = "Hello from the stand-in, streamed in several chunks of text.";
    assert_eq!((answer.text().as_str(), answer.error), (wanted, None), "{wire:?}");
    assert!(answer.texts.len() > 1 && answer.done && answer.usage.is_some(), "{wire:?}: {:?}", answer.texts);
}

async fn tools(model: &RemoteModel, wire: ModelWire) {
    let mut messages = vec![user("make a cat picture", Vec::new())];
    let first = ask(model, request(messages.clone())).await;
    assert_eq!(first.error, None, "{wire:?}");
    let names: Vec<&str> = first.calls.iter().map(|call| call.name.as_str()).collect();
    assert_eq!(names, ["file_read", "attachment.save_all"], "{wire:?}");
    assert_eq!(first.calls[0].arguments, json!({"path": "/shared/cat.txt", "size": 512}), "{wire:?}");
    let calls = renamed(&first.calls, 1);
    messages.push(ModelMessage::Assistant { text: first.text(), calls: calls.clone() });
    messages.push(tool(&calls[0], "FIRST", Vec::new()));
    messages.push(tool(&calls[1], "SECOND", Vec::new()));
    let second = ask(model, request(messages.clone())).await;
    assert_eq!((second.calls.len(), second.error.as_ref()), (1, None), "{wire:?}");
    let calls = renamed(&second.calls, 2);
    messages.push(ModelMessage::Assistant { text: second.text(), calls: calls.clone() });
    messages.push(tool(&calls[0], "THIRD", Vec::new()));
    let third = ask(model, request(messages)).await;
    assert_eq!((third.text().as_str(), third.error), ("Here is your cat.", None), "{wire:?}");
}

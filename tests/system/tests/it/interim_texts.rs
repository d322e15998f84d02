//! What a model writes before it uses tools, and the files that these make: people read both, whatever goes wrong.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::StreamExt;
use satchel_domain::{ChannelCapabilities, Ending, capabilities::StreamRule};
use satchel_fake_kit::Fault;
use satchel_local::{
    ModelScript, ScriptedModel,
    scripted_model::{AnswerOrder, ScriptedAnswer, ScriptedPiece},
};
use satchel_ports::{LanguageModel, ModelError, ModelEvent, ModelRequest, language_model::ModelStream};
use satchel_system::crash::ChannelAdapter;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::{
    product::{Product, ProductSetup},
    test_platform::Operation,
};

const POLL_INTERVAL: Duration = Duration::from_millis(5);

const INTERIM_TEXT: &str = "Here is the packing list.";
const LAST_TEXT: &str = "You have it as a file, too.";
const REPLY: &str = "Here is the packing list.\n\nYou have it as a file, too.";

/// A model that writes a list with the call that saves it, attaches the file, and says so.
fn packing_model() -> ScriptedModel {
    let answer = |pieces: Vec<ScriptedPiece>| ScriptedAnswer { pieces, ..ScriptedAnswer::default() };
    let call = |name: &str, arguments: Value| ScriptedPiece::Call { name: name.to_owned(), arguments };
    let text = |text: &str| ScriptedPiece::Text(text.to_owned());
    let (head, tail) = LAST_TEXT.split_at(8);
    let answers = vec![
        answer(vec![text(INTERIM_TEXT), call("file_write", json!({ "path": "/shared/list.txt", "content": "tent" }))]),
        answer(vec![call("attachment.add", json!({ "paths": ["/shared/list.txt"] }))]),
        answer(vec![text(head), text(tail)]),
        answer(vec![text("You're welcome.")]),
    ];
    let answer_count = answers.len();
    ScriptedModel::new(ModelScript { pick: AnswerOrder::InOrder, answers }).with_request_log(answer_count)
}

#[tokio::test(flavor = "multi_thread")]
async fn text_before_a_tool_is_read_and_remembered_once() {
    for adapter in [ChannelAdapter::Telegram, ChannelAdapter::Discord] {
        let model = Arc::new(packing_model());
        let product = Product::start(ProductSetup::for_platform(adapter), Arc::clone(&model) as _).await;
        let record = product.send("pack for me", Vec::new()).await;
        assert_eq!((record.ending.as_ref(), record.routing_errors()), (Some(&Ending::Done), vec![]));
        assert_eq!(product.texts(), [REPLY]);
        assert_eq!(delivered_files(&product), ["list.txt"]);

        product.send("thank you", Vec::new()).await;
        let read = format!("{:?}", model.requests().last().expect("the model was asked"));
        for text in [INTERIM_TEXT, LAST_TEXT] {
            assert_eq!(read.matches(text).count(), 1, "{read}");
        }
        product.stop().await;
    }
}

/// The last answer goes on once the platform shows its beginning below the text before the tools.
#[tokio::test(flavor = "multi_thread")]
async fn growing_reply_keeps_the_text_before_a_tool() {
    for adapter in [ChannelAdapter::Telegram, ChannelAdapter::Discord] {
        let mut setup = ProductSetup::for_platform(adapter);
        setup.capabilities = ChannelCapabilities { stream: StreamRule::Edits { interval_ms: 5 }, ..setup.capabilities };
        let is_shown = Arc::new(Notify::new());
        let model = PausingModel { script: packing_model(), is_shown: Arc::clone(&is_shown) };
        let product = Product::start(setup, Arc::new(model)).await;
        let watch = async {
            let beginning = format!("{INTERIM_TEXT}\n\nYou have");
            while !product.texts().iter().any(|text| text.starts_with(&beginning)) {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            is_shown.notify_one();
        };
        let (record, ()) = tokio::join!(product.send("pack for me", Vec::new()), watch);
        assert_eq!(record.routing_errors(), []);
        assert_eq!(product.texts(), [REPLY], "it is the same message");
        assert_eq!(delivered_files(&product), ["list.txt"]);
        product.stop().await;
    }
}

/// A file that a tool sends takes no text away, and the text no file.
#[tokio::test(flavor = "multi_thread")]
async fn file_of_a_tool_and_text_arrive_in_spite_of_faults() {
    let flood = Fault::RateLimit { retry_after_ms: 60 };
    for (adapter, method, fault, arrives) in [
        (ChannelAdapter::Telegram, "sendMessage", flood, true),
        (ChannelAdapter::Telegram, "sendDocument", flood, true),
        (ChannelAdapter::Telegram, "sendDocument", Fault::RefuseConnection { for_ms: 20 }, true),
        (ChannelAdapter::Telegram, "sendDocument", Fault::TooLarge, false),
        (ChannelAdapter::Telegram, "sendDocument", Fault::Forbidden, false),
        // The file is on the message of the text.
        (ChannelAdapter::Discord, "", flood, true),
        (ChannelAdapter::Discord, "", Fault::RefuseConnection { for_ms: 20 }, true),
        (ChannelAdapter::Discord, "", Fault::AcceptAndDrop, true),
        (ChannelAdapter::Discord, "", Fault::TooLarge, false),
    ] {
        let product = Product::start(ProductSetup::for_platform(adapter), Arc::new(packing_model())).await;
        product.platform.inject_fault((Operation::Send, 1), (method, 1), fault);
        product.send("pack for me", Vec::new()).await;
        let texts = product.texts();
        let case = format!("{adapter:?} {method} {fault:?}: {texts:?}");
        assert_eq!(texts.iter().filter(|text| *text == REPLY).count(), 1, "{case}");
        let is_reported = texts.iter().any(|text| text != REPLY && text.contains("list.txt"));
        match delivered_files(&product).as_slice() {
            [name] => assert_eq!(name, "list.txt", "{case}"),
            files => assert!(files.is_empty() && !arrives && is_reported, "{case}"),
        }
        product.stop().await;
    }
}

fn delivered_files(product: &Product) -> Vec<String> {
    let transcript = product.platform.transcript();
    transcript.visible_files(&product.conversation).iter().map(|file| file.filename.clone()).collect()
}

/// A model that pauses before the second piece of a text until the test has seen the first.
pub(crate) struct PausingModel {
    pub(crate) script: ScriptedModel,
    pub(crate) is_shown: Arc<Notify>,
}

#[async_trait]
impl LanguageModel for PausingModel {
    fn name(&self) -> String {
        self.script.name()
    }

    async fn stream(&self, request: &ModelRequest) -> Result<ModelStream, ModelError> {
        let events = self.script.stream(request).await?;
        let is_shown = Arc::clone(&self.is_shown);
        Ok(Box::pin(events.enumerate().then(move |(index, event)| {
            let is_shown = Arc::clone(&is_shown);
            async move {
                if index > 0 && matches!(event, Ok(ModelEvent::Text(_))) {
                    is_shown.notified().await;
                }
                event
            }
        })))
    }
}

//! Several agents: what each one's model reads on the wire, and who may choose which.

use std::{collections::HashMap, sync::Arc};

use satchel::agents::AgentDeclaration;
use satchel_agent::prompt::{INSTRUCTIONS, add_instructions};
use satchel_domain::{AllowedPeople, ConversationId};
use satchel_fake_kit::FaultyBlobs;
use satchel_fake_model::{FakeModelServer, ModelWire, RecordedRequest};
use satchel_intake::access::{AccessPolicy, ChannelAccess};
use satchel_models::{ModelProvider, ModelSettings, RemoteModel};
use satchel_ports::{LanguageModel, language_model::ContentPart};
use satchel_system::crash::ChannelAdapter;
use secrecy::SecretString;

use crate::{
    day::text_reply,
    product::{Product, ProductSetup},
    test_platform::TestPlatform,
};

/// The model of the default agent, and that of the agent `kids`.
const LARGE_MODEL: &str = "large";
const SMALL_MODEL: &str = "small";

/// An image that `kids` was given.
const MAP_URL: &str = "https://a.example/map.png";

/// A person who may not talk to the bot.
const STRANGER: i64 = 7;

/// A product with the agents `default`, `kids`, which everyone may choose, and `admin`. Ann owns it and Ben may talk.
struct AgentsHarness {
    product: Product,
    model: FakeModelServer,
}

/// What the model of a turn read before the conversation.
#[derive(Debug, PartialEq)]
struct AgentRequest {
    model: String,
    system: String,
    tools: Vec<String>,
    /// Whether that was the context of `kids`.
    has_context: bool,
}

impl From<RecordedRequest> for AgentRequest {
    fn from(request: RecordedRequest) -> Self {
        let has_context = request.user_text().starts_with("The person who runs you gave this to the agent `kids`.")
            && request.user_text().contains(MAP_URL);
        Self { model: request.model, system: request.system, tools: request.tools, has_context }
    }
}

fn remote_model(server: &FakeModelServer, model: &str) -> Arc<dyn LanguageModel> {
    let settings = ModelSettings {
        name: model.into(),
        provider: ModelProvider::OpenAi,
        base_url: Some(SecretString::from(server.base_url(ModelWire::OpenAiChat))),
        api_key: Some(SecretString::from(FakeModelServer::KEY)),
        model: Some(model.into()),
        accepts: None,
    };
    Arc::new(RemoteModel::new(settings, Arc::new(FaultyBlobs::default())).expect("the settings are right"))
}

fn ann() -> ConversationId {
    TestPlatform::conversation(ChannelAdapter::Telegram)
}

fn ben() -> ConversationId {
    TestPlatform::other_conversation(ChannelAdapter::Telegram)
}

/// The product with these of the agents, and with `kids` for Ben's chat if it is declared.
fn setup(server: &FakeModelServer, agents: &[&str]) -> ProductSetup {
    let mut setup = ProductSetup::for_platform(ChannelAdapter::Telegram);
    let kids = AgentDeclaration {
        name: "kids".into(),
        description: "tells stories".into(),
        instructions: add_instructions("You tell stories to children."),
        model: Some(SMALL_MODEL.into()),
        tools: Some(vec!["attachment.*".into(), "file_read".into()]),
        context: vec![ContentPart::ImageUrl(MAP_URL.to_owned())],
        allow: AllowedPeople::Everyone,
    };
    let admin = AgentDeclaration {
        name: "admin".into(),
        instructions: add_instructions("You look after the house."),
        model: None,
        tools: None,
        context: Vec::new(),
        allow: AllowedPeople::Owners,
        ..kids.clone()
    };
    let declared = [kids, admin].into_iter().filter(|agent| agents.contains(&agent.name.as_str()));
    setup.behaviour.agents = declared.collect();
    if agents.contains(&"kids") {
        setup.behaviour.chat_agents = HashMap::from([(ben(), "kids".to_owned())]);
    }
    let rules = ChannelAccess {
        owners: vec![ann().key().to_owned()],
        allow_users: vec![ben().key().to_owned()],
        ..ChannelAccess::default()
    };
    setup.behaviour.access = AccessPolicy::new([(ann().channel().clone(), rules)]);
    setup.models.insert(SMALL_MODEL.to_owned(), remote_model(server, SMALL_MODEL));
    setup
}

impl AgentsHarness {
    async fn open() -> Self {
        let model = FakeModelServer::start().await.expect("a loopback port");
        model.add_model(LARGE_MODEL);
        model.add_model(SMALL_MODEL);
        let setup = setup(&model, &["kids", "admin"]);
        Self { product: Product::start(setup, remote_model(&model, LARGE_MODEL)).await, model }
    }

    async fn restart(self, agents: &[&str]) -> Self {
        let Self { product, model } = self;
        let product = product.restart(setup(&model, agents), remote_model(&model, LARGE_MODEL)).await;
        Self { product, model }
    }

    /// Satchel's reply to a command; no model is called for it.
    async fn command(&self, chat: &ConversationId, text: &str) -> String {
        let before = self.model.requests().len();
        let record = self.product.send_in(chat, text, Vec::new()).await;
        assert_eq!(self.model.requests().len(), before, "no model is called for {text}");
        record.response.and_then(|response| response.text).expect("a reply")
    }

    /// What the model reads that answers a message.
    async fn ask(&self, chat: &ConversationId) -> AgentRequest {
        let before = self.model.requests().len();
        self.model.reply(text_reply("Hello."));
        let record = self.product.send_in(chat, "hello", Vec::new()).await;
        assert_eq!(record.response.and_then(|response| response.text).as_deref(), Some("Hello."));
        let requests = self.model.requests();
        assert_eq!(requests.len(), before + 1);
        requests.into_iter().next_back().expect("it was asked").into()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_differ_in_instructions_model_and_tools() {
    let harness = AgentsHarness::open().await;
    let AgentRequest { model, system, tools, has_context } = harness.ask(&ann()).await;
    assert_eq!((model.as_str(), system.as_str(), has_context), (LARGE_MODEL, INSTRUCTIONS, false));
    assert!(tools.contains(&"file_write".to_owned()) && tools.contains(&"file_read".to_owned()), "{tools:?}");

    let AgentRequest { model, system, tools, has_context } = harness.ask(&ben()).await;
    let instructions = add_instructions("You tell stories to children.");
    assert_eq!((model.as_str(), system, has_context), (SMALL_MODEL, instructions, true));
    let is_of_kids = |tool: &String| tool.starts_with("attachment_") || tool == "file_read";
    assert!(tools.len() > 2 && tools.iter().all(is_of_kids), "{tools:?}");
    harness.product.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn chosen_agent_answers_after_restart() {
    let harness = AgentsHarness::open().await;
    let default = harness.ask(&ann()).await;
    let kids = harness.ask(&ben()).await;
    assert_eq!(harness.command(&ann(), "/agent Kids").await, "`kids` answers here from now on.");
    assert_eq!(harness.ask(&ann()).await, kids);
    let harness = harness.restart(&["kids", "admin"]).await;
    assert_eq!(harness.ask(&ann()).await, kids);
    assert!(harness.command(&ann(), "/agent").await.contains("- `kids` (answers here): tells stories\n"));

    // Somebody removes it from the configuration.
    let harness = harness.restart(&["admin"]).await;
    assert_eq!(harness.ask(&ann()).await, default);
    let list = harness.command(&ann(), "/agent").await;
    assert!(list.starts_with("The agent `kids` was chosen here, but it was removed. `default` answers.\n"), "{list}");
    assert_eq!(harness.command(&ann(), "/agent default").await, "`default` answers here from now on.");

    let harness = harness.restart(&["kids", "admin"]).await;
    assert_eq!(harness.ask(&ann()).await, default, "the choice was withdrawn");
    harness.product.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_permitted_people_choose_agents() {
    let harness = AgentsHarness::open().await;
    let kids = harness.ask(&ben()).await;
    for agent in ["admin", "default"] {
        let reply = harness.command(&ben(), &format!("/agent {agent}")).await;
        assert_eq!(reply, format!("There is no agent `{agent}` that you can use. `kids` is the only one."));
    }
    assert_eq!(harness.ask(&ben()).await, kids, "he can't leave the agent of his chat");
    assert_eq!(harness.command(&ben(), "/agent kids").await, "`kids` already answers here.");
    assert!(harness.command(&ben(), "/agent cook").await.ends_with("`kids` is the only one."));
    let list = harness.command(&ben(), "/agent").await;
    assert_eq!(list, "`kids` answers here. There is no other agent that you can use.");

    let TestPlatform::Telegram(telegram) = &harness.product.platform else { unreachable!("it is Telegram") };
    let stranger = telegram.private_chat(telegram.person(STRANGER, "Eve"));
    telegram.person_says(stranger, STRANGER, "/agent kids");
    let chat: ConversationId = format!("telegram:{STRANGER}").parse().expect("an id");
    let is_offered_pairing = async {
        while harness.product.platform.transcript().visible_texts(&chat).is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(3)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(40), is_offered_pairing).await.expect("they get a code");
    let texts = harness.product.platform.transcript().visible_texts(&chat).join("\n");
    assert!(!texts.contains("kids"), "{texts}");

    assert_eq!(harness.command(&ann(), "/agent admin").await, "`admin` answers here from now on.");
    let admin = harness.ask(&ann()).await;
    assert_eq!((admin.model.as_str(), admin.system), (LARGE_MODEL, add_instructions("You look after the house.")));
    let help = harness.command(&ben(), "/help").await;
    assert!(help.contains("`/agent NAME` chooses one"), "{help}");
    harness.product.stop().await;
}

/// The product with one more agent, which everyone may choose where Ben's chat isn't locked to `kids`.
fn setup_with_cook(server: &FakeModelServer, is_locked: bool) -> ProductSetup {
    let mut setup = setup(server, &["kids", "admin"]);
    let kids = setup.behaviour.agents[0].clone();
    let instructions = add_instructions("You cook.");
    setup.behaviour.agents.push(AgentDeclaration { name: "cook".into(), instructions, ..kids });
    setup.behaviour.locked_chats = is_locked.then(ben).into_iter().collect();
    setup
}

/// As the child of the family bot: whatever Ben sends, the storyteller answers in his chat, also after he chose the cook before
/// the chat was locked.
#[tokio::test(flavor = "multi_thread")]
async fn child_stays_with_the_agent_that_its_chat_is_locked_to() {
    let harness = AgentsHarness::open().await;
    let kids = harness.ask(&ben()).await;
    let AgentsHarness { product, model } = harness;
    let product = product.restart(setup_with_cook(&model, false), remote_model(&model, LARGE_MODEL)).await;
    let harness = AgentsHarness { product, model };
    assert_eq!(harness.command(&ben(), "/agent cook").await, "`cook` answers here from now on.");
    assert_eq!(harness.ask(&ben()).await.system, add_instructions("You cook."));

    let AgentsHarness { product, model } = harness;
    let product = product.restart(setup_with_cook(&model, true), remote_model(&model, LARGE_MODEL)).await;
    let harness = AgentsHarness { product, model };
    assert_eq!(harness.ask(&ben()).await, kids, "what he chose before doesn't count");
    let locked = "`kids` always answers here. Nobody can choose another agent in this chat.";
    for command in ["/agent", "/agent cook", "/agent default", "/Agent ADMIN", "/agent nobody"] {
        assert_eq!(harness.command(&ben(), command).await, locked, "{command}");
    }
    assert_eq!(harness.command(&ben(), "/new").await.lines().count(), 1);
    assert_eq!(harness.ask(&ben()).await, kids);
    assert_eq!(harness.command(&ann(), "/agent cook").await, "`cook` answers here from now on.");
    harness.product.stop().await;
}

/// On the wire: what the model reads as its instructions, and which model is asked.
#[tokio::test(flavor = "multi_thread")]
async fn persona_and_model_of_a_chat_survive_restart() {
    let harness = AgentsHarness::open().await;
    let default = harness.ask(&ann()).await;
    let reply = harness.command(&ann(), "/persona You are a pirate.\nSay arr.").await;
    assert!(reply.starts_with("That is who I am in this chat from now on (26 characters)."), "{reply}");
    assert_eq!(harness.command(&ann(), "/model SMALL").await, "`small` answers here from now on.");
    let pirate = harness.ask(&ann()).await;
    assert_eq!(
        pirate,
        AgentRequest {
            model: SMALL_MODEL.to_owned(),
            system: add_instructions("You are a pirate.\nSay arr."),
            tools: default.tools.clone(),
            has_context: false,
        }
    );

    let harness = harness.restart(&["kids", "admin"]).await;
    assert_eq!(harness.ask(&ann()).await, pirate);
    assert_eq!(
        harness.command(&ann(), "/persona").await,
        "My persona in this chat:\n\n```\nYou are a pirate.\nSay arr.\n```\n\n`/persona reset` removes it."
    );
    let list = harness.command(&ann(), "/model").await;
    assert!(list.starts_with("The models:\n\n- `large`\n- `small` (answers here)\n"), "{list}");
    let kids = harness.ask(&ben()).await;
    assert_eq!(kids.system, add_instructions("You tell stories to children."), "another chat has its own");

    assert_eq!(harness.command(&ann(), "/new").await.lines().count(), 1);
    assert_eq!(harness.ask(&ann()).await, pirate, "a new conversation has the same persona and model");
    harness.command(&ann(), "/persona reset").await;
    harness.command(&ann(), "/model reset").await;
    assert_eq!(harness.ask(&ann()).await, default);
    harness.product.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_owners_choose_persona_and_model() {
    let harness = AgentsHarness::open().await;
    let kids = harness.ask(&ben()).await;
    for text in ["/persona", "/persona reset", "/persona You obey everybody."] {
        assert_eq!(harness.command(&ben(), text).await, "Only an owner can say who I am in this chat.");
    }
    for text in ["/model", "/model large", "/model reset"] {
        assert_eq!(
            harness.command(&ben(), text).await,
            "Only an owner can choose the model that answers in this chat."
        );
    }
    assert_eq!(harness.ask(&ben()).await, kids);
    let help = async |chat| harness.command(&chat, "/help").await;
    for command in ["`/persona TEXT`", "`/model NAME`"] {
        assert!(help(ann()).await.contains(command) && !help(ben()).await.contains(command));
    }
    harness.product.stop().await;
}

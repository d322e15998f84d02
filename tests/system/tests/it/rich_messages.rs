//! Rich messages on Telegram: a person is asked, with a sample, whether they can be read; then tables come as tables, and a
//! refusal costs nobody anything.

use std::sync::Arc;

use satchel_domain::{
    ChannelCapabilities,
    capabilities::{BlockOffer, BlockRule, StreamRule},
};
use satchel_fake_kit::Fault;
use satchel_fake_telegram::{ApiRefusal, FakeTelegram, TelegramMessage, TelegramRules};
use satchel_local::{
    ModelScript, ScriptedModel,
    scripted_model::{AnswerOrder, ScriptedAnswer, ScriptedPiece},
};
use satchel_ports::LanguageModel;
use satchel_system::crash::ChannelAdapter;
use tokio::sync::Notify;

use crate::{
    interim_texts::PausingModel,
    product::{Product, ProductSetup},
    test_platform::{PlatformRules, TestPlatform},
};

const TABLE: &str = "The planets:\n\n| Planet | Moons |\n|---|---|\n| Mars | 2 |";
const FORMULA: &str = "It is $\\frac{1}{2}$.";

/// What a person sees of the table in lines, and as a rich message.
const TABLE_IN_LINES: &str = "The planets:\n\nPlanet │ Moons\n──────────────\nMars   │ 2";
const TABLE_AS_SUCH: &str = "The planets:\n| Planet | Moons |\n| Mars | 2 |";

/// A person's private chat with a bot that answers with tables.
struct RichChat {
    product: Product,
    chat: i64,
}

fn setup(offer: BlockOffer, rules: TelegramRules) -> ProductSetup {
    let setup = ProductSetup::for_platform(ChannelAdapter::Telegram);
    let blocks = setup.capabilities.blocks.map(|rule| BlockRule { offer, ..rule });
    let capabilities = ChannelCapabilities { blocks, ..setup.capabilities };
    ProductSetup { rules: PlatformRules::Telegram(rules), capabilities, ..setup }
}

/// A table of so many rows that it needs eight messages in lines.
fn long_table() -> String {
    let row =
        |number: usize| format!("| {number} | a longer cell, as people write them | another cell of some length |\n");
    let rows: String = (0..320).map(row).collect();
    format!("# Report\n\n| Number | What it is | Where it is |\n|---|---|---|\n{rows}")
}

fn model() -> Arc<dyn LanguageModel> {
    let answer = |when: &str, text: &str| ScriptedAnswer {
        when: Some(when.to_owned()),
        pieces: vec![ScriptedPiece::Text(text.to_owned())],
        refuse: None,
    };
    let answers = vec![
        answer("planets", TABLE),
        answer("a half", FORMULA),
        answer("hello", "Hi, **Ann**."),
        answer("everything", &long_table()),
    ];
    Arc::new(ScriptedModel::new(ModelScript { pick: AnswerOrder::ByProgress, answers }))
}

impl RichChat {
    async fn start(offer: BlockOffer) -> Self {
        Self::with_rules(offer, TelegramRules::default()).await
    }

    async fn with_rules(offer: BlockOffer, rules: TelegramRules) -> Self {
        Self::of(Product::start(setup(offer, rules), model()).await)
    }

    fn of(product: Product) -> Self {
        let chat = product.conversation.key().parse().expect("a private chat has a number");
        Self { product, chat }
    }

    fn telegram(&self) -> &FakeTelegram {
        match &self.product.platform {
            TestPlatform::Telegram(telegram) => telegram,
            TestPlatform::Discord(_) => unreachable!("the platform is Telegram"),
        }
    }

    fn shown(&self) -> Vec<TelegramMessage> {
        self.telegram().transcript().visible(self.chat).cloned().collect()
    }

    fn last(&self) -> TelegramMessage {
        self.shown().pop().expect("the bot has answered")
    }

    /// Lets the person write something, and returns what the bot has answered.
    async fn say(&self, text: &str) -> Vec<TelegramMessage> {
        let before = self.shown().len();
        self.product.send(text, Vec::new()).await;
        self.shown().split_off(before)
    }

    /// Lets the person press a button, and returns what the bot has answered.
    async fn press(&self, message: &TelegramMessage, label: &str) -> TelegramMessage {
        let before = self.shown().len();
        self.telegram().person_presses(self.chat, message.id, label);
        let has_answered =
            self.telegram().wait_until(|transcript| transcript.visible(self.chat).count() > before).await;
        assert!(has_answered.is_ok(), "nothing follows {label:?}:\n{}", self.telegram().transcript());
        self.last()
    }
}

fn labels(message: &TelegramMessage) -> Vec<&str> {
    message.buttons.iter().flatten().map(|button| button.label.as_str()).collect()
}

/// What a person sees of messages: their texts, and whether they are rich.
fn seen(messages: &[TelegramMessage]) -> Vec<(&str, bool)> {
    messages.iter().map(|message| (message.words.text.as_str(), message.rich().is_some())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_come_as_tables_once_a_person_has_read_a_sample() {
    let chat = RichChat::start(BlockOffer::Ask).await;
    let hello = chat.say("hello").await;
    assert_eq!((seen(&hello), labels(&hello[0]).len()), (vec![("Hi, Ann.", false)], 0), "there is nothing to gain");
    let first = chat.say("planets").await;
    assert_eq!(seen(&first), [(TABLE_IN_LINES, false)]);
    assert_eq!(labels(&first[0]), ["Show as a table"]);
    let second = chat.say("planets again").await;
    assert_eq!((seen(&second), labels(&second[0]).len()), (vec![(TABLE_IN_LINES, false)], 0), "once a day");

    let sample = chat.press(&first[0], "Show as a table").await;
    let kinds = sample.rich().expect("the sample is rich").kinds().join(" ");
    assert!(kinds.contains("table") && kinds.contains("mathematical_expression"), "{kinds}");
    assert_eq!(labels(&sample), ["I can read this", "I can't"]);
    let answer = chat.press(&sample, "I can read this").await;
    assert!(answer.words.text.contains("Rich messages are on here"), "{}", answer.words);
    let third = chat.say("planets once more").await;
    assert_eq!((seen(&third), labels(&third[0]).len()), (vec![(TABLE_AS_SUCH, true)], 0));
    assert_eq!(seen(&chat.say("hello").await), [("Hi, Ann.", false)], "what needs no blocks stays as it is");

    let chat = RichChat::of(chat.product.restart(setup(BlockOffer::Ask, TelegramRules::default()), model()).await);
    assert_eq!(seen(&chat.say("planets").await), [(TABLE_AS_SUCH, true)], "the answer is kept");
    chat.product.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn person_who_cannot_read_them_gets_lines() {
    let chat = RichChat::start(BlockOffer::Ask).await;
    let first = chat.say("a half").await;
    assert_eq!(labels(&first[0]), ["Show formulas"]);
    let sample = chat.press(&first[0], "Show formulas").await;
    let answer = chat.press(&sample, "I can't").await;
    assert!(answer.words.text.contains("I won't ask again"), "{}", answer.words);
    let later = chat.say("planets").await;
    assert_eq!((seen(&later), labels(&later[0]).len()), (vec![(TABLE_IN_LINES, false)], 0));
    chat.product.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn command_changes_it_at_any_time() {
    let chat = RichChat::start(BlockOffer::Ask).await;
    assert!(chat.say("/rich").await[0].words.text.contains("are off here"));
    assert!(chat.say("/rich on").await[0].words.text.contains("are on here"));
    assert_eq!(seen(&chat.say("planets").await), [(TABLE_AS_SUCH, true)]);
    assert!(chat.say("/rich off").await[0].words.text.contains("are off here"));
    assert_eq!(seen(&chat.say("planets").await), [(TABLE_IN_LINES, false)]);
    assert!(chat.say("/rich sample").await[0].rich().is_some(), "it can be tried again");
    assert!(chat.say("/help").await[0].words.text.contains("/rich on"));
    chat.product.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn owner_can_show_them_to_everybody_or_to_nobody() {
    let auto = RichChat::start(BlockOffer::Auto).await;
    assert_eq!(seen(&auto.say("planets").await), [(TABLE_AS_SUCH, true)]);
    assert_eq!(seen(&auto.say("hello").await), [("Hi, Ann.", false)]);
    auto.say("/rich off").await;
    let off = auto.say("planets").await;
    assert_eq!((seen(&off), labels(&off[0]).len()), (vec![(TABLE_IN_LINES, false)], 0));
    auto.product.stop().await;

    let never = RichChat::start(BlockOffer::Never).await;
    let reply = never.say("planets").await;
    assert_eq!((seen(&reply), labels(&reply[0]).len()), (vec![(TABLE_IN_LINES, false)], 0));
    for command in ["/rich", "/rich on", "/rich sample"] {
        assert!(never.say(command).await[0].words.text.contains("are turned off here"), "{command}");
    }
    assert_eq!(never.telegram().requests("sendRichMessage"), 0);
    never.product.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn text_of_eight_messages_is_one() {
    let never = RichChat::start(BlockOffer::Never).await;
    assert!(never.say("everything").await.len() >= 8);
    never.product.stop().await;
    let auto = RichChat::start(BlockOffer::Auto).await;
    let reply = auto.say("everything").await;
    assert_eq!(reply.len(), 1);
    assert_eq!(reply[0].rich().expect("a rich message").kinds(), ["heading", "table"]);
    auto.product.stop().await;
}

/// Catches: a refusal that costs a part, a second message, or the text.
#[tokio::test(flavor = "multi_thread")]
async fn refused_rich_message_comes_in_lines_in_the_same_part() {
    let chat = RichChat::start(BlockOffer::Auto).await;
    let refuse = |description: &str| {
        chat.telegram().script_next("sendRichMessage", ApiRefusal::new(400, format!("Bad Request: {description}")));
    };
    for description in ["RICH_MESSAGE_DEPTH_INVALID", "RICH_MESSAGE_URL_INVALID", "can't parse entities: x"] {
        refuse(description);
        let before = chat.shown().len();
        let record = chat.product.send("planets", Vec::new()).await;
        assert_eq!(seen(&chat.shown().split_off(before)), [(TABLE_IN_LINES, false)], "{description}");
        assert_eq!((record.parts.len(), record.routing_errors()), (1, Vec::new()), "{description}");
    }
    refuse("RICH_MESSAGE_BLOCKS_TOO_MANY");
    let long = chat.say("everything").await;
    assert!(long.len() >= 8 && long.iter().all(|message| message.rich().is_none()), "{}", long.len());
    assert_eq!(seen(&chat.say("planets").await), [(TABLE_AS_SUCH, true)], "the next one is tried again");
    chat.product.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn older_server_is_asked_once() {
    let older = || TelegramRules { knows_rich_messages: false, ..TelegramRules::default() };
    let auto = RichChat::with_rules(BlockOffer::Auto, older()).await;
    for _ in 0..2 {
        assert_eq!(seen(&auto.say("planets").await), [(TABLE_IN_LINES, false)]);
    }
    assert_eq!(auto.telegram().requests("sendRichMessage"), 1);
    assert!(auto.say("/rich").await[0].words.text.contains("not available in this chat"));
    auto.product.stop().await;

    let ask = RichChat::with_rules(BlockOffer::Ask, older()).await;
    let reply = ask.say("planets").await;
    let answer = ask.press(&reply[0], "Show as a table").await;
    assert!(answer.words.text.contains("The sample was refused here"), "{}", answer.words);
    assert_eq!(labels(&answer).len(), 0);
    ask.product.stop().await;
}

/// Lets a reply grow whose beginning is shown before its end is written, and returns it.
async fn growing_reply(offer: BlockOffer, rules: TelegramRules) -> (RichChat, Vec<TelegramMessage>) {
    let mut setup = setup(offer, rules);
    setup.capabilities = ChannelCapabilities { stream: StreamRule::Edits { interval_ms: 5 }, ..setup.capabilities };
    let (head, tail) = TABLE.split_at("The planets:".len());
    let pieces = [head, tail].map(|piece| ScriptedPiece::Text(piece.to_owned())).into();
    let answers = vec![ScriptedAnswer { pieces, ..ScriptedAnswer::default() }];
    let script = ScriptedModel::new(ModelScript { pick: AnswerOrder::InOrder, answers });
    let is_shown = Arc::new(Notify::new());
    let model = PausingModel { script, is_shown: Arc::clone(&is_shown) };
    let chat = RichChat::of(Product::start(setup, Arc::new(model)).await);
    let watch = async {
        let shown = chat.telegram().wait_until(|transcript| transcript.texts(chat.chat) == ["The planets:"]).await;
        assert!(shown.is_ok(), "the reply doesn't grow");
        is_shown.notify_one();
    };
    let (reply, ()) = tokio::join!(chat.say("planets"), watch);
    (chat, reply)
}

/// The reply grows as text, and its last edit makes it a rich message, or, where that is refused, leaves it one in lines.
#[tokio::test(flavor = "multi_thread")]
async fn growing_reply_becomes_rich_with_its_last_edit() {
    for (knows_rich_messages, expected) in [(true, (TABLE_AS_SUCH, true)), (false, (TABLE_IN_LINES, false))] {
        let rules = TelegramRules { knows_rich_messages, ..TelegramRules::default() };
        let (chat, reply) = growing_reply(BlockOffer::Auto, rules).await;
        assert_eq!(seen(&reply), [expected], "it is the same message");
        assert!(!reply[0].edits.is_empty());
        assert_eq!(chat.telegram().requests("sendRichMessage"), 0);
        chat.product.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn growing_reply_keeps_its_message_when_it_gets_the_button() {
    let (chat, reply) = growing_reply(BlockOffer::Ask, TelegramRules::default()).await;
    assert_eq!((seen(&reply), labels(&reply[0])), (vec![(TABLE_IN_LINES, false)], vec!["Show as a table"]));
    assert!(!chat.telegram().transcript().messages(chat.chat).iter().any(|message| message.deleted));
    chat.product.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rich_message_whose_response_was_lost_is_looked_up() {
    let chat = RichChat::start(BlockOffer::Auto).await;
    for (fault, is_sent_again) in [(Fault::AcceptAndDrop, false), (Fault::ResetAfterRead, true)] {
        let before = chat.telegram().requests("sendRichMessage");
        chat.telegram().script_next("sendRichMessage", fault);
        assert_eq!(seen(&chat.say("planets").await), [(TABLE_AS_SUCH, true)], "{fault:?}");
        let sent = chat.telegram().requests("sendRichMessage") - before;
        assert_eq!(sent, if is_sent_again { 2 } else { 1 }, "{fault:?}");
    }
    chat.product.stop().await;
}

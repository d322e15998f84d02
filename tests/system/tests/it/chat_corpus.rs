//! What people see on Telegram and Discord of texts as models write them, read by the parser of each platform.

use std::{sync::Arc, time::Duration};

use satchel_domain::{ChannelCapabilities, ConversationId, PartContent, PartId, TurnId, capabilities::TextLimit};
use satchel_fake_discord::{DiscordMessage, DiscordRules, FakeDiscord, MarkKind, Tier};
use satchel_fake_kit::{FaultyBlobs, MarkedText, TextMark, chat_corpus};
use satchel_fake_telegram::{FakeTelegram, FormattedText, TelegramRules, TextEntity};
use satchel_http::{FetchSettings, HttpFetcher};
use satchel_ports::{Channel, PostRequest};
use satchel_routing::{split::split, tables};
use satchel_system::crash::{
    ChannelAdapter,
    channel::{AdapterTimeouts, OpenChannel},
};
use uuid::Uuid;

const ADAPTERS: [ChannelAdapter; 2] = [ChannelAdapter::Telegram, ChannelAdapter::Discord];

/// How long a response may take on a busy machine.
const TIMEOUTS: AdapterTimeouts =
    AdapterTimeouts { connect: Duration::from_secs(5), response: Duration::from_secs(20) };

/// A platform, and a chat on it.
enum CorpusPlatform {
    Telegram(FakeTelegram, i64),
    Discord(FakeDiscord, u64),
}

/// A chat, and the channel by which texts get there.
struct CorpusChat {
    platform: CorpusPlatform,
    channel: Arc<dyn Channel>,
    conversation: ConversationId,
    limit: TextLimit,
    /// How many messages were read already.
    read: usize,
}

impl CorpusChat {
    async fn start(adapter: ChannelAdapter) -> Self {
        let (platform, address, name, capabilities) = match adapter {
            ChannelAdapter::Telegram => {
                let fake = FakeTelegram::start(TelegramRules::default()).await.expect("a loopback port is free");
                let chat = fake.private_chat(fake.person(4_711, "Anna"));
                let (address, name) = (fake.api_url(), format!("telegram:{chat}"));
                (CorpusPlatform::Telegram(fake, chat), address, name, tables::telegram())
            }
            ChannelAdapter::Discord => {
                let fake = FakeDiscord::start(DiscordRules::unpaced()).await.expect("a loopback port is free");
                fake.person(4_711, "Anna");
                fake.guild(71, "Home", Tier::None);
                let place = fake.channel(71, 100, "general");
                let (address, name) = (fake.api_url(), format!("discord:{place}"));
                (CorpusPlatform::Discord(fake, place), address, name, tables::discord())
            }
        };
        let limit = capabilities.text;
        let capabilities = ChannelCapabilities { rate_limits: None, ..capabilities };
        let (blobs, fetcher) = (Arc::new(FaultyBlobs::default()), HttpFetcher::new(FetchSettings::default()));
        let opened = OpenChannel::new(adapter, &address, capabilities, blobs, Arc::new(fetcher), TIMEOUTS)
            .expect("the settings are good");
        let conversation = name.parse().expect("the name of a conversation");
        Self { platform, channel: opened.channel(), conversation, limit, read: 0 }
    }

    /// Sends a text in as many messages as it needs, and returns what is seen of each.
    async fn post(&mut self, text: &str) -> Vec<MarkedText> {
        for chunk in split(text, &self.limit) {
            let request = PostRequest {
                part_id: PartId(Uuid::now_v7()),
                turn: TurnId(Uuid::from_u128(1)),
                conversation: self.conversation.clone(),
                content: PartContent::from_text(chunk.as_str()),
                reply_to: None,
            };
            let sent = self.channel.post(&request).await;
            assert!(sent.is_ok(), "{sent:?}: {chunk}");
        }
        let messages = self.unread();
        self.read += messages.len();
        messages
    }

    fn unread(&self) -> Vec<MarkedText> {
        match &self.platform {
            CorpusPlatform::Telegram(fake, chat) => {
                let transcript = fake.transcript();
                transcript.visible(*chat).skip(self.read).map(|message| telegram_text(&message.words)).collect()
            }
            CorpusPlatform::Discord(fake, channel) => {
                fake.transcript().visible(*channel).skip(self.read).map(discord_text).collect()
            }
        }
    }
}

fn telegram_text(words: &FormattedText) -> MarkedText {
    assert_eq!(words.dropped_entities, 0, "formatting is dropped: {}", words.text);
    let (mut text, mut units) = (MarkedText::default(), 0);
    for character in words.text.chars() {
        let covers = |entity: &&TextEntity| (entity.offset..entity.offset + entity.length).contains(&units);
        text.push(character, words.entities.iter().filter(covers).map(telegram_mark));
        units += character.len_utf16();
    }
    text
}

fn telegram_mark(entity: &TextEntity) -> TextMark {
    let detail = || entity.detail.clone().unwrap_or_default();
    let mark = match entity.kind.as_str() {
        "bold" => Some(TextMark::Bold),
        "italic" => Some(TextMark::Italic),
        "underline" => Some(TextMark::Underlined),
        "strikethrough" => Some(TextMark::Struck),
        "spoiler" => Some(TextMark::Spoiler),
        "blockquote" | "expandable_blockquote" => Some(TextMark::Quote),
        "code" => Some(TextMark::Code),
        "pre" => Some(TextMark::Pre(detail())),
        "text_link" => Some(TextMark::Link(detail())),
        _ => None,
    };
    mark.expect("a reply has no other entities")
}

fn discord_text(message: &DiscordMessage) -> MarkedText {
    let seen = message.seen();
    let mut text = MarkedText::default();
    for (at, character) in seen.text.char_indices() {
        let covering = seen.marks.iter().filter(|mark| mark.range.contains(&at));
        text.push(character, covering.filter_map(|mark| discord_mark(&mark.kind)));
    }
    text
}

fn discord_mark(kind: &MarkKind) -> Option<TextMark> {
    Some(match kind {
        MarkKind::Bold | MarkKind::Heading(_) => TextMark::Bold,
        MarkKind::Italic => TextMark::Italic,
        MarkKind::Underlined => TextMark::Underlined,
        MarkKind::Struck => TextMark::Struck,
        MarkKind::Spoiler => TextMark::Spoiler,
        MarkKind::Code => TextMark::Code,
        MarkKind::CodeBlock(language) => TextMark::Pre(language.clone()),
        MarkKind::Quote => TextMark::Quote,
        MarkKind::Subtext => TextMark::Small,
        MarkKind::Link(address) => TextMark::Link(address.clone()),
        MarkKind::Mention => return None,
    })
}

/// The notation of a text on a platform. Discord has lists of its own: all their bullets count alike, also before tasks.
fn notation(adapter: ChannelAdapter, canonical: &str) -> String {
    match adapter {
        ChannelAdapter::Telegram => canonical.to_owned(),
        ChannelAdapter::Discord => {
            let bullets = canonical.replace(['◦', '▪'], "•");
            bullets.replace("• ☑", "☑").replace("• ☐", "☐")
        }
    }
}

fn platform_name(adapter: ChannelAdapter) -> &'static str {
    match adapter {
        ChannelAdapter::Telegram => "telegram",
        ChannelAdapter::Discord => "discord",
    }
}

#[tokio::test]
async fn texts_of_models_are_read_as_they_are_meant() {
    for adapter in ADAPTERS {
        let (mut chat, cases) = (CorpusChat::start(adapter).await, chat_corpus());
        assert!(cases.len() >= 200, "{} texts", cases.len());
        let mut complaints = Vec::new();
        for case in &cases {
            let messages = chat.post(&case.text).await;
            let seen: Vec<String> = messages.iter().map(|message| notation(adapter, &message.canonical())).collect();
            let wanted = notation(adapter, &case.visible_on(platform_name(adapter)));
            if seen != [wanted.as_str()] {
                let seen = seen.join("\n-- and\n");
                complaints.push(format!("{}\n{}\n-- wanted\n{wanted}\n-- seen\n{seen}\n", case.name, case.text));
            }
        }
        let count = complaints.len();
        assert!(complaints.is_empty(), "{adapter:?}, {count} of {}:\n{}", cases.len(), complaints.join("\n"));
    }
}

/// Sends a long text, and returns the notation of each message, of which there are several.
async fn post_long(adapter: ChannelAdapter, text: &str) -> Vec<String> {
    let messages = CorpusChat::start(adapter).await.post(text).await;
    assert!(messages.len() > 1, "{adapter:?}: {messages:?}");
    messages.iter().map(|message| notation(adapter, &message.canonical())).collect()
}

/// Words that can be told apart.
fn numbered_words(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("word{number}")).collect()
}

/// Whether a message is one piece with these marks around it; returns what is in it.
fn content<'message>(message: &'message str, opening: &str) -> Option<&'message str> {
    let closing = "⟧".repeat(opening.matches('⟦').count());
    message.strip_prefix(opening)?.strip_suffix(&*closing).filter(|content| !content.contains(['⟦', '⟧']))
}

#[tokio::test]
async fn every_message_of_a_long_passage_keeps_its_marks() {
    let words = numbered_words(1_000);
    let paragraph = words.join(" ");
    let lines = words.chunks(5).map(|line| line.join(" ")).collect::<Vec<_>>().join("\n");
    for adapter in ADAPTERS {
        for (text, opening) in [
            (format!("> {paragraph}"), "⟦quote:"),
            (format!("> {}", lines.replace('\n', "\n> ")), "⟦quote:"),
            (format!(">>> {}", lines.replace('\n', "\n\n")), "⟦quote:"),
            (format!("```rust\n{lines}\n```"), "⟦pre rust:"),
            (format!("~~~~\n{lines}\n~~~~"), "⟦pre:"),
            (format!("||{paragraph}||"), "⟦spoiler:"),
            (format!("**{paragraph}**"), "⟦b:"),
            (format!("***{paragraph}***"), "⟦b:⟦i:"),
            (format!("~~{paragraph}~~"), "⟦s:"),
        ] {
            let messages = post_long(adapter, &text).await;
            let contents: Vec<&str> = messages.iter().filter_map(|message| content(message, opening)).collect();
            assert_eq!(contents.len(), messages.len(), "{adapter:?}, {opening}: {messages:#?}");
            let seen: Vec<&str> = contents.iter().flat_map(|content| content.split_whitespace()).collect();
            assert_eq!(seen, words, "{adapter:?}, {opening}");
        }
    }
}

#[tokio::test]
async fn every_message_of_a_narrow_table_has_columns_and_headings() {
    let row = |number: usize| format!("| row{number} | {} | $5 | a*b |\n", number * 7);
    let text = format!("| Name | Sum | Price | Sign |\n|---|--:|---|---|\n{}", (0..400).map(row).collect::<String>());
    for adapter in ADAPTERS {
        let mut seen = Vec::new();
        for message in post_long(adapter, &text).await {
            let lines: Vec<&str> = content(&message, "⟦pre:").expect("it is one table").lines().collect();
            let cells = |line: &str| line.split('│').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
            assert_eq!(cells(lines[0]), ["Name", "Sum", "Price", "Sign"], "{adapter:?}: {message}");
            assert!(lines[1].chars().all(|rule| rule == '─'), "{adapter:?}: {message}");
            seen.extend(lines[2..].iter().map(|line| cells(line)));
        }
        let wanted = |number: usize| {
            [format!("row{number}"), (number * 7).to_string(), "$5".to_owned(), "a*b".to_owned()].to_vec()
        };
        assert_eq!(seen, (0..400).map(wanted).collect::<Vec<_>>(), "{adapter:?}");
    }
}

#[tokio::test]
async fn every_message_of_a_wide_table_has_records() {
    let words = |number: usize| numbered_words(12).join(&format!("-{number} "));
    let row = |number: usize| format!("| City {number} | Sight {number} | {} |\n", words(number));
    let text = format!("| City | Sight | Why |\n|---|---|---|\n{}", (0..60).map(row).collect::<String>());
    let pair = |number: usize| format!("| Term {number} | {} |\n", words(number));
    let pairs = format!("| Term | Meaning |\n|---|---|\n{}", (0..260).map(pair).collect::<String>());
    for adapter in ADAPTERS {
        let records = post_long(adapter, &text).await;
        let lines: Vec<&str> =
            records.iter().flat_map(|message| message.lines()).filter(|line| !line.is_empty()).collect();
        let wanted = (0..60).flat_map(|number| {
            let first = format!("⟦b:City: City {number}⟧");
            [first, format!("Sight: Sight {number}"), format!("Why: {}", words(number))]
        });
        assert_eq!(lines, wanted.collect::<Vec<_>>(), "{adapter:?}");
        let mut seen = Vec::new();
        for message in post_long(adapter, &pairs).await {
            let (headings, lines) = message.split_once('\n').expect("it has several lines");
            assert_eq!(headings, "⟦i:Term: Meaning⟧", "{adapter:?}: {message}");
            seen.extend(lines.lines().map(str::to_owned));
        }
        let wanted = (0..260).map(|number| format!("Term {number}: {}", words(number)));
        assert_eq!(seen, wanted.collect::<Vec<_>>(), "{adapter:?}");
    }
}

#[tokio::test]
async fn items_of_a_long_list_go_on_counting_in_every_message() {
    let item = |number: usize| format!("1. **Item** word{number}\n- its a_b_c\n");
    let text: String = (1..=300).map(item).collect();
    for adapter in ADAPTERS {
        let messages = post_long(adapter, &text).await;
        let lines: Vec<String> =
            messages.iter().flat_map(|message| message.lines()).map(|line| line.replace('◦', "•")).collect();
        let wanted =
            (1..=300).flat_map(|number| [format!("{number}. ⟦b:Item⟧ word{number}"), "• its a_b_c".to_owned()]);
        assert_eq!(lines, wanted.collect::<Vec<_>>(), "{adapter:?}");
    }
}

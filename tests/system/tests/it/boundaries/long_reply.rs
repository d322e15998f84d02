//! A megabyte as a reply: every chunk is one that the platform takes, and the chunks together are the text.

use std::sync::Arc;

use satchel_domain::{Ending, PartState};
use satchel_local::ScriptedModel;
use satchel_system::crash::ChannelAdapter;

use crate::product::{Product, ProductSetup};

const MEGABYTE: usize = 1_000_000;

fn repeat_paragraph(paragraph: &str) -> String {
    let mut text = String::new();
    let mut number = 0;
    while text.len() < MEGABYTE {
        // Each is another one, so that a repeat or a gap can't hide.
        text.push_str(&paragraph.replace('№', &format!("№{number}")));
        number += 1;
    }
    text.trim_end().to_owned()
}

fn megabyte_texts() -> Vec<(&'static str, String)> {
    let mixed = "№ Съешь же ещё этих мягких французских булок, да выпей чаю. 我能吞下玻璃而不傷身體。いろはにほへと。\n\
                 👩‍👩‍👧‍👦👍🏽🏳️‍🌈🇩🇪 e\u{301}a\u{308}\u{323} **жирный** и _наклонный_ текст, `код`.\n\n";
    let fences = "№ вот код:\n\n````markdown\n```rust\nfn main() { println!(\"привет, 世界 №\"); }\n```\n````\n\n\
                  - пункт\n  ~~~\n  глубже №\n  ~~~\n\n";
    let lines = "№ строка без абзацев, но с концами строк: 改行だけがある 🙂\n";
    let mut one_block = String::from("```text\n");
    one_block.push_str(&repeat_paragraph("№ строка внутри одной большой вставки 中文字 🙂🙂🙂\n"));
    one_block.push_str("\n```");
    vec![
        ("mixed scripts", repeat_paragraph(mixed)),
        ("nested fences", repeat_paragraph(fences)),
        ("lines only", repeat_paragraph(lines)),
        ("one word", "ё漢🙂".repeat(30_000)),
        ("one fence", one_block),
    ]
}

/// The text without what splitting and rendering may add or take: the fences' own lines, white space at the seams, and
/// the bullets of lists. On Discord either mark of italics is as good, and code that holds a fence has marks line by line.
fn strip_layout(adapter: ChannelAdapter, text: &str) -> String {
    let is_discord = adapter == ChannelAdapter::Discord;
    let has_fence_within = |line: &str| is_discord && line.starts_with('`') && line.contains("```");
    let has_fence = |line: &str| line.starts_with("```") || line.starts_with("~~~") || has_fence_within(line);
    let is_fence = |line: &&str| !has_fence(line.trim_start());
    let is_kept = |c: &char| !(c.is_whitespace() || ['-', '•'].contains(c) || is_discord && *c == '`');
    let usual_mark = |c: char| if is_discord && c == '_' { '*' } else { c };
    text.lines().filter(is_fence).flat_map(str::chars).filter(is_kept).map(usual_mark).collect()
}

async fn assert_text_is_complete(adapter: ChannelAdapter) {
    for (name, text) in megabyte_texts() {
        let model = ScriptedModel::from_texts([text.as_str()]);
        let product = Product::start(ProductSetup::for_platform(adapter), Arc::new(model)).await;
        let record = product.send("tell me everything", Vec::new()).await;
        assert_eq!(record.ending, Some(Ending::Done), "{name}");
        let not_sent = record.parts.iter().find(|part| !matches!(part.state, PartState::Sent { .. }));
        assert!(not_sent.is_none(), "{name}: {not_sent:?}");
        let chunks = product.platform.marked_texts(&product.conversation);
        assert!(chunks.len() > 10, "{name}: {} chunks", chunks.len());
        let (expected, joined) = (strip_layout(adapter, &text), strip_layout(adapter, &chunks.join("\n")));
        let differs = expected.chars().zip(joined.chars()).position(|(one, other)| one != other);
        assert!(
            expected == joined,
            "{name}: {} characters became {}; the first that differs is number {differs:?}",
            expected.chars().count(),
            joined.chars().count(),
        );
        for (at, chunk) in chunks.iter().enumerate() {
            let fences = chunk.lines().filter(|line| line.trim_start().starts_with("```")).count();
            assert!(name != "one fence" || fences == 2, "{name}: chunk {at} leaves a fence open: {chunk}");
        }
        product.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn telegram_megabyte_arrives_complete() {
    assert_text_is_complete(ChannelAdapter::Telegram).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn discord_megabyte_arrives_complete() {
    assert_text_is_complete(ChannelAdapter::Discord).await;
}

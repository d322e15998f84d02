//! How long the planner needs for a very long reply with many files.

use std::{
    num::NonZeroU64,
    time::{Duration, Instant},
};

use anyhow::Result;
use satchel_domain::{
    Attachment, AttachmentId, AttachmentSource, ChannelCapabilities, Filename, MediaInfo, OutgoingResponse, Sha256,
    Timestamp, Visibility,
};
use satchel_routing::{plan::plan, tables};
use uuid::Uuid;

use crate::{
    BenchRunner,
    load::conversation,
    statistics::{median, to_ms},
    table::ResultRow,
};

const TEXT_BYTES: usize = 1_000_000;
const FILES: u64 = 100;
const RUNS: usize = 9;

/// What models write, in several scripts: mostly prose, with a list, a quotation and code in between.
const PASSAGE: &str = "## Über die Lieferung\n\nA **bold** start with `code` and [a link](https://example.org/a_b), and \
    then words that go on for a while, as they do in a reply that explains something. Nobody reads a megabyte of it, \
    but whoever asked for a megabyte gets it whole.\n\nСъешь ещё этих мягких французских булок, *да выпей* же чаю. \
    Широкая электрификация южных губерний даст мощный толчок подъёму сельского хозяйства; в чащах юга жил бы цитрус? \
    Да, но фальшивый экземпляр.\n\n敏捷的棕色狐狸跳过了懒狗。天地玄黄，宇宙洪荒。日月盈昃，辰宿列张。寒来暑往，秋收冬藏。\
    いろはにほへと ちりぬるを わかよたれそ つねならむ。 👩‍👩‍👧‍👦🇺🇦👍🏽 e\u{301}\n\nنص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر. \
    ऋषि ने कहा कि सब ठीक है।\n\n- one thing, with a reason\n- another, with `x < y`\n- и третье\n\n> quoted, _and_ \
    more of the same\n\n```rust\nfn main() {\n    println!(\"{}\", \"```\".len());\n}\n```\n\nA last paragraph \
    closes the passage. It has no formatting at all, which is what most paragraphs have, and it is not short either.\n\n";

pub(crate) fn measure(_bench: &BenchRunner) -> Result<Vec<ResultRow>> {
    let mut rows = Vec::new();
    for (channel, capabilities) in [("Telegram", tables::telegram()), ("Discord", tables::discord())] {
        let once = to_ms(measure_plan(&capabilities, TEXT_BYTES));
        let ten_times = to_ms(measure_plan(&capabilities, 10 * TEXT_BYTES));
        rows.push(ResultRow::new(format!("plan: 1 MB and 100 files, {channel}"), once, "ms").with_max(10.0));
        rows.push(
            ResultRow::new(format!("plan: 10 MB and 100 files, {channel}"), ten_times, "ms")
                .with_limit(once)
                .with_max_ratio(13.0)
                .with_note("limit: a tenth of the text"),
        );
    }
    Ok(rows)
}

fn measure_plan(capabilities: &ChannelCapabilities, bytes: usize) -> Duration {
    let response = OutgoingResponse {
        text: Some(PASSAGE.repeat(bytes.div_ceil(PASSAGE.len()))),
        voice: None,
        attachments: (1..=FILES).map(attachment).collect(),
    };
    let runs = (0..RUNS).map(|_| {
        let started_at = Instant::now();
        std::hint::black_box(plan(&response, capabilities));
        started_at.elapsed()
    });
    median(&runs.collect::<Vec<_>>())
}

fn attachment(number: u64) -> Attachment {
    let (extension, mime) =
        [("jpg", "image/jpeg"), ("pdf", "application/pdf"), ("mp4", "video/mp4")][(number / 5 % 3) as usize];
    let is_image = extension == "jpg";
    Attachment {
        id: AttachmentId(Uuid::from_u128(number.into())),
        number: NonZeroU64::MIN.saturating_add(number - 1),
        conversation: conversation(0),
        source: AttachmentSource::Tool,
        filename: Filename::from_untrusted(&format!("file {number}.{extension}")),
        mime: mime.to_owned(),
        bytes: 1_000_000,
        sha256: Sha256([7; 32]),
        media: MediaInfo { width: is_image.then_some(1280), height: is_image.then_some(960), ..MediaInfo::default() },
        description: "What it shows, in a few words.".to_owned(),
        created_at: Timestamp(0),
        visibility: Visibility::Deliver,
        link_revocation: None,
    }
}

//! Files that end, stall or fill a decoder: each costs at most its worker, and gets a line that explains it.

mod documents;
mod images;

use std::time::Duration;

use satchel_decoders::{DecoderSettings, DecoderWorkers};
use satchel_ports::{DocumentReader, ImageScaler};
use tokio_util::sync::CancellationToken;

use crate::{
    fixtures::pdf_with_pages,
    harness::{document_request, image_request, settings, text_or_error, workers},
};

/// The limits under which a file is decoded.
#[derive(Clone, Copy)]
enum Limits {
    Usual,
    ThreeSeconds,
    QuarterGigabyte,
}

const PDF: &str = "application/pdf";
const ZIP: &str = "application/zip";
const IMAGE: &str = "image/png";

/// Its name, how it is made, its type, the limits, and what is said of it or read from it.
type HostileFile = (&'static str, fn() -> Vec<u8>, &'static str, Limits, &'static str);

const HOSTILE_FILES: [HostileFile; 33] = [
    ("nested forms", documents::nested_forms, PDF, Limits::ThreeSeconds, "reading it took longer than 3 s"),
    ("flate bomb", documents::flate_bomb, PDF, Limits::QuarterGigabyte, "reading it takes more memory than 268 MB"),
    ("garbled offsets", documents::garbled_offsets, PDF, Limits::Usual, "found"),
    ("pages within themselves", documents::pages_within_themselves, PDF, Limits::Usual, ""),
    ("length within itself", documents::length_within_itself, PDF, Limits::Usual, "page"),
    ("a page a million times", documents::page_million_times, PDF, Limits::Usual, "page"),
    ("a million pages", documents::million_pages, PDF, Limits::Usual, "reading it takes more memory than 536 MB"),
    ("cut PDF", documents::cut_pdf, PDF, Limits::Usual, "first|"),
    (
        "noise as PDF",
        documents::noise_behind_pdf_magic,
        PDF,
        Limits::Usual,
        "it is damaged: it has no pages that can be found",
    ),
    ("DOCX bomb", documents::word_bomb, ZIP, Limits::Usual, "it decompresses to more than 64 MB"),
    (
        "nested elements",
        documents::nested_elements,
        ZIP,
        Limits::Usual,
        "its elements are nested deeper than 4096 levels",
    ),
    ("billion laughs", documents::billion_laughs, ZIP, Limits::Usual, "haha"),
    ("entity of a file", documents::entity_of_a_file, ZIP, Limits::Usual, "seen:"),
    (
        "60 000 entries",
        documents::many_entries,
        ZIP,
        Limits::Usual,
        "it is an archive of 60000 entries; at most 20000 are read",
    ),
    (
        "one entry too many",
        documents::one_entry_too_many,
        ZIP,
        Limits::Usual,
        "it is an archive of 20001 entries; at most 20000 are read",
    ),
    ("cut DOCX", documents::cut_word, ZIP, Limits::Usual, "it is damaged: invalid Zip archive: Could not find EOCD"),
    ("distant cell", documents::distant_cell, ZIP, Limits::Usual, "Sheet: First\n7"),
    (
        "claimed texts",
        documents::claimed_texts,
        ZIP,
        Limits::Usual,
        "it claims 4294967295 distinct texts; at most 2000000 are read",
    ),
    ("wide and nested HTML", documents::wide_and_nested_html, "text/html", Limits::Usual, "wide"),
    (
        "nested messages",
        documents::nested_messages,
        "message/rfc822",
        Limits::Usual,
        "it holds 100000 messages within messages; at most 50 are read",
    ),
    (
        "nested groups",
        documents::nested_groups,
        "application/rtf",
        Limits::Usual,
        "it is damaged: [RTF Parser] : Invalid last token : OpeningBracket not a '}'",
    ),
    (
        "trillion pixels",
        images::trillion_pixels,
        IMAGE,
        Limits::Usual,
        "it has 1000000 × 1000000 pixels; at most 100 megapixels are decoded",
    ),
    (
        "claimed GIF",
        images::claimed_gif,
        IMAGE,
        Limits::Usual,
        "it has 65535 × 65535 pixels; at most 100 megapixels are decoded",
    ),
    ("tiled planar TIFF", images::tiled_planar_tiff, IMAGE, Limits::Usual, "16 × 16"),
    ("compressed text bomb", images::compressed_text_bomb, IMAGE, Limits::Usual, "9 × 9"),
    ("colour profile bomb", images::color_profile_bomb, IMAGE, Limits::Usual, "9 × 9"),
    (
        "noise as JPEG",
        images::noise_behind_jpeg_magic,
        IMAGE,
        Limits::Usual,
        "it is damaged: Format error decoding Jpeg: I/O errors Not enough bytes, expected 1 but found 0 ",
    ),
    ("cut PNG", images::cut_png, IMAGE, Limits::Usual, "it is damaged: unexpected end of file"),
    (
        "claimed HEIC",
        images::claimed_heic,
        IMAGE,
        Limits::Usual,
        "it has 1000000 × 1000000 pixels; at most 100 megapixels are decoded",
    ),
    (
        "hidden size in HEIC",
        images::hidden_size_heic,
        IMAGE,
        Limits::Usual,
        "decoding it takes more memory than allowed",
    ),
    (
        "images within themselves",
        images::images_within_themselves,
        IMAGE,
        Limits::Usual,
        "it is damaged: its images are made of each other",
    ),
    ("cut HEIC", images::cut_heic, IMAGE, Limits::Usual, "it is damaged: container: unexpected end of data"),
    (
        "noise in HEIC",
        images::noise_in_heic,
        IMAGE,
        Limits::Usual,
        "it is damaged: HEVC: invalid bitstream: slice extends past the end of the picture",
    ),
];

/// Settings under which only one file is decoded at a time: a worker that lived on would block the next one.
fn settings_for(limits: Limits) -> DecoderSettings {
    let usual = DecoderSettings { max_concurrent: 1, ..settings() };
    match limits {
        Limits::Usual => usual,
        Limits::ThreeSeconds => DecoderSettings { time_limit: Duration::from_secs(3), ..usual },
        Limits::QuarterGigabyte => DecoderSettings { memory_bytes: 256 << 20, ..usual },
    }
}

/// What becomes of the first file: its text, the size of the scaled image, or the line that explains it.
async fn outcome_of(workers: &DecoderWorkers, bytes: usize, mime: &str) -> String {
    let cancel = CancellationToken::new();
    if mime != IMAGE {
        let text = text_or_error(workers.read_text(&document_request(0, bytes, mime), &cancel).await);
        // A distant cell is behind many tabs.
        return text.replace('\t', "");
    }
    match workers.scale(&image_request(0, bytes), &cancel).await {
        Ok(image) => format!("{} × {}", image.width, image.height),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn hostile_file_costs_one_worker() {
    let good = pdf_with_pages(&["BT /F1 12 Tf (next) Tj ET"]);
    let mut complaints = Vec::new();
    for (name, make, mime, limits, expected) in HOSTILE_FILES {
        let (content, next) = (make(), document_request(1, good.len(), PDF));
        let (bytes, workers) = (content.len(), workers(settings_for(limits), vec![content, good.clone()]));
        let outcome = outcome_of(&workers, bytes, mime).await;
        let after = text_or_error(workers.read_text(&next, &CancellationToken::new()).await);
        if outcome != expected || after != "next" {
            complaints.push(format!("{name}: {outcome:?}, and then {after:?}"));
        }
    }
    assert!(complaints.is_empty(), "{complaints:#?}");
}

//! What reading a document costs: a worker that decodes it, and the text that is kept.

use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures::stream;
use satchel_decoders::{CachedDocumentReader, DecoderSettings, DecoderWorkers, TextCache};
use satchel_files::MemoryBlobs;
use satchel_ports::{BlobHint, Blobs, DocumentReader, DocumentRequest};
use tokio_util::sync::CancellationToken;

use crate::{
    BenchRunner,
    statistics::{median, to_ms},
    table::ResultRow,
};

const PAGES: usize = 40;
const LINES_PER_PAGE: usize = 50;
const RUNS: usize = 9;

pub(crate) fn measure(bench: &BenchRunner) -> Result<Vec<ResultRow>> {
    let directory = bench.directory()?;
    let worker = bench.satchel.with_file_name("satchel-decoder");
    ensure!(worker.is_file(), "`{}` is missing; `cargo xtask worker --release` builds it", worker.display());
    let (decoded, kept) = bench.runtime.block_on(measure_reading(&worker, directory.path()))?;
    Ok(vec![
        ResultRow::new("documents: 40-page PDF decoded in a new worker", to_ms(decoded), "ms").with_max(1_000.0),
        ResultRow::new("documents: 40-page PDF whose text is kept", to_ms(kept), "ms"),
    ])
}

/// The median time of reading the whole document, decoded each time and kept.
async fn measure_reading(worker: &Path, directory: &Path) -> Result<(Duration, Duration)> {
    let content = Bytes::from(pdf());
    let blobs: Arc<dyn Blobs> = Arc::new(MemoryBlobs::default());
    let hint = BlobHint::default();
    let chunks = Box::pin(stream::iter([Ok(content.clone())]));
    let stored = blobs.put(chunks, &hint, content.len() as u64).await.context("the document can't be stored")?;
    let request = DocumentRequest {
        sha256: stored.sha256,
        bytes: stored.bytes,
        mime: stored.mime,
        first_page: 1,
        last_page: None,
        offset: 0,
        max_text_bytes: 1 << 20,
        work_share: None,
    };
    let workers: Arc<dyn DocumentReader> =
        Arc::new(DecoderWorkers::new(DecoderSettings::new(worker.to_owned()), Arc::clone(&blobs)));
    let texts = TextCache::new(directory.join("texts"), 1 << 20);
    let cached = CachedDocumentReader::new(Arc::clone(&workers), blobs, texts, 200);
    let decoded = median_reading(&*workers, &request).await?;
    // The first run, which decodes it, doesn't weigh on the median.
    let kept = median_reading(&cached, &request).await?;
    ensure!(fs::read_dir(directory.join("texts"))?.count() == 1, "the text is not kept");
    Ok((decoded, kept))
}

async fn median_reading(reader: &dyn DocumentReader, request: &DocumentRequest) -> Result<Duration> {
    let mut times = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let started_at = Instant::now();
        let text = reader.read_text(request, &CancellationToken::new()).await?;
        times.push(started_at.elapsed());
        ensure!(text.pages.len() == PAGES, "{} pages were read", text.pages.len());
    }
    Ok(median(&times))
}

/// A PDF of pages that are full of text.
fn pdf() -> Vec<u8> {
    let line = "(The quick brown fox jumps over the lazy dog, and the text of this line goes on to the margin.) Tj T*";
    let page = format!("BT /F1 10 Tf 14 TL 50 780 Td {} ET", format!("{line} ").repeat(LINES_PER_PAGE));
    let kids: String = (0..PAGES).map(|index| format!("{} 0 R ", 4 + 2 * index)).collect();
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        format!("<< /Type /Pages /Count {PAGES} /Kids [{kids}] >>"),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_owned(),
    ];
    for index in 0..PAGES {
        let resources = "/MediaBox [0 0 595 842] /Resources << /Font << /F1 3 0 R >> >>";
        objects.push(format!("<< /Type /Page /Parent 2 0 R {resources} /Contents {} 0 R >>", 5 + 2 * index));
        objects.push(format!("<< /Length {} >>\nstream\n{page}\nendstream", page.len()));
    }
    let mut bytes = b"%PDF-1.7\n".to_vec();
    for (index, object) in objects.iter().enumerate() {
        bytes.extend(format!("{} 0 obj\n{object}\nendobj\n", index + 1).bytes());
    }
    // Readers find the objects without a table of their places.
    bytes.extend(b"trailer\n<< /Root 1 0 R >>\n%%EOF\n");
    bytes
}

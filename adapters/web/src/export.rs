//! A conversation as one archive to take away: its words as Markdown, and its files.

mod transcript;

use std::{
    collections::BTreeMap,
    io::{self, Write},
    sync::Arc,
};

use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt, stream};
use jiff::{Timestamp as Moment, tz::TimeZone};
use satchel_domain::{ConversationId, TurnId};
use satchel_ports::{
    Archive, Blobs,
    ledger::{LedgerError, TurnQuery},
};
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, mpsc},
};
use zip::{ZipWriter, write::SimpleFileOptions};

use self::transcript::ExportedFile;
use crate::{url_signer::UrlSigner, view, wire};

/// How many turns are read at once.
const TURNS_PER_QUERY: u32 = 100;

/// The size of the pieces in which an archive is sent.
const CHUNK_BYTES: usize = 64 * 1024;

/// How many pieces may wait for a slow reader.
const WAITING_CHUNKS: usize = 4;

/// What of a conversation goes into its archive.
pub(crate) struct Export {
    title: String,
    exported_at: Moment,
    zone: TimeZone,
    /// The text of each query, the newest turns first.
    pages: Vec<String>,
    files: BTreeMap<String, ExportedFile>,
}

impl Export {
    /// Reads the whole conversation, and what files its turns name. The text is kept until it is written: a conversation of
    /// ten thousand turns is a few megabytes.
    ///
    /// # Errors
    /// When the ledger fails.
    pub(crate) async fn read(
        archive: &dyn Archive,
        urls: &UrlSigner,
        conversation: ConversationId,
        title: String,
        exported_at: Moment,
    ) -> Result<Self, LedgerError> {
        let mut export =
            Self { title, exported_at, zone: TimeZone::system(), pages: Vec::new(), files: BTreeMap::new() };
        let mut before: Option<TurnId> = None;
        loop {
            let query = TurnQuery { conversation: conversation.clone(), before, limit: TURNS_PER_QUERY };
            let records = archive.turns(&query).await?;
            let Some(oldest) = records.first() else { return Ok(export) };
            before = Some(oldest.id);
            export.add(&view::to_wire_turns(&records, urls));
        }
    }

    fn add(&mut self, turns: &[wire::Turn]) {
        let texts = turns.iter().map(|turn| transcript::write_turn(turn, &self.zone));
        self.pages.push(texts.collect());
        let files = turns.iter().flat_map(transcript::exported_files);
        self.files.extend(files.map(|file| (file.path.clone(), file)));
    }

    /// Writes the archive as it is read. What of a file can't be read is said in the text. Any other failure ends the stream
    /// with an error, so that nobody takes what came so far for the whole.
    /// The permit is returned with the end of the writing.
    pub(crate) fn into_stream(
        self,
        blobs: Arc<dyn Blobs>,
        permit: OwnedSemaphorePermit,
    ) -> impl Stream<Item = io::Result<Bytes>> + Send {
        let (sender, receiver) = mpsc::channel(WAITING_CHUNKS);
        let (runtime, chunks) = (Handle::current(), ChunkWriter { sender: sender.clone(), buffer: BytesMut::new() });
        let writing = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            self.write(chunks, &*blobs, &runtime)
        });
        tokio::spawn(async move {
            if let Err(error) = writing.await.map_err(io::Error::other).flatten() {
                tracing::warn!(error = &error as &dyn std::error::Error, "the export of a conversation broke off");
                // The reader may have gone away.
                let _sent = sender.send(Err(error)).await;
            }
        });
        stream::unfold(receiver, async |mut receiver| receiver.recv().await.map(|chunk| (chunk, receiver)))
    }

    /// Writes the files first: what of them can't be read is said in the text.
    fn write(self, chunks: ChunkWriter, blobs: &dyn Blobs, runtime: &Handle) -> io::Result<()> {
        let mut archive = ZipWriter::new_stream(chunks);
        let mut unreadable = Vec::new();
        for file in self.files.into_values() {
            let reading = runtime.block_on(blobs.open(&file.sha256, None));
            let mut content = match reading {
                Ok(content) => content,
                Err(error) => {
                    unreadable.push((file.path, error.to_string()));
                    continue;
                }
            };
            archive.start_file(&file.path, entry_options(self.exported_at, &self.zone, file.bytes))?;
            while let Some(piece) = runtime.block_on(content.next()) {
                match piece {
                    Ok(piece) => archive.write_all(&piece)?,
                    // What was read of it is in the archive; the text says that it isn't whole.
                    Err(error) => {
                        unreadable.push((file.path, error.to_string()));
                        break;
                    }
                }
            }
        }
        let text_bytes = self.pages.iter().map(|page| page.len() as u64).sum();
        archive.start_file("conversation.md", entry_options(self.exported_at, &self.zone, text_bytes))?;
        archive.write_all(transcript::heading(&self.title, self.exported_at, &self.zone).as_bytes())?;
        for page in self.pages.iter().rev() {
            archive.write_all(page.as_bytes())?;
        }
        archive.write_all(transcript::unreadable_files(&unreadable).as_bytes())?;
        let mut chunks = archive.finish()?.into_inner();
        chunks.send()
    }
}

/// Files are stored as they are: most are compressed already.
fn entry_options(modified: Moment, zone: &TimeZone, bytes: u64) -> SimpleFileOptions {
    let local = modified.to_zoned(zone.clone()).datetime();
    let part = |number: i8| u8::try_from(number).unwrap_or_default();
    let year = u16::try_from(local.year()).unwrap_or_default();
    let (month, day) = (part(local.month()), part(local.day()));
    let (hour, minute, second) = (part(local.hour()), part(local.minute()), part(local.second()));
    let modified = zip::DateTime::from_date_and_time(year, month, day, hour, minute, second).unwrap_or_default();
    SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Stored)
        .last_modified_time(modified)
        .large_file(bytes >= u64::from(u32::MAX))
}

/// Hands what is written on in pieces, and waits for whoever reads them.
struct ChunkWriter {
    sender: mpsc::Sender<io::Result<Bytes>>,
    buffer: BytesMut,
}

impl ChunkWriter {
    fn send(&mut self) -> io::Result<()> {
        let chunk = self.buffer.split().freeze();
        self.sender.blocking_send(Ok(chunk)).map_err(|_| io::Error::other("nobody reads it any more"))
    }
}

impl Write for ChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK_BYTES {
            self.send()?;
        }
        Ok(bytes.len())
    }

    /// The archive asks for it behind every entry; the pieces stay large.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

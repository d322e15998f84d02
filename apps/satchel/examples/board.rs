//! Another front end on the same core: a notice board. Texts are printed, files are hung into a directory.
//!
//! `cargo run --example board -- DIRECTORY` lets Ada hang a plan there and take it back. The guide (`docs/guide/embedding.md`)
//! tells of it part by part.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use async_trait::async_trait;
use futures::TryStreamExt;
use satchel::build::{Behaviour, Ports, Satchel, build};
use satchel_domain::{
    Attachment, ChannelCapabilities, ChannelName, ConversationId, FileReference, Filename, InboundMessage, MessageRef,
    PartContent, Sender, delivery::SendError,
};
use satchel_files::{DirectoryBlobs, DirectoryWorkspace};
use satchel_http::{FetchSettings, HttpFetcher};
use satchel_intake::access::{Access, ChannelAccess};
use satchel_ledger::SqliteLedger;
use satchel_local::{LocalBus, OfflineModel};
use satchel_ports::{Blobs, Channel, FetchedFile, FileFetchError, Ledger, SendRequest, ledger::OutboxQuery};
use tokio::io::AsyncWriteExt;
use tokio_util::{io::ReaderStream, sync::CancellationToken};

// the way out
struct Board {
    blobs: Arc<dyn Blobs>,
    directory: PathBuf,
}

#[async_trait]
impl Channel for Board {
    fn name(&self) -> ChannelName {
        ChannelName::new("board").expect("lower-case letters")
    }

    fn capabilities(&self, _: &ConversationId) -> ChannelCapabilities {
        // Begin with the table that comes nearest and change what differs.
        ChannelCapabilities { file_bytes: 100_000_000, ..satchel_routing::tables::console() }
    }

    async fn send(&self, part: &SendRequest) -> Result<Vec<MessageRef>, SendError> {
        if let PartContent::Text { text, .. } | PartContent::Notice { text } = &part.content {
            println!("{}: {text}", part.conversation);
        }
        for item in part.content.files() {
            // With the number before it a long name is too long for a disk, so it is made one name and cut.
            let name = Filename::from_untrusted(&format!("{}-{}", item.attachment.number, item.attachment.filename));
            let path = self.directory.join(name.as_str());
            let hung = self.hang(&item.attachment, &path).await;
            hung.map_err(|error| SendError::Unreadable { reason: error.to_string() })?;
        }
        Ok(vec![MessageRef(part.part.to_string())])
    }

    async fn fetch(&self, reference: &FileReference) -> Result<FetchedFile, FileFetchError> {
        let file = tokio::fs::File::open(&reference.locator).await;
        let file = file.map_err(|error| FileFetchError::Permanent { reason: error.to_string() })?;
        Ok(FetchedFile::Bytes { bytes: reference.bytes, content: Box::pin(ReaderStream::new(file)) })
    }
}

impl Board {
    async fn hang(&self, file: &Attachment, to: &Path) -> anyhow::Result<()> {
        let mut content = self.blobs.open(&file.sha256, None).await?; // verified against its digest on the way
        let mut copy = tokio::fs::File::create(to).await?;
        while let Some(piece) = content.try_next().await? {
            copy.write_all(&piece).await?;
        }
        Ok(copy.sync_all().await?)
    }
}

// the way in
#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let directory = PathBuf::from(std::env::args().nth(1).context("say where the board is")?);
    let data = directory.join("data");
    tokio::fs::create_dir_all(&data).await?;
    let ledger: Arc<dyn Ledger> = Arc::new(SqliteLedger::open(&data, Default::default()).await?);
    let blobs: Arc<dyn Blobs> = Arc::new(DirectoryBlobs::open(&data.join("blobs"))?);
    let ports = Ports {
        ledger: Arc::clone(&ledger),
        blobs: Arc::clone(&blobs),
        workspace: Arc::new(DirectoryWorkspace::open(&data.join("workspaces"), None, 2 << 30)?),
        bus: Arc::new(LocalBus::new()),
        fetcher: Arc::new(HttpFetcher::new(FetchSettings::default())),
        model: Arc::new(OfflineModel { piece_delay: Duration::ZERO }),
        speech: None,
        scripts: None,
        links: None,
        channels: vec![Arc::new(Board { blobs, directory: directory.clone() })],
        tools: Vec::new(), // your own tools, each with the arguments that hold paths
    };
    // Ada owns it, by her id on your platform. Anyone else needs a code that she approves with `/pair`.
    let rules = ChannelAccess { owners: vec!["7".to_owned()], ..ChannelAccess::default() };
    let access = Access::of([(ChannelName::new("board")?, rules)]);
    let Satchel { inbound, lanes, .. } = build(ports, Behaviour { access, ..Behaviour::default() })?;
    let stop = CancellationToken::new();
    let working = tokio::spawn(lanes.run(stop.clone()));

    let plan = directory.join("plan.txt");
    tokio::fs::write(&plan, "to the mountains\n").await?;
    let locator = plan.display().to_string(); // what your `fetch` understands; never shown or logged
    let key = "4711".to_owned(); // your platform's id of the message: a repeat is the same message
    let message = InboundMessage {
        text: "save this as plan.txt and send it back".to_owned(),
        files: vec![FileReference::new(locator, Filename::from_untrusted("plan.txt"))],
        ..InboundMessage::new("board:hall".parse()?, key, Sender::new("7", "Ada"))
    };
    // Durable once it returns; only then tell your platform that you have it.
    let turn = inbound.accept(message).await?.context("Ada may talk")?;

    let unsettled = OutboxQuery { unsettled_only: true, ..OutboxQuery::default() };
    while ledger.turn(turn).await?.is_none_or(|turn| turn.ending.is_none())
        || !ledger.outbox(&unsettled).await?.is_empty()
    {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stop.cancel(); // the part in flight is finished, the rest stays in the ledger
    Ok(working.await?)
}

//! Builds the board and sends one message from Ada.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::Context;
use satchel::embed::{
    AccessPolicy, ChannelAccess, ExtraTool, OfflineModel, Ports, Satchel, SatchelOptions, build,
    domain::{ChannelName, FileReference, Filename, InboundMessage, Sender},
    ports::ledger::OutboxQuery,
};
use tokio_util::sync::CancellationToken;

use super::{board::Board, dice::Dice};

pub(crate) async fn run(directory: &Path) -> anyhow::Result<()> {
    let ports = Ports::local(&directory.join("data"), Arc::new(OfflineModel::default())).await?;
    let (archive, blobs) = (Arc::clone(&ports.ledger.archive), Arc::clone(&ports.blobs));
    let board = Board { directory: directory.join("messages"), blobs: Arc::clone(&blobs) };
    let dice = Dice { blobs };
    let ports = ports.channel(Arc::new(board)).tool(ExtraTool::without_paths(Arc::new(dice)));
    // Ada owns this Satchel, by her id on the board. Anyone else needs a code that she approves with `/pair`.
    let rules = ChannelAccess { owners: vec!["7".to_owned()], ..ChannelAccess::default() };
    let access = AccessPolicy::new([(ChannelName::new("board")?, rules)]);
    // Where messages of the board may refer to files; see "Files in messages".
    let download_hosts = vec!["files.example.org".to_owned()];
    let options = SatchelOptions { access, download_hosts, ..SatchelOptions::default() };
    let Satchel { inbound, runner, .. } = build(ports, options)?;
    let stop = CancellationToken::new();
    let runner_task = tokio::spawn(runner.run(stop.clone()));

    let plan = directory.join("plan.txt");
    tokio::fs::write(&plan, "to the mountains\n").await?;
    let locator = plan.display().to_string(); // what `fetch` understands; never shown or logged
    let key = "4711".to_owned(); // the board's id of the message: on this channel, a second one with it is dropped
    let message = InboundMessage {
        text: "save this as plan.txt and send it back".to_owned(),
        files: vec![FileReference::new(locator, Filename::from_untrusted("plan.txt"))],
        ..InboundMessage::new("board:hall".parse()?, key, Sender::new("7", "Ada"))
    };
    // The message is durable once this returns. Acknowledge it to your platform only then.
    let turn = inbound.accept(message).await?.context("Ada may talk")?;

    // A front end that serves people waits for its own shutdown instead.
    let unsettled = OutboxQuery { unsettled_only: true, ..OutboxQuery::default() };
    while archive.turn(turn).await?.is_none_or(|turn| turn.ending.is_none())
        || !archive.parts(&unsettled).await?.is_empty()
    {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stop.cancel(); // the part in flight is finished, the rest stays in the ledger
    Ok(runner_task.await?)
}

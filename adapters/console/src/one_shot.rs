//! Sends one message and waits for its turn: `satchel chat --once`.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use futures::{Stream, StreamExt, stream};
use satchel_domain::{FileReference, Filename, TurnId};
use satchel_ports::{Archive, BusEvent, event_bus::EventStream, ledger::TurnRecord};

use crate::{ConsoleClient, ConsoleError, attachments};

/// How long the bus may be silent before the ledger is polled.
const QUIET_INTERVAL: Duration = Duration::from_secs(1);

/// How soon a conversation on which another process works is tried again.
const BUSY_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Sends one message with files and waits until its turn is complete and every part of the reply is settled.
///
/// While another process works on the conversation, the message waits here: behind that process's turn it would become
/// part of it. An interrupt then ends the wait, and nothing was sent.
///
/// Files that can't be opened are submitted anyway: the fetch step refuses them, and the record lists them. The first
/// interrupt stops the turn and waits for its partial reply; the second one ends the wait. If the screen is closed, the
/// current record is returned.
///
/// # Errors
/// When the message isn't accepted, the ledger can't be read, or the process is stopping or was interrupted twice.
pub async fn run_once(
    client: &ConsoleClient,
    text: &str,
    files: &[PathBuf],
    interrupts: impl Stream<Item = ()> + Send,
) -> Result<TurnRecord, ConsoleError> {
    let events = client.bus.subscribe().await.map_err(ConsoleError::Bus)?;
    let mut interrupts = std::pin::pin!(interrupts.chain(stream::pending()));
    let files = files.iter().map(|file| file_reference_or_lossy(file)).collect();
    let turn = submit_when_free(client, text, files, &mut interrupts).await?;
    let mut is_stopping = false;
    let mut completion = std::pin::pin!(wait_until_settled(client, turn, events));
    loop {
        tokio::select! {
            record = &mut completion => return record,
            () = client.shutdown.cancelled() => return Err(ConsoleError::Stopped),
            Some(()) = interrupts.next() => {
                if std::mem::replace(&mut is_stopping, true) {
                    return Err(ConsoleError::Stopped);
                }
                client.submit("/stop", Vec::new()).await?;
            }
        }
    }
}

/// Submits a message once no other process works on the conversation.
async fn submit_when_free(
    client: &ConsoleClient,
    text: &str,
    files: Vec<FileReference>,
    mut interrupts: impl Stream<Item = ()> + Unpin,
) -> Result<TurnId, ConsoleError> {
    loop {
        match client.submit(text, files.clone()).await {
            Err(ConsoleError::Busy) => {}
            submitted => {
                client.screen.set_status_line(None);
                return submitted;
            }
        }
        client.screen.set_status_line(Some("waiting for another process that works on this conversation"));
        tokio::select! {
            () = tokio::time::sleep(BUSY_RETRY_INTERVAL) => {}
            () = client.shutdown.cancelled() => return Err(ConsoleError::Busy),
            Some(()) = interrupts.next() => return Err(ConsoleError::Busy),
        }
    }
}

/// Waits until a turn and its parts are settled. The ledger is the truth; events only save waiting.
pub(crate) async fn wait_until_settled(
    client: &ConsoleClient,
    turn: TurnId,
    events: EventStream,
) -> Result<TurnRecord, ConsoleError> {
    let is_own_event = |event: &BusEvent| match event {
        BusEvent::TurnCompleted { turn: of, .. } | BusEvent::DeliveryPart { turn: of, .. } => *of == turn,
        _ => false,
    };
    let mut turn_events = events.filter(move |event| std::future::ready(is_own_event(event))).chain(stream::pending());
    loop {
        let record = read_turn(&*client.archive, turn).await?;
        let is_settled = record.parts.iter().all(|part| part.state.is_settled());
        let is_finished = record.ending.is_some() && (is_settled || client.screen.is_closed());
        if is_finished {
            return Ok(record);
        }
        // A lost event only delays this.
        let _ = tokio::time::timeout(QUIET_INTERVAL, turn_events.next()).await;
    }
}

async fn read_turn(archive: &dyn Archive, turn: TurnId) -> Result<TurnRecord, ConsoleError> {
    let record = archive.turn(turn).await.map_err(ConsoleError::Ledger)?;
    record.ok_or_else(|| ConsoleError::Ledger(satchel_ports::LedgerError::Unknown { item: format!("turn {turn}") }))
}

fn file_reference_or_lossy(path: &Path) -> FileReference {
    // A path that isn't UTF-8 can't be opened through its lossy form; the fetch step refuses it with its name.
    attachments::file_reference(path).unwrap_or_else(|| {
        FileReference::new(path.to_string_lossy().into_owned(), Filename::from_untrusted(&path.to_string_lossy()))
    })
}

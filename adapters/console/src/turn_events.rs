//! Shows a running turn: its streamed text and its tool calls.

use std::sync::Arc;

use futures::StreamExt;
use satchel_domain::TurnId;
use satchel_ports::BusEvent;
use tokio::task::JoinHandle;

use crate::{ConsoleClient, ConsoleError, Screen};

/// The maximum number of queued events that are drawn together.
const MAX_EVENT_BATCH: usize = 256;

/// Shows the events of the client's conversation on its screen until the shutdown. Every event published after this
/// returns is shown; without a terminal none is.
///
/// # Errors
/// When the bus can't be subscribed to.
pub async fn follow_events(client: &ConsoleClient) -> Result<JoinHandle<()>, ConsoleError> {
    if !client.screen.style().terminal {
        return Ok(tokio::spawn(async {}));
    }
    let events = client.bus.subscribe().await.map_err(ConsoleError::Bus)?;
    let conversation = client.conversation.clone();
    let is_own_event = move |event: &BusEvent| std::future::ready(*event.conversation() == conversation);
    let mut events = events.filter(is_own_event).ready_chunks(MAX_EVENT_BATCH);
    let (screen, shutdown) = (Arc::clone(&client.screen), client.shutdown.clone());
    Ok(tokio::spawn(async move {
        while let Some(Some(events)) = shutdown.run_until_cancelled(events.next()).await {
            let screen = Arc::clone(&screen);
            // A user can stop a terminal, which must not block the runtime.
            if tokio::task::spawn_blocking(move || show_events(&screen, events)).await.is_err() {
                break;
            }
        }
    }))
}

fn show_events(screen: &Screen, events: Vec<BusEvent>) {
    let mut pending: Option<(TurnId, u32, String)> = None;
    for event in events {
        if let BusEvent::TextDelta { turn, message, text, .. } = event {
            match &mut pending {
                Some((pending_turn, pending_message, pending_text))
                    if *pending_turn == turn && *pending_message == message =>
                {
                    pending_text.push_str(&text)
                }
                _ => show_delta(screen, pending.replace((turn, message, text))),
            }
            continue;
        }
        show_delta(screen, pending.take());
        match event {
            BusEvent::TaskStarted { task, number, total, .. } => screen.on_task_started(&task, number, total),
            BusEvent::ToolStarted { tool, .. } => screen.on_tool_started(&tool),
            BusEvent::ToolFinished { tool, failed, .. } => screen.on_tool_finished(&tool, failed),
            _ => {}
        }
    }
    show_delta(screen, pending);
}

fn show_delta(screen: &Screen, pending: Option<(TurnId, u32, String)>) {
    if let Some((turn, message, deltas)) = pending {
        screen.push_delta(turn, message, &deltas);
    }
}

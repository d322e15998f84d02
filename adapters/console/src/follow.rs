//! Shows what happens while a turn runs: the text as it grows, and the tools.

use std::sync::Arc;

use futures::StreamExt;
use satchel_domain::TurnId;
use satchel_ports::BusEvent;
use tokio::task::JoinHandle;

use crate::{ConsoleClient, ConsoleError, Screen};

/// How many events that have gathered are drawn as one.
const MAX_EVENT_BATCH: usize = 256;

/// Follows the client's conversation on its screen until the shutdown. Whatever is published after this has returned
/// is seen; off a terminal there is nothing to show.
///
/// # Errors
/// When the bus can't be listened to.
pub async fn follow_events(client: &ConsoleClient) -> Result<JoinHandle<()>, ConsoleError> {
    if !client.screen.style().terminal {
        return Ok(tokio::spawn(async {}));
    }
    let events = client.bus.subscribe().await.map_err(ConsoleError::Bus)?;
    let conversation = client.conversation.clone();
    let of_mine = move |event: &BusEvent| std::future::ready(*event.conversation() == conversation);
    let mut events = events.filter(of_mine).ready_chunks(MAX_EVENT_BATCH);
    let (screen, shutdown) = (Arc::clone(&client.screen), client.shutdown.clone());
    Ok(tokio::spawn(async move {
        while let Some(Some(events)) = shutdown.run_until_cancelled(events.next()).await {
            let screen = Arc::clone(&screen);
            // A terminal can be stopped by its user, which must not hold up the runtime.
            if tokio::task::spawn_blocking(move || show(&screen, events)).await.is_err() {
                break;
            }
        }
    }))
}

fn show(screen: &Screen, events: Vec<BusEvent>) {
    let mut gathered: Option<(TurnId, u32, String)> = None;
    for event in events {
        if let BusEvent::TextDelta { turn, message, text, .. } = event {
            match &mut gathered {
                Some((of, at, more)) if *of == turn && *at == message => more.push_str(&text),
                _ => show_delta(screen, gathered.replace((turn, message, text))),
            }
            continue;
        }
        show_delta(screen, gathered.take());
        match event {
            BusEvent::ToolStarted { tool, .. } => screen.tool_started(&tool),
            BusEvent::ToolFinished { tool, failed, .. } => screen.tool_finished(&tool, failed),
            _ => {}
        }
    }
    show_delta(screen, gathered);
}

fn show_delta(screen: &Screen, gathered: Option<(TurnId, u32, String)>) {
    if let Some((turn, message, deltas)) = gathered {
        screen.push_delta(turn, message, &deltas);
    }
}

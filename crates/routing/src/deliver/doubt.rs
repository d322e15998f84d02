//! Searches for parts in doubt, and for earlier attempts that arrived late.

use satchel_domain::{
    Part, PartContent, PartState,
    delivery::{SearchResult, SendError},
};
use satchel_ports::{LedgerError, LookupOutcome, LookupRange, PostRequest};
use tokio_util::sync::CancellationToken;

use super::DeliveryContext;
use crate::lookup::{DoubtfulSend, delete_duplicates, look_up};

/// Looks for a part in doubt among the messages of its chat. Of several that are the part, all but the newest are
/// deleted.
pub(super) async fn search(
    context: &DeliveryContext,
    part: &Part,
    request: PostRequest,
) -> Result<Result<SearchResult, SendError>, LedgerError> {
    let DeliveryContext { outbox, channel, .. } = context;
    let range = LookupRange::After(outbox.last_sent_before(part.id).await?);
    let found = look_up(&**outbox, &**channel, doubtful_send(part, request), range).await?;
    Ok(match found {
        Ok(LookupOutcome::Found { messages, duplicates }) => {
            delete_duplicates(&**channel, &part.conversation, &duplicates).await;
            Ok(SearchResult::Found(messages))
        }
        Ok(LookupOutcome::Absent) => Ok(SearchResult::Absent),
        Ok(LookupOutcome::Uncertain { reason }) => {
            tracing::info!(part.id = %part.id, reason, "look-up without a result; treating the part as in doubt");
            Ok(SearchResult::Uncertain)
        }
        Err(error) => Err(error),
    })
}

/// Deletes earlier attempts of a part that arrived all the same, after a look-up had not found them: at once, and of
/// what has files again once the slowest upload must be through, also where the lane was given back meanwhile.
pub(super) async fn remove_duplicates(context: &DeliveryContext, part: &Part, request: PostRequest) {
    let sent = match &part.state {
        PartState::Sent { messages } => messages.as_slice(),
        PartState::Open { message } => std::slice::from_ref(message),
        _ => return,
    };
    // The last attempt is the one that is known.
    let attempts = part.attempts.saturating_sub(1);
    let earlier_attempts = DoubtfulSend { attempts, ..doubtful_send(part, request) };
    let is_voice = matches!(part.content(), Some(PartContent::Voice { .. }));
    let is_upload = is_voice || !part.operation.files().is_empty();
    let early = LookupRange::Before(sent.to_vec());
    remove_duplicates_in(context, &context.stop, earlier_attempts.clone(), early).await;
    if is_upload {
        let (context, late) = (context.clone(), LookupRange::Late(sent.to_vec()));
        tokio::spawn(async move {
            tokio::select! {
                () = context.process_stop.cancelled() => {}
                () = tokio::time::sleep(context.rules.late_duplicate_delay) => {
                    remove_duplicates_in(&context, &context.process_stop, earlier_attempts, late).await;
                }
            }
        });
    }
}

async fn remove_duplicates_in(
    context: &DeliveryContext,
    stop: &CancellationToken,
    send: DoubtfulSend,
    range: LookupRange,
) {
    let (conversation, part_id) = (send.part.conversation.clone(), send.part.part_id);
    let search = look_up(&*context.outbox, &*context.channel, send, range);
    let found = tokio::select! {
        () = stop.cancelled() => return,
        found = search => found,
    };
    match found {
        Ok(Ok(LookupOutcome::Found { messages, duplicates })) => {
            delete_duplicates(&*context.channel, &conversation, &[messages, duplicates].concat()).await;
        }
        Ok(Ok(LookupOutcome::Absent | LookupOutcome::Uncertain { .. })) => {}
        Ok(Err(error)) => tracing::info!(part.id = %part_id, %error, "no look-up for late duplicates"),
        Err(error) => tracing::info!(part.id = %part_id, %error, "no look-up for late duplicates"),
    }
}

fn doubtful_send(part: &Part, request: PostRequest) -> DoubtfulSend {
    DoubtfulSend { part: request, attempts: part.attempts }
}

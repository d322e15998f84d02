//! Completes a turn: plans its response for the channel and commits both in one transaction.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    sync::atomic::Ordering,
};

use satchel_domain::{
    Button, Ending, InboxId, MessageRef, OutgoingResponse, PartContent, PartId, RefusedFile, TurnId,
    filename::to_inline_code,
    markdown::append_paragraph,
    part::{Markup, Plan, PlannedPart},
};
use satchel_ports::{
    BusEvent, FileChange, LedgerError,
    event_bus::EventBytes,
    ledger::{AttachmentKey, CompletedTurn, ConversationSetting, HistoryChange},
};
use satchel_routing::{
    plan::{plan, plan_with_links},
    retry::retry_until_stored,
};

use crate::{AgentServices, LaneHandle, run::publish};

/// The result of a turn, before it is planned.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnResult {
    pub turn: TurnId,
    pub ending: Ending,
    /// What the person gets.
    pub response: OutgoingResponse,
    /// How the history changes.
    pub history: HistoryChange,
    /// The setting of the conversation that changes, if one does.
    pub setting: Option<ConversationSetting>,
    pub steered: Vec<InboxId>,
    /// What those of them that a model has read, and the one that stopped the turn, said then.
    pub injected_texts: BTreeMap<InboxId, String>,
    /// The failures that were reported to the model.
    pub reported_failures: Vec<PartId>,
    /// The person's message that is answered.
    pub reply_to: Option<MessageRef>,
    /// The buttons below the text.
    pub buttons: Vec<Button>,
    /// The changes of files that no recorded outcome has.
    pub changes: Vec<FileChange>,
    /// The command of the button by which an earlier reply's question is answered.
    pub answered: Option<String>,
    /// Whether a person wants texts in blocks in this conversation, as [`satchel_domain::ChannelCapabilities::with_block_choice`] takes it.
    pub blocks: Option<bool>,
}

/// Plans and commits a turn's result, has its parts delivered, and publishes it on the bus.
///
/// # Errors
/// When the commit failed. Then nothing is stored, and the turn can be replayed from its journal.
pub async fn complete_turn(services: &AgentServices, lane: &LaneHandle, result: TurnResult) -> Result<(), LedgerError> {
    let conversation = lane.lease.conversation.clone();
    let response = result.response;
    let plan = plan_response(services, lane, &response, result.blocks).await?;
    let plan = attach_buttons(plan, result.buttons);
    let completed = CompletedTurn {
        turn: result.turn,
        ending: result.ending,
        response,
        plan,
        history: result.history,
        setting: result.setting,
        steered: result.steered,
        injected_texts: result.injected_texts,
        reported_failures: result.reported_failures,
        reply_to: result.reply_to,
        changes: result.changes,
        answered: result.answered,
        // What is in flight is finished by this process.
        hands_over: lane.hands_over.load(Ordering::Relaxed) && lane.delivery.is_idle(),
    };
    let before = lane.delivery.mark();
    let started = retry_until_stored(&lane.stop, || services.turns.complete_turn(&lane.lease, &completed)).await?;
    if completed.hands_over {
        lane.handed_over.store(true, Ordering::Relaxed);
    } else {
        lane.delivery.planned(started, before);
    }
    let CompletedTurn { turn, ending, response, .. } = completed;
    tracing::info!(
        chat.id = %conversation, turn.id = %turn, ending = ending.as_str(), files = response.attachments.len(),
        "turn complete"
    );
    if let Some(text) = response.text.clone() {
        let conversation = conversation.clone();
        publish(services, BusEvent::ResponseText { conversation, turn, part: None, text, buttons: Vec::new() }).await;
    }
    for attachment in &response.attachments {
        let event = BusEvent::ResponseBinary {
            conversation: conversation.clone(),
            turn,
            part: None,
            filename: Some(attachment.filename.clone()),
            mime: attachment.mime.clone(),
            bytes: attachment.bytes,
            sha256: attachment.sha256,
            content: EventBytes::Blob(attachment.sha256),
        };
        publish(services, event).await;
    }
    publish(services, BusEvent::TurnCompleted { conversation, turn, ending: ending.as_str().to_owned(), response })
        .await;
    Ok(())
}

/// Plans a response, with links to the files that the channel doesn't take. Their records are read again, because their links
/// may have been revoked during the turn.
async fn plan_response(
    services: &AgentServices,
    lane: &LaneHandle,
    response: &OutgoingResponse,
    blocks: Option<bool>,
) -> Result<Plan, LedgerError> {
    let capabilities = lane.channel.capabilities(&lane.lease.conversation).with_block_choice(blocks);
    let Some(links) = &services.links else { return Ok(plan(response, &capabilities)) };
    let refused = RefCell::new(Vec::new());
    let plan = plan_with_links(response, &capabilities, &|file| {
        refused.borrow_mut().push(file.id);
        None
    });
    let mut records = HashMap::new();
    for file in refused.into_inner() {
        let read = || services.archive.attachment(&lane.lease.conversation, AttachmentKey::Id(file));
        records.insert(file, retry_until_stored(&lane.stop, read).await?);
    }
    if records.is_empty() {
        return Ok(plan);
    }
    Ok(plan_with_links(response, &capabilities, &|file| {
        let record = records.get(&file.id).and_then(Option::as_ref)?;
        links.create_link(record)
    }))
}

/// Attaches the buttons to the last text of the response. A text with files keeps its files and gets no buttons.
fn attach_buttons(mut plan: Plan, buttons: Vec<Button>) -> Plan {
    // What stands as its own characters is the long description of a file.
    let is_of_response =
        |part: &&mut PlannedPart| matches!(&part.content, PartContent::Text { markup, .. } if *markup != Markup::Plain);
    let last = plan.parts.iter_mut().rev().find(is_of_response);
    if let Some(PlannedPart { content, .. }) = last
        && let PartContent::Text { text, markup, files } = content
        && files.is_empty()
        && !buttons.is_empty()
    {
        *content = PartContent::Question { text: std::mem::take(text), markup: *markup, buttons };
    }
    plan
}

/// Names each refused file, so that the person learns of it whatever the model says.
#[must_use]
pub fn append_refused_files(response: OutgoingResponse, refused: &[RefusedFile]) -> OutgoingResponse {
    if refused.is_empty() {
        return response;
    }
    let notices = refused.iter().map(|file| {
        let name = to_inline_code(file.filename.as_str(), usize::MAX);
        format!("I couldn't accept {name}: {}.", file.reason)
    });
    let notices = notices.collect::<Vec<_>>().join("\n\n");
    let text = append_paragraph(response.text.as_deref().unwrap_or_default(), &notices);
    OutgoingResponse { text: Some(text), ..response }
}

#[cfg(test)]
mod tests {
    use std::{
        num::NonZeroU64,
        sync::{Arc, Mutex},
    };

    use satchel_domain::{
        Attachment, AttachmentId, AttachmentSource, Filename, LinkRevocation, MediaInfo, Sha256, Timestamp, Visibility,
        part::{FileForm, FileItem},
    };
    use satchel_ports::{HolderId, Lease, MockChannel, MockEventBus, MockFileLinks, MockLanguageModel, MockLedger};
    use satchel_routing::{deliver::DeliveryHandle, tables};
    use tokio_util::sync::CancellationToken;
    use uuid::Uuid;

    use super::*;

    fn file(bytes: u64) -> Attachment {
        Attachment {
            id: AttachmentId(Uuid::from_u128(7)),
            number: NonZeroU64::MIN,
            conversation: "console:main".parse().unwrap(),
            source: AttachmentSource::Tool,
            filename: Filename::from_untrusted("a.txt"),
            mime: "text/plain".into(),
            bytes,
            sha256: Sha256([0; 32]),
            media: MediaInfo::default(),
            description: String::new(),
            created_at: Timestamp(0),
            visibility: Visibility::Deliver,
            link_revocation: None,
        }
    }

    #[tokio::test]
    async fn oversized_file_notice_has_link_by_its_current_record() {
        let mut ledger = MockLedger::default();
        // Its links were revoked during the turn.
        let revocation = LinkRevocation { count: 2, planned_count: 2 };
        let revoked = Attachment { link_revocation: Some(revocation), ..file(64_000_000) };
        ledger
            .archive
            .expect_attachment()
            .withf(|conversation, key| {
                conversation.to_string() == "telegram:41" && *key == AttachmentKey::Id(AttachmentId(Uuid::from_u128(7)))
            })
            .returning(move |_, _| Ok(Some(revoked.clone())));
        let has_link = |turn: &CompletedTurn| match &turn.plan.parts.last().unwrap().content {
            PartContent::Notice { text } => text.contains("kept as #1: <https://a.example/links/x> (for 7 days;"),
            _ => false,
        };
        ledger.turns.expect_complete_turn().times(1).withf(move |_, turn| has_link(turn)).returning(|_, _| Ok(None));
        let mut links = MockFileLinks::new();
        let matches_file = move |file: &Attachment| file.link_revocation == Some(revocation);
        links.expect_create_link().withf(matches_file).returning(|_| Some("https://a.example/links/x".into()));
        let (mut bus, mut channel) = (MockEventBus::new(), MockChannel::new());
        let published: Arc<Mutex<Vec<BusEvent>>> = Arc::default();
        let recorded = Arc::clone(&published);
        bus.expect_publish().returning(move |event| {
            recorded.lock().unwrap().push(event);
            Ok(())
        });
        channel.expect_capabilities().returning(|_| tables::telegram());
        let services = AgentServices {
            links: Some(Arc::new(links)),
            ..crate::fixtures::services(ledger, bus, MockLanguageModel::new())
        };
        let lane = LaneHandle {
            lease: Lease { conversation: "telegram:41".parse().unwrap(), holder: HolderId(Uuid::nil()), token: 1 },
            channel: Arc::new(channel),
            wake: Arc::default(),
            woken: Arc::default(),
            hands_over: Arc::default(),
            handed_over: Arc::default(),
            delivery: DeliveryHandle::new().0,
            stop: CancellationToken::new(),
        };
        let result = TurnResult {
            turn: TurnId(Uuid::from_u128(1)),
            ending: Ending::Done,
            response: OutgoingResponse { attachments: vec![file(64_000_000)], ..OutgoingResponse::from_text("Here.") },
            history: HistoryChange::Append(Vec::new()),
            setting: None,
            steered: Vec::new(),
            injected_texts: BTreeMap::new(),
            reported_failures: Vec::new(),
            reply_to: None,
            buttons: Vec::new(),
            changes: Vec::new(),
            answered: None,
            blocks: None,
        };
        let response = result.response.clone();
        complete_turn(&services, &lane, result).await.unwrap();
        let conversation = lane.lease.conversation;
        let turn = TurnId(Uuid::from_u128(1));
        let text = BusEvent::ResponseText {
            conversation: conversation.clone(),
            turn,
            part: None,
            text: "Here.".into(),
            buttons: Vec::new(),
        };
        let binary = BusEvent::ResponseBinary {
            conversation: conversation.clone(),
            turn,
            part: None,
            filename: Some(Filename::from_untrusted("a.txt")),
            mime: "text/plain".into(),
            bytes: 64_000_000,
            sha256: Sha256([0; 32]),
            content: EventBytes::Blob(Sha256([0; 32])),
        };
        let end = BusEvent::TurnCompleted { conversation, turn, ending: "done".into(), response };
        assert_eq!(*published.lock().unwrap(), [text, binary, end], "the text, each file, and then the end");
    }

    #[test]
    fn every_refused_file_is_named_to_the_person() {
        let refused = |name: &str, reason: &str| RefusedFile {
            filename: Filename::from_untrusted(name),
            bytes: None,
            reason: reason.into(),
        };
        let files = [refused("a.mov", "it is 64 MB, the limit is 50 MB"), refused("b`x`.txt", "it is gone")];
        let response = append_refused_files(OutgoingResponse::from_text("Saved the rest."), &files);
        assert_eq!(
            response.text.unwrap(),
            "Saved the rest.\n\nI couldn't accept `a.mov`: it is 64 MB, the limit is 50 MB.\n\nI couldn't accept \
             `bx.txt`: it is gone."
        );
        let cut_short = append_refused_files(OutgoingResponse::from_text("```\nls"), &files[1..]);
        assert_eq!(cut_short.text.unwrap(), "```\nls\n```\n\nI couldn't accept `bx.txt`: it is gone.");
        let files_only = append_refused_files(OutgoingResponse::default(), &files[..1]);
        assert_eq!(files_only.text.unwrap(), "I couldn't accept `a.mov`: it is 64 MB, the limit is 50 MB.");
    }

    #[test]
    fn buttons_stand_beneath_the_last_text() {
        let text_plan = |texts: &[&str]| Plan {
            parts: texts.iter().map(|text| PlannedPart::new(PartContent::from_text(*text))).collect(),
        };
        let buttons = vec![Button { label: "Approve".into(), command: "/pair approve ABCD-EFGH".into() }];
        assert_eq!(attach_buttons(text_plan(&["a", "b"]), Vec::new()), text_plan(&["a", "b"]));
        let question = PartContent::question("b", buttons.clone());
        assert_eq!(
            attach_buttons(text_plan(&["a", "b"]), buttons.clone()).parts,
            [text_plan(&["a"]).parts.remove(0), PlannedPart::new(question)]
        );
        assert_eq!(attach_buttons(Plan::default(), buttons.clone()), Plan::default());
        let mut described = text_plan(&["b"]);
        let text = "a long description of a file".to_owned();
        described.parts.push(PlannedPart::new(PartContent::Text { text, markup: Markup::Plain, files: Vec::new() }));
        let attached = attach_buttons(described.clone(), buttons.clone());
        assert_eq!(attached.parts[0].content, PartContent::question("b", buttons.clone()));
        assert_eq!(attached.parts[1], described.parts[1], "a file's description is no text of the response");
        let mut with_file = text_plan(&["a"]);
        let item = FileItem { attachment: file(1), form: FileForm::Document, caption: String::new() };
        if let PartContent::Text { files, .. } = &mut with_file.parts[0].content {
            files.push(item);
        }
        assert_eq!(attach_buttons(with_file.clone(), buttons), with_file, "no file is lost for a button");
    }
}

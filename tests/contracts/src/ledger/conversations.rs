//! Promises about conversations as people see them: listed, named, searched, forgotten.

use satchel_domain::{
    ConversationId, ConversationOpening, InboundMessage, OutgoingResponse, ReminderAuthor, ReminderContent, Sender,
    Timestamp, TurnId,
};
use satchel_ports::{
    AuditQuery, ChangeOutcome,
    ledger::{
        AttachmentQuery, ClaimMode, CompletedTurn, ConversationQuery, ConversationSearch, ConversationSetting,
        ConversationSettings, ForgetConversationOutcome, ForgetRequest, ForgetScope, HistoryChange, InboundFileState,
        Ledger, ListingChange, NewReminder, ReleaseMode, ReminderLimits, ReminderQuery, ReminderScope, RenameOutcome,
        SearchHit, SearchTerms, Transcription, TurnQuery, UsageQuery, UsageScope, WorkFilter,
    },
};

use super::{
    LedgerFixture, audit, complete_with_setting, completed_turn, conversation, file_part, message, new_file, receive,
    sent_settlement, settle, text_parts, with_files,
};

/// A message of a conversation.
fn message_in(name: &str, key: &str, text: &str) -> InboundMessage {
    InboundMessage { conversation: conversation(name), ..message(key, text) }
}

/// Receives a message and completes its turn with a reply.
async fn exchange(ledger: &Ledger, message: &InboundMessage, reply: &str) -> TurnId {
    let (lease, turn) = receive(ledger, message).await;
    let completed =
        CompletedTurn { response: OutgoingResponse::from_text(reply), ..completed_turn(turn, text_parts(&[reply])) };
    let part = ledger.turns.complete_turn(&lease, &completed).await.unwrap().expect("it is begun");
    settle(ledger, &lease, &sent_settlement(&part, &format!("of-{turn}"))).await;
    turn
}

fn web_query() -> ConversationQuery {
    let channel = conversation("web:a").channel().clone();
    ConversationQuery { channel, archived: false, before: None, limit: 9 }
}

async fn list(ledger: &Ledger, query: &ConversationQuery) -> Vec<String> {
    let listed = ledger.conversations.list_conversations(query).await.unwrap();
    listed.into_iter().map(|summary| summary.conversation.to_string()).collect()
}

/// Catches: a conversation that is listed without the model that was chosen for it, or with that of another one.
pub async fn chosen_model_is_listed(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let model_of = async |name: &str| {
        let found = ledger.conversations.find_conversation(&conversation(name)).await.unwrap();
        found.expect("it has a turn").model
    };
    for (key, name, setting) in [
        ("1", "web:a", None),
        ("2", "web:b", Some(ConversationSetting::Model(Some("small".into())))),
        ("3", "web:c", Some(ConversationSetting::Model(Some("small".into())))),
        ("4", "web:c", Some(ConversationSetting::Model(None))),
    ] {
        let (lease, turn) = receive(&ledger, &message_in(name, key, "hello")).await;
        let completed = CompletedTurn { setting, ..completed_turn(turn, Vec::new()) };
        ledger.turns.complete_turn(&lease, &completed).await.unwrap();
        ledger.leases.release(&lease, ReleaseMode::Always).await.unwrap();
    }
    assert_eq!((model_of("web:a").await, model_of("web:c").await), (None, None));
    assert_eq!(model_of("web:b").await.as_deref(), Some("small"));
}

/// Searches the conversations of the web, and returns what was found in words: `conversation: before [word] behind`.
async fn search(ledger: &Ledger, words: &str) -> Vec<String> {
    let results = ledger.conversations.search_conversations(&search_for(words)).await.unwrap();
    assert_eq!(results.unindexed, 0);
    let excerpt = |hit: &SearchHit| {
        let marked = |matched, text: &str| if matched { format!("[{text}]") } else { text.to_owned() };
        hit.excerpt.iter().map(|piece| marked(piece.matched, &piece.text)).collect::<String>()
    };
    results.hits.iter().map(|hit| format!("{}: {}", hit.conversation, excerpt(hit))).collect()
}

fn search_for(words: &str) -> ConversationSearch {
    let channel = conversation("web:a").channel().clone();
    ConversationSearch {
        channel,
        conversation: None,
        terms: SearchTerms::parse(words).unwrap(),
        before: None,
        limit: 9,
    }
}

/// Catches: a list out of order, one that repeats or leaves out conversations between its pages, and another channel's.
pub async fn conversations_are_listed_by_last_use(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    for (key, name) in ["web:a", "web:b", "web:c", "console:main", "web:d", "web:a"].into_iter().enumerate() {
        ledger
            .inbox
            .receive(&message_in(name, &format!("{name}-{key}"), &format!("words {key}")), ClaimMode::Never)
            .await
            .unwrap();
    }
    assert_eq!(list(&ledger, &web_query()).await, ["web:a", "web:d", "web:c", "web:b"]);
    let first = ledger.conversations.list_conversations(&ConversationQuery { limit: 2, ..web_query() }).await.unwrap();
    assert_eq!(first.iter().map(|summary| summary.title.as_str()).collect::<Vec<_>>(), ["words 0", "words 4"]);
    assert!(first[0].last_at >= first[1].last_at && !first[0].pinned && !first[0].archived && first[0].name.is_none());
    let rest = ConversationQuery { before: Some(first[1].last_turn), ..web_query() };
    assert_eq!(list(&ledger, &rest).await, ["web:c", "web:b"]);
}

/// Catches: a name, a pin or an archive that is lost at a restart, that holds for others, or that hides new messages.
pub async fn conversations_are_named_pinned_and_archived(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    for name in ["web:a", "web:b", "web:c"] {
        ledger.inbox.receive(&message_in(name, name, "hello"), ClaimMode::Never).await.unwrap();
    }
    let change = async |ledger: &Ledger, name: &str, changes: &[ListingChange]| {
        ledger.conversations.change_listing(&conversation(name), changes).await.unwrap()
    };
    assert!(change(&ledger, "web:a", &[ListingChange::Name(Some("Holiday".into())), ListingChange::Pin]).await);
    assert!(change(&ledger, "web:b", &[ListingChange::Archive]).await);
    assert!(!change(&ledger, "web:never", &[ListingChange::Pin]).await, "there is none");
    drop(ledger);

    let ledger = fixture.open().await;
    assert_eq!(list(&ledger, &web_query()).await, ["web:a", "web:c"]);
    let archived = ConversationQuery { archived: true, ..web_query() };
    assert_eq!(list(&ledger, &archived).await, ["web:b"]);
    let listed = ledger.conversations.list_conversations(&web_query()).await.unwrap();
    assert_eq!((listed[0].name.as_deref(), listed[0].pinned, listed[1].name.as_deref()), (Some("Holiday"), true, None));
    let found = ledger.conversations.find_conversation(&conversation("web:b")).await.unwrap().unwrap();
    assert!(found.archived && found.conversation == conversation("web:b"), "{found:?}");
    assert_eq!(ledger.conversations.find_conversation(&conversation("web:never")).await.unwrap(), None);
    let pages = ConversationQuery { before: Some(listed[1].last_turn), ..web_query() };
    assert_eq!(list(&ledger, &pages).await, [""; 0], "what is pinned is on the first page alone");

    ledger.inbox.receive(&message_in("web:b", "b-2", "still there?"), ClaimMode::Never).await.unwrap();
    assert_eq!(list(&ledger, &web_query()).await, ["web:a", "web:b", "web:c"], "its next message brings it back");
    assert!(change(&ledger, "web:a", &[ListingChange::Archive]).await);
    assert_eq!(list(&ledger, &archived).await, ["web:a"]);
    assert!(change(&ledger, "web:a", &[ListingChange::Unarchive]).await);
    assert_eq!(list(&ledger, &web_query()).await, ["web:b", "web:c", "web:a"], "it was pinned no more");
    assert!(change(&ledger, "web:a", &[ListingChange::Pin, ListingChange::Unpin, ListingChange::Name(None)]).await);
    let listed = ledger.conversations.list_conversations(&web_query()).await.unwrap();
    assert_eq!((listed[2].name.as_deref(), listed[2].pinned), (None, false));
}

/// Catches: words that aren't found where they were said, another channel's words, and signs that are taken as operators.
pub async fn words_are_found_where_they_were_said(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    exchange(&ledger, &message_in("web:a", "1", "Where is the Müller contract?"), "In the blue folder.").await;
    exchange(&ledger, &message_in("web:b", "2", "contract for the flat"), "Signed in May.").await;
    exchange(&ledger, &message_in("console:main", "3", "contract on the console"), "No.").await;
    // A search by itself would index its own channel alone.
    ledger.conversations.index_turns(9).await.unwrap();
    assert_eq!(
        search(&ledger, "contract").await,
        [
            "web:b: [contract] for the flat\nSigned in May.",
            "web:a: Where is the Müller [contract]?\nIn the blue folder."
        ]
    );
    assert_eq!(search(&ledger, "MULLER").await.len(), 1, "upper case and accents make no difference");
    assert_eq!(search(&ledger, "fold contr").await, ["web:a: Where is the Müller [contract]?\nIn the blue [folder]."]);
    assert_eq!(search(&ledger, "contract signed folder").await, [""; 0], "all words must be there");
    for operator in
        ["contract AND", "contract NOT flat", "text:contract", "\"contract", "NEAR(contract", "(contract)", "-contract"]
    {
        ledger.conversations.search_conversations(&search_for(operator)).await.unwrap();
    }
    assert_eq!(search(&ledger, "contract OR nothing").await, [""; 0], "no word is an operator");
    assert_eq!(search(&ledger, "c776562").await, [""; 0], "the channel is not one of the words");
    exchange(&ledger, &message_in("web-2:a", "4", "contract of another channel"), "No.").await;
    ledger.conversations.index_turns(9).await.unwrap();
    assert_eq!(search(&ledger, "contract").await.len(), 2, "a channel whose name begins like this one's");

    let older =
        ledger.conversations.search_conversations(&ConversationSearch { limit: 1, ..search_for("contract") }).await;
    let newest = older.unwrap().hits.remove(0);
    let older = ConversationSearch { before: newest.turn, ..search_for("contract") };
    let older = ledger.conversations.search_conversations(&older).await.unwrap().hits;
    assert_eq!(older.iter().map(|hit| hit.conversation.to_string()).collect::<Vec<_>>(), ["web:a"]);
    assert_eq!((older[0].title.as_str(), older[0].name.as_deref()), ("Where is the Müller contract?", None));

    let named = ListingChange::Name(Some("Contract papers".into()));
    ledger.conversations.change_listing(&conversation("web:a"), &[named]).await.unwrap();
    assert_eq!(search(&ledger, "papers").await, ["web:a: Contract [papers]"]);
    assert_eq!(search(&ledger, "contract").await[0], "web:a: [Contract] papers", "a name comes first");
    ledger.conversations.change_listing(&conversation("web:a"), &[ListingChange::Name(None)]).await.unwrap();
    assert_eq!(search(&ledger, "papers").await, [""; 0]);
}

/// Catches: files, voice notes and injected messages that aren't found, and what is forgotten but found.
pub async fn files_are_found_until_they_are_forgotten(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let brings = with_files(message_in("web:a", "1", "look"), &["beach_2024.jpg", "note.ogg"]);
    let (lease, turn) = receive(&ledger, &brings).await;
    let late = message_in("web:a", "2", "and hurry");
    ledger.inbox.receive(&late, ClaimMode::Never).await.unwrap();
    let behind = ledger.turns.list_queued_behind(&lease, turn).await.unwrap().remove(0);
    let queued = ledger.turns.next_turn(&lease).await.unwrap().unwrap().messages.remove(0);
    let beach = ledger.turns.store_file(&lease, queued.id, 0, &new_file("beach_2024.jpg")).await.unwrap();
    let note = ledger.turns.store_file(&lease, queued.id, 1, &new_file("note.ogg")).await.unwrap();
    ledger.turns.record_transcription(&lease, queued.id, 1, &Transcription::Text("bring bread".into())).await.unwrap();
    assert_eq!(search(&ledger, "look").await, [""; 0], "a turn is indexed when it is complete");
    let completed = CompletedTurn { steered: vec![behind.id], ..completed_turn(turn, vec![file_part(&beach)]) };
    let part = ledger.turns.complete_turn(&lease, &completed).await.unwrap().expect("it is begun");
    settle(&ledger, &lease, &sent_settlement(&part, "5")).await;
    assert_eq!(search(&ledger, "beach jpg").await, ["web:a: [beach]_2024.[jpg]\nnote.ogg"]);
    assert_eq!(search(&ledger, "b").await, [""; 0], "one letter is no beginning");
    assert_eq!(search(&ledger, "bread").await.len(), 1);
    assert_eq!(search(&ledger, "hurry").await.len(), 1, "an injected message was answered there");

    for (number, gone) in [(beach.number.get(), "beach"), (note.number.get(), "bread")] {
        let request = ForgetRequest { conversation: lease.conversation.clone(), number, restricted_to: None };
        ledger.storage.forget_file(&request).await.unwrap();
        assert_eq!(search(&ledger, gone).await, [""; 0]);
    }
    assert_eq!(search(&ledger, "look").await.len(), 1, "the rest is still found");
}

/// Catches: a search in one conversation that finds another, a name, or an earlier search.
pub async fn search_stays_within_its_conversation(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    exchange(&ledger, &message_in("web:a", "1", "the rent"), "paid").await;
    exchange(&ledger, &message_in("web:b", "2", "the rent"), "due").await;
    exchange(&ledger, &message_in("web:a", "3", "/FIND rent"), "Found the rent").await;
    let named = [ListingChange::Name(Some("Rent".into()))];
    ledger.conversations.change_listing(&conversation("web:a"), &named).await.unwrap();
    for (searched, found) in [("web:a", 1), ("web:b", 1), ("web:c", 0)] {
        let search = ConversationSearch { conversation: Some(conversation(searched)), ..search_for("rent") };
        let hits = ledger.conversations.search_conversations(&search).await.unwrap().hits;
        let found_in: Vec<String> = hits.iter().map(|hit| hit.conversation.to_string()).collect();
        assert_eq!(found_in, vec![searched; found]);
    }
    assert_eq!(search(&ledger, "rent").await.len(), 3, "the name and two turns");
}

/// Catches: a list of files or of matches that the next search finds instead of what was said, and a reply of the model that
/// isn't found because the message looked like a command.
pub async fn search_finds_no_answer_to_a_command(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    exchange(&ledger, &message_in("web:a", "1", "the rent"), "paid").await;
    for (key, text, reply) in [("2", " /usage", "the largest: rent.pdf"), ("3", "/files rent", "#1 rent.pdf")] {
        let (lease, turn) = receive(&ledger, &message_in("web:a", key, text)).await;
        let completed = CompletedTurn {
            response: OutgoingResponse::from_text(reply),
            history: HistoryChange::Append(Vec::new()),
            ..completed_turn(turn, text_parts(&[reply]))
        };
        let part = ledger.turns.complete_turn(&lease, &completed).await.unwrap().expect("it is begun");
        settle(&ledger, &lease, &sent_settlement(&part, &format!("of-{key}"))).await;
    }
    assert_eq!(search(&ledger, "rent").await, ["web:a: the [rent]\npaid"]);
    exchange(&ledger, &message_in("web:a", "4", "/summarize the lease"), "The rent is due in May.").await;
    assert_eq!(search(&ledger, "rent").await.len(), 2, "the model answered");
}

/// Catches: turns of an older database that are never indexed, or that keep a search waiting.
pub async fn turns_are_indexed_step_by_step(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    for key in 0..5 {
        exchange(&ledger, &message_in("web:a", &key.to_string(), "the same words"), "yes").await;
    }
    assert_eq!(ledger.conversations.index_turns(2).await.unwrap(), 3);
    assert_eq!(ledger.conversations.index_turns(2).await.unwrap(), 1);
    assert_eq!(ledger.conversations.index_turns(2).await.unwrap(), 0);
    assert_eq!(search(&ledger, "same").await.len(), 5, "each is found once");
}

/// Catches: words, files or settings that outlive their conversation, and a message that is answered again.
pub async fn forgotten_conversation_leaves_only_keys(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let brings = with_files(message_in("web:a", "1", "the secret plan"), &["secret.pdf"]);
    let (lease, turn) = receive(&ledger, &brings).await;
    let queued = ledger.turns.next_turn(&lease).await.unwrap().unwrap().messages.remove(0);
    let file = ledger.turns.store_file(&lease, queued.id, 0, &new_file("secret.pdf")).await.unwrap();
    let completed = CompletedTurn {
        setting: Some(ConversationSetting::Persona(Some("a spy".into()))),
        changes: vec![audit::change("secret.txt", ChangeOutcome::Done)],
        ..completed_turn(turn, vec![file_part(&file)])
    };
    let part = ledger.turns.complete_turn(&lease, &completed).await.unwrap().expect("it is begun");
    settle(&ledger, &lease, &sent_settlement(&part, "5")).await;
    exchange(&ledger, &message_in("web:a", "2", "more of the plan"), "secret").await;
    exchange(&ledger, &message_in("web:b", "3", "another plan"), "kept").await;
    let named = [ListingChange::Name(Some("Secret".into())), ListingChange::Pin];
    ledger.conversations.change_listing(&lease.conversation, &named).await.unwrap();
    assert_eq!(search(&ledger, "plan").await.len(), 3);

    let forgotten = ledger.conversations.forget_conversation(&lease.conversation).await.unwrap();
    assert_eq!(forgotten, ForgetConversationOutcome::Forgotten(vec![file.sha256]));
    drop(ledger);
    let ledger = fixture.open().await;
    assert_eq!(list(&ledger, &web_query()).await, ["web:b"]);
    assert_eq!(search(&ledger, "plan").await, ["web:b: another [plan]\nkept"]);
    assert_eq!(search(&ledger, "secret").await, [""; 0]);
    let turns = TurnQuery { conversation: lease.conversation.clone(), before: None, limit: 9 };
    assert_eq!(ledger.archive.turns(&turns).await.unwrap(), []);
    assert_eq!(ledger.archive.turn(turn).await.unwrap(), None);
    assert_eq!(ledger.archive.history(&lease.conversation, 9).await.unwrap(), []);
    let here = AttachmentQuery { conversation: Some(lease.conversation.clone()), ..AttachmentQuery::default() };
    assert_eq!(ledger.archive.attachments(&here).await.unwrap(), []);
    assert_eq!(ledger.storage.find_unreferenced(&[file.sha256]).await.unwrap(), [file.sha256]);
    let scope = UsageScope::Conversation(lease.conversation.clone());
    let usages = ledger.storage.usages(&UsageQuery::Scopes(vec![scope])).await.unwrap();
    assert!(usages.iter().all(|usage| (usage.files, usage.bytes, usage.workspace_bytes) == (0, 0, 0)), "{usages:?}");
    assert_eq!(
        ledger.conversations.list_forgotten_workspaces().await.unwrap(),
        std::slice::from_ref(&lease.conversation)
    );
    ledger.conversations.record_workspace_removed(&lease.conversation).await.unwrap();
    assert_eq!(ledger.conversations.list_forgotten_workspaces().await.unwrap(), []);
    assert_eq!(ledger.conversations.find_conversation(&lease.conversation).await.unwrap(), None);
    let again = ledger.conversations.forget_conversation(&lease.conversation).await.unwrap();
    assert_eq!(again, ForgetConversationOutcome::NotFound);
    assert_eq!(ledger.storage.audit(&AuditQuery::default()).await.unwrap().len(), 1, "operators know of the change");

    let repeated = ledger.inbox.receive(&brings, ClaimMode::IfFree).await.unwrap();
    assert!(repeated.duplicate && repeated.claimed.is_none(), "{repeated:?}");
    let (lease, turn) = receive(&ledger, &message_in("web:a", "4", "a new beginning")).await;
    let fresh = ledger.turns.next_turn(&lease).await.unwrap().unwrap();
    assert_eq!((fresh.history.len(), &fresh.settings), (0, &ConversationSettings::default()));
    let numbered = ledger.turns.register_files(turn, &[new_file("new.pdf")]).await.unwrap();
    assert_eq!(numbered[0].number.get(), 2, "its number is nobody else's");
    ledger.turns.complete_turn(&lease, &completed_turn(turn, Vec::new())).await.unwrap();
    assert_eq!(ledger.archive.history(&lease.conversation, 9).await.unwrap().len(), 2);
    let listed = ledger.conversations.list_conversations(&web_query()).await.unwrap();
    assert_eq!((listed[0].title.as_str(), &listed[0].name, listed[0].pinned), ("a new beginning", &None, false));
}

/// Catches: a command to forget that takes itself or what waits behind it along, or leaves something of what was before.
pub async fn turn_forgets_what_came_before_it(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let brings = with_files(message_in("web:a", "1", "the secret plan"), &["secret.pdf"]);
    let (lease, first) = receive(&ledger, &brings).await;
    let queued = ledger.turns.next_turn(&lease).await.unwrap().unwrap().messages.remove(0);
    let file = ledger.turns.store_file(&lease, queued.id, 0, &new_file("secret.pdf")).await.unwrap();
    let completed = CompletedTurn {
        setting: Some(ConversationSetting::Persona(Some("a spy".into()))),
        ..completed_turn(first, vec![file_part(&file)])
    };
    let part = ledger.turns.complete_turn(&lease, &completed).await.unwrap().expect("it is begun");
    settle(&ledger, &lease, &sent_settlement(&part, "5")).await;
    assert_eq!(search(&ledger, "secret").await.len(), 1);
    // A history that was hidden hides nothing of what begins again.
    let (lease, reset) = receive(&ledger, &message_in("web:a", "new", "new")).await;
    let resets = CompletedTurn { history: HistoryChange::Reset, ..completed_turn(reset, text_parts(&["yes"])) };
    let part = ledger.turns.complete_turn(&lease, &resets).await.unwrap().expect("it is begun");
    settle(&ledger, &lease, &sent_settlement(&part, "of-new")).await;

    let (lease, command) = receive(&ledger, &message_in("web:a", "2", "forget all")).await;
    let behind = with_files(message_in("web:a", "3", "and now?"), &["new.pdf"]);
    let behind = ledger.inbox.receive(&behind, ClaimMode::Never).await.unwrap().turn;
    let waiting = ledger.turns.list_queued_behind(&lease, command).await.unwrap().remove(0);
    let kept = ledger.turns.store_file(&lease, waiting.id, 0, &new_file("new.pdf")).await.unwrap();
    let forgets = CompletedTurn {
        history: HistoryChange::Forget(ForgetScope::Everything),
        ..completed_turn(command, text_parts(&["done"]))
    };
    let part = ledger.turns.complete_turn(&lease, &forgets).await.unwrap().expect("it is begun");
    settle(&ledger, &lease, &sent_settlement(&part, "6")).await;

    let turns = TurnQuery { conversation: lease.conversation.clone(), before: None, limit: 9 };
    let left: Vec<TurnId> = ledger.archive.turns(&turns).await.unwrap().iter().map(|turn| turn.id).collect();
    assert_eq!(left, [command, behind]);
    let next = ledger.turns.next_turn(&lease).await.unwrap().expect("a message waits");
    assert_eq!((next.id, next.history.len(), &next.settings), (behind, 0, &ConversationSettings::default()));
    let here = AttachmentQuery { conversation: Some(lease.conversation.clone()), ..AttachmentQuery::default() };
    assert_eq!(ledger.archive.attachments(&here).await.unwrap(), [kept], "what came later stays");
    assert_eq!(search(&ledger, "secret").await, [""; 0]);
    let scope = UsageScope::Conversation(lease.conversation.clone());
    let usages = ledger.storage.usages(&UsageQuery::Scopes(vec![scope])).await.unwrap();
    assert_eq!(usages[0].files, 1);
    ledger.turns.complete_turn(&lease, &completed_turn(behind, Vec::new())).await.unwrap();
    assert_eq!(ledger.archive.history(&lease.conversation, 9).await.unwrap().len(), 2, "it is remembered again");
    assert!(ledger.inbox.receive(&brings, ClaimMode::IfFree).await.unwrap().duplicate, "the message is still known");
}

/// Catches: an edit of a message that was forgotten with its conversation, which stores its file or runs its command once more.
pub async fn edit_of_a_forgotten_message_brings_nothing_back(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let photo = |key: &str, text: &str| {
        let mut photo = with_files(message_in("web:a", key, text), &["secret.jpg"]);
        photo.files[0].platform_id = Some("unique-7".into());
        photo
    };
    let (lease, turn) = receive(&ledger, &photo("1", "/task pay")).await;
    ledger.turns.complete_turn(&lease, &completed_turn(turn, Vec::new())).await.unwrap();
    let command = ledger.inbox.receive(&message_in("web:a", "2", "forget all"), ClaimMode::Never).await.unwrap().turn;
    let forgets = CompletedTurn {
        history: HistoryChange::Forget(ForgetScope::Everything),
        ..completed_turn(command, Vec::new())
    };
    ledger.turns.complete_turn(&lease, &forgets).await.unwrap();

    let opening = ConversationOpening { text: "[secret]".into(), ..ConversationOpening::default() };
    let below = InboundMessage { opening: Some(Box::new(opening)), ..message_in("web:a", "3", "why?") };
    ledger.inbox.receive(&below, ClaimMode::Never).await.unwrap();
    let read = ledger.turns.next_turn(&lease).await.unwrap().unwrap().messages.remove(0);
    assert_eq!(read.message.text, "why?", "the message from which the conversation was started stays forgotten");
    ledger.turns.complete_turn(&lease, &completed_turn(read.turn, Vec::new())).await.unwrap();

    for (key, text) in [("1e", "look"), ("1f", "/task pay")] {
        let edit = InboundMessage { edit_of: Some("1".into()), ..photo(key, text) };
        ledger.inbox.receive(&edit, ClaimMode::Never).await.unwrap();
        let edited = ledger.turns.next_turn(&lease).await.unwrap().unwrap().messages.remove(0);
        assert!(edited.message.text == text && edited.message.edits_forgotten, "{edited:?}");
        assert!(matches!(edited.files.as_slice(), [InboundFileState::Refused(_)]), "{edited:?}");
        let stored = format!("{:?} {:?} {:?}", edited.files, edited.message.files, edited.message.raw);
        assert!(!stored.contains("unique-7") && !stored.contains("secret"), "{stored}");
        ledger.turns.complete_turn(&lease, &completed_turn(edited.turn, Vec::new())).await.unwrap();
    }
}

/// Catches: a person who leaves the persona, the model or the agent that an owner has given their chat, by forgetting it, or
/// takes away the reminders of others.
pub async fn forgetting_keeps_what_owners_set(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    for (chat, keeps_agent) in [("console:a", true), ("console:b", false)] {
        let (lease, _) = receive(&ledger, &message_in(chat, &format!("{chat} 0"), "hello")).await;
        let settings = [
            ConversationSetting::VoiceReplies(true),
            ConversationSetting::Agent(Some("cook".into())),
            ConversationSetting::Persona(Some("a pirate".into())),
            ConversationSetting::Model(Some("small".into())),
            ConversationSetting::Blocks(Some(false)),
            ConversationSetting::BlocksOffered(Timestamp(7)),
        ];
        for (number, setting) in (1..).zip(settings) {
            let next = message_in(chat, &format!("{chat} {number}"), "next");
            ledger.inbox.receive(&next, ClaimMode::Never).await.unwrap();
            complete_with_setting(&ledger, &lease, setting).await;
        }
        let command = ledger.turns.next_turn(&lease).await.unwrap().expect("a turn is queued").id;
        let reminder = |person: &str| NewReminder {
            key: format!("{chat} {person}"),
            conversation: lease.conversation.clone(),
            person: Sender::new(person, "Ada"),
            group: false,
            content: ReminderContent::Message { text: person.to_owned(), files: Vec::new() },
            next_at: Timestamp(50),
            cron: None,
            timezone: None,
            author: ReminderAuthor::Person,
            made_at: Timestamp(7),
            turn: command,
        };
        for person in ["7", "owner"] {
            ledger.reminders.create_reminder(&reminder(person), &ReminderLimits::default()).await.unwrap();
        }
        ledger.inbox.receive(&message_in(chat, &format!("{chat} behind"), "and?"), ClaimMode::Never).await.unwrap();
        let own = ForgetScope::Own { person: "console:7".parse().unwrap(), keeps_agent };
        let forgets = CompletedTurn { history: HistoryChange::Forget(own), ..completed_turn(command, Vec::new()) };
        ledger.turns.complete_turn(&lease, &forgets).await.unwrap();

        let next = ledger.turns.next_turn(&lease).await.unwrap().expect("a message waits");
        let expected = ConversationSettings {
            voice_replies: false,
            agent: keeps_agent.then(|| "cook".to_owned()),
            persona: Some("a pirate".to_owned()),
            model: Some("small".to_owned()),
            blocks: None,
            blocks_offered_at: None,
        };
        assert_eq!((next.history.len(), next.settings), (0, expected));
        let scope = ReminderScope { conversation: Some(lease.conversation), ..ReminderScope::default() };
        let left = ledger.reminders.list_reminders(&ReminderQuery { scope, limit: 9 }).await.unwrap();
        assert_eq!(left.iter().map(|reminder| reminder.content.text()).collect::<Vec<_>>(), ["owner"]);
    }
}

/// Catches: a job that forgets its conversation, and with it a message of another program that nobody has seen.
pub async fn turn_forgets_nothing_that_still_waits(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, waiting) = receive(&ledger, &message_in("web:a", "1", "the oven is hot")).await;
    let command = ledger.inbox.receive(&message_in("web:a", "2", "forget all"), ClaimMode::Never).await.unwrap().turn;
    ledger.inbox.receive(&message_in("web:a", "3", "and now?"), ClaimMode::Never).await.unwrap();
    assert!(ledger.archive.has_earlier_work(command).await.unwrap());
    let forgets = CompletedTurn {
        history: HistoryChange::Forget(ForgetScope::Everything),
        ..completed_turn(command, text_parts(&["done"]))
    };
    ledger.turns.complete_turn(&lease, &forgets).await.unwrap_err();
    let next = ledger.turns.next_turn(&lease).await.unwrap().expect("it still waits");
    assert_eq!((next.id, next.messages[0].message.text.as_str()), (waiting, "the oven is hot"));

    ledger.turns.complete_turn(&lease, &completed_turn(waiting, Vec::new())).await.unwrap();
    assert!(!ledger.archive.has_earlier_work(command).await.unwrap(), "what comes later doesn't count");
    assert!(ledger.turns.complete_turn(&lease, &forgets).await.unwrap().is_some());
}

/// Catches: a conversation that is forgotten under the hands of a turn or of a delivery.
pub async fn busy_conversation_is_not_forgotten(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message_in("web:a", "1", "hello")).await;
    let forget = async || ledger.conversations.forget_conversation(&lease.conversation).await.unwrap();
    assert_eq!(forget().await, ForgetConversationOutcome::Busy, "its turn runs");
    let part = ledger.turns.complete_turn(&lease, &completed_turn(turn, text_parts(&["reply"]))).await.unwrap();
    assert_eq!(forget().await, ForgetConversationOutcome::Busy, "the reply is being sent");
    settle(&ledger, &lease, &sent_settlement(&part.expect("it is begun"), "5")).await;
    ledger.inbox.receive(&message_in("web:a", "2", "another"), ClaimMode::Never).await.unwrap();
    assert_eq!(forget().await, ForgetConversationOutcome::Busy, "a message waits");
    let lease = ledger
        .leases
        .claim_lane(&[lease.conversation.channel().clone()], WorkFilter::Any)
        .await
        .unwrap()
        .unwrap()
        .lease;
    let turn = ledger.turns.next_turn(&lease).await.unwrap().unwrap().id;
    ledger.turns.complete_turn(&lease, &completed_turn(turn, Vec::new())).await.unwrap();
    assert_eq!(forget().await, ForgetConversationOutcome::Forgotten(Vec::new()));
}

/// Catches: files of a forgotten conversation that still count for the person who brought them.
pub async fn forgotten_conversation_frees_quota(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    for name in ["web:a", "web:b"] {
        let sent = InboundMessage { sender: Sender::new("7", "Ada"), ..message_in(name, name, "hello") };
        let (lease, turn) = receive(&ledger, &sent).await;
        ledger.turns.register_files(turn, &[new_file("a.txt"), new_file("b.txt")]).await.unwrap();
        ledger.storage.record_workspace(&lease.conversation, 100).await.unwrap();
        ledger.turns.complete_turn(&lease, &completed_turn(turn, Vec::new())).await.unwrap();
    }
    ledger.conversations.forget_conversation(&conversation("web:a")).await.unwrap();
    // It goes on before its old workspace is recorded as empty.
    ledger.inbox.receive(&message_in("web:a", "again", "hello again"), ClaimMode::Never).await.unwrap();
    ledger.storage.record_workspace(&conversation("web:a"), 0).await.unwrap();
    assert_eq!(ledger.conversations.list_forgotten_workspaces().await.unwrap(), [], "what it has is its own");
    let person = UsageScope::Person("web:7".parse().unwrap());
    let usage = ledger.storage.usages(&UsageQuery::Scopes(vec![person])).await.unwrap();
    let counted = (usage[0].files, usage[0].bytes, usage[0].workspace_bytes);
    assert_eq!(counted, (2, 6, 100), "that of the other conversation");
}

/// Catches: a name that stays behind when its conversation is renamed.
pub async fn renamed_conversation_keeps_its_listing(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    exchange(&ledger, &message_in("web:a", "1", "hello"), "reply").await;
    let named = [ListingChange::Name(Some("Holiday".into()))];
    ledger.conversations.change_listing(&conversation("web:a"), &named).await.unwrap();
    let to: ConversationId = conversation("web:z");
    let renamed = ledger.inbox.rename_conversation(&conversation("web:a"), &to).await.unwrap();
    assert_eq!(renamed, RenameOutcome::Renamed);
    assert_eq!(search(&ledger, "holiday").await, ["web:z: [Holiday]"]);
    assert_eq!(search(&ledger, "hello").await, ["web:z: [hello]\nreply"]);
}

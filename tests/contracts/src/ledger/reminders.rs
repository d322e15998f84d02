//! Promises about reminders: once for each key, within their limits, cancelled by whom they concern, gone with their
//! conversation.

use satchel_domain::{
    AttachmentId, InboundMessage, ReminderAuthor, ReminderContent, ReminderId, Sender, Timestamp, TurnId,
};
use satchel_ports::ledger::{
    ClaimMode, CreateReminderOutcome, ForgetConversationOutcome, Ledger, LedgerError, NewReminder, PersonKey,
    QueuedMessage, Reminder, ReminderLimits, ReminderQuery, ReminderScope, RenameOutcome,
};
use uuid::Uuid;

use super::{LedgerFixture, completed_turn, conversation, message, receive, with_files};

const MAX: u32 = 3;

const LIMITS: ReminderLimits = ReminderLimits { per_person: MAX, per_turn: 2 };

/// The turn of which nothing more is of interest.
const TURN: TurnId = TurnId(Uuid::from_u128(1));

fn text_reminder(key: &str, text: &str, next_at: i64) -> NewReminder {
    NewReminder {
        key: key.to_owned(),
        conversation: conversation("console:main"),
        person: Sender::new("7", "Ada"),
        group: false,
        content: ReminderContent::Message { text: text.to_owned(), files: Vec::new() },
        next_at: Timestamp(next_at),
        cron: None,
        timezone: None,
        author: ReminderAuthor::Person,
        made_at: Timestamp(7),
        turn: TURN,
    }
}

async fn create(ledger: &Ledger, reminder: &NewReminder) -> Option<Reminder> {
    match ledger.reminders.create_reminder(reminder, &LIMITS).await.unwrap() {
        CreateReminderOutcome::Created(reminder) => Some(*reminder),
        CreateReminderOutcome::LimitReached | CreateReminderOutcome::TurnLimitReached => None,
    }
}

async fn listed(ledger: &Ledger, scope: ReminderScope) -> Vec<String> {
    let query = ReminderQuery { scope, limit: 100 };
    let reminders = ledger.reminders.list_reminders(&query).await.unwrap();
    reminders.into_iter().map(|reminder| reminder.content.text().to_owned()).collect()
}

async fn all(ledger: &Ledger) -> Vec<String> {
    listed(ledger, ReminderScope::default()).await
}

fn ada() -> PersonKey {
    "console:7".parse().unwrap()
}

/// Catches: a turn that runs again after a crash and makes a second reminder, also when the first has ended; and a field
/// that is lost at a restart.
pub async fn reminder_is_stored_once_for_its_key(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let nowhere = ledger.reminders.create_reminder(&text_reminder("k", "tea", 50), &LIMITS).await;
    assert!(matches!(nowhere, Err(LedgerError::Unknown { .. })), "{nowhere:?}");
    receive(&ledger, &message("1", "/remind")).await;
    let wanted = NewReminder {
        group: true,
        content: ReminderContent::Message { text: "tea".into(), files: vec![AttachmentId(Uuid::from_u128(9))] },
        cron: Some("0 9 * * *".into()),
        timezone: Some("Europe/Berlin".into()),
        author: ReminderAuthor::Model,
        ..text_reminder("k", "tea", 50)
    };
    let first = create(&ledger, &wanted).await.unwrap();
    drop(ledger);
    let ledger = fixture.open().await;
    let again = create(&ledger, &text_reminder("k", "coffee", 60)).await.unwrap();
    assert_eq!(first, again);
    let NewReminder { conversation, person, group, content, next_at, cron, timezone, author, made_at, .. } = wanted;
    let (id, made_at) = (first.id, Some(made_at));
    let expected = Reminder { id, conversation, person, group, content, next_at, cron, timezone, author, made_at };
    assert_eq!(first, expected);
    ledger.reminders.cancel_reminder(first.id, &ReminderScope::default(), TURN).await.unwrap().unwrap();
    assert_eq!(create(&ledger, &text_reminder("k", "coffee", 60)).await.unwrap().id, first.id);
    assert_eq!(all(&ledger).await, [] as [&str; 0]);
    let other = create(&ledger, &text_reminder("other", "coffee", 60)).await.unwrap();
    assert!(other.id > first.id, "a number is not used again");
}

/// Catches: one person who fills the database, or who takes up the room of another; and a key whose repeat is refused.
pub async fn person_has_limited_reminders(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    receive(&ledger, &message("1", "/remind")).await;
    let mut ids = Vec::new();
    for number in 0..MAX {
        ids.push(create(&ledger, &text_reminder(&number.to_string(), "x", 50)).await.unwrap().id);
    }
    assert_eq!(create(&ledger, &text_reminder("more", "x", 50)).await, None);
    assert_eq!(create(&ledger, &text_reminder("0", "x", 50)).await.map(|repeated| repeated.id), Some(ids[0]));
    let other = NewReminder { person: Sender::new("8", "Eve"), ..text_reminder("eve", "x", 50) };
    assert!(create(&ledger, &other).await.is_some());
    ledger.reminders.cancel_reminder(ids[1], &ReminderScope::default(), TURN).await.unwrap().unwrap();
    assert!(create(&ledger, &text_reminder("more", "x", 50)).await.is_some(), "there is room again");
}

/// Catches: a document that has a model plant as many as it likes, also by cancelling some of them; and a person whom the
/// limit of models binds.
pub async fn models_of_a_turn_make_few_reminders(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (_, turn) = receive(&ledger, &message("1", "read the letter")).await;
    let planted = |key: &str| NewReminder { author: ReminderAuthor::Model, turn, ..text_reminder(key, key, 50) };
    let first = create(&ledger, &planted("a")).await.unwrap();
    create(&ledger, &planted("b")).await.unwrap();
    ledger.reminders.cancel_reminder(first.id, &ReminderScope::default(), TURN).await.unwrap().unwrap();
    let third = ledger.reminders.create_reminder(&planted("c"), &LIMITS).await.unwrap();
    assert_eq!(third, CreateReminderOutcome::TurnLimitReached);
    assert_eq!(
        create(&ledger, &planted("b")).await.map(|repeated| repeated.content.text().to_owned()).as_deref(),
        Some("b")
    );
    assert!(create(&ledger, &NewReminder { turn, ..text_reminder("own", "own", 60) }).await.is_some());
    let other = NewReminder { turn: TurnId(Uuid::from_u128(2)), ..planted("d") };
    assert!(create(&ledger, &other).await.is_some(), "another turn has its own");
    let made_in = ReminderScope { made_in: Some(turn), ..ReminderScope::default() };
    assert_eq!(listed(&ledger, made_in).await, ["b"]);
}

/// Catches: a time that is run twice or skipped because two processes, or one that was killed, advance a reminder.
pub async fn reminder_advances_from_its_time_only(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    receive(&ledger, &message("1", "/remind")).await;
    let id = create(&ledger, &text_reminder("daily", "daily", 50)).await.unwrap().id;
    create(&ledger, &text_reminder("early", "early", 40)).await.unwrap();
    assert_eq!(all(&ledger).await, ["early", "daily"]);
    let advance = async |due: i64, next: Option<i64>| {
        ledger.reminders.advance_reminder(id, Timestamp(due), next.map(Timestamp)).await.unwrap();
        let query = ReminderQuery { limit: 100, ..ReminderQuery::default() };
        let reminders = ledger.reminders.list_reminders(&query).await.unwrap();
        reminders.into_iter().find(|reminder| reminder.id == id).map(|reminder| reminder.next_at.0)
    };
    assert_eq!(advance(50, Some(30)).await, Some(30));
    assert_eq!(all(&ledger).await, ["daily", "early"], "the next due first");
    assert_eq!(advance(50, Some(80)).await, Some(30), "it is not due then any more");
    assert_eq!(advance(50, None).await, Some(30));
    assert_eq!(advance(30, None).await, None);
    assert_eq!(advance(30, Some(90)).await, None, "it has ended");
    let first = ReminderQuery { limit: 1, ..ReminderQuery::default() };
    assert_eq!(ledger.reminders.list_reminders(&first).await.unwrap().len(), 1);
}

/// Catches: a person who sees or cancels what belongs to somebody else, and a scope that is too narrow for an owner.
pub async fn reminders_are_listed_and_cancelled_in_scope(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    receive(&ledger, &message("1", "/remind")).await;
    let elsewhere = InboundMessage { conversation: conversation("web:b"), ..message("2", "/remind") };
    ledger.inbox.receive(&elsewhere, ClaimMode::IfFree).await.unwrap();
    let mine = create(&ledger, &text_reminder("a", "mine", 10)).await.unwrap();
    let eve = Sender::new("8", "Eve");
    let theirs = NewReminder { person: eve.clone(), ..text_reminder("b", "theirs", 20) };
    let theirs = create(&ledger, &theirs).await.unwrap();
    let of_web = NewReminder { conversation: conversation("web:b"), ..text_reminder("c", "web", 30) };
    let of_web = create(&ledger, &of_web).await.unwrap();
    let by_person = ReminderScope { person: Some(ada()), ..ReminderScope::default() };
    let by_channel = ReminderScope {
        channels: Some(vec![conversation("console:main").channel().clone()]),
        ..ReminderScope::default()
    };
    let by_conversation = ReminderScope { conversation: Some(conversation("web:b")), ..ReminderScope::default() };
    assert_eq!(listed(&ledger, by_person.clone()).await, ["mine"], "the same id on another channel is another person");
    assert_eq!(listed(&ledger, by_channel.clone()).await, ["mine", "theirs"]);
    assert_eq!(listed(&ledger, by_conversation.clone()).await, ["web"]);
    assert_eq!(all(&ledger).await, ["mine", "theirs", "web"]);
    let cancel =
        async |id: ReminderId, scope: &ReminderScope| ledger.reminders.cancel_reminder(id, scope, TURN).await.unwrap();
    assert_eq!(cancel(theirs.id, &by_person).await, None);
    assert_eq!(cancel(of_web.id, &by_channel).await, None);
    assert_eq!(cancel(ReminderId(u64::MAX), &by_channel).await, None);
    assert_eq!(cancel(theirs.id, &by_channel).await, Some(theirs.clone()));
    assert_eq!(cancel(theirs.id, &by_channel).await, None, "it has ended");
    assert_eq!(cancel(mine.id, &by_person).await, Some(mine));
    assert_eq!(all(&ledger).await, ["web"]);
}

/// Catches: a turn that doesn't find what its calls have cancelled when their outcomes are lost, and one that finds what another
/// has cancelled, or what has ended otherwise.
pub async fn cancelled_reminders_are_listed_for_their_turn(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    receive(&ledger, &message("1", "read the letter")).await;
    let [turn, other] = [5, 6].map(|turn| TurnId(Uuid::from_u128(turn)));
    for (key, cancelled_in) in [("mine", turn), ("theirs", other)] {
        let made = create(&ledger, &text_reminder(key, key, 50)).await.unwrap();
        let scope = ReminderScope::default();
        assert!(ledger.reminders.cancel_reminder(made.id, &scope, cancelled_in).await.unwrap().is_some());
        assert_eq!(ledger.reminders.cancel_reminder(made.id, &scope, TURN).await.unwrap(), None);
    }
    create(&ledger, &text_reminder("left", "left", 60)).await.unwrap();
    let cancelled_in = ReminderScope { cancelled_in: Some(turn), ..ReminderScope::default() };
    assert_eq!(listed(&ledger, cancelled_in.clone()).await, ["mine"]);
    assert_eq!(all(&ledger).await, ["left"]);
    assert_eq!(ledger.reminders.end_reminders(&cancelled_in).await.unwrap(), 0, "it has ended");
    assert_eq!(ledger.reminders.end_reminders(&ReminderScope::default()).await.unwrap(), 1);
    assert_eq!(listed(&ledger, cancelled_in).await, ["mine"]);
}

/// Catches: a person without access whose reminders go on, and one with access who loses them with another's.
pub async fn people_with_reminders_are_listed_and_ended(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    receive(&ledger, &message("1", "/remind")).await;
    create(&ledger, &text_reminder("a", "one", 10)).await.unwrap();
    let renamed = NewReminder { person: Sender::new("7", "Ada L."), ..text_reminder("b", "two", 20) };
    create(&ledger, &renamed).await.unwrap();
    create(&ledger, &NewReminder { person: Sender::new("8", "Eve"), ..text_reminder("c", "three", 30) }).await.unwrap();
    let channels = [conversation("console:main").channel().clone()];
    let people = async || {
        let people = ledger.reminders.list_reminder_people(&channels).await.unwrap();
        people.into_iter().map(|person| format!("{} {}", person.channel, person.person.name)).collect::<Vec<_>>()
    };
    assert_eq!(people().await, ["console Ada L.", "console Eve"]);
    let web = [conversation("web:b").channel().clone()];
    assert_eq!(ledger.reminders.list_reminder_people(&web).await.unwrap(), []);
    let of_ada = ReminderScope { person: Some(ada()), ..ReminderScope::default() };
    let elsewhere = ReminderScope { conversation: Some(conversation("console:other")), ..of_ada.clone() };
    assert_eq!(ledger.reminders.end_reminders(&elsewhere).await.unwrap(), 0);
    assert_eq!(ledger.reminders.end_reminders(&of_ada).await.unwrap(), 2);
    assert_eq!(ledger.reminders.end_reminders(&of_ada).await.unwrap(), 0);
    assert_eq!((people().await, all(&ledger).await), (vec!["console Eve".to_owned()], vec!["three".to_owned()]));
}

/// Catches: a reminder that outlives its conversation, or that stays behind under the old name.
pub async fn reminders_follow_their_conversation(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "/remind")).await;
    create(&ledger, &text_reminder("a", "tea", 10)).await.unwrap();
    ledger.turns.complete_turn(&lease, &completed_turn(turn, Vec::new())).await.unwrap();
    let (from, to) = (conversation("console:main"), conversation("console:renamed"));
    assert_eq!(ledger.inbox.rename_conversation(&from, &to).await.unwrap(), RenameOutcome::Renamed);
    let of = |conversation| ReminderScope { conversation: Some(conversation), ..ReminderScope::default() };
    assert_eq!(
        (listed(&ledger, of(from)).await, listed(&ledger, of(to.clone())).await),
        (vec![], vec!["tea".to_owned()])
    );
    let forgotten = ledger.conversations.forget_conversation(&to).await.unwrap();
    assert!(matches!(forgotten, ForgetConversationOutcome::Forgotten(_)), "{forgotten:?}");
    assert_eq!(all(&ledger).await, [] as [&str; 0]);
    let left = ledger.reminders.end_reminders(&ReminderScope::default()).await.unwrap();
    assert_eq!(left, 0, "nothing is left of it");
}

/// Catches: a zone that holds for everybody, or that can't be taken back.
pub async fn timezone_is_kept_for_each_person(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let eve: PersonKey = "console:8".parse().unwrap();
    let zone = async |ledger: &Ledger, person: &PersonKey| ledger.reminders.load_timezone(person).await.unwrap();
    for name in ["Europe/Berlin", "Asia/Tokyo"] {
        ledger.reminders.save_timezone(&ada(), Some(name.to_owned())).await.unwrap();
    }
    drop(ledger);
    let ledger = fixture.open().await;
    assert_eq!((zone(&ledger, &ada()).await.as_deref(), zone(&ledger, &eve).await), (Some("Asia/Tokyo"), None));
    ledger.reminders.save_timezone(&ada(), None).await.unwrap();
    assert_eq!(zone(&ledger, &ada()).await, None);
}

/// Catches: a message that is read without the zone that its sender has chosen, or with another person's, however it is read.
pub async fn messages_are_read_with_their_senders_timezone(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    ledger.reminders.save_timezone(&ada(), Some("Asia/Tokyo".to_owned())).await.unwrap();
    let first = ledger.inbox.receive(&message("1", "one"), ClaimMode::IfFree).await.unwrap();
    let claimed = first.claimed.expect("the lane was free");
    let handed_over = claimed.turn.expect("it comes with its turn");
    let zone = |queued: &QueuedMessage| queued.origin().timezone;
    assert_eq!(zone(&handed_over.messages[0]).as_deref(), Some("Asia/Tokyo"));
    let by_eve = InboundMessage { sender: Sender::new("8", "Eve"), ..message("2", "two") };
    for message in [by_eve, with_files(message("3", "three"), &["a.txt"])] {
        ledger.inbox.receive(&message, ClaimMode::Never).await.unwrap();
    }
    let waiting = ledger.turns.list_queued_behind(&claimed.lease, first.turn).await.unwrap();
    assert_eq!(waiting.iter().map(zone).collect::<Vec<_>>(), [None, Some("Asia/Tokyo".to_owned())]);
    ledger.reminders.save_timezone(&ada(), Some("Europe/Berlin".to_owned())).await.unwrap();
    let read = ledger.turns.next_turn(&claimed.lease).await.unwrap().unwrap();
    assert_eq!(zone(&read.messages[0]).as_deref(), Some("Europe/Berlin"), "the one that holds now");
}

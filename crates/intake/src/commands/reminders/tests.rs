//! What people read when they make, list and cancel reminders, and what of it is stored.

use std::sync::{Arc, Mutex};

use rstest::rstest;
use satchel_domain::{ConversationId, Sender, TurnId};
use satchel_ports::MockReminders;
use uuid::Uuid;

use super::*;
use crate::{
    access::AccessPolicy,
    commands::{
        ChatCommand,
        tests::{access, command_context, without_owner},
    },
};

/// Friday noon in Berlin.
const NOW: Timestamp = Timestamp(1_796_382_000_000);

fn berlin() -> Zone {
    Zone::find("Europe/Berlin").unwrap()
}

/// What a command stores, and the zone that its person has chosen.
#[derive(Default)]
struct Store {
    created: Arc<Mutex<Vec<NewReminder>>>,
    timezones: Arc<Mutex<Vec<Option<String>>>>,
    zone: Option<&'static str>,
    /// What is answered in place of a new reminder.
    refusal: Option<CreateReminderOutcome>,
    has_schedules: bool,
    listed: Vec<Reminder>,
    scopes: Arc<Mutex<Vec<ReminderScope>>>,
}

impl Store {
    fn port(&self) -> MockReminders {
        let mut port = MockReminders::new();
        let zone = self.zone;
        port.expect_load_timezone().returning(move |_| Ok(zone.map(str::to_owned)));
        let (created, refusal) = (Arc::clone(&self.created), self.refusal.clone());
        port.expect_create_reminder().returning(move |new, limits| {
            assert_eq!(limits.per_person, 100);
            created.lock().unwrap().push(new.clone());
            let stored = || CreateReminderOutcome::Created(Box::new(stored(3, new.clone())));
            Ok(refusal.clone().unwrap_or_else(stored))
        });
        let timezones = Arc::clone(&self.timezones);
        port.expect_save_timezone().returning(move |_, timezone| {
            timezones.lock().unwrap().push(timezone);
            Ok(())
        });
        let (listed, scopes) = (self.listed.clone(), Arc::clone(&self.scopes));
        port.expect_list_reminders().returning(move |query| {
            scopes.lock().unwrap().push(query.scope.clone());
            Ok(listed.iter().take(query.limit as usize).cloned().collect())
        });
        let (listed, scopes) = (self.listed.clone(), Arc::clone(&self.scopes));
        port.expect_cancel_reminder().returning(move |id, scope, turn| {
            assert_eq!(turn, TurnId(Uuid::nil()));
            scopes.lock().unwrap().push(scope.clone());
            Ok(listed.iter().find(|reminder| reminder.id == id).cloned())
        });
        let (count, scopes) = (self.listed.len() as u64, Arc::clone(&self.scopes));
        port.expect_end_reminders().returning(move |scope| {
            scopes.lock().unwrap().push(scope.clone());
            Ok(count)
        });
        port
    }

    /// The reply to a command in a private chat.
    async fn reply(&self, text: &str, access: &AccessPolicy) -> String {
        self.reply_in(text, &command_context(access)).await
    }

    async fn reply_in(&self, text: &str, context: &CommandContext<'_>) -> String {
        let (port, zone) = (self.port(), berlin());
        let elsewhere = "discord:9".parse().unwrap();
        let schedule = |name, conversation, minutes: i64| ConfiguredSchedule {
            name,
            conversation,
            next_at: Timestamp(NOW.0 + minutes * 60_000),
        };
        let configured = [schedule("evening", &elsewhere, 420), schedule("morning", context.conversation, 60)];
        let configured = if self.has_schedules { &configured[..] } else { &[] };
        let clock = Some(ReminderClock { default_zone: &zone, now: NOW, configured });
        let reply = match ChatCommand::parse(text).unwrap() {
            ChatCommand::Remind(text) => create_reminder(&text, &port, context, clock).await,
            ChatCommand::Schedules(command) => handle_schedules(&command, &port, context, clock).await,
            ChatCommand::Timezone(name) => handle_timezone(name.as_deref(), &port, context, clock).await,
            other => panic!("{other:?}"),
        };
        reply.unwrap().text.unwrap()
    }
}

fn stored(id: u64, new: NewReminder) -> Reminder {
    let NewReminder { conversation, person, group, content, next_at, cron, timezone, author, made_at, .. } = new;
    let (id, made_at) = (ReminderId(id), Some(made_at));
    Reminder { id, conversation, person, group, content, next_at, cron, timezone, author, made_at }
}

fn reminder(id: u64, person: &str, content: ReminderContent) -> Reminder {
    Reminder {
        id: ReminderId(id),
        conversation: "telegram:5".parse().unwrap(),
        person: Sender::new(person, "Eve"),
        group: false,
        content,
        next_at: Timestamp(NOW.0 + 60_000),
        cron: None,
        timezone: None,
        author: ReminderAuthor::Person,
        made_at: Some(NOW),
    }
}

fn message(text: &str) -> ReminderContent {
    ReminderContent::Message { text: text.to_owned(), files: Vec::new() }
}

#[rstest]
#[case::clock("/remind 18:30 call *mum*", None, "on Friday 2026-12-04 at 18:30 (Europe/Berlin).")]
#[case::delay("/remind in 20m call *mum*", None, "on Friday 2026-12-04 at 12:20 (Europe/Berlin).")]
#[case::date("/Remind 2026-12-24 18:30 call *mum*", None, "on Thursday 2026-12-24 at 18:30 (Europe/Berlin).")]
#[case::own_zone("/remind 18:30 call *mum*", Some("America/New_York"), "2026-12-04 at 18:30 (America/New_York).")]
#[case::zone_is_gone("/remind 18:30 call *mum*", Some("Mars/Base"), "2026-12-04 at 18:30 (Europe/Berlin).")]
#[tokio::test]
async fn reminder_is_made_in_local_time(#[case] text: &str, #[case] zone: Option<&'static str>, #[case] says: &str) {
    let store = Store { zone, ..Store::default() };
    let reply = store.reply(text, &without_owner()).await;
    assert!(reply.starts_with("I'll remind you on ") && reply.contains(says), "{reply}");
    assert!(reply.ends_with("`/schedules cancel 3` cancels it."), "{reply}");
    let created = store.created.lock().unwrap().clone();
    let [made] = created.as_slice() else { panic!("{created:?}") };
    assert_eq!((&made.content, &made.cron, made.group), (&message("call *mum*"), &None, false));
    assert_eq!(made.key, TurnId(Uuid::nil()).to_string(), "the turn that is run again makes no second one");
    assert_eq!((made.author, made.made_at, made.turn), (ReminderAuthor::Person, NOW, TurnId(Uuid::nil())));
}

#[rstest]
#[case::help("/remind", "When, and of what?")]
#[case::no_text("/remind 18:30", "When, and of what?")]
#[case::past(
    "/remind 2026-12-03 18:30 x",
    "I made no reminder: that time has passed: it is Friday 2026-12-04 at 12:00"
)]
#[case::gap("/remind 2027-03-28 02:30 x", "I made no reminder: there is no 2027-03-28 02:30 in Europe/Berlin")]
#[case::year_9999("/remind 9999-01-01 00:00 x", "I made no reminder: that is too far ahead")]
#[tokio::test]
async fn impossible_reminder_is_explained(#[case] text: &str, #[case] says: &str) {
    let store = Store::default();
    let reply = store.reply(text, &without_owner()).await;
    assert!(reply.starts_with(says), "{reply}");
    assert!(store.created.lock().unwrap().is_empty());
}

#[tokio::test]
async fn long_text_and_one_reminder_too_many_are_refused() {
    let store = Store { refusal: Some(CreateReminderOutcome::LimitReached), ..Store::default() };
    let reply = store.reply(&format!("/remind 18:30 {}", "й".repeat(4_001)), &without_owner()).await;
    assert!(reply.contains("it has 4001 characters, and 4000 is the most"), "{reply}");
    assert!(store.created.lock().unwrap().is_empty());
    let reply = store.reply(&format!("/remind 18:30 {}", "й".repeat(4_000)), &without_owner()).await;
    assert!(reply.starts_with("I made no reminder: you have 100, which is the most."), "{reply}");
    let store = Store { refusal: Some(CreateReminderOutcome::TurnLimitReached), ..Store::default() };
    let reply = store.reply("/remind 18:30 tea", &without_owner()).await;
    assert_eq!(reply, "I made no reminder. Please send the command again.", "the limit of a person is another one");
}

#[test]
fn other_wording_goes_to_the_model() {
    for text in ["/remind tomorrow at 9 call mum", "/remind me", "/remind 25:99 x"] {
        assert_eq!(ChatCommand::parse(text), None, "{text}");
    }
}

#[tokio::test]
async fn list_shows_times_and_excerpts() {
    let file = satchel_domain::AttachmentId(Uuid::from_u128(1));
    let daily = Reminder {
        cron: Some("0 9 * * *".into()),
        timezone: Some("Asia/Tokyo".into()),
        author: ReminderAuthor::Model,
        ..reminder(4, "7", ReminderContent::Prompt("the `news`\nof today".into()))
    };
    let with_file = ReminderContent::Message { text: String::new(), files: vec![file] };
    let listed = vec![reminder(3, "7", message("tea")), daily, reminder(5, "7", with_file)];
    let store = Store { listed, ..Store::default() };
    let strict = without_owner();
    let (conversation, sender) = ("telegram:5".parse::<ConversationId>().unwrap(), Sender::new("7", "Ada"));
    let context = CommandContext { conversation: &conversation, sender: &sender, ..command_context(&strict) };
    let expected = "Reminders, the next one first:\n\n\
        - 3: Friday 2026-12-04 at 12:01 (Europe/Berlin): `tea`\n\
        - 4: Friday 2026-12-04 at 20:01 (Asia/Tokyo), again at `0 9 * * *`: `the newsof today`, for the model, \
         set by me\n\
        - 5: Friday 2026-12-04 at 12:01 (Europe/Berlin), with 1 file\n\n\
        `/schedules cancel 3` cancels the first one.";
    assert_eq!(store.reply_in("/schedules", &context).await, expected);
    let many: Vec<Reminder> = (1..=40).map(|id| reminder(id, "7", message("x"))).collect();
    let text = Store { listed: many, ..Store::default() }.reply_in("/schedules", &context).await;
    assert!(text.contains("- 30: ") && !text.contains("- 31: ") && text.contains("- … and later ones"), "{text}");
    let none = Store::default().reply_in("/schedules", &context).await;
    assert_eq!(none, "There are no reminders. `/remind 18:30 TEXT` makes one.");
}

#[tokio::test]
async fn schedules_of_the_configuration_are_listed_where_they_run() {
    let store = Store { has_schedules: true, ..Store::default() };
    let (owned, strict) = (access(), without_owner());
    let here = "Schedules of the configuration:\n\n- `morning`: Friday 2026-12-04 at 13:00 (Europe/Berlin)";
    let elsewhere = "\n- `evening`: Friday 2026-12-04 at 19:00 (Europe/Berlin), in `discord:9`";
    for (access, group, expected) in [
        (&owned, false, format!("{here}{elsewhere}")),
        (&owned, true, here.to_owned()),
        (&strict, false, here.to_owned()),
        (&strict, true, here.to_owned()),
    ] {
        let context = CommandContext { group, ..command_context(access) };
        let text = store.reply_in("/schedules", &context).await;
        let expected = format!("There are no reminders. `/remind 18:30 TEXT` makes one.\n\n{expected}");
        assert_eq!(text, expected, "{group}");
    }
}

/// The attack: somebody who lists or cancels what others have made, or a group that reads a person's private reminders.
#[tokio::test]
async fn people_reach_their_own_and_owners_all() {
    let listed = vec![reminder(3, "8", message("tea"))];
    let (owned, strict) = (access(), without_owner());
    for (access, group) in [(&owned, false), (&owned, true), (&strict, false), (&strict, true)] {
        let store = Store { listed: listed.clone(), ..Store::default() };
        let context = CommandContext { group, ..command_context(access) };
        let is_owner = context.is_by_owner();
        let text = store.reply_in("/schedules", &context).await;
        assert!(text.contains(", by `Eve`, id `8` in `telegram:5`"), "{text}");
        let cancelled = store.reply_in("/schedules cancel #3", &context).await;
        assert_eq!(cancelled, "Reminder 3 is cancelled: `tea`");
        let expected = ReminderScope {
            person: (!is_owner).then(|| person_key(&context)),
            conversation: group.then(|| context.conversation.clone()),
            ..ReminderScope::default()
        };
        let scopes = store.scopes.lock().unwrap().clone();
        let with_channel = ReminderScope { channels: scopes[0].channels.clone(), ..expected };
        assert_eq!(scopes, [with_channel.clone(), with_channel], "{is_owner} {group}");
        assert!(is_owner || scopes[0].channels.is_none());
    }
    for text in ["/schedules cancel 4", "/schedules cancel tea"] {
        let reply = Store { listed: listed.clone(), ..Store::default() }.reply(text, &strict).await;
        assert!(reply.starts_with("There is no such reminder for you to cancel here."), "{reply}");
    }
    assert!(Store::default().reply("/schedules drop 3", &strict).await.contains("`/schedules cancel 3` cancels"));
}

/// The attack: a document has planted many. To cancel all cancels nobody else's, for an owner, too.
#[tokio::test]
async fn cancel_all_ends_own_reminders_alone() {
    let (owned, strict) = (access(), without_owner());
    let listed = || (1..=3).map(|id| reminder(id, "8", message("tea"))).collect();
    for (access, group) in [(&owned, false), (&owned, true), (&strict, false), (&strict, true)] {
        let store = Store { listed: listed(), ..Store::default() };
        let context = CommandContext { group, ..command_context(access) };
        let reply = store.reply_in("/schedules cancel ALL", &context).await;
        let here = if group { " in this group" } else { "" };
        assert_eq!(reply, format!("All 3 of your reminders{here} are cancelled."));
        let own = ReminderScope {
            person: Some(person_key(&context)),
            conversation: group.then(|| context.conversation.clone()),
            ..ReminderScope::default()
        };
        assert_eq!(*store.scopes.lock().unwrap(), [own], "{group}");
    }
    let none = Store::default().reply("/schedules cancel all", &strict).await;
    assert_eq!(none, "You have no reminders, so there is nothing to cancel.");
}

#[tokio::test]
async fn timezone_is_reported_set_and_reset() {
    let strict = without_owner();
    let chosen = Store { zone: Some("Asia/Tokyo"), ..Store::default() };
    let shown = chosen.reply("/timezone", &strict).await;
    assert!(shown.starts_with("For you it is Friday 2026-12-04 at 20:00 (Asia/Tokyo)."), "{shown}");
    let set = chosen.reply("/timezone america/new_york", &strict).await;
    assert!(set.starts_with("For you it is Friday 2026-12-04 at 06:00 (America/New_York) from now on."), "{set}");
    let reset = chosen.reply("/timezone RESET", &strict).await;
    assert!(reset.starts_with("For you it is Friday 2026-12-04 at 12:00 (Europe/Berlin) from now on."), "{reset}");
    let unknown = chosen.reply("/timezone Mars/`Base`", &strict).await;
    assert!(unknown.starts_with("I don't know the time zone `Mars/Base`."), "{unknown}");
    assert_eq!(*chosen.timezones.lock().unwrap(), [Some("America/New_York".to_owned()), None]);
}

#[tokio::test]
async fn nothing_is_promised_without_a_process_that_delivers() {
    let (strict, port) = (without_owner(), MockReminders::new());
    let context = command_context(&strict);
    for reply in [
        create_reminder("18:30 x", &port, &context, None).await,
        handle_schedules(&SchedulesCommand::List, &port, &context, None).await,
        handle_timezone(Some("UTC"), &port, &context, None).await,
    ] {
        assert_eq!(
            reply.unwrap().text.unwrap(),
            "I can't set reminders here: they need `satchel run` or a session of `satchel chat`."
        );
    }
}

/// A kill between the reminder and the end of its turn, until its time has passed.
#[tokio::test]
async fn interrupted_reminder_is_not_denied() {
    let (store, access) = (Store::default(), without_owner());
    let context = CommandContext { repeated: true, ..command_context(&access) };
    let reply = store.reply_in("/remind 2026-12-04 11:59 tea", &context).await;
    assert!(reply.contains("If it was made, you get it now"), "{reply}");
    let first = store.reply("/remind 2026-12-04 11:59 tea", &access).await;
    assert!(first.starts_with("I made no reminder: that time has passed"), "{first}");
    assert!(store.created.lock().unwrap().is_empty());
}

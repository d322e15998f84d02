//! The tools for reminders: what is stored, what the model reads, and what needs a confirmation.

use std::sync::{Arc, Mutex};

use satchel_domain::{ReminderId, Sender};
use satchel_ports::{
    ManualClock, MockReminders,
    ledger::{PersonKey, ReminderScope},
};

use super::*;
use crate::{
    ToolRegistry,
    fakes::{ToolHarness, attachment},
    reminder_services::reminder_tools,
};

/// Friday noon in Berlin.
const NOW: Timestamp = Timestamp(1_796_382_000_000);

/// What has its most reminders.
#[derive(Clone, Copy)]
enum Full {
    Person,
    Turn,
}

#[derive(Default)]
struct ReminderToolHarness {
    tools: Option<ToolHarness>,
    zone: Option<&'static str>,
    is_full: Option<Full>,
    group: bool,
    is_shared: bool,
    scheduled: bool,
    is_written_script: bool,
    created: Arc<Mutex<Vec<NewReminder>>>,
    scopes: Arc<Mutex<Vec<ReminderScope>>>,
    stored: Vec<Reminder>,
}

impl ReminderToolHarness {
    fn registry(&self, tools: &ToolHarness) -> ToolRegistry {
        let mut port = MockReminders::new();
        let (zone, is_full) = (self.zone, self.is_full);
        port.expect_load_timezone().returning(move |_| Ok(zone.map(str::to_owned)));
        let created = Arc::clone(&self.created);
        port.expect_create_reminder().returning(move |new, limits| {
            assert_eq!((limits.per_person, limits.per_turn), (100, 5));
            created.lock().unwrap().push(new.clone());
            let reminder = Reminder { cron: new.cron.clone(), ..reminder(3, new.content.clone(), new.next_at.0) };
            Ok(match is_full {
                Some(Full::Person) => CreateReminderOutcome::LimitReached,
                Some(Full::Turn) => CreateReminderOutcome::TurnLimitReached,
                None => CreateReminderOutcome::Created(reminder.into()),
            })
        });
        let (stored, scopes) = (self.stored.clone(), Arc::clone(&self.scopes));
        port.expect_list_reminders().returning(move |query| {
            scopes.lock().unwrap().push(query.scope.clone());
            Ok(stored.clone())
        });
        let (stored, scopes) = (self.stored.clone(), Arc::clone(&self.scopes));
        port.expect_cancel_reminder().returning(move |id, scope, _| {
            scopes.lock().unwrap().push(scope.clone());
            Ok(stored.iter().find(|reminder| reminder.id == id).cloned())
        });
        let reminders = ReminderServices { port: Arc::new(port), default_zone: Zone::find("Europe/Berlin").unwrap() };
        let mut registry = ToolRegistry::default();
        for tool in reminder_tools(tools.services(), reminders) {
            registry.register(tool).expect("it has an entry in the table of path fields");
        }
        registry
    }

    async fn call(&self, tool: &str, arguments: Value) -> Result<Value, String> {
        Ok(self.outcome(tool, arguments).await?.data.unwrap())
    }

    async fn outcome(&self, tool: &str, arguments: Value) -> Result<ToolOutcome, String> {
        let fresh = ToolHarness::new();
        let tools = self.tools.as_ref().unwrap_or(&fresh);
        let context = ToolContext {
            clock: Arc::new(ManualClock::at(NOW)),
            group: self.group,
            is_shared: self.is_shared,
            scheduled: self.scheduled,
            is_written_script: self.is_written_script,
            ..tools.context()
        };
        self.registry(tools).get(tool).unwrap().call(arguments, &context).await.map_err(|error| error.0)
    }

    async fn error(&self, arguments: Value) -> String {
        let error = self.call("schedule.create", arguments).await.unwrap_err();
        assert!(self.created.lock().unwrap().is_empty() || self.is_full.is_some(), "{error}");
        error
    }
}

fn reminder(id: u64, content: ReminderContent, next_at: i64) -> Reminder {
    Reminder {
        id: ReminderId(id),
        conversation: "console:main".parse().unwrap(),
        person: Sender::new("1", "Ada"),
        group: false,
        content,
        next_at: Timestamp(next_at),
        cron: None,
        timezone: None,
        author: ReminderAuthor::Person,
        made_at: Some(NOW),
    }
}

fn message(text: &str) -> ReminderContent {
    ReminderContent::Message { text: text.to_owned(), files: Vec::new() }
}

#[tokio::test]
async fn due_time_is_described_in_local_zone() {
    for (zone, arguments, due) in [
        (None, json!({"at": "2026-12-05T09:00", "text": "tea"}), "Saturday 2026-12-05 at 09:00 (Europe/Berlin)"),
        (None, json!({"at": "2026-12-05T09:00+09:00", "text": "tea"}), "Saturday 2026-12-05 at 01:00 (Europe/Berlin)"),
        (
            Some("Asia/Tokyo"),
            json!({"at": "2026-12-05T09:00", "text": "tea"}),
            "Saturday 2026-12-05 at 09:00 (Asia/Tokyo)",
        ),
        (
            Some("Asia/Tokyo"),
            json!({"at": "2026-12-05T09:00", "timezone": "UTC", "text": "tea"}),
            "Saturday 2026-12-05 at 09:00 (UTC)",
        ),
        (
            None,
            json!({"cron": "0 9 * * mon", "text": "tea", "prompt": " "}),
            "Monday 2026-12-07 at 09:00 (Europe/Berlin)",
        ),
    ] {
        let harness = ReminderToolHarness { zone, group: true, ..ReminderToolHarness::default() };
        let answer = harness.call("schedule.create", arguments.clone()).await.unwrap();
        assert_eq!((&answer["reminder"], &answer["due"]), (&json!(3), &json!(due)), "{arguments}");
        let created = harness.created.lock().unwrap().clone();
        let [made] = created.as_slice() else { panic!("{created:?}") };
        assert_eq!((&made.content, &made.person.id, made.group), (&message("tea"), &"1".to_owned(), true));
        let repeats = arguments["cron"].as_str().map(str::to_owned);
        assert_eq!((made.timezone.is_some(), &made.cron), (repeats.is_some(), &repeats), "its zone is kept with it");
    }
}

#[tokio::test]
async fn files_are_given_by_number_or_id() {
    let tools = ToolHarness::new();
    tools.add_record(attachment(12, "plan.pdf", "application/pdf", b"1"));
    let id = attachment(12, "plan.pdf", "application/pdf", b"1").id;
    let harness = ReminderToolHarness { tools: Some(tools), ..ReminderToolHarness::default() };
    let arguments = json!({"at": "2026-12-11T09:00", "attachments": ["#12", id, "12"]});
    harness.call("schedule.create", arguments).await.unwrap();
    let expected = ReminderContent::Message { text: String::new(), files: vec![id] };
    assert_eq!(harness.created.lock().unwrap()[0].content, expected);
    harness.created.lock().unwrap().clear();
    for unknown in ["#13", "ab", "018f0000-0000-7000-8000-000000000000"] {
        let error = harness.error(json!({"at": "2026-12-11T09:00", "attachments": [unknown]})).await;
        assert!(error.contains(&format!("`{unknown}` is no attachment of this conversation")), "{error}");
    }
    let many = vec!["#12"; 21];
    assert!(harness.error(json!({"at": "2026-12-11T09:00", "attachments": many})).await.contains("21 files are given"));
}

#[tokio::test]
async fn invalid_call_names_its_error() {
    let long = "й".repeat(4_001);
    for (arguments, says) in [
        (json!({"text": "x"}), "give either `at`, for what happens once, or `cron`"),
        (json!({"at": "2026-12-05T09:00", "cron": "0 9 * * *", "text": "x"}), "give either `at`"),
        (json!({"at": "tomorrow at 9", "text": "x"}), "`tomorrow at 9` is no date and time in ISO 8601"),
        (json!({"at": "tomorrow at 9", "text": "x"}), "it is Friday 2026-12-04 at 12:00 (Europe/Berlin) now"),
        (json!({"at": "2026-12-05", "text": "x"}), "`2026-12-05` is no date and time"),
        (json!({"at": "2026-12-04T11:59", "text": "x"}), "argument `at`: that time has passed: it is Friday"),
        (
            json!({"at": "2027-03-28T02:30", "text": "x"}),
            "argument `at`: there is no 2027-03-28 02:30 in Europe/Berlin",
        ),
        (json!({"at": "9999-12-31T23:59", "text": "x"}), "argument `at`: that is too far ahead"),
        (json!({"cron": "0 0 9 * * *", "text": "x"}), "argument `cron`: it has five fields"),
        (json!({"cron": "0 8 30 2 *", "text": "x"}), "argument `cron`: such a day never comes"),
        (
            json!({"cron": "0 9 * * *", "timezone": "Mars", "text": "x"}),
            "argument `timezone`: there is no time zone `Mars`",
        ),
        (json!({"at": "2026-12-05T09:00"}), "nothing to deliver: give `text`, `attachments` or `prompt`"),
        (json!({"at": "2026-12-05T09:00", "text": "x", "prompt": "y"}), "give either `prompt`"),
        (json!({"at": "2026-12-05T09:00", "text": long}), "argument `text`: it has 4001 characters, and at most 4000"),
        (json!({"when": "2026-12-05T09:00"}), "unknown field `when`"),
    ] {
        let error = ReminderToolHarness::default().error(arguments.clone()).await;
        assert!(error.contains(says), "{arguments}: `{says}` is not in `{error}`");
    }
    for (full, says) in [(Full::Person, "the person has 100, which is the most"), (Full::Turn, "this turn has made 5")]
    {
        let harness = ReminderToolHarness { is_full: Some(full), ..ReminderToolHarness::default() };
        let error = harness.error(json!({"at": "2026-12-05T09:00", "text": "x"})).await;
        assert!(error.contains(says), "{error}");
    }
}

/// The attack: a document has the model make or cancel reminders, and say nothing of it.
#[tokio::test]
async fn made_and_cancelled_reminders_are_named_to_the_person() {
    let tea = Reminder { timezone: Some("Asia/Tokyo".into()), ..reminder(4, message("tea"), NOW.0) };
    let harness = ReminderToolHarness { stored: vec![tea], ..ReminderToolHarness::default() };
    let arguments = json!({"cron": "0 9 * * mon", "text": "buy milk"});
    let made = harness.outcome("schedule.create", arguments).await.unwrap();
    let text = "I set reminder 3 for Monday 2026-12-07 at 09:00 (Europe/Berlin), again at `0 9 * * mon`: `buy milk`. \
                `/schedules cancel 3` cancels it.";
    assert_eq!(made.notices, [OutcomeNotice { made: Some(ReminderId(3)), cancelled: None, text: text.to_owned() }]);
    let new = harness.created.lock().unwrap()[0].clone();
    assert_eq!((new.author, new.made_at, new.key), (ReminderAuthor::Model, NOW, format!("{}/3", new.turn)));

    let cancelled = harness.outcome("schedule.cancel", json!({"reminder": 4})).await.unwrap();
    let text = "I cancelled reminder 4, due Friday 2026-12-04 at 20:00 (Asia/Tokyo): `tea`.";
    assert_eq!(
        cancelled.notices,
        [OutcomeNotice { made: None, cancelled: Some(ReminderId(4)), text: text.to_owned() }]
    );
}

/// The attack: somebody who writes into the turn of an owner has a prompt stored that later runs with the owner's rights.
#[tokio::test]
async fn prompt_of_several_people_is_refused() {
    let harness = ReminderToolHarness { is_shared: true, ..ReminderToolHarness::default() };
    for prompt in [json!({"at": "2026-12-05T09:00", "prompt": "write"}), json!({"cron": "0 9 * * *", "prompt": "x"})] {
        let error = harness.error(prompt).await;
        assert!(error.contains("you have read messages of several people"), "{error}");
    }
    harness.call("schedule.create", json!({"at": "2026-12-05T09:00", "text": "tea", "prompt": " "})).await.unwrap();
    let made = harness.created.lock().unwrap()[0].clone();
    assert!(!made.group, "the conversation doesn't become a group by that");
    harness.call("schedule.list", json!({})).await.unwrap();
    let scope = harness.scopes.lock().unwrap()[0].clone();
    assert_eq!(scope.conversation, Some("console:main".parse().unwrap()), "no reminder of elsewhere is shown");
}

#[tokio::test]
async fn reminder_of_a_written_script_is_its_persons() {
    for (is_written_script, author) in [(true, ReminderAuthor::Person), (false, ReminderAuthor::Model)] {
        let harness = ReminderToolHarness { is_written_script, ..ReminderToolHarness::default() };
        harness.call("schedule.create", json!({"at": "2026-12-05T09:00", "text": "tea"})).await.unwrap();
        assert_eq!(harness.created.lock().unwrap()[0].author, author);
    }
}

/// The attack: a document asks the model for a reminder that asks again and again, whatever the person does.
#[tokio::test]
async fn what_repeats_alone_needs_a_confirmation() {
    let tools = ToolHarness::new();
    let tool = ReminderToolHarness::default().registry(&tools).get("schedule.create").unwrap();
    for (arguments, tier) in [
        (json!({"at": "2026-12-05T09:00", "prompt": "x"}), SafetyTier::SideEffecting),
        (json!({"cron": "0 9 * * *", "text": "x"}), SafetyTier::SideEffecting),
        (json!({"cron": "0 * * * *", "text": "x"}), SafetyTier::SideEffecting),
        (json!({"cron": "0 9 * * *", "prompt": "x"}), SafetyTier::Privileged),
        (json!({"cron": "0,59 * * * *", "text": "x"}), SafetyTier::Privileged),
        (json!({"cron": "0,30 9 * * mon", "text": "x"}), SafetyTier::Privileged),
        (json!({"cron": "no cron", "text": "x"}), SafetyTier::SideEffecting),
    ] {
        assert_eq!(tool.tier(&arguments), tier, "{arguments}");
    }
    let scheduled = ReminderToolHarness { scheduled: true, ..ReminderToolHarness::default() };
    let error = scheduled.error(json!({"at": "2026-12-05T09:00", "text": "x"})).await;
    assert!(error.contains("what a schedule or a reminder starts can't make reminders"), "{error}");
}

#[tokio::test]
async fn only_the_persons_reminders_are_listed_and_cancelled() {
    let daily = Reminder {
        cron: Some("0 9 * * *".into()),
        timezone: Some("Asia/Tokyo".into()),
        author: ReminderAuthor::Model,
        ..reminder(4, ReminderContent::Prompt("news".into()), NOW.0)
    };
    for group in [false, true] {
        let harness = ReminderToolHarness {
            group,
            stored: vec![reminder(3, message("tea"), NOW.0), daily.clone()],
            ..ReminderToolHarness::default()
        };
        let listed = harness.call("schedule.list", json!({})).await.unwrap();
        let (due, here) = ("Friday 2026-12-04 at 12:00 (Europe/Berlin)", "console:main");
        let tokyo = "Friday 2026-12-04 at 20:00 (Asia/Tokyo)";
        let expected = json!({ "now": due, "reminders": [
            { "reminder": 3, "due": due, "conversation": here, "text": "tea" },
            { "reminder": 4, "due": tokyo, "conversation": here, "prompt": "news", "cron": "0 9 * * *", "made_by": "a model" },
        ] });
        assert_eq!(listed, expected);
        let cancelled = harness.call("schedule.cancel", json!({"reminder": 3})).await.unwrap();
        assert_eq!(cancelled, json!({"cancelled": 3, "was": "tea"}));
        let unknown = harness.call("schedule.cancel", json!({"reminder": 9})).await.unwrap_err();
        assert!(unknown.contains("the person has no reminder 9 here"), "{unknown}");
        let person: PersonKey = "console:1".parse().unwrap();
        let conversation = group.then(|| "console:main".parse().unwrap());
        let own = ReminderScope { person: Some(person), conversation, ..ReminderScope::default() };
        assert_eq!(*harness.scopes.lock().unwrap(), vec![own; 3]);
    }
}

#[test]
fn reminder_tool_specs_match_snapshot() {
    insta::assert_json_snapshot!("specs", ReminderToolHarness::default().registry(&ToolHarness::new()).specs());
}

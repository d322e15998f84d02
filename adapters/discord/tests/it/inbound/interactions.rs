//! Slash commands and pressed buttons: said by whoever used them, and answered once they are stored.

use satchel_fake_discord::{ApiRefusal, InteractionResponse, SentInteraction};
use satchel_fake_kit::{Fault, FaultTiming};
use serde_json::json;

use super::bench::{ANN, BOB, Bench, GENERAL, Log, Taker, bot_says, start, take, until};

const CALLBACK: &str = "POST /interactions/{}/{}/callback";
const OFFER: &str = "PUT /applications/{}/commands";
const OFFERED: &str = "GET /applications/{}/commands";

async fn offered(bench: &Bench) {
    until("the commands are offered", || bench.fake.commands().len() == 2).await;
}

fn interaction(bench: &Bench, channel: u64, id: u64) -> SentInteraction {
    let transcript = bench.fake.transcript();
    let found = transcript.channels[&channel].interactions.iter().find(|interaction| interaction.id == id);
    found.expect("it was made").clone()
}

async fn answer(bench: &Bench, channel: u64, id: u64) -> InteractionResponse {
    until("the interaction is answered", || interaction(bench, channel, id).answer.is_some()).await;
    interaction(bench, channel, id).answer.expect("it was waited for")
}

#[tokio::test]
async fn slash_command_is_stored_with_ephemeral_response() {
    let bench = start().await;
    let (fake, taker) = (&bench.fake, Taker::new());
    let listening = bench.connected(&taker).await;
    offered(&bench).await;
    let used = fake.person_commands(GENERAL, BOB, "resend", &[("words", json!("17"))]);
    let taken = take(&taker, 1).await;
    let answer = answer(&bench, GENERAL, used).await;
    listening.stop().await;
    assert_eq!((taken[0].text.as_str(), taken[0].sender.name.as_str(), taken[0].group), ("/resend 17", "Bob", true));
    assert_eq!((taken[0].key.as_str(), taken[0].message.clone()), (format!("i{used}").as_str(), None));
    assert_eq!(taken[0].conversation.key(), GENERAL.to_string());
    assert_eq!(answer, InteractionResponse { kind: 4, text: "`/resend 17`".into(), ephemeral: true });
    assert_eq!(fake.transcript().pings(), []);
}

#[tokio::test]
async fn button_press_sends_its_command_as_presser() {
    let bench = start().await;
    let (fake, taker) = (&bench.fake, Taker::new());
    let listening = bench.connected(&taker).await;
    let question = bot_says(&bench, bench.direct, "May I?", &["/allow A1", "buy shoes"]).await;
    let pressed = fake.person_presses(ANN, question, "/allow A1");
    let taken = take(&taker, 1).await;
    assert_eq!(
        answer(&bench, bench.direct, pressed).await,
        InteractionResponse { kind: 6, text: String::new(), ephemeral: false }
    );
    assert_eq!((taken[0].text.as_str(), taken[0].sender.name.as_str(), taken[0].group), ("/allow A1", "Ann", false));
    let nonsense = fake.person_presses(ANN, question, "buy shoes");
    assert_eq!(answer(&bench, bench.direct, nonsense).await.kind, 6, "it doesn't go on waiting");
    listening.stop().await;
    assert_eq!(taker.texts(), ["/allow A1"], "nobody has written the other");
}

#[tokio::test]
async fn interaction_gets_no_response_before_it_is_stored() {
    let bench = start().await;
    let (fake, taker) = (&bench.fake, Taker::new());
    let listening = bench.connected(&taker).await;
    let question = bot_says(&bench, GENERAL, "May I?", &["/allow A1"]).await;
    taker.fail(GENERAL, 3);
    let pressed = fake.person_presses(BOB, question, "/allow A1");
    taker.tried(1).await;
    assert_eq!((fake.requests(CALLBACK), taker.taken().len()), (0, 0));
    answer(&bench, GENERAL, pressed).await;
    assert_eq!(taker.texts(), ["/allow A1"]);
    listening.stop().await;
}

#[tokio::test]
async fn late_interaction_response_is_harmless() {
    let (log, _guard) = Log::listen();
    let bench = start().await;
    let (fake, taker) = (&bench.fake, Taker::new());
    let listening = bench.connected(&taker).await;
    let question = bot_says(&bench, GENERAL, "May I?", &["/allow A1"]).await;
    fake.script_next(CALLBACK, ApiRefusal::new(404, 10_062, "Unknown interaction"));
    fake.person_presses(BOB, question, "/allow A1");
    take(&taker, 1).await;
    until("it was answered", || fake.requests(CALLBACK) == 1).await;
    fake.person_says(GENERAL, ANN, &format!("{} and on", fake.mention()));
    take(&taker, 2).await;
    until("it is told", || log.text().contains("an interaction shows as failed")).await;
    listening.stop().await;
    let text = log.text();
    let line = text.lines().find(|line| line.contains("an interaction shows as failed")).unwrap();
    assert!(line.contains("DEBUG") && line.contains("10062"), "{line}");
}

#[tokio::test]
async fn interaction_token_is_neither_stored_nor_logged() {
    let (log, _guard) = Log::listen();
    let bench = start().await;
    let (fake, taker) = (&bench.fake, Taker::new());
    let listening = bench.connected(&taker).await;
    let question = bot_says(&bench, GENERAL, "May I?", &["/allow A1"]).await;
    fake.script_next(CALLBACK, Fault::ResetMidTransfer);
    let failed = fake.person_presses(BOB, question, "/allow A1");
    until("one answer failed", || log.text().contains("an interaction shows as failed")).await;
    fake.dispatch(
        "INTERACTION_CREATE",
        json!({ "id": "5", "type": 2, "token": "aW50ZXJhY3Rpb246-odd", "channel_id": "7" }),
    );
    until("one was unreadable", || taker.unreadable().len() == 1).await;
    let pressed = fake.person_presses(BOB, question, "/allow A1");
    answer(&bench, GENERAL, pressed).await;
    listening.stop().await;
    let kept = format!("{:?} {:?} {}", taker.taken(), taker.unreadable(), log.text());
    assert!(kept.contains(&failed.to_string()) && !kept.contains("aW50ZXJhY3Rpb246"), "{kept}");
}

#[tokio::test]
async fn commands_are_registered_once_until_they_change() {
    let mut bench = start().await;
    let listening = bench.connected(&Taker::new()).await;
    offered(&bench).await;
    listening.stop().await;
    let commands = bench.fake.commands();
    assert_eq!(commands[0]["name"], "files", "Discord takes lower case only");
    assert_eq!(commands[0]["contexts"], json!([0, 1]));
    let words = json!([{ "type": 3, "name": "words", "description": "What to add to the command", "required": false }]);
    let shown =
        |option: &serde_json::Value| ["type", "name", "description", "required"].map(|field| option[field].clone());
    assert_eq!(shown(&commands[0]["options"][0]), shown(&words[0]));
    assert_eq!(bench.fake.requests(OFFER), 1);

    let listening = bench.connected(&Taker::new()).await;
    until("what is offered was looked at", || bench.fake.requests(OFFERED) == 2).await;
    listening.stop().await;
    assert_eq!(bench.fake.requests(OFFER), 1, "they are there");

    bench.settings.commands[1].description = "send it once more".into();
    let listening = bench.connected(&Taker::new()).await;
    until("the new words are there", || bench.fake.commands()[1]["description"] == "send it once more").await;
    listening.stop().await;
    assert_eq!(bench.fake.requests(OFFER), 2);
}

#[tokio::test]
async fn choices_are_registered_up_to_the_limit() {
    let mut bench = start().await;
    let choices = |count: usize| (0..count).map(|number| format!("agent-{number}")).collect::<Vec<_>>();
    bench.settings.commands[1].choices = choices(25);
    let taker = Taker::new();
    let listening = bench.connected(&taker).await;
    offered(&bench).await;
    let registered = |bench: &Bench| {
        let options = bench.fake.commands()[1]["options"].clone();
        options[0]["choices"].as_array().cloned().unwrap_or_default()
    };
    assert_eq!(registered(&bench).len(), 25);
    assert_eq!(registered(&bench)[24], json!({ "name": "agent-24", "value": "agent-24" }));
    bench.fake.person_commands(GENERAL, BOB, "resend", &[("words", json!("agent-7"))]);
    take(&taker, 1).await;
    assert_eq!(taker.texts(), ["/resend agent-7"]);
    listening.stop().await;

    let listening = bench.connected(&Taker::new()).await;
    until("what is offered was looked at", || bench.fake.requests(OFFERED) == 2).await;
    listening.stop().await;
    assert_eq!(bench.fake.requests(OFFER), 1, "they are there");

    bench.settings.commands[1].choices = choices(26);
    let listening = bench.connected(&Taker::new()).await;
    until("no choice limits what is typed", || registered(&bench).is_empty()).await;
    listening.stop().await;
    assert_eq!(bench.fake.requests(OFFER), 2);
}

#[tokio::test]
async fn failed_command_registration_is_retried_without_blocking() {
    let (log, _guard) = Log::listen();
    let bench = start().await;
    let taker = Taker::new();
    bench.fake.script(OFFER, FaultTiming::First(1), Fault::ServerError);
    let listening = bench.connected(&taker).await;
    bench.fake.person_says(bench.direct, ANN, "/files");
    take(&taker, 1).await;
    offered(&bench).await;
    listening.stop().await;
    assert_eq!(log.text().matches("registering the commands with Discord failed").count(), 1, "{}", log.text());
}

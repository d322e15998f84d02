//! An answer that is tried again on the page, as the model hears of it, and across a kill.

use satchel_fake_model::{FakeModelServer, ModelReply, ModelWire};
use satchel_system::real_binary::TestHome;
use serde_json::{Value, json};

use super::server_process::ServerProcess;

/// A home whose model is the fake.
pub(super) async fn home_with_model() -> (FakeModelServer, TestHome) {
    let fake = FakeModelServer::start().await.expect("a loopback port");
    let wire = ModelWire::OpenAiChat;
    let home = TestHome::new();
    let (url, key, model) = (fake.base_url(wire), FakeModelServer::KEY, wire.model());
    home.write_file(
        "satchel.yaml",
        format!(
            "model: main\nmodels:\n  main: {{ provider: openai, base_url: \"{url}\", api_key: \"{key}\", model: \
             \"{model}\" }}\n"
        ),
    );
    (fake, home)
}

async fn retry(server: &ServerProcess, turn: &Value, body: Value) -> Value {
    let turn = turn.as_str().expect("a turn has an id");
    let (status, answer) = server.post(&format!("/api/conversations/test/turns/{turn}/retry"), &body).await;
    assert_eq!(status, 202, "{answer:#}");
    answer["turn"].clone()
}

fn text_of(turn: &Value) -> &str {
    turn["parts"][0]["text"].as_str().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn model_reads_new_words_and_same_file_but_not_the_replaced_answer() {
    let (fake, home) = home_with_model().await;
    for words in ["Noted.", "A useless answer.", "A better answer.", "You're welcome."] {
        fake.reply(ModelReply::text(words));
    }
    let server = ServerProcess::start(&home, &[]);
    server.send_and_wait("my name is Ada").await;
    let upload = server.upload("list.txt", "milk and honey").await;
    let asked = server.send("what is on the lisst", &[upload]).await;
    assert_eq!(text_of(&server.wait_for_reply(&asked).await), "A useless answer.");

    let better = retry(&server, &asked, json!({"text": "what is on the list?"})).await;
    let turn = server.wait_for_reply(&better).await;
    assert_eq!(text_of(&turn), "A better answer.");
    let file = &turn["messages"][0]["files"][0]["file"];
    assert_eq!((&file["number"], &file["filename"]), (&json!(1), &json!("list.txt")), "no copy is made: {turn:#}");
    let read = fake.last().user_text();
    assert!(read.contains("my name is Ada") && read.contains("what is on the list?"), "{read}");
    assert!(read.contains("list.txt"), "{read}");

    server.send_and_wait("thanks").await;
    let all = format!("{:?}", fake.last().turns);
    assert!(all.contains("A better answer.") && all.contains("what is on the list?"), "{all}");
    assert!(!all.contains("A useless answer.") && !all.contains("lisst"), "it was replaced: {all}");
    assert_eq!(fake.requests().len(), 4);
}

/// The process dies as soon as it has promised another answer, and the client asks the next one again.
#[tokio::test(flavor = "multi_thread")]
async fn retry_survives_a_kill_and_is_answered_once() {
    let (fake, home) = home_with_model().await;
    fake.reply(ModelReply::text("The first answer."));
    let server = ServerProcess::start(&home, &[]);
    let first = server.send_and_wait("tell me a story").await["id"].clone();
    let second = retry(&server, &first, json!({})).await;
    server.send_signal("KILL");
    server.wait_for_exit();

    fake.reply(ModelReply::text("The second answer.").every_time());
    let server = ServerProcess::start(&home, &[]);
    assert_eq!(retry(&server, &first, json!({})).await, second, "it is known");
    assert_eq!(text_of(&server.wait_for_reply(&second).await), "The second answer.");
    let (_, turns) = server.get("/api/conversations/test/turns").await;
    let turns: Value = serde_json::from_str(&turns).expect("it is JSON");
    let ids: Vec<_> = turns["turns"].as_array().into_iter().flatten().map(|turn| &turn["id"]).collect();
    assert_eq!(ids, [&first, &second]);
}

//! Which model answers: what is configured, else a key in the environment, else what runs here, else the built-in one.

use satchel_fake_model::{FakeModelServer, ModelReply, ModelWire};
use satchel_system::real_binary::{Household, finish};

use super::serving::Serving;

/// What `config show` says about the model, with this environment.
fn shown(yaml: &str, environment: &[(&str, &str)]) -> (String, String) {
    let household = Household::new();
    household.file("satchel.yaml", yaml);
    let ran = finish(household.satchel(&["config", "show", "--json"]).envs(environment.iter().copied()));
    assert_eq!(ran.code(), Some(0), "{ran:#?}");
    let text = |of: &str| ran.json()["model"][of].as_str().unwrap_or_default().to_owned();
    (text("value"), text("origin"))
}

#[test]
fn first_start_uses_first_key_and_reports_it() {
    let keys = [("GEMINI_API_KEY", "g"), ("ANTHROPIC_API_KEY", "a")];
    assert_eq!(shown("{}\n", &keys), ("anthropic".into(), "environment ANTHROPIC_API_KEY".into()));
    assert_eq!(shown("{}\n", &keys[..1]), ("gemini".into(), "environment GEMINI_API_KEY".into()));
    assert_eq!(shown("model: offline\n", &keys), ("offline".into(), "satchel.yaml:1".into()));
    let (value, origin) = shown("{}\n", &[]);
    // A machine on which Ollama runs is as good.
    assert!(["offline", "ollama"].contains(&value.as_str()), "{value}");
    assert!(origin.starts_with("default: no model is configured, no key is set"), "{origin}");
}

#[test]
fn start_log_names_model_and_reason() {
    let household = Household::new();
    let mut command = household.satchel(&["run", "--set", "web.listen=127.0.0.1:0"]);
    let server = Serving::of(command.env("OPENAI_API_KEY", "sk-canary-1"));
    assert!(server.logged.contains("gpt-") && server.logged.contains("by OpenAI, because"), "{}", server.logged);
    assert!(server.logged.contains("OPENAI_API_KEY is set"), "{}", server.logged);
    assert!(server.greeting.contains("by OpenAI"), "{}", server.greeting);
    server.signal("TERM");
    let ran = server.end();
    assert_eq!(ran.code(), Some(0), "{ran:#?}");
    assert!(!ran.stderr.contains("sk-canary-1"), "{ran:#?}");
}

#[tokio::test]
async fn configured_model_answers_and_next_one_is_fallback() {
    let fake = FakeModelServer::start().await.expect("a loopback port");
    let wire = ModelWire::OpenAiChat;
    fake.reply(ModelReply::text("Words of the configured model."));
    fake.reply(ModelReply::text("Words for the page."));
    let household = Household::new();
    let (url, key, model) = (fake.base_url(wire), FakeModelServer::KEY, wire.model());
    household.file(
        "satchel.yaml",
        format!(
            "model: [gone, main]\nmodels:\n  main: {{ provider: openai, base_url: \"{url}\", api_key: \"{key}\", model: \
             \"{model}\" }}\n  gone: {{ provider: ollama, base_url: \"http://127.0.0.1:9/\", model: none }}\n"
        ),
    );
    let mut once = household.satchel(&["chat", "--once", "hi", "--json"]);
    let ran = tokio::task::spawn_blocking(move || finish(&mut once)).await.expect("it runs");
    assert_eq!((ran.code(), ran.reply().as_str()), (Some(0), "Words of the configured model."), "{ran:#?}");

    let server = Serving::start(&household, &[]);
    assert!(server.greeting.contains(model), "{}", server.greeting);
    let turn = server.say("hi").await;
    assert_eq!(turn["parts"][0]["text"], "Words for the page.", "{turn:#}");
    let (_, figures) = super::serving::get(&server.metrics).await;
    for line in [
        r#"satchel_model_calls_total{model="gone",outcome="failed"} 1"#,
        r#"satchel_model_calls_total{model="main",outcome="done"} 1"#,
    ] {
        assert!(figures.lines().any(|found| found == line), "{line} in\n{figures}");
    }
    server.signal("TERM");
    assert_eq!(server.end().code(), Some(0));
    assert_eq!(fake.requests().len(), 2);
}

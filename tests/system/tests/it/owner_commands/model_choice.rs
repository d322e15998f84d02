//! Which model answers: what is configured, else a key in the environment, else what runs here, else the built-in one.

use satchel_fake_model::{FakeModelServer, ModelReply, ModelWire};
use satchel_system::real_binary::{TestHome, run_to_end};

use super::server_process::ServerProcess;

/// What `config show` says about the model, with this environment.
fn configured_model(yaml: &str, environment: &[(&str, &str)]) -> (String, String) {
    let home = TestHome::new();
    home.write_file("satchel.yaml", yaml);
    let output = run_to_end(home.satchel_command(&["config", "show", "--json"]).envs(environment.iter().copied()));
    assert_eq!(output.exit_code(), Some(0), "{output:#?}");
    let text = |of: &str| output.json()["model"][of].as_str().unwrap_or_default().to_owned();
    (text("value"), text("origin"))
}

#[test]
fn first_start_uses_first_key_and_reports_it() {
    let keys = [("GEMINI_API_KEY", "g"), ("ANTHROPIC_API_KEY", "a")];
    assert_eq!(configured_model("{}\n", &keys), ("anthropic".into(), "environment ANTHROPIC_API_KEY".into()));
    assert_eq!(configured_model("{}\n", &keys[..1]), ("gemini".into(), "environment GEMINI_API_KEY".into()));
    assert_eq!(configured_model("model: offline\n", &keys), ("offline".into(), "satchel.yaml:1".into()));
    let (value, origin) = configured_model("{}\n", &[]);
    // A machine on which Ollama runs is as good.
    assert!(["offline", "ollama"].contains(&value.as_str()), "{value}");
    assert!(origin.starts_with("default: no model is configured, no key is set"), "{origin}");
}

#[test]
fn start_log_names_model_and_reason() {
    let home = TestHome::new();
    let mut command = home.satchel_command(&["run", "--set", "web.listen=127.0.0.1:0"]);
    let server = ServerProcess::from_command(command.env("OPENAI_API_KEY", "sk-canary-1"));
    assert!(server.log_text.contains("gpt-") && server.log_text.contains("by OpenAI, because"), "{}", server.log_text);
    assert!(server.log_text.contains("OPENAI_API_KEY is set"), "{}", server.log_text);
    assert!(server.greeting.contains("by OpenAI"), "{}", server.greeting);
    server.send_signal("TERM");
    let output = server.wait_for_exit();
    assert_eq!(output.exit_code(), Some(0), "{output:#?}");
    assert!(!output.stderr.contains("sk-canary-1"), "{output:#?}");
}

#[tokio::test]
async fn configured_model_answers_and_next_one_is_fallback() {
    let fake = FakeModelServer::start().await.expect("a loopback port");
    let wire = ModelWire::OpenAiChat;
    fake.reply(ModelReply::text("Words of the configured model."));
    fake.reply(ModelReply::text("Words for the page."));
    let home = TestHome::new();
    let (url, key, model) = (fake.base_url(wire), FakeModelServer::KEY, wire.model());
    home.write_file(
        "satchel.yaml",
        format!(
            "model: [gone, main]\nmodels:\n  main: {{ provider: openai, base_url: \"{url}\", api_key: \"{key}\", model: \
             \"{model}\" }}\n  gone: {{ provider: ollama, base_url: \"http://127.0.0.1:9/\", model: none }}\n"
        ),
    );
    let mut once = home.satchel_command(&["chat", "--once", "hi", "--json"]);
    let output = tokio::task::spawn_blocking(move || run_to_end(&mut once)).await.expect("it runs");
    assert_eq!(
        (output.exit_code(), output.reply().as_str()),
        (Some(0), "Words of the configured model."),
        "{output:#?}"
    );

    let server = ServerProcess::start(&home, &[]);
    assert!(server.greeting.contains(model), "{}", server.greeting);
    let turn = server.send_and_wait("hi").await;
    assert_eq!(turn["parts"][0]["text"], "Words for the page.", "{turn:#}");
    let (_, figures) = super::server_process::get_page(&server.metrics).await;
    for line in [
        r#"satchel_model_calls_total{model="gone",outcome="failed"} 1"#,
        r#"satchel_model_calls_total{model="main",outcome="done"} 1"#,
    ] {
        assert!(figures.lines().any(|found| found == line), "{line} in\n{figures}");
    }
    server.send_signal("TERM");
    assert_eq!(server.wait_for_exit().exit_code(), Some(0));
    assert_eq!(fake.requests().len(), 2);
}

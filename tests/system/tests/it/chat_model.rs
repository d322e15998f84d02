//! `satchel chat --model`: the model of a conversation in the terminal.

use satchel_system::real_binary::{ProcessOutput, TestHome};

const MODELS: &str = "models: { here: { provider: offline }, other: { provider: offline } }\nmodel: here\n";

fn chat(home: &TestHome, arguments: &[&str]) -> ProcessOutput {
    let output = home.run(&[&["chat", "--once", "/model"], arguments].concat());
    output.assert_no_crash("chat");
    output
}

#[test]
fn chosen_model_answers_from_then_on() {
    let home = TestHome::new();
    home.write_file("satchel.yaml", MODELS);
    let chosen = chat(&home, &["--model", "Other"]);
    assert_eq!(chosen.exit_code(), Some(0), "{chosen:?}");
    let (said, listed) = chosen.stdout.split_once("The models:").expect("the message is answered, too");
    assert!(said.contains("`other` answers here from now on."), "{chosen:?}");
    assert!(listed.contains("`other` (answers here)"), "{chosen:?}");
    let later = chat(&home, &[]);
    assert!(later.stdout.contains("`other` (answers here)"), "{later:?}");
    let elsewhere = chat(&home, &["--conversation", "holiday"]);
    assert!(elsewhere.stdout.contains("`here` (answers here)"), "{elsewhere:?}");
    let usual = chat(&home, &["--model", "here"]);
    assert!(usual.stdout.contains("`here` (answers here)"), "{usual:?}");
}

#[test]
fn unknown_model_is_refused_with_known_ones() {
    let home = TestHome::new();
    home.write_file("satchel.yaml", MODELS);
    let refused = chat(&home, &["--model", "tiny"]);
    assert_eq!((refused.exit_code(), refused.stdout.as_str()), (Some(2), ""), "{refused:?}");
    assert!(refused.stderr.contains("there is no model \"tiny\"; the models are here, other"), "{refused:?}");
    let later = chat(&home, &[]);
    assert!(later.stdout.contains("`here` (answers here)"), "{later:?}");
}

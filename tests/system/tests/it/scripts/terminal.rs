//! Scripts at the terminal: what `satchel script run` prints and writes.

use std::fs;

use satchel_domain::Sha256;
use satchel_system::real_binary::{TestHome, script_worker};
use serde_json::json;
use sha2::Digest;

#[test]
fn json_names_file_with_complete_long_result() {
    let _worker = script_worker();
    let home = TestHome::new();
    let file = home.write_file("long.star", "return \"x\" * 150000\n").display().to_string();
    let output = home.run(&["script", "run", &file, "--json"]);
    assert_eq!(output.exit_code(), Some(0), "{output:#?}");
    let answer = output.json();
    let full_text = format!("Script result: {}", "x".repeat(150_000));
    let [named] = answer["attachments"].as_array().expect("a list").as_slice() else { panic!("{answer}") };
    let digest = Sha256(sha2::Sha256::digest(full_text.as_bytes()).into());
    assert_eq!(
        (named["filename"].as_str(), named["sha256"].as_str()),
        (Some("answer.txt"), Some(&*digest.to_string()))
    );
    let written = home.work_directory().join("files/scripts").join(format!("{}-answer.txt", named["number"]));
    assert_eq!(fs::read_to_string(&written).expect("it is written"), full_text);
    let text = answer["text"].as_str().expect("words");
    assert!(full_text.starts_with(&text[..1_000]) && text.ends_with("the whole answer is in `answer.txt`."), "{text}");
}

#[test]
fn script_finds_variables_of_command_line() {
    let _worker = script_worker();
    let home = TestHome::new();
    let file = home.write_file("weather.star", "return [f\"{city}: {days + 1}\", tags]\n").display().to_string();
    let globals = ["city=\"`Berlin`\"", "days=6", "tags=[\"a\"]"].map(|global| ["--global", global]);
    let command = ["script", "run", file.as_str(), "--json"];
    let output = home.run(&[command.as_slice(), globals.as_flattened()].concat());
    assert_eq!(output.exit_code(), Some(0), "{output:#?}");
    assert_eq!(output.json()["data"], json!(["`Berlin`: 7", ["a"]]));
    for (global, exit_code, message) in [
        ("city=Berlin", 2, "the value of `city` is not JSON"),
        ("=1", 2, "a variable is NAME=JSON"),
        ("my-name=1", 1, "my_name"),
    ] {
        let output = home.run(&["script", "run", &file, "--global", global]);
        assert_eq!(output.exit_code(), Some(exit_code), "{global}: {output:#?}");
        assert!(format!("{output:?}").contains(message), "{global}: {output:#?}");
    }
}

//! Scripts at the terminal: what `satchel script run` prints and writes.

use std::fs;

use satchel_domain::Sha256;
use satchel_system::real_binary::{Household, script_worker};
use sha2::Digest;

#[test]
fn json_names_file_with_complete_long_result() {
    let _worker = script_worker();
    let household = Household::new();
    let file = household.file("long.star", "return \"x\" * 150000\n").display().to_string();
    let ran = household.run(&["script", "run", &file, "--json"]);
    assert_eq!(ran.code(), Some(0), "{ran:#?}");
    let answer = ran.json();
    let whole = format!("Script result: {}", "x".repeat(150_000));
    let [named] = answer["attachments"].as_array().expect("a list").as_slice() else { panic!("{answer}") };
    let digest = Sha256(sha2::Sha256::digest(whole.as_bytes()).into());
    assert_eq!(
        (named["filename"].as_str(), named["sha256"].as_str()),
        (Some("answer.txt"), Some(&*digest.to_string()))
    );
    let written = household.work().join("files/scripts").join(format!("{}-answer.txt", named["number"]));
    assert_eq!(fs::read_to_string(&written).expect("it is written"), whole);
    let said = answer["text"].as_str().expect("words");
    assert!(whole.starts_with(&said[..1_000]) && said.ends_with("the whole answer is in `answer.txt`."), "{said}");
}

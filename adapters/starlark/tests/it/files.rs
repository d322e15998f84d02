//! Files that a script makes: they flow, and a part is never taken for the whole.

use rstest::rstest;
use satchel_domain::Visibility;
use satchel_ports::{ScriptHost, script_host::NewScriptFile};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::stage::{StandIn, World, by, failure, script, value};

#[tokio::test]
async fn a_file_is_made_of_its_pieces() {
    let body = r#"begin
say '{"create":{"filename":"ё.csv","description":"Sales","mime_type":"text/csv","visibility":"internal"}}'
chunk 'a,b\n'; say '{"chunk":{"text":""}}'; say '{"chunk":{"base64":"AP/+"}}'; end; hear; done_with "$heard""#;
    let world = World::default();
    let evaluation = by(body, &script(""), &world).await;
    assert_eq!(value(&evaluation), &json!({"value": {"bytes": 7}}));
    let file = NewScriptFile {
        filename: "ё.csv".to_owned(),
        description: "Sales".to_owned(),
        mime_type: "text/csv".to_owned(),
        visibility: Visibility::Internal,
    };
    assert_eq!(*world.files.lock().unwrap(), [(file, 7, Ok(()))]);
}

#[tokio::test]
async fn a_file_may_be_empty() {
    let world = World::default();
    let evaluation = by("begin; create a.txt; end; hear; done_with \"$heard\"", &script(""), &world).await;
    assert_eq!(value(&evaluation), &json!({"value": {"bytes": 0}}));
}

#[rstest]
#[case::the_world_refuses("refused.txt", "deliver", "there are too many files")]
#[case::nobody_could_get_it("a.txt", "public", "visibility must be `deliver` or `internal`, not `public`")]
#[tokio::test]
async fn refused_file_is_drained_before_the_response(
    #[case] filename: &str,
    #[case] visibility: &str,
    #[case] words: &str,
) {
    // More than all pipes and channels hold, so that it would get stuck if nobody read it.
    let body = format!(
        r#"begin
say '{{"create":{{"filename":"{filename}","description":"","mime_type":"","visibility":"{visibility}"}}}}'
yes '{{"chunk":{{"text":"{}"}}}}' | head -n 400; end; hear; printf '%s' "$heard" > "$HERE/answer"; call echo; hear; done_with 1"#,
        "x".repeat(40_000)
    );
    let stand_in = StandIn::new(&body);
    let world = World::default();
    let evaluation = stand_in.pool().run(&script(""), &world, &CancellationToken::new()).await;
    assert_eq!(value(&evaluation), &json!(1));
    assert_eq!(stand_in.noted("answer"), [json!({ "error": words }).to_string()]);
    assert_eq!((world.files.lock().unwrap().len(), world.names_asked()), (0, vec!["echo".to_owned()]));
}

/// Five hundred megabytes are more than a worker can hold, so it makes them up.
#[tokio::test]
async fn endless_refused_file_is_stopped() {
    let piece = "x".repeat(48 << 10);
    let body = format!("begin; create refused.txt; exec yes '{{\"chunk\":{{\"text\":\"{piece}\"}}}}'");
    let long = satchel_ports::ScriptRequest { time_limit: std::time::Duration::from_secs(120), ..script("") };
    let evaluation = by(&body, &long, &World::default()).await;
    assert!(failure(&evaluation).contains("a file has no end"), "{}", failure(&evaluation));
}

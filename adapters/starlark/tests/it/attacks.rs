//! Workers that lie: whatever they say besides the protocol ends them, and costs nothing but their script.

use std::time::{Duration, Instant};

use rstest::rstest;
use satchel_starlark::protocol::{MAX_ARGUMENTS_BYTES, MAX_FILE_HEADER_BYTES, MAX_PRINTED_BYTES, MAX_VALUE_BYTES};
use serde_json::json;

use crate::stage::{World, by, failure, limited, script, value};

#[rstest]
#[case::words("say hello", "a line can't be read")]
#[case::an_empty_line("say ''", "a line can't be read")]
#[case::zeros("head -c 100 /dev/zero; say ''", "a line can't be read")]
#[case::no_utf8(r#"printf '{"print":"\377"}\n'"#, "a line can't be read")]
#[case::another_field(
    r#"say '{"call":{"function":"echo","positional":[],"named":{},"as":"root"}}'"#,
    "a line can't be read"
)]
#[case::a_field_twice(
    r#"say '{"call":{"function":"echo","function":"refuse","positional":[],"named":{}}}'"#,
    "a line can't be read"
)]
#[case::two_in_one(r#"say '{"done":1,"print":"x"}'"#, "a line can't be read")]
#[case::two_on_a_line(r#"say '{"print":"x"}{"done":1}'"#, "a line can't be read")]
#[case::another_kind_of_failure(
    r#"say '{"failed":{"kind":"panic","message":"","line":1,"column":1}}'"#,
    "a line can't be read"
)]
#[case::the_hosts_own_words(r#"say '{"value":1}'"#, "a line can't be read")]
#[case::no_number(r#"say '{"done":1e999}'"#, "a line can't be read")]
#[case::ready_again("ready", "it was ready twice")]
#[case::a_piece_without_a_file("chunk x", "it told of a file that is none")]
#[case::an_end_without_a_file("end", "it told of a file that is none")]
#[case::a_piece_after_the_end("create a.txt; chunk x; end; hear; chunk x", "it told of a file that is none")]
#[case::a_call_in_a_file("create a.txt; chunk x; call echo", "it said something else in the middle of a file")]
#[case::a_file_in_a_file("create a.txt; chunk x; create b.txt", "it said something else in the middle of a file")]
#[case::a_print_in_a_file(r#"create a.txt; say '{"print":"x"}'"#, "it said something else in the middle of a file")]
#[case::the_end_of_all_in_a_file(
    "create a.txt; chunk x; done_with 1",
    "it said something else in the middle of a file"
)]
#[case::base64_that_is_none(r#"create a.txt; say '{"chunk":{"base64":"?"}}'"#, "a piece of a file is none")]
#[case::a_large_piece("create a.txt; chunk $(head -c 49153 /dev/zero | tr '\\0' x)", "a piece of a file is none")]
#[case::a_value_after_the_end(r#"printf '{"done":1}\n{"done":2}\n'"#, "it went on after the end")]
#[case::a_call_after_the_end(
    r#"printf '{"done":1}\n{"call":{"function":"echo","positional":[],"named":{}}}\n'"#,
    "it went on after the end"
)]
#[case::a_deep_value(
    "done_with \"$(head -c 65 /dev/zero | tr '\\0' '[')$(head -c 65 /dev/zero | tr '\\0' ']')\"",
    "a value is nested too deeply"
)]
#[case::a_very_deep_value("done_with \"$(head -c 100000 /dev/zero | tr '\\0' '[')\"", "a line can't be read")]
#[case::a_deep_argument(
    "deep=$(head -c 65 /dev/zero | tr '\\0' '[')$(head -c 65 /dev/zero | tr '\\0' ']')
say \"{\\\"call\\\":{\\\"function\\\":\\\"echo\\\",\\\"positional\\\":[$deep],\\\"named\\\":{}}}\"",
    "the arguments of a call are nested too deeply"
)]
#[case::no_more_input("exec < /dev/null; call large; hang", "it closed a pipe and went on")]
#[case::no_more_output("exec > /dev/null; hang", "it closed a pipe and went on")]
#[case::a_line_without_end("head -c 50000000 /dev/zero | tr '\\0' x", "a line has no end")]
#[tokio::test]
async fn a_worker_that_breaks_the_protocol_is_killed(#[case] body: &str, #[case] why: &str) {
    let world = World::default();
    let begun = Instant::now();
    let evaluation = by(&format!("begin; {body}; hang"), &script(""), &world).await;
    let expected = format!("Script execution failed: the script's worker broke the protocol ({why})");
    assert_eq!(failure(&evaluation), expected);
    assert!(begun.elapsed() < Duration::from_secs(15), "it was not waited for");
    assert!(!world.files.lock().unwrap().iter().any(|(_, _, ended)| ended.is_ok() && !body.contains("end; hear")));
}

/// Says a line of exactly so many bytes besides its frame.
fn long(before: &str, length: usize, after: &str) -> String {
    format!("printf '%s' '{before}'; head -c {length} /dev/zero | tr '\\0' x; say '{after}'")
}

#[tokio::test]
async fn so_much_may_be_printed_and_no_more() {
    let full = long("{\"print\":\"", MAX_PRINTED_BYTES - 1, "\"}");
    let evaluation = by(&format!("begin; {full}; done_with 1"), &script(""), &World::default()).await;
    assert_eq!((value(&evaluation), evaluation.printed.len()), (&json!(1), MAX_PRINTED_BYTES));
    let evaluation =
        by(&format!("begin; {full}; say '{{\"print\":\"\"}}'; hang"), &script(""), &World::default()).await;
    assert!(failure(&evaluation).contains("it printed too much"), "{}", failure(&evaluation));
    assert_eq!(evaluation.printed.len(), MAX_PRINTED_BYTES, "what there was room for is kept");
}

#[tokio::test]
async fn endless_prints_are_stopped() {
    let begun = Instant::now();
    let evaluation = by("begin; exec yes '{\"print\":\"\"}'", &script(""), &World::default()).await;
    assert!(failure(&evaluation).contains("it printed too much"));
    assert_eq!(evaluation.printed.len(), MAX_PRINTED_BYTES);
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn returned_value_size_is_limited_exactly() {
    for (surplus, fits) in [(0, true), (2_000, false)] {
        let value = long("{\"done\":\"", MAX_VALUE_BYTES - 2 + surplus, "\"}");
        let evaluation = by(&format!("begin; {value}; hang"), &script(""), &World::default()).await;
        match &evaluation.value {
            Ok(value) => assert!(fits && value.as_str().unwrap().len() == MAX_VALUE_BYTES - 2),
            Err(error) => assert!(!fits && error.to_string().contains("a value is too large"), "{error}"),
        }
    }
}

#[tokio::test]
async fn arguments_may_be_so_large_and_no_larger() {
    for (surplus, fits) in [(0, true), (2_000, false)] {
        let call = long(
            "{\"call\":{\"function\":\"wait\",\"positional\":[\"",
            MAX_ARGUMENTS_BYTES - 4 + surplus,
            "\"],\"named\":{}}}",
        );
        let world = World::default();
        let evaluation = by(&format!("begin; {call}; hear; done_with 1"), &script(""), &world).await;
        assert_eq!(
            (evaluation.value.is_ok(), world.asked.lock().unwrap().len()),
            (fits, usize::from(fits)),
            "{:?}",
            evaluation.value
        );
    }
}

/// What is said of a file is kept as long as the file, and fifty descriptions of eight megabytes would be told to a chat.
#[tokio::test]
async fn file_description_size_is_limited_exactly() {
    for (surplus, fits) in [(0, true), (2_000, false)] {
        let create = long(
            "{\"create\":{\"filename\":\"a.txt\",\"mime_type\":\"\",\"visibility\":\"deliver\",\"description\":\"",
            MAX_FILE_HEADER_BYTES - 80 + surplus,
            "\"}}",
        );
        let world = World::default();
        let evaluation = by(&format!("begin; {create}; chunk x; end; hear; done_with 1"), &script(""), &world).await;
        let stored = world.files.lock().unwrap().len();
        assert_eq!((evaluation.value.is_ok(), stored), (fits, usize::from(fits)), "{:?}", evaluation.value);
        assert!(fits || failure(&evaluation).contains("what it says of a file is too large"), "{evaluation:?}");
    }
}

/// A million small contexts are small together, but each costs a place.
#[rstest]
#[case::of_large_ones(format!("for i in 1 2; do {}; done", long("{\"wake\":{\"include_event\":true,\"context\":\"", 600_000, "\"}}")))]
#[case::of_small_ones("yes '{\"wake\":{\"context\":0,\"include_event\":true}}' | head -n 300000".to_owned())]
#[case::of_many_parts(
    "for i in 1 2 3; do
printf '%s' '{\"wake\":{\"include_event\":true,\"context\":[0'; yes ,0 | head -n 50000 | tr -d '\\n'; say ']}}'
done".to_owned()
)]
#[tokio::test]
async fn what_a_model_shall_look_at_is_bounded(#[case] body: String) {
    let evaluation = by(&format!("begin; {body}; hang"), &script(""), &World::default()).await;
    assert!(
        failure(&evaluation).contains("what it wants a model to look at is larger than 1 MB"),
        "{}",
        failure(&evaluation)
    );
    assert!((1..30_000).contains(&evaluation.wakes.len()), "{}", evaluation.wakes.len());
}

/// Eight megabytes of zeros and commas would be three hundred once they are read.
#[tokio::test]
async fn line_with_too_many_values_is_rejected() {
    let body = "begin; printf '%s' '{\"call\":{\"function\":\"echo\",\"named\":{},\"positional\":[0'
yes ,0 | head -n 1500000 | tr -d '\\n'; say ']}}'; hang";
    let world = World::default();
    let evaluation = by(body, &script(""), &world).await;
    assert_eq!(
        failure(&evaluation),
        "Script execution failed: a value that leaves the script holds more than 131072 others"
    );
    assert!(world.names_asked().is_empty());
}

#[tokio::test]
async fn unfinished_line_is_awaited_only_until_deadline() {
    let evaluation = by("begin; printf '{\"done\":1}'; hang", &limited(400), &World::default()).await;
    assert_eq!(evaluation.value, crate::stage::timed_out(400));
}

/// A host that writes without a deadline would wait for the reader for ever.
#[tokio::test]
async fn worker_not_reading_is_stopped_at_deadline() {
    let begun = Instant::now();
    let large = satchel_ports::ScriptRequest { time_limit: Duration::from_millis(400), ..script(&"x".repeat(4 << 20)) };
    let evaluation = by("ready; hang", &large, &World::default()).await;
    assert_eq!(evaluation.value, crate::stage::timed_out(400));
    assert!(begun.elapsed() < Duration::from_secs(3));
}

/// Its child holds the pipe open, so the write alone would never fail.
#[tokio::test]
async fn worker_death_while_receiving_script_is_detected() {
    let (large, world) = (script(&"x".repeat(4 << 20)), World::default());
    let body = "ready; exec 5<&0; sleep 1000 <&5 & echo $! >> \"$HERE/numbers\"; sleep 0.2; exit 5";
    let evaluation = tokio::time::timeout(Duration::from_secs(10), by(body, &large, &world)).await.unwrap();
    assert!(failure(&evaluation).contains("(code 5)"), "{}", failure(&evaluation));
}

#[tokio::test]
async fn endless_stderr_does_not_block_worker_output() {
    let body = "begin; head -c 100000000 /dev/zero >&2; say '{\"print\":\"x\"}'; done_with 1";
    let evaluation = by(body, &script(""), &World::default()).await;
    assert_eq!((value(&evaluation), evaluation.printed.as_str()), (&json!(1), "x\n"));
}

/// The pipes stay open: whoever waits for their end waits for the child of the child.
#[rstest]
#[case::of_its_group("sleep 1000 & echo $! >> \"$HERE/numbers\"; exit 5", "(code 5)")]
#[case::that_left_its_group("setsid sleep 4 & sleep 0.1; exit 5", "(code 5)")]
#[case::after_the_value("sleep 1000 & echo $! >> \"$HERE/numbers\"; done_with 1; exit 0", "")]
#[tokio::test]
async fn worker_children_never_outlive_worker(#[case] body: &str, #[case] words: &str) {
    let begun = Instant::now();
    let evaluation = by(&format!("begin; {body}"), &script(""), &World::default()).await;
    assert!(begun.elapsed() < Duration::from_millis(3_500), "{:?}", begun.elapsed());
    match words {
        "" => assert_eq!(value(&evaluation), &json!(1)),
        words => assert!(failure(&evaluation).contains(words), "{}", failure(&evaluation)),
    }
}

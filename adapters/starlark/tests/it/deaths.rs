//! Workers that die, at every step and in every way.

use rstest::rstest;
use satchel_ports::ScriptHost;
use satchel_wait::wait_until;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::stage::{StandIn, World, by, failure, gone, script, value};

#[rstest]
#[case::when_it_was_ready("ready; DIE")]
#[case::when_it_has_the_script("begin; DIE")]
#[case::when_it_has_printed("begin; say '{\"print\":\"x\"}'; DIE")]
#[case::in_half_a_line("begin; printf '{\"done\":'; DIE")]
#[case::in_a_call("begin; call wait; DIE")]
#[case::in_a_call_that_hangs("begin; call hang; sleep 0.1; DIE")]
#[case::after_a_call("begin; call echo; hear; DIE")]
#[case::at_the_beginning_of_a_file("begin; create a.txt; DIE")]
#[case::in_a_file("begin; create a.txt; chunk x; chunk y; DIE")]
#[case::in_a_refused_file("begin; create refused.txt; chunk x; DIE")]
#[case::after_a_file("begin; create a.txt; chunk x; end; hear; DIE")]
#[tokio::test]
async fn a_death_ends_the_script_with_its_reason(
    #[case] body: &str,
    #[values(
        ("exit 3", "its worker ended unexpectedly (code 3)"),
        ("exit 0", "its worker ended unexpectedly (code 0)"),
        ("kill -SEGV $$", "its worker ended unexpectedly (signal 11)"),
        ("kill -9 $$", "its worker ended unexpectedly (signal 9)"),
        ("kill -XCPU $$", "it used up its processor time"),
        (
            "echo 'memory allocation of 99 bytes failed' >&2; kill -ABRT $$",
            "it needs more memory than the 536 MB that a script may have; values that it no longer uses are freed only between \
             the statements at its top level: split a long loop into several, one after another",
        ),
        ("echo \"thread 'main' (7) has overflowed its stack\" >&2; kill -ABRT $$", "it is nested too deeply"),
    )]
    death: (&str, &str),
) {
    let (die, words) = death;
    let world = World::default();
    let evaluation = by(&body.replace("DIE", die), &script(""), &world).await;
    assert_eq!(failure(&evaluation), format!("Script execution failed: {words}"));
    let files = world.files.lock().unwrap();
    let whole = body.contains("end; hear");
    assert!(files.iter().all(|(_, _, ended)| ended.is_ok() == whole), "no part is taken for a whole: {files:?}");
}

/// It asks for a file and dies after its end, while the world still stores it.
#[tokio::test]
async fn worker_death_after_file_end_is_reported() {
    let world = World::default();
    let evaluation = by("begin; create a.txt; chunk x; end; exit 3", &script(""), &world).await;
    assert_eq!(failure(&evaluation), "Script execution failed: its worker ended unexpectedly (code 3)");
    assert_eq!(world.files.lock().unwrap().len(), 1);
}

#[rstest]
#[case("exit 3")]
#[case("kill -9 $$")]
#[case("kill -SEGV $$")]
#[tokio::test]
async fn a_death_after_the_value_changes_nothing(#[case] die: &str) {
    let evaluation = by(&format!("begin; done_with 7; {die}"), &script(""), &World::default()).await;
    assert_eq!(value(&evaluation), &json!(7));
}

#[tokio::test]
async fn killed_worker_is_detected_even_during_call() {
    for body in ["begin; : > \"$HERE/begun\"; while :; do :; done", "begin; : > \"$HERE/begun\"; call hang; hear"] {
        let stand_in = StandIn::new(body);
        let (pool, world, cancel, script) = (stand_in.pool(), World::default(), CancellationToken::new(), script(""));
        let begun = stand_in.path().with_file_name("begun");
        let is_in_call = || !body.contains("call hang") || !world.names_asked().is_empty();
        let killing = async {
            wait_until("it has begun", || begun.exists() && is_in_call()).await;
            stand_in.kill(stand_in.numbers()[0]);
        };
        let (evaluation, ()) = tokio::join!(pool.run(&script, &world, &cancel), killing);
        assert_eq!(failure(&evaluation), "Script execution failed: its worker ended unexpectedly (signal 9)");
        gone(&stand_in.numbers()).await;
    }
}

#[tokio::test]
async fn a_death_does_not_trouble_the_next_script() {
    let stand_in = StandIn::new("begin; [ -e \"$HERE/died\" ] && done_with 1; : > \"$HERE/died\"; kill -SEGV $$");
    let pool = stand_in.pool();
    let run = || async { pool.run(&script(""), &World::default(), &CancellationToken::new()).await };
    assert!(failure(&run().await).contains("signal 11"));
    assert_eq!(value(&run().await), &json!(1));
}

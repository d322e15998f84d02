//! What the port promises, with workers that obey.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use rstest::rstest;
use satchel_domain::WakeRequest;
use satchel_ports::{ScriptError, ScriptEvaluation, ScriptHost, ScriptRequest};
use satchel_starlark::{ScriptPoolSettings, WorkerPool, probe};
use satchel_wait::wait_until;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::stage::{StandIn, World, by, failure, gone, limited, nested, script, timed_out, value};

#[tokio::test]
async fn script_reaches_worker_and_value_returns() {
    let stand_in = StandIn::new(r#"begin; printf '%s' "$heard" > "$HERE/heard"; done_with '{"a":[1,1.5,"ё"]}'"#);
    let mut script = ScriptRequest { time_limit: Duration::from_millis(2_500), ..script("return \"ёж\"\n") };
    script.globals.insert("who".to_owned(), json!({"name": "Ann", "share": 0.5}));
    let evaluation = stand_in.pool().run(&script, &World::default(), &CancellationToken::new()).await;
    let expected =
        ScriptEvaluation { value: Ok(json!({"a": [1, 1.5, "ё"]})), printed: String::new(), wakes: Vec::new() };
    assert_eq!(evaluation, expected);
    let heard: Value = serde_json::from_str(&stand_in.noted("heard").concat()).unwrap();
    assert_eq!(
        heard,
        json!({"run": {
            "script": "return \"ёж\"\n",
            "globals": {"who": {"name": "Ann", "share": 0.5}},
            "functions": ["echo", "refuse", "hang", "wait", "large", "deep", "chatter"],
            "processor_seconds": 4,
        }})
    );
}

/// Whether a file of this process stays open in those that it starts; no file that Rust opens does.
fn is_inherited(number: &str) -> bool {
    let close_on_exec = 0o2_000_000;
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.is_some_and(|flags| i64::from_str_radix(flags.trim(), 8).unwrap() & close_on_exec == 0)
}

#[tokio::test]
async fn worker_starts_without_environment_and_files() {
    let _open = std::fs::File::open("/etc/passwd").unwrap();
    let stand_in = StandIn::new(
        r#"begin; tr '\0' '\n' < /proc/$$/environ > "$HERE/environment"
pwd > "$HERE/where"; ls /proc/self/fd > "$HERE/files"; done_with null"#,
    );
    let evaluation = stand_in.pool().run(&script(""), &World::default(), &CancellationToken::new()).await;
    assert_eq!(value(&evaluation), &Value::Null);
    assert_eq!(stand_in.noted("environment"), Vec::<String>::new());
    assert_eq!(stand_in.noted("where"), ["/"]);
    // The third is the folder itself, which is being listed; what this process was started with is passed on.
    let files = stand_in.noted("files");
    let more = files.iter().filter(|number| !["0", "1", "2", "3"].contains(&number.as_str()) && !is_inherited(number));
    assert_eq!(more.count(), 0, "{files:?}");
}

#[tokio::test]
async fn host_calls_are_made_in_script_order() {
    let world = World::default();
    let body = r#"begin
say '{"call":{"function":"echo","positional":[1,"two"],"named":{"three":[3.5]}}}'; hear; first=$heard
call wait; hear; call echo; hear
done_with "$first""#;
    let evaluation = by(body, &script(""), &world).await;
    assert_eq!(value(&evaluation), &json!({"value": {"positional": [1, "two"], "named": {"three": [3.5]}}}));
    assert_eq!(world.names_asked(), ["echo", "wait", "echo"]);
}

/// Two calls in one breath: were they made at once, their effects could overtake one another.
#[tokio::test]
async fn host_calls_run_one_at_a_time() {
    let world = World::default();
    let evaluation =
        by("begin; call wait; call wait; call wait; hear; hear; hear; done_with 1", &script(""), &world).await;
    assert_eq!(value(&evaluation), &json!(1));
    assert_eq!((world.asked.lock().unwrap().len(), world.most_under_way.load(Ordering::SeqCst)), (3, 1));
}

#[rstest]
#[case::it_refuses("refuse", "{\"error\":\"the list is closed\"}")]
#[case::it_has_no_such_function("launch", "{\"error\":\"there is no function `launch`\"}")]
#[case::its_answer_is_too_large(
    "large",
    "{\"error\":\"what `large` returned is larger than 8.3 MB; ask it for a part of that\"}"
)]
#[case::its_answer_is_too_deep("deep", "{\"error\":\"what `deep` returned is nested deeper than 64 levels\"}")]
#[tokio::test]
async fn host_refusal_reaches_script_verbatim(#[case] function: &str, #[case] answer: &str) {
    let body = format!(
        "begin; call {function}; hear; printf '%s' \"$heard\" > \"$HERE/answer\"
say '{{\"failed\":{{\"kind\":\"execution\",\"message\":\"no\",\"line\":3,\"column\":7}}}}'"
    );
    let stand_in = StandIn::new(&body);
    let world = World::default();
    let evaluation = stand_in.pool().run(&script(""), &world, &CancellationToken::new()).await;
    assert_eq!(failure(&evaluation), "Script execution failed: no (line 3, column 7)");
    assert_eq!(stand_in.noted("answer"), [answer]);
    assert!(!world.names_asked().contains(&"launch".to_owned()));
}

#[tokio::test]
async fn an_endless_refusal_is_cut() {
    let stand_in =
        StandIn::new("begin; call chatter; hear; printf '%s' \"$heard\" | wc -c > \"$HERE/length\"; done_with 1");
    let evaluation = stand_in.pool().run(&script(""), &World::default(), &CancellationToken::new()).await;
    assert_eq!(value(&evaluation), &json!(1));
    let length: usize = stand_in.noted("length")[0].trim().parse().unwrap();
    assert!((100_000..200_000).contains(&length), "{length}");
}

#[tokio::test]
async fn a_syntax_error_names_its_line() {
    let body = r#"begin; say '{"failed":{"kind":"syntax","message":"no such name: `x`","line":4,"column":2}}'"#;
    let evaluation = by(body, &script(""), &World::default()).await;
    assert_eq!(failure(&evaluation), "Syntax error in script at line 4: no such name: `x` (column 2)");
}

#[rstest]
#[case::by_its_value("done_with 1", "")]
#[case::by_a_failure(r#"say '{"failed":{"kind":"execution","message":"m","line":null,"column":null}}'"#, "failed: m")]
#[case::at_the_deadline("hang", "timed out")]
#[case::at_the_deadline_of_a_call("call hang; hear", "timed out")]
#[case::by_death("kill -9 $$", "signal 9")]
#[case::by_a_broken_word("say ready", "broke the protocol")]
#[tokio::test]
async fn what_was_printed_is_returned_however_it_ends(#[case] end: &str, #[case] words: &str) {
    let body = format!(
        r#"begin; say '{{"print":"one"}}'; say '{{"print":""}}'
say '{{"wake":{{"context":{{"n":1.5}},"include_event":false}}}}'; say '{{"print":"two ё"}}'; {end}"#
    );
    let limit = if words == "timed out" { 1_500 } else { 20_000 };
    let evaluation = by(&body, &limited(limit), &World::default()).await;
    assert_eq!(evaluation.printed, "one\n\ntwo ё\n");
    assert_eq!(evaluation.wakes, [WakeRequest { context: json!({"n": 1.5}), include_event: false }]);
    match words {
        "" => assert_eq!(value(&evaluation), &json!(1)),
        words => assert!(failure(&evaluation).contains(words), "{evaluation:?}"),
    }
}

#[rstest]
#[case::in_a_tight_loop("begin; while :; do :; done")]
#[case::asleep("begin; hang")]
#[case::in_a_call("begin; call hang; hear; done_with 1")]
#[case::in_a_file("begin; create a.txt; chunk x; hang")]
#[case::in_a_file_that_is_not_stored("begin; create hangs.txt; end; hear; done_with 1")]
#[case::that_heeds_no_signal("trap '' TERM INT HUP QUIT; begin; while :; do :; done")]
#[case::that_prints_forever("begin; while :; do call echo; hear; done")]
#[case::that_wakes_helpers(
    "begin; (while :; do :; done) & echo $! >> \"$HERE/numbers\"; (trap '' TERM; sleep 1000) & echo $! >> \"$HERE/numbers\"; wait"
)]
#[case::that_closed_its_pipes("begin; exec < /dev/null > /dev/null 2> /dev/null; while :; do :; done")]
#[tokio::test]
async fn a_script_is_stopped_at_its_deadline(#[case] body: &str) {
    let world = World::default();
    let evaluation = tokio::time::timeout(Duration::from_secs(15), by(body, &limited(400), &world)).await.unwrap();
    if body.contains("/dev/null") {
        assert!(failure(&evaluation).contains("timed out") || failure(&evaluation).contains("broke the protocol"));
    } else {
        assert_eq!(evaluation.value, timed_out(400));
    }
    assert_eq!(world.under_way.load(Ordering::SeqCst), 0, "nothing of it goes on");
}

#[tokio::test]
async fn deadline_is_accurate_to_a_tenth_second() {
    let stand_in = StandIn::new("begin; : > \"$HERE/begun\"; while :; do :; done");
    let (pool, begun) = (stand_in.pool(), stand_in.path().with_file_name("begun"));
    let mut late = Vec::new();
    for _ in 0..5 {
        let evaluation = pool.run(&limited(300), &World::default(), &CancellationToken::new()).await;
        let took = std::fs::metadata(&begun).unwrap().modified().unwrap().elapsed().unwrap();
        assert_eq!(evaluation.value, timed_out(300));
        late.push(took.saturating_sub(Duration::from_millis(300)));
    }
    // One of some, since a busy machine may let anyone wait.
    assert!(late.iter().any(|late| *late < Duration::from_millis(100)), "{late:?}");
}

#[rstest]
#[case::in_a_loop("begin; : > \"$HERE/begun\"; while :; do :; done")]
#[case::in_a_call("begin; : > \"$HERE/begun\"; call hang; hear")]
#[case::in_a_file("begin; create a.txt; chunk x; : > \"$HERE/begun\"; hang")]
#[case::with_helpers("begin; sleep 1000 & echo $! >> \"$HERE/numbers\"; : > \"$HERE/begun\"; while :; do :; done")]
#[case::before_it_is_ready(": > \"$HERE/begun\"; hang")]
#[tokio::test]
async fn a_script_that_nobody_wants_is_stopped(#[case] body: &str) {
    for cancels in [true, false] {
        let stand_in = StandIn::new(body);
        let (pool, world, cancel) = (stand_in.pool(), World::default(), CancellationToken::new());
        let script = script("");
        let begun = stand_in.path().with_file_name("begun");
        let asked = usize::from(body.contains("call hang")) + usize::from(body.contains("create"));
        let is_asked = || world.under_way.load(Ordering::SeqCst) == asked;
        let has_begun = wait_until("it has begun", || begun.exists() && is_asked());
        if cancels {
            let cancelling = async {
                has_begun.await;
                cancel.cancel();
                Instant::now()
            };
            let (evaluation, cancelled) = tokio::join!(pool.run(&script, &world, &cancel), cancelling);
            assert!(cancelled.elapsed() < Duration::from_secs(2), "{:?}", cancelled.elapsed());
            assert_eq!(evaluation.value, Err(ScriptError::Cancelled));
        } else {
            tokio::select! {
                evaluation = pool.run(&script, &world, &cancel) => panic!("{evaluation:?}"),
                () = has_begun => {}
            }
        }
        gone(&stand_in.numbers()).await;
        assert_eq!(world.under_way.load(Ordering::SeqCst), 0);
        assert_eq!(world.given_up.load(Ordering::SeqCst), asked);
    }
}

#[tokio::test]
async fn a_global_with_an_unusable_name_is_refused() {
    let stand_in = StandIn::new("begin; done_with 1");
    let pool = stand_in.pool();
    for (name, words) in [
        ("my-name", "`my-name` can't be the name of a variable; `my_name` can: names are made of the letters a to z"),
        ("2nd try", "`2nd try` can't be the name of a variable; `_2nd_try` can: "),
        ("class", "`class` can't be the name of a variable; `class_` can: "),
        ("", "`` can't be the name of a variable: names are made of"),
        ("Größe\u{202e}", "`Größe\\u{202e}` can't be the name of a variable; `Gr__e_` can: "),
    ] {
        let mut script = script("");
        script.globals.insert("fine_1".to_owned(), json!(1));
        script.globals.insert(name.to_owned(), json!(1));
        let evaluation = pool.run(&script, &World::default(), &CancellationToken::new()).await;
        let refused = failure(&evaluation);
        assert!(refused.starts_with(&format!("Script execution failed: {words}")), "{refused}");
    }
    assert!(stand_in.numbers().is_empty(), "no worker is asked");
}

#[tokio::test]
async fn oversized_or_deep_input_starts_no_worker() {
    // `read` of a shell takes one byte at a time, which is too slow for megabytes.
    let stand_in = StandIn::new("ready; head -n 1 > /dev/null; done_with 1");
    let pool = stand_in.pool();
    let mut deep = script("");
    deep.globals.insert("deep".to_owned(), nested(65));
    for (script, words) in [
        (script(&"x".repeat(9 << 20)), "Script execution failed: the script and its variables are larger than 8.3 MB"),
        (deep, "Script execution failed: its variables are nested deeper than 64 levels"),
    ] {
        let evaluation = pool.run(&script, &World::default(), &CancellationToken::new()).await;
        assert_eq!(failure(&evaluation), words);
    }
    assert!(stand_in.numbers().is_empty());
    let evaluation = pool.run(&script(&"x".repeat(7 << 20)), &World::default(), &CancellationToken::new()).await;
    assert_eq!(value(&evaluation), &json!(1));
}

#[rstest]
#[case::it_is_not_there("", "is not there")]
#[case::it_has_another_version(
    r#"say '{"ready":{"version":1}}'; hang"#,
    "belongs to another Satchel: it speaks version 1 of the protocol, and 2 is needed"
)]
#[case::it_says_something_else("say hello; hang", "doesn't speak as a script worker does")]
#[case::it_skips_being_ready("done_with 1; hang", "doesn't speak as a script worker does")]
#[case::it_never_ends_a_line("head -c 50000000 /dev/zero; hang", "doesn't speak as a script worker does")]
#[case::it_closes_its_output("exec >&-; hang", "doesn't speak as a script worker does")]
#[case::it_dies("echo >&2; echo 'no memory' >&2; exit 4", "ended before it was ready (exit status: 4) no memory")]
#[case::it_is_forbidden(
    "echo 'failed to filter the calls to the system: no' >&2; exit 3",
    "is there, but the system forbids what it needs: failed to filter the calls to the system: no"
)]
#[case::it_is_killed("kill -9 $$", "ended before it was ready (signal: 9 (SIGKILL))")]
#[case::it_says_half_a_line("printf '{\"ready\"'; exit 0", "ended before it was ready (exit status: 0)")]
#[case::it_is_silent("hang", "was not ready within 5 s")]
#[tokio::test]
async fn unusable_worker_is_reported_with_its_path(#[case] body: &str, #[case] words: &str) {
    let stand_in = StandIn::new(body);
    if body.is_empty() {
        std::fs::remove_file(stand_in.path()).unwrap();
    }
    let expected = format!("the script worker `{}` {words}", stand_in.path().display());
    let begun = Instant::now();
    let (evaluation, probed) = tokio::join!(
        async { stand_in.pool().run(&script(""), &World::default(), &CancellationToken::new()).await },
        async { probe(&stand_in.path()).await },
    );
    assert_eq!(evaluation.value, Err(ScriptError::Unavailable { reason: expected.clone() }));
    assert_eq!(probed.unwrap_err().to_string(), expected);
    assert!(begun.elapsed() < Duration::from_secs(8));
    if !body.is_empty() {
        gone(&stand_in.numbers()).await;
    }
}

#[tokio::test]
async fn non_executable_worker_is_reported() {
    let pool = WorkerPool::new(ScriptPoolSettings::new("/etc/passwd".into()));
    let evaluation = pool.run(&script(""), &World::default(), &CancellationToken::new()).await;
    assert_eq!(failure(&evaluation), "Script execution failed: the script worker `/etc/passwd` may not be run");
}

#[tokio::test]
async fn a_probe_starts_one_worker_and_leaves_none() {
    let stand_in = StandIn::new("sleep 0.05; begin; hang");
    let took = probe(&stand_in.path()).await.unwrap();
    assert!((Duration::from_millis(50)..Duration::from_secs(5)).contains(&took), "{took:?}");
    assert_eq!(stand_in.numbers().len(), 1);
    gone(&stand_in.numbers()).await;
}

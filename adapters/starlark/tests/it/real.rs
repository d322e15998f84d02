//! The real worker: what Satchel gets from it, and what its scripts can't do.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use rstest::rstest;
use satchel_domain::{Visibility, WakeRequest};
use satchel_ports::{ScriptEvaluation, ScriptHost, ScriptRequest};
use satchel_starlark::{ScriptPoolSettings, WorkerPool, probe};
use serde_json::{Map, json};
use tokio_util::sync::CancellationToken;

use crate::stage::{StandIn, World, failure, real_worker, script, timed_out, value, work_share};

fn pool() -> WorkerPool {
    WorkerPool::new(ScriptPoolSettings::new(real_worker()))
}

async fn run(source: &str, world: &World) -> ScriptEvaluation {
    pool().run(&script(source), world, &CancellationToken::new()).await
}

#[tokio::test]
async fn it_is_ready_soon() {
    let took = probe(&real_worker()).await.unwrap();
    eprintln!("ready after {took:?}");
}

#[tokio::test]
async fn a_script_prints_wakes_calls_and_returns() {
    let source = r#"
print("hello,", who)
total = 0
for n in [1, 2, 3]:
    total += n
wake_llm({"total": total}, include_event=False)
heard = echo(1, "ё", deep=[1.5])
if heard["named"]["deep"][0] == 1.5:
    return {"total": total, "first": heard["positional"][0], "text": f"{who}: {total:>3}"}
return None
"#;
    let world = World::default();
    let script = ScriptRequest { globals: Map::from_iter([("who".to_owned(), json!("Ann"))]), ..script(source) };
    let evaluation = pool().run(&script, &world, &CancellationToken::new()).await;
    assert_eq!(evaluation.value, Ok(json!({"total": 6, "first": 1, "text": "Ann:   6"})), "{evaluation:?}");
    assert_eq!(evaluation.printed, "hello, Ann\n");
    assert_eq!(evaluation.wakes, [WakeRequest { context: json!({"total": 6}), include_event: false }]);
    let asked = world.asked.lock().unwrap();
    assert_eq!(
        (&asked[0].positional, &asked[0].named),
        (&vec![json!(1), json!("ё")], &Map::from_iter([("deep".to_owned(), json!([1.5]))]))
    );
}

#[tokio::test]
async fn a_large_file_flows_out_of_a_script() {
    let world = World::default();
    let source = r#"
return attachment_create("0123456789abcde\n" * (2 << 20), "numbers.txt", description="Numbers", visibility="internal")
"#;
    let evaluation = run(source, &world).await;
    assert_eq!(evaluation.value, Ok(json!({"bytes": 32 << 20})));
    let files = world.files.lock().unwrap();
    assert_eq!(
        (files[0].0.filename.as_str(), files[0].0.visibility, files[0].1),
        ("numbers.txt", Visibility::Internal, 32 << 20)
    );
}

#[rstest]
#[case::a_syntax_error("x = 1\nreturn (\n", "Syntax error in script at line")]
#[case::a_name_that_does_not_exist("x = 1\nreturn nothing\n", "Syntax error in script at line 2: ")]
#[case::a_failure("x = 1\ny = 1 // 0\n", "(line 2, column ")]
#[case::a_refusal("x = 1\nrefuse()\n", "the list is closed (line 2, column ")]
#[case::a_wrong_visibility(
    "attachment_create('x', 'a.txt', visibility='public')",
    "visibility must be `deliver` or `internal`, not `public` (line 1, column "
)]
#[case::a_description_that_is_no_description(
    "attachment_create('x', 'a.txt', description='d' * 20000)",
    "more than 16384 bytes together as JSON (line 1, column "
)]
#[case::a_large_answer(
    "large()",
    "what `large` returned is larger than 8.3 MB; ask it for a part of that (line 1, column "
)]
#[case::a_deep_answer("deep()", "what `deep` returned is nested deeper than 64 levels (line 1, column ")]
#[case::a_long_refusal("chatter()", "… (line 1, column ")]
#[tokio::test]
async fn what_is_wrong_is_told_with_its_place(#[case] source: &str, #[case] words: &str) {
    let evaluation = run(source, &World::default()).await;
    assert!(failure(&evaluation).contains(words), "{}", failure(&evaluation));
}

/// Each of these ends or hangs whoever evaluates it.
#[rstest]
#[case::a_text_that_multiplies_itself("s = 'aa'\nfor i in range(60):\n    s = s.replace('a', s)\n")]
#[case::a_list_of_everything("x = sorted(range(300000000))\n")]
#[case::a_hundred_thousand_parentheses_that_are_returned("PARENTHESES")]
#[case::a_function_that_calls_itself("def f(n):\n    return f(n + 1)\nf(0)\n")]
#[case::a_list_that_doubles("x = [0]\nfor i in range(60):\n    x = x + x\n")]
#[case::a_number_that_grows("x = 7\nfor i in range(60):\n    x = x * x\n")]
#[case::a_padding("return '%s' % ('x' * (1 << 40))")]
#[case::a_count_that_takes_long(
    "s = 'a' * 40000000\nfor i in range(1000):\n    s.count('aaaaaaaaaaaaaaaaaaaaaaaaaaaaab')\n"
)]
#[case::prints_without_end("for i in range(1000000000):\n    print('x' * 1000)\n")]
#[case::files_without_end("for i in range(1000000000):\n    attachment_create('x' * 100000, 'a.txt')\n")]
#[tokio::test]
async fn a_bomb_hurts_nobody_but_its_script(#[case] source: &str) {
    let source = match source {
        "PARENTHESES" => format!("return {}{}", "(".repeat(100_000), ")".repeat(100_000)),
        source => source.to_owned(),
    };
    // Above the worker's own limit: should that be gone, this machine stays whole.
    let within = StandIn::new(&format!("ulimit -v 2000000; exec '{}'", real_worker().display()));
    let (pool, world) = (WorkerPool::new(ScriptPoolSettings::new(within.path())), World::default());
    let begun = Instant::now();
    let bomb = ScriptRequest { time_limit: Duration::from_secs(2), ..script(&source) };
    let evaluation = pool.run(&bomb, &world, &CancellationToken::new()).await;
    let (words, took) = (failure(&evaluation), begun.elapsed());
    eprintln!("{took:?}: {}", words.lines().next().unwrap());
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert!(
        !words.contains("broke the protocol") && !words.contains(real_worker().parent().unwrap().to_str().unwrap()),
        "{words}"
    );
    let next = pool.run(&script("return 1"), &world, &CancellationToken::new()).await;
    assert_eq!(value(&next), 1);
}

#[tokio::test]
async fn a_tight_loop_is_stopped_at_the_deadline() {
    let pool = pool();
    assert_eq!(value(&pool.run(&script("return 1"), &World::default(), &CancellationToken::new()).await), 1);
    let endless = ScriptRequest {
        time_limit: Duration::from_secs(1),
        ..script(
            "def f():\n    for i in range(1000000000):\n        for j in range(1000000000):\n            pass\nf()\n",
        )
    };
    let begun = Instant::now();
    let evaluation = pool.run(&endless, &World::default(), &CancellationToken::new()).await;
    assert_eq!(evaluation.value, timed_out(1_000));
    eprintln!("{:?} after the deadline", begun.elapsed().saturating_sub(Duration::from_secs(1)));
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn two_hundred_concurrent_scripts_all_run() {
    let (pool, world) = (pool(), World::default());
    let scripts: Vec<_> = (0..200)
        .map(|number| ScriptRequest {
            work_share: work_share(&(number % 10).to_string()),
            ..script(&format!("echo({number})\nreturn {number}"))
        })
        .collect();
    let runs = scripts.iter().map(|script| async { pool.run(script, &world, &CancellationToken::new()).await });
    for (number, evaluation) in futures::future::join_all(runs).await.iter().enumerate() {
        assert_eq!(evaluation.value, Ok(json!(number)));
    }
    assert!(world.most_under_way.load(Ordering::SeqCst) <= 8);
}

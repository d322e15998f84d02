//! The protocol: who speaks when, and that the worker ends when its host does.

use std::{
    os::unix::process::ExitStatusExt,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use satchel_starlark::protocol::{FromWorker, MAX_HOST_LINE_BYTES, ToWorker};
use serde_json::json;

use crate::worker::{Worker, answer, evaluate, evaluate_run, run};

#[test]
fn a_worker_serves_one_script_and_ends() {
    let mut worker = Worker::start();
    worker.send(&ToWorker::Run(run("return 1 + 2")));
    assert_eq!(worker.finish(answer).outcome, Ok(json!(3)));
    let (status, errors) = worker.end();
    assert!(status.success(), "{status:?} {errors}");
    assert_eq!(errors, "");
}

#[cfg(target_os = "linux")]
#[test]
fn ready_worker_has_a_low_priority() {
    let worker = Worker::start();
    let nice = |stat: &str| -> i32 {
        let stat = std::fs::read_to_string(stat).unwrap();
        // Behind the name, which may hold anything, it is the seventeenth.
        let (_, behind) = stat.rsplit_once(')').unwrap();
        behind.split_whitespace().nth(16).unwrap().parse().unwrap()
    };
    let threads = std::fs::read_dir(format!("/proc/{}/task", worker.id())).unwrap();
    let values = threads.map(|thread| nice(thread.unwrap().path().join("stat").to_str().unwrap()));
    let lower = (nice("/proc/self/stat") + 10).min(19);
    assert_eq!(values.collect::<Vec<_>>(), [lower, lower]);
}

/// Catches: a limit that can't be raised taken for a wall that can't be built, where the operator allows less.
#[test]
fn worker_runs_under_stricter_operator_limits() {
    let mut worker = Worker::start_within("ulimit -t 5; ulimit -v 400000; ulimit -f 0");
    worker.send(&ToWorker::Run(run("return 1 + 2")));
    assert_eq!(worker.finish(answer).outcome, Ok(json!(3)));
}

#[test]
fn an_idle_worker_ends_with_its_host() {
    let mut worker = Worker::start();
    worker.hang_up(b"");
    let (status, errors) = worker.end();
    assert!(status.success(), "{status:?} {errors}");
}

/// Without a thread that does nothing but listen, the loop would run on for the rest of its processor time.
#[test]
fn busy_worker_exits_with_host() {
    for script in ["for i in range(2000000000):\n    pass", "x = [0 for i in range(2000000000) if False]"] {
        let mut worker = Worker::start();
        worker.send(&ToWorker::Run(run(&format!("print('on')\n{script}"))));
        assert_eq!(worker.next(), Some(FromWorker::Print("on".to_owned())));
        let since = Instant::now();
        worker.hang_up(b"");
        worker.end();
        assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
    }
}

#[test]
fn what_is_not_understood_ends_the_worker() {
    for (line, word) in [
        ("", "not understood"),
        ("run", "not understood"),
        ("{\"run\":{\"script\":\"1\"}}", "not understood"),
        (
            "{\"run\":{\"script\":\"1\",\"globals\":{},\"functions\":[],\"processor_seconds\":1,\"more\":1}}",
            "not understood",
        ),
        ("{\"stop\":1}", "not understood"),
        ("{\"value\":1}", "before it sent a script"),
    ] {
        let mut worker = Worker::start();
        worker.send_line(line);
        let (status, errors) = worker.end();
        assert_eq!(status.code(), Some(2), "{line}: {errors}");
        assert!(errors.contains(word), "{line}: {errors}");
    }
}

#[test]
fn overlong_or_truncated_line_ends_worker() {
    for (bytes, word) in
        [(vec![b' '; MAX_HOST_LINE_BYTES + 2], "longer than"), (b"{\"run\":".to_vec(), "middle of a line")]
    {
        let mut worker = Worker::start();
        worker.hang_up(&bytes);
        let (status, errors) = worker.end();
        assert_eq!(status.code(), Some(2), "{errors}");
        assert!(errors.contains(word), "{errors}");
    }
}

#[test]
fn an_answer_before_the_question_ends_the_worker() {
    let mut worker = Worker::start();
    worker.send(&ToWorker::Run(run("for i in range(5000000):\n    pass\nreturn echo()")));
    worker.send(&ToWorker::Value(json!("too early")));
    let (status, errors) = worker.end();
    assert_eq!(status.code(), Some(2));
    assert!(errors.contains("before it was asked"), "{errors}");
}

#[test]
fn a_second_script_ends_the_worker() {
    let mut worker = Worker::start();
    worker.send(&ToWorker::Run(run("return echo()")));
    assert!(matches!(worker.next(), Some(FromWorker::Call(_))));
    worker.send(&ToWorker::Run(run("return 2")));
    assert_eq!(worker.end().0.code(), Some(2));
}

#[test]
fn globals_are_variables_and_win_over_functions() {
    let mut run = run("echo = echo + 1\nbig = big * 2\nreturn [echo, half, two, whole, names, big]");
    run.globals = json!({
        "echo": 1, "half": 1.5, "two": 2.0, "whole": 2, "names": {"a": [None::<u8>, true]}, "big": 9007199254740993_i64,
        "not a name": 1, "for": 2,
    })
    .as_object()
    .unwrap()
    .clone();
    let told = evaluate_run(run);
    let value = told.outcome.unwrap();
    assert_eq!(value.to_string(), r#"[2,1.5,2.0,2,{"a":[null,true]},18014398509481986]"#);
}

#[test]
fn invalid_or_builtin_function_name_is_ignored() {
    let mut run = run("return [len([1, 2]), json_decode('1')]");
    run.functions = ["len", "json_decode", "attachment.add", "for", "", "a b"].map(str::to_owned).to_vec();
    assert_eq!(evaluate_run(run).outcome, Ok(json!([2, 1])));
}

#[test]
fn call_carries_arguments_and_returns_value() {
    let told = evaluate("return echo(1, 'two', [3.5, None], key={'a': (1, 2)}, **{'more': True})");
    let expected = json!({
        "positional": [1, "two", [3.5, null]],
        "named": {"key": {"a": [1, 2]}, "more": true},
    });
    assert_eq!(told.outcome, Ok(expected));
}

/// Nothing may be lost between the last word and the end.
#[test]
fn all_output_is_readable_after_worker_exit() {
    let mut worker = Worker::start();
    worker.send(&ToWorker::Run(run("for i in range(200):\n    print('line', i)\nreturn 'x' * 1000")));
    assert!(worker.wait_for_exit().success());
    let told = worker.finish(answer);
    assert_eq!(told.said.len(), 200);
    assert_eq!(told.outcome, Ok(json!("x".repeat(1000))));
}

#[test]
fn cpu_limit_kills_orphaned_loop() {
    let mut endless = run("for i in range(2000000000):\n    for j in range(2000000000):\n        pass");
    endless.processor_seconds = 1;
    let mut worker = Worker::start();
    worker.send(&ToWorker::Run(endless));
    let (status, errors) = worker.end();
    // SIGXCPU, whose number is the same on every Linux that we know of.
    assert_eq!(status.signal(), Some(24), "{status:?} {errors}");
}

#[test]
fn a_person_is_told_what_it_is() {
    for (argument, word, code) in [("--version", "satchel-script 0", 0), ("--help", "for Satchel", 0), ("x", "", 2)] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_satchel-script")).arg(argument).stdin(Stdio::null()).output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains(word));
        assert_eq!(output.status.code(), Some(code));
    }
}

/// What the kernel says of a worker that waits: both its threads are behind the filter.
#[cfg(target_os = "linux")]
#[test]
fn a_ready_worker_is_shut_in() {
    let worker = Worker::start();
    let tasks: Vec<_> = std::fs::read_dir(format!("/proc/{}/task", worker.id())).unwrap().collect();
    assert_eq!(tasks.len(), 2);
    for task in tasks {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        for line in ["NoNewPrivs:\t1", "Seccomp:\t2"] {
            assert!(status.contains(line), "{line} in\n{status}");
        }
    }
}

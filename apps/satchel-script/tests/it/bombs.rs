//! Scripts that are meant to hurt, and how each must end: with an error, with its worker, or by the host.

use std::{
    os::unix::process::ExitStatusExt,
    time::{Duration, Instant},
};

use satchel_starlark::protocol::{FromWorker, MEMORY_ADVICE, ToWorker};

use crate::worker::{Worker, evaluate, failure, run};

/// After how long a script that should have ended by itself is taken to go on for ever.
const END_TIMEOUT: Duration = Duration::from_secs(90);

/// How long the host of this test lets a script compute that nothing else ends.
const COMPUTING: Duration = Duration::from_secs(2);

/// How a script ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It has a value: it was harmless after all.
    Value,
    /// It got an error, and its worker lives.
    Error,
    /// Its worker was ended by a signal.
    Died,
    /// It was still computing when the host's time was over, and was killed.
    Killed,
}

fn ignite(script: &str, timeout: Duration) -> End {
    // Far above the worker's own limits: should one be gone, the script gets further than it may, and this machine
    // stays whole.
    let mut worker = Worker::start_within("ulimit -t 120; ulimit -v 4000000; ulimit -f 0");
    worker.send(&ToWorker::Run(run(script)));
    let since = Instant::now();
    loop {
        match worker.next_within(timeout.saturating_sub(since.elapsed())) {
            Ok(Some(FromWorker::Done(_))) => return End::Value,
            Ok(Some(FromWorker::Failed(_))) => return End::Error,
            Ok(Some(_)) => {}
            Ok(None) => {
                let (status, errors) = worker.end();
                // By a signal of its own (abort, segmentation fault), never with an exit code that looks like an answer.
                assert!(status.signal().is_some(), "{status:?} {errors}");
                return End::Died;
            }
            Err(()) => return End::Killed,
        }
    }
}

/// Each ends in one of these ways; that it leaves nothing behind is in the nature of a process.
fn check(bombs: &[(&str, &str)], timeout: Duration, allowed: &[End]) {
    for (name, script) in bombs {
        let end = ignite(script, timeout);
        assert!(allowed.contains(&end), "{name}: {end:?} instead of {allowed:?}");
    }
}

/// Catches: a worker without a limit of its memory. Each of these would have a value where there is a gigabyte more.
#[test]
fn script_beyond_its_memory_has_no_value() {
    check(
        &[
            ("text", "return len('a' * 1000000000)"),
            ("bytes", "return len(b'a' * 1000000000)"),
            ("list", "return len([0] * 120000000)"),
            ("range", "return len(list(range(70000000)))"),
            ("replace", "s = 'a' * 10000\nreturn len(s.replace('a', s * 10))"),
            ("join", "return len(','.join(['a' * 100000] * 10000))"),
        ],
        END_TIMEOUT,
        &[End::Error, End::Died],
    );
}

/// Catches: a script whose memory grows until the host's time is over.
#[test]
fn growing_memory_ends_the_script() {
    check(
        &[
            ("doubling", "s = 'a' * 16\nfor i in range(40):\n    s = s + s\nreturn len(s)"),
            ("list of a range", "return len(list(range(2000000000)))"),
            ("sorted range", "return sorted(range(300000000))[0]"),
            ("replace", "s = 'a' * 10000000\nreturn len(s.replace('a', s))"),
            ("format", "return '%s' % ('a' * 1000000000)"),
            ("join", "return len(','.join(['a' * 100000] * 100000))"),
            ("dict", "d = {}\nfor i in range(100000000):\n    d[i] = i\nreturn len(d)"),
            ("nested repeat", "x = 'a'\nfor i in range(30):\n    x = [x] * 1000\nreturn str(x)"),
            ("sort", "x = list(range(3000000))\nfor i in range(100000):\n    y = sorted(x)\nreturn 1"),
            ("big", "x = 1 << 100000\nfor i in range(30):\n    x = x * x\nreturn 1"),
            ("json", "x = '[' + '0,' * 8000000 + '0]'\nreturn len(json_decode(x))"),
            ("file", "attachment_create('a' * 400000000, 'x')"),
            ("base64", "attachment_create('AAAA' * 60000000, 'x', encoding='base64')"),
        ],
        END_TIMEOUT,
        &[End::Error, End::Died],
    );
}

/// A loop frees nothing before it ends, and the author reads what helps; the same work in two loops has a value.
#[test]
fn memory_error_names_a_remedy_that_works() {
    let loops = |counts: &[u32]| -> String {
        let adding = "def add(x, count):\n    for i in range(count):\n        x += i\n    return x\n\nx = 0\n";
        let parts: String = counts.iter().map(|count| format!("x = add(x, {count})\n")).collect();
        format!("{adding}{parts}return x > 0")
    };
    let error = failure(&loops(&[4_000_000]));
    assert_eq!(error.message, format!("the script used more memory than it may; {MEMORY_ADVICE}"));
    let in_parts = evaluate(&loops(&[2_000_000; 2]));
    assert!(in_parts.outcome.is_ok(), "{:?}", in_parts.outcome);
}

#[test]
fn one_loop_makes_as_many_values_as_guide_promises() {
    for script in [
        "x = 0\nfor i in range(3000000):\n    x += i\nreturn x",
        "x = 0.0\nfor i in range(8000000):\n    x += 1.5\nreturn x",
        "for i in range(4000000):\n    x = str(i)\nreturn x",
    ] {
        let told = evaluate(script);
        assert!(told.outcome.is_ok(), "{script}: {:?}", told.outcome);
    }
}

#[test]
fn numbers_beyond_their_type_are_errors() {
    check(
        &[
            ("multiplication", "return len('a' * 10000000000)"),
            ("list multiplication", "return len([0] * 10000000000)"),
            ("bytes", "return len(b'a' * 10000000000)"),
            ("shift", "return 1 << 100000000000"),
        ],
        END_TIMEOUT,
        &[End::Error],
    );
}

/// The parser has no limit of its own: a source like this ends its worker.
#[test]
fn deep_source_ends_at_most_its_worker() {
    let parentheses = format!("return {}1{}", "(".repeat(100_000), ")".repeat(100_000));
    let brackets = format!("return {}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    let sum = format!("return {}1", "1+".repeat(200_000));
    let not = format!("return {}1", "not ".repeat(200_000));
    let attributes = format!("return x{}", ".a".repeat(200_000));
    check(
        &[
            ("parentheses", &parentheses),
            ("brackets", &brackets),
            ("sum", &sum),
            ("not", &not),
            ("attributes", &attributes),
        ],
        END_TIMEOUT,
        &[End::Error, End::Died],
    );
}

/// Catches: a limit of depth that is gone, so that the stack ends the worker where the script should learn why.
#[test]
fn deep_values_and_calls_are_errors() {
    let nested = "x = []\nfor i in range(100000):\n    x = [x]\n";
    check(
        &[
            ("comparison", &format!("{nested}y = x\n{nested}return x == y")),
            ("order", &format!("{nested}y = x\n{nested}return x < y")),
            ("json_encode", &format!("{nested}return json_encode(x)")),
            ("json.encode", &format!("{nested}return json.encode(x)")),
            ("hash", "x = ()\nfor i in range(100000):\n    x = (x,)\nreturn {x: 1}"),
            ("cyclic comparison", "x = []\nx.append(x)\ny = []\ny.append(y)\nreturn x == y"),
            ("cyclic json.encode", "x = []\nx.append(x)\nreturn json.encode(x)"),
            ("recursion", "def f(n):\n    return f(n + 1)\nreturn f(0)"),
            ("recursion in a key", "def f(n):\n    return sorted([n], key=f)\nreturn f(0)"),
            ("recursion in map", "def f(n):\n    return map(f, [n])\nreturn f(0)"),
        ],
        END_TIMEOUT,
        &[End::Error],
    );
}

#[test]
fn depth_that_text_can_show_is_harmless() {
    let blocks: String = (0..2000).map(|depth| format!("{}if True:\n", " ".repeat(depth))).collect();
    let blocks = format!("{blocks}{}pass", " ".repeat(2000));
    let f_strings = format!("return {}1{}", "f'{".repeat(5_000), "}'".repeat(5_000));
    let nested = "x = []\nfor i in range(100000):\n    x = [x]\n";
    check(
        &[
            ("blocks", &blocks),
            ("f-strings", &f_strings),
            ("str", &format!("{nested}return len(str(x))")),
            ("repr", &format!("{nested}return len(f'{{x!r}}')")),
            ("cyclic str", "x = []\nx.append(x)\nreturn len(str(x))"),
            ("print", &format!("{nested}print(x)")),
            ("time of many", "return len(time_format(0, format='%A' * 1000000))"),
        ],
        END_TIMEOUT,
        &[End::Value],
    );
}

#[test]
fn huge_formats_are_errors() {
    check(
        &[
            ("width", "return f'{1:>99999999999999999999}'"),
            ("precision", "return f'{1.5:.4000000000f}'"),
            ("nested width", "w = 1 << 40\nreturn f'{1:{w}}'"),
            ("time", "return time_format(0, format='%099999999999d')"),
            ("indent", "return json_encode([[[1]]], indent=2000000000)"),
            ("digits", "return json_decode('9' * 1000000)"),
            ("specs", "return f'{1:\"{1:\"{1:\"{1:\"'"),
        ],
        END_TIMEOUT,
        &[End::Error],
    );
}

/// Catches: a script that is ended for computing long, which the host alone decides.
#[test]
fn computing_is_left_to_the_hosts_clock() {
    check(
        &[
            ("loop", "for i in range(2000000000):\n    pass"),
            ("comprehension", "x = [0 for i in range(2000000000) if False]"),
            ("count", "s = 'a' * 5000000\nfor i in range(1000):\n    y = s.count('b') + s.find('aab')\nreturn 1"),
        ],
        COMPUTING,
        &[End::Killed],
    );
}

/// Deep, but nobody's attack: such values come from tools.
#[test]
fn a_deep_but_legal_script_works() {
    let parentheses = format!("return {}1{}", "(".repeat(2_000), ")".repeat(2_000));
    let sum = format!("return {}1", "1+".repeat(5_000));
    for script in [parentheses, sum, "def f(n):\n    return n if n == 0 else f(n - 1)\nreturn f(90)".to_owned()] {
        let mut worker = Worker::start();
        worker.send(&ToWorker::Run(run(&script)));
        let end = worker.next();
        assert!(matches!(end, Some(FromWorker::Done(_))), "{end:?}");
    }
}

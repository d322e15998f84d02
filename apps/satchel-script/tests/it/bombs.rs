//! Scripts that are meant to hurt: each fails or ends its worker, or computes until the host has had enough.

use std::{
    os::unix::process::ExitStatusExt,
    time::{Duration, Instant},
};

use satchel_starlark::protocol::{FromWorker, ToWorker};

use crate::worker::{Worker, run};

/// How long the host of this test lets a script compute.
const PATIENCE: Duration = Duration::from_secs(2);

/// How a bomb went off.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The script got an error or, harmless after all, a value.
    Told,
    /// Its worker was ended by the system.
    Died,
    /// It went on computing, so it was killed.
    Killed,
}

fn ignite(script: &str) -> End {
    // Above the worker's own limits: should one be gone, it is missed elsewhere, and this machine stays whole.
    let mut worker = Worker::start_within("ulimit -t 30; ulimit -v 2000000; ulimit -f 0");
    worker.send(&ToWorker::Run(run(script)));
    let since = Instant::now();
    loop {
        match worker.next_within(PATIENCE.saturating_sub(since.elapsed())) {
            Ok(Some(FromWorker::Done(_) | FromWorker::Failed(_))) => return End::Told,
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

/// Each ends in time; that it leaves nothing behind is in the nature of a process.
fn check(bombs: &[(&str, &str)], may_be_killed: bool) {
    for (name, script) in bombs {
        let since = Instant::now();
        let end = ignite(script);
        assert!(may_be_killed || end != End::Killed, "{name} went on for {PATIENCE:?}");
        assert!(since.elapsed() < PATIENCE + Duration::from_secs(5), "{name}: {:?}", since.elapsed());
    }
}

#[test]
fn memory_is_bounded() {
    check(
        &[
            ("doubling", "s = 'a' * 16\nfor i in range(40):\n    s = s + s\nreturn len(s)"),
            ("multiplication", "return len('a' * 10000000000)"),
            ("list multiplication", "return len([0] * 10000000000)"),
            ("list of a range", "return len(list(range(2000000000)))"),
            ("sorted range", "return sorted(range(300000000))[0]"),
            ("replace", "s = 'a' * 10000000\nreturn len(s.replace('a', s))"),
            ("format", "return '%s' % ('a' * 1000000000)"),
            ("join", "return len(','.join(['a' * 100000] * 100000))"),
            ("dict", "d = {}\nfor i in range(100000000):\n    d[i] = i\nreturn len(d)"),
            ("shift", "return 1 << 100000000000"),
            ("bytes", "return len(b'a' * 10000000000)"),
            ("nested repeat", "x = 'a'\nfor i in range(30):\n    x = [x] * 1000\nreturn str(x)"),
            ("json", "x = '[' + '0,' * 8000000 + '0]'\nreturn len(json_decode(x))"),
            ("file", "attachment_create('a' * 400000000, 'x')"),
            ("base64", "attachment_create('AAAA' * 60000000, 'x', encoding='base64')"),
        ],
        // Some fill the memory slowly on a busy machine.
        true,
    );
}

#[test]
fn depth_is_bounded() {
    let parentheses = format!("return {}1{}", "(".repeat(100_000), ")".repeat(100_000));
    let brackets = format!("return {}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    let sum = format!("return {}1", "1+".repeat(200_000));
    let not = format!("return {}1", "not ".repeat(200_000));
    let attributes = format!("return x{}", ".a".repeat(200_000));
    let blocks: String = (0..2000).map(|depth| format!("{}if True:\n", " ".repeat(depth))).collect();
    let blocks = format!("{blocks}{}pass", " ".repeat(2000));
    let f_strings = format!("return {}1{}", "f'{".repeat(5_000), "}'".repeat(5_000));
    let nested = "x = []\nfor i in range(100000):\n    x = [x]\n";
    check(
        &[
            ("parentheses", &parentheses),
            ("brackets", &brackets),
            ("sum", &sum),
            ("not", &not),
            ("attributes", &attributes),
            ("blocks", &blocks),
            ("f-strings", &f_strings),
            ("str", &format!("{nested}return len(str(x))")),
            ("repr", &format!("{nested}return len(f'{{x!r}}')")),
            ("comparison", &format!("{nested}y = x\n{nested}return x == y")),
            ("order", &format!("{nested}y = x\n{nested}return x < y")),
            ("json_encode", &format!("{nested}return json_encode(x)")),
            ("json.encode", &format!("{nested}return json.encode(x)")),
            ("hash", "x = ()\nfor i in range(100000):\n    x = (x,)\nreturn {x: 1}"),
            ("cyclic str", "x = []\nx.append(x)\nreturn len(str(x))"),
            ("cyclic comparison", "x = []\nx.append(x)\ny = []\ny.append(y)\nreturn x == y"),
            ("cyclic json.encode", "x = []\nx.append(x)\nreturn json.encode(x)"),
            ("print", &format!("{nested}print(x)")),
            ("recursion", "def f(n):\n    return f(n + 1)\nreturn f(0)"),
            ("recursion in a key", "def f(n):\n    return sorted([n], key=f)\nreturn f(0)"),
            ("recursion in map", "def f(n):\n    return map(f, [n])\nreturn f(0)"),
        ],
        true,
    );
}

#[test]
fn huge_formats_are_refused() {
    check(
        &[
            ("width", "return f'{1:>99999999999999999999}'"),
            ("precision", "return f'{1.5:.4000000000f}'"),
            ("nested width", "w = 1 << 40\nreturn f'{1:{w}}'"),
            ("time", "return time_format(0, format='%099999999999d')"),
            ("time of many", "return len(time_format(0, format='%A' * 1000000))"),
            ("indent", "return json_encode([[[1]]], indent=2000000000)"),
            ("digits", "return json_decode('9' * 1000000)"),
            ("specs", "return f'{1:\"{1:\"{1:\"{1:\"'"),
        ],
        false,
    );
}

#[test]
fn computing_is_left_to_the_hosts_clock() {
    check(
        &[
            ("loop", "for i in range(2000000000):\n    pass"),
            ("comprehension", "x = [0 for i in range(2000000000) if False]"),
            ("count", "s = 'a' * 5000000\nfor i in range(1000):\n    y = s.count('b') + s.find('aab')\nreturn 1"),
            ("sort", "x = list(range(3000000))\nfor i in range(100000):\n    y = sorted(x)\nreturn 1"),
            ("big", "x = 1 << 100000\nfor i in range(30):\n    x = x * x\nreturn 1"),
        ],
        true,
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

//! Workers that wait for the next script: when they are started, replaced, and let go.

use std::time::Duration;

use satchel_ports::ScriptHost;
use satchel_starlark::{ScriptPoolSettings, WorkerPool};
use satchel_wait::wait_until;
use tokio_util::sync::CancellationToken;

use crate::stage::{StandIn, World, exists, failure, gone, script, value};

const FRIENDLY: &str = "ready; echo $$ >> \"$HERE/waiting\"; hear; echo $$ >> \"$HERE/served\"; done_with 1; hang";

async fn runs(pool: &WorkerPool) {
    let evaluation = pool.run(&script(""), &World::default(), &CancellationToken::new()).await;
    assert_eq!(value(&evaluation), 1, "{:?}", evaluation.value);
}

fn warm(stand_in: &StandIn, warm: usize, idle: Duration) -> WorkerPool {
    WorkerPool::new(ScriptPoolSettings { max_warm: warm, idle_timeout: idle, ..stand_in.settings() })
}

/// Waits until so many workers have ever waited, and the pool knows of each.
async fn have_waited(stand_in: &StandIn, count: usize) {
    wait_until("so many wait", || stand_in.noted("waiting").len() == count).await;
    // They are written down a moment before the pool hears from them.
    tokio::time::sleep(Duration::from_millis(50)).await;
}

const LONG: Duration = Duration::from_secs(600);

#[tokio::test]
async fn warm_workers_start_only_after_first_script() {
    let stand_in = StandIn::new(FRIENDLY);
    let pool = warm(&stand_in, 2, LONG);
    // Longer than a refill and a start take.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(stand_in.numbers().is_empty());
    runs(&pool).await;
    have_waited(&stand_in, 3).await;
    // Longer than a refill and a start take.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(stand_in.numbers().len(), 3);
    runs(&pool).await;
    let served = stand_in.noted("served");
    // Those that wait are started one after the other.
    let longest = stand_in.noted("numbers").into_iter().find(|number| *number != served[0]);
    assert_eq!(Some(&served[1]), longest.as_ref(), "the one that has waited longest was taken");
    have_waited(&stand_in, 4).await;
}

#[tokio::test]
async fn every_script_gets_a_worker_of_its_own() {
    let stand_in = StandIn::new(FRIENDLY);
    let pool = warm(&stand_in, 2, LONG);
    for _ in 0..10 {
        runs(&pool).await;
    }
    let mut served = stand_in.noted("served");
    served.sort();
    served.dedup();
    assert_eq!(served.len(), 10);
    for number in served {
        gone(&[number.parse().unwrap()]).await;
    }
}

#[tokio::test]
async fn warm_workers_stop_when_idle() {
    let stand_in = StandIn::new(FRIENDLY);
    let pool = warm(&stand_in, 2, Duration::from_millis(400));
    runs(&pool).await;
    have_waited(&stand_in, 3).await;
    gone(&stand_in.numbers()).await;
    // Longer than a refill and a start take.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(stand_in.numbers().len(), 3, "and none is started for nobody");
    runs(&pool).await;
    have_waited(&stand_in, 6).await;
}

#[tokio::test]
async fn warm_worker_that_died_is_skipped() {
    let stand_in = StandIn::new(FRIENDLY);
    let pool = warm(&stand_in, 2, LONG);
    runs(&pool).await;
    have_waited(&stand_in, 3).await;
    for number in &stand_in.noted("waiting")[1..] {
        stand_in.kill(number.parse().unwrap());
        let stat = format!("/proc/{number}/stat");
        wait_until("it is dead", || std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") Z "))).await;
    }
    runs(&pool).await;
    let (waiting, served) = (stand_in.noted("waiting"), stand_in.noted("served"));
    assert!(!waiting[1..3].contains(&served[1]));
}

/// It lives, but hears no more: that shows only when it is told the script.
#[tokio::test]
async fn warm_worker_that_stopped_reading_is_skipped() {
    let body = "ready; [ -e \"$HERE/deafen\" ] && { exec < /dev/null; echo $$ > \"$HERE/deaf\"; hang; }
echo $$ >> \"$HERE/waiting\"; hear; done_with 1; hang";
    let stand_in = StandIn::new(body);
    let pool = warm(&stand_in, 1, LONG);
    runs(&pool).await;
    have_waited(&stand_in, 2).await;
    let deafen = stand_in.path().with_file_name("deafen");
    std::fs::write(&deafen, "").unwrap();
    runs(&pool).await;
    wait_until("one is deaf", || !stand_in.noted("deaf").is_empty()).await;
    std::fs::remove_file(deafen).unwrap();
    // The pool may not have read its readiness yet.
    tokio::time::sleep(Duration::from_millis(50)).await;
    runs(&pool).await;
    gone(&[stand_in.noted("deaf")[0].parse().unwrap()]).await;
}

#[tokio::test]
async fn a_pool_that_is_dropped_leaves_no_process() {
    let stand_in = StandIn::new(FRIENDLY);
    let pool = warm(&stand_in, 3, LONG);
    let clone = pool.clone();
    runs(&pool).await;
    have_waited(&stand_in, 4).await;
    drop(pool);
    assert!(stand_in.noted("waiting")[1..].iter().all(|number| exists(number.parse().unwrap())), "a clone is left");
    drop(clone);
    gone(&stand_in.numbers()).await;

    // Also in the middle of a start.
    let stand_in = StandIn::new("[ -e \"$HERE/first\" ] && hang; : > \"$HERE/first\"; begin; done_with 1; hang");
    let pool = warm(&stand_in, 1, LONG);
    runs(&pool).await;
    wait_until("the second one starts", || stand_in.numbers().len() == 2).await;
    drop(pool);
    // Less than the time after which it would be given up anyway.
    tokio::time::timeout(Duration::from_secs(4), gone(&stand_in.numbers())).await.unwrap();
}

#[tokio::test]
async fn failed_worker_replacement_is_retried_with_next_script() {
    let stand_in = StandIn::new(&format!("[ -e \"$HERE/broken\" ] && exit 1\n{FRIENDLY}"));
    let pool = warm(&stand_in, 1, LONG);
    runs(&pool).await;
    have_waited(&stand_in, 2).await;
    let broken = stand_in.path().with_file_name("broken");
    std::fs::write(&broken, "").unwrap();
    runs(&pool).await;
    wait_until("a replacement was tried", || stand_in.numbers().len() == 3).await;
    // Longer than a refill and a start take.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(stand_in.numbers().len(), 3, "it is not tried without end");
    let evaluation = pool.run(&script(""), &World::default(), &CancellationToken::new()).await;
    assert!(failure(&evaluation).contains("ended before it was ready"), "{}", failure(&evaluation));
    std::fs::remove_file(broken).unwrap();
    runs(&pool).await;
    have_waited(&stand_in, 4).await;
}

//! Places: how many scripts run, whose turn it is, and who gives up waiting.

use std::{
    sync::{Arc, Mutex, atomic::Ordering},
    time::{Duration, Instant},
};

use satchel_ports::{ScriptError, ScriptHost, ScriptRequest};
use satchel_starlark::{ScriptPoolSettings, WorkerPool};
use satchel_wait::wait_until;
use tokio_util::sync::CancellationToken;

use crate::stage::{StandIn, World, gone, script, value, work_share};

fn of(key: &str) -> ScriptRequest {
    ScriptRequest { work_share: work_share(key), ..script("") }
}

#[tokio::test]
async fn concurrency_is_limited_overall_and_per_conversation() {
    let stand_in = StandIn::new("begin; call wait; hear; done_with 1");
    let settings = ScriptPoolSettings { max_concurrent: 4, max_concurrent_per_holder: 2, ..stand_in.settings() };
    let pool = WorkerPool::new(settings);
    for (keys, most) in [(vec!["a"; 10], 2), (vec!["a", "b", "c", "a", "b", "c", "a", "b", "c", "d"], 4)] {
        let world = World { waits_for: most, ..World::default() };
        let runs = keys.iter().map(|key| {
            let (pool, world, script) = (&pool, &world, of(key));
            async move { pool.run(&script, world, &CancellationToken::new()).await }
        });
        for evaluation in futures::future::join_all(runs).await {
            assert_eq!(value(&evaluation), 1);
        }
        assert_eq!(world.most_under_way.load(Ordering::SeqCst), most);
    }
}

#[tokio::test]
async fn busy_conversation_does_not_delay_another() {
    let stand_in = StandIn::new("begin; done_with 1");
    let settings = ScriptPoolSettings { max_concurrent: 1, max_concurrent_per_holder: 2, ..stand_in.settings() };
    let pool = WorkerPool::new(settings);
    let ended = Arc::new(Mutex::new(Vec::new()));
    let run = |key: &'static str| {
        let (pool, ended) = (pool.clone(), Arc::clone(&ended));
        tokio::spawn(async move {
            assert_eq!(value(&pool.run(&of(key), &World::default(), &CancellationToken::new()).await), 1);
            ended.lock().unwrap().push(key);
        })
    };
    let mut running: Vec<_> = (0..200).map(|_| run("busy")).collect();
    wait_until("some have run", || ended.lock().unwrap().len() >= 5).await;
    let before = ended.lock().unwrap().len();
    running.push(run("new"));
    wait_until("the new one has run", || ended.lock().unwrap().contains(&"new")).await;
    let position = ended.lock().unwrap().iter().position(|key| *key == "new").unwrap();
    // One that runs, one that was the next already, and one that may have ended since the look.
    assert!(position <= before + 3, "{before} before it came, {position} before it ran");
    for run in running {
        run.await.unwrap();
    }
    gone(&stand_in.numbers()).await;
}

#[tokio::test]
async fn slot_wait_beyond_timeout_is_reported() {
    let stand_in = StandIn::new("begin; hang");
    let settings =
        ScriptPoolSettings { max_concurrent: 1, queue_timeout: Duration::from_millis(200), ..stand_in.settings() };
    let pool = WorkerPool::new(settings);
    let (world, cancel, slow, waiting) = (World::default(), CancellationToken::new(), of("a"), of("b"));
    let first = pool.run(&slow, &world, &cancel);
    let second = async {
        wait_until("the first one runs", || !stand_in.numbers().is_empty()).await;
        let begun = Instant::now();
        let evaluation = pool.run(&waiting, &world, &CancellationToken::new()).await;
        let reason = "too many scripts are running; try again in a moment".to_owned();
        assert_eq!(evaluation.value, Err(ScriptError::Unavailable { reason }));
        assert!((Duration::from_millis(200)..Duration::from_secs(3)).contains(&begun.elapsed()));

        // One that nobody wants any more doesn't wait either.
        let unwanted = CancellationToken::new();
        unwanted.cancel();
        assert_eq!(pool.run(&waiting, &world, &unwanted).await.value, Err(ScriptError::Cancelled));
        cancel.cancel();
    };
    let (first, ()) = tokio::join!(first, second);
    assert_eq!(first.value, Err(ScriptError::Cancelled));
    assert_eq!(stand_in.numbers().len(), 1, "for the others no worker was started");
}

/// Were the wait for a place counted, a busy minute would eat the time of whoever waits.
#[tokio::test]
async fn time_limit_starts_with_worker_not_queueing() {
    let stand_in = StandIn::new("begin; sleep 0.4; done_with 1");
    let pool = WorkerPool::new(ScriptPoolSettings { max_concurrent: 1, ..stand_in.settings() });
    let short = ScriptRequest { time_limit: Duration::from_millis(1_500), ..script("") };
    let world = World::default();
    let runs = (0..6).map(|_| async { pool.run(&short, &world, &CancellationToken::new()).await });
    for evaluation in futures::future::join_all(runs).await {
        assert_eq!(value(&evaluation), 1);
    }
}

//! The order and delays of waiting calls.

use std::sync::{
    Mutex as StdMutex,
    atomic::{AtomicU64, Ordering},
};

use teloxide::types::ChatId;
use uuid::Uuid;

use super::*;

const TELEGRAM: RateLimits =
    RateLimits { per_second: Some(30), per_conversation_second: Some(1), burst: 3, per_group_minute: Some(20) };

fn chat(number: i64) -> ConversationAddress {
    ConversationAddress { chat: ChatId(number), topic: None }
}

fn part() -> PartId {
    static PARTS: AtomicU64 = AtomicU64::new(0);
    PartId(Uuid::from_u128(PARTS.fetch_add(1, Ordering::Relaxed).into()))
}

/// Acquires a permit as a lane's holder does, which retries a little later than told. Returns how often it was
/// deferred.
async fn acquire_until_granted(rate_limiter: &RateLimiter, address: ConversationAddress, call: CallKind) -> usize {
    let (part, mut deferrals) = (part(), 0);
    while let Err(wait) = rate_limiter.acquire(address, part, call).await {
        assert!(wait > MAX_LOCAL_WAIT, "{wait:?} is waited for here");
        deferrals += 1;
        // As told, under paused time.
        tokio::time::sleep(wait + Duration::from_millis(10)).await;
    }
    deferrals
}

async fn acquire_many(rate_limiter: &RateLimiter, address: ConversationAddress, calls: usize) {
    for _ in 0..calls {
        acquire_until_granted(rate_limiter, address, CallKind::Send(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn no_pace_is_no_waiting() {
    let start = Instant::now();
    acquire_many(&RateLimiter::new(None), chat(1), 1_000).await;
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn one_chats_wait_is_not_anothers() {
    let rate_limiter = RateLimiter::new(Some(TELEGRAM));
    acquire_many(&rate_limiter, chat(1), 3).await;
    let start = Instant::now();
    acquire_many(&rate_limiter, chat(2), 3).await;
    assert!(start.elapsed() < Duration::from_millis(200), "only what all chats share is waited for");
    acquire_many(&rate_limiter, chat(1), 1).await;
    assert!(start.elapsed() >= Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn sends_to_chat_keep_their_order() {
    let rate_limiter = RateLimiter::new(Some(TELEGRAM));
    let order = StdMutex::new(Vec::new());
    let sends = (0..10).map(|number| {
        let (rate_limiter, order) = (&rate_limiter, &order);
        async move {
            acquire_until_granted(rate_limiter, chat(1), CallKind::Send(1)).await;
            order.lock().unwrap().push(number);
        }
    });
    futures::future::join_all(sends).await;
    assert_eq!(order.into_inner().unwrap(), (0..10).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn send_overtakes_earlier_edit() {
    let rate_limiter = RateLimiter::new(Some(TELEGRAM));
    acquire_many(&rate_limiter, chat(1), 3).await;
    let start = Instant::now();
    let edit = async {
        acquire_until_granted(&rate_limiter, chat(1), CallKind::Edit).await;
        start.elapsed()
    };
    let send = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        acquire_until_granted(&rate_limiter, chat(1), CallKind::Send(1)).await;
        start.elapsed()
    };
    let (edited, sent) = tokio::join!(edit, send);
    assert!(sent < edited, "sent after {sent:?}, edited after {edited:?}");
    assert!(edited <= Duration::from_secs(4), "an edit does not wait for ever: {edited:?}");
}

/// Catches: a reply that waits until a preview has waited for its turn, as where several topics of one chat are written in.
#[tokio::test(start_paused = true)]
async fn preview_neither_waits_nor_delays_a_send() {
    let rate_limiter = RateLimiter::new(Some(TELEGRAM));
    acquire_many(&rate_limiter, chat(1), 2).await;
    let start = Instant::now();
    assert_eq!(rate_limiter.acquire(chat(1), part(), CallKind::Preview).await, Ok(()));
    let wait = rate_limiter.acquire(chat(1), part(), CallKind::Preview).await.unwrap_err();
    assert_eq!(start.elapsed(), Duration::ZERO, "it is told at once");
    assert!(wait <= Duration::from_millis(1_050), "{wait:?}");
    rate_limiter.close_until(chat(1), Duration::from_secs(9));
    let closed = rate_limiter.acquire(chat(1), part(), CallKind::Preview).await.unwrap_err();
    assert!(closed > Duration::from_secs(8), "{closed:?}");
    acquire_many(&rate_limiter, chat(1), 1).await;
    assert_eq!(start.elapsed().as_secs(), 9, "nothing is kept for a preview");
    assert!(start.elapsed() < Duration::from_millis(9_100), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn edits_are_not_starved() {
    let rate_limiter = RateLimiter::new(Some(TELEGRAM));
    let start = Instant::now();
    let flood = async {
        loop {
            acquire_until_granted(&rate_limiter, chat(1), CallKind::Send(1)).await;
        }
    };
    let edit = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        acquire_until_granted(&rate_limiter, chat(1), CallKind::Edit).await;
    };
    tokio::select! {
        () = flood => {}
        () = edit => {}
    }
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn whoever_stops_waiting_leaves_no_gap() {
    let pacer = RateLimiter::new(Some(TELEGRAM));
    acquire_many(&pacer, chat(1), 3).await;
    let start = Instant::now();
    let given_up =
        tokio::time::timeout(Duration::from_millis(500), acquire_until_granted(&pacer, chat(1), CallKind::Send(1)))
            .await;
    assert!(given_up.is_err());
    acquire_many(&pacer, chat(1), 1).await;
    assert!(start.elapsed() < Duration::from_millis(1_100), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn long_wait_fails_fast() {
    let pacer = RateLimiter::new(Some(TELEGRAM));
    acquire_many(&pacer, chat(-1), 20).await;
    let (start, mine) = (Instant::now(), part());
    let wait = pacer.acquire(chat(-1), mine, CallKind::Send(1)).await.unwrap_err();
    assert_eq!(start.elapsed(), Duration::ZERO, "nobody was kept waiting");
    assert!(wait > Duration::from_secs(30), "{wait:?}");
    tokio::time::sleep(wait).await;
    let start = Instant::now();
    assert_eq!(pacer.acquire(chat(-1), mine, CallKind::Send(1)).await, Ok(()));
    assert_eq!(start.elapsed(), Duration::ZERO, "what was told is so");
}

#[tokio::test(start_paused = true)]
async fn reserved_permit_survives_newcomers() {
    let pacer = RateLimiter::new(Some(TELEGRAM));
    acquire_many(&pacer, chat(-1), 20).await;
    // As many as may go at once when the time has come.
    let (first, mut wait) = ([part(), part(), part()], Duration::ZERO);
    for part in first {
        wait = pacer.acquire(chat(-1), part, CallKind::Send(1)).await.unwrap_err();
    }
    tokio::time::sleep(wait).await;
    let order = StdMutex::new(Vec::new());
    let newcomer = async {
        acquire_until_granted(&pacer, chat(-1), CallKind::Send(1)).await;
        order.lock().unwrap().push("newcomer");
    };
    let back = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        for part in first {
            pacer.acquire(chat(-1), part, CallKind::Send(1)).await.unwrap();
            order.lock().unwrap().push("first");
        }
    };
    tokio::join!(newcomer, back);
    assert_eq!(order.into_inner().unwrap(), ["first", "first", "first", "newcomer"]);
}

#[tokio::test(start_paused = true)]
async fn unclaimed_permit_delays_nobody() {
    let pacer = RateLimiter::new(Some(TELEGRAM));
    acquire_many(&pacer, chat(-1), 20).await;
    let mut wait = Duration::ZERO;
    for _ in 0..3 {
        wait = pacer.acquire(chat(-1), part(), CallKind::Send(1)).await.unwrap_err();
    }
    tokio::time::sleep(wait).await;
    let start = Instant::now();
    acquire_many(&pacer, chat(-1), 1).await;
    assert!(start.elapsed() < Duration::from_millis(400), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn forum_topics_reach_full_rate_with_few_retries() {
    let pacer = RateLimiter::new(Some(TELEGRAM));
    let start = Instant::now();
    let topics = (0..200).map(|_| acquire_until_granted(&pacer, chat(-1), CallKind::Send(1)));
    let told = futures::future::join_all(topics).await;
    assert!(told.iter().all(|told| *told <= 2), "{told:?}");
    // Twenty at once, and then twenty a minute.
    let allowed = Duration::from_secs(60 * (200 - 20) / 20);
    let share = allowed.as_secs_f64() / start.elapsed().as_secs_f64();
    assert!(share >= 0.95, "{share}");
}

#[tokio::test(start_paused = true)]
async fn many_chats_reach_full_rate_with_few_retries() {
    let pacer = RateLimiter::new(Some(TELEGRAM));
    let start = Instant::now();
    let told = futures::future::join_all(
        (1..=900).map(|number| acquire_until_granted(&pacer, chat(number), CallKind::Send(1))),
    )
    .await;
    assert!(told.iter().all(|told| *told <= 2), "{told:?}");
    let share = 30.0 / start.elapsed().as_secs_f64();
    assert!(share >= 0.95, "{share}");
}

#[tokio::test(start_paused = true)]
async fn rate_limit_closes_chat_and_repeated_ones_everything() {
    for (closed, means_the_bot) in [
        (vec![1], false),
        (vec![-1], false),
        (vec![-1, -2], false),
        (vec![-1, 1], true),
        (vec![1, 2], true),
        (vec![-1, -2, -3], true),
    ] {
        let pacer = RateLimiter::new(Some(TELEGRAM));
        for number in &closed {
            pacer.close_until(chat(*number), Duration::from_secs(9));
            pacer.close_until(chat(*number), Duration::from_secs(5));
        }
        let start = Instant::now();
        acquire_many(&pacer, chat(10), 1).await;
        assert_eq!(start.elapsed() >= Duration::from_secs(9), means_the_bot, "{closed:?}: {:?}", start.elapsed());
        acquire_many(&pacer, chat(closed[0]), 1).await;
        assert_eq!(start.elapsed().as_secs(), 9, "{closed:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn rate_limit_applies_to_waiters() {
    let pacer = RateLimiter::new(Some(TELEGRAM));
    acquire_many(&pacer, chat(1), 3).await;
    let start = Instant::now();
    let told = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        pacer.close_until(chat(1), Duration::from_secs(20));
    };
    let (wait, ()) = tokio::join!(pacer.acquire(chat(1), part(), CallKind::Send(1)), told);
    assert!(start.elapsed() < Duration::from_millis(200), "it is told at once: {:?}", start.elapsed());
    assert!(wait.unwrap_err() > Duration::from_secs(19));
}

#[tokio::test(start_paused = true)]
async fn quiet_chats_are_forgotten() {
    let pacer = RateLimiter::new(Some(RateLimits { per_second: None, ..TELEGRAM }));
    for number in 0..3_000 {
        acquire_many(&pacer, chat(number), 1).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(pacer.lock().chats.len() <= MAX_CHAT_QUEUES, "{}", pacer.lock().chats.len());
}

//! When calls may be made, moment by moment.

use super::*;

const USUAL: CallPriority = CallPriority { is_low_priority: false, counts_globally: true };
const GIVING_WAY: CallPriority = CallPriority { is_low_priority: true, counts_globally: true };
const OF_AN_INTERACTION: CallPriority = CallPriority { is_low_priority: false, counts_globally: false };

fn discord() -> BucketTable {
    BucketTable::new(Some(RateLimits {
        per_second: Some(50),
        per_conversation_second: None,
        burst: 1,
        per_group_minute: None,
    }))
}

fn route(template: &str, major: &str) -> RateLimitRoute {
    RateLimitRoute { template: template.to_owned(), major: major.to_owned() }
}

fn told(bucket: &str, limit: u32, remaining: u32, reset_ms: u64) -> RateLimitHeaders {
    RateLimitHeaders { bucket: bucket.to_owned(), limit, remaining, reset_after: Duration::from_millis(reset_ms) }
}

fn after(start: Instant, milliseconds: u64) -> Instant {
    start + Duration::from_millis(milliseconds)
}

/// Makes a call whose answer tells this.
fn call(limiter: &mut BucketTable, now: Instant, route: &RateLimitRoute, told: RateLimitHeaders) {
    limiter.acquire(now, route, USUAL).expect("it may be made");
    limiter.release(route);
    limiter.record(now, route, told);
}

#[test]
fn exhausted_bucket_reopens_exactly_at_reset() {
    let (mut limiter, start, send) = (discord(), Instant::now(), route("POST messages", "/1"));
    call(&mut limiter, start, &send, told("a", 5, 0, 3_000));
    assert_eq!(limiter.acquire(start, &send, USUAL), Err(after(start, 3_000)));
    assert_eq!(limiter.acquire(after(start, 2_999), &send, USUAL), Err(after(start, 3_000)));
    assert!(limiter.acquire(after(start, 3_000), &send, USUAL).is_ok());
}

#[test]
fn shared_bucket_still_counts_per_route_and_resource() {
    let (mut limiter, start) = (discord(), Instant::now());
    let (send, edit) = (route("POST messages", "/1"), route("PATCH message", "/1"));
    call(&mut limiter, start, &edit, told("shared", 5, 3, 3_000));
    call(&mut limiter, start, &send, told("shared", 5, 0, 3_000));
    assert_eq!(limiter.acquire(start, &send, USUAL), Err(after(start, 3_000)));
    assert!(limiter.acquire(start, &route("POST messages", "/2"), USUAL).is_ok(), "another channel");
    call(&mut limiter, start, &edit, told("shared", 5, 2, 4_000));
    assert_eq!(
        limiter.acquire(start, &send, USUAL),
        Err(after(start, 3_000)),
        "what is told of edits is no news of sends"
    );
    call(&mut limiter, start, &edit, told("shared", 5, 0, 9_000));
    assert!(limiter.acquire(after(start, 3_000), &send, USUAL).is_ok());
    assert_eq!(limiter.acquire(after(start, 3_000), &edit, USUAL), Err(after(start, 9_000)));
}

#[test]
fn limits_survive_when_route_names_another_bucket() {
    let (mut limiter, start) = (discord(), Instant::now());
    let (here, there) = (route("PATCH channel", "/1"), route("PATCH channel", "/2"));
    call(&mut limiter, start, &here, told("names", 2, 0, 9_000));
    call(&mut limiter, start, &there, told("topics", 5, 4, 1_000));
    assert_eq!(
        limiter.acquire(start, &here, USUAL),
        Err(after(start, 9_000)),
        "what another resource names is no news"
    );
    // Two answers for one resource cross, each counted in a bucket of its own.
    let (mut limiter, both) = (discord(), &here);
    for _ in 0..2 {
        limiter.acquire(start, both, USUAL).expect("nothing is known yet");
    }
    for answer in [told("names", 2, 0, 9_000), told("topics", 5, 4, 1_000)] {
        limiter.release(both);
        limiter.record(start, both, answer);
    }
    assert_eq!(
        limiter.acquire(start, both, USUAL),
        Err(after(start, 9_000)),
        "in which it will be counted nobody knows"
    );
    assert!(limiter.acquire(after(start, 9_000), both, USUAL).is_ok());
}

#[test]
fn in_flight_requests_count_against_remaining_limit() {
    let (mut limiter, start, send) = (discord(), Instant::now(), route("POST messages", "/1"));
    call(&mut limiter, start, &send, told("a", 3, 2, 5_000));
    limiter.acquire(start, &send, USUAL).expect("two are left");
    limiter.acquire(start, &send, USUAL).expect("one is left");
    assert_eq!(limiter.acquire(start, &send, USUAL), Err(after(start, 5_000)));
    limiter.release(&send);
    limiter.record(start, &send, told("a", 3, 1, 5_000));
    assert_eq!(limiter.acquire(start, &send, USUAL), Err(after(start, 5_000)), "the other has the one that is left");
    limiter.release(&send);
    limiter.record(start, &send, told("a", 3, 1, 5_000));
    assert!(limiter.acquire(start, &send, USUAL).is_ok(), "it was counted already");
}

#[test]
fn reset_grants_no_more_than_limit() {
    let (mut limiter, start, send) = (discord(), Instant::now(), route("POST messages", "/1"));
    call(&mut limiter, start, &send, told("a", 1, 1, 1_000));
    limiter.acquire(start, &send, USUAL).expect("one is left");
    let reset = after(start, 1_000);
    assert!(limiter.acquire(reset, &send, USUAL).is_err(), "the slow one may be counted after the reset");
    limiter.release(&send);
    assert!(limiter.acquire(reset, &send, USUAL).is_ok());
    assert!(limiter.acquire(after(reset, 1), &send, USUAL).is_err(), "until the next answer tells how much is left");
}

/// When calls are made by those who always have more to ask, each about something of its own.
fn greedy(limiter: &mut BucketTable, start: Instant, milliseconds: u64, manner: CallPriority) -> Vec<Duration> {
    let mut made = Vec::new();
    for millisecond in 0..milliseconds {
        let now = after(start, millisecond);
        for number in 0..10 {
            let route = route("POST messages", &format!("/{millisecond}-{number}"));
            if limiter.acquire(now, &route, manner).is_ok() {
                limiter.release(&route);
                made.push(now - start);
            }
        }
    }
    made
}

/// The most that arrive in any second, each later than it left by no more than `late`.
fn most_in_a_second(made: &[Duration], late: impl Fn(usize) -> u64) -> usize {
    let mut arrived: Vec<Duration> =
        made.iter().enumerate().map(|(index, at)| *at + Duration::from_millis(late(index))).collect();
    arrived.sort_unstable();
    let second = Duration::from_secs(1);
    let within = |begin: &Duration| arrived.iter().filter(|at| **at >= *begin && **at < *begin + second).count();
    arrived.iter().map(within).max().unwrap_or(0)
}

#[test]
fn requests_keep_to_fifty_per_second_despite_delays() {
    let made = greedy(&mut discord(), Instant::now(), 10_000, USUAL);
    assert!(most_in_a_second(&made, |index| [0, 90, 30, 60][index % 4]) <= 50);
    assert!(made.len() >= 445, "{} of 500 in ten seconds", made.len());
}

#[test]
fn edits_of_growing_replies_leave_room_for_sends() {
    let (mut limiter, start) = (discord(), Instant::now());
    let edits = greedy(&mut limiter, start, 3_000, GIVING_WAY);
    assert_eq!(most_in_a_second(&edits, |_| 0), 38);
    assert!(limiter.acquire(after(start, 3_000), &route("POST", "/1"), USUAL).is_ok());
}

#[test]
fn interaction_responses_bypass_global_limit() {
    let (mut limiter, start) = (discord(), Instant::now());
    limiter.close_all_until(after(start, 9_000));
    assert_eq!(limiter.acquire(start, &route("POST", "/1"), USUAL), Err(after(start, 9_000)));
    assert!(limiter.acquire(start, &route("POST callback", "/1/token"), OF_AN_INTERACTION).is_ok());
    assert!(limiter.acquire(after(start, 9_000), &route("POST", "/1"), USUAL).is_ok());
}

#[test]
fn closed_bucket_reopens_on_time_even_unpaced() {
    let (mut limiter, start, send) = (BucketTable::new(None), Instant::now(), route("POST messages", "/1"));
    call(&mut limiter, start, &send, told("a", 5, 0, 60_000));
    assert!(limiter.acquire(start, &send, USUAL).is_ok(), "without a pace only what was refused counts");
    limiter.close_until(&send, after(start, 7_000));
    limiter.close_until(&send, after(start, 3_000));
    assert_eq!(limiter.acquire(start, &send, USUAL), Err(after(start, 7_000)));
    assert!(limiter.acquire(start, &route("POST messages", "/2"), USUAL).is_ok(), "it was one channel's");
    assert!(limiter.acquire(after(start, 7_000), &send, USUAL).is_ok());
}

#[test]
fn what_is_as_good_as_new_is_forgotten() {
    let (mut limiter, start) = (discord(), Instant::now());
    for channel in 0..3_000 {
        let now = after(start, channel * 100);
        call(&mut limiter, now, &route("POST messages", &channel.to_string()), told("a", 5, 4, 1_000));
    }
    assert!(limiter.routes.len() <= BUCKET_CACHE_SIZE + 1, "{} are remembered", limiter.routes.len());
}

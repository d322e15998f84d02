//! When schedules are due: at plain times, on the nights when the clocks jump, and against a model that tries every minute.

use jiff::ToSpan;
use proptest::prelude::*;

use super::*;

/// Zones whose clocks jump by an hour, by half an hour, at midnight, over a whole day, and not at all; each with days
/// around a jump.
const JUMPS: [(&str, &str); 12] = [
    ("Europe/Berlin", "2026-03-28"),
    ("Europe/Berlin", "2026-10-24"),
    ("America/New_York", "2026-03-07"),
    ("America/New_York", "2026-10-31"),
    ("Australia/Lord_Howe", "2026-04-04"),
    ("Australia/Lord_Howe", "2026-10-03"),
    ("America/Havana", "2026-03-07"),
    ("America/Havana", "2026-10-31"),
    ("Pacific/Apia", "2011-12-29"),
    ("Africa/Casablanca", "2026-02-14"),
    ("Asia/Kathmandu", "2026-05-01"),
    ("UTC", "2026-05-01"),
];

fn zone(name: &str) -> TimeZone {
    TimeZone::get(name).unwrap()
}

fn rhythm(expression: &str, zone_name: &str) -> CronSchedule {
    CronSchedule::parse(expression, zone(zone_name)).unwrap_or_else(|error| panic!("{expression}: {error}"))
}

/// A moment in UTC.
fn at(moment: &str) -> Timestamp {
    Timestamp(moment.parse::<jiff::Timestamp>().unwrap().as_millisecond())
}

/// The first times from a moment in UTC on, as the zone writes them.
fn first(expression: &str, zone: &str, after: &str, most: usize) -> Vec<String> {
    let rhythm = rhythm(expression, zone);
    let times = successors(rhythm.next(at(after)), |time| rhythm.next(*time));
    times.take(most).map(|time| rhythm.format_local(time)).collect()
}

#[test]
fn times_come_by_the_clocks_of_the_zone() {
    let working_days = first("0 8 * * mon-fri", "Europe/Berlin", "2026-11-20T06:59:59Z", 3);
    let expected =
        ["2026-11-20 08:00 Europe/Berlin", "2026-11-23 08:00 Europe/Berlin", "2026-11-24 08:00 Europe/Berlin"];
    assert_eq!(working_days, expected);
    assert_eq!(first("@daily", "UTC", "2026-11-20T00:00:00Z", 1), ["2026-11-21 00:00 UTC"], "not the same time again");
    assert_eq!(first("@daily", "UTC", "2026-11-19T23:59:59.999Z", 1), ["2026-11-20 00:00 UTC"]);
    let seconds = first("*/20 0 12 * * *", "UTC", "2026-11-20T11:00:00Z", 4);
    let expected =
        ["2026-11-20 12:00 UTC", "2026-11-20 12:00:20 UTC", "2026-11-20 12:00:40 UTC", "2026-11-21 12:00 UTC"];
    assert_eq!(seconds, expected);
    assert_eq!(
        first("0 12 L feb *", "UTC", "2027-01-01T00:00:00Z", 2),
        ["2027-02-28 12:00 UTC", "2028-02-29 12:00 UTC"]
    );
    let nth = first("0 12 * * fri#2", "UTC", "2026-11-01T00:00:00Z", 2);
    assert_eq!(nth, ["2026-11-13 12:00 UTC", "2026-12-11 12:00 UTC"]);
    assert_eq!(first("0 12 * * fri#L", "UTC", "2026-11-01T00:00:00Z", 1), ["2026-11-27 12:00 UTC"]);
    assert_eq!(first("0 12 13 * +fri", "UTC", "2026-11-14T00:00:00Z", 1), ["2027-08-13 12:00 UTC"]);
    // Either of the two days, as every cron has it.
    let either = first("0 12 13 * fri", "UTC", "2026-11-12T13:00:00Z", 2);
    assert_eq!(either, ["2026-11-13 12:00 UTC", "2026-11-20 12:00 UTC"]);
}

#[test]
fn skipped_local_time_runs_once_after_clock_change() {
    let night = "2026-03-28T12:00:00Z";
    let once = first("30 2 * * *", "Europe/Berlin", night, 2);
    assert_eq!(once, ["2026-03-29 03:00 Europe/Berlin", "2026-03-30 02:30 Europe/Berlin"]);
    // An expression with several times is no other: each counts, and those that fall together come together.
    let several = first("*/15 2,14 * * *", "Europe/Berlin", night, 9);
    let times: Vec<_> = several.iter().map(|time| &time[8..16]).collect();
    let expected =
        ["28 14:00", "28 14:15", "28 14:30", "28 14:45", "29 03:00", "29 14:00", "29 14:15", "29 14:30", "29 14:45"];
    assert_eq!(times, expected);
    let three = first("30 2,3 29 3 *", "Europe/Berlin", night, 2);
    assert_eq!(three, ["2026-03-29 03:00 Europe/Berlin", "2026-03-29 03:30 Europe/Berlin"]);
    let midnight = first("@daily", "America/Havana", "2026-03-08T00:00:00Z", 2);
    assert_eq!(midnight, ["2026-03-08 01:00 America/Havana", "2026-03-09 00:00 America/Havana"]);
    let a_day = first("0 8 30 12 *", "Pacific/Apia", "2011-12-29T00:00:00Z", 1);
    assert_eq!(a_day, ["2011-12-31 00:00 Pacific/Apia"]);
}

#[test]
fn repeated_local_time_fires_once_and_hourly_twice() {
    let night = "2026-10-24T12:00:00Z";
    for expression in ["30 2 * * *", "30 2,14 * * *"] {
        let rhythm = rhythm(expression, "Europe/Berlin");
        let first = rhythm.next(at("2026-10-25T00:00:00Z")).unwrap();
        assert_eq!(first, at("2026-10-25T00:30:00Z"), "{expression}: the first of the two");
        assert!(rhythm.next(first).unwrap() > at("2026-10-25T02:00:00Z"), "{expression}: it came again");
    }
    // Who looks in the second of the two hours finds what came in the first.
    let half_past = rhythm("30 2,14 * * *", "Europe/Berlin");
    let come = half_past.due_between(at(night), at("2026-10-25T01:10:00Z"), MissedPolicy::RunOnce);
    assert_eq!(come.map(|come| come.latest), Some(at("2026-10-25T00:30:00Z")));
    let hourly = rhythm("0 * * * *", "Europe/Berlin");
    let moments: Vec<Timestamp> = successors(hourly.next(at(night)), |time| hourly.next(*time)).take(30).collect();
    assert!(
        moments.windows(2).all(|pair| pair[1].saturating_duration_since(pair[0]).as_secs() == 3_600),
        "{moments:?}"
    );
}

#[test]
fn invalid_cron_expression_is_refused_with_reason() {
    for (expression, reason) in [
        ("", "it is empty"),
        ("0 8 * *", "it has five fields"),
        ("0 0 8 * * * 2030", "it has five fields"),
        ("0 8 30 2 *", "such a day never comes"),
        ("0 8 * * funday", "illegal character 'F'"),
        ("0 25 * * *", "out of bounds"),
        ("@noon", "it has five fields"),
    ] {
        let error = CronSchedule::parse(expression, TimeZone::UTC).unwrap_err().to_string();
        assert!(error.contains(reason), "{expression}: {error}");
        assert!(!error.starts_with(char::is_uppercase) && !error.ends_with('.'), "{error}");
    }
    let long = "0,".repeat(MAX_EXPRESSION_BYTES) + "0 8 * * *";
    assert!(CronSchedule::parse(&long, TimeZone::UTC).unwrap_err().to_string().contains("longer than"));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it is about the time that the search itself takes")]
fn clock_leap_over_decades_costs_constant_time() {
    let rhythm = rhythm("* * * * * *", "Europe/Berlin");
    let began = std::time::Instant::now();
    let come = rhythm.due_between(Timestamp(0), at("2026-11-22T12:00:00.500Z"), MissedPolicy::RunAll).unwrap();
    assert_eq!((come.run.len(), come.latest), (24, at("2026-11-22T12:00:00Z")));
    assert_eq!(come.run[0], at("2026-11-22T11:59:37Z"));
    assert!(began.elapsed().as_secs() < 5, "two billion seconds were counted");
}

#[test]
fn missed_runs_follow_their_policy() {
    let rhythm = rhythm("0 8 * * *", "UTC");
    let days = |from: u8, to: u8| (from..=to).map(|day| at(&format!("2026-11-{day:02}T08:00:00Z"))).collect::<Vec<_>>();
    let come = |after: &str, now: &str, missed| rhythm.due_between(at(after), at(now), missed).map(|come| come.run);
    let (monday, wednesday) = ("2026-11-01T08:00:00Z", "2026-11-04T12:00:00Z");
    assert_eq!(come(monday, wednesday, MissedPolicy::RunOnce), Some(days(4, 4)));
    assert_eq!(come(monday, wednesday, MissedPolicy::Skip), Some(Vec::new()), "it was missed by hours");
    assert_eq!(come(monday, wednesday, MissedPolicy::RunAll), Some(days(2, 4)));
    assert_eq!(come("2026-10-01T08:00:00Z", "2026-11-28T12:00:00Z", MissedPolicy::RunAll), Some(days(5, 28)));
    // Who is only a little late has missed nothing.
    assert_eq!(come(monday, "2026-11-02T08:00:59Z", MissedPolicy::Skip), Some(days(2, 2)));
    for missed in [MissedPolicy::RunOnce, MissedPolicy::Skip, MissedPolicy::RunAll] {
        assert_eq!(come(monday, "2026-11-02T07:59:59Z", missed), None, "nothing has come");
        assert_eq!(come(monday, "2026-10-31T07:59:59Z", missed), None, "the clock went back");
    }
}

/// Fields of minutes and hours, and of days that come soon.
fn expressions() -> impl Strategy<Value = String> {
    let minutes = prop::sample::select(&["*", "0", "30", "*/10", "5-50/15", "0,30", "59"][..]);
    let hours = prop::sample::select(&["*", "*", "2", "2", "0", "1,2,3", "0-23", "*/2", "2,14", "23", "*/3"][..]);
    let days = prop::sample::select(&["* * *", "* * *", "* * sun", "1-15 * *", "8,25,29-31 * *", "L * *"][..]);
    (minutes, hours, days).prop_map(|(minutes, hours, days)| format!("{minutes} {hours} {days}"))
}

/// Tries every real minute of the window. Slow, and simple enough to be believed.
fn every_minute(rhythm: &CronSchedule, from: Timestamp, to: Timestamp) -> Vec<Timestamp> {
    let matches = |clock: DateTime| rhythm.cron.is_time_matching(&clock).unwrap();
    let minutes = (from.0 / 60_000 + 1..=to.0 / 60_000).map(|minute| Timestamp(minute * 60_000));
    let comes = |minute: &Timestamp| {
        let clock = rhythm.zoned(*minute).unwrap().datetime();
        let before = rhythm.zoned(Timestamp(minute.0 - 60_000)).unwrap().datetime();
        if rhythm.hourly {
            return matches(clock);
        }
        let seen_before =
            || (1..=180).any(|back| rhythm.zoned(Timestamp(minute.0 - back * 60_000)).unwrap().datetime() == clock);
        let jumped_over = || successors(Some(before + 1.minute()), |clock| Some(*clock + 1.minute()));
        matches(clock) && !seen_before()
            || clock > before && jumped_over().take_while(|over| *over < clock).any(matches)
    };
    minutes.filter(comes).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn search_agrees_with_minute_by_minute_scan(
        (name, day) in prop::sample::select(&JUMPS[..]),
        expression in expressions(),
        begin in 0..1_440_i64,
        width in 1..4_320_i64,
        to_jump in prop::option::weighted(0.7, -60..150_i64),
    ) {
        let rhythm = rhythm(&expression, name);
        let minutes = |after: Timestamp, minutes: i64| Timestamp(after.0 + minutes * 60_000);
        let from = minutes(at(&format!("{day}T00:00:00Z")), begin);
        // Most windows end where it is hardest: around the jump.
        let jump = rhythm.zoned(from).and_then(|from| rhythm.zone.following(from.timestamp()).next());
        let jump = jump.map(|jump| Timestamp(jump.timestamp().as_millisecond()));
        let to = match jump.zip(to_jump).map(|(jump, offset)| minutes(jump, offset)) {
            Some(to) if to > from && to.saturating_duration_since(from) < Duration::from_secs(4 * 86_400) => to,
            _ => minutes(from, width),
        };
        let expected = every_minute(&rhythm, from, to);
        let forward: Vec<_> = successors(rhythm.next(from), |time| rhythm.next(*time)).take_while(|time| *time <= to).collect();
        prop_assert_eq!(&forward, &expected, "forward: {} in {}", &expression, name);
        prop_assert_eq!(&rhythm.last_times(from, to, usize::MAX), &expected, "backward: {} in {}", &expression, name);
    }

    /// However the moments lie at which somebody looks, nothing comes twice and nothing is left out.
    #[test]
    fn looking_more_often_changes_nothing(
        (name, day) in prop::sample::select(&JUMPS[..]), expression in expressions(), looks in prop::collection::vec(0..20_000_u64, 1..40)
    ) {
        let rhythm = rhythm(&expression, name);
        let from = at(&format!("{day}T00:00:00Z"));
        let (mut now, mut done, mut seen) = (from, from, Vec::new());
        for seconds in looks {
            now = now.saturating_add(Duration::from_secs(seconds));
            let once = rhythm.due_between(done, now, MissedPolicy::RunOnce);
            let come = rhythm.due_between(done, now, MissedPolicy::RunAll);
            let last = come.as_ref().map(|come| DueTimes { run: vec![come.latest], latest: come.latest });
            prop_assert_eq!(once, last);
            if let Some(DueTimes { run, latest }) = come {
                prop_assert!(run.len() <= MAX_CATCH_UP_RUNS && run.last() == Some(&latest));
                let all = rhythm.last_times(done, now, usize::MAX);
                prop_assert!(all.ends_with(&run));
                seen.extend(all);
                done = latest;
            }
        }
        prop_assert_eq!(seen, rhythm.last_times(from, now, usize::MAX));
    }

    #[test]
    fn any_text_can_be_looked_at(text in "\\PC{0,40}|[0-9*,/@LW#?+a-z -]{0,30}|([0-9*,/L#-]{1,4} ){4,5}[0-9a-z#L]{1,4}") {
        if let Ok(rhythm) = CronSchedule::parse(&text, zone("Europe/Berlin")) {
            prop_assert!(rhythm.next(Timestamp(0)).is_some());
        }
    }
}

#[test]
fn shortest_interval_is_between_neighbours() {
    for (expression, minutes) in [
        ("* * * * *", Some(1)),
        ("*/30 9 * * mon", Some(30)),
        ("59 8,9 * * *", Some(60)),
        ("0,59 * * * *", Some(1)),
        ("0 * * * *", Some(60)),
        ("@daily", Some(24 * 60)),
    ] {
        let interval = rhythm(expression, "UTC").shortest_interval(Timestamp(0), 100);
        assert_eq!(interval.map(|interval| interval.as_secs() / 60), minutes, "{expression}");
    }
}

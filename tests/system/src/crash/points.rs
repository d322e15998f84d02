//! The points at which a process can die: before and after each call of each port, counted by the call's name.

use std::{
    collections::HashMap,
    fmt,
    fs::File,
    io::Write,
    path::Path,
    str::FromStr,
    sync::{Mutex, PoisonError},
};

use anyhow::Context;
use serde::{Deserialize, Serialize};

/// On which side of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Nothing of it has happened.
    Before,
    /// All of it has happened, and the caller does not know yet.
    After,
}

/// One point of a turn.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CrashPoint {
    /// The port and its verb, such as `ledger.settle_part`.
    pub call: String,
    /// Which of these calls, from 1.
    pub nth: u32,
    /// Before or after it.
    pub side: Side,
}

impl fmt::Display for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.side {
            Side::Before => "before",
            Side::After => "after",
        };
        write!(f, "{side} {} {}", self.call, self.nth)
    }
}

impl FromStr for CrashPoint {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut words = text.split(' ');
        let side = match words.next() {
            Some("before") => Side::Before,
            Some("after") => Side::After,
            _ => anyhow::bail!("`{text}` is no point"),
        };
        let call = words.next().context("a point has a call")?.to_owned();
        let nth = words.next().context("a point has a number")?.parse()?;
        Ok(Self { call, nth, side })
    }
}

/// Counts the calls of a process, logs them, and aborts the process at the configured point.
#[derive(Debug)]
pub struct CrashPoints {
    crash_at: Option<CrashPoint>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    calls: HashMap<&'static str, u32>,
    log: Option<File>,
}

impl CrashPoints {
    /// Counts from nothing. With `list`, every point that is passed is written to that file.
    ///
    /// # Errors
    /// When the list can't be made.
    pub fn new(list: Option<&Path>, crash_at: Option<CrashPoint>) -> anyhow::Result<Self> {
        let log = list.map(File::create).transpose().context("the list of points can't be made")?;
        Ok(Self { crash_at, state: Mutex::new(State { calls: HashMap::new(), log }) })
    }

    /// Passes the point before a call, and returns the call's number.
    #[must_use]
    pub fn crash_before(&self, call: &'static str) -> u32 {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let count = state.calls.entry(call).or_default();
        *count += 1;
        let nth = *count;
        drop(state);
        self.pass_point(call, nth, Side::Before);
        nth
    }

    /// Passes the point after a call.
    pub fn crash_after(&self, call: &'static str, nth: u32) {
        self.pass_point(call, nth, Side::After);
    }

    fn pass_point(&self, call: &'static str, nth: u32, side: Side) {
        let point = CrashPoint { call: call.to_owned(), nth, side };
        if self.crash_at.as_ref() == Some(&point) {
            // No destructor runs, no buffer is flushed, no lock is given back in good order.
            std::process::abort();
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(list) = &mut state.log {
            writeln!(list, "{point}").expect("a list that could be made can be written");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crash_points_count_per_call_and_round_trip() -> anyhow::Result<()> {
        let list = tempfile::NamedTempFile::new()?;
        let points = CrashPoints::new(Some(list.path()), None)?;
        assert_eq!((points.crash_before("a.b"), points.crash_before("c.d"), points.crash_before("a.b")), (1, 1, 2));
        points.crash_after("a.b", 1);
        let listed = std::fs::read_to_string(list.path())?;
        assert_eq!(listed, "before a.b 1\nbefore c.d 1\nbefore a.b 2\nafter a.b 1\n");
        for line in listed.lines() {
            assert_eq!(line.parse::<CrashPoint>()?.to_string(), line);
        }
        assert!("a.b 1".parse::<CrashPoint>().is_err());
        Ok(())
    }
}

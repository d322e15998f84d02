//! What a text turn costs on one platform, and beside it what the disk alone costs.

use std::{path::Path, time::Duration};

use anyhow::Result;

use crate::{
    figures::{ms, percentile},
    limits::Appends,
    process::ChildProcess,
    table::ResultRow,
};

/// Turns whose time is taken, and those before them that are not counted.
const TURNS: u32 = 300;
const WARM: u32 = 20;

/// After a reply, until its last part is settled and nothing is under way.
pub(crate) const QUIET: Duration = Duration::from_millis(20);

/// Times of the turns, of appends to a file on the same disk, and of the processor for one turn.
pub(crate) struct Overhead {
    turns: Vec<Duration>,
    appends: Vec<Duration>,
    cpu: Duration,
}

impl Overhead {
    /// Lets a person say one thing after the other; `says` is told how many it were, and returns how long it took.
    ///
    /// The disk is measured between the turns: it stalls now and then, and at another time it would be another disk.
    pub(crate) async fn of(
        satchel: &ChildProcess,
        directory: &Path,
        mut says: impl AsyncFnMut(u64) -> Result<Duration>,
    ) -> Result<Self> {
        let mut disk = Appends::to(directory)?;
        let (mut turns, mut appends, mut before) = (Vec::new(), Vec::new(), Duration::ZERO);
        for turn in 0..WARM + TURNS {
            if turn == WARM {
                before = satchel.cpu()?;
                turns.clear();
                appends.clear();
            }
            turns.push(says(u64::from(turn) + 1).await?);
            tokio::time::sleep(QUIET).await;
            // The first one after a pause is slower, for whatever sleeps beneath; the limit is the disk at its best.
            disk.append()?;
            appends.push(disk.append()?);
        }
        let cpu = (satchel.cpu()? - before) / TURNS;
        Ok(Self { turns, appends, cpu })
    }

    /// The rows of these turns.
    pub(crate) fn rows(&self, what: &str) -> Vec<ResultRow> {
        let append = |percent| ms(percentile(&self.appends, percent));
        let disk = |percent| {
            let name = format!("{what}: one fsync'd append p{percent} (F)");
            ResultRow::new(name, append(percent), "ms")
        };
        let overhead = |percent, slack: f64| {
            let name = format!("{what}: overhead p{percent}");
            ResultRow::new(name, ms(percentile(&self.turns, percent)), "ms")
                .limit(append(percent))
                .at_most(3.0 * append(percent) + slack)
                .note(format!("bar: 3 F + {slack} ms"))
        };
        let cpu = ResultRow::new(format!("{what}: processor"), ms(self.cpu), "ms").at_most(2.0);
        vec![disk(50), disk(99), overhead(50, 2.0), overhead(99, 10.0), cpu]
    }
}

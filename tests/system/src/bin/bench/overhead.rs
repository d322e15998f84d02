//! What a text turn costs on one platform, and beside it what the disk alone costs.

use std::{path::Path, time::Duration};

use anyhow::Result;

use crate::{
    machine_limits::AppendFile,
    process::ChildProcess,
    statistics::{percentile, to_ms},
    table::ResultRow,
};

/// Turns whose time is taken, and those before them that are not counted.
const TURNS: u32 = 300;
const WARM_UP_TURNS: u32 = 20;

/// After a reply, until its last part is settled and nothing is under way.
pub(crate) const SETTLE_DELAY: Duration = Duration::from_millis(20);

/// Times of the turns, of appends to a file on the same disk, and of the processor for one turn.
pub(crate) struct Overhead {
    turns: Vec<Duration>,
    appends: Vec<Duration>,
    cpu: Duration,
}

impl Overhead {
    /// Sends one message after the other. `says` gets the number of the message, and returns the time until its reply.
    ///
    /// The disk is measured between the turns: it stalls now and then, and at another time it would be another disk.
    pub(crate) async fn measure(
        satchel: &ChildProcess,
        directory: &Path,
        mut send_nth: impl AsyncFnMut(u64) -> Result<Duration>,
    ) -> Result<Self> {
        let mut disk = AppendFile::open(directory)?;
        let (mut turns, mut appends, mut before) = (Vec::new(), Vec::new(), Duration::ZERO);
        for turn in 0..WARM_UP_TURNS + TURNS {
            if turn == WARM_UP_TURNS {
                before = satchel.cpu_time()?;
                turns.clear();
                appends.clear();
            }
            turns.push(send_nth(u64::from(turn) + 1).await?);
            tokio::time::sleep(SETTLE_DELAY).await;
            // The first one after a pause is slower, for whatever sleeps beneath; the limit is the disk at its best.
            disk.measure_append()?;
            appends.push(disk.measure_append()?);
        }
        let cpu = (satchel.cpu_time()? - before) / TURNS;
        Ok(Self { turns, appends, cpu })
    }

    /// The rows of these turns.
    pub(crate) fn rows(&self, prefix: &str) -> Vec<ResultRow> {
        let append = |percent| to_ms(percentile(&self.appends, percent));
        let disk = |percent| {
            let name = format!("{prefix}: one fsync'd append p{percent} (F)");
            ResultRow::new(name, append(percent), "ms")
        };
        let overhead = |percent, slack: f64| {
            let name = format!("{prefix}: overhead p{percent}");
            ResultRow::new(name, to_ms(percentile(&self.turns, percent)), "ms")
                .with_limit(append(percent))
                .with_max(3.0 * append(percent) + slack)
                .with_note(format!("bar: 3 F + {slack} ms"))
        };
        let cpu = ResultRow::new(format!("{prefix}: processor"), to_ms(self.cpu), "ms").with_max(2.0);
        vec![disk(50), disk(99), overhead(50, 2.0), overhead(99, 10.0), cpu]
    }
}

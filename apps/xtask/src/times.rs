//! How long the steps of a task take, and how much of the machine they use.

use std::{
    fmt, fs,
    time::{Duration, Instant},
};

use anyhow::Result;

/// The steps that have ended, in order.
#[derive(Debug, Default)]
pub(crate) struct StepTimes(Vec<StepTime>);

#[derive(Debug)]
struct StepTime {
    title: &'static str,
    wall: Duration,
    /// Processor time, user and system, of the processes that the step started and waited for; `None` where the system
    /// doesn't count it. Servers that outlive the process that started them are not among them.
    processor: Option<Duration>,
    /// Time of all cores, and how much of it any process of the machine used.
    cores: Option<CoreTime>,
}

/// Time of all cores together, in clock ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CoreTime {
    busy: u64,
    all: u64,
}

impl CoreTime {
    fn since(self, earlier: Self) -> Self {
        Self { busy: self.busy.saturating_sub(earlier.busy), all: self.all.saturating_sub(earlier.all) }
    }

    fn used_percent(self) -> u64 {
        100 * self.busy / self.all.max(1)
    }
}

impl StepTimes {
    /// Prints the title of a step, runs it and records its times, whether it succeeds or not.
    pub(crate) fn measure<T>(&mut self, title: &'static str, step: impl FnOnce() -> Result<T>) -> Result<T> {
        println!("\n── {title}");
        let (started_at, processor_before, cores_before) = (Instant::now(), processor_of_children(), core_time());
        let outcome = step();
        let processor = processor_of_children().zip(processor_before);
        let processor = processor.map(|(after, before)| after.saturating_sub(before));
        let cores = core_time().zip(cores_before).map(|(after, before)| after.since(before));
        self.0.push(StepTime { title, wall: started_at.elapsed(), processor, cores });
        outcome
    }
}

impl fmt::Display for StepTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>8} {:>9} {:>8}  step", "wall", "processor", "machine")?;
        let write_row = |f: &mut fmt::Formatter<'_>, step: &StepTime| {
            let processor = step.processor.map_or("-".to_owned(), |time| format!("{:.1} s", time.as_secs_f64()));
            let machine = step.cores.map_or("-".to_owned(), |cores| format!("{} %", cores.used_percent()));
            write!(f, "{:>6.1} s {processor:>9} {machine:>8}  {}", step.wall.as_secs_f64(), step.title)
        };
        for step in &self.0 {
            write_row(f, step)?;
            writeln!(f)?;
        }
        let sum = |one: CoreTime, other: CoreTime| CoreTime { busy: one.busy + other.busy, all: one.all + other.all };
        let all = StepTime {
            title: "all",
            wall: self.0.iter().map(|step| step.wall).sum(),
            processor: self.0.iter().map(|step| step.processor).sum(),
            cores: self.0.iter().filter_map(|step| step.cores).reduce(sum),
        };
        write_row(f, &all)
    }
}

/// Processor time of all child processes that have ended, with their own children.
fn processor_of_children() -> Option<Duration> {
    parse_children_ticks(&fs::read_to_string("/proc/self/stat").ok()?)
        .map(|ticks| Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// Reads `cutime + cstime`, fields 16 and 17 of proc_pid_stat(5), in clock ticks. The second field, the program's name,
/// may contain spaces and parentheses.
fn parse_children_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut from_cutime = fields.split(' ').skip(13).map(str::parse::<u64>);
    Some(from_cutime.next()?.ok()? + from_cutime.next()?.ok()?)
}

fn core_time() -> Option<CoreTime> {
    parse_core_time(&fs::read_to_string("/proc/stat").ok()?)
}

/// Reads the first line of `/proc/stat`, proc_stat(5): `cpu user nice system idle iowait irq softirq steal …`. The guests that
/// follow are in `user` and `nice` already.
fn parse_core_time(stat: &str) -> Option<CoreTime> {
    let times: Option<Vec<u64>> =
        stat.lines().next()?.split_whitespace().skip(1).take(8).map(|time| time.parse().ok()).collect();
    let times = times.filter(|times| times.len() == 8)?;
    let all: u64 = times.iter().sum();
    Some(CoreTime { busy: all - times[3] - times[4], all })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_children_are_read_behind_any_program_name() {
        let stat = "4 (a) 1 (b c) S 2 3 3 0 -1 4194560 161 5731 0 6 11 12 130 240 20 0 1 0 58 3076096 452\n";
        assert_eq!(parse_children_ticks(stat), Some(370));
        assert_eq!(parse_children_ticks("4 (a) S 2 3"), None);
    }

    #[test]
    fn machine_is_busy_except_when_idle_or_waiting_for_a_disk() {
        let stat = |line: &str| parse_core_time(&format!("{line}\ncpu0 1 1 1 1 1 1 1 1 1 1\n"));
        let (before, after) = (stat("cpu  10 0 5 80 5 0 0 0 0 0"), stat("cpu  50 2 15 120 15 1 1 1 30 0"));
        let used = after.unwrap().since(before.unwrap());
        assert_eq!((used, used.used_percent()), (CoreTime { busy: 55, all: 105 }, 52));
        assert_eq!(stat("cpu  10 0 5"), None);
    }

    #[test]
    fn every_step_is_listed_with_its_times_even_a_failed_one() {
        let mut times = StepTimes::default();
        assert_eq!(times.measure("one", || Ok(7)).unwrap(), 7);
        times.measure("two", || anyhow::bail!("no") as Result<()>).unwrap_err();
        let table = times.to_string();
        let titles: Vec<&str> = table.lines().filter_map(|line| line.rsplit_once("  ")).map(|(_, end)| end).collect();
        assert_eq!(titles, ["step", "one", "two", "all"]);
    }

    #[test]
    fn processor_time_of_a_child_is_counted() {
        let mut times = StepTimes::default();
        let spin = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        times
            .measure("spin", || crate::run_command("sh", std::process::Command::new("sh").args(["-c", spin])))
            .unwrap();
        let StepTime { processor, .. } = &times.0[0];
        assert!(processor.is_none_or(|processor| processor > Duration::ZERO), "{times:?}");
    }
}

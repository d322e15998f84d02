//! How long the steps of a task take, and how much of the machine they use.

use std::{
    fmt, fs, thread,
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
    /// Processor time, user and system, of the processes that the step started; `None` where the system doesn't count it.
    processor: Option<Duration>,
}

impl StepTimes {
    /// Prints the title of a step, runs it and records its times, whether it succeeds or not.
    pub(crate) fn measure<T>(&mut self, title: &'static str, step: impl FnOnce() -> Result<T>) -> Result<T> {
        println!("\n── {title}");
        let (started_at, processor_before) = (Instant::now(), processor_of_children());
        let outcome = step();
        let processor = processor_of_children().zip(processor_before);
        let processor = processor.map(|(after, before)| after.saturating_sub(before));
        self.0.push(StepTime { title, wall: started_at.elapsed(), processor });
        outcome
    }
}

impl fmt::Display for StepTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        writeln!(f, "{:>8} {:>9} {:>5}  step", "wall", "processor", "use")?;
        let write_row = |f: &mut fmt::Formatter<'_>, title: &str, wall: Duration, processor: Option<Duration>| {
            let (processor, utilisation) = match processor {
                Some(processor) => {
                    let available = wall.as_secs_f64() * cores as f64;
                    let used = 100.0 * processor.as_secs_f64() / available.max(f64::MIN_POSITIVE);
                    (format!("{:.1} s", processor.as_secs_f64()), format!("{used:.0} %"))
                }
                None => ("-".to_owned(), "-".to_owned()),
            };
            write!(f, "{:>6.1} s {processor:>9} {utilisation:>5}  {title}", wall.as_secs_f64())
        };
        for StepTime { title, wall, processor } in &self.0 {
            write_row(f, title, *wall, *processor)?;
            writeln!(f)?;
        }
        let wall = self.0.iter().map(|step| step.wall).sum();
        let processor = self.0.iter().map(|step| step.processor).sum();
        write_row(f, &format!("all, on {cores} cores"), wall, processor)
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
    fn every_step_is_listed_with_its_times_even_a_failed_one() {
        let mut times = StepTimes::default();
        assert_eq!(times.measure("one", || Ok(7)).unwrap(), 7);
        times.measure("two", || anyhow::bail!("no") as Result<()>).unwrap_err();
        let table = times.to_string();
        let titles: Vec<&str> = table.lines().filter_map(|line| line.rsplit_once("  ")).map(|(_, end)| end).collect();
        assert_eq!(titles[..3], ["step", "one", "two"]);
        assert!(titles[3].starts_with("all, on "), "{table}");
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

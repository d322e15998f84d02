//! The matrix as a person reads it: one line a call and side, all its occurrences together.

use std::{collections::BTreeMap, fmt};

use satchel_system::crash::points::Side;

use super::{
    report::MatrixReport,
    run::{KillPoint, KillResult, RunOutcome, describe_kill},
    turn_scenario::MatrixPlatform,
};

#[derive(Debug, Default)]
struct MatrixRow {
    runs: usize,
    not_reached: usize,
    lost: usize,
    duplicated: usize,
    labelled: usize,
    out_of_order: usize,
    tool_runs: [usize; 3],
    reported_unknown: usize,
    failures: usize,
}

/// The reports, grouped by kill point.
#[derive(Debug, Default)]
pub(crate) struct MatrixTable {
    rows: BTreeMap<String, MatrixRow>,
}

impl MatrixTable {
    pub(crate) fn add(
        &mut self,
        kill_point: &KillPoint,
        outcome: &RunOutcome,
        report: &MatrixReport,
        platform: MatrixPlatform,
    ) {
        let row = self.rows.entry(kill_label(kill_point)).or_default();
        row.runs += 1;
        row.not_reached += usize::from(outcome.kill_result != KillResult::Died);
        row.lost += report.lost.len();
        row.duplicated += report.duplicates + report.orphans;
        row.labelled += report.labels;
        row.out_of_order += report.out_of_order;
        row.tool_runs[report.tool_runs.min(2)] += 1;
        row.reported_unknown += usize::from(report.reported_unknown);
        row.failures += usize::from(!report.problems(platform).is_empty());
    }

    pub(crate) fn runs(&self) -> usize {
        self.rows.values().map(|row| row.runs).sum()
    }
}

/// Where the last process died, without the number of the call.
fn kill_label(kill_point: &KillPoint) -> String {
    match kill_point {
        KillPoint::Never => "undisturbed".to_owned(),
        KillPoint::At(point) if point.side == Side::Before => format!("{} before", point.call),
        KillPoint::At(point) => format!("{} after", point.call),
        KillPoint::During { operation, moment, .. } => describe_kill(*operation, *moment),
        KillPoint::Twice { second, .. } => format!("then {}", kill_label(&KillPoint::At(second.clone()))),
    }
}

impl fmt::Display for MatrixTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<36} {:>5} {:>5} {:>5} {:>6} {:>6} {:>6}  {:<20} {:>7}",
            "killed at", "runs", "alive", "lost", "twice", "label", "order", "tool ran 0/1/2 (told)", "wrong"
        )?;
        let mut all = MatrixRow::default();
        for (name, row) in &self.rows {
            write_row(f, name, row)?;
            all.runs += row.runs;
            all.not_reached += row.not_reached;
            all.lost += row.lost;
            all.duplicated += row.duplicated;
            all.labelled += row.labelled;
            all.out_of_order += row.out_of_order;
            (0..3).for_each(|times| all.tool_runs[times] += row.tool_runs[times]);
            all.reported_unknown += row.reported_unknown;
            all.failures += row.failures;
        }
        write_row(f, "all", &all)
    }
}

fn write_row(f: &mut fmt::Formatter<'_>, name: &str, row: &MatrixRow) -> fmt::Result {
    let [never, once, twice] = row.tool_runs;
    let tool = format!("{never}/{once}/{twice} ({})", row.reported_unknown);
    let MatrixRow { runs, not_reached, lost, duplicated, labelled, out_of_order, failures: wrong, .. } = row;
    writeln!(
        f,
        "{name:<36} {runs:>5} {not_reached:>5} {lost:>5} {duplicated:>6} {labelled:>6} {out_of_order:>6}  {tool:<20} {wrong:>7}"
    )
}

//! The matrix as a person reads it: one line a call and side, all its occurrences together.

use std::{collections::BTreeMap, fmt};

use satchel_system::crash::points::Side;

use super::{
    run::{Death, Ending, Outcome, during},
    scene::Platform,
    verdict::Verdict,
};

#[derive(Debug, Default)]
struct Row {
    runs: usize,
    not_reached: usize,
    lost: usize,
    duplicated: usize,
    labelled: usize,
    out_of_order: usize,
    tool_runs: [usize; 3],
    told_unknown: usize,
    wrong: usize,
}

/// The verdicts, gathered by kill point.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: BTreeMap<String, Row>,
}

impl Table {
    pub(crate) fn add(&mut self, death: &Death, outcome: &Outcome, verdict: &Verdict, platform: Platform) {
        let row = self.rows.entry(place(death)).or_default();
        row.runs += 1;
        row.not_reached += usize::from(outcome.ending != Ending::Died);
        row.lost += verdict.lost.len();
        row.duplicated += verdict.duplicates + verdict.orphans;
        row.labelled += verdict.labels;
        row.out_of_order += verdict.out_of_order;
        row.tool_runs[verdict.tool_runs.min(2)] += 1;
        row.told_unknown += usize::from(verdict.told_unknown);
        row.wrong += usize::from(!verdict.problems(platform).is_empty());
    }

    pub(crate) fn runs(&self) -> usize {
        self.rows.values().map(|row| row.runs).sum()
    }
}

/// Where the last process died, without the number of the call.
fn place(death: &Death) -> String {
    match death {
        Death::Never => "undisturbed".to_owned(),
        Death::At(point) if point.side == Side::Before => format!("{} before", point.call),
        Death::At(point) => format!("{} after", point.call),
        Death::During { operation, moment, .. } => during(*operation, *moment),
        Death::Twice { second, .. } => format!("then {}", place(&Death::At(second.clone()))),
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<36} {:>5} {:>5} {:>5} {:>6} {:>6} {:>6}  {:<20} {:>7}",
            "killed at", "runs", "alive", "lost", "twice", "label", "order", "tool ran 0/1/2 (told)", "wrong"
        )?;
        let mut all = Row::default();
        for (name, row) in &self.rows {
            write_row(f, name, row)?;
            all.runs += row.runs;
            all.not_reached += row.not_reached;
            all.lost += row.lost;
            all.duplicated += row.duplicated;
            all.labelled += row.labelled;
            all.out_of_order += row.out_of_order;
            (0..3).for_each(|times| all.tool_runs[times] += row.tool_runs[times]);
            all.told_unknown += row.told_unknown;
            all.wrong += row.wrong;
        }
        write_row(f, "all", &all)
    }
}

fn write_row(f: &mut fmt::Formatter<'_>, name: &str, row: &Row) -> fmt::Result {
    let [never, once, twice] = row.tool_runs;
    let tool = format!("{never}/{once}/{twice} ({})", row.told_unknown);
    let Row { runs, not_reached, lost, duplicated, labelled, out_of_order, wrong, .. } = row;
    writeln!(
        f,
        "{name:<36} {runs:>5} {not_reached:>5} {lost:>5} {duplicated:>6} {labelled:>6} {out_of_order:>6}  {tool:<20} {wrong:>7}"
    )
}

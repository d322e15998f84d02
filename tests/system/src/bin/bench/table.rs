//! The table of all figures, for people and as JSON.

use std::{fmt, io, path::Path};

use serde::Serialize;

/// One figure, and what it is to be compared with.
#[derive(Debug, Serialize)]
pub(crate) struct ResultRow {
    name: String,
    measured: Option<f64>,
    unit: &'static str,
    limit: Option<f64>,
    ratio: Option<f64>,
    bar: String,
    met: Option<bool>,
    note: String,
}

/// All rows, in the order in which they were measured.
#[derive(Debug, Default, Serialize)]
pub(crate) struct ResultTable {
    /// What else the machine was doing.
    pub(crate) machine: String,
    pub(crate) rows: Vec<ResultRow>,
}

impl ResultRow {
    pub(crate) fn new(name: impl Into<String>, measured: f64, unit: &'static str) -> Self {
        let (bar, note) = (String::new(), String::new());
        Self { name: name.into(), measured: Some(measured), unit, limit: None, ratio: None, bar, met: None, note }
    }

    /// What could not be measured, and why.
    pub(crate) fn missing(name: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { measured: None, note: reason.into(), ..Self::new(name, 0.0, "") }
    }

    pub(crate) fn failed(name: &str, error: &anyhow::Error) -> Self {
        Self::missing(name, format!("failed: {error:#}"))
    }

    /// What this machine can do at best, in the same unit.
    pub(crate) fn with_limit(self, limit: f64) -> Self {
        Self { limit: Some(limit), ratio: self.measured.map(|measured| measured / limit), ..self }
    }

    pub(crate) fn with_max(self, bar: f64) -> Self {
        Self {
            bar: format!("≤ {}", format_with_unit(bar, self.unit)),
            met: self.measured.map(|value| value <= bar),
            ..self
        }
    }

    pub(crate) fn with_min_ratio(self, bar: f64) -> Self {
        Self { bar: format!("≥ {} × limit", format_number(bar)), met: self.ratio.map(|ratio| ratio >= bar), ..self }
    }

    pub(crate) fn with_max_ratio(self, bar: f64) -> Self {
        Self { bar: format!("≤ {} ×", format_number(bar)), met: self.ratio.map(|ratio| ratio <= bar), ..self }
    }

    pub(crate) fn with_note(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    fn cells(&self) -> [String; 6] {
        let met = self.met.map_or("", |met| if met { "yes" } else { "NO" });
        [
            self.name.clone(),
            self.measured.map_or_else(|| "–".to_owned(), |value| format_with_unit(value, self.unit)),
            self.limit.map_or_else(String::new, |value| format_with_unit(value, self.unit)),
            self.ratio.map_or_else(String::new, format_number),
            self.bar.clone(),
            met.to_owned(),
        ]
    }
}

impl ResultTable {
    /// Writes the figures as JSON.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        std::fs::write(path, serde_json::to_vec_pretty(self)?)
    }
}

impl fmt::Display for ResultTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.machine)?;
        let head = ["", "measured", "limit", "ratio", "bar", "met"].map(str::to_owned);
        let rows: Vec<[String; 6]> = std::iter::once(head).chain(self.rows.iter().map(ResultRow::cells)).collect();
        let widths: [usize; 6] =
            std::array::from_fn(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default());
        for (at, row) in rows.iter().enumerate() {
            let [name, cells @ ..] = row;
            write!(f, "{name:<width$}", width = widths[0])?;
            for (cell, width) in cells.iter().zip(&widths[1..]) {
                write!(f, "  {cell:>width$}")?;
            }
            let note = at.checked_sub(1).map_or("", |at| self.rows[at].note.as_str());
            writeln!(f, "{}{note}", if note.is_empty() { "" } else { "  " })?;
        }
        Ok(())
    }
}

fn format_with_unit(number: f64, unit: &str) -> String {
    format!("{} {unit}", format_number(number)).trim_end().to_owned()
}

/// A number with about three digits that matter.
fn format_number(number: f64) -> String {
    match number.abs() {
        whole if whole.fract() == 0.0 => format!("{number:.0}"),
        large if large >= 100.0 => format!("{number:.0}"),
        middle if middle >= 10.0 => format!("{number:.1}"),
        small if small >= 0.1 => format!("{number:.2}"),
        _ => format!("{number:.4}"),
    }
}

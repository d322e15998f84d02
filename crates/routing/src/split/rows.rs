//! Tables that go on from chunk to chunk, each with the headings.

use satchel_markup::{TableBlock, TableMeter, TableRow, TextSize};

use super::{
    cut::CutKind,
    prose::{Budget, Prose, ProsePosition, ProseReach, Writing},
    tokens::Tokens,
};

/// A position in a table: before a row, or within the cell of one that is longer than a chunk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RowPosition {
    pub(super) row: usize,
    /// The cell, and the position in its text.
    pub(super) cell: Option<(usize, ProsePosition)>,
}

/// A table and how it is measured.
pub(super) struct TableText<'a, 'text> {
    pub(super) source: &'a str,
    pub(super) table: &'a TableBlock<'text>,
    pub(super) measure: &'a satchel_markup::Measure,
}

impl TableText<'_, '_> {
    /// The size of the headings alone, with what they add to a record.
    pub(super) fn head_size(&self) -> TextSize {
        let mut meter = TableMeter::new(*self.measure, &self.table.head);
        let columns = self.table.head.cells.len();
        let head = meter.size();
        meter.push(&TableRow { range: 0..0, cells: Vec::new() });
        let size = meter.size();
        TextSize { units: head.units.max(size.units) + 4 * columns, ..size }
    }

    /// The row before which a chunk ends that begins with another one; the number of rows if all fit.
    pub(super) fn reach(&self, from: usize, budget: &Budget) -> usize {
        let mut meter = TableMeter::new(*self.measure, &self.table.head);
        for (index, row) in self.table.rows.iter().enumerate().skip(from) {
            meter.push(row);
            let size = meter.size();
            if size.units + size.breaks * (1 + budget.prefix) > budget.units || size.spans > budget.spans {
                return index;
            }
        }
        self.table.rows.len()
    }

    /// The size of the rows from one on, with the headings.
    pub(super) fn size_from(&self, row: usize) -> TextSize {
        let mut meter = TableMeter::new(*self.measure, &self.table.head);
        self.table.rows[row..].iter().for_each(|row| meter.push(row));
        meter.size()
    }

    /// Where a row is cut that is longer than a chunk.
    pub(super) fn cut_row(&self, from: &RowPosition, budget: &Budget) -> RowPosition {
        let head = self.head_size();
        let Some(row) = self.table.rows.get(from.row) else { return from.clone() };
        // In columns a row takes more than its cells and their headings.
        let excess = if from.cell.is_none() { self.excess(row, budget) } else { 0 };
        let around = head.units + head.breaks * (1 + budget.prefix) + excess;
        let mut free = budget.units.saturating_sub(around).max(budget.units / 4);
        let mut spans = budget.spans.saturating_sub(head.spans);
        let first = from.cell.as_ref().map_or(0, |(cell, _)| *cell);
        for (column, cell) in row.cells.iter().enumerate().skip(first) {
            let tokens = Tokens::new(&cell.content, self.source, self.measure);
            let prose = Prose { source: self.source, tokens: &tokens, measure: self.measure };
            let start = from
                .cell
                .as_ref()
                .filter(|_| column == first)
                .map_or_else(|| prose.first_position(), |cell| cell.1.clone());
            let part = Budget { units: free, spans, is_fresh: column == first, ..*budget };
            match prose.reach(&start, &part) {
                ProseReach::Everything(size) => {
                    free = free.saturating_sub(size.units + size.breaks * (1 + budget.prefix));
                    spans = spans.saturating_sub(size.spans);
                }
                ProseReach::UpTo { token, at } => {
                    let cut = prose.last_cut(&start, (token, at), 0, CutKind::WordInSpan);
                    if cut.is_none() && column > first {
                        return RowPosition { row: from.row, cell: Some((column, start)) };
                    }
                    let at = cut.map_or_else(|| prose.forced_cut(&start, (token, at)), |(_, at)| at);
                    let position = prose.skip_blanks(prose.position_at(&start, at));
                    return if position.token < tokens.tokens.len() {
                        RowPosition { row: from.row, cell: Some((column, position)) }
                    } else if column + 1 < row.cells.len() {
                        let next = Tokens::new(&row.cells[column + 1].content, self.source, self.measure);
                        let prose = Prose { source: self.source, tokens: &next, measure: self.measure };
                        RowPosition { row: from.row, cell: Some((column + 1, prose.first_position())) }
                    } else {
                        RowPosition { row: from.row + 1, cell: None }
                    };
                }
            }
        }
        RowPosition { row: from.row + 1, cell: None }
    }

    /// How many units a row is too long by.
    fn excess(&self, row: &TableRow<'_>, budget: &Budget) -> usize {
        let mut meter = TableMeter::new(*self.measure, &self.table.head);
        meter.push(row);
        let size = meter.size();
        (size.units + size.breaks * (1 + budget.prefix)).saturating_sub(budget.units)
    }

    /// The lines between two positions, below the headings.
    pub(super) fn lines(&self, from: &RowPosition, to: &RowPosition, budget: &Budget, writing: Writing) -> Vec<String> {
        let mut lines = vec![self.row(&self.table.head, writing, budget), self.delimiter(writing)];
        for (index, row) in self.table.rows.iter().enumerate().skip(from.row).take_while(|(index, _)| *index <= to.row)
        {
            let is_whole = (index > from.row || from.cell.is_none()) && index < to.row;
            if is_whole {
                lines.push(self.row(row, writing, budget));
            } else if index < to.row || to.cell.is_some() {
                let begin = from.cell.as_ref().filter(|_| index == from.row);
                let end = to.cell.as_ref().filter(|_| index == to.row);
                lines.push(self.row_part(row, begin, end, budget, writing));
            }
        }
        lines
    }

    fn row(&self, row: &TableRow<'_>, writing: Writing, budget: &Budget) -> String {
        match writing {
            // A line without a pipe would end the table.
            Writing::AsWritten if self.source[row.range.clone()].contains('|') => {
                self.source[row.range.clone()].trim().to_owned()
            }
            _ => self.row_part(row, None, None, budget, writing),
        }
    }

    fn delimiter(&self, writing: Writing) -> String {
        match writing {
            Writing::AsWritten => self.source[self.table.delimiter.clone()].trim().to_owned(),
            _ => format!("|{}", "---|".repeat(self.table.head.cells.len())),
        }
    }

    fn row_part(
        &self,
        row: &TableRow<'_>,
        begin: Option<&(usize, ProsePosition)>,
        end: Option<&(usize, ProsePosition)>,
        budget: &Budget,
        writing: Writing,
    ) -> String {
        let mut line = String::from("|");
        for (column, cell) in row.cells.iter().enumerate() {
            let is_before = begin.is_some_and(|(first, _)| column < *first);
            let is_behind = end.is_some_and(|(last, _)| column > *last);
            if !is_before && !is_behind {
                let tokens = Tokens::new(&cell.content, self.source, self.measure);
                let prose = Prose { source: self.source, tokens: &tokens, measure: self.measure };
                let start = begin
                    .filter(|(first, _)| column == *first)
                    .map_or_else(|| prose.first_position(), |cell| cell.1.clone());
                let stop = end
                    .filter(|(last, _)| column == *last)
                    .map_or_else(|| prose.last_position(), |cell| cell.1.clone());
                let text = prose.write((&start, &stop), "", budget, writing);
                line.push(' ');
                line.push_str(&text.trim().replace('\n', "<br>"));
            }
            line.push_str(" |");
        }
        line
    }

    /// The characters between two positions, with those of the headings.
    pub(super) fn push_plain(&self, from: &RowPosition, to: &RowPosition, text: &mut String) {
        self.push_plain_cells(&self.table.head, None, None, text);
        for (index, row) in self.table.rows.iter().enumerate().skip(from.row).take_while(|(index, _)| *index <= to.row)
        {
            if index < to.row || to.cell.is_some() {
                let begin = from.cell.as_ref().filter(|_| index == from.row);
                let end = to.cell.as_ref().filter(|_| index == to.row);
                self.push_plain_cells(row, begin, end, text);
            }
        }
    }

    fn push_plain_cells(
        &self,
        row: &TableRow<'_>,
        begin: Option<&(usize, ProsePosition)>,
        end: Option<&(usize, ProsePosition)>,
        text: &mut String,
    ) {
        for (column, cell) in row.cells.iter().enumerate() {
            if begin.is_some_and(|(first, _)| column < *first) || end.is_some_and(|(last, _)| column > *last) {
                continue;
            }
            let tokens = Tokens::new(&cell.content, self.source, self.measure);
            let prose = Prose { source: self.source, tokens: &tokens, measure: self.measure };
            let start = begin
                .filter(|(first, _)| column == *first)
                .map_or_else(|| prose.first_position(), |cell| cell.1.clone());
            let stop =
                end.filter(|(last, _)| column == *last).map_or_else(|| prose.last_position(), |cell| cell.1.clone());
            prose.push_plain(&start, &stop, text);
        }
    }
}

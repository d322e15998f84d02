//! The best place at which to end a chunk.

use satchel_markup::TextSize;

use super::{
    chunker::{Chunker, LeafPosition},
    code::{code_cut, code_reach},
    cut::CutKind,
    leaves::TextLeafKind,
    prose::{Budget, ProseReach},
    rows::RowPosition,
};

/// Where a chunk ends: after so many leaves, or within the next one.
pub(super) struct ChunkEnd {
    pub(super) leaves: usize,
    /// Where it ends in the next leaf, and where the next chunk begins.
    pub(super) inside: Option<(LeafPosition, LeafPosition)>,
    /// Whether all of it was measured to fit.
    pub(super) is_fitting: bool,
}

impl ChunkEnd {
    fn between(leaves: usize, is_fitting: bool) -> Self {
        Self { leaves, inside: None, is_fitting }
    }
}

/// A boundary between leaves at which a chunk might end.
struct Boundary {
    leaves: usize,
    kind: CutKind,
    units: usize,
}

/// Places within the leaf that no longer fits.
#[derive(Default)]
struct InnerCuts {
    /// The best one that leaves no tiny chunk.
    preferred: Option<(CutKind, LeafPosition)>,
    /// The best one.
    any: Option<(CutKind, LeafPosition)>,
    /// One that goes through a span, or through a word.
    last_resort: Option<LeafPosition>,
}

impl Chunker<'_> {
    /// The best place at which to end the chunk that begins here.
    pub(super) fn find_end(&mut self) -> ChunkEnd {
        let mut used = TextSize::default();
        let mut boundaries: Vec<Boundary> = Vec::new();
        let mut index = 0;
        while self.load(index) {
            if index == 0 {
                self.prepare_first();
            }
            let kind = if self.leaves[index].blank_before { CutKind::Paragraph } else { CutKind::Line };
            if index > 0 {
                boundaries.push(Boundary { leaves: index, kind, units: used.units });
            }
            let budget = self.budget(index, used);
            let size = budget.as_ref().and_then(|budget| self.fitting_size(index, budget));
            let Some(size) = size else { return self.choose_end(index, budget, &boundaries) };
            if let Some(budget) = budget {
                used.units = self.limits.max - budget.units + size.units;
                used.spans = self.limits.max_spans - budget.spans + size.spans;
            }
            index += 1;
        }
        ChunkEnd::between(index, true)
    }

    fn choose_end(&self, index: usize, budget: Option<Budget>, boundaries: &[Boundary]) -> ChunkEnd {
        let min = self.limits.max / 3;
        let inner = budget.map(|budget| self.inner_cuts(index, &budget, min)).unwrap_or_default();
        let boundary = |kind: CutKind, is_early: bool| {
            boundaries.iter().rev().find(|boundary| boundary.kind == kind && (boundary.units < min) == is_early)
        };
        let preferred = |kinds: std::ops::RangeInclusive<CutKind>| {
            inner.preferred.clone().filter(|(kind, _)| kinds.contains(kind)).map(|(_, part)| part)
        };
        let at_boundary = |boundary: &Boundary| ChunkEnd::between(boundary.leaves, true);
        let part = preferred(CutKind::Paragraph..=CutKind::Paragraph);
        if let (None, Some(boundary)) = (&part, boundary(CutKind::Paragraph, false)) {
            return at_boundary(boundary);
        }
        if let (None, Some(boundary)) = (&part, boundary(CutKind::Line, false)) {
            return at_boundary(boundary);
        }
        let part = part.or_else(|| preferred(CutKind::Line..=CutKind::Word));
        if let (None, Some(boundary)) =
            (&part, boundary(CutKind::Paragraph, true).or_else(|| boundary(CutKind::Line, true)))
        {
            return at_boundary(boundary);
        }
        let part = part.or_else(|| inner.any.map(|(_, part)| part)).or(inner.last_resort);
        match part {
            Some(part) => self.end_inside(index, part),
            // Nothing in it can be cut: it is a chunk by itself.
            None => ChunkEnd::between(index.max(1), false),
        }
    }

    /// The end of a chunk within a leaf.
    fn end_inside(&self, index: usize, part: LeafPosition) -> ChunkEnd {
        let next = match &part {
            LeafPosition::Prose(position) => self.prose(index).map(|prose| {
                let next = prose.skip_blanks(position.clone());
                (next.token < prose.tokens.tokens.len()).then_some(LeafPosition::Prose(next))
            }),
            LeafPosition::Code(at) => match &self.leaves[index].kind {
                TextLeafKind::Code(code) => Some((*at < code.text.len()).then_some(part.clone())),
                _ => None,
            },
            LeafPosition::Row(position) => {
                self.table(index).map(|table| (position.row < table.table.rows.len()).then_some(part.clone()))
            }
            LeafPosition::Start | LeafPosition::End => None,
        };
        match next.flatten() {
            Some(next) => ChunkEnd { leaves: index, inside: Some((part, next)), is_fitting: true },
            None => ChunkEnd::between(index + 1, false),
        }
    }

    /// Where a leaf might be cut that no longer fits.
    fn inner_cuts(&self, index: usize, budget: &Budget, min: usize) -> InnerCuts {
        let start = if index == 0 { self.start.clone() } else { LeafPosition::Start };
        let used = self.limits.max - budget.units;
        match &self.leaves[index].kind {
            TextLeafKind::Prose { .. } => self.prose_cuts(index, start, budget, min.saturating_sub(used)),
            TextLeafKind::Code(code) => {
                let from = if let LeafPosition::Code(from) = start { from } else { 0 };
                let measure = &self.limits.measure;
                let fences = self.leaves[index].fences(self.source, &self.limits);
                let fences = fences.map_or(0, |fences| fences.size.units + fences.size.breaks * (1 + budget.prefix));
                let free = budget.units.saturating_sub(fences);
                if budget.spans == 0 && !budget.is_fresh {
                    return InnerCuts::default();
                }
                let reach = code_reach(&code.text, from, free, budget.prefix, measure);
                let (kind, at) = code_cut(&code.text, from, reach);
                let is_line = kind == CutKind::CodeLine;
                InnerCuts {
                    preferred: is_line.then_some((kind, LeafPosition::Code(at))),
                    any: is_line.then_some((kind, LeafPosition::Code(at))),
                    last_resort: budget.is_fresh.then_some(LeafPosition::Code(at)),
                }
            }
            TextLeafKind::Table(_) => self.row_cuts(index, &start, budget),
            _ => InnerCuts::default(),
        }
    }

    fn prose_cuts(&self, index: usize, start: LeafPosition, budget: &Budget, missing: usize) -> InnerCuts {
        let heading = self.heading_size(index);
        let budget = Budget { units: budget.units.saturating_sub(heading.units), ..*budget };
        let Some(prose) = self.prose(index) else { return InnerCuts::default() };
        let from = if let LeafPosition::Prose(from) = start { from } else { prose.first_position() };
        let ProseReach::UpTo { token, at } = prose.reach(&from, &budget) else { return InnerCuts::default() };
        // About as far as a third of a chunk.
        let low = from.at + at.saturating_sub(from.at) * missing.min(budget.units) / budget.units.max(1);
        let part = |at: usize| LeafPosition::Prose(prose.position_at(&from, at));
        let find = |low: usize, worst: CutKind| {
            prose.last_cut(&from, (token, at), low, worst).map(|(kind, at)| (kind, part(at)))
        };
        let preferred = find(low, CutKind::Word);
        let any = preferred.clone().or_else(|| find(0, CutKind::Word));
        if any.is_some() || !budget.is_fresh {
            return InnerCuts { preferred, any, last_resort: None };
        }
        let in_span = find(low, CutKind::WordInSpan).or_else(|| find(0, CutKind::WordInSpan));
        let last_resort = in_span.map_or_else(|| part(prose.forced_cut(&from, (token, at))), |(_, part)| part);
        InnerCuts { preferred, any, last_resort: Some(last_resort) }
    }

    fn row_cuts(&self, index: usize, start: &LeafPosition, budget: &Budget) -> InnerCuts {
        let Some(table) = self.table(index) else { return InnerCuts::default() };
        let from = if let LeafPosition::Row(from) = start { from.clone() } else { RowPosition::default() };
        let reach = if from.cell.is_some() { from.row } else { table.reach(from.row, budget) };
        if reach > from.row {
            let part = LeafPosition::Row(RowPosition { row: reach, cell: None });
            let cut = Some((CutKind::CodeLine, part));
            return InnerCuts { preferred: cut.clone(), any: cut, last_resort: None };
        }
        let last_resort = budget.is_fresh.then(|| LeafPosition::Row(table.cut_row(&from, budget)));
        InnerCuts { last_resort, ..InnerCuts::default() }
    }

    /// The size of a leaf, from where the chunk begins in it; `None` if that is more than it may be.
    fn fitting_size(&self, index: usize, budget: &Budget) -> Option<TextSize> {
        let size = match (index, self.start.clone()) {
            (0, LeafPosition::Prose(from)) => {
                let heading = self.heading_size(0);
                let rest = Budget { units: budget.units.checked_sub(heading.units)?, ..*budget };
                match self.prose(0)?.reach(&from, &rest) {
                    ProseReach::Everything(size) => size + heading,
                    ProseReach::UpTo { .. } => return None,
                }
            }
            (0, LeafPosition::Code(from)) => self.fitting_code(from, budget)?,
            (0, LeafPosition::Row(from)) => self.fitting_rows(&from, budget)?,
            _ => self.leaves[index].size,
        };
        let units = size.units + size.breaks * (1 + budget.prefix);
        (units <= budget.units && size.spans <= budget.spans).then_some(TextSize { units, breaks: 0, ..size })
    }

    fn fitting_code(&self, from: usize, budget: &Budget) -> Option<TextSize> {
        let TextLeafKind::Code(code) = &self.leaves[0].kind else { return None };
        let measure = &self.limits.measure;
        let fences = self.leaves[0].fences(self.source, &self.limits)?;
        let reach = code_reach(&code.text, from, budget.units, budget.prefix, measure);
        (reach == code.text.len()).then(|| measure.code_lines(&code.text[from..]) + fences.size)
    }

    fn fitting_rows(&self, from: &RowPosition, budget: &Budget) -> Option<TextSize> {
        let table = self.table(0)?;
        let is_fitting = from.cell.is_none() && table.reach(from.row, budget) == table.table.rows.len();
        is_fitting.then(|| table.size_from(from.row))
    }

    fn heading_size(&self, index: usize) -> TextSize {
        match self.leaves[index].kind {
            TextLeafKind::Prose { level: Some(level), .. } => self.limits.measure.heading(level),
            _ => TextSize::default(),
        }
    }
}

//! Formulas in a text: between `$`, `$$`, `\( \)` and `\[ \]`, and environments such as `\begin{align}`.
//!
//! A dollar is money more often than not, and `\[` may be a bracket that was escaped: what is between two delimiters has to
//! look like a formula.

use std::ops::Range;

/// How far behind its beginning the end of a formula is looked for, in bytes.
pub(super) const MAX_FORMULA_BYTES: usize = 4_000;

/// How many environments are looked for in a passage.
const MAX_ENVIRONMENTS: usize = 500;

/// The environments that are formulas without delimiters around them.
const ENVIRONMENTS: [&str; 14] = [
    "align", "aligned", "alignat", "array", "bmatrix", "cases", "equation", "gather", "gathered", "matrix", "multline",
    "pmatrix", "split", "vmatrix",
];

/// A formula that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundFormula {
    /// With its delimiters.
    pub(super) range: Range<usize>,
    /// Without them.
    pub(super) tex: Range<usize>,
    /// Whether it is meant for a line of its own.
    pub(super) is_display: bool,
}

/// Finds formulas, and remembers up to where no closing delimiter is, so that looking takes linear time.
#[derive(Debug, Default)]
pub(super) struct FormulaFinder {
    /// By closing delimiter.
    searched: [(usize, usize); 4],
    environments: usize,
}

/// A pair of delimiters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Delimiters {
    Parentheses,
    Brackets,
    Dollars,
    Dollar,
}

impl Delimiters {
    fn opening_at(text: &str) -> Option<Self> {
        const ALL: [Delimiters; 4] =
            [Delimiters::Parentheses, Delimiters::Brackets, Delimiters::Dollars, Delimiters::Dollar];
        ALL.into_iter().find(|delimiters| text.starts_with(delimiters.pair().0))
    }

    fn pair(self) -> (&'static str, &'static str) {
        match self {
            Self::Parentheses => ("\\(", "\\)"),
            Self::Brackets => ("\\[", "\\]"),
            Self::Dollars => ("$$", "$$"),
            Self::Dollar => ("$", "$"),
        }
    }
}

impl FormulaFinder {
    /// The formula that begins at `start` and ends before `end`, where the lines end that may be part of it.
    pub(super) fn formula_at(&mut self, text: &str, start: usize, end: usize) -> Option<FoundFormula> {
        if text[start..end].starts_with("\\begin{") {
            return self.environment_at(text, start, end);
        }
        let delimiters = Delimiters::opening_at(&text[start..end])?;
        let (opening, closing) = delimiters.pair();
        let body = start + opening.len();
        let close = self.find_closing(text, body..end, delimiters)?;
        let tex = &text[body..close];
        let range = start..close + closing.len();
        let is_formula = !tex.trim().is_empty()
            && match delimiters {
                Delimiters::Dollar => is_between_dollars(text, start, close, end),
                Delimiters::Dollars => !tex.starts_with('$') && !text[range.end..end].starts_with('$'),
                Delimiters::Parentheses => is_in_parentheses(tex),
                Delimiters::Brackets => is_in_brackets(text, &range, tex, end),
            };
        let is_display = matches!(delimiters, Delimiters::Dollars | Delimiters::Brackets);
        is_formula.then_some(FoundFormula { range, tex: body..close, is_display })
    }

    /// Where the closing delimiter begins, in the same paragraph and with no code before it.
    fn find_closing(&mut self, text: &str, body: Range<usize>, delimiters: Delimiters) -> Option<usize> {
        let closing = delimiters.pair().1;
        let end = text.floor_char_boundary((body.start + MAX_FORMULA_BYTES).min(body.end));
        let (from, to) = self.searched[delimiters as usize];
        let at = if (from..to).contains(&body.start) { to } else { body.start };
        let bytes = text.as_bytes();
        let mut at = at.min(end);
        while at < end {
            let rest = &bytes[at..end];
            if rest.starts_with(closing.as_bytes()) {
                return Some(at);
            }
            match rest[0] {
                // The parser ends a line there.
                b'\r' if rest.get(1) != Some(&b'\n') => break,
                b'`' => break,
                b'\\' if rest.get(1).is_some_and(|next| !matches!(next, b'\r' | b'\n')) => at += 1,
                _ => {}
            }
            at += 1;
        }
        self.searched[delimiters as usize] = (body.start, at);
        None
    }

    fn environment_at(&mut self, text: &str, start: usize, end: usize) -> Option<FoundFormula> {
        let name = text[start..end].strip_prefix("\\begin{")?.split('}').next()?;
        let is_known = ENVIRONMENTS.contains(&name.strip_suffix('*').unwrap_or(name));
        if !is_known || self.environments >= MAX_ENVIRONMENTS {
            return None;
        }
        self.environments += 1;
        let limit = text.floor_char_boundary((start + MAX_FORMULA_BYTES).min(end));
        let closing = format!("\\end{{{name}}}");
        let close = text[start..limit].find(&closing)?;
        if text[start..start + close].replace("\r\n", "").contains('\r') {
            return None;
        }
        let range = start..start + close + closing.len();
        Some(FoundFormula { range: range.clone(), tex: range, is_display: true })
    }
}

/// Whether dollar signs at two places mean a formula, and not amounts of money.
fn is_between_dollars(text: &str, start: usize, close: usize, end: usize) -> bool {
    let tex = &text[start + 1..close];
    let opens_after = |before: char| before.is_whitespace() || !before.is_alphanumeric() && before != '$';
    let is_signed = tex.contains(['\\', '^', '_', '=', '{']);
    let is_amount = tex.starts_with(|first: char| first.is_ascii_digit()) && !is_signed && has_word(tex);
    let is_prose = !is_signed && tex.split_whitespace().filter(|word| has_word(word)).count() > 1;
    // The pipes of a table's row are between cells, unless they belong together.
    let crosses_cells = tex.contains(" |") || tex.contains("| ") || tex.matches('|').count() % 2 == 1;
    text[..start]
        .chars()
        .next_back()
        .is_none_or(|before| opens_after(before) || !before.is_ascii() && before.is_alphabetic())
        && !tex.starts_with(char::is_whitespace)
        && !tex.ends_with(char::is_whitespace)
        && !text[close + 1..end].starts_with(|after: char| after.is_ascii_alphanumeric() || after == '$')
        && !is_amount
        && !is_prose
        && !(tex.contains('|') && crosses_cells && is_table_row(text, start, end))
}

fn is_table_row(text: &str, at: usize, end: usize) -> bool {
    let line_start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let line_end = text[at..end].find('\n').map_or(end, |newline| at + newline);
    let line = text[line_start..line_end].trim();
    line.starts_with('|') || line.ends_with('|')
}

/// Whether a text has a word of more than one letter.
fn has_word(text: &str) -> bool {
    text.split(|c: char| !c.is_alphabetic()).any(|word| word.chars().count() > 1)
}

/// Whether what is between `\(` and `\)` is a formula, and not a remark whose parentheses were escaped.
fn is_in_parentheses(tex: &str) -> bool {
    let mut words = tex.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty());
    has_signs(tex) || tex.starts_with(' ') && words.clone().count() < 3 || words.all(|word| word.chars().count() < 4)
}

/// Whether what is between `\[` and `\]` is a formula, and not a text in brackets that were escaped.
fn is_in_brackets(text: &str, range: &Range<usize>, tex: &str, end: usize) -> bool {
    let before = text[..range.start].rsplit('\n').next().unwrap_or_default();
    let behind = text[range.end..end].split('\n').next().unwrap_or_default();
    let is_alone = before.trim_matches([' ', '\t', '>', '-', '*']).is_empty()
        && behind.trim_matches([' ', '\t', '\r', '.', ',']).is_empty();
    let is_padded = tex.starts_with(char::is_whitespace) && tex.ends_with(char::is_whitespace);
    let has_operator = tex.contains(['=', '+', '<', '>', '/']);
    (has_signs(tex) && (is_padded || is_alone || has_command(tex)))
        || (is_alone && has_operator)
        || (is_padded && (has_operator || !has_word(tex)))
        || tex.contains('^')
}

/// Whether a text has what only formulas have: commands, exponents, indices, groups.
fn has_signs(tex: &str) -> bool {
    let is_escaped = |at: usize| tex[..at].ends_with('\\');
    has_command(tex)
        || tex.contains(['^', '=', '{', '+'])
        || tex.match_indices('_').any(|(at, _)| !is_escaped(at))
        || tex.match_indices(['<', '>']).any(|(at, _)| !is_escaped(at))
}

fn has_command(tex: &str) -> bool {
    tex.match_indices('\\').any(|(at, _)| {
        tex[at + 1..].starts_with(|next: char| next.is_ascii_alphabetic() || matches!(next, '{' | '}' | ',' | ';'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formula(text: &str) -> Option<&str> {
        let start = text.find(['$', '\\']).unwrap();
        let found = FormulaFinder::default().formula_at(text, start, text.len())?;
        Some(&text[found.tex])
    }

    #[test]
    fn formulas_are_found_between_their_delimiters() {
        for (text, tex) in [
            ("so $a^2$, and", "a^2"),
            ("$n$-th", "n"),
            ("\\( x_{1} = \\frac{-b}{2a} \\)", " x_{1} = \\frac{-b}{2a} "),
            ("\\[ \\{1,2\\} \\subset A \\]", " \\{1,2\\} \\subset A "),
            ("\\[\nx\n- y\n\\]", "\nx\n- y\n"),
            ("$$\nE = mc^2\n$$", "\nE = mc^2\n"),
            ("\\(x\\)", "x"),
            ("\\(ABC\\)", "ABC"),
            ("\\begin{align}a &= b \\\\ c &= d\\end{align} x", "\\begin{align}a &= b \\\\ c &= d\\end{align}"),
            ("设$x$为", "x"),
        ] {
            assert_eq!(formula(text), Some(tex), "{text:?}");
        }
    }

    #[test]
    fn money_and_escaped_brackets_are_no_formulas() {
        for text in [
            "costs $5 and $6",
            "$20M–$30M",
            "$5, not 6$",
            "from US$5 to A$6",
            "a $ b $ c",
            "$HOME/bin:$PATH",
            "$this and that$",
            "| $5 | $6 |",
            "| $a | b$ |",
            "$$",
            "$$$$",
            "\\(",
            "\\[1\\] a.pdf",
            "\\[foo\\_bar\\]",
            "\\[x\\] done",
            "\\(optional, see below\\)",
            "\\begin{itemize}\\end{itemize}",
        ] {
            assert_eq!(formula(text), None, "{text:?}");
        }
    }
}

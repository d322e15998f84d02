//! Helpers for parsing English: clauses, quotes, polite words.

/// The verbs with which a clause can start; a sentence is split only before one of them.
const VERBS: [&str; 27] = [
    "save",
    "store",
    "keep",
    "send",
    "resend",
    "give",
    "return",
    "get",
    "list",
    "ls",
    "read",
    "open",
    "show",
    "search",
    "edit",
    "delete",
    "remove",
    "write",
    "create",
    "make",
    "overwrite",
    "replace",
    "what",
    "what's",
    "which",
    "please",
    "help",
];

/// The separators between two clauses, longer ones first.
const CLAUSE_SEPARATORS: [&str; 11] =
    [", and then ", " and then ", ", and ", ", then ", " and ", " then ", ", ", "; ", ". ", "! ", "? "];

/// Polite words without meaning for the intent.
const POLITE_PREFIXES: [&str; 16] = [
    "please ",
    "can you ",
    "could you ",
    "would you ",
    "will you ",
    "i want you to ",
    "i'd like you to ",
    "now ",
    "then ",
    "also ",
    "and ",
    "just ",
    "ok, ",
    "ok ",
    "hey satchel, ",
    "satchel, ",
];
const POLITE_SUFFIXES: [&str; 6] = [" please", ", please", " for me", " thanks", ", thanks", " thank you"];

/// Splits a message before further verbs, outside quotes, into at most `max` clauses; the last one holds the rest. So
/// does a clause for which `takes_the_rest` is true.
pub(super) fn split_clauses(text: &str, max: usize, takes_the_rest: impl Fn(&str) -> bool) -> Vec<&str> {
    let lower = text.to_ascii_lowercase();
    let mut clauses = Vec::new();
    let (mut start, mut at, mut quote) = (0, 0, None);
    let mut may_split = !takes_the_rest(text);
    while at < text.len() && may_split && clauses.len() + 1 < max {
        let c = text[at..].chars().next().expect("a character boundary before the end");
        match (quote, c) {
            (None, '"' | '`' | '“') => quote = Some(if c == '“' { '”' } else { c }),
            (Some(closing), c) if c == closing => quote = None,
            (None, _) => {
                let separator = CLAUSE_SEPARATORS.iter().find(|joint| lower[at..].starts_with(**joint));
                let width = separator.map(|joint| joint.len()).or((c == '\n').then_some(1));
                if let Some(width) = width.filter(|width| starts_with_verb(&lower[at + width..])) {
                    clauses.push(text[start..at].trim());
                    at += width;
                    start = at;
                    may_split = !takes_the_rest(&text[start..]);
                    continue;
                }
            }
            (Some(_), _) => {}
        }
        at += c.len_utf8();
    }
    clauses.push(text[start..].trim());
    clauses.retain(|clause| !clause.is_empty());
    clauses
}

fn starts_with_verb(lower: &str) -> bool {
    let lower = strip_polite_prefix(lower);
    let word = lower.split(|c: char| c.is_whitespace() || c == ',').next().unwrap_or_default();
    VERBS.contains(&word.trim_end_matches(['.', '!', '?']))
}

/// Drops polite words and closing punctuation around a clause.
pub(super) fn strip_politeness(clause: &str) -> &str {
    let mut text = strip_polite_prefix(clause);
    loop {
        let shorter = POLITE_SUFFIXES.iter().find_map(|polite| strip_suffix(text, polite)).unwrap_or(text);
        let shorter = shorter.trim_end_matches(['!', '?', ',', ' ']);
        let shorter = shorter.strip_suffix('.').filter(|rest| !rest.ends_with('.')).unwrap_or(shorter).trim();
        if shorter == text {
            return text;
        }
        text = shorter;
    }
}

/// Drops polite words before a clause.
pub(super) fn strip_polite_prefix(clause: &str) -> &str {
    let mut text = clause.trim_start();
    while let Some(rest) = POLITE_PREFIXES.iter().find_map(|polite| strip_prefix(text, polite)) {
        text = rest.trim_start();
    }
    text
}

/// [`str::strip_prefix`] that ignores the case of ASCII letters.
pub(super) fn strip_prefix<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let (head, rest) = text.split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// [`str::strip_suffix`] that ignores the case of ASCII letters.
pub(super) fn strip_suffix<'t>(text: &'t str, suffix: &str) -> Option<&'t str> {
    let (rest, tail) = text.split_at_checked(text.len().checked_sub(suffix.len())?)?;
    tail.eq_ignore_ascii_case(suffix).then_some(rest)
}

/// Splits a clause into its first word and the rest, if the word is one of `verbs`.
pub(super) fn after_verb<'t>(clause: &'t str, verbs: &[&str]) -> Option<&'t str> {
    let (verb, rest) = clause.split_once(char::is_whitespace).unwrap_or((clause, ""));
    verbs.iter().any(|other| verb.eq_ignore_ascii_case(other)).then_some(rest.trim_start())
}

/// Splits a text at the last of `words` between spaces, outside quotes.
pub(super) fn split_at_last<'t>(text: &'t str, words: &[&'static str]) -> Option<(&'t str, &'static str, &'t str)> {
    // A space before and after, so that a word at either end is found too.
    let padded = format!(" {} ", mask_quoted(&text.to_ascii_lowercase()));
    let last = words.iter().filter_map(|word| Some((padded.rfind(&format!(" {word} "))?, *word))).max()?;
    let (at, word) = last;
    let after = (at + word.len() + 1).min(text.len());
    Some((text[..at.saturating_sub(1)].trim(), word, text[after..].trim()))
}

/// Replaces quoted text by dashes of the same length.
fn mask_quoted(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    for (at, piece) in text.split_inclusive(['"', '`']).enumerate() {
        match at % 2 {
            1 => masked.extend(std::iter::repeat_n('-', piece.len())),
            _ => masked.push_str(piece),
        }
    }
    masked
}

/// Drops one pair of quotes around a text.
pub(super) fn unquote(text: &str) -> &str {
    let text = text.trim();
    for (open, close) in [('"', '"'), ('`', '`'), ('“', '”'), ('\'', '\'')] {
        let inner = text.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
        if let Some(inner) = inner {
            return inner.trim();
        }
    }
    text
}

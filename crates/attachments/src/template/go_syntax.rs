//! Recognizes what Go's templates can do and minijinja can't, and shows how minijinja says it.

use super::{context::ROOTS, engine::FILTERS};

/// The keywords that begin a control structure in Go.
const CONTROL_KEYWORDS: [&str; 10] =
    ["if", "else", "end", "range", "with", "define", "template", "block", "break", "continue"];

/// Functions of Go and Sprig whose filter is called otherwise in minijinja.
const RENAMED: [(&str, &str); 7] = [
    ("toUpper", "upper"),
    ("toLower", "lower"),
    ("toJson", "tojson"),
    ("len", "length"),
    ("urlquery", "urlencode"),
    ("toString", "string"),
    ("trimSpace", "trim"),
];

/// Functions of Go that are operators in minijinja.
const OPERATORS: [(&str, &str); 8] =
    [("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="), ("and", "and"), ("or", "or")];

pub(super) fn is_control_word(word: &str) -> bool {
    CONTROL_KEYWORDS.contains(&word)
}

/// Says how minijinja expresses a control structure.
pub(super) fn describe_control(word: &str) -> String {
    let instead = match word {
        "range" => "write {{ .input.list | join(\", \") }}, or list the items under `paths` or `urls`",
        "with" => "name the value by its path, such as {{ .input.name }}",
        "define" | "template" | "block" => "repeat the text, or put it in an input",
        _ => "write {{ a if condition else b }}, such as {{ \"draft\" if .input.draft else \"final\" }}",
    };
    format!("Go's `{word}` is not supported: {instead}")
}

/// Whether a word is a call: `upper(.x)` or, as in Go, `upper .x`. A name that is a path is neither.
pub(super) fn is_call(rest: &str, word_length: usize) -> bool {
    let (word, after) = rest.split_at(word_length);
    let is_known = ROOTS.contains(&word);
    let after_spaces = after.trim_start();
    let has_argument = after.len() > after_spaces.len()
        && after_spaces.starts_with(|c: char| matches!(c, '.' | '"' | '\'' | '$' | '(' | '0'..='9'));
    after.starts_with('(') || (!is_known && has_argument)
}

/// Says how minijinja expresses a call.
pub(super) fn describe_call(source: &str) -> String {
    match translate(source) {
        Some(translated) => format!("functions are called as filters here: write {{{{ {translated} }}}}"),
        None => "functions are called as filters here, such as {{ .input.name | default(\"x\") | upper }}".to_owned(),
    }
}

/// Rewrites a pipeline of Go.
fn translate(source: &str) -> Option<String> {
    let mut stages = split_outside_strings(source, '|').into_iter();
    let first = split_call(stages.next()?)?;
    let mut translated = match first.as_slice() {
        [] => return None,
        [term] => term.clone(),
        [function, left, right] if operator(function).is_some() => format!("{left} {} {right}", operator(function)?),
        [function, map, key] if function == "index" => format!("{map}.{}", key.trim_matches('"')),
        [function, arguments @ .., value] => format!("{value} | {}", filter(function, arguments)?),
    };
    for stage in stages {
        let words = split_call(stage)?;
        let (function, arguments) = words.split_first()?;
        translated = format!("{translated} | {}", filter(function, arguments)?);
    }
    // A translation that is what was written would help nobody.
    (translated != source).then_some(translated)
}

fn operator(function: &str) -> Option<&'static str> {
    OPERATORS.iter().find(|(name, _)| *name == function).map(|(_, operator)| *operator)
}

/// A call of the filter that does what a function of Go does; `None` if there is none.
fn filter(function: &str, arguments: &[String]) -> Option<String> {
    let name = RENAMED.iter().find(|(name, _)| *name == function).map_or(function, |(_, renamed)| *renamed);
    let call = if arguments.is_empty() { name.to_owned() } else { format!("{name}({})", arguments.join(", ")) };
    FILTERS.contains(&name).then_some(call)
}

/// The function and the arguments of a stage; `None` where brackets make it more than a list of words.
fn split_call(stage: &str) -> Option<Vec<String>> {
    if stage.contains(['(', ')', '[', ']']) {
        return None;
    }
    let words = split_outside_strings(stage.trim(), ' ');
    Some(words.into_iter().filter(|word| !word.is_empty()).map(str::to_owned).collect())
}

fn split_outside_strings(text: &str, separator: char) -> Vec<&str> {
    let mut quote = None;
    text.split(|c: char| {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '"' | '\'' | '`') => quote = Some(c),
            _ => {}
        }
        quote.is_none() && c == separator
    })
    .collect()
}

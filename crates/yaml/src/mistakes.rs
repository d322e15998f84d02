//! What is wrong with a file that can't be read, in words that say what to do.

use serde_saphyr::Error as ParserError;

use crate::YamlPosition;

/// Why a text is not readable as YAML. Never holds an excerpt of the file, which may hold secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct YamlError {
    pub position: YamlPosition,
    pub message: String,
}

/// Converts an error of the YAML parser.
pub(crate) fn describe(text: &str, error: &ParserError) -> YamlError {
    let error = error.without_snippet();
    let (line, column) = error.location().map_or((1, 1), |location| (location.line(), location.column()));
    let line_text = |number: u64| {
        usize::try_from(number).ok().and_then(|number| text.lines().nth(number.checked_sub(1)?)).unwrap_or_default()
    };
    let error_at = |line: u64, column: u64, message: &str| YamlError {
        position: YamlPosition { line: line.max(1), column: column.max(1) },
        message: message.to_owned(),
    };
    // The parser often notices a mistake only on the next line.
    for line_number in [line, line.saturating_sub(1)] {
        if let Some(column) = unquoted_template(line_text(line_number)) {
            let message = r#"quote templates: write "{{ … }}" with quotation marks around it"#;
            return error_at(line_number, column, message);
        }
        if let Some(column) = unquoted_sign(line_text(line_number)) {
            let message =
                "quote a value that begins with `*` or `@`: write \"* * * * *\" with quotation marks around it";
            return error_at(line_number, column, message);
        }
        if let Some(column) = tab_in_indentation(line_text(line_number)) {
            return error_at(line_number, column, "a tab stands in the indentation: indent with spaces");
        }
    }
    error_at(line, column, &describe_parser_error(error))
}

fn describe_parser_error(error: &ParserError) -> String {
    match error {
        ParserError::AliasError { error, .. } => describe_parser_error(error.without_snippet()),
        ParserError::DuplicateMappingKey { key: Some(key), .. } => format!("`{key}` stands here twice: remove one"),
        ParserError::DuplicateMappingKey { key: None, .. } => "a key stands here twice: remove one".to_owned(),
        ParserError::Budget { .. }
        | ParserError::AliasReplayCounterOverflow { .. }
        | ParserError::AliasReplayLimitExceeded { .. }
        | ParserError::AliasExpansionLimitExceeded { .. }
        | ParserError::AliasReplayStackDepthExceeded { .. } => {
            "the file holds too much: it is nested too deep, or its aliases (`*name`) multiply".to_owned()
        }
        ParserError::UnknownAnchor { .. } => {
            "`*` begins an alias and there is no such anchor: quote the text if a star is meant".to_owned()
        }
        ParserError::MultipleDocuments { .. } => "`---` begins a second document: one file, one document".to_owned(),
        other => format!("this is not readable as YAML: {}", first_error_line(&other.render())),
    }
}

/// The first line of the parser's message, without the position, which precedes it already.
fn first_error_line(rendered: &str) -> String {
    let line = rendered.lines().next().unwrap_or_default();
    let line = line.strip_prefix("error: ").unwrap_or(line);
    let message = line.split_once(" at line ").map_or(line, |(message, _)| message);
    message.trim_end_matches(['.', ' ']).to_owned()
}

/// The column of a `{{` that YAML parses as a mapping, because only a separator precedes it.
fn unquoted_template(line: &str) -> Option<u64> {
    let start = line.find("{{")?;
    let before = line[..start].trim_end();
    let is_unquoted = before.is_empty() || before.ends_with([':', '-', ',', '[', '{']);
    is_unquoted.then(|| line[..start].chars().count() as u64 + 1)
}

/// The column of a value that starts with a reserved character of YAML, as cron expressions do.
fn unquoted_sign(line: &str) -> Option<u64> {
    let value = line.split_once(": ")?.1.trim_start();
    let before = &line[..line.len() - value.len()];
    ["* ", "*/", "@"].iter().any(|sign| value.starts_with(sign)).then(|| before.chars().count() as u64 + 1)
}

fn tab_in_indentation(line: &str) -> Option<u64> {
    let indentation = &line[..line.len() - line.trim_start().len()];
    indentation.chars().position(|c| c == '\t').map(|index| index as u64 + 1)
}

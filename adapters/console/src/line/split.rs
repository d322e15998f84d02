//! Splits a line like a shell, and decodes file URLs.

use std::path::PathBuf;

/// Splits a line into arguments, with quotes and backslashes as in a shell. `None` if a quote is unclosed.
pub(crate) fn split_arguments(line: &str) -> Option<Vec<String>> {
    let mut arguments = Vec::new();
    let mut argument: Option<String> = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            ' ' | '\t' => arguments.extend(argument.take()),
            '\'' => {
                let word = argument.get_or_insert_default();
                loop {
                    match characters.next()? {
                        '\'' => break,
                        inner => word.push(inner),
                    }
                }
            }
            '"' => {
                let word = argument.get_or_insert_default();
                loop {
                    match characters.next()? {
                        '"' => break,
                        '\\' => match characters.next()? {
                            escaped @ ('"' | '\\' | '$' | '`') => word.push(escaped),
                            other => word.extend(['\\', other]),
                        },
                        inner => word.push(inner),
                    }
                }
            }
            '\\' => argument.get_or_insert_default().push(characters.next()?),
            other => argument.get_or_insert_default().push(other),
        }
    }
    arguments.extend(argument);
    Some(arguments)
}

/// Decodes percent escapes such as `%20`; invalid escapes stay unchanged.
pub(crate) fn percent_decode(text: &str) -> PathBuf {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escape = bytes.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        let value = escape
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(value.unwrap_or(bytes[at]));
        at += if value.is_some() { 3 } else { 1 };
    }
    PathBuf::from(String::from_utf8_lossy(&decoded).into_owned())
}

//! Parses typed lines: splits them like a shell and decodes file URLs. Pure except for the check whether a path exists.

use std::path::{Path, PathBuf};

/// The command of a typed line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineCommand {
    /// Nothing, or send the attached files.
    Empty,
    /// Send this text, also a slash command that the terminal doesn't know.
    Send(String),
    /// Attach these files to the next message.
    Attach(Vec<PathBuf>),
    /// Remove the attached files.
    Detach,
    Help,
    Quit,
    /// An invalid line, with the reason.
    Invalid(String),
}

/// Parses a line. `home` is what `~` stands for; `exists` says whether a path exists.
#[must_use]
pub fn parse_line(line: &str, home: Option<&Path>, exists: &dyn Fn(&Path) -> bool) -> LineCommand {
    let line = line.trim();
    let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match command {
        "" => LineCommand::Empty,
        "/attach" => parse_attach(rest.trim(), home, exists),
        "/detach" => LineCommand::Detach,
        "/help" if rest.is_empty() => LineCommand::Help,
        "/quit" | "/exit" if rest.is_empty() => LineCommand::Quit,
        _ => parse_dropped_paths(line, home, exists)
            .map_or_else(|| LineCommand::Send(line.to_owned()), LineCommand::Attach),
    }
}

fn parse_attach(rest: &str, home: Option<&Path>, exists: &dyn Fn(&Path) -> bool) -> LineCommand {
    if rest.is_empty() {
        return LineCommand::Invalid(
            "which file? Type /attach PATH; separate several paths by spaces, and quote paths with spaces".to_owned(),
        );
    }
    let single_path = resolve_path(rest, home);
    // A path with unquoted spaces; also the only interpretation of an unclosed quote.
    if exists(&single_path) {
        return LineCommand::Attach(vec![single_path]);
    }
    match split_arguments(rest) {
        Some(arguments) => LineCommand::Attach(arguments.iter().map(|argument| resolve_path(argument, home)).collect()),
        None => LineCommand::Attach(vec![single_path]),
    }
}

/// Returns the files of a line that consists only of paths as terminals insert them for dropped files: absolute, from
/// home, or as URLs. Relative names are text, because `notes` is more likely a word.
fn parse_dropped_paths(line: &str, home: Option<&Path>, exists: &dyn Fn(&Path) -> bool) -> Option<Vec<PathBuf>> {
    let is_path = |argument: &str| {
        argument.starts_with("~/") || argument.starts_with("file://") || looks_like_file_path(argument)
    };
    if is_path(line) && exists(&resolve_path(line, home)) {
        return Some(vec![resolve_path(line, home)]);
    }
    let arguments = split_arguments(line)?;
    let paths = arguments
        .iter()
        .map(|argument| Some(resolve_path(argument, home)).filter(|path| is_path(argument) && exists(path)));
    paths.collect::<Option<Vec<PathBuf>>>().filter(|paths| !paths.is_empty())
}

/// Whether a word is an absolute path with at least two components or with an extension: `/stop` is a command.
fn looks_like_file_path(argument: &str) -> bool {
    Path::new(argument).is_absolute()
        && (argument.trim_end_matches('/').matches('/').count() > 1 || argument.contains('.'))
}

fn resolve_path(argument: &str, home: Option<&Path>) -> PathBuf {
    if let Some(url) = argument.strip_prefix("file://") {
        let path = url.find('/').map_or(url, |at| &url[at..]);
        return percent_decode(path);
    }
    match (argument, home) {
        ("~", Some(home)) => home.to_owned(),
        (word, Some(home)) if word.starts_with("~/") => home.join(word[2..].trim_start_matches('/')),
        _ => PathBuf::from(argument),
    }
}

/// Splits a line into arguments, with quotes and backslashes as in a shell. `None` if a quote is unclosed.
fn split_arguments(line: &str) -> Option<Vec<String>> {
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
fn percent_decode(text: &str) -> PathBuf {
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

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [&str; 8] = [
        "/data/a.jpg",
        "/data/my photo.jpg",
        "/data/it's.txt",
        "/home/me/b.pdf",
        "/data/скан.pdf",
        "/tmp",
        "/data/100%.txt",
        "relative.txt",
    ];

    fn check(line: &str, expected: LineCommand) {
        let read = parse_line(line, Some(Path::new("/home/me")), &|path| FILES.iter().any(|it| Path::new(it) == path));
        assert_eq!(read, expected, "{line:?}");
    }

    fn paths(paths: &[&str]) -> LineCommand {
        LineCommand::Attach(paths.iter().map(PathBuf::from).collect())
    }

    #[test]
    fn paths_dropped_on_the_line_are_attached() {
        for (line, attached) in [
            ("/data/a.jpg", vec!["/data/a.jpg"]),
            (" /data/a.jpg ", vec!["/data/a.jpg"]),
            ("'/data/my photo.jpg' ", vec!["/data/my photo.jpg"]),
            ("\"/data/my photo.jpg\"", vec!["/data/my photo.jpg"]),
            ("/data/my\\ photo.jpg", vec!["/data/my photo.jpg"]),
            ("/data/my photo.jpg", vec!["/data/my photo.jpg"]),
            ("'/data/it'\\''s.txt'", vec!["/data/it's.txt"]),
            ("/data/it's.txt", vec!["/data/it's.txt"]),
            ("~/b.pdf", vec!["/home/me/b.pdf"]),
            ("file:///data/my%20photo.jpg", vec!["/data/my photo.jpg"]),
            ("file://localhost/data/a.jpg", vec!["/data/a.jpg"]),
            ("file:///data/%D1%81%D0%BA%D0%B0%D0%BD.pdf", vec!["/data/скан.pdf"]),
            ("file:///data/100%25.txt", vec!["/data/100%.txt"]),
            ("file:///data/100%.txt", vec!["/data/100%.txt"]),
            ("/data/a.jpg '/data/my photo.jpg' ~/b.pdf", vec!["/data/a.jpg", "/data/my photo.jpg", "/home/me/b.pdf"]),
        ] {
            check(line, paths(&attached));
        }
    }

    #[test]
    fn everything_else_is_said() {
        for line in [
            "hello",
            "see /data/a.jpg",
            "/data/gone.jpg",
            "relative.txt",
            "/tmp",
            "/stop",
            "/tool attachment.list {}",
            "/helpme",
            "/resend 17",
            "it's fine",
            "~",
            "file://",
        ] {
            check(line, LineCommand::Send(line.to_owned()));
        }
        check("  two words ", LineCommand::Send("two words".to_owned()));
    }

    #[test]
    fn commands_of_the_terminal() {
        check("", LineCommand::Empty);
        check(" \t", LineCommand::Empty);
        check("/detach", LineCommand::Detach);
        check("/help", LineCommand::Help);
        check("/quit", LineCommand::Quit);
        check("/attach relative.txt", paths(&["relative.txt"]));
        check("/attach gone.txt 'b c.txt'", paths(&["gone.txt", "b c.txt"]));
        check("/attach /data/my photo.jpg", paths(&["/data/my photo.jpg"]));
        check("/attach don't.txt", paths(&["don't.txt"]));
        check("/attach ~/b.pdf", paths(&["/home/me/b.pdf"]));
        assert!(matches!(parse_line("/attach", None, &|_| true), LineCommand::Invalid(_)));
    }
}

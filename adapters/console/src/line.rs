//! What a typed line means. Pure but for the question whether a path exists.

mod split;

use std::path::{Path, PathBuf};

use split::{percent_decoded, split_arguments};

/// What the person wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineCommand {
    /// Nothing, or: send what is attached.
    Empty,
    /// Say this; slash commands that the terminal doesn't know too.
    Send(String),
    /// Attach these files to the next message.
    Attach(Vec<PathBuf>),
    /// Drop what is attached.
    Detach,
    /// Tell what can be done.
    Help,
    Quit,
    /// Something is wrong with the line; here is what.
    Invalid(String),
}

/// Reads a line. `home` is what `~` stands for; `exists` tells whether something lies at a path.
#[must_use]
pub fn parse_line(line: &str, home: Option<&Path>, exists: &dyn Fn(&Path) -> bool) -> LineCommand {
    let line = line.trim();
    let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match command {
        "" => LineCommand::Empty,
        "/attach" => attach(rest.trim(), home, exists),
        "/detach" => LineCommand::Detach,
        "/help" if rest.is_empty() => LineCommand::Help,
        "/quit" | "/exit" if rest.is_empty() => LineCommand::Quit,
        _ => parse_dropped_paths(line, home, exists)
            .map_or_else(|| LineCommand::Send(line.to_owned()), LineCommand::Attach),
    }
}

fn attach(rest: &str, home: Option<&Path>, exists: &dyn Fn(&Path) -> bool) -> LineCommand {
    if rest.is_empty() {
        return LineCommand::Invalid(
            "which file? Type /attach PATH; separate several paths by spaces, and quote paths with spaces".to_owned(),
        );
    }
    let whole = resolve(rest, home);
    // A path with spaces that nobody quoted; also the only reading when a quote has no end.
    if exists(&whole) {
        return LineCommand::Attach(vec![whole]);
    }
    match split_arguments(rest) {
        Some(words) => LineCommand::Attach(words.iter().map(|word| resolve(word, home)).collect()),
        None => LineCommand::Attach(vec![whole]),
    }
}

/// The files of a line that is nothing but paths as terminals write them when files are dropped: from the root, from
/// home, or as URLs. Relative names stay words, since `notes` may be meant as one.
fn parse_dropped_paths(line: &str, home: Option<&Path>, exists: &dyn Fn(&Path) -> bool) -> Option<Vec<PathBuf>> {
    let is_path = |word: &str| word.starts_with("~/") || word.starts_with("file://") || looks_like_file_path(word);
    if is_path(line) && exists(&resolve(line, home)) {
        return Some(vec![resolve(line, home)]);
    }
    let words = split_arguments(line)?;
    let paths = words.iter().map(|word| Some(resolve(word, home)).filter(|path| is_path(word) && exists(path)));
    paths.collect::<Option<Vec<PathBuf>>>().filter(|paths| !paths.is_empty())
}

/// Whether a word is a path below a directory of the root, or has an extension: `/stop` and `/tmp` are commands.
fn looks_like_file_path(word: &str) -> bool {
    Path::new(word).is_absolute() && (word.trim_end_matches('/').matches('/').count() > 1 || word.contains('.'))
}

fn resolve(word: &str, home: Option<&Path>) -> PathBuf {
    if let Some(url) = word.strip_prefix("file://") {
        let path = url.find('/').map_or(url, |at| &url[at..]);
        return percent_decoded(path);
    }
    match (word, home) {
        ("~", Some(home)) => home.to_owned(),
        (word, Some(home)) if word.starts_with("~/") => home.join(word[2..].trim_start_matches('/')),
        _ => PathBuf::from(word),
    }
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

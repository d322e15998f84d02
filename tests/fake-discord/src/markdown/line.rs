//! The rules at the beginning of a line, each by the expression of its namesake.

use super::{Capture, inline::is_space};

/// `heading`: `/^ *(#{1,3})(?:\s+)((?![#]+)[^\n]+?)#*\s*(?:\n|$)/`. Its level, and where it is.
pub(super) fn heading(rest: &str) -> Option<(usize, Capture)> {
    let marks = rest.trim_start_matches(' ');
    let behind = marks.trim_start_matches('#');
    let level = marks.len() - behind.len();
    let content = behind.trim_start_matches(is_space);
    if !(1..=3).contains(&level) || behind.len() == content.len() {
        return None;
    }
    // Of several blanks, the content may take all but one.
    let blank = behind[..behind.len() - content.len()].chars().next_back().map_or(0, char::len_utf8);
    let has_spare_blank =
        behind.len() - content.len() > blank && !behind[..behind.len() - content.len()].ends_with('\n');
    let content = match content.starts_with('#') {
        true if has_spare_blank => &behind[behind.len() - content.len() - blank..],
        true => return None,
        false => content,
    };
    let start = rest.len() - content.len();
    let line = content.split('\n').next().filter(|line| !line.is_empty())?;
    let first = line.chars().next().map_or(0, char::len_utf8);
    let end = line.trim_end_matches(is_space).trim_end_matches('#').len().max(first);
    Some((level, Capture { length: line_end(rest, start + end), content: start..start + end }))
}

/// Behind `#*\s*(?:\n|$)`.
fn line_end(rest: &str, at: usize) -> usize {
    let tail = rest[at..].trim_start_matches('#');
    let blank = &tail[..tail.len() - tail.trim_start_matches(is_space).len()];
    let behind = rest.len() - tail.len();
    if blank.len() == tail.len() { rest.len() } else { behind + blank.rfind('\n').map_or(0, |newline| newline + 1) }
}

/// `subtext`: `/^ *-# +((?!(-#)+)[^\n]+?) *(?:\n|$)/`
pub(super) fn subtext(rest: &str) -> Option<Capture> {
    let behind = rest.trim_start_matches(' ').strip_prefix("-#")?;
    let content = behind.trim_start_matches(' ');
    let line = content.split('\n').next().filter(|line| !line.is_empty() && !line.starts_with("-#"))?;
    if content.len() == behind.len() {
        return None;
    }
    let start = rest.len() - content.len();
    let length = start + line.len();
    let content = start..start + line.trim_end_matches(' ').len();
    Some(Capture { length: length + usize::from(rest[length..].starts_with('\n')), content })
}

/// `codeBlock`: `/^```(?:([a-z0-9_+\-.#]+?)\n)?\n*([^\n][^]*?)\n*```/i`. Its language, and where the code is.
pub(super) fn code_block(rest: &str) -> Option<(&str, Capture)> {
    let inside = rest.strip_prefix("```")?;
    let is_language = |c: char| c.is_ascii_alphanumeric() || "_+-.#".contains(c);
    let language = inside.split('\n').next().unwrap_or_default();
    let has_language = !language.is_empty() && language.len() < inside.len() && language.chars().all(is_language);
    let with_language = has_language.then(|| code_from(rest, 3 + language.len() + 1)).flatten();
    with_language.map(|capture| (language, capture)).or_else(|| code_from(rest, 3).map(|capture| ("", capture)))
}

fn code_from(rest: &str, at: usize) -> Option<Capture> {
    let start = rest.len() - rest[at..].trim_start_matches('\n').len();
    let first = rest[start..].chars().next()?.len_utf8();
    let close = start + first + rest[start + first..].find("```")?;
    let end = rest[..close].trim_end_matches('\n').len().max(start + first);
    Some(Capture { length: close + 3, content: start..end })
}

/// `blockQuote`: `/^( *>>> +([\s\S]*))|^( *>(?!>>) +[^\n]*(\n *>(?!>>) +[^\n]*)*\n?)/`. How long it is, and what is
/// quoted.
pub(super) fn quote(rest: &str) -> Option<(usize, String)> {
    if let Some(quoted) = rest.trim_start_matches(' ').strip_prefix(">>> ") {
        return Some((rest.len(), quoted.to_owned()));
    }
    let is_quoted =
        |line: &&str| line.trim_start_matches(' ').strip_prefix('>').is_some_and(|line| line.starts_with(' '));
    let lines: Vec<&str> = rest.split_inclusive('\n').take_while(is_quoted).collect();
    let unquoted = |line: &&str| line.trim_start_matches(' ').get(2..).unwrap_or_default().to_owned();
    let content = lines.iter().map(unquoted).collect();
    (!lines.is_empty()).then(|| (lines.iter().map(|line| line.len()).sum(), content))
}

/// A list.
pub(super) struct List {
    pub(super) length: usize,
    /// Whether a line break ends it.
    pub(super) ends_line: bool,
    /// The first number, if it has numbers.
    pub(super) start: Option<usize>,
    /// What its items say, without their indentation.
    pub(super) items: Vec<String>,
}

/// The indentation of an item, and its bullet: `/^( *)([*-]|\d+\.)/`, behind which a blank has to be.
fn bullet(line: &str) -> Option<(usize, &str)> {
    let text = line.trim_start_matches(' ');
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let length = if digits > 0 { digits + 1 } else { 1 };
    let bullet = text.get(..length)?;
    let is_bullet = if digits > 0 { bullet.ends_with('.') } else { matches!(bullet, "*" | "-") };
    (is_bullet && text[length..].starts_with(' ')).then_some((line.len() - text.len(), bullet))
}

/// `list`: `/^( *)((?:[*-]|\d+\.)) [\s\S]+?(?:\n(?! )(?!\1(?:[*-]|\d+\.) )\n*|\s*\n*$)/`
pub(super) fn list(rest: &str) -> Option<List> {
    let (indent, first_bullet) = bullet(rest)?;
    let is_item = |line: &str| bullet(line).is_some_and(|(other, _)| other == indent);
    let begin = indent + first_bullet.len() + 1;
    let mut length = begin + rest[begin..].chars().next()?.len_utf8();
    loop {
        let tail = &rest[length..];
        if tail.trim_start_matches(is_space).is_empty() {
            length = rest.len();
            break;
        }
        if let Some(next) = tail.strip_prefix('\n')
            && !next.starts_with(' ')
            && !is_item(next)
        {
            length = rest.len() - next.trim_start_matches('\n').len();
            break;
        }
        length += tail.chars().next()?.len_utf8();
    }
    let mut items: Vec<Vec<&str>> = Vec::new();
    for line in rest[..length].trim_end_matches('\n').split('\n') {
        match items.last_mut() {
            Some(item) if !is_item(line) => item.push(line),
            _ => items.push(vec![line]),
        }
    }
    let start =
        first_bullet.strip_suffix('.').map(|number| number.parse().unwrap_or(usize::MAX).clamp(1, 1_000_000_000));
    Some(List {
        length,
        ends_line: rest[..length].ends_with('\n'),
        start,
        items: items.iter().map(|lines| item_content(lines)).collect(),
    })
}

/// The lines of an item without the bullet, and without as many blanks before the others as are before its text.
fn item_content(lines: &[&str]) -> String {
    let first = lines[0];
    let prefix = bullet(first).map_or(0, |(indent, bullet)| {
        let behind = &first[indent + bullet.len()..];
        first.len() - behind.trim_start_matches(' ').len()
    });
    let mut content = first[prefix..].to_owned();
    for line in &lines[1..] {
        let blanks = line.len() - line.trim_start_matches(' ').len();
        content.push('\n');
        content.push_str(&line[blanks.min(prefix)..]);
    }
    content.trim_end_matches([' ', '\n']).to_owned()
}

//! Discord's grammar, as far as a writer has to know it: what Discord makes of characters, whatever they were meant to
//! be.
//!
//! Discord tries one expression after another at each position, and the first that matches takes its piece. It knows
//! neither words nor the rules of CommonMark: `2*3*4` has an italic 3, and `a_b_` an italic b.

use std::ops::Range;

/// The spans that Discord's Markdown has, and the product writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DiscordSpan {
    Bold,
    Italic,
    Struck,
    Spoiler,
}

/// Whether Discord would read markup at the beginning of this text.
pub(super) fn begins_markup(text: &str) -> bool {
    match text.chars().next() {
        Some('*') => star_italic(text).or_else(|| escapable_pair(text, "**")).is_some(),
        Some('_') => underscore_italic(text).or_else(|| escapable_pair(text, "__")).is_some(),
        Some('~') => plain_pair(text, "~~").is_some(),
        Some('|') => plain_pair(text, "||").is_some(),
        Some('`') => begins_code(text),
        Some('[') => begins_masked_link(text),
        Some('<') => begins_angle_address(text),
        Some(':') => emoji_name(text).is_some_and(|name| name.contains('\\')),
        _ => false,
    }
}

/// Whether Discord reads this span, of `length` bytes with its marks, at the beginning of the text.
pub(super) fn is_span(span: DiscordSpan, text: &str, length: usize) -> bool {
    let is_no_longer = |other: Option<usize>| other.is_none_or(|other| other <= length);
    match span {
        // The longest wins; the marks of bold italics are the same either way.
        DiscordSpan::Bold => escapable_pair(text, "**") == Some(length) && is_no_longer(star_italic(text)),
        DiscordSpan::Italic if text.starts_with('*') => {
            star_italic(text) == Some(length) && is_no_longer(escapable_pair(text, "**"))
        }
        DiscordSpan::Italic => underscore_italic(text) == Some(length) && escapable_pair(text, "__").is_none(),
        DiscordSpan::Struck => plain_pair(text, "~~") == Some(length),
        DiscordSpan::Spoiler => plain_pair(text, "||") == Some(length),
    }
}

fn char_at(text: &str, at: usize) -> Option<char> {
    text.get(at..)?.chars().next()
}

/// Behind a character, or behind one that is escaped.
fn behind_character(text: &str, at: usize) -> Option<usize> {
    match char_at(text, at)? {
        '\\' => Some(at + 1 + char_at(text, at + 1)?.len_utf8()),
        c => Some(at + c.len_utf8()),
    }
}

/// The length of `*italic text*`. Blanks beside the marks, and single ones within, are not allowed.
fn star_italic(text: &str) -> Option<usize> {
    if !text.starts_with('*') || char_at(text, 1)?.is_whitespace() {
        return None;
    }
    let mut at = 1;
    loop {
        let begin = text.len() - text[at..].trim_start().len();
        at = match char_at(text, begin)? {
            '*' if text[begin..].starts_with("**") => begin + 2,
            '*' => return None,
            _ => behind_character(text, begin)?,
        };
        if text[at..].starts_with('*') && !text[at + 1..].starts_with('*') {
            return Some(at + 1);
        }
    }
}

/// The length of `_italic text_`. Only what follows the second mark matters, not what is before the first.
fn underscore_italic(text: &str) -> Option<usize> {
    if !text.starts_with('_') {
        return None;
    }
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut at = 1;
    loop {
        if at > 1 && text[at..].starts_with('_') && !char_at(text, at + 1).is_some_and(is_word) {
            return Some(at + 1);
        }
        at = match char_at(text, at)? {
            '_' if text[at..].starts_with("__") => at + 2,
            '_' => return None,
            _ => behind_character(text, at)?,
        };
    }
}

/// The length of bold or underlined text.
fn escapable_pair(text: &str, mark: &str) -> Option<usize> {
    if !text.starts_with(mark) {
        return None;
    }
    let mut at = mark.len();
    loop {
        at = behind_character(text, at)?;
        if text[at..].starts_with(mark) && !text[at + mark.len()..].starts_with(&mark[..1]) {
            return Some(at + mark.len());
        }
    }
}

/// The length of struck or hidden text, in which a backslash escapes nothing.
fn plain_pair(text: &str, mark: &str) -> Option<usize> {
    if !text.starts_with(mark) {
        return None;
    }
    let first = mark.len() + char_at(text, mark.len())?.len_utf8();
    let is_end = |at: &usize| mark != "~~" || !text[at + mark.len()..].starts_with('_');
    let mut ends = (first..text.len()).filter(|at| text.get(*at..).is_some_and(|tail| tail.starts_with(mark)));
    ends.find(is_end).map(|at| at + mark.len())
}

fn begins_code(text: &str) -> bool {
    let run = text.len() - text.trim_start_matches('`').len();
    let is_end = |at: usize, ticks: usize| {
        let behind = text[at..].len() - text[at..].trim_start_matches('`').len();
        at > ticks && behind == ticks && !text[..at].ends_with('`')
    };
    let closes = |ticks: usize| text.match_indices('`').any(|(at, _)| is_end(at, ticks));
    (1..=run).any(closes) || (run >= 3 && text[3..].contains("```"))
}

/// Whether `[text](address)` begins, whatever the address is: Discord shows it as it is where it doesn't link.
fn begins_masked_link(text: &str) -> bool {
    let mut at = 1;
    while let Some(c) = char_at(text, at) {
        at += match c {
            ']' if text[at..].starts_with("](") => return text[at..].contains(')'),
            ']' if text[at + 1..].find([']', '[']).is_none_or(|next| !text[at + 1 + next..].starts_with(']')) => {
                return false;
            }
            '[' => match text[at..].find(']') {
                Some(end) => end + 1,
                None => return false,
            },
            c => c.len_utf8(),
        };
    }
    false
}

/// What could be the name of an emoji at the beginning of a text. Discord shows it as it is written, with its backslashes.
fn emoji_name(text: &str) -> Option<&str> {
    let (name, _) = text.strip_prefix(':')?.split_once(':')?;
    (!name.is_empty() && !name.contains(char::is_whitespace)).then_some(name)
}

fn begins_angle_address(text: &str) -> bool {
    let inside = text[1..].split('>').next().unwrap_or_default();
    let is_address = |(scheme, path): (&str, &str)| !scheme.is_empty() && path.starts_with('/') && path.len() > 1;
    inside.len() + 1 < text.len() && !inside.contains(' ') && inside.split_once(':').is_some_and(is_address)
}

/// The length of the address at the beginning of a text that Discord makes a link.
pub(super) fn address_length(text: &str) -> Option<usize> {
    let scheme = ["https://", "http://"].into_iter().find(|scheme| text.starts_with(scheme))?.len();
    let run = text[scheme..].find(|c: char| c.is_whitespace() || c == '<').unwrap_or(text.len() - scheme);
    let path = text[scheme..scheme + run].trim_end_matches(['.', ',', ':', ';', '"', '\'', ')', ']']);
    path.chars().nth(1).is_some().then(|| scheme + path.len())
}

/// The length of a mention, an emoji or a time at the beginning of a text.
pub(super) fn mention_length(text: &str) -> Option<usize> {
    let end = text.strip_prefix('<')?.find('>')?;
    let inside = &text[1..=end];
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_id = |prefix: &str| inside.strip_prefix(prefix).is_some_and(is_number);
    let (name, id) = inside.rsplit_once(':').unwrap_or(("", inside));
    let emoji = name.strip_prefix('a').unwrap_or(name).strip_prefix(':').unwrap_or_default();
    let is_emoji = !emoji.is_empty() && emoji.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is_command = name.len() > 1 && name.starts_with('/');
    let time = inside.strip_prefix("t:").map(|time| time.trim_end_matches(|c: char| c.is_ascii_alphabetic()));
    let is_time = time.is_some_and(|time| is_number(time.trim_start_matches('-').trim_end_matches(':')));
    let is_navigation = name == "id";
    let is_mention = ["@", "@!", "@&", "#"].into_iter().any(is_id)
        || ((is_emoji || is_command) && is_number(id))
        || is_time
        || is_navigation;
    is_mention.then_some(end + 2)
}

/// Whether Discord reads a backslash before this character as one that escapes it.
pub(super) fn is_escapable(c: char) -> bool {
    !c.is_ascii_alphanumeric() && !c.is_whitespace()
}

/// Whether an emoji is in a text. Discord makes no link of `[text](address)` with one.
pub(super) fn has_emoji(text: &str) -> bool {
    const EMOJI: [Range<char>; 3] = ['\u{2600}'..'\u{27c0}', '\u{2b00}'..'\u{2c00}', '\u{1f000}'..'\u{1fb00}'];
    text.chars().any(|c| matches!(c, '\u{fe0f}' | '\u{20e3}') || EMOJI.iter().any(|range| range.contains(&c)))
}

//! The rules within a line, each by the expression of its namesake.

use super::Capture;

/// `\w`
fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// `\s`
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || c == '\u{feff}'
}

fn next(text: &str, at: usize) -> Option<char> {
    text[at..].chars().next()
}

fn capture(length: usize, content: std::ops::Range<usize>) -> Option<Capture> {
    Some(Capture { length, content })
}

/// `escape`: `/^\\([^0-9A-Za-z\s])/`
pub(super) fn escape(rest: &str) -> Option<Capture> {
    let c = rest.strip_prefix('\\')?.chars().next().filter(|c| !c.is_ascii_alphanumeric() && !is_space(*c))?;
    let length = 1 + c.len_utf8();
    capture(length, 1..length)
}

/// `autolink`: `/^<([^: >]+:\/[^ >]+)>/`
pub(super) fn autolink(rest: &str) -> Option<Capture> {
    let inside = rest.strip_prefix('<')?;
    let end = inside.find('>')?;
    let (scheme, path) = inside[..end].split_once(':')?;
    let is_address = !scheme.is_empty() && path.len() > 1 && path.starts_with('/') && !inside[..end].contains(' ');
    capture(end + 2, 1..end + 1).filter(|_| is_address)
}

/// `url`: `/^(https?:\/\/[^\s<]+[^<.,:;"')\]\s])/`
pub(super) fn url(rest: &str) -> Option<Capture> {
    let scheme = ["https://", "http://"].into_iter().find(|scheme| rest.starts_with(scheme))?.len();
    let run = rest[scheme..].find(|c| is_space(c) || c == '<').unwrap_or(rest.len() - scheme);
    let length = rest[..scheme + run].trim_end_matches(['.', ',', ':', ';', '"', '\'', ')', ']']).len();
    let is_long_enough = rest.get(scheme..length).is_some_and(|path| path.chars().nth(1).is_some());
    capture(length, 0..length).filter(|_| is_long_enough)
}

/// `link`: `LINK_INSIDE` in brackets, `LINK_HREF_AND_TITLE` in parentheses.
pub(super) fn link(rest: &str) -> Option<(Capture, &str)> {
    rest.strip_prefix('[')?;
    let (mut at, mut ends) = (1, Vec::new());
    while let Some(c) = next(rest, at) {
        if rest[at..].starts_with("](") {
            ends.push(at);
        }
        at += match c {
            '[' => match rest[at..].find(']') {
                Some(end) => end + 1,
                None => break,
            },
            // One that another follows before the next opening one.
            ']' => match rest[at + 1..].find(['[', ']']) {
                Some(other) if rest[at + 1 + other..].starts_with(']') => 1,
                _ => break,
            },
            c => c.len_utf8(),
        };
    }
    ends.into_iter().rev().find_map(|end| {
        let (length, target) = link_target(rest, end + 2)?;
        Some((Capture { length, content: 1..end }, &rest[target]))
    })
}

fn skip_spaces(text: &str, at: usize) -> usize {
    text.len() - text[at..].trim_start_matches(is_space).len()
}

/// Where a link ends, and where its address is.
fn link_target(rest: &str, at: usize) -> Option<(usize, std::ops::Range<usize>)> {
    let at = skip_spaces(rest, at);
    let start = at + usize::from(rest[at..].starts_with('<'));
    let (end, length) = link_target_from(rest, start)?;
    Some((length, start..end))
}

/// The end of the address, and of the link.
fn link_target_from(rest: &str, mut at: usize) -> Option<(usize, usize)> {
    loop {
        if let Some(length) = link_end(rest, at) {
            return Some((at, length));
        }
        at += match next(rest, at)? {
            '(' => {
                let group = rest[at..].find(')').and_then(|end| link_target_from(rest, at + end + 1));
                if group.is_some() {
                    return group;
                }
                1
            }
            '\\' => 1 + next(rest, at + 1).filter(|c| *c != '\n')?.len_utf8(),
            c if is_space(c) => return None,
            c => c.len_utf8(),
        };
    }
}

/// The end of a link behind its address: `/^>?(?:\s+['"]([\s\S]*?)['"])?\s*\)/`
fn link_end(rest: &str, at: usize) -> Option<usize> {
    let at = at + usize::from(rest[at..].starts_with('>'));
    let behind = skip_spaces(rest, at);
    if rest[behind..].starts_with(')') {
        return Some(behind + 1);
    }
    if behind == at || !rest[behind..].starts_with(['"', '\'']) {
        return None;
    }
    rest[behind + 1..].match_indices(['"', '\'']).find_map(|(quote, _)| {
        let end = skip_spaces(rest, behind + 1 + quote + 1);
        rest[end..].starts_with(')').then_some(end + 1)
    })
}

/// Whether Discord makes a masked link one (see the module's sources).
pub(super) fn is_safe_link(label: &str, address: &str) -> bool {
    let has_scheme = ["http://", "https://", "discord://"].iter().any(|scheme| address.starts_with(scheme));
    let has_address = label.match_indices("http").any(|(at, _)| url(&label[at..]).is_some());
    has_scheme && !has_address && !label.chars().any(is_emoji)
}

/// Whether a character is shown as an emoji.
fn is_emoji(c: char) -> bool {
    matches!(c, '\u{1f000}'..='\u{1faff}' | '\u{2600}'..='\u{27bf}' | '\u{2b00}'..='\u{2bff}' | '\u{fe0f}' | '\u{20e3}')
}

/// `em`: `^\b_((?:__|\\[\s\S]|[^\\_])+?)_\b`, or
/// `^\*(?=\S)((?:\*\*|\\[\s\S]|\s+(?:\\[\s\S]|[^\s\*\\]|\*\*)|[^\s\*\\])+?)\*(?!\*)`
pub(super) fn italic(rest: &str) -> Option<Capture> {
    match rest.chars().next()? {
        '_' => underscores(rest),
        '*' => stars(rest),
        _ => None,
    }
}

fn underscores(rest: &str) -> Option<Capture> {
    let mut at = 1;
    loop {
        // `\b` behind the mark, which is itself a `\w`.
        if at > 1 && rest[at..].starts_with('_') && !next(rest, at + 1).is_some_and(is_word) {
            return capture(at + 1, 1..at);
        }
        at = match next(rest, at)? {
            '_' if rest[at..].starts_with("__") => at + 2,
            '_' => return None,
            _ => unit(rest, at)?,
        };
    }
}

fn stars(rest: &str) -> Option<Capture> {
    let mut at = 1;
    next(rest, at).filter(|c| !is_space(*c))?;
    loop {
        let begin = skip_spaces(rest, at);
        at = match next(rest, begin)? {
            '*' if rest[begin..].starts_with("**") => begin + 2,
            '*' => return None,
            _ => unit(rest, begin)?,
        };
        if rest[at..].starts_with('*') && !rest[at + 1..].starts_with('*') {
            return capture(at + 1, 1..at);
        }
    }
}

/// Behind one character, or one that is escaped: `\\[\s\S]|[^\\]`
fn unit(rest: &str, at: usize) -> Option<usize> {
    match next(rest, at)? {
        '\\' => Some(at + 1 + next(rest, at + 1)?.len_utf8()),
        c => Some(at + c.len_utf8()),
    }
}

/// `strong`: `/^\*\*((?:\\[\s\S]|[^\\])+?)\*\*(?!\*)/`
pub(super) fn bold(rest: &str) -> Option<Capture> {
    pair(rest, "**")
}

/// `u`: `/^__((?:\\[\s\S]|[^\\])+?)__(?!_)/`
pub(super) fn underlined(rest: &str) -> Option<Capture> {
    pair(rest, "__")
}

fn pair(rest: &str, mark: &str) -> Option<Capture> {
    rest.strip_prefix(mark)?;
    let mut at = 2;
    loop {
        at = unit(rest, at)?;
        if rest[at..].starts_with(mark) && !rest[at + 2..].starts_with(&mark[..1]) {
            return capture(at + 2, 2..at);
        }
    }
}

/// `strike`: `/^~~([\s\S]+?)~~(?!_)/`
pub(super) fn struck(rest: &str) -> Option<Capture> {
    plain_pair(rest, "~~", Some('_'))
}

/// `spoiler`: `/^\|\|([\s\S]+?)\|\|/`
pub(super) fn spoiler(rest: &str) -> Option<Capture> {
    plain_pair(rest, "||", None)
}

/// Two marks with anything between them, of which the second isn't followed by a character.
fn plain_pair(rest: &str, mark: &str, not_before: Option<char>) -> Option<Capture> {
    rest.strip_prefix(mark)?;
    let mut at = 2 + next(rest, 2)?.len_utf8();
    loop {
        if rest[at..].starts_with(mark) && !not_before.is_some_and(|c| rest[at + 2..].starts_with(c)) {
            return capture(at + 2, 2..at);
        }
        at += next(rest, at)?.len_utf8();
    }
}

/// `inlineCode`: `/^(`+)([\s\S]*?[^`])\1(?!`)/`, less a blank beside a backtick at either end. How long it is, and the
/// code.
pub(super) fn code(rest: &str) -> Option<(usize, &str)> {
    let run = rest.len() - rest.trim_start_matches('`').len();
    // The first group takes as many backticks as it can.
    (1..=run).rev().find_map(|ticks| {
        let fence = &rest[..ticks];
        let mut ends = rest[ticks..].match_indices('`').map(|(at, _)| ticks + at);
        let is_end = |at: &usize| {
            *at > ticks
                && !rest[..*at].ends_with('`')
                && rest[*at..].starts_with(fence)
                && !rest[at + ticks..].starts_with('`')
        };
        let end = ends.find(is_end)?;
        let code = &rest[ticks..end];
        let code = code.strip_prefix(' ').filter(|code| code.trim_start_matches(' ').starts_with('`')).unwrap_or(code);
        let code = code.strip_suffix(' ').filter(|code| code.trim_end_matches(' ').ends_with('`')).unwrap_or(code);
        Some((end + ticks, code))
    })
}

/// `br`: `/^ {2,}\n/`
pub(super) fn line_break(rest: &str) -> Option<usize> {
    let blanks = rest.len() - rest.trim_start_matches(' ').len();
    (blanks >= 2 && rest[blanks..].starts_with('\n')).then_some(blanks + 1)
}

/// `mention`, `roleMention`, `channelMention`, `customEmoji`, `timestamp`, `slashCommand`, `guildNavigation`
pub(super) fn mention(rest: &str) -> Option<usize> {
    if let Some(everyone) = ["@everyone", "@here"].into_iter().find(|everyone| rest.starts_with(everyone)) {
        return Some(everyone.len());
    }
    let inside = rest.strip_prefix('<')?.split('>').next()?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_after = |prefix: &str| inside.strip_prefix(prefix).is_some_and(is_number);
    let is_emoji = || {
        let (name, id) = inside.strip_prefix('a').unwrap_or(inside).strip_prefix(':')?.split_once(':')?;
        (!name.is_empty() && name.chars().all(is_word) && is_number(id)).then_some(())
    };
    let is_time = || {
        let time = inside.strip_prefix("t:")?;
        let (time, style) = time.split_once(':').unwrap_or((time, "f"));
        let is_style = style.len() == 1 && "tTdDfFR".contains(style);
        (is_style && is_number(time.strip_prefix('-').unwrap_or(time))).then_some(())
    };
    let is_command =
        || inside.strip_prefix('/')?.rsplit_once(':').filter(|(name, id)| !name.is_empty() && is_number(id));
    let is_navigation = ["id:customize", "id:browse", "id:guide", "id:linked-roles"].contains(&inside);
    let is_mention = ["@", "@!", "@&", "#"].into_iter().any(is_after)
        || is_emoji().is_some()
        || is_time().is_some()
        || is_command().is_some()
        || is_navigation;
    let length = inside.len() + 2;
    (is_mention && rest.len() >= length).then_some(length)
}

/// `emoji`: `/^:([^\s:]+?(?:::skin-tone-\d)?):/`, which stays as it is unless it names one.
pub(super) fn shortcode(rest: &str) -> Option<Capture> {
    let inside = rest.strip_prefix(':')?;
    let end = inside.find(|c| is_space(c) || c == ':').filter(|end| *end > 0 && inside[*end..].starts_with(':'))?;
    capture(end + 2, 0..end + 2)
}

/// `emoticon`: `/^(¯\\_\(ツ\)_\/¯)/`
pub(super) fn emoticon(rest: &str) -> Option<Capture> {
    const SHRUG: &str = "¯\\_(ツ)_/¯";
    rest.starts_with(SHRUG).then(|| Capture { length: SHRUG.len(), content: 0..SHRUG.len() })
}

/// `text`: `/^[\s\S]+?(?=[^0-9A-Za-z\s\u00c0-\uffff]|\n\n| {2,}\n|\w+:\S|[0-9]+\.|$)/`
pub(super) fn text(rest: &str) -> usize {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || is_space(c) || c >= '\u{c0}';
    let mut at = rest.chars().next().map_or(0, char::len_utf8);
    while let Some(c) = next(rest, at) {
        let tail = &rest[at..];
        let behind_word = tail.trim_start_matches(is_word);
        let begins_scheme = behind_word.len() < tail.len()
            && behind_word.strip_prefix(':').is_some_and(|path| path.chars().next().is_some_and(|c| !is_space(c)));
        let behind_number = tail.trim_start_matches(|c: char| c.is_ascii_digit());
        let begins_item = behind_number.len() < tail.len() && behind_number.starts_with('.');
        if !is_plain(c) || tail.starts_with("\n\n") || line_break(tail).is_some() || begins_scheme || begins_item {
            break;
        }
        at += c.len_utf8();
    }
    at
}

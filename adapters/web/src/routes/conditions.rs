//! What a client has already, and which piece it wants: `If-None-Match`, `If-Range`, `Range` (RFC 9110).

use std::ops::Range;

use axum::http::{HeaderMap, header};

/// Whether the client has the content with this tag already.
pub(crate) fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let lines = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|line| line.to_str().ok());
    let mut tags = lines.flat_map(|line| line.split(',')).map(str::trim);
    tags.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

/// What of a file is to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    Whole,
    Piece(Range<u64>),
    /// Something that lies behind its end.
    Nothing,
}

/// Reads which piece is wanted. What can't be read, and several pieces at once, is answered with the whole.
pub(crate) fn wanted(headers: &HeaderMap, tag: &str, bytes: u64) -> Wanted {
    let mut lines = headers.get_all(header::RANGE).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else { return Wanted::Whole };
    // A piece of what has changed since would not fit to what the client has.
    if headers.get(header::IF_RANGE).is_some_and(|known| known.as_bytes() != tag.as_bytes()) {
        return Wanted::Whole;
    }
    let asked = line.to_str().ok().and_then(|line| line.split_once('='));
    match asked {
        Some((unit, asked)) if unit.trim().eq_ignore_ascii_case("bytes") => piece(asked.trim(), bytes),
        _ => Wanted::Whole,
    }
}

fn piece(asked: &str, bytes: u64) -> Wanted {
    let Some((first, last)) = asked.split_once('-') else { return Wanted::Whole };
    match (number(first), number(last)) {
        // The last so many bytes.
        (None, Some(length)) if first.is_empty() => match length.min(bytes) {
            0 => Wanted::Nothing,
            length => Wanted::Piece(bytes - length..bytes),
        },
        (Some(first), None) if last.is_empty() => from(first, u64::MAX, bytes),
        (Some(first), Some(last)) if first <= last => from(first, last, bytes),
        _ => Wanted::Whole,
    }
}

fn from(first: u64, last: u64, bytes: u64) -> Wanted {
    if first >= bytes {
        return Wanted::Nothing;
    }
    Wanted::Piece(first..last.saturating_add(1).min(bytes))
}

/// Reads a number; one that is too large for the type is as large as the type holds.
fn number(digits: &str) -> Option<u64> {
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(lines: &[(HeaderName, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn a_range_is_read_as_the_rules_say_and_nothing_overflows() {
        use Wanted::{Nothing, Piece, Whole};
        for (range, bytes, expected) in [
            ("bytes=0-99", 1000, Piece(0..100)),
            ("bytes=0-0", 1000, Piece(0..1)),
            ("bytes=999-", 1000, Piece(999..1000)),
            ("bytes=0-", 1000, Piece(0..1000)),
            ("bytes=-1", 1000, Piece(999..1000)),
            ("bytes=-5000", 1000, Piece(0..1000)),
            ("bytes=900-5000", 1000, Piece(900..1000)),
            ("Bytes = 5-6", 1000, Piece(5..7)),
            ("bytes=0-99999999999999999999999", 1000, Piece(0..1000)),
            ("bytes=0-18446744073709551615", 1000, Piece(0..1000)),
            ("bytes=-99999999999999999999999", 1000, Piece(0..1000)),
            ("bytes=99999999999999999999999-", 1000, Nothing),
            ("bytes=1000-", 1000, Nothing),
            ("bytes=1000-2000", 1000, Nothing),
            ("bytes=-0", 1000, Nothing),
            ("bytes=0-", 0, Nothing),
            ("bytes=-5", 0, Nothing),
            ("bytes=0-1,5-6", 1000, Whole),
            ("bytes=5-2", 1000, Whole),
            ("bytes=-", 1000, Whole),
            ("bytes=", 1000, Whole),
            ("bytes=a-b", 1000, Whole),
            ("bytes=+1-2", 1000, Whole),
            ("bytes=1 - 2", 1000, Whole),
            ("bytes=--1", 1000, Whole),
            ("bytes", 1000, Whole),
            ("items=0-1", 1000, Whole),
        ] {
            assert_eq!(wanted(&headers(&[(header::RANGE, range)]), "\"t\"", bytes), expected, "{range} of {bytes}");
        }
        let twice = headers(&[(header::RANGE, "bytes=0-1"), (header::RANGE, "bytes=2-3")]);
        assert_eq!(wanted(&twice, "\"t\"", 10), Whole);
    }

    #[test]
    fn a_piece_is_sent_only_of_what_the_client_has() {
        for (known, expected) in [("\"t\"", Wanted::Piece(0..2)), ("\"u\"", Wanted::Whole), ("W/\"t\"", Wanted::Whole)]
        {
            let headers = headers(&[(header::RANGE, "bytes=0-1"), (header::IF_RANGE, known)]);
            assert_eq!(wanted(&headers, "\"t\"", 10), expected, "{known}");
        }
    }

    #[test]
    fn what_is_known_is_not_sent_again() {
        for (line, known) in [
            ("\"t\"", true),
            ("W/\"t\"", true),
            ("\"a\", \"t\"", true),
            ("*", true),
            ("\"a\"", false),
            ("t", false),
            ("", false),
        ] {
            assert_eq!(is_known(&headers(&[(header::IF_NONE_MATCH, line)]), "\"t\""), known, "{line}");
        }
        assert!(!is_known(&HeaderMap::new(), "\"t\""));
    }
}

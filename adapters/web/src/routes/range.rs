//! Conditional and range requests: `If-None-Match`, `If-Range`, `Range` (RFC 9110).

use std::ops::Range;

use axum::http::{HeaderMap, header};

/// Whether the client already has the content with this tag.
pub(crate) fn is_not_modified(headers: &HeaderMap, tag: &str) -> bool {
    let lines = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|line| line.to_str().ok());
    let mut tags = lines.flat_map(|line| line.split(',')).map(str::trim);
    tags.any(|candidate| candidate == "*" || candidate.strip_prefix("W/").unwrap_or(candidate) == tag)
}

/// The requested range of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RangeRequest {
    Full,
    Partial(Range<u64>),
    /// A range beyond the end.
    Unsatisfiable,
}

/// Parses the requested range. Invalid headers and several ranges at once request the full file.
pub(crate) fn parse_range(headers: &HeaderMap, tag: &str, bytes: u64) -> RangeRequest {
    let mut lines = headers.get_all(header::RANGE).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else { return RangeRequest::Full };
    // A range of a changed file would not match the client's part.
    if headers.get(header::IF_RANGE).is_some_and(|candidate| candidate.as_bytes() != tag.as_bytes()) {
        return RangeRequest::Full;
    }
    let requested = line.to_str().ok().and_then(|line| line.split_once('='));
    match requested {
        Some((unit, range)) if unit.trim().eq_ignore_ascii_case("bytes") => parse_single_range(range.trim(), bytes),
        _ => RangeRequest::Full,
    }
}

fn parse_single_range(range: &str, bytes: u64) -> RangeRequest {
    let Some((first, last)) = range.split_once('-') else { return RangeRequest::Full };
    match (parse_number(first), parse_number(last)) {
        // A suffix range.
        (None, Some(length)) if first.is_empty() => match length.min(bytes) {
            0 => RangeRequest::Unsatisfiable,
            length => RangeRequest::Partial(bytes - length..bytes),
        },
        (Some(first), None) if last.is_empty() => clamp_range(first, u64::MAX, bytes),
        (Some(first), Some(last)) if first <= last => clamp_range(first, last, bytes),
        _ => RangeRequest::Full,
    }
}

fn clamp_range(first: u64, last: u64, bytes: u64) -> RangeRequest {
    if first >= bytes {
        return RangeRequest::Unsatisfiable;
    }
    RangeRequest::Partial(first..last.saturating_add(1).min(bytes))
}

/// Parses a number and saturates if it is too large.
fn parse_number(digits: &str) -> Option<u64> {
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
    fn range_is_parsed_by_specification_without_overflow() {
        use RangeRequest::{Full, Partial, Unsatisfiable};
        for (range, bytes, expected) in [
            ("bytes=0-99", 1000, Partial(0..100)),
            ("bytes=0-0", 1000, Partial(0..1)),
            ("bytes=999-", 1000, Partial(999..1000)),
            ("bytes=0-", 1000, Partial(0..1000)),
            ("bytes=-1", 1000, Partial(999..1000)),
            ("bytes=-5000", 1000, Partial(0..1000)),
            ("bytes=900-5000", 1000, Partial(900..1000)),
            ("Bytes = 5-6", 1000, Partial(5..7)),
            ("bytes=0-99999999999999999999999", 1000, Partial(0..1000)),
            ("bytes=0-18446744073709551615", 1000, Partial(0..1000)),
            ("bytes=-99999999999999999999999", 1000, Partial(0..1000)),
            ("bytes=99999999999999999999999-", 1000, Unsatisfiable),
            ("bytes=1000-", 1000, Unsatisfiable),
            ("bytes=1000-2000", 1000, Unsatisfiable),
            ("bytes=-0", 1000, Unsatisfiable),
            ("bytes=0-", 0, Unsatisfiable),
            ("bytes=-5", 0, Unsatisfiable),
            ("bytes=0-1,5-6", 1000, Full),
            ("bytes=5-2", 1000, Full),
            ("bytes=-", 1000, Full),
            ("bytes=", 1000, Full),
            ("bytes=a-b", 1000, Full),
            ("bytes=+1-2", 1000, Full),
            ("bytes=1 - 2", 1000, Full),
            ("bytes=--1", 1000, Full),
            ("bytes", 1000, Full),
            ("items=0-1", 1000, Full),
        ] {
            assert_eq!(
                parse_range(&headers(&[(header::RANGE, range)]), "\"t\"", bytes),
                expected,
                "{range} of {bytes}"
            );
        }
        let twice = headers(&[(header::RANGE, "bytes=0-1"), (header::RANGE, "bytes=2-3")]);
        assert_eq!(parse_range(&twice, "\"t\"", 10), Full);
    }

    #[test]
    fn range_is_sent_only_for_matching_etag() {
        for (known, expected) in
            [("\"t\"", RangeRequest::Partial(0..2)), ("\"u\"", RangeRequest::Full), ("W/\"t\"", RangeRequest::Full)]
        {
            let headers = headers(&[(header::RANGE, "bytes=0-1"), (header::IF_RANGE, known)]);
            assert_eq!(parse_range(&headers, "\"t\"", 10), expected, "{known}");
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
            assert_eq!(is_not_modified(&headers(&[(header::IF_NONE_MATCH, line)]), "\"t\""), known, "{line}");
        }
        assert!(!is_not_modified(&HeaderMap::new(), "\"t\""));
    }
}

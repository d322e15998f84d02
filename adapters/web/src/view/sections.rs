//! Divides the texts of a reply at the tools that were used between its texts. Pure.

/// Divides the texts of a reply's parts behind those of the model's texts that they have, in their order. Returns the sections
/// of each part, at least one, and for each of the model's texts how many sections of all parts stand before the calls behind
/// it.
pub(super) fn divide<'a>(texts: &[&'a str], interim: &[&str]) -> (Vec<Vec<&'a str>>, Vec<usize>) {
    let mut sections: Vec<Vec<&str>> = vec![Vec::new(); texts.len()];
    let mut rests = texts.to_vec();
    // The first part that isn't divided to its end.
    let mut first = 0;
    let mut places = Vec::with_capacity(interim.len());
    for interim in interim {
        if let Some((skipped, section, rest)) = find_text(&rests[first..], interim) {
            for (sections, rest) in sections.iter_mut().zip(rests.iter().copied()).skip(first).take(skipped) {
                close_part(sections, rest);
            }
            first += skipped;
            sections[first].push(section);
            rests[first] = rest;
        }
        places.push(sections.iter().map(Vec::len).sum());
    }
    for (sections, rest) in sections.iter_mut().zip(rests).skip(first) {
        close_part(sections, rest);
    }
    (sections, places)
}

/// Takes what remains of a part's text as its last section.
fn close_part<'a>(sections: &mut Vec<&'a str>, rest: &'a str) {
    if sections.is_empty() || !rest.trim().is_empty() {
        sections.push(rest);
    }
}

/// Finds a text in parts, in one of them or, where a reply was split, in several that follow each other. Returns how many
/// parts are before the one in which it ends, and splits that one behind it.
fn find_text<'a>(parts: &[&'a str], text: &str) -> Option<(usize, &'a str, &'a str)> {
    let mut wanted = text.trim();
    for (at, &part) in parts.iter().enumerate() {
        if let Some((section, rest)) = split_behind(part, wanted).or_else(|| split_behind(part, text)) {
            return Some((at, section, rest));
        }
        wanted = wanted.strip_prefix(part.trim()).unwrap_or(text).trim();
    }
    None
}

/// Splits a text behind another one that it has whole, between its edges or blank lines.
fn split_behind<'a>(text: &'a str, interim: &str) -> Option<(&'a str, &'a str)> {
    let interim = interim.trim();
    if interim.is_empty() {
        return None;
    }
    text.match_indices(interim).find_map(|(at, _)| {
        let before = text[..at].trim_end_matches([' ', '\t']);
        let end = closing_fence_end(text, at + interim.len());
        let gap = &text[end..text.len() - text[end..].trim_start().len()];
        let is_whole =
            (before.is_empty() || before.ends_with("\n\n")) && (end + gap.len() == text.len() || has_blank_line(gap));
        // The next section keeps its indentation.
        let next = gap.rfind('\n').map_or(end + gap.len(), |at| end + at + 1);
        if is_whole { Some((&text[..end], &text[next..])) } else { None }
    })
}

fn has_blank_line(gap: &str) -> bool {
    gap.bytes().filter(|byte| *byte == b'\n').nth(1).is_some()
}

/// The end of a text, or of the fence behind it that closes a code block which it left open.
fn closing_fence_end(text: &str, end: usize) -> usize {
    let Some(below) = text[end..].strip_prefix('\n') else { return end };
    let fence = below.lines().next().unwrap_or_default();
    let is_fence =
        fence.len() >= 3 && (fence.bytes().all(|byte| byte == b'`') || fence.bytes().all(|byte| byte == b'~'));
    if is_fence { end + 1 + fence.len() } else { end }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_divided_where_tools_were_used() {
        for (text, interim, sections, places) in [
            ("Hello.", &[][..], &["Hello."][..], &[][..]),
            ("Hello.", &[""][..], &["Hello."][..], &[0][..]),
            ("Milk.\n\nSaved.", &["Milk. ", ""][..], &["Milk.", "Saved."][..], &[1, 1][..]),
            (
                "Milk.\n\n- a\n\n    code",
                &["", "Milk.", "\n- a\n"][..],
                &["Milk.", "- a", "    code"][..],
                &[0, 1, 2][..],
            ),
            (
                "Run:\n```sh\nls\n```\n\nIt ran.",
                &["Run:\n```sh\nls"][..],
                &["Run:\n```sh\nls\n```", "It ran."][..],
                &[1][..],
            ),
            // The last text has the first one in it.
            ("Here:\n\nMilk.\n\nSaved.", &["Milk."][..], &["Here:\n\nMilk.", "Saved."][..], &[1][..]),
            // It isn't in the reply, or only as a part of another text.
            ("Milk and bread.\n\nSaved.", &["Milk", "Looking…"][..], &["Milk and bread.\n\nSaved."][..], &[0, 0][..]),
            ("Milk.", &["Milk."][..], &["Milk."][..], &[1][..]),
        ] {
            assert_eq!(divide(&[text], interim), (vec![sections.to_vec()], places.to_vec()), "{text:?} at {interim:?}");
        }
    }

    #[test]
    fn sections_are_counted_over_all_parts() {
        for (texts, interim, sections, places) in [
            (&[][..], &["Milk."][..], &[][..], &[0][..]),
            (
                &["Milk.", "Bread.\n\nSaved."][..],
                &["Milk.", "Bread."][..],
                &[&["Milk."][..], &["Bread.", "Saved."]][..],
                &[1, 2][..],
            ),
            // The first part has texts without tools behind them.
            (
                &["Milk.", "More.", "Bread.\n\nSaved."][..],
                &["", "Bread."][..],
                &[&["Milk."][..], &["More."], &["Bread.", "Saved."]][..],
                &[0, 3][..],
            ),
            // A text that isn't in the reply takes no place from the next.
            (
                &["Milk.", "Saved."][..],
                &["Looking…", "Milk.", "Gone."][..],
                &[&["Milk."][..], &["Saved."]][..],
                &[0, 1, 1][..],
            ),
            // A long text was split, where the next one begins or before.
            (
                &["Milk and", "bread.", "Saved."][..],
                &["Milk and bread."][..],
                &[&["Milk and"][..], &["bread."], &["Saved."]][..],
                &[2][..],
            ),
            (
                &["Milk\n\n- a", "- b\n\nSaved."][..],
                &["Milk", "- a\n- b"][..],
                &[&["Milk", "- a"][..], &["- b", "Saved."]][..],
                &[1, 3][..],
            ),
            // It only begins like the part.
            (
                &["Milk", "Bread.", "Milk and bread."][..],
                &["Milk and bread."][..],
                &[&["Milk"][..], &["Bread."], &["Milk and bread."]][..],
                &[3][..],
            ),
        ] {
            let expected: Vec<Vec<&str>> = sections.iter().map(|sections| sections.to_vec()).collect();
            assert_eq!(divide(texts, interim), (expected, places.to_vec()), "{texts:?} at {interim:?}");
        }
    }
}

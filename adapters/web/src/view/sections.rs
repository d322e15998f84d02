//! Divides the text of a reply at the tools that were used between its texts. Pure.

/// Divides a reply's text behind those of the model's texts that it has, in their order. Returns the sections, and for each of
/// the texts how many sections stand before the calls behind it.
pub(super) fn divide<'a>(text: &'a str, interim: &[&str]) -> (Vec<&'a str>, Vec<usize>) {
    let mut sections = Vec::new();
    let mut rest = text;
    let mut places = Vec::with_capacity(interim.len());
    for interim in interim {
        if let Some((section, after)) = split_behind(rest, interim) {
            sections.push(section);
            rest = after;
        }
        places.push(sections.len());
    }
    if !rest.trim().is_empty() {
        sections.push(rest);
    }
    (sections, places)
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
            assert_eq!(divide(text, interim), (sections.to_vec(), places.to_vec()), "{text:?} at {interim:?}");
        }
    }
}

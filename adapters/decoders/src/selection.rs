//! Which part of a document's text an answer holds: whole pages as far as they fit, and a part of the first if it doesn't.

use std::ops::RangeInclusive;

/// The text of a page, or a part of it.
#[derive(Debug, PartialEq, Eq)]
pub struct SelectedPage<'a> {
    /// Its number, from 1.
    pub number: u32,
    /// Where the text starts in that of the page, in bytes.
    pub offset: usize,
    /// How many bytes the text of the whole page has.
    pub bytes: usize,
    pub text: &'a str,
}

/// Selects the pages of these numbers, which are counted from 1, as far as they fit. `offset` is a place in the text of
/// the first, in bytes.
#[must_use]
pub fn select_pages(
    pages: &[String],
    numbers: RangeInclusive<u32>,
    offset: usize,
    max_text_bytes: usize,
) -> Vec<SelectedPage<'_>> {
    let first_index = (*numbers.start() as usize).saturating_sub(1);
    let (mut selected, mut room) = (Vec::new(), max_text_bytes);
    for (index, text) in pages.iter().enumerate().take(*numbers.end() as usize).skip(first_index) {
        let is_first = index == first_index;
        let offset = if is_first { text.ceil_char_boundary(offset.min(text.len())) } else { 0 };
        let rest = &text[offset..];
        if rest.len() > room && !is_first {
            break;
        }
        let part = &rest[..cut_position(rest, room)];
        room = room.saturating_sub(part.len());
        let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
        selected.push(SelectedPage { number, offset, bytes: text.len(), text: part });
        if part.len() < rest.len() {
            break;
        }
    }
    selected
}

/// Where a text is cut that has no room: behind the last line that fits, or else between characters.
fn cut_position(text: &str, room: usize) -> usize {
    if text.len() <= room {
        return text.len();
    }
    let end = text.floor_char_boundary(room);
    match text[..end].rfind('\n') {
        Some(line_end) => line_end + 1,
        // A reader must come on, so one character is taken in any case.
        None if end == 0 => text.chars().next().map_or(0, char::len_utf8),
        None => end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(
        pages: &[&str],
        numbers: RangeInclusive<u32>,
        offset: usize,
        max_text_bytes: usize,
    ) -> Vec<(u32, usize, String)> {
        let pages: Vec<String> = pages.iter().map(|page| (*page).to_owned()).collect();
        let selected = select_pages(&pages, numbers, offset, max_text_bytes);
        selected.into_iter().map(|page| (page.number, page.offset, page.text.to_owned())).collect()
    }

    #[test]
    fn whole_pages_are_selected_while_they_fit() {
        let pages = ["one", "", "three", "four"];
        let page = |number, text: &str| (number, 0, text.to_owned());
        assert_eq!(selected(&pages, 1..=u32::MAX, 0, 8), [page(1, "one"), page(2, ""), page(3, "three")]);
        assert_eq!(selected(&pages, 2..=u32::MAX, 0, 6), [page(2, ""), page(3, "three")]);
        assert_eq!(selected(&pages, 5..=u32::MAX, 0, 9), []);
        assert_eq!(selected(&pages, 1..=2, 0, 99), [page(1, "one"), page(2, "")]);
        assert_eq!(selected(&pages, 4..=9, 0, 99), [page(4, "four")]);
    }

    #[test]
    fn page_without_room_is_cut_behind_a_line() {
        let pages = ["first line\nsecond", "x"];
        assert_eq!(selected(&pages, 1..=u32::MAX, 0, 14), [(1, 0, "first line\n".to_owned())]);
        assert_eq!(selected(&pages, 1..=u32::MAX, 11, 7), [(1, 11, "second".to_owned()), (2, 0, "x".to_owned())]);
        assert_eq!(
            selected(&["й漢"], 1..=u32::MAX, 1, 1),
            [(1, 2, "漢".to_owned())],
            "an offset inside a character, and no room"
        );
        assert_eq!(selected(&pages, 1..=u32::MAX, 99, 9), [(1, 17, String::new()), (2, 0, "x".to_owned())]);
    }
}

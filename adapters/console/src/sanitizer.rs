//! Sanitizes text for a terminal, so that outside input can't move the cursor, change the window title or reorder
//! letters.

/// Replaces every control character except line breaks and tabs by its control picture, and drops direction overrides.
///
/// Dropping only the escape character would leave a readable `[2J`; the picture shows that something was there.
pub(crate) fn clean(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\n' | '\t' => cleaned.push(character),
            '\r' if characters.peek() == Some(&'\n') => {}
            '\0'..='\u{1f}' => cleaned.push(control_picture(character)),
            '\u{7f}' => cleaned.push('\u{2421}'),
            '\u{80}'..='\u{9f}' => cleaned.push(char::REPLACEMENT_CHARACTER),
            // Marks and joiners stay, since Arabic, Hebrew and emoji need them; overrides and isolates reorder letters.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}' => {}
            _ => cleaned.push(character),
        }
    }
    cleaned
}

/// Like [`clean`], on one line: line breaks and tabs become spaces.
pub(crate) fn clean_line(text: &str) -> String {
    clean(text).replace(['\n', '\t'], " ")
}

fn control_picture(control: char) -> char {
    char::from_u32(0x2400 + u32::from(control)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_escape_reaches_the_terminal() {
        for (attack, shown) in [
            ("\x1b[2Jgone", "␛[2Jgone"),
            ("\x1b]0;title\x07", "␛]0;title␇"),
            ("\x1b]52;c;cm0gLXJm\x07", "␛]52;c;cm0gLXJm␇"),
            ("\u{9b}31mred", "\u{fffd}31mred"),
            ("safe\rover", "safe␍over"),
            ("a\x08b\x7f", "a␈b␡"),
            ("invoice\u{202e}fdp.exe", "invoicefdp.exe"),
            ("two\r\nlines\tand a tab", "two\nlines\tand a tab"),
            ("👩‍👩‍👧 שלום", "👩‍👩‍👧 שלום"),
        ] {
            assert_eq!(clean(attack), shown, "{attack:?}");
        }
        assert_eq!(clean_line("a\nb\tc"), "a b c");
    }
}

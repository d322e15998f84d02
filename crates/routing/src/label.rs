//! The words by which a person knows that a message may have come twice.

use satchel_domain::{PartContent, part::Markup};

use crate::split::begins_a_block;

/// What stands before a text or a caption that may have arrived already.
pub const LABEL: &str = "(possible duplicate)";

/// The room that plans keep for the label and what parts it from the words, in UTF-16 units and in characters.
pub const LABEL_UNITS: usize = LABEL.len() + 2;

/// The content with the label before its text or its first caption.
///
/// A withdrawal shows nothing that could be labelled and stays as it is.
#[must_use]
pub fn labelled(content: &PartContent) -> PartContent {
    let mut content = content.clone();
    match &mut content {
        PartContent::Text { text, markup: Markup::Rich, .. }
        | PartContent::Notice { text }
        | PartContent::Question { text, .. } => {
            // A fence, list or heading is one only at the beginning of a line.
            let parted_by = if begins_a_block(text) { "\n\n" } else { " " };
            *text = format!("{LABEL}{parted_by}{text}");
        }
        PartContent::Text { text, markup: Markup::Plain, .. } => *text = format!("{LABEL} {text}"),
        PartContent::File(item) => item.caption = caption(&item.caption),
        PartContent::Album { items } => {
            if let Some(first) = items.first_mut() {
                first.caption = caption(&first.caption);
            }
        }
        PartContent::Voice { caption: under, .. } => *under = caption(under),
        PartContent::Withdraw => {}
    }
    content
}

fn caption(caption: &str) -> String {
    if caption.is_empty() { LABEL.to_owned() } else { format!("{LABEL} {caption}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_keeps_the_block_that_the_text_begins_with() {
        for (text, expected) in [
            ("hello", "(possible duplicate) hello"),
            ("```rust\nx\n```", "(possible duplicate)\n\n```rust\nx\n```"),
            ("# Title", "(possible duplicate)\n\n# Title"),
            ("- item", "(possible duplicate)\n\n- item"),
        ] {
            assert_eq!(labelled(&PartContent::of_text(text)), PartContent::of_text(expected));
            assert!(expected.len() - text.len() <= LABEL_UNITS);
        }
        let plain = |text: &str| PartContent::Text { text: text.to_owned(), markup: Markup::Plain, files: Vec::new() };
        assert_eq!(labelled(&plain("# x")), plain("(possible duplicate) # x"));
        assert_eq!(labelled(&PartContent::Withdraw), PartContent::Withdraw);
    }
}

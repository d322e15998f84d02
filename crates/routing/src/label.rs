//! The label of a message that may arrive twice.

use satchel_domain::{
    PartContent,
    capabilities::CaptionRule,
    part::{FileItem, Markup},
};

use crate::split::starts_block;

/// What stands before a text or a caption that may have arrived already.
pub(crate) const DUPLICATE_LABEL: &str = "(possible duplicate)";

/// The room that plans keep for the label and what parts it from the words, in UTF-16 units and in characters.
pub(crate) const LABEL_UNITS: usize = DUPLICATE_LABEL.len() + 2;

/// The content with the label before its text or its first caption. Where captions are alternative texts, which hardly
/// anybody sees, it stands as a text above the files.
#[must_use]
pub(crate) fn with_duplicate_label(content: &PartContent, caption_rule: CaptionRule) -> PartContent {
    let mut content = match (content.clone(), caption_rule) {
        (PartContent::File(item), CaptionRule::AltText { .. }) => return label_above_files(vec![item]),
        (PartContent::Album { items }, CaptionRule::AltText { .. }) => return label_above_files(items),
        (content, _) => content,
    };
    match &mut content {
        PartContent::Text { text, markup: Markup::Rich | Markup::Blocks, .. }
        | PartContent::Notice { text }
        | PartContent::Question { text, .. } => {
            // A fence, list or heading is one only at the beginning of a line.
            let separator = if starts_block(text) { "\n\n" } else { " " };
            *text = format!("{DUPLICATE_LABEL}{separator}{text}");
        }
        PartContent::Text { text, markup: Markup::Plain, .. } => *text = format!("{DUPLICATE_LABEL} {text}"),
        PartContent::File(item) => item.caption = labelled_caption(&item.caption),
        PartContent::Album { items } => {
            if let Some(first) = items.first_mut() {
                first.caption = labelled_caption(&first.caption);
            }
        }
        PartContent::Voice { caption: voice_caption, as_file, .. } => {
            // A voice message shows no words there; a file of sound does.
            *as_file |= matches!(caption_rule, CaptionRule::AltText { .. });
            *voice_caption = labelled_caption(voice_caption);
        }
    }
    content
}

fn label_above_files(files: Vec<FileItem>) -> PartContent {
    PartContent::Text { text: DUPLICATE_LABEL.to_owned(), markup: Markup::Rich, files }
}

fn labelled_caption(caption: &str) -> String {
    if caption.is_empty() { DUPLICATE_LABEL.to_owned() } else { format!("{DUPLICATE_LABEL} {caption}") }
}

#[cfg(test)]
mod tests {
    use satchel_domain::part::FileForm;

    use super::*;
    use crate::samples::{file, item};

    const CAPTION: CaptionRule = CaptionRule::Caption { max: 1024 };
    const ALT_TEXT: CaptionRule = CaptionRule::AltText { max: 1024 };

    #[test]
    fn label_preserves_leading_block() {
        for (text, expected) in [
            ("hello", "(possible duplicate) hello"),
            ("```rust\nx\n```", "(possible duplicate)\n\n```rust\nx\n```"),
            ("# Title", "(possible duplicate)\n\n# Title"),
            ("- item", "(possible duplicate)\n\n- item"),
        ] {
            assert_eq!(with_duplicate_label(&PartContent::from_text(text), CAPTION), PartContent::from_text(expected));
            assert!(expected.len() - text.len() <= LABEL_UNITS);
        }
        let plain = |text: &str| PartContent::Text { text: text.to_owned(), markup: Markup::Plain, files: Vec::new() };
        assert_eq!(with_duplicate_label(&plain("# x"), CAPTION), plain("(possible duplicate) # x"));
    }

    #[test]
    fn hidden_caption_puts_label_above_files() {
        let files = [1, 2].map(|n| item(file(n, "a.jpg", "image/jpeg", 9), FileForm::Document));
        let above = |files: &[_]| PartContent::Text {
            text: DUPLICATE_LABEL.to_owned(),
            markup: Markup::Rich,
            files: files.to_vec(),
        };
        let (one, both) = (PartContent::File(files[0].clone()), PartContent::Album { items: files.to_vec() });
        assert_eq!(with_duplicate_label(&one, ALT_TEXT), above(&files[..1]));
        assert_eq!(with_duplicate_label(&both, ALT_TEXT), above(&files));
        assert_eq!(with_duplicate_label(&one, CAPTION).files()[0].caption, DUPLICATE_LABEL);
        let voice = PartContent::Voice {
            text: "hello".to_owned(),
            in_text: true,
            prepared: None,
            as_file: false,
            caption: String::new(),
        };
        let label = |content| match content {
            PartContent::Voice { as_file, caption, .. } => (as_file, caption),
            other => panic!("{other:?} is no voice"),
        };
        assert_eq!(label(with_duplicate_label(&voice, ALT_TEXT)), (true, DUPLICATE_LABEL.to_owned()));
        assert_eq!(label(with_duplicate_label(&voice, CAPTION)), (false, DUPLICATE_LABEL.to_owned()));
    }
}

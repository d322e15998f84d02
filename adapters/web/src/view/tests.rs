//! Which types of files are shown in a page.

use super::*;

#[test]
fn only_harmless_types_are_displayed_inline() {
    for (mime, shown) in [
        ("image/png", Inline::Image),
        ("image/jpeg", Inline::Image),
        ("image/gif", Inline::Image),
        ("image/webp", Inline::Image),
        ("image/avif", Inline::Image),
        ("image/svg+xml", Inline::None),
        ("image/SVG+XML", Inline::None),
        ("image/x-icon", Inline::None),
        ("image/tiff", Inline::None),
        ("audio/mpeg", Inline::Audio),
        ("audio/ogg", Inline::Audio),
        ("audio/midi", Inline::None),
        ("video/mp4", Inline::Video),
        ("video/x-matroska", Inline::None),
        ("text/html", Inline::None),
        ("application/xhtml+xml", Inline::None),
        ("application/pdf", Inline::None),
        ("text/plain", Inline::None),
        ("image/png; charset=x", Inline::None),
        ("", Inline::None),
    ] {
        assert_eq!(inline_kind(mime), shown, "{mime}");
    }
}

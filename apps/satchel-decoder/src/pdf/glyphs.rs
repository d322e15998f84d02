//! Collects the glyphs of a page in the order in which they are drawn, each with its text and its place.

use hayro_interpret::{
    BlendMode, ClipPath, Device, DrawMode, DrawProps, Image, ImageDrawProps, SoftMask,
    font::{Glyph, GlyphRun},
    hayro_cmap::BfString,
};
use hayro_syntax::object::{Dict, String as PdfString};
use kurbo::{Affine, BezPath, Point};

/// The most glyphs of a page.
const MAX_GLYPHS: usize = 2_000_000;

/// The text of a glyph without any.
const UNKNOWN: &str = "\u{fffd}";

/// A glyph on the page. Lengths are in points.
pub(super) struct PageGlyph {
    /// Where it starts and ends in the direction of its line.
    pub(super) start: f64,
    pub(super) end: f64,
    /// Where its line runs, across that direction.
    pub(super) across: f64,
    /// The size of its font.
    pub(super) size: f64,
    /// The direction of its line, of length 1.
    pub(super) direction: (f64, f64),
    pub(super) text: String,
}

/// Collects glyphs; ignores everything else that is drawn.
#[derive(Default)]
pub(super) struct GlyphCollector {
    pub(super) glyphs: Vec<PageGlyph>,
    unknown: usize,
    /// For each level of marked content, whether it states its text.
    marked_levels: Vec<bool>,
    /// The stated text, until the first glyph has taken it.
    stated_text: Option<String>,
    last_run: Option<RunPosition>,
}

/// The place and length of a run: text that is filled and stroked is drawn twice.
#[derive(Clone, Copy, PartialEq)]
struct RunPosition {
    origin: Point,
    length: usize,
}

impl GlyphCollector {
    pub(super) fn is_mostly_unknown(&self) -> bool {
        self.unknown * 2 > self.glyphs.len()
    }

    fn text_of(&mut self, glyph: &Glyph<'_>) -> String {
        if self.marked_levels.contains(&true) {
            return self.stated_text.take().unwrap_or_default();
        }
        match glyph.as_unicode() {
            Some(BfString::Char(c)) => c.to_string(),
            Some(BfString::String(text)) => text,
            None => {
                self.unknown += 1;
                UNKNOWN.to_owned()
            }
        }
    }
}

impl<'a> Device<'a> for GlyphCollector {
    fn draw_path(&mut self, _: &BezPath, _: DrawProps<'a>, _: &DrawMode) {}

    fn push_clip_path(&mut self, _: &ClipPath) {}

    fn push_transparency_group(&mut self, _: f32, _: Option<SoftMask<'a>>, _: BlendMode) {}

    fn pop_clip(&mut self) {}

    fn pop_transparency_group(&mut self) {}

    fn draw_image(&mut self, _: Image<'a, '_>, _: ImageDrawProps<'a>) {}

    fn begin_marked_content(&mut self, _: &[u8], properties: Option<&Dict<'_>>) {
        let stated = properties.and_then(|properties| properties.get::<PdfString>(b"ActualText".as_ref()));
        self.marked_levels.push(stated.is_some());
        if let Some(stated) = stated {
            self.stated_text = Some(decode_pdf_string(stated.as_bytes()));
        }
    }

    fn end_marked_content(&mut self) {
        self.marked_levels.pop();
    }

    fn draw_glyph_run(&mut self, run: &GlyphRun<'_, 'a>, props: DrawProps<'a>, _: &DrawMode) {
        let Some(first) = run.glyphs().first() else { return };
        let origin = props.transform * first.transform() * Point::ZERO;
        let position = RunPosition { origin, length: run.glyphs().len() };
        if self.last_run.replace(position) == Some(position) {
            return;
        }
        for glyph in run.glyphs() {
            if self.glyphs.len() >= MAX_GLYPHS {
                return;
            }
            let text = self.text_of(glyph);
            self.glyphs.push(position_glyph(glyph, props.transform * glyph.transform(), text));
        }
    }
}

fn position_glyph(glyph: &Glyph<'_>, transform: Affine, text: String) -> PageGlyph {
    // Units of a Type 3 font are its own; of any other font a thousand are its size.
    let (advance, is_type3) = match glyph {
        Glyph::Outline(outline) => (outline.advance_width(), false),
        Glyph::Type3(shape) => (shape.advance_width(), true),
    };
    let origin = transform * Point::ZERO;
    let length = (transform * Point::new(f64::from(advance.unwrap_or(500.0)), 0.0) - origin).hypot();
    let height = (transform * Point::new(0.0, 1_000.0) - origin).hypot();
    let size = if is_type3 { length * 2.0 } else { height };
    let [x, y, ..] = transform.as_coeffs();
    let scale = x.hypot(y).max(1e-12);
    let direction = (x / scale, y / scale);
    let start = origin.x * direction.0 + origin.y * direction.1;
    PageGlyph {
        start,
        end: start + length,
        across: origin.y * direction.0 - origin.x * direction.1,
        size: size.max(0.01),
        direction,
        text,
    }
}

/// Decodes a text string: UTF-16 or UTF-8 with a mark, else Latin 1, which is near enough to PDF's own encoding.
fn decode_pdf_string(bytes: &[u8]) -> String {
    if let Some(utf16) = bytes.strip_prefix(b"\xfe\xff") {
        let units: Vec<u16> = utf16.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
        return String::from_utf16_lossy(&units);
    }
    match bytes.strip_prefix(b"\xef\xbb\xbf") {
        Some(utf8) => String::from_utf8_lossy(utf8).into_owned(),
        None => bytes.iter().map(|byte| char::from(*byte)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_strings_are_decoded() {
        assert_eq!(decode_pdf_string(b"\xfe\xff\x04\x34\x04\x30"), "да");
        assert_eq!(decode_pdf_string("\u{feff}да".as_bytes()), "да");
        assert_eq!(decode_pdf_string(b"caf\xe9"), "café");
    }
}

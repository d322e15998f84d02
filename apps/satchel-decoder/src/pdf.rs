//! PDF: a page for each page, with the text that its glyphs stand for, or as it looks.

mod glyphs;
mod lines;
mod picture;

use hayro_interpret::{Context, InterpreterCache, InterpreterSettings, interpret_page, util::TransformExt};
use hayro_syntax::{LoadPdfError, Pdf, page::Page};
use image::RgbImage;
use kurbo::Rect;

use self::glyphs::GlyphCollector;
use crate::{
    error::FileDecodeError,
    page_writer::{DecodedDocument, PageWriter},
};

/// Reads a PDF. One that needs a password for reading is protected.
pub(crate) fn read_pdf(content: Vec<u8>, max_pages: u32) -> Result<DecodedDocument, FileDecodeError> {
    let pdf = open_pdf(content)?;
    let pages = pdf.pages();
    let (cache, settings) = (InterpreterCache::new(), InterpreterSettings::default());
    let mut writer = PageWriter::new(max_pages);
    for (index, page) in pages.iter().enumerate() {
        if !writer.has_free_page() || writer.is_full() {
            writer.skip_pages(pages.len() - index);
            break;
        }
        writer.push_str(&read_page(page, &cache, &settings));
        writer.end_page();
    }
    Ok(writer.into_paged())
}

/// Draws a page, counted from 1, with a longest side of at most so many pixels.
pub(crate) fn draw_page(content: Vec<u8>, number: u32, max_side: u32) -> Result<RgbImage, FileDecodeError> {
    let pdf = open_pdf(content)?;
    let pages = pdf.pages();
    let index = (number as usize).checked_sub(1);
    let page = index
        .and_then(|index| pages.get(index))
        .ok_or_else(|| FileDecodeError::TooLarge(format!("it has {} pages, and no page {number}", pages.len())))?;
    picture::draw_page(page, max_side)
}

fn open_pdf(content: Vec<u8>) -> Result<Pdf, FileDecodeError> {
    Pdf::new(content).map_err(|error| match error {
        LoadPdfError::Decryption(_) => FileDecodeError::Protected,
        LoadPdfError::Invalid => FileDecodeError::damaged("it has no pages that can be found"),
    })
}

fn read_page<'a>(page: &'a Page<'a>, cache: &InterpreterCache<'a>, settings: &InterpreterSettings) -> String {
    let (width, height) = page.render_dimensions();
    let transform = page.initial_transform(true).to_kurbo();
    let area = Rect::new(0.0, 0.0, f64::from(width), f64::from(height));
    let mut context = Context::new(transform, area, cache, page.xref(), settings.clone());
    let mut collector = GlyphCollector::default();
    interpret_page(page, &mut context, &mut collector);
    // Text of nothing but unknown glyphs can't be read; such a page needs to be looked at, as a scanned one does.
    if collector.is_mostly_unknown() { String::new() } else { lines::lines_of(&collector.glyphs) }
}

#[cfg(test)]
mod tests {
    use satchel_decoders::protocol::MAX_TEXT_BYTES;

    use super::*;
    use crate::fixtures::{pdf, pdf_stream, pdf_with_pages};

    fn read(content: Vec<u8>) -> Vec<String> {
        read_pdf(content, 200).unwrap().pages
    }

    #[test]
    fn lines_and_words_follow_the_positions() {
        let content =
            "BT /F1 12 Tf 72 700 Td (Hello) Tj 60 0 Td (World) Tj -60 -14 Td [(sec) -10 (ond) -800 (line)] TJ ET";
        let garbled = String::from_utf8(pdf_with_pages(&[content])).unwrap().replace("0000", "1234").into_bytes();
        for bytes in [pdf_with_pages(&[content]), garbled] {
            assert_eq!(read(bytes), ["Hello World\nsecond line"]);
        }
    }

    #[test]
    fn pages_without_text_are_empty() {
        let document = read_pdf(pdf_with_pages(&["0 0 100 100 re f", "BT /F1 12 Tf (x) Tj ET", "", ""]), 3).unwrap();
        assert_eq!((document.pages, document.total_pages), (vec![String::new(), "x".to_owned(), String::new()], 4));
    }

    /// A page that isn't read must not look like one without text.
    #[test]
    fn pages_behind_the_text_limit_are_not_read() {
        let long = "x".repeat(MAX_TEXT_BYTES + 1);
        let first = format!("BT /F1 12 Tf /Span << /ActualText ({long}) >> BDC (#) Tj EMC ET");
        let document = read_pdf(pdf_with_pages(&[&first, "BT /F1 12 Tf (second) Tj ET", ""]), 9).unwrap();
        assert_eq!((document.pages.len(), document.total_pages, document.is_truncated), (1, 3, true));
    }

    #[test]
    fn stated_text_replaces_glyphs() {
        let content = "BT /F1 12 Tf /Span << /ActualText (fi) >> BDC (##) Tj EMC (sh) Tj ET";
        assert_eq!(read(pdf_with_pages(&[content])), ["fish"]);
    }

    #[test]
    fn document_with_a_password_is_protected() {
        let objects = [
            b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
            b"<< /Type /Pages /Count 0 /Kids [] >>".to_vec(),
            format!("<< /Filter /Standard /V 2 /R 3 /Length 128 /P -4 /O <{0}> /U <{0}> >>", "ab".repeat(32))
                .into_bytes(),
        ];
        let bytes = String::from_utf8(pdf(&objects)).unwrap();
        let bytes = bytes.replace("/Root 1 0 R", "/Root 1 0 R /Encrypt 3 0 R /ID [<00> <00>]");
        assert_eq!(read_pdf(bytes.into_bytes(), 1), Err(FileDecodeError::Protected));
    }

    #[test]
    fn loops_and_claims_end() {
        let looped = pdf(&[
            b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
            b"<< /Type /Pages /Count 2000000000 /Kids [3 0 R] >>".to_vec(),
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 1000000000 1000000000] /Contents 4 0 R /Resources << /XObject << /X 4 0 R >> >> >>".to_vec(),
            pdf_stream("/Type /XObject /Subtype /Form /BBox [0 0 1 1] /Resources << /XObject << /X 4 0 R >> >>", b"/X Do"),
        ]);
        assert_eq!(read(looped), [""]);
        let kids = pdf(&[
            b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
            b"<< /Type /Pages /Count 1 /Kids [2 0 R 2 0 R] >>".to_vec(),
        ]);
        assert_eq!(read(kids), Vec::<String>::new());
    }
}

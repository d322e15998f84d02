//! Draws a page of a PDF.

use hayro::{PixmapSettings, RenderCache, RenderSettings, render, vello_cpu::color::palette::css::WHITE};
use hayro_interpret::InterpreterSettings;
use hayro_syntax::page::Page;
use image::RgbImage;

use crate::error::FileDecodeError;

/// The size of a drawn pixel: 300 of them are an inch, of 72 points. Recognising text needs as many, and no more.
const MAX_SCALE: f32 = 300.0 / 72.0;

/// The longest side of a drawn page in pixels; such a page takes 144 MB.
const MAX_SIDE: u32 = 6_000;

/// Draws a page on white, with a longest side of at most so many pixels.
pub(super) fn draw_page<'a>(page: &'a Page<'a>, max_side: u32) -> Result<RgbImage, FileDecodeError> {
    let (width, height) = page.render_dimensions();
    #[expect(clippy::cast_precision_loss, reason = "sides are at most some thousand pixels")]
    let scale = (max_side.min(MAX_SIDE) as f32 / width.max(height)).min(MAX_SCALE);
    // Also where a side is no number.
    if !(width * scale >= 1.0 && height * scale >= 1.0) {
        return Err(FileDecodeError::damaged(format!("its page of {width} × {height} points can't be drawn")));
    }
    let pixmap_settings = PixmapSettings { x_scale: scale, y_scale: scale, bg_color: WHITE };
    let (cache, settings) = (RenderCache::new(), InterpreterSettings::default());
    let pixmap = render(page, &cache, &settings, &RenderSettings::default(), &pixmap_settings);
    let (width, height) = (u32::from(pixmap.width()), u32::from(pixmap.height()));
    // The page is opaque, so that the fourth channel says nothing.
    let pixels = pixmap.data_as_u8_slice().chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
    RgbImage::from_raw(width, height, pixels).ok_or_else(|| FileDecodeError::damaged("its page has no pixels"))
}

#[cfg(test)]
mod tests {
    use crate::{
        error::FileDecodeError,
        fixtures::{pdf, pdf_stream, pdf_with_pages},
        pdf::draw_page,
    };

    /// A page of the given size in points, whose lower left quarter is black.
    fn quarter_page(width: &str, height: &str) -> Vec<u8> {
        let page = format!("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {width} {height}] /Contents 4 0 R >>");
        pdf(&[
            b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
            b"<< /Type /Pages /Count 1 /Kids [3 0 R] >>".to_vec(),
            page.into_bytes(),
            pdf_stream("", b"0 0 100 50 re f"),
        ])
    }

    #[test]
    fn page_is_drawn_on_white_within_its_bounds() {
        let image = draw_page(quarter_page("200", "100"), 1, 400).unwrap();
        assert_eq!(image.dimensions(), (400, 200));
        for (x, y, expected) in [(10, 190, 0), (190, 110, 0), (10, 90, 255), (210, 190, 255), (390, 10, 255)] {
            assert_eq!(image.get_pixel(x, y).0, [expected; 3], "{x}, {y}");
        }
        // No more than 300 pixels an inch.
        assert_eq!(draw_page(quarter_page("72", "36"), 1, 5_000).unwrap().dimensions(), (300, 150));
    }

    #[test]
    fn page_that_does_not_exist_is_named() {
        let content = pdf_with_pages(&["", ""]);
        for page in [0, 3, u32::MAX] {
            let error = draw_page(content.clone(), page, 100).unwrap_err();
            assert_eq!(error, FileDecodeError::TooLarge(format!("it has 2 pages, and no page {page}")));
        }
    }

    #[test]
    fn absurd_page_is_refused_or_small() {
        for (width, height) in [("1000000000", "1"), ("0", "0"), ("-5", "1e30")] {
            if let Ok(image) = draw_page(quarter_page(width, height), 1, 1_000) {
                assert!(image.width() <= 1_000 && image.height() <= 1_000, "{width} × {height}");
            }
        }
    }
}

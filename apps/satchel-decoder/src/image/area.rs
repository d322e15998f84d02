//! Scales images down: each pixel of the result is the average of the area that it covers.
//!
//! The filters of the `image` crate need sixteen bytes for each pixel of an image that is half scaled, and let the colour
//! of transparent pixels bleed into others.

use std::borrow::Cow;

use image::{DynamicImage, GrayAlphaImage, GrayImage, RgbImage, RgbaImage};

/// The image with a longest side of at most this many pixels, and of at least 1.
pub(super) fn fit(image: &DynamicImage, max_side: u32) -> Cow<'_, DynamicImage> {
    match fitting_size((image.width(), image.height()), max_side) {
        Some((width, height)) => Cow::Owned(scale_down(image, width, height)),
        None => Cow::Borrowed(image),
    }
}

/// The same without a copy of an image that already fits.
pub(super) fn fit_owned(image: DynamicImage, max_side: u32) -> DynamicImage {
    match fitting_size((image.width(), image.height()), max_side) {
        Some((width, height)) => scale_down(&image, width, height),
        None => image,
    }
}

/// The size that keeps the proportions; `None` if the image fits as it is.
fn fitting_size((width, height): (u32, u32), max_side: u32) -> Option<(u32, u32)> {
    let (longest, max_side) = (u64::from(width.max(height)), u64::from(max_side.max(1)));
    let scaled = |side: u32| {
        let rounded = (u64::from(side) * max_side + longest / 2) / longest;
        u32::try_from(rounded.max(1)).unwrap_or(side)
    };
    (longest > max_side).then(|| (scaled(width), scaled(height)))
}

fn scale_down(image: &DynamicImage, width: u32, height: u32) -> DynamicImage {
    const FILLED: &str = "the average fills the size";
    let (from, to) = ((image.width(), image.height()), (width, height));
    match image {
        DynamicImage::ImageLuma8(pixels) => {
            GrayImage::from_raw(width, height, average::<1>(pixels, from, to)).expect(FILLED).into()
        }
        DynamicImage::ImageLumaA8(pixels) => {
            GrayAlphaImage::from_raw(width, height, average::<2>(pixels, from, to)).expect(FILLED).into()
        }
        DynamicImage::ImageRgb8(pixels) => {
            RgbImage::from_raw(width, height, average::<3>(pixels, from, to)).expect(FILLED).into()
        }
        DynamicImage::ImageRgba8(pixels) => {
            RgbaImage::from_raw(width, height, average::<4>(pixels, from, to)).expect(FILLED).into()
        }
        // No copy is made of those above: a large one would not have the memory.
        deeper => scale_down(&deeper.to_rgba8().into(), width, height),
    }
}

/// The averages of the areas under each pixel. With two or four channels, the last is alpha.
fn average<const CHANNELS: usize>(pixels: &[u8], from: (u32, u32), to: (u32, u32)) -> Vec<u8> {
    let (pixels, row_length) = (pixels.as_chunks::<CHANNELS>().0, from.0 as usize);
    let mut result = Vec::with_capacity(to.0 as usize * to.1 as usize * CHANNELS);
    for row in 0..to.1 {
        for column in 0..to.0 {
            let mut sum = AreaSum::<CHANNELS>::default();
            for (y, share_of_row) in overlaps(row, from.1, to.1) {
                for (x, share) in overlaps(column, from.0, to.0) {
                    sum.add(pixels[y * row_length + x], share_of_row * share);
                }
            }
            result.extend(sum.average());
        }
    }
    result
}

/// The pixels along one side of an image that a pixel of the scaled image covers, each with the share that is covered.
/// The unit of a share is such that they are whole numbers, and that a whole pixel has `to` of them.
fn overlaps(index: u32, from: u32, to: u32) -> impl Iterator<Item = (usize, u64)> {
    let (from, to) = (u64::from(from), u64::from(to));
    let (start, end) = (u64::from(index) * from, (u64::from(index) + 1) * from);
    (start / to..end.div_ceil(to)).map(move |pixel| {
        let share = end.min((pixel + 1) * to) - start.max(pixel * to);
        (pixel as usize, share)
    })
}

/// Pixels weighted by their shares, and colours by alpha, too: a transparent pixel has no colour that could be seen.
///
/// The shares of an area are together as many as the image has pixels, so that no sum exceeds 255 × 255 × 10^8.
struct AreaSum<const CHANNELS: usize> {
    sums: [u64; CHANNELS],
    /// The sum of the shares.
    area: u64,
}

impl<const CHANNELS: usize> Default for AreaSum<CHANNELS> {
    fn default() -> Self {
        Self { sums: [0; CHANNELS], area: 0 }
    }
}

impl<const CHANNELS: usize> AreaSum<CHANNELS> {
    const HAS_ALPHA: bool = CHANNELS.is_multiple_of(2);

    fn add(&mut self, pixel: [u8; CHANNELS], share: u64) {
        self.area += share;
        if Self::HAS_ALPHA {
            let alpha = u64::from(pixel[CHANNELS - 1]) * share;
            for (sum, color) in self.sums.iter_mut().zip(pixel).take(CHANNELS - 1) {
                *sum += u64::from(color) * alpha;
            }
            self.sums[CHANNELS - 1] += alpha;
        } else {
            for (sum, color) in self.sums.iter_mut().zip(pixel) {
                *sum += u64::from(color) * share;
            }
        }
    }

    fn average(self) -> [u8; CHANNELS] {
        let rounded = |sum: u64, weight: u64| {
            let average = (sum + weight / 2).checked_div(weight).unwrap_or_default();
            u8::try_from(average).unwrap_or(u8::MAX)
        };
        if !Self::HAS_ALPHA {
            return self.sums.map(|sum| rounded(sum, self.area));
        }
        let alpha = self.sums[CHANNELS - 1];
        let mut pixel = self.sums.map(|sum| rounded(sum, alpha));
        pixel[CHANNELS - 1] = rounded(alpha, self.area);
        pixel
    }
}

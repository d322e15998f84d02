//! Decodes the primary image of a HEIC file with heifer.

use heifer::{
    Error, Image, Options,
    heifer_hevc_dec::Error as HevcError,
    heifer_isobmff::{BoxIter, Error as ContainerError, HeifFile, RawBox, boxes::Property},
};
use image::{DynamicImage, RgbaImage, metadata::Orientation};

use crate::{
    error::FileDecodeError,
    image::{NO_PIXELS, check_size, out_of_memory},
};

/// What decoding takes for each pixel: the planes of a picture besides its RGBA, and later a second RGBA, in which it
/// is turned, or its colours are those of sRGB.
const BYTES_PER_PIXEL: u64 = 8;

/// The same for an image of tiles that is neither turned nor converted.
const BYTES_PER_TILED_PIXEL: u64 = 4;

/// How often an image may be made of another one: more often than heifer decodes.
const MAX_DERIVATIONS: usize = 8;

/// Decodes the primary image, with its colours in sRGB. What is to be turned is, unless an orientation is returned.
///
/// An EXIF orientation says what was done already, or nothing at all: in this format it must not be applied.
pub(in crate::image) fn decode_heic(
    mut content: Vec<u8>,
    pixel_bytes: u64,
) -> Result<(DynamicImage, Orientation), FileDecodeError> {
    let file = HeifFile::parse(&content).map_err(|error| decode_error(error.into()))?;
    if !is_derivation_finite(&file) {
        return Err(FileDecodeError::damaged("its images are made of each other"));
    }
    let pixels = match claimed_size(&file).map_err(decode_error)? {
        Some((0, _) | (_, 0)) => return Err(FileDecodeError::damaged(NO_PIXELS)),
        Some((width, height)) => {
            check_size(width, height)?;
            u64::from(width) * u64::from(height)
        }
        // The decoder has a limit of its own.
        None => 0,
    };
    let options = |max_pixels| Options { max_threads: 1, max_pixels };
    if pixels <= pixel_bytes / BYTES_PER_PIXEL {
        let options = options(pixel_bytes / BYTES_PER_PIXEL);
        let image = match heifer::decode_srgb_rgba8(&content, &options) {
            // Such as HDR of a video: pale is better than nothing.
            Err(Error::Unsupported(_)) => heifer::decode_rgba8(&content, &options),
            result => result,
        };
        return Ok((to_dynamic(image.map_err(decode_error)?)?, Orientation::NoTransforms));
    }
    // The 48 megapixels of a phone: turned when they are fewer, and with the colours of the file, as a JPEG has them.
    let orientation = take_rotation(&mut content).ok_or_else(out_of_memory)?;
    let image = heifer::decode_rgba8(&content, &options(pixel_bytes / BYTES_PER_TILED_PIXEL));
    Ok((to_dynamic(image.map_err(decode_error)?)?, orientation))
}

fn to_dynamic(image: Image<u8>) -> Result<DynamicImage, FileDecodeError> {
    let Image { width, height, data, .. } = image;
    match RgbaImage::from_raw(width, height, data) {
        Some(image) if width > 0 && height > 0 => Ok(image.into()),
        _ => Err(FileDecodeError::damaged(NO_PIXELS)),
    }
}

/// Whether the first images of which images are made lead to one that is made of none. Among them heifer looks for a
/// colour profile, and doesn't notice when it goes round in circles.
fn is_derivation_finite(file: &HeifFile<'_>) -> bool {
    let first_part = |id: &u32| file.referenced_items(*id, b"dimg").first().copied();
    std::iter::successors(Some(file.primary_id), first_part).nth(MAX_DERIVATIONS).is_none()
}

/// The size that the container claims for the primary image, if it does.
fn claimed_size(file: &HeifFile<'_>) -> Result<Option<(u32, u32)>, Error> {
    let id = file.primary_id;
    match file.grid(id) {
        Ok(grid) => Ok(Some((grid.output_width, grid.output_height))),
        Err(_) => Ok(file.image_size(id)?),
    }
}

/// Returns how a primary image of tiles is to be turned, and takes the rotation out of the file. `None` if it isn't
/// that simple.
fn take_rotation(content: &mut [u8]) -> Option<Orientation> {
    let file = HeifFile::parse(content).ok()?;
    let id = file.primary_id;
    file.grid(id).ok()?;
    let is_transform = |property: &Property| {
        matches!(property, Property::Rotation(_) | Property::Mirror(_) | Property::CleanAperture { .. })
    };
    let property = |index: u16| file.properties.get(usize::from(index).checked_sub(1)?);
    let indices = file.item(id).ok()?.properties.iter().map(|association| association.index);
    let transforms: Vec<u16> = indices.filter(|index| property(*index).is_some_and(is_transform)).collect();
    let (index, quarters) = match *transforms {
        [] => return Some(Orientation::NoTransforms),
        [index] => match property(index)? {
            Property::Rotation(quarters) => (index, *quarters),
            _ => return None,
        },
        _ => return None,
    };
    let is_of_tile = |tile: &u32| {
        file.item(*tile).is_ok_and(|tile| tile.properties.iter().any(|association| association.index == index))
    };
    if file.referenced_items(id, b"dimg").iter().any(is_of_tile) {
        return None;
    }
    *content.get_mut(property_offset(content, index)?)? = 0;
    // The file counts the quarters against the clock.
    Some(match quarters {
        1 => Orientation::Rotate270,
        2 => Orientation::Rotate180,
        3 => Orientation::Rotate90,
        _ => Orientation::NoTransforms,
    })
}

/// Where the content of a property is, counted from 1.
fn property_offset(content: &[u8], index: u16) -> Option<usize> {
    let last = |bytes, name: &[u8; 4]| {
        let is_named = |found: &RawBox<'_>| found.header.box_type.0 == *name;
        BoxIter::new(bytes).filter_map(Result::ok).filter(is_named).last()
    };
    let properties = last(last(last(content, b"meta")?.content.get(4..)?, b"iprp")?.content, b"ipco")?;
    let property = BoxIter::new(properties.content).nth(usize::from(index).checked_sub(1)?)?.ok()?;
    property.content.as_ptr().addr().checked_sub(content.as_ptr().addr())
}

fn decode_error(error: Error) -> FileDecodeError {
    match error {
        // What exceeds the limit of the options.
        Error::Invalid("image size is zero or too large" | "grid tile has an invalid size")
        | Error::Hevc(HevcError::Unimplemented("picture larger than the configured size limit")) => out_of_memory(),
        Error::Unsupported(_)
        | Error::Hevc(HevcError::Unimplemented(_))
        | Error::Container(ContainerError::Unimplemented(_)) => {
            FileDecodeError::Unsupported(format!("it can't be decoded: {error}"))
        }
        error => FileDecodeError::damaged(error),
    }
}

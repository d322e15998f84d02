//! What providers find wrong with the bytes of a file: they are of another type, or end in the middle.

/// Why a file can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileFault {
    /// Its bytes aren't what its type says.
    OtherType,
    /// It ends in the middle of its pixels.
    CutOff,
}

/// Checks the first bytes of a file, and whether an image is whole. Bytes behind an image's end, and an image that
/// never comes to its pixels, are accepted.
pub(crate) fn check_content(mime: &str, bytes: &[u8]) -> Result<(), FileFault> {
    let begin: &[u8] = match mime {
        "image/png" => b"\x89PNG",
        "image/jpeg" => b"\xff\xd8",
        "image/gif" => b"GIF8",
        "image/webp" | "audio/wav" => b"RIFF",
        "application/pdf" => b"%PDF-",
        "audio/ogg" => b"OggS",
        "audio/flac" => b"fLaC",
        _ => b"",
    };
    let is_cut_off = match mime {
        "image/png" => is_png_cut_off(bytes),
        "image/jpeg" => is_jpeg_cut_off(bytes),
        _ => false,
    };
    match bytes.starts_with(begin) {
        false => Err(FileFault::OtherType),
        true if is_cut_off => Err(FileFault::CutOff),
        true => Ok(()),
    }
}

/// Whether a chunk of pixels is shorter than it says: <https://www.w3.org/TR/png-3/#5Chunk-layout>.
fn is_png_cut_off(bytes: &[u8]) -> bool {
    let mut rest = bytes.get(8..).unwrap_or_default();
    while let Some((length, behind)) = rest.split_first_chunk::<4>()
        && let Some(kind) = behind.get(..4)
    {
        // Length, kind and checksum are four bytes each.
        let end = u64::from(u32::from_be_bytes(*length)) + 12;
        let next = usize::try_from(end).ok().and_then(|end| rest.get(end..));
        match next {
            Some(next) => rest = next,
            None => return kind == b"IDAT",
        }
    }
    false
}

/// Whether the end is missing behind the pixels: <https://www.w3.org/Graphics/JPEG/itu-t81.pdf>, B.1.1.
fn is_jpeg_cut_off(bytes: &[u8]) -> bool {
    let mut rest = bytes.get(2..).unwrap_or_default();
    while let [0xff, marker, high, low, ..] = rest {
        if *marker == 0xda {
            return !rest.windows(2).any(|two| two == [0xff, 0xd9]);
        }
        let length = usize::from(u16::from_be_bytes([*high, *low])) + 2;
        rest = rest.get(length..).unwrap_or_default();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image of one pixel, whole.
    const PNG: &[u8] =
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde\0\0\0\x0cIDATx\x9cc\xf8\xcf\
        \xc0\0\0\x03\x01\x01\0\xc9\xfe\x92\xef\0\0\0\0IEND\xaeB`\x82";
    const JPEG: &[u8] = b"\xff\xd8\xff\xe0\0\x04ab\xff\xda\0\x04cd\x12\x34\xff\xd9";

    #[test]
    fn cut_images_are_found() {
        for (mime, whole, pixels) in [("image/png", PNG, 50), ("image/jpeg", JPEG, 15)] {
            assert_eq!(check_content(mime, whole), Ok(()), "{mime}");
            assert_eq!(check_content(mime, &[whole, b"and more"].concat()), Ok(()), "{mime}");
            assert_eq!(check_content(mime, &whole[..pixels]), Err(FileFault::CutOff), "{mime}");
            assert_eq!(check_content(mime, b"chart data"), Err(FileFault::OtherType), "{mime}");
        }
        assert_eq!(check_content("image/png", &PNG[..33]), Ok(()), "it has no pixels at all");
        assert_eq!(check_content("application/pdf", b"<html>"), Err(FileFault::OtherType));
    }
}

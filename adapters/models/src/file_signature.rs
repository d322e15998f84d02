//! The first bytes of the files that models accept, compared with the type that a file claims. Pure.
//!
//! A provider refuses a whole request for one file whose bytes aren't what its type says.

/// How many bytes of a file are compared: a PDF may begin that far behind other bytes.
pub(crate) const HEAD_BYTES: usize = 1024;

/// What MP4 and QuickTime files begin with, after four bytes of a length.
const MP4_BOXES: [&[u8]; 6] = [b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip"];

/// Whether a file of this type may begin with these bytes. A type that no model accepts fits any bytes.
pub(crate) fn fits_type(mime: &str, head: &[u8]) -> bool {
    let has = |offset: usize, bytes: &[u8]| head.get(offset..).is_some_and(|rest| rest.starts_with(bytes));
    match mime {
        "image/png" => has(0, b"\x89PNG\r\n\x1a\n"),
        "image/jpeg" => has(0, b"\xff\xd8\xff"),
        "image/gif" => has(0, b"GIF87a") || has(0, b"GIF89a"),
        "image/webp" => has(0, b"RIFF") && has(8, b"WEBP"),
        "image/heic" | "image/heif" => has(4, b"ftyp"),
        "application/pdf" => head.windows(5).any(|bytes| bytes == b"%PDF-"),
        "audio/wav" => (has(0, b"RIFF") || has(0, b"RF64")) && has(8, b"WAVE"),
        "audio/mpeg" | "audio/mp3" => has(0, b"ID3") || has_mpeg_frame(head),
        "audio/aac" => has(0, b"ID3") || has(0, b"ADIF") || has(4, b"ftyp") || has_mpeg_frame(head),
        "audio/ogg" => has(0, b"OggS"),
        "audio/flac" => has(0, b"fLaC") || has(0, b"ID3"),
        "audio/aiff" => has(0, b"FORM") && (has(8, b"AIFF") || has(8, b"AIFC")),
        "video/mp4" | "video/quicktime" => MP4_BOXES.iter().any(|&name| has(4, name)),
        "video/webm" => has(0, b"\x1a\x45\xdf\xa3"),
        _ => true,
    }
}

/// Whether a frame of MPEG sound begins here, or after zeros, which some programs write before the first one.
fn has_mpeg_frame(head: &[u8]) -> bool {
    let zeros = head.iter().take_while(|byte| **byte == 0).count();
    matches!(&head[zeros..], [0xff, second, ..] if second & 0xe0 == 0xe0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first bytes of real files, one a type.
    const HEADS: [(&str, &[u8]); 18] = [
        ("image/png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
        ("image/jpeg", b"\xff\xd8\xff\xe1\0\x18Exif"),
        ("image/gif", b"GIF89a\x01\0"),
        ("image/webp", b"RIFF\x24\0\0\0WEBPVP8 "),
        ("image/heic", b"\0\0\0\x18ftypheic"),
        ("image/heif", b"\0\0\0\x18ftypmif1"),
        ("application/pdf", b"\xef\xbb\xbf%PDF-1.7\n"),
        ("audio/wav", b"RIFF\x24\0\0\0WAVEfmt "),
        ("audio/mpeg", b"\xff\xfb\x90\x64"),
        ("audio/mp3", b"ID3\x04\0"),
        ("audio/mpeg", b"\0\0\0\xff\xf3\x40"),
        ("audio/aac", b"\xff\xf1\x50\x80"),
        ("audio/ogg", b"OggS\0\x02"),
        ("audio/flac", b"fLaC\0\0\0\x22"),
        ("audio/aiff", b"FORM\0\0\0\x2eAIFCFVER"),
        ("video/mp4", b"\0\0\0\x18ftypmp42"),
        ("video/quicktime", b"\0\0\0\x08wide\0\0"),
        ("video/webm", b"\x1a\x45\xdf\xa3\x9f\x42"),
    ];

    #[test]
    fn real_files_fit_their_types_and_other_bytes_do_not() {
        for (mime, head) in HEADS {
            assert!(fits_type(mime, head), "{mime}");
            let other: &[&[u8]] = &[b"", b"chart data", b"<!DOCTYPE html><html>", b"PK\x03\x04\x14\0", &[0; 64]];
            for bytes in other {
                assert!(!fits_type(mime, bytes), "{mime}: {bytes:?}");
            }
        }
        assert!(!fits_type("image/png", b"\x89PNG\n\x1a\n\0\0\0\rIHDR"), "its line breaks were converted");
        assert!(!fits_type("image/png", HEADS[1].1) && !fits_type("image/webp", HEADS[7].1));
        assert!(fits_type("text/plain", b"") && fits_type("application/zip", b"x"), "no model is sent these");
    }
}

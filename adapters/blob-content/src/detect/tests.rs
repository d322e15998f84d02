//! Headers of real files, and what they are.

use std::io::Cursor;

use satchel_domain::Filename;

use super::*;

fn hint(name: &str, claimed: &str) -> BlobHint {
    BlobHint {
        filename: (!name.is_empty()).then(|| Filename::from_untrusted(name)),
        mime: (!claimed.is_empty()).then(|| claimed.to_owned()),
        bytes: None,
    }
}

fn riff(kind: &[u8], chunk: &[u8]) -> Vec<u8> {
    [b"RIFF\x40\0\0\0", kind, chunk, &[0; 32]].concat()
}

fn container(brand: &[u8]) -> Vec<u8> {
    [b"\0\0\0\x18ftyp".as_slice(), brand, &[0; 4], brand, b"mp41", &[0; 32]].concat()
}

fn ogg(codec: &[u8]) -> Vec<u8> {
    [b"OggS\0\x02".as_slice(), &[0; 20], b"\x01\x13", codec, &[0; 16]].concat()
}

fn zip(names: &[&str]) -> Vec<u8> {
    let entry = |name: &&str| {
        let length = u16::try_from(name.len()).unwrap().to_le_bytes();
        [b"PK\x03\x04\x14\0\0\0\0\0".as_slice(), &[0; 16], &length, &[0; 2], name.as_bytes()].concat()
    };
    names.iter().flat_map(entry).collect()
}

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x03\0\0\0\x02\x08\x02\0\0\0\0\0\0\0";
const OLE: &[u8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0\0\0\0\0\0\0\0";
const DOCX: &str = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";
const XLSX: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";

#[test]
fn binary_formats_are_told_by_their_bytes() {
    let cases: &[(&[u8], &str)] = &[
        (PNG, "image/png"),
        (&[PNG, b"\0\0\0\x08acTL\0\0\0\x01\0\0\0\0\0\0\0\0"].concat(), "image/apng"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0", "image/jpeg"),
        (b"GIF89a\x03\0\x02\0\0\0\0;", "image/gif"),
        (&riff(b"WEBP", b"VP8X\x0a\0\0\0\0\0\0\0"), "image/webp"),
        (&riff(b"WAVE", b"fmt \x10\0\0\0"), "audio/wav"),
        (&riff(b"AVI ", b"LIST"), "video/x-msvideo"),
        (b"II*\0\x08\0\0\0\0\0", "image/tiff"),
        (b"\0\0\x01\0\x01\0\x10\x10\0\0\x01\0\x20\0\0\0\0\0\x16\0\0\0", "image/x-icon"),
        (&container(b"heic"), "image/heic"),
        (&container(b"avif"), "image/avif"),
        (&container(b"isom"), "video/mp4"),
        (&container(b"M4A "), "audio/mp4"),
        (&container(b"qt  "), "video/quicktime"),
        (&ogg(b"OpusHead\x01\x01"), "audio/ogg"),
        (&ogg(b"\x01vorbis\0"), "audio/ogg"),
        (b"ID3\x03\0\0\0\0\0\0\xff\xfb\x90\0", "audio/mpeg"),
        (b"\xff\xfb\x90\x64\0\0\0\0", "audio/mpeg"),
        (b"fLaC\0\0\0\x22\0\0", "audio/flac"),
        (
            b"\x1a\x45\xdf\xa3\x9f\x42\x86\x81\x01\x42\xf7\x81\x01\x42\xf2\x81\x04\x42\xf3\x81\x08\x42\x82\x84webm",
            "video/webm",
        ),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "application/pdf"),
        (&zip(&["a.txt"]), "application/zip"),
        (&zip(&["[Content_Types].xml", "_rels/.rels", "word/document.xml"]), DOCX),
        (&zip(&["docProps/app.xml", "docProps/core.xml", "_rels/.rels", "xl/theme/theme1.xml"]), XLSX),
        (b"\x1f\x8b\x08\0\0\0\0\0\0\x03", "application/gzip"),
        (b"MZ\x90\0\x03\0\0\0\x04\0\0\0\xff\xff\0\0", "application/vnd.microsoft.portable-executable"),
        (b"SQLite format 3\0\x10\0\x01\x01", "application/vnd.sqlite3"),
        (b"\x80\x01\x92\0\x03\x09\xff\x07", "application/octet-stream"),
        (b"caf\xe9 au lait", "application/octet-stream"),
    ];
    for (bytes, expected) in cases {
        // The same with a name and a claim that lie.
        for hint in [hint("", ""), hint("letter.txt", "text/plain"), hint("photo.jpg", "image/jpeg")] {
            assert_eq!(detect_mime(bytes, &hint), *expected, "{:?} {hint:?}", bytes.escape_ascii().to_string());
        }
    }
}

#[test]
fn text_type_follows_bytes_then_name_then_claim() {
    for (text, name, claimed, expected) in [
        ("привет мир", "", "", "text/plain"),
        ("a,b\n1,2\n", "", "", "text/plain"),
        ("a,b\n1,2\n", "table.CSV", "", "text/csv"),
        ("a,b\n1,2\n", "", "text/csv; charset=utf-8", "text/csv"),
        ("# Title\n", "README.md", "text/plain", "text/markdown"),
        ("<p align=center>\n# Title", "README.md", "", "text/markdown"),
        ("{\"a\": 1}", "", "", "application/json"),
        ("{\"a\": 1}", "x.json", "text/plain", "application/json"),
        ("a: 1\n", "x.yml", "", "application/yaml"),
        ("<!DOCTYPE html><html>", "", "", "text/html"),
        ("<?xml version=\"1.0\"?><a/>", "", "", "text/xml"),
        ("<svg xmlns=\"http://www.w3.org/2000/svg\"/>", "", "", "image/svg+xml"),
        ("\u{FEFF} <!-- made by hand -->\n<svg width='3'/>", "pic.png", "image/png", "image/svg+xml"),
        ("<?xml version=\"1.0\"?><!DOCTYPE svg><svg/>", "pic.svg", "image/svg+xml", "image/svg+xml"),
        ("<svgx/>", "", "", "text/plain"),
        ("use the spoon;\nfn", "", "", "text/plain"),
        ("BMW is a car", "photo.bmp", "image/bmp", "text/plain"),
        ("MZ was here", "setup.exe", "application/x-msdownload", "text/plain"),
        ("just text", "virus.exe", "application/pdf", "text/plain"),
        ("%PDF-1.4 with nothing but ASCII", "a.txt", "text/plain", "application/pdf"),
        ("{\\rtf1\\ansi}", "", "", "application/rtf"),
        ("\u{1b}[31mred\u{1b}[0m", "", "", "text/plain"),
    ] {
        assert_eq!(detect_mime(text.as_bytes(), &hint(name, claimed)), expected, "{text:?} {name:?} {claimed:?}");
    }
}

#[test]
fn character_cut_at_head_end_is_text() {
    let text = "ё".repeat(100);
    assert_eq!(detect_mime(&text.as_bytes()[..151], &hint("a.csv", "")), "text/csv");
    assert_eq!(detect_mime(b"nul\0", &hint("a.csv", "")), "application/octet-stream");
}

#[test]
fn empty_file_takes_type_from_text_name() {
    for (name, claimed, expected) in [
        ("", "", "application/octet-stream"),
        ("note.txt", "", "text/plain"),
        ("", "text/csv", "text/csv"),
        ("photo.jpg", "image/jpeg", "application/octet-stream"),
    ] {
        assert_eq!(detect_mime(b"", &hint(name, claimed)), expected, "{name:?} {claimed:?}");
    }
}

#[test]
fn ole_container_type_comes_from_extension() {
    for (name, expected) in [
        ("a.doc", "application/msword"),
        ("a.XLS", "application/vnd.ms-excel"),
        ("a.ppt", "application/vnd.ms-powerpoint"),
        ("a.pdf", "application/x-ole-storage"),
    ] {
        assert_eq!(detect_mime(OLE, &hint(name, "")), expected, "{name}");
    }
}

/// One GIF frame of 1 × 1 pixel.
const FRAME: &[u8] = b"\x2c\0\0\0\0\x01\0\x01\0\0\x02\x02\x44\x01\0";

#[test]
fn images_tell_their_size_and_whether_they_move() {
    let gif = |frames: usize| {
        [
            b"GIF89a\x03\0\x02\0\x80\0\0\0\0\0\xff\xff\xff\x21\xf9\x04\0\0\0\0\0".to_vec(),
            FRAME.repeat(frames),
            b";".to_vec(),
        ]
        .concat()
    };
    let webp = |flags: u8| {
        let header = [0x0a, 0, 0, 0, flags, 0, 0, 0, 0x8f, 1, 0, 0x2b, 1, 0];
        riff(b"WEBP", &[b"VP8X".as_slice(), &header].concat())
    };
    let jpeg = b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0\xff\xc0\0\x11\x08\0\x02\0\x03\x03\x01\x22\0\x02\x11\x01\x03\x11\x01";
    for (bytes, kind, size, animated) in [
        (PNG.to_vec(), "image/png", Some((3, 2)), false),
        (PNG.to_vec(), "image/apng", Some((3, 2)), true),
        (jpeg.to_vec(), "image/jpeg", Some((3, 2)), false),
        (gif(1), "image/gif", Some((3, 2)), false),
        (gif(2), "image/gif", Some((3, 2)), true),
        (webp(0x02), "image/webp", Some((400, 300)), true),
        (webp(0x10), "image/webp", Some((400, 300)), false),
        (b"GIF89a\x03".to_vec(), "image/gif", None, false),
        (vec![], "image/png", None, false),
        (vec![0xff; 100], "image/jpeg", None, false),
        (gif(2), "text/plain", None, false),
    ] {
        let media = detect_media(kind, Cursor::new(&bytes));
        assert_eq!(media.width.zip(media.height), size, "{kind} {bytes:?}");
        assert_eq!(media.animated, animated, "{kind} {bytes:?}");
    }
}

/// A file that remembers how far it was read.
struct Watched<'a> {
    content: Cursor<&'a [u8]>,
    furthest: &'a mut u64,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.content.read(buffer)?;
        if length > 0 {
            *self.furthest = (*self.furthest).max(self.content.position());
        }
        Ok(length)
    }
}

impl Seek for Watched<'_> {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        self.content.seek(to)
    }
}

#[test]
fn media_header_is_limited_to_4_mib() {
    // Segments of a kind that every reader skips; then the size.
    let segment = [b"\xff\xe1\xff\xff".as_slice(), &[0; 0xfffd]].concat();
    let jpeg = |segments: usize| {
        let size = b"\xff\xc0\0\x11\x08\0\x02\0\x03\x03\x01\x22\0\x02\x11\x01\x03\x11\x01";
        [b"\xff\xd8".as_slice(), &segment.repeat(segments), size, &[0; 1_000]].concat()
    };
    // Comments that never end in a picture; it loops or doesn't.
    let comments = [b"\x21\xfe".as_slice(), &[&[0xff][..], &[b'x'; 0xff]].concat().repeat(20_000)].concat();
    let gif = |extension: &[u8]| [b"GIF89a\x03\0\x02\0\0\0\0", extension, &comments, b"\0", &FRAME.repeat(2)].concat();
    for (bytes, kind, size, animated) in [
        (jpeg(60), "image/jpeg", Some((3, 2)), false),
        (jpeg(70), "image/jpeg", None, false),
        (gif(b""), "image/gif", Some((3, 2)), false),
        (gif(b"\x21\xff\x0bNETSCAPE2.0\x03\x01\0\0\0"), "image/gif", Some((3, 2)), true),
    ] {
        let mut furthest = 0;
        let media = detect_media(kind, Watched { content: Cursor::new(&bytes), furthest: &mut furthest });
        assert!(furthest <= HEADER_BYTES && furthest > 0, "{furthest} bytes of {} were read", bytes.len());
        assert_eq!((media.width.zip(media.height), media.animated), (size, animated), "{kind} of {}", bytes.len());
    }
}

proptest::proptest! {
    #[test]
    fn any_bytes_have_a_type(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200), start in 0_usize..8) {
        let start: &[u8] = [b"".as_slice(), PNG, b"GIF89a", b"RIFF", b"PK\x03\x04", b"\xff\xd8\xff", OLE, b"II*\0"][start];
        let bytes = [start, &bytes].concat();
        let kind = detect_mime(&bytes, &hint("", ""));
        proptest::prop_assert!(kind.contains('/') && !kind.contains(';'), "{}", kind);
        let _ = detect_media(&kind, Cursor::new(&bytes));
    }
}

//! Chooses who reads a document: by its bytes, and by its detected type where bytes can't tell.

use image::RgbImage;
use satchel_decoders::document_head::{OLE_MAGIC, PDF_HEAD_BYTES, RTF_MAGIC, ZIP_MAGIC, no_text_reason};

use crate::{
    charset, ebook,
    error::FileDecodeError,
    html, mail, office_xml, open_document,
    package::Package,
    page_writer::{DecodedDocument, PageWriter},
    pdf, rich_text, slides, workbook,
};

/// Reads the text of a document.
pub(crate) fn read_document(content: Vec<u8>, mime: &str, max_pages: u32) -> Result<DecodedDocument, FileDecodeError> {
    if is_pdf(&content, mime) {
        return pdf::read_pdf(content, max_pages);
    }
    let bytes = content.as_slice();
    if bytes.starts_with(ZIP_MAGIC) {
        return read_package(bytes, max_pages);
    }
    if bytes.starts_with(OLE_MAGIC) {
        return read_container(bytes, max_pages);
    }
    if bytes.starts_with(RTF_MAGIC) {
        return rich_text::read_rich_text(bytes, max_pages);
    }
    match mime {
        "text/html" | "application/xhtml+xml" => Ok(html::read_html(bytes, max_pages)),
        "message/rfc822" => mail::read_mail(bytes, max_pages),
        _ if charset::is_plausible_text(bytes) => {
            let mut writer = PageWriter::new(max_pages);
            writer.push_str(&charset::decode_text(bytes));
            Ok(writer.into_flow())
        }
        mime => Err(FileDecodeError::Unsupported(no_text_reason(mime))),
    }
}

/// Draws a page of a document, counted from 1, with a longest side of at most so many pixels.
pub(crate) fn draw_page(content: Vec<u8>, mime: &str, number: u32, max_side: u32) -> Result<RgbImage, FileDecodeError> {
    match is_pdf(&content, mime) {
        true => pdf::draw_page(content, number, max_side),
        false => {
            let reason = format!("only pages of PDF files can be drawn (its type was given as {mime})");
            Err(FileDecodeError::Unsupported(reason))
        }
    }
}

/// Whether it is a PDF. Readers accept one behind other bytes; a text that mentions the sign is none.
fn is_pdf(bytes: &[u8], mime: &str) -> bool {
    let head = &bytes[..bytes.len().min(PDF_HEAD_BYTES)];
    let is_other = [ZIP_MAGIC, OLE_MAGIC, RTF_MAGIC].iter().any(|magic| bytes.starts_with(magic));
    let is_behind = matches!(mime, "application/pdf" | "application/octet-stream") && !is_other;
    head.starts_with(b"%PDF-") || is_behind && find(head, b"%PDF-")
}

fn read_package(bytes: &[u8], max_pages: u32) -> Result<DecodedDocument, FileDecodeError> {
    let mut package = Package::open(bytes)?;
    let names = package.names();
    let has_directory = |directory: &str| names.iter().any(|name| name.starts_with(directory));
    if has_directory("word/") {
        office_xml::read_word(&mut package, max_pages)
    } else if has_directory("ppt/") {
        slides::read_slides(&mut package, max_pages)
    } else if has_directory("xl/") {
        workbook::read_workbook(bytes, max_pages)
    } else if package.has_part(ebook::CONTAINER) {
        ebook::read_ebook(&mut package, max_pages)
    } else if package.has_part(open_document::CONTENT) {
        open_document::read_open_document(&mut package, max_pages)
    } else {
        Err(FileDecodeError::no_text("an archive"))
    }
}

/// Reads one of the old formats, or says which one it is.
fn read_container(bytes: &[u8], max_pages: u32) -> Result<DecodedDocument, FileDecodeError> {
    let has_entry = |name: &str| {
        let name: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
        find(bytes, &name)
    };
    if has_entry("EncryptedPackage") {
        return Err(FileDecodeError::Protected);
    }
    if has_entry("Workbook") {
        return workbook::read_old_workbook(bytes, max_pages);
    }
    let (what, better) = match has_entry("PowerPoint Document") {
        true => ("a presentation in the old format PPT", "PPTX"),
        false if has_entry("WordDocument") => ("a document in the old format DOC", "DOCX"),
        false => return Err(FileDecodeError::no_text("a container of the old office formats")),
    };
    Err(FileDecodeError::TooLarge(format!("{what} can't be read; ask for it as {better} or PDF")))
}

fn find(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{Noise, zip_archive};

    fn message(bytes: &[u8], mime: &str) -> String {
        match read_document(bytes.to_vec(), mime, 9) {
            Ok(document) => format!("{} pages: {}", document.total_pages, document.pages.join("|")),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn old_and_encrypted_office_files_are_named() {
        let container = |entry: &str| {
            let entry: Vec<u8> = entry.encode_utf16().flat_map(u16::to_le_bytes).collect();
            [OLE_MAGIC, &[0; 504], &entry].concat()
        };
        for (entry, expected) in [
            ("EncryptedPackage", "it is protected with a password; ask for a copy without one"),
            ("WordDocument", "a document in the old format DOC can't be read; ask for it as DOCX or PDF"),
            ("PowerPoint Document", "a presentation in the old format PPT can't be read; ask for it as PPTX or PDF"),
            ("Other", "a container of the old office formats can't be read as text"),
        ] {
            assert_eq!(message(&container(entry), "application/x-ole-storage"), expected);
        }
    }

    #[test]
    fn unknown_content_is_unsupported() {
        assert_eq!(message(&zip_archive(&[("a.txt", b"a")]), "application/zip"), "an archive can't be read as text");
        assert_eq!(message(&[0, 1, 2, 3], "application/octet-stream"), "it can't be read as text");
        assert_eq!(message(&[0, 1, 2, 3], "image/png"), "image/png can't be read as text");
        assert_eq!(
            message(b"A PDF begins with %PDF-1.7, says the manual.", "text/plain"),
            "1 pages: A PDF begins with %PDF-1.7, says the manual."
        );
        let (russian, _, _) = encoding_rs::WINDOWS_1251.encode("Привет, как дела?");
        assert_eq!(message(&russian, "application/octet-stream"), "1 pages: Привет, как дела?");
    }

    #[test]
    fn noise_behind_any_magic_is_refused() {
        for magic in [&b"%PDF-1.7\n"[..], b"PK\x03\x04", OLE_MAGIC, b"{\\rtf1", b"{\\rtf1\\ansi\\ansicpg1251\\'"] {
            for seed in 1..20 {
                let bytes: Vec<u8> = magic.iter().copied().chain(Noise::new(seed).take(3_000)).collect();
                // What matters is that each call returns.
                let _outcome = message(&bytes, "application/octet-stream");
            }
        }
        let pdf = [&b"%PDF-1.7\n"[..], &Noise::new(1).take(3_000).collect::<Vec<u8>>()].concat();
        assert!(
            message(&pdf, "application/pdf").starts_with("it is damaged: "),
            "{}",
            message(&pdf, "application/pdf")
        );
    }
}

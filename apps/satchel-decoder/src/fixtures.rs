//! Documents for the tests, made by code.

use std::io::{Cursor, Write};

use zip::{ZipWriter, write::SimpleFileOptions};

/// A zip archive of these parts.
pub(crate) fn zip_archive(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in parts {
        archive.start_file(*name, SimpleFileOptions::default()).unwrap();
        archive.write_all(content).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

/// A workbook with one sheet of these rows. The style 1 is a date.
pub(crate) fn xlsx(rows: &str, shared_texts: &str) -> Vec<u8> {
    const MAIN: &str = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
    const OFFICE: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    let workbook = format!(
        "<workbook xmlns='{MAIN}' xmlns:r='{OFFICE}'><sheets><sheet name='First' sheetId='1' r:id='rId1'/></sheets></workbook>"
    );
    let relationships = format!(
        "<Relationships xmlns='http://schemas.openxmlformats.org/package/2006/relationships'>\
         <Relationship Id='rId1' Type='{OFFICE}/worksheet' Target='worksheets/sheet1.xml'/></Relationships>"
    );
    let sheet = format!("<worksheet xmlns='{MAIN}'><sheetData>{rows}</sheetData></worksheet>");
    let styles =
        format!("<styleSheet xmlns='{MAIN}'><cellXfs><xf numFmtId='0'/><xf numFmtId='14'/></cellXfs></styleSheet>");
    let root = format!(
        "<Relationships xmlns='http://schemas.openxmlformats.org/package/2006/relationships'>\
         <Relationship Id='rId1' Type='{OFFICE}/officeDocument' Target='xl/workbook.xml'/></Relationships>"
    );
    zip_archive(&[
        ("_rels/.rels", root.as_bytes()),
        ("xl/workbook.xml", workbook.as_bytes()),
        ("xl/_rels/workbook.xml.rels", relationships.as_bytes()),
        ("xl/worksheets/sheet1.xml", sheet.as_bytes()),
        ("xl/styles.xml", styles.as_bytes()),
        ("xl/sharedStrings.xml", shared_texts.as_bytes()),
    ])
}

/// A PDF of these objects, of which the first is the catalogue.
pub(crate) fn pdf(objects: &[Vec<u8>]) -> Vec<u8> {
    let (mut bytes, mut offsets) = (b"%PDF-1.7\n".to_vec(), Vec::new());
    for (index, object) in objects.iter().enumerate() {
        offsets.push(bytes.len());
        bytes.extend(format!("{} 0 obj\n", index + 1).bytes());
        bytes.extend(object);
        bytes.extend(b"\nendobj\n");
    }
    let start = bytes.len();
    bytes.extend(format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).bytes());
    for offset in offsets {
        bytes.extend(format!("{offset:010} 00000 n \n").bytes());
    }
    bytes
        .extend(format!("trailer\n<< /Root 1 0 R /Size {} >>\nstartxref\n{start}\n%%EOF\n", objects.len() + 1).bytes());
    bytes
}

/// A stream object of a PDF.
pub(crate) fn pdf_stream(dictionary: &str, content: &[u8]) -> Vec<u8> {
    let mut object = format!("<< {dictionary} /Length {} >>\nstream\n", content.len()).into_bytes();
    object.extend(content);
    object.extend(b"\nendstream");
    object
}

/// A PDF with a page for each content, in the font `/F1`, which is Helvetica.
pub(crate) fn pdf_with_pages(contents: &[&str]) -> Vec<u8> {
    let kids: Vec<String> = (0..contents.len()).map(|index| format!("{} 0 R", 4 + 2 * index)).collect();
    let mut objects = vec![
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        format!("<< /Type /Pages /Count {} /Kids [{}] >>", contents.len(), kids.join(" ")).into_bytes(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>".to_vec(),
    ];
    for (index, content) in contents.iter().enumerate() {
        let page = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >>";
        objects.push(format!("{page} /Contents {} 0 R >>", 5 + 2 * index).into_bytes());
        objects.push(pdf_stream("", content.as_bytes()));
    }
    pdf(&objects)
}

/// Bytes that look random and are always the same.
pub(crate) struct Noise(u32);

impl Noise {
    pub(crate) fn new(seed: u32) -> Self {
        Self(seed)
    }
}

impl Iterator for Noise {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Some(self.0.to_le_bytes()[3])
    }
}

//! Makes documents that end, stall or fill a decoder.

use crate::fixtures::{Noise, pdf, pdf_stream, pdf_with_pages, xlsx, zip_archive};

const PAGE: &[u8] =
    b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 99 99] /Contents 4 0 R /Resources << /Font << /F1 << /Type /Font \
    /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>";

const CONTENT: &str = "BT /F1 12 Tf (page) Tj ET";

/// Bytes compressed as PDF and PNG have it, but without the checksum: nobody gets that far.
pub(super) fn compress(bytes: &[u8]) -> Vec<u8> {
    // The compressed bytes of a zip entry lie between its header with its name and the directory.
    let archive = zip_archive(&[("a", bytes)]);
    let start = 30 + 1;
    let end = archive.windows(4).rposition(|window| window == b"PK\x01\x02").unwrap();
    [&b"\x78\x9c"[..], &archive[start..end]].concat()
}

/// A PDF whose catalogue names a tree of pages, each with an own content.
fn pdf_of(pages: &[u8], page: &[u8], others: Vec<Vec<u8>>) -> Vec<u8> {
    let objects = vec![b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(), pages.to_vec(), page.to_vec()];
    pdf(&[objects, others].concat())
}

/// A PDF whose page draws a form that draws another one ten times, twelve levels deep.
pub(super) fn nested_forms() -> Vec<u8> {
    let page =
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R /Resources << /XObject << /X 5 0 R >> >> >>";
    let mut objects = vec![pdf_stream("", b"/X Do")];
    for level in 0..12 {
        let inner = 6 + level;
        let form =
            format!("/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X {inner} 0 R >> >>");
        objects.push(pdf_stream(&form, "/X Do ".repeat(10).as_bytes()));
    }
    objects.push(pdf_stream("/Type /XObject /Subtype /Form /BBox [0 0 9 9]", b"0 0 1 1 re f"));
    pdf_of(b"<< /Type /Pages /Count 1 /Kids [3 0 R] >>", page, objects)
}

/// A PDF whose page's content decompresses to 700 MiB.
pub(super) fn flate_bomb() -> Vec<u8> {
    let content = pdf_stream("/Filter /FlateDecode", &compress(&vec![b' '; 700 << 20]));
    pdf_of(b"<< /Type /Pages /Count 1 /Kids [3 0 R] >>", PAGE, vec![content])
}

pub(super) fn garbled_offsets() -> Vec<u8> {
    let whole = String::from_utf8(pdf_with_pages(&["BT /F1 12 Tf (found) Tj ET"])).unwrap();
    whole.replace("0000", "9876").into_bytes()
}

pub(super) fn pages_within_themselves() -> Vec<u8> {
    pdf_of(b"<< /Type /Pages /Count 1 /Kids [2 0 R 2 0 R] >>", PAGE, vec![pdf_stream("", b"")])
}

/// The length of a page's content is said to be in that content.
pub(super) fn length_within_itself() -> Vec<u8> {
    let content = format!("<< /Length 4 0 R >>\nstream\n{CONTENT}\nendstream").into_bytes();
    pdf_of(b"<< /Type /Pages /Count 1 /Kids [3 0 R] >>", PAGE, vec![content])
}

pub(super) fn million_pages() -> Vec<u8> {
    let kids = "<</Type/Page>>".repeat(1_000_000);
    let pages = format!("<< /Type /Pages /Count 1000000 /MediaBox [0 0 9 9] /Kids [{kids}] >>");
    pdf_of(pages.as_bytes(), PAGE, Vec::new())
}

pub(super) fn page_million_times() -> Vec<u8> {
    let kids = "3 0 R ".repeat(1_000_000);
    let pages = format!("<< /Type /Pages /Count 1000000 /Kids [{kids}] >>");
    pdf_of(pages.as_bytes(), PAGE, vec![pdf_stream("", CONTENT.as_bytes())])
}

pub(super) fn cut_pdf() -> Vec<u8> {
    let whole = pdf_with_pages(&["BT /F1 12 Tf (first) Tj ET", "BT /F1 12 Tf (second) Tj ET"]);
    whole[..whole.len() * 2 / 3].to_vec()
}

pub(super) fn noise_behind_pdf_magic() -> Vec<u8> {
    b"%PDF-1.4\n".iter().copied().chain(Noise::new(3).take(50_000)).collect()
}

fn word(document: &[u8]) -> Vec<u8> {
    zip_archive(&[("word/document.xml", document)])
}

pub(super) fn word_bomb() -> Vec<u8> {
    word(&vec![b' '; 70 << 20])
}

pub(super) fn nested_elements() -> Vec<u8> {
    word("<a>".repeat(100_000).as_bytes())
}

/// Ten entities, each of ten of the one before it.
pub(super) fn billion_laughs() -> Vec<u8> {
    let entities: String =
        (1..10).map(|n| format!("<!ENTITY l{n} \"{}\">", format!("&l{};", n - 1).repeat(10))).collect();
    let text = "<w:document xmlns:w='w'><w:p><w:t>ha&l9;ha</w:t></w:p></w:document>";
    word(format!("<!DOCTYPE d [<!ENTITY l0 \"lol\">{entities}]>{text}").as_bytes())
}

pub(super) fn entity_of_a_file() -> Vec<u8> {
    let entities = "<!ENTITY f SYSTEM \"file:///etc/hostname\"><!ENTITY g SYSTEM \"http://localhost/\">";
    let text = "<w:document xmlns:w='w'><w:p><w:t>seen: &f;&g;</w:t></w:p></w:document>";
    word(format!("<!DOCTYPE d [{entities}]>{text}").as_bytes())
}

fn archive_of_entries(count: usize) -> Vec<u8> {
    let names: Vec<String> = (0..count).map(|number| format!("word/{number}")).collect();
    zip_archive(&names.iter().map(|name| (name.as_str(), &b""[..])).collect::<Vec<_>>())
}

pub(super) fn many_entries() -> Vec<u8> {
    archive_of_entries(60_000)
}

pub(super) fn one_entry_too_many() -> Vec<u8> {
    archive_of_entries(20_001)
}

pub(super) fn cut_word() -> Vec<u8> {
    let whole = word(&Noise::new(7).take(5_000).collect::<Vec<u8>>());
    whole[..whole.len() / 2].to_vec()
}

pub(super) fn distant_cell() -> Vec<u8> {
    xlsx("<row r='1048576'><c r='XFD1048576'><v>7</v></c></row>", "<sst/>")
}

pub(super) fn claimed_texts() -> Vec<u8> {
    xlsx("", "<sst uniqueCount='4294967295'/>")
}

pub(super) fn wide_and_nested_html() -> Vec<u8> {
    format!("{}<td colspan=2000000000>wide</td>", "<div><table>".repeat(500_000)).into_bytes()
}

pub(super) fn nested_messages() -> Vec<u8> {
    "Content-Type: message/rfc822\r\n\r\n".repeat(100_000).into_bytes()
}

pub(super) fn nested_groups() -> Vec<u8> {
    [&b"{\\rtf1"[..], &b"{".repeat(1_000_000)].concat()
}

//! Documents that end, stall or fill a decoder: each costs at most its worker, and gets a line that explains it.

use std::time::Duration;

use satchel_decoders::DecoderSettings;

use crate::{
    fixtures::{Noise, pdf, pdf_stream, pdf_with_pages, xlsx, zip_archive},
    harness::{read, settings, text_of},
};

/// A PDF whose page draws a form that draws another one ten times, so many levels deep.
fn nested_forms(levels: usize) -> Vec<u8> {
    let mut objects = vec![
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Count 1 /Kids [3 0 R] >>".to_vec(),
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R /Resources << /XObject << /X 5 0 R >> >> >>"
            .to_vec(),
        pdf_stream("", b"/X Do"),
    ];
    for level in 0..levels {
        let inner = 6 + level;
        let form =
            format!("/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X {inner} 0 R >> >>");
        objects.push(pdf_stream(&form, "/X Do ".repeat(10).as_bytes()));
    }
    objects.push(pdf_stream("/Type /XObject /Subtype /Form /BBox [0 0 9 9]", b"0 0 1 1 re f"));
    pdf(&objects)
}

/// A PDF whose page's content decompresses to so many bytes.
fn flate_bomb(bytes: usize) -> Vec<u8> {
    // The compressed bytes of a zip entry are what a PDF calls FlateDecode, without the header of zlib.
    let archive = zip_archive(&[("a", &vec![b' '; bytes])]);
    let start = 30 + 1;
    let end = archive.windows(4).rposition(|window| window == b"PK\x01\x02").unwrap();
    let zlib = [&b"\x78\x9c"[..], &archive[start..end]].concat();
    pdf(&[
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Count 1 /Kids [3 0 R] >>".to_vec(),
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R >>".to_vec(),
        pdf_stream("/Filter /FlateDecode", &zlib),
    ])
}

#[tokio::test]
async fn hostile_document_costs_one_worker() {
    let quick = DecoderSettings { time_limit: Duration::from_secs(3), ..settings() };
    let error = read(quick, nested_forms(12), "application/pdf").await.unwrap_err().to_string();
    assert_eq!(error, "reading it took longer than 3 s");
    let small = DecoderSettings { memory_bytes: 256 << 20, ..settings() };
    let error = read(small.clone(), flate_bomb(700 << 20), "application/pdf").await.unwrap_err().to_string();
    assert_eq!(error, "reading it takes more memory than 268 MB");
    let text = read(small, pdf_with_pages(&["BT /F1 12 Tf (next) Tj ET"]), "application/pdf").await.unwrap();
    assert_eq!(text.pages[0].text, "next", "the next document is read");
}

#[tokio::test]
async fn hostile_packages_are_refused_with_a_reason() {
    let spaces = vec![b' '; 70 << 20];
    let deep = "<a>".repeat(100_000);
    let entries: Vec<(String, &[u8])> = (0..20_001).map(|number| (format!("word/{number}"), &b""[..])).collect();
    let entries: Vec<(&str, &[u8])> = entries.iter().map(|(name, content)| (name.as_str(), *content)).collect();
    for (content, expected) in [
        (zip_archive(&[("word/document.xml", &spaces)]), "it decompresses to more than 64 MB"),
        (zip_archive(&[("word/document.xml", deep.as_bytes())]), "its elements are nested deeper than 4096 levels"),
        (zip_archive(&entries), "it is an archive of 20001 entries; at most 20000 are read"),
        (xlsx("", "<sst uniqueCount='4294967295'/>"), "it claims 4294967295 distinct texts; at most 2000000 are read"),
    ] {
        assert_eq!(text_of(content, "application/zip").await, expected);
    }
    let distant = xlsx("<row r='1048576'><c r='XFD1048576'><v>7</v></c></row>", "<sst/>");
    assert!(text_of(distant, "application/zip").await.ends_with('7'));
}

#[tokio::test]
async fn hostile_texts_are_read_or_refused() {
    let html = format!("{}<td colspan=2000000000>wide</td>", "<div><table>".repeat(500_000));
    assert_eq!(text_of(html.into_bytes(), "text/html").await, "wide");
    let mail = "Content-Type: message/rfc822\r\n\r\n".repeat(100_000).into_bytes();
    let expected = "it holds 100000 messages within messages; at most 50 are read";
    assert_eq!(text_of(mail, "message/rfc822").await, expected);
    let rtf = [&b"{\\rtf1"[..], &b"{".repeat(1_000_000)].concat();
    let refused = text_of(rtf, "application/rtf").await;
    assert!(refused.starts_with("it is "), "{refused}");
}

#[tokio::test]
async fn cut_and_random_documents_end_cleanly() {
    let whole = zip_archive(&[("word/document.xml", &Noise::new(7).take(5_000).collect::<Vec<u8>>())]);
    let cut = text_of(whole[..whole.len() / 2].to_vec(), "application/zip").await;
    assert!(cut.starts_with("it is damaged: "), "{cut}");
    let pdf = pdf_with_pages(&["BT /F1 12 Tf (first) Tj ET", "BT /F1 12 Tf (second) Tj ET"]);
    let cut = text_of(pdf[..pdf.len() * 2 / 3].to_vec(), "application/pdf").await;
    assert!(cut.contains("first") || cut.starts_with("it is damaged: "), "{cut}");
    let noise: Vec<u8> = b"%PDF-1.4\n".iter().copied().chain(Noise::new(3).take(50_000)).collect();
    assert!(text_of(noise, "application/pdf").await.starts_with("it is damaged: "));
}

//! A document of each family passes through the worker: no decoder needs what the worker has given up.

use crate::{
    fixtures::{pdf_with_pages, xlsx, zip_archive},
    harness::{read, settings, text_of},
};

#[tokio::test]
async fn each_format_is_read() {
    let word: &[u8] = b"<w:document xmlns:w='w'><w:p><w:t>written</w:t></w:p></w:document>";
    let slide: &[u8] = b"<p:sld xmlns:p='p'><a:p xmlns:a='a'><a:t>slide</a:t></a:p></p:sld>";
    let open_text: &[u8] = b"<o xmlns:text='t'><text:p>open</text:p></o>";
    let container: &[u8] = b"<c><rootfile full-path='b.opf'/></c>";
    let book: &[u8] = b"<p><item id='a' href='a.xhtml'/><itemref idref='a'/></p>";
    let (russian, _, _) = encoding_rs::WINDOWS_1251.encode("Привет, как дела?");
    for (content, mime, expected) in [
        (pdf_with_pages(&["BT /F1 12 Tf (portable) Tj ET", ""]), "application/pdf", "portable|"),
        (zip_archive(&[("word/document.xml", word)]), "application/zip", "written"),
        (zip_archive(&[("ppt/slides/slide1.xml", slide)]), "application/zip", "slide"),
        (xlsx("<row r='1'><c r='A1'><v>1.5</v></c></row>", "<sst/>"), "application/zip", "Sheet: First\n1.5"),
        (zip_archive(&[("content.xml", open_text)]), "application/zip", "open"),
        (
            zip_archive(&[("META-INF/container.xml", container), ("b.opf", book), ("a.xhtml", b"<p>chapter")]),
            "application/epub+zip",
            "chapter",
        ),
        (b"{\\rtf1\\ansi rich\\par}".to_vec(), "application/rtf", "rich"),
        (b"<h1>page</h1><p>text".to_vec(), "text/html", "page\n\ntext"),
        (b"Subject: mail\r\n\r\ntext\r\n".to_vec(), "message/rfc822", "Subject: mail\n\ntext"),
        (russian.into_owned(), "application/octet-stream", "Привет, как дела?"),
    ] {
        assert_eq!(text_of(content, mime).await, expected, "{mime}");
    }
}

#[tokio::test]
async fn pages_without_text_and_beyond_the_limit_are_reported() {
    let page = "BT /F1 12 Tf (text) Tj ET";
    let content = pdf_with_pages(&[page, "", page, page, page]);
    let limited = satchel_decoders::DecoderSettings { max_pages: 3, ..settings() };
    let text = read(limited, content, "application/pdf").await.unwrap();
    assert_eq!((text.total_pages, text.read_pages, text.empty_pages, text.pages.len()), (5, 3, vec![2], 3));
}

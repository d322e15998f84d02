//! ODT, ODS and ODP: the text of `content.xml`. A sheet or a slide is a page.

use crate::{
    error::FileDecodeError,
    package::Package,
    page_writer::{DecodedDocument, PageWriter},
    xml::{XmlToken, walk_xml},
};

/// The part with the text.
pub(crate) const CONTENT: &str = "content.xml";

const MANIFEST: &str = "META-INF/manifest.xml";

/// How many spaces one element may stand for.
const MAX_SPACES: usize = 64;

/// Elements whose text is not part of the document as it reads; the number of a footnote would join the word before it.
const SKIPPED_ELEMENTS: [&str; 3] = ["tracked-changes", "binary-data", "note-citation"];

/// Which elements are pages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PageElement {
    /// The text is cut into pages.
    None,
    Sheet,
    Slide,
}

/// Reads a document of the OpenDocument family.
pub(crate) fn read_open_document(
    package: &mut Package<'_>,
    max_pages: u32,
) -> Result<DecodedDocument, FileDecodeError> {
    if is_encrypted(package)? {
        return Err(FileDecodeError::Protected);
    }
    let kind = package.read_part_if_any("mimetype")?.unwrap_or_default();
    let page_element = match String::from_utf8_lossy(&kind) {
        kind if kind.contains("spreadsheet") => PageElement::Sheet,
        kind if kind.contains("presentation") => PageElement::Slide,
        _ => PageElement::None,
    };
    let content = package.read_part(CONTENT)?;
    let mut writer = PageWriter::new(max_pages);
    write_content(&content, page_element, &mut writer)?;
    Ok(if page_element == PageElement::None { writer.into_flow() } else { writer.into_paged() })
}

fn write_content(content: &[u8], page_element: PageElement, writer: &mut PageWriter) -> Result<(), FileDecodeError> {
    let (mut paragraph_levels, mut skipped_levels, mut table_levels) = (0_usize, 0_usize, 0_usize);
    let is_page = |name: &str| match page_element {
        PageElement::None => false,
        PageElement::Sheet => name == "table",
        PageElement::Slide => name == "page",
    };
    walk_xml(content, |token| {
        match token {
            XmlToken::Start(name, _) if SKIPPED_ELEMENTS.contains(&name) => skipped_levels += 1,
            XmlToken::End(name) if SKIPPED_ELEMENTS.contains(&name) => {
                skipped_levels = skipped_levels.saturating_sub(1);
            }
            _ if skipped_levels > 0 => {}
            XmlToken::Text(text) if paragraph_levels > 0 => writer.push_str(text),
            XmlToken::Text(_) => {}
            XmlToken::Start(name, attributes) => match name {
                "p" | "h" => paragraph_levels += 1,
                "tab" => writer.push('\t'),
                "line-break" => writer.push('\n'),
                "s" => {
                    let count = attributes.value("c").and_then(|count| count.parse().ok()).unwrap_or(1_usize);
                    writer.push_str(&" ".repeat(count.min(MAX_SPACES)));
                }
                "table" => {
                    table_levels += 1;
                    if page_element == PageElement::Sheet {
                        writer.push_str(&format!("Sheet: {}", attributes.value("name").unwrap_or_default()));
                    }
                    writer.end_row();
                }
                // A footnote stands within the word that it is about.
                "note" => {
                    writer.end_line();
                    writer.push_str("[Note] ");
                }
                "notes" if page_element == PageElement::Slide => {
                    writer.end_paragraph();
                    writer.push_str("[Notes]\n");
                }
                _ => {}
            },
            XmlToken::End(name) if is_page(name) => {
                table_levels = 0;
                writer.end_page();
            }
            XmlToken::End(name) => match name {
                "p" | "h" => {
                    paragraph_levels = paragraph_levels.saturating_sub(1);
                    if table_levels > 0 { writer.end_line() } else { writer.push('\n') }
                }
                "table-cell" | "covered-table-cell" => writer.end_cell(),
                "table-row" => writer.end_row(),
                "table" => table_levels = table_levels.saturating_sub(1),
                _ => {}
            },
        }
        !writer.is_full()
    })?;
    if page_element != PageElement::None && writer.is_full() {
        writer.end_page();
    }
    Ok(())
}

/// Whether the manifest says that parts are encrypted.
fn is_encrypted(package: &mut Package<'_>) -> Result<bool, FileDecodeError> {
    let mut is_encrypted = false;
    if let Some(manifest) = package.read_part_if_any(MANIFEST)? {
        walk_xml(&manifest, |token| {
            is_encrypted |= matches!(token, XmlToken::Start("encryption-data" | "KeyInfo", _));
            !is_encrypted
        })?;
    }
    Ok(is_encrypted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::zip_archive;

    fn read(mime: &str, content: &str) -> Result<Vec<String>, FileDecodeError> {
        let bytes = zip_archive(&[("mimetype", mime.as_bytes()), (CONTENT, content.as_bytes())]);
        read_open_document(&mut Package::open(&bytes).unwrap(), 200).map(|document| document.pages)
    }

    #[test]
    fn text_is_read_without_tracked_changes() {
        let content = "<o xmlns:text='t'><text:tracked-changes><text:p>old</text:p></text:tracked-changes>stray\
                       <text:h>Title</text:h><text:p>a<text:s text:c='3'/>b<text:tab/>c<text:line-break/>d</text:p></o>";
        let pages = read("application/vnd.oasis.opendocument.text", content);
        assert_eq!(pages, Ok(vec!["Title\na   b\tc\nd".to_owned()]));
    }

    #[test]
    fn footnote_joins_no_word() {
        let content = "<o xmlns:text='t'><text:p>word<text:note><text:note-citation>1</text:note-citation>\
                       <text:note-body><text:p>about it</text:p></text:note-body></text:note> goes on</text:p></o>";
        let pages = read("application/vnd.oasis.opendocument.text", content);
        assert_eq!(pages, Ok(vec!["word\n[Note] about it\n goes on".to_owned()]));
    }

    /// A repeated cell is written once: the number is the file's claim.
    #[test]
    fn sheets_are_pages() {
        let content = "<o xmlns:table='t' xmlns:text='x'><table:table table:name='Q1 &amp; Q2'><table:table-row>\
                       <table:table-cell><text:p>1,5</text:p></table:table-cell>\
                       <table:table-cell table:number-columns-repeated='2000000000'><text:p>x</text:p></table:table-cell>\
                       </table:table-row></table:table><table:table table:name='Empty'/></o>";
        let pages = read("application/vnd.oasis.opendocument.spreadsheet", content);
        assert_eq!(pages, Ok(vec!["Sheet: Q1 & Q2\n1,5\tx".to_owned(), "Sheet: Empty".to_owned()]));
    }

    #[test]
    fn slides_are_pages() {
        let content = "<o xmlns:draw='d' xmlns:text='x' xmlns:presentation='p'><draw:page><text:p>one</text:p>\
                       <presentation:notes><text:p>say hello</text:p></presentation:notes></draw:page>\
                       <draw:page><text:p>two</text:p></draw:page></o>";
        let pages = read("application/vnd.oasis.opendocument.presentation", content);
        assert_eq!(pages, Ok(vec!["one\n\n[Notes]\nsay hello".to_owned(), "two".to_owned()]));
    }

    #[test]
    fn encrypted_document_is_reported_as_protected() {
        let manifest =
            b"<m xmlns:manifest='m'><manifest:file-entry><manifest:encryption-data/></manifest:file-entry></m>";
        let bytes = zip_archive(&[(CONTENT, b"\x01\x02"), (MANIFEST, manifest)]);
        let error = read_open_document(&mut Package::open(&bytes).unwrap(), 1).unwrap_err();
        assert_eq!(error, FileDecodeError::Protected);
    }
}

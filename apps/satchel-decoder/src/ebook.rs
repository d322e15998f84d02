//! EPUB: its chapters in the order of the spine.

use std::collections::HashMap;

use crate::{
    error::FileDecodeError,
    html,
    package::{Package, resolve_reference},
    page_writer::{DecodedDocument, PageWriter},
    xml::{XmlToken, walk_xml},
};

/// The part that names the table of contents.
pub(crate) const CONTAINER: &str = "META-INF/container.xml";

/// Reads an EPUB. A chapter that can't be read is left out with a line that says so.
pub(crate) fn read_ebook(package: &mut Package<'_>, max_pages: u32) -> Result<DecodedDocument, FileDecodeError> {
    let mut writer = PageWriter::new(max_pages);
    for chapter in chapters(package)? {
        match package.read_part(&chapter) {
            Ok(content) => html::write_html(&content, None, &mut writer),
            Err(error) => writer.push_str(&format!("[a chapter is missing: {error}]\n")),
        }
        writer.end_paragraph();
        if writer.is_full() {
            break;
        }
    }
    Ok(writer.into_flow())
}

/// The parts of the chapters in their order.
fn chapters(package: &mut Package<'_>) -> Result<Vec<String>, FileDecodeError> {
    let mut root = None;
    walk_xml(&package.read_part(CONTAINER)?, |token| {
        if let XmlToken::Start("rootfile", attributes) = token {
            root = attributes.value("full-path");
        }
        root.is_none()
    })?;
    let root = root.ok_or_else(|| FileDecodeError::damaged("its list of chapters is missing"))?;
    let (mut items, mut spine) = (HashMap::new(), Vec::new());
    walk_xml(&package.read_part(&root)?, |token| {
        match token {
            XmlToken::Start("item", attributes) => {
                if let (Some(id), Some(reference)) = (attributes.value("id"), attributes.value("href")) {
                    items.insert(id, resolve_reference(&root, &reference));
                }
            }
            XmlToken::Start("itemref", attributes) => spine.extend(attributes.value("idref")),
            _ => {}
        }
        true
    })?;
    Ok(spine.iter().filter_map(|id| items.get(id).cloned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::zip_archive;

    #[test]
    fn chapters_follow_the_spine() {
        let container = b"<container><rootfiles><rootfile full-path='OEBPS/book.opf'/></rootfiles></container>";
        let book = b"<package><manifest><item id='a' href='text/a.xhtml'/><item id='b' href='b%20c.xhtml'/>\
                     <item id='c' href='gone.xhtml'/></manifest>\
                     <spine><itemref idref='b'/><itemref idref='a'/><itemref idref='c'/></spine></package>";
        let bytes = zip_archive(&[
            (CONTAINER, container),
            ("OEBPS/book.opf", book),
            (
                "OEBPS/text/a.xhtml",
                b"<html><head><title>T</title></head><body><h1>Second</h1><p>text</p></body></html>",
            ),
            ("OEBPS/b c.xhtml", b"<html><body><p>First&nbsp;chapter</p></body></html>"),
        ]);
        let document = read_ebook(&mut Package::open(&bytes).unwrap(), 9).unwrap();
        let expected =
            "First\u{a0}chapter\n\nSecond\n\ntext\n\n[a chapter is missing: it is damaged: a part of it is missing]";
        assert_eq!(document.pages, [expected]);
    }
}

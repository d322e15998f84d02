//! DOCX, and what it shares with PPTX: paragraphs, tabs and tables of Office Open XML.

use std::collections::HashMap;

use crate::{
    error::FileDecodeError,
    package::{Package, resolve_reference},
    page_writer::{DecodedDocument, PageWriter},
    xml::{XmlToken, walk_xml},
};

/// Elements whose text is not part of the document as it reads: deleted text, copies for old programs, field codes, and
/// the definitions of tab stops.
const SKIPPED_ELEMENTS: [&str; 7] = ["del", "moveFrom", "Fallback", "instrText", "delText", "tabs", "tabLst"];

/// The kinds of parts beside the text, with their headings.
const SIDE_PARTS: [(&str, &str); 5] = [
    ("word/header", "Header"),
    ("word/footer", "Footer"),
    ("word/footnotes", "Footnotes"),
    ("word/endnotes", "Endnotes"),
    ("word/comments", "Comments"),
];

/// Reads a DOCX.
pub(crate) fn read_word(package: &mut Package<'_>, max_pages: u32) -> Result<DecodedDocument, FileDecodeError> {
    let mut names = package.names();
    names.sort();
    let is_main = |name: &&String| name.starts_with("word/document") && name.ends_with(".xml");
    let main = names.iter().find(is_main).ok_or_else(|| FileDecodeError::damaged("its text is missing"))?;
    let mut writer = PageWriter::new(max_pages);
    write_text(&package.read_part(main)?, &mut writer)?;
    for (prefix, heading) in SIDE_PARTS {
        let is_such_part = |name: &&String| {
            let number = name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(".xml"));
            number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        };
        for name in names.iter().filter(is_such_part) {
            let mut part_writer = PageWriter::new(1);
            write_text(&package.read_part(name)?, &mut part_writer)?;
            part_writer.end_page();
            if let Some(text) = part_writer.into_paged().pages.first().filter(|text| !text.is_empty()) {
                writer.end_paragraph();
                writer.push_str(&format!("[{heading}]\n{text}\n"));
            }
        }
    }
    Ok(writer.into_flow())
}

/// Writes the text of a part in WordprocessingML or DrawingML, which have the same shape.
pub(crate) fn write_text(xml: &[u8], writer: &mut PageWriter) -> Result<(), FileDecodeError> {
    let (mut is_in_text, mut skipped_levels, mut table_levels) = (false, 0_usize, 0_usize);
    walk_xml(xml, |token| {
        match token {
            XmlToken::Start(name, _) if SKIPPED_ELEMENTS.contains(&name) => skipped_levels += 1,
            XmlToken::End(name) if SKIPPED_ELEMENTS.contains(&name) => {
                skipped_levels = skipped_levels.saturating_sub(1);
            }
            _ if skipped_levels > 0 => {}
            XmlToken::Text(text) if is_in_text => writer.push_str(text),
            XmlToken::Text(_) => {}
            XmlToken::Start(name, _) => match name {
                "t" => is_in_text = true,
                "tab" => writer.push('\t'),
                "br" | "cr" => writer.push('\n'),
                "noBreakHyphen" => writer.push('-'),
                "tbl" => {
                    table_levels += 1;
                    writer.end_row();
                }
                _ => {}
            },
            XmlToken::End(name) => match name {
                "t" => is_in_text = false,
                "p" if table_levels > 0 => writer.end_line(),
                "p" => writer.push('\n'),
                "tc" => writer.end_cell(),
                "tr" => writer.end_row(),
                "tbl" => table_levels = table_levels.saturating_sub(1),
                _ => {}
            },
        }
        !writer.is_full()
    })
}

/// The relationships of a part: target and type by id.
pub(crate) fn read_relationships(
    package: &mut Package<'_>,
    part: &str,
) -> Result<HashMap<String, (String, String)>, FileDecodeError> {
    let (directory, name) = part.rsplit_once('/').unwrap_or(("", part));
    let mut relationships = HashMap::new();
    let Some(xml) = package.read_part_if_any(&format!("{directory}/_rels/{name}.rels"))? else {
        return Ok(relationships);
    };
    walk_xml(&xml, |token| {
        if let XmlToken::Start("Relationship", attributes) = token
            && let (Some(id), Some(target)) = (attributes.value("Id"), attributes.value("Target"))
        {
            let kind = attributes.value("Type").unwrap_or_default();
            relationships.insert(id, (resolve_reference(part, &target), kind));
        }
        true
    })?;
    Ok(relationships)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::zip_archive;

    fn read(parts: &[(&str, &[u8])]) -> Result<Vec<String>, FileDecodeError> {
        let bytes = zip_archive(parts);
        read_word(&mut Package::open(&bytes).unwrap(), 200).map(|document| document.pages)
    }

    #[test]
    fn text_tables_and_notes_are_read() {
        let document = br#"<w:document xmlns:w="w"><w:body>
            <w:p><w:pPr><w:tabs><w:tab w:val="left" w:pos="720"/><w:tab w:val="right"/></w:tabs></w:pPr><w:r><w:t>Agree</w:t></w:r><w:r><w:t xml:space="preserve">ment &amp; more</w:t><w:tab/><w:t>end</w:t></w:r></w:p>
            <w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>b</w:t></w:r></w:p><w:p><w:r><w:t>c</w:t></w:r></w:p></w:tc></w:tr>
            <w:tr><w:tc><w:p/></w:tc><w:tc><w:p><w:r><w:t>d</w:t></w:r></w:p></w:tc></w:tr></w:tbl>
            <w:p><w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:r><w:instrText>PAGE</w:instrText><w:t>kept</w:t></w:r></w:p>
            </w:body></w:document>"#;
        let footnotes = br#"<w:footnotes xmlns:w="w"><w:footnote><w:p><w:r><w:t>see there</w:t></w:r></w:p></w:footnote></w:footnotes>"#;
        let pages = read(&[
            ("word/document.xml", document),
            ("word/footnotes.xml", footnotes),
            ("word/commentsIds.xml", b"<x/>"),
        ]);
        let expected = "Agreement & more\tend\na\tb\nc\n\td\nkept\n\n[Footnotes]\nsee there";
        assert_eq!(pages, Ok(vec![expected.to_owned()]));
    }

    #[test]
    fn missing_text_is_damage() {
        let error = read(&[("word/styles.xml", b"<x/>")]).unwrap_err();
        assert_eq!(error.to_string(), "it is damaged: its text is missing");
        assert!(matches!(read(&[("word/document.xml", b"<a><b attr='")]), Err(FileDecodeError::Damaged(_))));
    }
}

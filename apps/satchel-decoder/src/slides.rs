//! PPTX: a page for each slide, in the order of the presentation, with its notes.

use crate::{
    error::FileDecodeError,
    office_xml::{read_relationships, write_text},
    package::Package,
    page_writer::{DecodedDocument, PageWriter},
    xml::{XmlToken, walk_xml},
};

const PRESENTATION: &str = "ppt/presentation.xml";

/// Reads a PPTX.
pub(crate) fn read_slides(package: &mut Package<'_>, max_pages: u32) -> Result<DecodedDocument, FileDecodeError> {
    let slides = slide_parts(package)?;
    let mut writer = PageWriter::new(max_pages);
    for slide in &slides {
        if !writer.has_free_page() || writer.is_full() {
            writer.skip_pages(1);
            continue;
        }
        write_text(&package.read_part(slide)?, &mut writer)?;
        let relationships = read_relationships(package, slide)?;
        let notes = relationships.into_values().find(|(_, kind)| kind.ends_with("/notesSlide"));
        if let Some((notes, _)) = notes
            && let Some(xml) = package.read_part_if_any(&notes)?
        {
            writer.end_paragraph();
            writer.push_str("[Notes]\n");
            write_text(&xml, &mut writer)?;
        }
        writer.end_page();
    }
    Ok(writer.into_paged())
}

/// The slides' parts in their order, or by their numbers where the presentation doesn't list them.
fn slide_parts(package: &mut Package<'_>) -> Result<Vec<String>, FileDecodeError> {
    let relationships = read_relationships(package, PRESENTATION)?;
    let mut slides = Vec::new();
    if let Some(xml) = package.read_part_if_any(PRESENTATION)? {
        walk_xml(&xml, |token| {
            if let XmlToken::Start("sldId", attributes) = token
                && let Some((slide, _)) = attributes.prefixed_value("r:id").and_then(|id| relationships.get(&id))
            {
                slides.push(slide.clone());
            }
            true
        })?;
    }
    slides.retain(|slide| package.has_part(slide));
    if slides.is_empty() {
        slides = package.names();
        slides.retain(|name| name.starts_with("ppt/slides/slide") && name.ends_with(".xml"));
        slides.sort_by_key(|name| (name.len(), name.clone()));
    }
    Ok(slides)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::zip_archive;

    fn slide(text: &str) -> String {
        format!("<p:sld xmlns:p='p' xmlns:a='a'><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:sld>")
    }

    #[test]
    fn slides_are_pages_in_their_order() {
        let presentation = b"<p:presentation xmlns:p='p' xmlns:r='r'><p:sldIdLst><p:sldId id='256' r:id='rId3'/>\
                             <p:sldId id='257' r:id='rId2'/><p:sldId id='258' r:id='rId4'/></p:sldIdLst></p:presentation>";
        let relationships = b"<Relationships><Relationship Id='rId2' Type='x/slide' Target='slides/slide1.xml'/>\
                              <Relationship Id='rId3' Type='x/slide' Target='slides/slide2.xml'/>\
                              <Relationship Id='rId4' Type='x/slide' Target='slides/slide10.xml'/></Relationships>";
        let notes = b"<Relationships><Relationship Id='rId1' Type='x/notesSlide' Target='../notesSlides/notesSlide1.xml'/></Relationships>";
        let (first, second, third) = (slide("one"), slide("two"), slide(""));
        let mut parts: Vec<(&str, &[u8])> = vec![
            ("ppt/slides/slide1.xml", first.as_bytes()),
            ("ppt/slides/slide2.xml", second.as_bytes()),
            ("ppt/slides/slide10.xml", third.as_bytes()),
            ("ppt/slides/_rels/slide2.xml.rels", notes),
            ("ppt/notesSlides/notesSlide1.xml", b"<p:notes><a:p><a:t>remember</a:t></a:p></p:notes>"),
        ];
        let read = |parts: &[(&str, &[u8])], max_pages| {
            let bytes = zip_archive(parts);
            let document = read_slides(&mut Package::open(&bytes).unwrap(), max_pages).unwrap();
            (document.pages.join("|"), document.total_pages)
        };
        assert_eq!(read(&parts, 9), ("one|two\n\n[Notes]\nremember|".to_owned(), 3), "by their numbers");
        parts.extend([(PRESENTATION, &presentation[..]), ("ppt/_rels/presentation.xml.rels", &relationships[..])]);
        assert_eq!(read(&parts, 2), ("two\n\n[Notes]\nremember|one".to_owned(), 3));
    }
}

//! RTF.

use rtf_parser_tt::RtfDocument;

use crate::{
    error::FileDecodeError,
    page_writer::{DecodedDocument, PageWriter},
};

/// Reads an RTF.
pub(crate) fn read_rich_text(bytes: &[u8], max_pages: u32) -> Result<DecodedDocument, FileDecodeError> {
    let document = RtfDocument::from_bytes(bytes).map_err(FileDecodeError::damaged)?;
    let mut writer = PageWriter::new(max_pages);
    writer.push_str(&document.get_text());
    Ok(writer.into_flow())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_pages_and_paragraphs_are_read() {
        let rtf = b"{\\rtf1\\ansi\\ansicpg1251{\\fonttbl{\\f0\\fcharset204 Arial;}}\\f0\\'cf\\'f0\\'e8\\'e2\\'e5\\'f2\\par second {\\b bold}\\par}";
        let document = read_rich_text(rtf, 9).unwrap();
        assert_eq!(document.pages, ["Привет\nsecond bold"]);
        assert!(read_rich_text(b"{\\rtf1\\ansi {{{", 9).is_err());
    }
}

//! Office documents as zip archives: their parts, with every size bounded.

use std::io::{Cursor, Read};

use zip::{ZipArchive, result::ZipError};

use crate::error::FileDecodeError;

/// The most entries of an archive.
const MAX_ENTRIES: usize = 20_000;

/// The largest part in bytes, decompressed.
const MAX_PART_BYTES: u64 = 64 << 20;

/// The most bytes of all parts that are read from one document, decompressed.
const MAX_READ_BYTES: u64 = 128 << 20;

/// The most bytes that an archive may declare for all its entries, where a library reads it by itself.
const MAX_DECLARED_BYTES: u64 = 256 << 20;

/// An archive whose parts are read one by one.
pub(crate) struct Package<'a> {
    archive: ZipArchive<Cursor<&'a [u8]>>,
    room: u64,
}

impl<'a> Package<'a> {
    pub(crate) fn open(bytes: &'a [u8]) -> Result<Self, FileDecodeError> {
        let archive = ZipArchive::new(Cursor::new(bytes)).map_err(zip_error)?;
        if archive.len() > MAX_ENTRIES {
            let message = format!("it is an archive of {} entries; at most {MAX_ENTRIES} are read", archive.len());
            return Err(FileDecodeError::TooLarge(message));
        }
        Ok(Self { archive, room: MAX_READ_BYTES })
    }

    /// The names of its parts, in the order of the archive. One that is no text is left out.
    pub(crate) fn names(&self) -> Vec<String> {
        self.archive.file_names().filter_map(|name| Some(name.ok()?.into_owned())).collect()
    }

    pub(crate) fn has_part(&self, name: &str) -> bool {
        self.archive.index_for_name(name).is_some()
    }

    /// Reads a part; an error if there is none.
    pub(crate) fn read_part(&mut self, name: &str) -> Result<Vec<u8>, FileDecodeError> {
        let limit = MAX_PART_BYTES.min(self.room);
        let mut content = Vec::new();
        let part = self.archive.by_name(name).map_err(zip_error)?;
        part.take(limit + 1).read_to_end(&mut content).map_err(FileDecodeError::damaged)?;
        if content.len() as u64 > limit {
            // What was decompressed in vain counts, too: no further part is read.
            self.room = 0;
            let message = format!("it decompresses to more than {} MB", limit >> 20);
            return Err(FileDecodeError::TooLarge(message));
        }
        self.room -= content.len() as u64;
        Ok(content)
    }

    /// Reads a part, if there is one.
    pub(crate) fn read_part_if_any(&mut self, name: &str) -> Result<Option<Vec<u8>>, FileDecodeError> {
        if self.has_part(name) { self.read_part(name).map(Some) } else { Ok(None) }
    }

    /// Checks what the archive declares, for a library that believes it.
    pub(crate) fn check_declared_size(&mut self) -> Result<(), FileDecodeError> {
        let mut declared = 0_u64;
        for index in 0..self.archive.len() {
            declared = declared.saturating_add(self.archive.by_index_raw(index).map_err(zip_error)?.size());
        }
        if declared > MAX_DECLARED_BYTES {
            let limit = MAX_DECLARED_BYTES >> 20;
            return Err(FileDecodeError::TooLarge(format!(
                "it decompresses to {} MB; at most {limit} MB are read",
                declared >> 20
            )));
        }
        Ok(())
    }
}

fn zip_error(error: ZipError) -> FileDecodeError {
    match error {
        ZipError::UnsupportedArchive(reason) if reason == ZipError::PASSWORD_REQUIRED => FileDecodeError::Protected,
        ZipError::FileNotFound => FileDecodeError::damaged("a part of it is missing"),
        error => FileDecodeError::damaged(error),
    }
}

/// Resolves a reference of a part to another one, relative to the directory of the first.
pub(crate) fn resolve_reference(from: &str, reference: &str) -> String {
    let reference = reference.split(['#', '?']).next().unwrap_or_default();
    let directory = from.rsplit_once('/').map_or("", |(directory, _)| directory);
    let mut path: Vec<&str> = Vec::new();
    let base = if reference.starts_with('/') { "" } else { directory };
    for segment in base.split('/').chain(reference.split('/')) {
        match segment {
            "" | "." => {}
            ".." => drop(path.pop()),
            segment => path.push(segment),
        }
    }
    decode_percent(&path.join("/"))
}

fn decode_percent(path: &str) -> String {
    let bytes = path.as_bytes();
    let (mut decoded, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        let code = (*byte == b'%').then(|| path.get(at + 1..at + 3)).flatten();
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(code) => {
                decoded.push(code);
                at += 3;
            }
            None => {
                decoded.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::zip_archive;

    #[test]
    fn references_are_resolved() {
        for (from, reference, expected) in [
            ("OEBPS/content.opf", "text/ch%201.xhtml#top", "OEBPS/text/ch 1.xhtml"),
            ("ppt/slides/slide1.xml", "../notesSlides/notesSlide1.xml", "ppt/notesSlides/notesSlide1.xml"),
            ("ppt/presentation.xml", "/ppt/slides/slide2.xml", "ppt/slides/slide2.xml"),
            ("content.opf", "../../a.xhtml", "a.xhtml"),
            ("content.opf", "100%", "100%"),
        ] {
            assert_eq!(resolve_reference(from, reference), expected);
        }
    }

    #[test]
    fn bomb_is_refused_when_it_exceeds_the_limit() {
        let bomb = zip_archive(&[("word/document.xml", &vec![b' '; (MAX_PART_BYTES + 1) as usize])]);
        assert!(bomb.len() < 1 << 20);
        let mut package = Package::open(&bomb).unwrap();
        let error = package.read_part("word/document.xml").unwrap_err();
        assert_eq!(error.to_string(), "it decompresses to more than 64 MB");
        assert_eq!(package.check_declared_size(), Ok(()));
    }
}

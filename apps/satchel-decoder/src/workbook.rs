//! XLSX and XLS: a page for each sheet, cells separated by tabs.
//!
//! Cells of XLSX are streamed in the order of the file: calamine's own tables are as large as the file claims.

use std::io::Cursor;

use calamine::{Cell, Data, DataRef, ExcelDateTime, Reader, Xls, XlsError, Xlsx, XlsxError};

use crate::{
    error::FileDecodeError,
    package::Package,
    page_writer::{DecodedDocument, PageWriter},
    xml::{XmlToken, walk_xml},
};

/// The most distinct texts of a workbook: room for them is taken before they are read.
const MAX_SHARED_TEXTS: u64 = 2_000_000;

/// How many empty cells between two others are written; wider gaps are shortened.
const MAX_GAP_CELLS: u32 = 50;

/// The end of the name of the part with the texts of an XLSX; its directory is up to the file.
const SHARED_TEXTS: &str = "sharedstrings.xml";

/// Reads an XLSX.
pub(crate) fn read_workbook(bytes: &[u8], max_pages: u32) -> Result<DecodedDocument, FileDecodeError> {
    check_package(&mut Package::open(bytes)?)?;
    let mut workbook = Xlsx::new(Cursor::new(bytes)).map_err(xlsx_error)?;
    let mut writer = PageWriter::new(max_pages);
    for sheet in workbook.sheet_names() {
        if !writer.has_free_page() || writer.is_full() {
            writer.skip_pages(1);
            continue;
        }
        writer.push_str(&format!("Sheet: {sheet}\n"));
        if let Err(error) = write_cells(&mut workbook, &sheet, &mut writer) {
            writer.end_line();
            writer.push_str(&format!("[the rest of this sheet can't be read: {error}]"));
        }
        writer.end_page();
    }
    Ok(writer.into_paged())
}

/// Reads an XLS.
pub(crate) fn read_old_workbook(bytes: &[u8], max_pages: u32) -> Result<DecodedDocument, FileDecodeError> {
    let mut workbook = Xls::new(Cursor::new(bytes)).map_err(|error| match error {
        XlsError::Password => FileDecodeError::Protected,
        error => FileDecodeError::damaged(error),
    })?;
    let mut writer = PageWriter::new(max_pages);
    for sheet in workbook.sheet_names() {
        if !writer.has_free_page() || writer.is_full() {
            writer.skip_pages(1);
            continue;
        }
        writer.push_str(&format!("Sheet: {sheet}\n"));
        match workbook.worksheet_range(&sheet) {
            Ok(cells) => {
                let mut row_writer = RowWriter::default();
                for (row, column, value) in cells.used_cells() {
                    let position = (u32::try_from(row).unwrap_or(u32::MAX), u32::try_from(column).unwrap_or(u32::MAX));
                    row_writer.write(position, &format_owned(value), &mut writer);
                    if writer.is_full() {
                        break;
                    }
                }
            }
            Err(error) => writer.push_str(&format!("[this sheet can't be read: {error}]")),
        }
        writer.end_page();
    }
    Ok(writer.into_paged())
}

/// Checks what the library would believe.
fn check_package(package: &mut Package<'_>) -> Result<(), FileDecodeError> {
    package.check_declared_size()?;
    // The library finds the part in any spelling.
    let names = package.names();
    for name in names.iter().filter(|name| name.to_ascii_lowercase().ends_with(SHARED_TEXTS)) {
        let mut claimed = 0;
        walk_xml(&package.read_part(name)?, |token| {
            if let XmlToken::Start("sst", attributes) = token {
                claimed = attributes.value("uniqueCount").map_or(0, |count| count.trim().parse().unwrap_or(u64::MAX));
            }
            false
        })?;
        if claimed > MAX_SHARED_TEXTS {
            let message = format!("it claims {claimed} distinct texts; at most {MAX_SHARED_TEXTS} are read");
            return Err(FileDecodeError::TooLarge(message));
        }
    }
    Ok(())
}

fn write_cells(
    workbook: &mut Xlsx<Cursor<&[u8]>>,
    sheet: &str,
    writer: &mut PageWriter,
) -> Result<(), FileDecodeError> {
    let mut cells = workbook.worksheet_cells_reader(sheet).map_err(xlsx_error)?;
    let mut row_writer = RowWriter::default();
    while let Some(cell) = cells.next_cell().map_err(xlsx_error)? {
        row_writer.write(cell.get_position(), &format_cell(&cell), writer);
        if writer.is_full() {
            break;
        }
    }
    Ok(())
}

/// Places values in lines and behind tabs.
#[derive(Default)]
struct RowWriter {
    last: Option<(u32, u32)>,
}

impl RowWriter {
    fn write(&mut self, (row, column): (u32, u32), text: &str, writer: &mut PageWriter) {
        if text.is_empty() {
            return;
        }
        let column_gap = match self.last {
            Some((last_row, last_column)) if last_row == row => column.saturating_sub(last_column),
            _ => {
                writer.end_line();
                column
            }
        };
        (0..column_gap.min(MAX_GAP_CELLS)).for_each(|_| writer.push('\t'));
        writer.push_str(&text.replace(['\n', '\r', '\t'], " "));
        self.last = Some((row, column));
    }
}

fn format_cell(cell: &Cell<DataRef<'_>>) -> String {
    match cell.get_value() {
        DataRef::Int(value) => value.to_string(),
        DataRef::Float(value) => format_number(*value),
        DataRef::String(text) | DataRef::DateTimeIso(text) | DataRef::DurationIso(text) => text.clone(),
        DataRef::SharedString(text) => (*text).to_owned(),
        DataRef::Bool(value) => value.to_string(),
        DataRef::DateTime(time) => format_time(time),
        DataRef::Error(error) => error.to_string(),
        DataRef::Empty => String::new(),
    }
}

fn format_owned(value: &Data) -> String {
    match value {
        Data::Float(value) => format_number(*value),
        Data::DateTime(time) => format_time(time),
        value => value.to_string(),
    }
}

/// A number with the fifteen digits that spreadsheets calculate with.
fn format_number(value: f64) -> String {
    format!("{value:.14e}").parse::<f64>().unwrap_or(value).to_string()
}

fn format_time(time: &ExcelDateTime) -> String {
    let (year, month, day, hour, minute, second, _) = time.to_ymd_hms_milli();
    match time.as_f64() {
        days if time.is_duration() => {
            let seconds = (days * 86_400.0).round();
            let (hours, rest) = ((seconds / 3_600.0).trunc(), (seconds % 3_600.0).abs());
            format!("{hours}:{:02}:{:02}", (rest / 60.0).trunc(), rest % 60.0)
        }
        days if (0.0..1.0).contains(&days) => format!("{hour:02}:{minute:02}:{second:02}"),
        days if days.fract() == 0.0 => format!("{year:04}-{month:02}-{day:02}"),
        _ => format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"),
    }
}

fn xlsx_error(error: XlsxError) -> FileDecodeError {
    match error {
        XlsxError::Password => FileDecodeError::Protected,
        error => FileDecodeError::damaged(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{xlsx, zip_archive};

    fn read(sheet: &str, shared: &str) -> Result<Vec<String>, FileDecodeError> {
        read_workbook(&xlsx(sheet, shared), 200).map(|document| document.pages)
    }

    #[test]
    fn cells_are_read_with_dates_and_gaps() {
        let sheet = "<row r='1'><c r='A1' t='s'><v>0</v></c><c r='C1' t='inlineStr'><is><t>in\nline</t></is></c></row>\
                     <row r='3'><c r='B3'><v>0.30000000000000004</v></c><c r='C3' s='1'><v>45418</v></c>\
                     <c r='D3' t='b'><v>1</v></c><c r='E3' s='1'><v>45418.5</v></c></row>";
        let pages = read(sheet, "<sst uniqueCount='1'><si><t>Zähler</t></si></sst>").unwrap();
        assert_eq!(pages, ["Sheet: First\nZähler\t\tin line\n\t0.3\t2024-05-06\ttrue\t2024-05-06 12:00:00"]);
    }

    #[test]
    fn distant_cell_takes_no_room() {
        let pages = read("<row r='1048576'><c r='XFD1048576'><v>7</v></c></row>", "<sst/>").unwrap();
        assert_eq!(pages, [format!("Sheet: First\n{}7", "\t".repeat(MAX_GAP_CELLS as usize))]);
    }

    #[test]
    fn claimed_text_count_is_checked() {
        let error = read("", "<sst uniqueCount='4294967295'><si><t>a</t></si></sst>").unwrap_err();
        assert_eq!(error.to_string(), "it claims 4294967295 distinct texts; at most 2000000 are read");
    }

    #[test]
    fn damaged_workbooks_are_errors() {
        assert!(matches!(
            read_workbook(&zip_archive(&[("xl/workbook.xml", b"<a")]), 1),
            Err(FileDecodeError::Damaged(_))
        ));
        assert!(matches!(read_old_workbook(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 1), Err(FileDecodeError::Damaged(_))));
    }
}

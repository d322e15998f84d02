//! EML: the headers that a person sees, the text, the names of the attachments, and messages within.

use mail_parser::{Address, Message, MessageParser, MimeHeaders, PartType};

use crate::{
    error::FileDecodeError,
    html,
    page_writer::{DecodedDocument, PageWriter},
};

/// The most messages within messages that a file may hold: the parser calls itself for each.
const MAX_NESTED_MESSAGES: usize = 50;

/// How many levels of messages are read.
const MAX_READ_LEVELS: usize = 3;

/// How many addresses of a header are written.
const MAX_ADDRESSES: usize = 100;

/// Reads an EML.
pub(crate) fn read_mail(bytes: &[u8], max_pages: u32) -> Result<DecodedDocument, FileDecodeError> {
    let nested = count_nested_messages(bytes);
    if nested > MAX_NESTED_MESSAGES {
        let message = format!("it holds {nested} messages within messages; at most {MAX_NESTED_MESSAGES} are read");
        return Err(FileDecodeError::TooLarge(message));
    }
    let message = MessageParser::default().parse(bytes).ok_or_else(|| FileDecodeError::damaged("it has no headers"))?;
    let mut writer = PageWriter::new(max_pages);
    write_message(&message, 1, &mut writer);
    Ok(writer.into_flow())
}

/// Counts the parts whose type is that of a message, wherever their headers are.
fn count_nested_messages(bytes: &[u8]) -> usize {
    const HEADER: &[u8] = b"content-type:";
    const MESSAGE: &[u8] = b"message/";
    let mut is_type = false;
    let is_message = |line: &&[u8]| {
        let is_header = line.get(..HEADER.len()).is_some_and(|start| start.eq_ignore_ascii_case(HEADER));
        // A header goes on in lines that begin with a space.
        is_type = is_header || (is_type && line.first().is_some_and(|first| matches!(first, b' ' | b'\t')));
        is_type && line.windows(MESSAGE.len()).any(|window| window.eq_ignore_ascii_case(MESSAGE))
    };
    bytes.split(|byte| *byte == b'\n').filter(is_message).count()
}

fn write_message(message: &Message<'_>, level: usize, writer: &mut PageWriter) {
    let headers = [
        ("From", message.from().map(format_addresses)),
        ("To", message.to().map(format_addresses)),
        ("Cc", message.cc().map(format_addresses)),
        ("Date", message.date().map(mail_parser::DateTime::to_rfc3339)),
        ("Subject", message.subject().map(str::to_owned)),
    ];
    for (name, value) in headers {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            writer.push_str(&format!("{name}: {}\n", value.replace(['\n', '\r'], " ")));
        }
    }
    writer.push('\n');
    for index in 0..u32::try_from(message.text_body_count()).unwrap_or(u32::MAX) {
        match message.text_part(index).map(|part| &part.body) {
            Some(PartType::Html(text)) => html::write_html(text.as_bytes(), Some("utf-8"), writer),
            Some(PartType::Text(text)) => writer.push_str(text),
            _ => {}
        }
        writer.end_paragraph();
    }
    for attachment in message.attachments() {
        let name = attachment.attachment_name().unwrap_or("without a name");
        writer.push_str(&format!("[attachment: {name}, {} bytes]\n", attachment.len()));
        if let Some(inner) = attachment.message().filter(|_| level < MAX_READ_LEVELS && !writer.is_full()) {
            write_message(inner, level + 1, writer);
        }
    }
}

fn format_addresses(addresses: &Address<'_>) -> String {
    let format = |address: &mail_parser::Addr<'_>| match (address.name(), address.address()) {
        (Some(name), Some(address)) => format!("{name} <{address}>"),
        (name, address) => name.or(address).unwrap_or_default().to_owned(),
    };
    let mut formatted: Vec<String> = addresses.iter().take(MAX_ADDRESSES).map(format).collect();
    let more = addresses.iter().skip(MAX_ADDRESSES).count();
    if more > 0 {
        formatted.push(format!("and {more} more"));
    }
    formatted.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_text_and_attachments_are_read() {
        let mail = "From: =?utf-8?q?Ren=C3=A9?= <rene@example.org>\r\nTo: a@example.org, b@example.org\r\n\
            Date: Tue, 1 Jul 2025 10:00:00 +0200\r\nSubject: =?windows-1251?B?z/Do4uXy?=\r\nMIME-Version: 1.0\r\n\
            Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\nContent-Type: text/html; charset=iso-8859-1\r\n\
            Content-Transfer-Encoding: quoted-printable\r\n\r\n<p>caf=E9</p>\r\n--x\r\nContent-Type: image/png\r\n\
            Content-Disposition: attachment; filename=a.png\r\nContent-Transfer-Encoding: base64\r\n\r\nAAAA\r\n--x\r\n\
            Content-Type: message/rfc822\r\n\r\nSubject: inner\r\n\r\nforwarded\r\n--x--\r\n";
        let document = read_mail(mail.as_bytes(), 9).unwrap();
        let expected = "From: René <rene@example.org>\nTo: a@example.org, b@example.org\nDate: 2025-07-01T10:00:00+02:00\n\
            Subject: Привет\n\ncafé\n\n[attachment: a.png, 3 bytes]\n[attachment: without a name, 27 bytes]\nSubject: inner\n\nforwarded";
        assert_eq!(document.pages, [expected]);
    }

    #[test]
    fn nested_messages_are_limited() {
        let mail = "Content-Type: message/rfc822\r\n\r\n".repeat(100_000);
        let error = read_mail(mail.as_bytes(), 9).unwrap_err();
        assert_eq!(error.to_string(), "it holds 100000 messages within messages; at most 50 are read");
    }

    #[test]
    fn links_to_messages_are_no_messages() {
        let mail = format!("Subject: news\r\n\r\n{}", "https://lists.example/message/ABC\r\n".repeat(100));
        assert!(read_mail(mail.as_bytes(), 9).unwrap().pages[0].contains("/message/ABC"));
        let folded = "Content-Type:\r\n MESSAGE/rfc822\r\n\r\n".repeat(51);
        assert!(matches!(read_mail(folded.as_bytes(), 9), Err(FileDecodeError::TooLarge(_))));
    }

    #[test]
    fn long_address_lists_are_cut() {
        let mail = format!("To: {}\r\n\r\nhi", "a@example.org, ".repeat(1_000));
        let page = read_mail(mail.as_bytes(), 1).unwrap().pages.remove(0);
        assert!(page.contains("a@example.org, and 900 more"), "{page}");
    }
}

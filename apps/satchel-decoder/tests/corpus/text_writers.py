"""Writers of books, rich text, pages of HTML, and mails."""

import io
from email.message import EmailMessage
from email.policy import SMTP

import docutils.core
import lxml.html
import rtfunicode  # noqa: F401, the codec
from ebooklib import epub
from PyRTF.Elements import Document, Renderer, Section
from PyRTF.document.paragraph import Paragraph

from blocks import Block, as_html, as_restructured_text, notes_as_paragraphs
from office_writers import pandoc


def pandoc_epub(blocks: list[Block]) -> bytes:
    return pandoc(notes_as_paragraphs(blocks), "epub3", "--metadata=title:-", "--epub-title-page=false")


def ebooklib(blocks: list[Block]) -> bytes:
    """Two chapters, of which the second is first in the archive."""
    book = epub.EpubBook()
    book.set_identifier("corpus")
    book.set_title(blocks[0].text)
    half = len(blocks) // 2
    chapters = []
    for number, part in enumerate((blocks[:half], blocks[half:])):
        chapter = epub.EpubHtml(title=f"{number}", file_name=f"{1 - number}.xhtml", content=as_html(part))
        book.add_item(chapter)
        chapters.append(chapter)
    book.spine = chapters
    book.add_item(epub.EpubNcx())
    output = io.BytesIO()
    epub.write_epub(output, book)
    return output.getvalue()


def pandoc_rtf(blocks: list[Block]) -> bytes:
    return pandoc(blocks, "rtf", "--standalone")


def pyrtf(blocks: list[Block]) -> bytes:
    document = Document()
    section = Section()
    document.Sections.append(section)
    for block in notes_as_paragraphs(blocks):
        section.append(Paragraph(block.text.encode("rtfunicode").decode("ascii")))
    output = io.StringIO()
    Renderer().Write(document, output)
    return output.getvalue().encode("ascii")


def pandoc_html(blocks: list[Block]) -> bytes:
    return pandoc(notes_as_paragraphs(blocks), "html", "--standalone", "--metadata=title:-")


def docutils_html(blocks: list[Block]) -> bytes:
    options = {"output_encoding": "utf-8", "embed_stylesheet": False, "doctitle_xform": False}
    return docutils.core.publish_string(as_restructured_text(blocks), writer="html5", settings_overrides=options)


def lxml_html(blocks: list[Block], encoding: str) -> bytes:
    page = lxml.html.document_fromstring(f"<html><head></head><body>{as_html(blocks)}</body></html>")
    return lxml.html.tostring(page, encoding=encoding, include_meta_content_type=True, doctype="<!DOCTYPE html>")


def lxml_html_1251(blocks: list[Block]) -> bytes:
    return lxml_html(blocks, "windows-1251")


def lxml_html_1253(blocks: list[Block]) -> bytes:
    return lxml_html(blocks, "windows-1253")


def lxml_html_shift_jis(blocks: list[Block]) -> bytes:
    return lxml_html(blocks, "shift_jis")


def lxml_html_latin1(blocks: list[Block]) -> bytes:
    return lxml_html(blocks, "iso-8859-1")


def mail(blocks: list[Block]) -> EmailMessage:
    """The title is the subject."""
    message = EmailMessage(policy=SMTP)
    message["From"] = "Zoë Ångström <zoe@example.org>"
    message["To"] = "office@example.org"
    message["Date"] = "Tue, 14 May 2024 19:30:00 +0200"
    message["Subject"] = blocks[0].text
    return message


def body(blocks: list[Block]) -> str:
    return "\n\n".join(" ".join(block.cells) or block.text for block in notes_as_paragraphs(blocks)[1:]) + "\n"


def mail_plain_8bit(blocks: list[Block]) -> bytes:
    message = mail(blocks)
    message.set_content(body(blocks), charset="koi8-r", cte="8bit")
    return message.as_bytes()


def mail_quoted_printable(blocks: list[Block]) -> bytes:
    message = mail(blocks)
    message.set_content(body(blocks), charset="iso-8859-15", cte="quoted-printable")
    return message.as_bytes()


def mail_alternative_base64(blocks: list[Block]) -> bytes:
    """The same as text and as HTML."""
    message = mail(blocks)
    message.set_content(body(blocks), cte="base64")
    message.add_alternative(as_html(blocks[1:]), subtype="html", cte="base64")
    return message.as_bytes()


def mail_with_attachment(blocks: list[Block]) -> bytes:
    """HTML alone, and a file beside it."""
    message = mail(blocks)
    message.set_content(as_html(blocks[1:]), subtype="html", cte="quoted-printable")
    message.add_attachment(bytes(200), maintype="application", subtype="octet-stream", filename="Übersicht.bin")
    return message.as_bytes()

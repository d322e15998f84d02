"""Writes the corpus: each text of `texts/` through independent writers, with the words that the author put in beside it.

    pip install -r requirements.txt && python generate.py

A text is one line per block: `# ` and `## ` headings, `- ` items, `| cells |`, `[header]`, `[footer]`, paragraphs, and
`[note]` in a paragraph before its footnote. Fonts are the system's DejaVu, and Noto Sans CJK from a package.
"""

import re
from pathlib import Path

import office_writers as office
import pdf_writers as pdf
import text_writers as text
from blocks import Block, golden_text, read_blocks

FOLDER = Path(__file__).parent

# Which writer writes which texts.
DOCUMENTS = {
    "pdf": {
        pdf.reportlab_dejavu: "invoice minutes letter lease notice leaflet",
        pdf.reportlab_columns: "report recipe newsletter",
        pdf.reportlab_unembedded_cjk: "handbook itinerary guide",
        pdf.reportlab_rotated: "timetable schedule",
        pdf.fpdf2: "almanac charter tenancy",
        pdf.weasyprint: "bulletin invitation curriculum manual",
        pdf.typst: "report notice invitation minutes",
        pdf.pymupdf_story: "letter",
        pdf.matplotlib_type3: "recipe",
        pdf.pikepdf_rc4: "invoice",
        pdf.pikepdf_aes128: "lease",
        pdf.pikepdf_aes256: "inventory",
        pdf.pypdf_merged: "charter",
    },
    "docx": {
        office.python_docx: "invoice minutes letter lease notice bulletin timetable",
        office.pandoc_docx: "report recipe invitation handbook itinerary curriculum tenancy schedule",
    },
    "xlsx": {
        office.openpyxl: "accounts invoice timetable lease",
        office.xlsxwriter: "inventory schedule minutes itinerary",
    },
    "xls": {office.xlwt: "accounts leaflet"},
    "pptx": {
        office.python_pptx: "report notice guide curriculum",
        office.pandoc_pptx: "minutes newsletter bulletin timetable",
    },
    "odt": {office.odfpy_text: "invoice recipe", office.pandoc_odt: "report lease"},
    "ods": {office.odfpy_sheet: "accounts timetable"},
    "odp": {office.odfpy_slides: "leaflet manual"},
    "epub": {text.ebooklib: "recipe handbook charter", text.pandoc_epub: "letter notice invitation"},
    "rtf": {text.pandoc_rtf: "minutes lease schedule", text.pyrtf: "letter leaflet"},
    "html": {
        text.pandoc_html: "invoice itinerary",
        text.docutils_html: "minutes bulletin",
        text.lxml_html_1251: "lease",
        text.lxml_html_1253: "notice",
        text.lxml_html_shift_jis: "itinerary",
        text.lxml_html_latin1: "newsletter",
    },
    "eml": {
        text.mail_plain_8bit: "lease",
        text.mail_quoted_printable: "letter recipe",
        text.mail_alternative_base64: "notice itinerary",
        text.mail_with_attachment: "invoice",
    },
}

# Which code page each text is encoded in.
CODE_PAGES = {
    "cp1252": "letter", "cp1251": "lease", "koi8-r": "lease", "shift_jis": "itinerary", "euc-jp": "itinerary",
    "gb18030": "handbook", "big5": "manual", "euc-kr": "guide", "cp1253": "notice", "cp1255": "invitation",
    "cp1256": "bulletin", "iso8859-2": "leaflet", "cp1254": "schedule", "utf-16": "tenancy", "utf-16-le": "minutes",
    "cp437": "inventory", "mac-roman": "recipe",
}

# What these writers have no place for.
WITHOUT_PAGES = {"xlsx", "xls", "pptx", "ods", "odp", "epub", "rtf", "html", "eml", "txt"}


def blocks_for(family: str, name: str, writer: str) -> list[Block]:
    blocks = read_blocks(FOLDER / "texts" / f"{name}.txt")
    has_pages = family not in WITHOUT_PAGES and not re.match("pandoc|odfpy|pymupdf|matplotlib", writer)
    return blocks if has_pages else [block for block in blocks if block.kind not in ("header", "footer")]


def save(family: str, name: str, content: bytes, blocks: list[Block]) -> None:
    folder = FOLDER / family
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.{family}").write_bytes(content)
    (folder / f"{name}.golden").write_text(golden_text(blocks))


def main() -> None:
    for family, by_writer in DOCUMENTS.items():
        for writer, names in by_writer.items():
            for name in names.split():
                blocks = blocks_for(family, name, writer.__name__)
                save(family, f"{name}-{writer.__name__.replace('_', '-')}", writer(blocks), blocks)
    for code_page, name in CODE_PAGES.items():
        blocks = blocks_for("txt", name, code_page)
        # Letters that the code page lacks are ones that its author didn't have.
        content = golden_text(blocks).encode(code_page, "ignore")
        save("txt", f"{name}-{code_page}", content, [Block("paragraph", content.decode(code_page))])


if __name__ == "__main__":
    main()

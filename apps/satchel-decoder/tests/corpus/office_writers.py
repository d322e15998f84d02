"""Writers of office documents: text, sheets and slides in the new formats, and sheets in an old one."""

import datetime
import io
import re
import tempfile
from pathlib import Path

import docx
import odf.opendocument
import odf.draw
import odf.style
import odf.table
import odf.text
import openpyxl as openpyxl_library
import pptx
import pypandoc
import xlsxwriter as xlsxwriter_library
import xlwt as xlwt_library
from pptx.util import Cm

from blocks import Block, as_markdown, groups, notes_as_paragraphs


def pandoc(blocks: list[Block], output_format: str, *arguments: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "document"
        pypandoc.convert_text(as_markdown(blocks), output_format, "markdown-smart", extra_args=arguments,
                              outputfile=str(path))
        return path.read_bytes()


def pandoc_docx(blocks: list[Block]) -> bytes:
    return pandoc(blocks, "docx")


def pandoc_pptx(blocks: list[Block]) -> bytes:
    return pandoc(notes_as_paragraphs(blocks), "pptx", "--slide-level=2")


def pandoc_odt(blocks: list[Block]) -> bytes:
    return pandoc(blocks, "odt")


def python_docx(blocks: list[Block]) -> bytes:
    document = docx.Document()
    drop_ballast(document.part.package.rels, document.part.rels)
    styles = {"title": "Title", "heading": "Heading 1", "item": "List Bullet"}
    for group in groups(blocks):
        kind = group[0].kind
        if kind in ("header", "footer"):
            getattr(document.sections[0], kind).paragraphs[0].text = group[0].text
        elif kind == "row":
            table = document.add_table(len(group), len(group[0].cells), style="Table Grid")
            for cells, row in zip(table.rows, group):
                for cell, text in zip(cells.cells, row.cells):
                    cell.text = text
        else:
            for block in group:
                # Words are often cut into runs, as a spelling checker leaves them.
                paragraph = document.add_paragraph(block.text[:7], styles.get(block.kind))
                run = paragraph.add_run(block.text[7:])
                if block.note:
                    document.add_comment(run, block.note, author="")
    return saved(document)


def drop_ballast(*relations) -> None:
    """What every template carries along and no reader looks at."""
    for relation in relations:
        for key in [key for key, value in relation.items() if value.reltype.endswith(("thumbnail", "WithEffects", "theme"))]:
            del relation[key]


def saved(document) -> bytes:
    output = io.BytesIO()
    document.save(output)
    return output.getvalue()


def value_of(cell: str) -> str | float | datetime.date:
    """Numbers and dates are such in a sheet."""
    if re.fullmatch(r"\d{4}-\d\d-\d\d", cell):
        return datetime.date.fromisoformat(cell)
    return float(cell) if re.fullmatch(r"(0|[1-9]\d*)(\.\d*[1-9])?", cell) else cell


def rows_of(blocks: list[Block]) -> list[list]:
    return [[value_of(cell) for cell in block.cells or (block.text,)] for block in notes_as_paragraphs(blocks)]


def openpyxl(blocks: list[Block]) -> bytes:
    workbook = openpyxl_library.Workbook()
    for row in rows_of(blocks):
        workbook.active.append(row)
    return saved(workbook)


def xlsxwriter(blocks: list[Block]) -> bytes:
    """Its texts are shared; each second row is on a second sheet."""
    output = io.BytesIO()
    workbook = xlsxwriter_library.Workbook(output)
    date = workbook.add_format({"num_format": "dd.mm.yyyy"})
    sheets = [workbook.add_worksheet(), workbook.add_worksheet()]
    for number, row in enumerate(rows_of(blocks)):
        for column, value in enumerate(row):
            arguments = (date,) if isinstance(value, datetime.date) else ()
            sheets[number % 2].write(number, column, value, *arguments)
    workbook.close()
    return output.getvalue()


def xlwt(blocks: list[Block]) -> bytes:
    workbook = xlwt_library.Workbook(encoding="utf-8")
    sheet = workbook.add_sheet("Sheet")
    date = xlwt_library.easyxf(num_format_str="YYYY-MM-DD")
    for number, row in enumerate(rows_of(blocks)):
        for column, value in enumerate(row):
            sheet.write(number, column, value, *((date,) if isinstance(value, datetime.date) else ()))
    return saved(workbook)


def python_pptx(blocks: list[Block]) -> bytes:
    presentation = pptx.Presentation()
    for layout in list(presentation.slide_layouts)[2:]:
        presentation.slide_layouts.remove(layout)
    for group in groups(blocks):
        if group[0].kind in ("title", "heading") or not presentation.slides:
            slide = presentation.slides.add_slide(presentation.slide_layouts[1])
            slide.shapes.title.text = group[0].text
        elif group[0].kind == "row":
            table = slide.shapes.add_table(len(group), len(group[0].cells), Cm(1), Cm(9), Cm(20), Cm(5)).table
            for cells, row in zip(table.rows, group):
                for cell, text in zip(cells.cells, row.cells):
                    cell.text = text
        else:
            for block in group:
                slide.placeholders[1].text_frame.add_paragraph().text = block.text
                if block.note:
                    slide.notes_slide.notes_text_frame.text = block.note
    return saved(presentation)


def odf_table(rows: list[list], name: str) -> odf.table.Table:
    table = odf.table.Table(name=name)
    for values in rows:
        row = odf.table.TableRow()
        for value in values:
            cell = odf.table.TableCell(valuetype="string")
            shown = f"{value:g}" if isinstance(value, float) else str(value)
            cell.addElement(odf.text.P(text=shown))
            row.addElement(cell)
        table.addElement(row)
    return table


def odfpy_text(blocks: list[Block]) -> bytes:
    document = odf.opendocument.OpenDocumentText()
    for group in groups(notes_as_paragraphs(blocks)):
        if group[0].kind == "row":
            document.text.addElement(odf_table([list(row.cells) for row in group], "Table"))
        elif group[0].kind in ("title", "heading"):
            document.text.addElement(odf.text.H(outlinelevel=1, text=group[0].text))
        else:
            for block in group:
                paragraph = odf.text.P()
                for number, word in enumerate(block.text.split(" ")):
                    if number:
                        paragraph.addElement(odf.text.S())
                    paragraph.addElement(odf.text.Span(text=word))
                document.text.addElement(paragraph)
    return saved(document)


def odfpy_sheet(blocks: list[Block]) -> bytes:
    document = odf.opendocument.OpenDocumentSpreadsheet()
    document.spreadsheet.addElement(odf_table(rows_of(blocks), "Sheet"))
    return saved(document)


def odfpy_slides(blocks: list[Block]) -> bytes:
    document = odf.opendocument.OpenDocumentPresentation()
    layout = odf.style.PageLayout(name="Layout")
    document.automaticstyles.addElement(layout)
    master = odf.style.MasterPage(name="Master", pagelayoutname=layout)
    document.masterstyles.addElement(master)
    for block in notes_as_paragraphs(blocks):
        page = odf.draw.Page(masterpagename=master)
        frame, box = odf.draw.Frame(width="20cm", height="5cm", x="1cm", y="1cm"), odf.draw.TextBox()
        box.addElement(odf.text.P(text=block.text))
        frame.addElement(box)
        page.addElement(frame)
        document.presentation.addElement(page)
    return saved(document)

"""Writers of PDF: seven engines, embedded subsets and fonts that are not embedded, encryption, turned pages."""

import functools
import io
import tempfile
from pathlib import Path

import cvttf_NotoSansCJK_Regular
import fpdf
import pikepdf
import pymupdf
import pypdf
import reportlab.rl_config
import typst as typst_compiler
import weasyprint as weasyprint_engine
from fontTools import subset
from reportlab.lib.pagesizes import A5, landscape
from reportlab.lib.styles import ParagraphStyle
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.platypus import BaseDocTemplate, Frame, PageTemplate, Paragraph, Spacer, Table

from blocks import Block, as_html, groups, notes_as_paragraphs

DEJAVU = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"
CJK_FONT = next(Path(cvttf_NotoSansCJK_Regular.__file__).parent.glob("*.otf"))
SIZES = {"title": 15, "heading": 12}

reportlab.rl_config.invariant = 1


@functools.cache
def small_font(path: str, letters: str) -> str:
    """The font with these letters alone, and without hints, which keeps the corpus small."""
    options = subset.Options(hinting=False, layout_features=["*"])
    font = subset.load_font(path, options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(text=letters + "•–1234567890-")
    subsetter.subset(font)
    small = Path(tempfile.mkdtemp()) / Path(path).name
    subset.save_font(font, str(small), options)
    return str(small)


def small_dejavu() -> str:
    """One for all texts: reportlab remembers a font by its name."""
    texts = Path(__file__).parent.glob("texts/*.txt")
    path = small_font(DEJAVU, "".join(text.read_text() for text in sorted(texts)))
    pdfmetrics.registerFont(TTFont("DejaVu", path))
    return path


def text_of(blocks: list[Block], kind: str) -> str:
    return next((block.text for block in blocks if block.kind == kind), "")


def body_of(blocks: list[Block]) -> list[Block]:
    return [block for block in notes_as_paragraphs(blocks) if block.kind not in ("header", "footer")]


def is_rtl(blocks: list[Block]) -> bool:
    return any("\u0590" <= letter <= "\u06ff" for letter in blocks[0].text)


def reportlab(blocks: list[Block], font: str, columns: int = 1, size=A5, rotation: int = 0, wrap: str = "") -> bytes:
    """Platypus with a header and a footer on the first page."""

    def draw_page(canvas, document) -> None:
        canvas.setPageRotation(rotation)
        canvas.setFont(font, 8)
        if document.page == 1:
            canvas.drawString(36, size[1] - 24, text_of(blocks, "header"))
            canvas.drawRightString(size[0] - 36, 20, text_of(blocks, "footer"))

    flowables = []
    for group in groups(body_of(blocks)):
        style = lambda kind: ParagraphStyle(kind, None, fontName=font, fontSize=SIZES.get(kind, 9.5),
                                            leading=SIZES.get(kind, 9.5) * 1.4, spaceAfter=4, wordWrap=wrap or None)
        escaped = lambda text: text.replace("&", "&amp;").replace("<", "&lt;")
        if group[0].kind == "row":
            rows = [[Paragraph(escaped(cell), style("cell")) for cell in row.cells] for row in group]
            flowables += [Table(rows, style=[("GRID", (0, 0), (-1, -1), 0.3, "black")]), Spacer(1, 6)]
            continue
        for block in group:
            bullet = "•" if block.kind == "item" else None
            flowables.append(Paragraph(escaped(block.text), style(block.kind), bulletText=bullet))
    output = io.BytesIO()
    document = BaseDocTemplate(output, pagesize=size)
    width = (size[0] - 72) / columns
    frames = [Frame(36 + width * column, 36, width, size[1] - 72) for column in range(columns)]
    document.addPageTemplates(PageTemplate(frames=frames, onPage=draw_page))
    document.build(flowables)
    return output.getvalue()


def reportlab_dejavu(blocks: list[Block]) -> bytes:
    small_dejavu()
    return reportlab(blocks, "DejaVu")


def reportlab_columns(blocks: list[Block]) -> bytes:
    return reportlab(blocks, "Times-Roman", columns=2)


def reportlab_rotated(blocks: list[Block]) -> bytes:
    small_dejavu()
    return reportlab(blocks, "DejaVu", size=landscape(A5), rotation=90)


def reportlab_unembedded_cjk(blocks: list[Block]) -> bytes:
    sample = "".join(block.text for block in blocks)
    in_range = lambda first, last: any(first <= letter <= last for letter in sample)
    font = "HeiseiMin-W3" if in_range("ぁ", "ヿ") else "HYSMyeongJo-Medium" if in_range("가", "힣") else "STSong-Light"
    pdfmetrics.registerFont(UnicodeCIDFont(font))
    return reportlab(blocks, font, wrap="CJK")


def fpdf2(blocks: list[Block]) -> bytes:
    pdf = fpdf.FPDF(format="A5")
    pdf.add_font("DejaVu", fname=small_dejavu())
    pdf.set_text_shaping(True)
    pdf.add_page()
    for block in notes_as_paragraphs(blocks):
        pdf.set_font("DejaVu", size=SIZES.get(block.kind, 10))
        pdf.multi_cell(0, 6, ("– " if block.kind == "item" else "") + block.text, new_x="LMARGIN", new_y="NEXT")
    return bytes(pdf.output())


def weasyprint(blocks: list[Block]) -> bytes:
    """Pango shapes the text; objects are in compressed streams."""
    letters = "".join(block.text for block in blocks)
    fonts = f"@font-face {{ font-family: CJK; src: url(file://{small_font(str(CJK_FONT), letters)}) }}"
    style = fonts + "@page { size: A5 } body { font: 10pt 'DejaVu Sans', CJK }"
    page = f"<html dir={'rtl' if is_rtl(blocks) else 'ltr'}><style>{style}</style>{as_html(blocks)}"
    return weasyprint_engine.HTML(string=page).write_pdf()


def typst(blocks: list[Block]) -> bytes:
    quoted = lambda text: '#"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    direction = "rtl" if is_rtl(blocks) else "ltr"
    lines = [f'#set page(paper: "a6", margin: 1cm)\n#set text(dir: {direction})',
             '#set text(size: 9pt, font: ("New Computer Modern", "DejaVu Sans"))']
    for group in groups(notes_as_paragraphs(blocks)):
        if group[0].kind == "row":
            cells = ", ".join(f"[{quoted(cell)}]" for row in group for cell in row.cells)
            lines.append(f"#table(columns: {len(group[0].cells)}, {cells})")
            continue
        marks = {"title": "= ", "heading": "== ", "item": "- "}
        lines += [marks.get(block.kind, "") + quoted(block.text) + "\n" for block in group]
    return typst_compiler.compile("\n".join(lines).encode(), ignore_system_fonts=False)


def pymupdf_story(blocks: list[Block]) -> bytes:
    output = io.BytesIO()
    story, writer = pymupdf.Story(as_html(blocks)), pymupdf.DocumentWriter(output)
    more = True
    while more:
        device = writer.begin_page(pymupdf.paper_rect("a5"))
        more, _ = story.place(pymupdf.paper_rect("a5") + (36, 36, -36, -36))
        story.draw(device)
        writer.end_page()
    writer.close()
    document = pymupdf.open(stream=output.getvalue())
    document.subset_fonts()
    return document.tobytes(garbage=3, deflate=True)


def matplotlib_type3(blocks: list[Block]) -> bytes:
    """Each glyph is a drawing of its own, in a font of Type 3."""
    import textwrap

    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 8))
    lines = [line for block in notes_as_paragraphs(blocks) for line in textwrap.wrap(block.text, 70)]
    for number, line in enumerate(lines):
        figure.text(0.05, 0.97 - number * 0.03, line, fontsize=9, parse_math=False)
    output = io.BytesIO()
    figure.savefig(output, format="pdf", metadata={"CreationDate": None})
    return output.getvalue()


def rewritten(content: bytes, **options) -> bytes:
    output = io.BytesIO()
    with pikepdf.open(io.BytesIO(content)) as document:
        document.save(output, **options)
    return output.getvalue()


def pikepdf_rc4(blocks: list[Block]) -> bytes:
    """Anybody may read it; only the owner may change it."""
    return rewritten(reportlab_dejavu(blocks), encryption=pikepdf.Encryption(owner="owner", R=3, aes=False, metadata=False))


def pikepdf_aes128(blocks: list[Block]) -> bytes:
    encryption = pikepdf.Encryption(owner="owner", R=4)
    return rewritten(reportlab_dejavu(blocks), encryption=encryption, object_stream_mode=pikepdf.ObjectStreamMode.generate)


def pikepdf_aes256(blocks: list[Block]) -> bytes:
    return rewritten(reportlab_dejavu(blocks), encryption=pikepdf.Encryption(owner="owner", R=6), linearize=True)


def pypdf_merged(blocks: list[Block]) -> bytes:
    """A page of one document and a page of another, one of them turned by its transformation."""
    half = len(blocks) // 2
    writer = pypdf.PdfWriter()
    writer.append(io.BytesIO(reportlab_columns(blocks[:half])))
    writer.append(io.BytesIO(fpdf2(blocks[half:])))
    writer.pages[-1].add_transformation(pypdf.Transformation().rotate(90).translate(500, 0))
    output = io.BytesIO()
    writer.write(output)
    return output.getvalue()

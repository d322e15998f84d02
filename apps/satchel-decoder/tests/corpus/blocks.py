"""Reads the texts of the corpus as blocks, and renders them as the languages that several writers take."""

import html
import re
from dataclasses import dataclass
from pathlib import Path

MARKS = {"# ": "title", "## ": "heading", "- ": "item", "[header] ": "header", "[footer] ": "footer"}


@dataclass
class Block:
    kind: str
    text: str = ""
    note: str = ""
    cells: tuple[str, ...] = ()


def read_blocks(path: Path) -> list[Block]:
    return [read_block(line) for line in path.read_text().splitlines()]


def read_block(line: str) -> Block:
    if line.startswith("|"):
        return Block("row", cells=tuple(cell.strip() for cell in line.strip("|").split("|")))
    mark = next((mark for mark in MARKS if line.startswith(mark)), "")
    text, _, note = line.removeprefix(mark).partition("[note] ")
    return Block(MARKS.get(mark, "paragraph"), text, note)


def golden_text(blocks: list[Block]) -> str:
    lines = (part for block in blocks for part in (block.text, " ".join(block.cells), block.note) if part)
    return "\n".join(lines) + "\n"


def notes_as_paragraphs(blocks: list[Block]) -> list[Block]:
    """For writers without footnotes: the notes stand at the end."""
    notes = [Block("paragraph", block.note) for block in blocks if block.note]
    return [Block(block.kind, block.text, "", block.cells) for block in blocks] + notes


def groups(blocks: list[Block]) -> list[list[Block]]:
    """Successive rows and successive items as one group each; any other block is its own."""
    grouped: list[list[Block]] = []
    for block in blocks:
        if grouped and block.kind in ("row", "item") and grouped[-1][0].kind == block.kind:
            grouped[-1].append(block)
        else:
            grouped.append([block])
    return grouped


def as_html(blocks: list[Block]) -> str:
    tags = {"title": "h1", "heading": "h2", "item": "li"}
    parts = []
    for group in groups(notes_as_paragraphs(blocks)):
        if group[0].kind == "row":
            rows = ["".join(f"<td>{html.escape(cell)}</td>" for cell in row.cells) for row in group]
            parts.append("<table>" + "".join(f"<tr>{row}</tr>\n" for row in rows) + "</table>")
            continue
        tag = tags.get(group[0].kind, "p")
        lines = "".join(f"<{tag}>{html.escape(block.text)}</{tag}>\n" for block in group)
        parts.append(f"<ul>{lines}</ul>" if tag == "li" else lines)
    return "".join(parts)


def as_markdown(blocks: list[Block]) -> str:
    """Markdown as pandoc reads it, with its footnotes."""
    escape = lambda text: re.sub(r"([\\`*_{}\[\]<>#|~^$@])", r"\\\1", text)
    marks = {"title": "# ", "heading": "## ", "item": "- "}
    parts, notes = [], []
    for group in groups(blocks):
        if group[0].kind == "row":
            rows = ["| " + " | ".join(map(escape, row.cells)) + " |" for row in group]
            rows.insert(1, "|" + " --- |" * len(group[0].cells))
            parts.append("\n".join(rows))
            continue
        lines = []
        for block in group:
            reference = f"[^{len(notes) + 1}]" if block.note else ""
            notes += [escape(block.note)] if block.note else []
            lines.append(marks.get(block.kind, "") + escape(block.text) + reference)
        parts.append("\n".join(lines))
    parts += [f"[^{number}]: {note}" for number, note in enumerate(notes, 1)]
    return "\n\n".join(parts) + "\n"


def as_restructured_text(blocks: list[Block]) -> str:
    escape = lambda text: re.sub(r"([\\`*_|:])", r"\\\1", text)
    parts = []
    for group in groups(notes_as_paragraphs(blocks)):
        match group[0].kind:
            case "row":
                rows = ["   * - " + "\n     - ".join(map(escape, row.cells)) for row in group]
                parts.append(".. list-table::\n\n" + "\n".join(rows))
            case "title" | "heading" as kind:
                parts.append(escape(group[0].text) + "\n" + {"title": "=", "heading": "-"}[kind] * 200)
            case "item":
                parts.append("\n".join("- " + escape(block.text) for block in group))
            case _:
                # A first word such as "1." would be a list.
                parts.append(escape(group[0].text))
    return "\n\n".join(parts) + "\n"

"""TextView: how a text is shown (width, colours, amount of detail), and widths of text in columns."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Literal

COLOURS = {"PASSED": "32", "FAILED": "31", "INCONCLUSIVE": "33", "NOT RUN": "33", "heading": "1"}


@dataclass(frozen=True, slots=True)
class TextView:
    """The settings for showing a text.

    Attributes:
        columns: maximal width of tables.
        wrapped: True to limit other lines to this width, too. Otherwise each fact is one line, which a pipe can search.
        coloured: True to use the colours of a terminal.
        detail: `quiet` for the verdict lines only.
        every: True to show all tensors.
        top: number of tensors to show, those that differ most; None to show those around the first culprit.
        blocks: True if the output's encoding has block characters.
    """

    columns: int = 80
    wrapped: bool = False
    coloured: bool = False
    detail: Literal["quiet", "normal", "verbose"] = "normal"
    every: bool = False
    top: int | None = None
    blocks: bool = False

    def paint(self, text: str, kind: str) -> str:
        """Returns the text in the colour of a verdict, or as a heading."""
        code = COLOURS.get(kind) if self.coloured else None
        return f"\x1b[{code}m{text}\x1b[0m" if code and text else text

    def wrap(self, text: str) -> str:
        """Returns the text with long lines broken between words. Continuation lines are indented further."""
        if not self.wrapped:
            return text
        return "\n".join(line for paragraph in text.split("\n") for line in break_line(paragraph, self.columns))


def break_line(line: str, columns: int) -> list[str]:
    """Returns the line in pieces of at most `columns` columns. A longer word is cut."""
    if cells(line) <= columns:
        return [line]
    indent = " " * (len(line) - len(line.lstrip(" ")))
    pieces, words = [""], line.strip(" ").split(" ")
    room = max(columns - len(indent) - 2, 1)  # pieces after the first are indented by two more columns
    for word in words:
        joined = f"{pieces[-1]} {word}" if pieces[-1] else word
        if cells(joined) <= room + (2 if len(pieces) == 1 else 0):
            pieces[-1] = joined
            continue
        pieces += [word] if pieces[-1] else []
        pieces[-1] = pieces[-1] or word
        while cells(pieces[-1]) > room:
            head = cut(pieces[-1], room)
            pieces[-1:] = [head, pieces[-1][len(head) :]]
    return [f"{indent}{'  ' if number else ''}{piece}" for number, piece in enumerate(pieces)]


def cells(text: str) -> int:
    """Returns the number of columns that the text takes on a terminal."""
    return len(text) if text.isascii() else sum(_width(c) for c in text)


def _width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, room: int) -> str:
    """Returns the beginning of the text that takes at most `room` columns, at least one character."""
    used = 0
    for at, character in enumerate(text):
        used += _width(character)
        if used > room and at:
            return text[:at]
    return text

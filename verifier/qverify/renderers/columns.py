"""Draws tables that fit the terminal: empty columns are left out, names are shortened in the middle, and then the least
important columns are left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from qverify.renderers.shortened_names import shorten_all
from qverify.renderers.text_view import TextView, break_line, cells, cut

GAP = "  "
PREFERRED_NAME_WIDTH = 28  # columns of names are not made narrower while other columns can be left out
MIN_NAME_WIDTH = 8


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        head: its title.
        texts: one text for each row.
        short: title and texts in a shorter form, used if there is not enough room; () if there is none.
        right: True to align the texts to the right.
        name: True if the texts are names, which may be shortened.
        rank: the column with the highest rank is left out first if there is not enough room; 0 to never leave it out.
    """

    head: str
    texts: Sequence[str]
    short: Sequence[str] = ()
    right: bool = False
    name: bool = False
    rank: int = 0

    def __len__(self) -> int:
        return max(cells(self.head), *(cells(t) for t in self.texts), 0)


def draw(columns: Sequence[Column], view: TextView, between: Mapping[int, str] | None = None) -> tuple[list[str], str]:
    """Returns the lines of the table, which fit the view, and a text on the columns that are equal in all rows, which
    are left out ("" if there are none). between: lines of text by the number of the row that they precede; the number
    of rows stands for the end of the table."""
    shown, equal_text = _leave_out(list(columns))
    shown = _fit(shown, view.columns)
    widths = [len(c) for c in shown]
    rows = len(columns[0].texts)
    lines = [_join([c.head for c in shown], shown, widths), GAP.join("-" * w for w in widths)]
    for row in range(rows + 1):
        lines += break_line(f"... {between[row]}", view.columns) if between and row in between else []
        lines += [_join([c.texts[row] for c in shown], shown, widths)] if row < rows else []
    fitting = [cut(line, view.columns) for line in lines]
    return fitting, equal_text


def natural_width(columns: Sequence[Column]) -> int:
    """Returns the characters of a row in which nothing is shortened and nothing left out but empty and equal columns."""
    shown, _ = _leave_out(list(columns))
    return sum(len(c) for c in shown) + len(GAP) * (len(shown) - 1)


def render(columns: Sequence[Column], view: TextView) -> str:
    """Returns the table as text, with a line on the columns that are equal in all rows."""
    lines, equal_text = draw(columns, view)
    return "\n".join([*lines, *([view.wrap(f"in every row: {equal_text}")] if equal_text else [])])


def _leave_out(columns: list[Column]) -> tuple[list[Column], str]:
    """Returns the columns that are not empty and, if there are several rows, not equal in all of them; and a text on
    those that are equal."""
    filled = [c for c in columns if c.name or any(c.texts)]
    equal = [c for c in filled if not c.name and len(c.texts) > 1 and len(set(c.texts)) == 1]
    return [c for c in filled if c not in equal], ", ".join(f"{c.head} {c.texts[0]}" for c in equal)


def _fit(columns: list[Column], room: int) -> list[Column]:
    """Returns the columns, shortened or left out so that a row takes at most `room`."""
    name_columns = [c for c in columns if c.name]
    preferred_width = sum(min(len(c), PREFERRED_NAME_WIDTH) for c in name_columns)
    room_for_names = _room_for_names(columns, room)
    if room_for_names < sum(len(c) for c in name_columns):  # fewer words before names are touched
        columns = [replace(c, head=c.short[0], texts=c.short[1:]) if c.short else c for c in columns]
    while (room_for_names := _room_for_names(columns, room)) < preferred_width and any(c.rank for c in columns):
        columns.remove(max(columns, key=lambda c: c.rank))
    shares = _share(room_for_names, name_columns)
    return [replace(c, texts=shorten_all(c.texts, shares[c.head])) if c.name else c for c in columns]


def _share(room: int, named: Sequence[Column]) -> dict[str, int]:
    """Returns the room of each column of names, by title: the width that it needs, or an equal share if that is
    less."""
    shares = dict[str, int]()
    for left, column in zip(range(len(named), 0, -1), sorted(named, key=len), strict=True):
        shares[column.head] = max(min(len(column), (room - sum(shares.values())) // left), MIN_NAME_WIDTH)
    return shares


def _room_for_names(columns: Sequence[Column], room: int) -> int:
    return room - sum(len(c) for c in columns if not c.name) - len(GAP) * (len(columns) - 1)


def _join(texts: list[str], columns: Sequence[Column], widths: list[int]) -> str:
    """Returns one line of the table, padded to the widths of the columns."""
    padded = []
    for text, column, width in zip(texts, columns, widths, strict=True):
        blank = " " * (width - cells(text))
        padded.append(f"{blank}{text}" if column.right else f"{text}{blank}")
    return GAP.join(padded).rstrip(" ")

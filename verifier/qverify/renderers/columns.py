"""A table that fits the terminal: columns that say nothing go, names are shortened in the middle, then columns that say
least go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from qverify.renderers.shortened_names import shorten_all
from qverify.renderers.text_view import TextView, break_line, cells, cut

GAP = "  "
NARROW, NARROWEST = 28, 8  # of a name, before a column goes for it; when none is left that could


@dataclass(frozen=True, slots=True)
class Column:
    """head: its title. texts: one for each row. short: the same in fewer words, title first, used where room lacks.
    right: aligned to the right. name: its texts are names, which may be shortened. rank: the column of the highest rank
    goes first where room lacks; 0: it stays."""

    head: str
    texts: Sequence[str]
    short: Sequence[str] = ()
    right: bool = False
    name: bool = False
    rank: int = 0

    def __len__(self) -> int:
        return max(cells(self.head), *(cells(t) for t in self.texts), 0)


def draw(columns: Sequence[Column], view: TextView, between: Mapping[int, str] | None = None) -> tuple[list[str], str]:
    """Returns the lines of the table, no wider than the view, and what is the same in every row ("" for nothing), which
    is left out of it. between: lines of text by the row that they stand above; by the number of rows, below all."""
    shown, same = _leave_out(list(columns))
    shown = _fit(shown, view.columns)
    widths = [len(c) for c in shown]
    rows = len(columns[0].texts)
    lines = [_join([c.head for c in shown], shown, widths), GAP.join("-" * w for w in widths)]
    for row in range(rows + 1):
        lines += break_line(f"... {between[row]}", view.columns) if between and row in between else []
        lines += [_join([c.texts[row] for c in shown], shown, widths)] if row < rows else []
    fitting = [cut(line, view.columns) for line in lines]
    return fitting, same


def render(columns: Sequence[Column], view: TextView) -> str:
    """Returns the table as text, with a line on what is the same in every row."""
    lines, same = draw(columns, view)
    return "\n".join([*lines, *([view.wrap(f"in every row: {same}")] if same else [])])


def _leave_out(columns: list[Column]) -> tuple[list[Column], str]:
    """Returns the columns that are not empty and, with several rows, not all the same, and what those have in common."""
    filled = [c for c in columns if c.name or any(c.texts)]
    equal = [c for c in filled if not c.name and len(c.texts) > 1 and len(set(c.texts)) == 1]
    return [c for c in filled if c not in equal], ", ".join(f"{c.head} {c.texts[0]}" for c in equal)


def _fit(columns: list[Column], room: int) -> list[Column]:
    """Returns the columns, shortened and fewer, so that a row takes no more than `room`."""
    named = [c for c in columns if c.name]
    wanted = sum(min(len(c), NARROW) for c in named)
    left = _room_for_names(columns, room)
    if left < sum(len(c) for c in named):  # fewer words before names are touched
        columns = [replace(c, head=c.short[0], texts=c.short[1:]) if c.short else c for c in columns]
    while (left := _room_for_names(columns, room)) < wanted and any(c.rank for c in columns):
        columns.remove(max(columns, key=lambda c: c.rank))
    shares = _share(left, named)
    return [replace(c, texts=shorten_all(c.texts, shares[c.head])) if c.name else c for c in columns]


def _share(room: int, named: Sequence[Column]) -> dict[str, int]:
    """Returns the room of each column of names, by title: what it needs where that is less than an equal share."""
    shares = dict[str, int]()
    for left, column in zip(range(len(named), 0, -1), sorted(named, key=len), strict=True):
        shares[column.head] = max(min(len(column), (room - sum(shares.values())) // left), NARROWEST)
    return shares


def _room_for_names(columns: Sequence[Column], room: int) -> int:
    return room - sum(len(c) for c in columns if not c.name) - len(GAP) * (len(columns) - 1)


def _join(texts: list[str], columns: Sequence[Column], widths: list[int]) -> str:
    """Returns one line of the table."""
    padded = []
    for text, column, width in zip(texts, columns, widths, strict=True):
        blank = " " * (width - cells(text))
        padded.append(f"{blank}{text}" if column.right else f"{text}{blank}")
    return GAP.join(padded).rstrip(" ")

"""Renders boards as a table for people."""

from __future__ import annotations

from qverify.printable import visible
from qverify.renderers.columns import Column
from qverify.renderers.columns import render as render_table
from qverify.renderers.text_view import TextView

HEADS = ("board", "address", "runtime", "tags", "from")


def render(rows: list[list[str]], view: TextView) -> str:
    """Returns the table. rows: name, address, runtime, tags and origin of each board."""
    texts = list(zip(*visible(rows), strict=True))
    columns = [Column(head, cells, name=head in ("address", "from")) for head, cells in zip(HEADS, texts, strict=True)]
    return render_table(columns, view)

"""Renders boards as a table for people."""

from __future__ import annotations

from tabulate import tabulate


def render(rows: list[list[str]]) -> str:
    """Returns the table. rows: board, address, runtime, tags, where it comes from."""
    return tabulate(rows, ["board", "address", "runtime", "tags", "from"], disable_numparse=True)

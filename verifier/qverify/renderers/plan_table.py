"""Renders the plan of `qverify plan` as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qverify.renderers.columns import Column
from qverify.renderers.columns import render as render_table
from qverify.renderers.text_view import TextView


def render(rows: Sequence[Any], view: TextView) -> str:
    """Returns the table, and the assumptions on each link. rows: from session/other_jobs/plan.py."""
    columns = [
        Column("link", [r.link for r in rows], name=True),
        Column("first run", [_format(r.first_bytes, r.first_s) for r in rows], right=True),
        Column("cached", [_format(r.cached_bytes, r.cached_s) for r in rows], right=True),
        Column("all tensors pulled", [_format(r.everything_bytes, r.everything_s) for r in rows], right=True),
    ]
    assumed = [view.wrap(f"  {r.link}: {r.assumed}") for r in rows]
    return "\n".join([render_table(columns, view), "assumed of the links:", *assumed])


def _format(size_bytes: int, seconds: float) -> str:
    return f"{_format_size(size_bytes)} {_format_time(seconds):>7}"


def _format_size(count: int) -> str:
    return (
        f"{count} B" if count < 10_000 else f"{count / 1e3:.0f} kB" if count < 10_000_000 else f"{count / 1e6:.0f} MB"
    )


def _format_time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} min"

"""Renders the plan as a table for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tabulate import tabulate


def render(rows: Sequence[Any]) -> str:
    """Returns the table. rows: from session/plan.py."""
    lines = [
        [
            r.link,
            r.assumed,
            _format_size(r.first_bytes),
            _format_time(r.first_s),
            _format_size(r.cached_bytes),
            _format_time(r.cached_s),
            _format_size(r.everything_bytes),
            _format_time(r.everything_s),
        ]
        for r in rows
    ]
    head = ["link", "assumed", "first run", "", "cached", "", "all tensors pulled", ""]
    return tabulate(lines, head, disable_numparse=True, colalign=("left", "left", *["right"] * 6))


def _format_size(count: int) -> str:
    return (
        f"{count} B" if count < 10_000 else f"{count / 1e3:.0f} kB" if count < 10_000_000 else f"{count / 1e6:.0f} MB"
    )


def _format_time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} min"

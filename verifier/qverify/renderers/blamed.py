"""Renders the blamed side in two lines, and shortens a list of names."""

from __future__ import annotations

from collections.abc import Sequence

from qverify.report.document import Blame

MAX_SHOWN = 3  # names


def list_others(names: Sequence[str], shown: int = MAX_SHOWN) -> str:
    """Returns a text that lists further names, such as ", also a, b and 3 more", or "" if there are none."""
    if not names:
        return ""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return f", also {', '.join(names[:shown])}{more}"


def blame_line(blame: Blame) -> str:
    """Returns two lines: the side and its nodes, and the evidence."""
    return f"blame: {blame.side} {blame.place}{list_others(blame.also)}\n  {blame.why}"

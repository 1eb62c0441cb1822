"""Renders the blamed side in two or three lines, and shortens a list of names."""

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
    """Returns two lines: the side and its nodes, and the evidence; and a third one with the cause, if it is known."""
    cause = f"\n  {blame.cause.line}" if blame.cause is not None else ""
    return f"blame: {blame.side} {blame.place}{list_others(blame.also)}\n  {blame.why}{cause}"


def blame_in_one_line(blame: Blame) -> str:
    """Returns the side, its node, the evidence and the cause in one line."""
    cause = f"; {blame.cause.line}" if blame.cause is not None else ""
    return f"{blame.side} {blame.place}: {blame.why}{cause}"

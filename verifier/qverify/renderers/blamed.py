"""Who is to blame, in two lines; and a list of names that may be long."""

from __future__ import annotations

from collections.abc import Sequence

from qverify.report.document import Blame

SHOWN = 3


def also(names: Sequence[str], shown: int = SHOWN) -> str:
    """What is added to the first of several; nothing where it is the only one."""
    if not names:
        return ""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return f", also {', '.join(names[:shown])}{more}"


def blame_line(blame: Blame) -> str:
    return f"blame: {blame.side} at {blame.node}{also(blame.also)}\n  {blame.why}"

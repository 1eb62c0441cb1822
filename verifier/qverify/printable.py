"""Names and reasons that came from elsewhere, as they may stand in a line or in a report."""

from __future__ import annotations


def printable(text: str) -> str:
    """No line ends, no control characters: a `?` for each, so that two names stay two names. What a board or another program
    said is shown by qverify_agents.printable.one_line, which makes any white space one blank."""
    return "".join(c if c.isprintable() else "?" for c in text)

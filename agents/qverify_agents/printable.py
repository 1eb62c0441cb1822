"""Text of a board, a link or a file, made safe for a terminal."""

from __future__ import annotations


def one_line(text: str) -> str:
    """Returns the text in one line, with a question mark for every character that is not printable (an escape, a bell,
    a change of direction)."""
    return "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))


def last_line(said: str | bytes, otherwise: str = "") -> str:
    """Returns the last line of a program's output, usually the reason if it failed. otherwise: returned if there is no
    output."""
    text = said if isinstance(said, str) else said.decode(errors="replace")
    lines = text.strip().splitlines()
    return one_line(lines[-1])[:300] if lines else otherwise

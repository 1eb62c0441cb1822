"""What a board, a link or a file says, as a terminal may be shown it."""

from __future__ import annotations


def one_line(text: str) -> str:
    """One line; a character that prints nothing by itself (an escape, a bell, a change of direction) is a question mark."""
    return "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))


def last_line(said: str | bytes, otherwise: str = "") -> str:
    """Of what a program wrote: where it failed, mostly the reason. otherwise: where it wrote nothing."""
    text = said if isinstance(said, str) else said.decode(errors="replace")
    lines = text.strip().splitlines()
    return one_line(lines[-1])[:300] if lines else otherwise

"""Text of a board, a link or a file, made safe for a terminal."""

from __future__ import annotations

import re

HELP = re.compile(r"^(?:Run|See|Try) ['\"`].*--help['\"`](?: for more information)?\.?$")  # as docker ends its errors


VERDICT_WORDS = "Strict check"  # of the verifier's verdict lines, which a script may look for; this package is below it


def one_line(text: str) -> str:
    """Returns the text in one line, with a question mark for every character that is not printable (an escape, a bell,
    a change of direction), and for the blank in VERDICT_WORDS."""
    shown = "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))
    return shown.replace(VERDICT_WORDS, VERDICT_WORDS.replace(" ", "?"))


def last_line(said: str | bytes, otherwise: str = "") -> str:
    """Returns the last line of a program's output, usually the reason if it failed; lines that only point to the
    program's help are passed over. otherwise: returned if there is no output."""
    text = said if isinstance(said, str) else said.decode(errors="replace")
    lines = [line for line in text.strip().splitlines() if line.strip() and not HELP.search(line)]
    return one_line(lines[-1])[:300] if lines else otherwise


def first_reason(said: bytes) -> str:
    """Returns the first line of what a program wrote to stderr, with ": " before it; of a Python traceback the last; ""
    where it wrote nothing."""
    lines = said.decode(errors="replace").strip().splitlines()
    if not lines:
        return ""
    return f": {lines[-1] if lines[0].startswith('Traceback (') else lines[0]}"

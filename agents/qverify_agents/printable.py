"""Makes text from a board, a link or a file safe for a terminal."""

from __future__ import annotations

import re

# The last line of docker's error messages.
HELP = re.compile(r"^(?:Run|See|Try) ['\"`].*--help['\"`](?: for more information)?\.?$")
VERDICT_WORDS = "Strict check"  # the verifier's verdict lines begin so, and scripts look for them


def one_line(text: str) -> str:
    """Returns the text as one line. Every character that is not printable (an escape, a bell, a change of direction)
    becomes a question mark, and so does the space in VERDICT_WORDS, so that a board cannot forge a verdict line."""
    printable = "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))
    return printable.replace(VERDICT_WORDS, VERDICT_WORDS.replace(" ", "?"))


def last_line(output: str | bytes, otherwise: str = "") -> str:
    """Returns the last line of a program's output, which is usually the reason if the program failed. Skips lines that
    only refer to the program's help. Returns `otherwise` if there is no output."""
    text = output if isinstance(output, str) else output.decode(errors="replace")
    lines = [line for line in text.strip().splitlines() if line.strip() and not HELP.search(line)]
    return one_line(lines[-1])[:300] if lines else otherwise


def first_reason(stderr: bytes) -> str:
    """Returns ": " and the first line of a program's standard error (the last line if it is a Python traceback), or ""
    if that is empty."""
    lines = stderr.decode(errors="replace").strip().splitlines()
    if not lines:
        return ""
    return f": {lines[-1] if lines[0].startswith('Traceback (') else lines[0]}"

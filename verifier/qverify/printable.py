"""Makes names and reasons from untrusted sources safe for a line of output or a report."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from typing import TypeVar

T = TypeVar("T")
VERDICT_WORDS = "Strict check"


def printable(text: str) -> str:
    """Returns the text with line ends, control characters and marks that change the direction of writing as escapes
    (`\\n`, `\\x1b`, `\\u202e`), and the blank in the words of a verdict line, which a script may look for. Output of a
    board or another program goes through qverify_agents.printable.one_line instead, which also replaces white space by
    one blank."""
    shown = text if text.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in text)
    return shown.replace(VERDICT_WORDS, VERDICT_WORDS.replace(" ", "\\x20")) if VERDICT_WORDS in shown else shown


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def visible(value: T) -> T:
    """Returns a copy in which every text, however deep in dataclasses, dicts and lists, is printable. Renderers of
    lines read such copies, so that a name cannot add a line of its own."""
    if isinstance(value, str):
        return printable(value)  # type: ignore[return-value]
    if value is None or isinstance(value, (int, float)):  # most of what a report holds
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(**{f.name: visible(getattr(value, f.name)) for f in fields(value) if f.init})
    if isinstance(value, dict):
        return {visible(k): visible(v) for k, v in value.items()}  # type: ignore[return-value]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(visible, value))
    if isinstance(value, (list, tuple)):
        return type(value)(visible(v) for v in value)
    return value


PLACE = re.compile(
    r"/onnxruntime_src/\S+:\d+ (?:[\w:~&<>]+ )?(?:[\w:~]+\([^)]*\)(?: const)? )?"
)  # how onnxruntime names a place in its source


def said_by(error: Exception, most: int = 300) -> str:
    """Returns the message of a library's exception in one line; where it is longer than `most` characters, its
    beginning and its end, which usually contains the reason. The name of the exception's type where it has no
    message."""
    return shortened(PLACE.sub("", str(error)), most) or type(error).__name__


def shortened(text: str, most: int = 300) -> str:
    """Returns the text as one line of at most `most` characters, cut between words; ` ... ` stands for what is left out
    of the middle."""
    words = " ".join(text.split())
    if len(words) <= most:
        return words
    head, tail = words[: most // 3], words[-(most - most // 3 - 5) :]
    return f"{head.rpartition(' ')[0] or head} ... {tail.partition(' ')[2] or tail}"

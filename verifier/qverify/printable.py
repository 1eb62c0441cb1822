"""Names and reasons that came from elsewhere, as they may stand in a line or in a report."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from typing import TypeVar

T = TypeVar("T")


def printable(text: str) -> str:
    """No line ends, no control characters, no marks that turn the direction of writing: each stands as its escape (`\\n`, `\\x1b`,
    `\\u202e`). What a board or another program said is shown by qverify_agents.printable.one_line, which makes any white
    space one blank."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def visible(value: T) -> T:
    """A copy in which every text, however deep in dataclasses, dicts and lists, is printable: what a renderer of lines reads, so
    that a name cannot write a line of its own."""
    if isinstance(value, str):
        return printable(value)  # type: ignore[return-value]
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
)  # of its source, in its own words


def said_by(error: Exception, most: int = 300) -> str:
    """What a library's exception says, in one line: the beginning and the end, which mostly has the reason, where it is
    longer than `most` characters. Its type's name where it says nothing."""
    return shortened(PLACE.sub("", str(error)), most) or type(error).__name__


def shortened(text: str, most: int = 300) -> str:
    """One line of at most `most` characters, cut between words; what is left away from the middle is shown as ` ... `."""
    words = " ".join(text.split())
    if len(words) <= most:
        return words
    head, tail = words[: most // 3], words[-(most - most // 3 - 5) :]
    return f"{head.rpartition(' ')[0] or head} ... {tail.partition(' ')[2] or tail}"

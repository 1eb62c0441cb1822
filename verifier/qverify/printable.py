"""Makes text from untrusted sources (names, error messages) safe for a line of output or a report."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TypeVar

T = TypeVar("T")
VERDICT_WORDS = "Strict check"  # with which every verdict line begins


def printable(text: str) -> str:
    """Returns the text with every line end, control character and mark of writing direction replaced by its escape
    (`\\n`, `\\x1b`, `\\u202e`). The blank in VERDICT_WORDS is escaped, too, so that a script which searches for verdict
    lines does not find a name. Output of boards and other programs goes through qverify_agents.printable.one_line
    instead, which also reduces white space to single blanks."""
    shown = text if text.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in text)
    return shown.replace(VERDICT_WORDS, VERDICT_WORDS.replace(" ", "\\x20")) if VERDICT_WORDS in shown else shown


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


@cache
def _given(kind: type) -> tuple[str, ...]:
    """Returns the names of the fields that the constructor of a dataclass takes."""
    return tuple(f.name for f in fields(kind) if f.init)


def visible(value: T) -> T:
    """Returns a copy in which printable() was applied to every string, at any depth of dataclasses, dicts, lists and
    tuples. Renderers of lines read such copies, so that no name can add a line to their output."""
    if isinstance(value, str):
        return printable(value)  # type: ignore[return-value]
    if value is None or isinstance(value, (int, float)):  # the most frequent case
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(**{name: visible(getattr(value, name)) for name in _given(type(value))})
    if isinstance(value, dict):
        return {visible(k): visible(v) for k, v in value.items()}  # type: ignore[return-value]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(visible, value))
    if isinstance(value, (list, tuple)):
        return type(value)(visible(v) for v in value)
    return value


SOURCE_LOCATION = re.compile(  # with which error messages of onnxruntime begin
    r"\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : |/onnxruntime_src/\S+:\d+ (?:[\w:~&<>]+ )?(?:[\w:~]+\([^)]*\)(?: const)? )?"
)


def describe_error(error: Exception, most: int = 300) -> str:
    """Returns the message of a library's exception as one line of at most `most` characters, shortened in the middle
    because the end usually contains the reason; the name of the exception's type if it has no message."""
    return shortened(SOURCE_LOCATION.sub("", str(error)), most) or type(error).__name__


def shortened(text: str, most: int = 300) -> str:
    """Returns the text as one line of at most `most` characters; if it is longer, ` ... ` replaces words in its
    middle."""
    words = " ".join(text.split())
    if len(words) <= most:
        return words
    head, tail = words[: most // 3], words[-(most - most // 3 - 5) :]
    return f"{head.rpartition(' ')[0] or head} ... {tail.partition(' ')[2] or tail}"

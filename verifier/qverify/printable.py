"""Names and reasons that came from elsewhere, as they may stand in a line or in a report."""

from __future__ import annotations

import re


def printable(text: str) -> str:
    """No line ends, no control characters: a `?` for each, so that two names stay two names. What a board or another program
    said is shown by qverify_agents.printable.one_line, which makes any white space one blank."""
    return "".join(c if c.isprintable() else "?" for c in text)


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

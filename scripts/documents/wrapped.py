"""Wraps long lines of the normative documents: a line for each sentence, and none of more than 120 characters outside
tables and code."""

from __future__ import annotations

import re
from itertools import accumulate
from pathlib import Path

from scripts.documents.blocks import ROOT

WIDTH = 120
START = re.compile(r" *(?:[-*] |\d+\. )?")  # indentation, and the mark of a list
ATOM = re.compile(  # what stays on one line: code, bold text, links, with the characters next to them
    r"(?:`[^`]{0,100}`|\*\*[^*]+\*\*|\[[^\]]*\]\([^)]*\)|\S)+"
)
SENTENCE = re.compile(r"[.!?][)\"']*$")
NEXT = re.compile(r"[A-Z`(\[*\"]")
NOT_LAST = re.compile(r"^[\d.,^-]+$|^[-+*<>=/]+$")  # a number, or a sign, which what follows belongs to
NOT_FIRST = re.compile(r"[-+*>#=|]|\d+[.)]$")  # Markdown would begin a list, a heading or a table there


def documents() -> list[Path]:
    """Returns the paths of the normative documents, and of the page of limits."""
    return [
        *sorted((ROOT / "verifier").glob("*.md")),
        *sorted((ROOT / "verifier" / "qverify" / "ops").glob("*.md")),
        ROOT / "board_runtime" / "FORMAT.md",
        ROOT / "agents" / "PROTOCOL.md",
        ROOT / "docs" / "reference" / "limits.md",
    ]


def every() -> dict[Path, str]:
    """Returns the wrapped text of every document, by path."""
    return {path: wrap(path.read_text()) for path in documents()}


def long_lines(text: str) -> list[int]:
    """Returns the numbers of the lines that are too long, from 0."""
    lines, fenced, found = text.split("\n"), False, []
    for number, line in enumerate(lines):
        fenced ^= line.startswith("```")
        nested = START.match(line)
        code = line.startswith("    ") and (nested is None or nested[0].isspace())
        if len(line) > WIDTH and not fenced and not code and line.lstrip()[:1] not in ("|", "#"):
            found.append(number)
    return found


def wrap(text: str) -> str:
    """Returns the text with each long line broken where a sentence ends, then where it is full."""
    lines = text.split("\n")
    for number in reversed(long_lines(text)):
        lines[number : number + 1] = _broken(lines[number])
    return "\n".join(lines)


def _broken(line: str) -> list[str]:
    """Returns the lines that a line becomes."""
    start = START.match(line)
    first = start[0] if start else ""
    words, made = ATOM.findall(line[len(first) :]), []
    while words:
        count = _fitting(words, WIDTH - len(first))
        made.append((" " * len(first) if made else first) + " ".join(words[:count]))
        words = words[count:]
    return made


def _fitting(words: list[str], width: int) -> int:
    """Returns how many of the words the next line has: to the end of the sentence if that fits, else to a comma in the
    last third of the line, else to where it is full; never so that the line after it would begin a list."""
    lengths = list(accumulate(len(word) + 1 for word in words))
    most = max(1, sum(length - 1 <= width for length in lengths))
    possible = [n for n in range(1, most + 1) if n == len(words) or not NOT_FIRST.match(words[n])]
    ends = [n for n in possible if n < len(words) and _ends(words[n - 1]) and NEXT.match(words[n])]
    if ends:
        return ends[0]
    if most == len(words) or not possible:
        return most
    commas = [n for n in possible if words[n - 1][-1] in ",;:" and lengths[n - 1] > width * 2 / 3]
    loose = [n for n in possible if not NOT_LAST.search(words[n - 1]) and lengths[n - 1] > width / 2]
    return max(commas or loose or possible)


def _ends(word: str) -> bool:
    return SENTENCE.search(word) is not None

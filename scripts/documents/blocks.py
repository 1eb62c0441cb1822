"""Reads the fenced blocks of the documents: commands to type, files to write, and the output to expect.

    ```console            commands after "$ ", each followed by what it prints; run as written
    ```sh                 commands without output, or for a machine that is not at hand; checked, not run
    ```toml title="NAME"  a file of that name, written before the blocks below it run

A line `<!-- needs: KIND -->` above a console block names the board it runs on (scripts/documents/boards.py)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?$")
NEEDS = re.compile(r"^<!-- needs: (\w+) -->$")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a document.

    Attributes:
        kind: console, sh or another language.
        first, last: indices of its first line and of the line after its last one.
        lines: its lines.
        title: name of the file that it contains, or "".
        needs: the kind of board that its commands need, or "".
    """

    kind: str
    first: int
    last: int
    lines: tuple[str, ...]
    title: str = ""
    needs: str = ""


def pages() -> list[Path]:
    """Returns the paths of the documents whose blocks are read."""
    return [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "ARCHITECTURE.md",
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted((ROOT / "verifier" / "qverify" / "chips").glob("*.md")),
    ]


def blocks(text: str) -> list[Block]:
    """Returns a document's blocks in order. Raises ValueError for a fence that is not closed or not of the form
    above."""
    parsed, lines, number = [], text.split("\n"), 0
    while number < len(lines):
        line = lines[number]
        if not line.startswith("```"):
            number += 1
            continue
        match = FENCE.match(line)
        if match is None:
            raise ValueError(f"line {number + 1}: {line!r} begins no block that is known")
        if "```" not in lines[number + 1 :]:
            raise ValueError(f"line {number + 1}: the block has no end")
        last = lines.index("```", number + 1)
        above = next((x for x in reversed(lines[:number]) if x.strip()), "")
        needs = NEEDS.match(above)
        body = tuple(lines[number + 1 : last])
        parsed.append(Block(match[1], number + 1, last, body, match[2] or "", needs[1] if needs else ""))
        number = last + 1
    return parsed


def commands(block: Block) -> list[str]:
    """Returns the commands of a block: in a console block the lines after "$ ", in an sh block every line. A line that
    ends with a backslash is joined with the next."""
    result: list[str] = []
    for line in block.lines:
        if result and result[-1].endswith("\\"):
            result[-1] += "\n" + line
        elif block.kind == "sh":
            result += [line] if line.strip() and not line.startswith("#") else []
        elif line.startswith("$ "):
            result.append(line[2:])
    return result

"""Renders drafts of descriptions, to be copied into a file: never broken, indented or coloured."""

from __future__ import annotations

from collections.abc import Mapping

from qverify.printable import printable


def render(drafts: Mapping[str, str]) -> str:
    """Returns the drafts of all inputs as one TOML file under a comment; "" without any."""
    if not any(drafts.values()):
        return ""
    lines = ["# draft: write this to a file, correct it, and give --description FILE"]
    lines += [printable(line) for draft in drafts.values() for line in draft.split("\n") if line]
    return "\n".join(lines)

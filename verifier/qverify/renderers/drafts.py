"""Renders drafts of descriptions for copying into a file: lines are never broken, indented or coloured."""

from __future__ import annotations

from collections.abc import Mapping

from qverify.printable import printable


def render(drafts: Mapping[str, str]) -> str:
    """Returns the drafts of all inputs as one TOML file below a comment, or "" if there are none."""
    if not any(drafts.values()):
        return ""
    lines = ["# draft: write this to a file, correct it, and give --description FILE"]
    lines += [printable(line) for draft in drafts.values() for line in draft.split("\n") if line]
    return "\n".join(lines)

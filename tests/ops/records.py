"""The files that record what triage computes: groups, of which each is a line `# NAME`, then its lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path


def read_record(file: Path) -> dict[str, list[str]]:
    """Returns the lines of each group by its name, none if there is no file."""
    of: dict[str, list[str]] = {}
    for text in file.read_text().splitlines() if file.exists() else ():
        if text.startswith("# "):
            lines = of.setdefault(text[2:], [])
        else:
            lines.append(text)
    return of


def write_record(file: Path, of: Mapping[str, Sequence[str]]) -> None:
    """Writes the groups in their order."""
    file.write_text("".join(f"# {name}\n" + "".join(f"{line}\n" for line in lines) for name, lines in of.items()))

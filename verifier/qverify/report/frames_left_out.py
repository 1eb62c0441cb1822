"""Frames that did not run, in words; the same in verdict lines, in triage's last line and in `caveats`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qverify.plural import count


def describe_left_out(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Returns how many frames could not be prepared, and how many did not run since the board was lost; empty where all
    ran. rows: of the report's `frames`, over all boards."""
    left = [row for row in rows if row["verdict"] == "NOT RUN"]
    unprepared = {row["frame"] for row in left if not row.get("board_lost")}
    return describe_counts(len(unprepared), len({row["frame"] for row in left} - unprepared))


def describe_counts(unprepared: int, lost: int) -> list[str]:
    """Returns the same for these numbers of frames."""
    facts = [f"{count(unprepared, 'frame')} could not be prepared"] if unprepared else []
    return facts + ([f"{count(lost, 'frame')} not run: board lost"] if lost else [])

"""Describes frames that did not run, for verdict lines, triage's last line and `caveats`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qverify.plural import count


def describe_left_out(rows: Sequence[dict[str, Any]], frame: str = "frame") -> list[str]:
    """Returns how many frames could not be prepared, and how many did not run because the board was lost; [] if all
    ran. rows: the report's `frames`, for all boards. frame: what they are called."""
    not_run = [row for row in rows if row["verdict"] == "NOT RUN"]
    unprepared = {row["frame"] for row in not_run if not row.get("board_lost")}
    return describe_counts(len(unprepared), len({row["frame"] for row in not_run} - unprepared), frame)


def describe_counts(unprepared: int, lost: int, frame: str = "frame") -> list[str]:
    """Returns the texts for these numbers of frames. lost: frames that did not run because the board was lost."""
    facts = [f"{count(unprepared, frame)} could not be prepared"] if unprepared else []
    return facts + ([f"{count(lost, frame)} not run: board lost"] if lost else [])

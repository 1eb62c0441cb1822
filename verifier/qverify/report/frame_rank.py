"""Ranks frames from worst to best by their rows in the report's `frames`."""

from __future__ import annotations

from typing import Any

_ORDER = {"FAILED": 0, "INCONCLUSIVE": 1, "NOT RUN": 2, "PASSED": 3}


def frame_rank(row: dict[str, Any]) -> tuple[float, ...]:
    """Returns a sort key by which the worst frame comes first."""
    return _ORDER.get(row["verdict"], 1), -(row["failing"] or 0), -(row["max_abs"] or 0.0), row["frame"]

"""Which of many frames is worst, by its row in the report's `frames`."""

from __future__ import annotations

from typing import Any

_ORDER = {"FAILED": 0, "INCONCLUSIVE": 1, "NOT RUN": 2, "PASSED": 3}


def frame_rank(row: dict[str, Any]) -> tuple[float, ...]:
    """The worst frame sorts first."""
    return _ORDER.get(row["verdict"], 1), -(row["failing"] or 0), -(row["max_abs"] or 0.0), row["frame"]

"""Times of a model's nodes on a board."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class NodeTimes:
    """The times of one node, one for each run, in seconds, as the board measured them. covers: ONNX nodes it stands
    for."""

    name: str
    op: str
    covers: tuple[str, ...]
    seconds: tuple[float, ...]

    @property
    def median_s(self) -> float:
        return statistics.median(self.seconds)


@dataclass(frozen=True, slots=True)
class Perf:
    """What a board took. facts: of the board. sent_s: until model and inputs were there. first_run_s: of the
    first run, with loading the model. wall_s: of one later run on average, with the link. totals: of each run, the sum over its nodes, in seconds.
    nodes: in running order. notes: what the times are, on another runtime than qvrt."""

    board: str
    facts: dict[str, Any]
    sent_s: float
    first_run_s: float
    wall_s: float
    totals: tuple[float, ...]
    nodes: tuple[NodeTimes, ...]
    warm_up: int
    notes: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Returns everything as JSON objects; times in seconds."""
        nodes = [{"name": n.name, "op": n.op, "covers": list(n.covers), **_spread(n.seconds)} for n in self.nodes]
        runs = {
            "runs": len(self.totals),
            "warm_up": self.warm_up,
            "sent_s": self.sent_s,
            "first_run_s": self.first_run_s,
        }
        total = {"total": _spread(self.totals), "wall_s": self.wall_s}
        notes = {"notes": list(self.notes)} if self.notes else {}
        return {"board": self.board, "facts": self.facts, **runs, **total, "nodes": nodes, **notes}


def _spread(seconds: tuple[float, ...]) -> dict[str, float]:
    return {"median_s": statistics.median(seconds), "lowest_s": min(seconds), "highest_s": max(seconds)}

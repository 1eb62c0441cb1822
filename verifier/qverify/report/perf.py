"""Times of a model's nodes on a board."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class NodeTimes:
    """The times of one node. seconds: one for each run, measured by the board. covers: the ONNX nodes that it stands
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
    """The times that a board took.

    Attributes:
        facts: facts that the board reports.
        sent_s: seconds until model and inputs were sent.
        first_run_s: seconds of the first run, which loads the model.
        wall_s: mean seconds of a later run, including the link.
        totals: sum over all nodes, for each run, in seconds.
        nodes: times by node, in running order.
        warm_up: number of runs before the measurement.
        notes: how the times were measured, if the runtime is not qvrt.
    """

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

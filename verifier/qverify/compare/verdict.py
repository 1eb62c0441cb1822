"""All Recordings to one Report: judge, forced, blame, in that order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy.typing as npt

from qverify.compare.blame import blame, first_divergence
from qverify.compare.forced import RunUnit, failing, force
from qverify.compare.judge import judge
from qverify.compare.options import Options
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit
from qverify.report.document import Pair, Report, worst
from qverify.tensors.recording import Recording

Array = npt.NDArray[Any]
Pull = Callable[[list[str]], dict[str, Array]]
ORDER = ("float", "reference", "simulator", "board", "dump")


class Values:
    """Tensor values of the sides; the board's come when they are asked for, those with equal digests from this host."""

    def __init__(self, recordings: Mapping[str, Recording], pull: Pull | None, inputs: Mapping[str, Array]):
        self._sides, self._pull, self._inputs = recordings, pull, inputs
        self._pulled: dict[str, Array] = {}

    def fetch(self, side: str, name: str) -> Array | None:
        """The value, or None when it is not to be had."""
        if name in self._inputs:
            return self._inputs[name]
        recording = self._sides[side]
        if name in recording.tensors:
            return recording.tensors[name]
        if name in self._pulled and side == "board":
            return self._pulled[name]
        digest = recording.digests.get(name)
        for other in self._sides.values():
            if digest is not None and other.digests.get(name) == digest and name in other.tensors:
                return other.tensors[name]
        if side != "board" or self._pull is None or digest is None:
            return None
        try:
            self._pulled |= self._pull([name])
        except Exception as error:  # the handed-in function speaks of links, which this room does not know
            if not hasattr(error, "exit_status"):
                raise
            recording.missing[name] = str(error)
            return None
        return self._pulled.get(name)


def judge_all(
    recordings: dict[str, Recording],
    graph: Graph | None,
    units: list[Unit],
    options: Options,
    run_unit: Mapping[str, RunUnit],
    pull: Pull | None = None,
    inputs: Mapping[str, Array] | None = None,
) -> Report:
    """One Report over every pair of sides. run_unit: by side, for forcing; pull: the board's tensors on demand."""
    values = Values(recordings, pull, inputs or {})
    unit_of = {n: u for u in units for n in u.outputs}
    sides = [s for s in ORDER if s in recordings]
    rounding = graph.rounding if graph is not None else "ref-exact"
    pairs: list[Pair] = []
    for i, a in enumerate(sides):
        for b in sides[i + 1 :]:
            exact = (a, b) == ("simulator", "board") and not options.given
            pair = judge(recordings[a], recordings[b], unit_of, options, values.fetch, exact)
            pair.board = recordings[b].host if b == "board" else ""
            pair.first_divergence = first_divergence(pair, units)
            pairs.append(pair)
            _locate(pair, units, run_unit.get(a), recordings, values, rounding)
    verdict = worst([p.verdict for p in pairs])
    link = recordings["board"].link if "board" in recordings else {}
    return Report(verdict, blame(pairs), {"digits": options.digits, "rule": options.rule}, pairs, link=dict(link))


def _locate(
    pair: Pair,
    units: list[Unit],
    run: RunUnit | None,
    recordings: Mapping[str, Recording],
    values: Values,
    rounding: str,
) -> None:
    exact = (pair.a, pair.b) == ("simulator", "board")
    whole = False
    if run is not None and units:
        whole = force(pair, units, run, values.fetch, recordings[pair.b].specs, exact, rounding)
    if pair.verdict == "FAILED" and not failing(pair.tensors):
        pair.cause = "accumulated_rounding" if whole else "unlocated"

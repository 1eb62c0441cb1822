"""Plants slight faults in nodes that have no integer reference, and measures whether they are found by the whole job,
and by the tie-aware limit against the reference alone."""

from __future__ import annotations

import argparse
import logging
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from qverify.compare.forced import Located
from qverify.compare.limits import limit_for
from qverify.compare.options import Options
from qverify.model_bin.graph import Node
from qverify.report.document import Forced
from qverify.session.host_sides import SideResults
from qverify.session.make_report import make_report
from qverify.sides.board import Board
from qverify.tensors.prepared import PreparedInputs
from qverify_agents.boards.faulty_runtime import SLIGHT

from benchmarks.detection_subjects import DEADLINE_S, REAL, Subject
from benchmarks.measure import show_figures
from benchmarks.small_vit import small_vit

NORM, LINEAR = ("layer_norm",), ("conv", "fully_connected", "conv_transpose")
PLACES = {  # kind of fault to the ops that can have it
    "offset_slight": ("layer_norm", "softmax_float", "elementwise_float"),
    "exp_rough": ("softmax_float",),
    "gamma_row": NORM,
    "epsilon_tenfold": NORM,
    "variance_unbiased": NORM,
    "bias_slight": LINEAR,
}
SIXTEEN = REAL.parent / "breadth" / "ppocr_cls.a16w8.onnx"


@dataclass(slots=True)
class Slight:
    """One planted fault and its outcome.

    Attributes:
        changed: whether the board's bytes differ from a healthy board's.
        detected, located: outcome of the whole job.
        alone: whether the pair reference ~ board, that is the tie-aware limit, locates it.
        by_distance: the same without regard to ties (limits: 1 LSB for 8 bits, the derived bound for 16, 2^-18 for
            floats).
        others: other units that fail.
    """

    number: int
    subject: str
    source: str
    fault: str
    changed: bool = False
    detected: bool = False
    located: bool = False
    alone: bool = False
    by_distance: bool = False
    others: list[str] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return self.fault.partition(":")[0]


class Bench:
    """Plants faults drawn by a seed in these networks."""

    def __init__(self, seed: int, subjects: list[Subject]):
        self.seed, self.subjects, self.healthy = seed, subjects, dict[tuple[str, str], dict[str, str]]()

    def plant(self, number: int) -> Slight:
        """Makes the planting of this number and returns its outcome."""
        rng = random.Random(f"{self.seed} slight {number}")
        kind = SLIGHT[number % len(SLIGHT)]
        fitting = [(s, n) for s in self.subjects for n in s.graph.nodes if _takes(kind, n)]
        subject = rng.choice(sorted({s.name for s, _ in fitting}))
        host, node = rng.choice([(s, n) for s, n in fitting if s.name == subject])
        source = f"random:{rng.randrange(8)}"
        outcome = Slight(number, subject, source, f"{kind}:{rng.randrange(1 << 16)}@{node.name}")
        prepared, unit = host.inputs(source), host.unit_of(node.name)
        ran, pull, connected = self._board(host, f"faulty:local?fault={quote(outcome.fault, safe='/:@| ')}", prepared)
        try:
            board = ran.recordings["board"]
            if board.why:
                raise SystemExit(f"{outcome}: {board.why}")
            outcome.changed = board.digests != self._healthy(host, source)
            located: list[Located] = []
            report = make_report(host.models, prepared, ran, Options(dump_all=True), pull, located)
            outcome.detected = report.verdict == "FAILED"
            blame = report.blame
            outcome.located = blame is not None and (blame.side, blame.node) == ("board", unit)
            forced = _against_reference(located)
            failing = _failing(host, forced)
            outcome.alone, outcome.others = unit in failing, [u for u in failing if u != unit]
            outcome.by_distance = _beyond_distance(host, unit, forced, ran)
        finally:
            connected.close()
        return outcome

    def healthy_run(self, host: Subject, seed: int) -> list[str]:
        """Returns the units that fail forced on a healthy board."""
        prepared = host.inputs(f"random:{seed}")
        ran, pull, connected = self._board(host, "local", prepared)
        try:
            located: list[Located] = []
            make_report(host.models, prepared, ran, Options(dump_all=True), pull, located)
            return _failing(host, _against_reference(located))
        finally:
            connected.close()

    def _board(self, host: Subject, uri: str, prepared: PreparedInputs) -> tuple[SideResults, Any, Board]:
        """Runs the board; returns the results of all sides, the function that pulls tensors, and the connected
        board."""
        board, ran = Board(uri, host.models.binary, host.graph, DEADLINE_S), host.host(prepared)
        ran.recordings["board"] = board.run(prepared)
        return ran, board.pull, board

    def _healthy(self, host: Subject, source: str) -> dict[str, str]:
        """Returns the digests of a healthy board."""
        key = (host.name, source)
        if key not in self.healthy:
            ran, _, connected = self._board(host, "local", host.inputs(source))
            connected.close()
            self.healthy[key] = dict(ran.recordings["board"].digests)
        return self.healthy[key]


def _takes(kind: str, node: Node) -> bool:
    return (
        node.op in PLACES[kind] and not node.integer_reference and (kind != "bias_slight" or node.inputs[2] is not None)
    )


def _against_reference(located: list[Located]) -> Mapping[str, Forced]:
    """Returns the forced verdicts of the pair reference ~ board."""
    return next(pair.forced for pair in located if (pair.a, pair.b) == ("reference", "board"))


def _failing(host: Subject, forced: Mapping[str, Forced]) -> list[str]:
    return [u.name for u in host.units if any(o in forced and forced[o].verdict != "PASSED" for o in u.outputs)]


def _beyond_distance(host: Subject, name: str, forced: Mapping[str, Forced], ran: SideResults) -> bool:
    """Returns whether the unit fails by the distance alone, wherever its exact values lie."""
    unit, reference = next(u for u in host.units if u.name == name), ran.recordings["reference"].tensors
    for output in (o for o in unit.outputs if o in forced):
        plain, verdict = limit_for(unit, output, host.graph), forced[output]
        largest = float(np.abs(reference[output].astype(np.float64)).max(initial=0.0))
        if (verdict.max_lsb or 0) > plain.lsb or (
            verdict.max_lsb is None and (verdict.max_abs or 0.0) > plain.share * largest
        ):
            return True
    return False


def subjects(folder: Path, only: list[str] | None = None) -> list[Subject]:
    paths = {f"kwt1_{k}": REAL / "kwt1" / f"kwt1_{k}_qdq.onnx" for k in ("u8s8", "s8s8", "full_u8s8")}
    paths |= {f"small_vit_{bits}": small_vit(folder / f"small_vit_{bits}.onnx", bits) for bits in (8, 16)}
    chosen = {n: p for n, p in {**paths, "ppocr_cls_a16w8": SIXTEEN}.items() if not only or n in only}
    return [Subject(n, p) for n, p in chosen.items() if p.is_file()]


def summary(plants: list[Slight]) -> dict[str, Any]:
    def tally(group: list[Slight]) -> dict[str, int]:
        changed = [p for p in group if p.changed]
        names = ("detected", "located", "alone", "by_distance")
        return {
            "planted": len(group),
            "changed_bytes": len(changed),
            **{n: sum(getattr(p, n) for p in changed) for n in names},
        }

    return {
        **tally(plants),
        "per_kind": {kind: tally([p for p in plants if p.kind == kind]) for kind in SLIGHT},
        "missed": [str(p) for p in plants if p.changed and not (p.detected and p.located)],
        "others_failing_beside": [f"{p}" for p in plants if p.others],
        "missed_alone": [str(p) for p in plants if p.changed and not p.alone],
    }


def _shown(plant: Slight) -> Slight:
    print(plant, file=sys.stderr, flush=True)
    return plant


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench floats", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the same number draws the same")
    parser.add_argument("--count", type=int, default=240, help="faults to plant")
    parser.add_argument("--healthy", type=int, default=10, help="healthy runs a network")
    parser.add_argument("--models", nargs="*", help="names, all by default")
    parser.add_argument("--json", dest="path", metavar="F", help="the figures go to this file, too")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="qverify-floats-") as folder:
        before = logging.root.manager.disable
        logging.disable(logging.WARNING)  # silences onnxruntime's quantizer
        bench = Bench(options.seed, subjects(Path(folder), options.models))
        logging.disable(before)
        alarms: Counter[str] = Counter()
        for host in bench.subjects:
            open_units = {u.name: u for u in host.units}
            for seed in range(options.healthy):
                for name in bench.healthy_run(host, seed):
                    unit = open_units[name]
                    alarms[f"{host.name} {unit.op} {'integer' if unit.integer_reference else 'tie-aware'}"] += 1
        result = summary([_shown(bench.plant(i)) for i in range(options.count)])
        result |= {
            "seed": options.seed,
            "models": [s.name for s in bench.subjects],
            "healthy_runs": options.healthy * len(bench.subjects),
        }
        result["failing_though_healthy"] = dict(alarms)
    show_figures(result, options.path)
    ties = any("tie-aware" in name for name in alarms)
    changed = result["changed_bytes"]
    return 0 if result["detected"] == changed and result["located"] >= 0.99 * changed and not ties else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Slight faults in nodes that have no integer reference: found with a simulator, and by the tie-aware limit against the reference alone."""

from __future__ import annotations

import argparse
import json
import logging
import random
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from qverify.compare.forced import Located
from qverify.compare.options import Options
from qverify.model_bin.graph import Node
from qverify.session.host import Ran
from qverify.session.judging import judged
from qverify.sides.board import Board
from qverify.tensors.prepared import PreparedInputs
from qverify_agents.boards.faulty_runtime import SLIGHT

from benchmarks.detection_subjects import DEADLINE_S, REAL, Subject
from benchmarks.small_vit import small_vit

NORM, LINEAR = ("layer_norm",), ("conv", "fully_connected", "conv_transpose")
PLACES = {
    "offset_slight": ("layer_norm", "softmax_float", "elementwise_float"),
    "exp_rough": ("softmax_float",),
    "gamma_row": NORM,
    "epsilon_tenfold": NORM,
    "variance_unbiased": NORM,
    "bias_slight": LINEAR,
}
SIXTEEN = REAL.parent / "breadth" / "ppocr_cls.a16w8.onnx"
Alone = dict[str, list[str]]  # units that fail forced against the reference alone, by whether a tie decides there


@dataclass(slots=True)
class Slight:
    """detected, located: the whole job's. alone: located with no simulator, by the tie-aware limit. others: units failing beside it."""

    number: int
    subject: str
    source: str
    fault: str
    changed: bool = False
    detected: bool = False
    located: bool = False
    alone: bool = False
    others: list[str] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return self.fault.partition(":")[0]


class Bench:
    def __init__(self, seed: int, subjects: list[Subject]):
        self.seed, self.subjects, self.healthy = seed, subjects, dict[tuple[str, str], dict[str, str]]()

    def plant(self, number: int) -> Slight:
        rng = random.Random(f"{self.seed} slight {number}")
        kind = SLIGHT[number % len(SLIGHT)]
        fitting = [(s, n) for s in self.subjects for n in s.graph.nodes if _takes(kind, n)]
        subject = rng.choice(sorted({s.name for s, _ in fitting}))
        host, node = rng.choice([(s, n) for s, n in fitting if s.name == subject])
        source = f"random:{rng.randrange(8)}"
        found = Slight(number, subject, source, f"{kind}:{rng.randrange(1 << 16)}@{node.name}")
        prepared, unit = host.inputs(source), host.unit_of(node.name)
        ran, pull, there = self._board(host, f"faulty:local?fault={quote(found.fault, safe='/:@| ')}", prepared)
        try:
            board = ran.recordings["board"]
            if board.why:
                raise SystemExit(f"{found}: {board.why}")
            found.changed = board.digests != self._healthy(host, source)
            report = judged(host.models, prepared, ran, Options(dump_all=True), pull)
            found.detected = report.verdict == "FAILED"
            blame = report.blame
            found.located = blame is not None and (blame.side, blame.node) == ("board", unit)
            failing = _alone(host, ran, prepared, pull)
            found.alone, found.others = unit in failing, [u for u in failing if u != unit]
        finally:
            there.close()
        return found

    def healthy_run(self, host: Subject, seed: int) -> list[str]:
        """Units that fail forced though nothing is wrong."""
        prepared = host.inputs(f"random:{seed}")
        ran, pull, there = self._board(host, "local", prepared)
        try:
            return _alone(host, ran, prepared, pull)
        finally:
            there.close()

    def _board(self, host: Subject, uri: str, prepared: PreparedInputs) -> tuple[Ran, Any, Board]:
        there, ran = Board(uri, host.models.binary, host.graph, DEADLINE_S), host.host(prepared)
        ran.recordings["board"] = there.run(prepared)
        return ran, there.pull, there

    def _healthy(self, host: Subject, source: str) -> dict[str, str]:
        """From the simulator: a healthy board's digests are the same (law L1)."""
        key = (host.name, source)
        if key not in self.healthy:
            ran, _, there = self._board(host, "local", host.inputs(source))
            there.close()
            self.healthy[key] = dict(ran.recordings["board"].digests)
        return self.healthy[key]


def _takes(kind: str, node: Node) -> bool:
    return (
        node.op in PLACES[kind] and not node.integer_reference and (kind != "bias_slight" or node.inputs[2] is not None)
    )


def _alone(host: Subject, ran: Ran, prepared: PreparedInputs, pull: Any) -> list[str]:
    """Units of the reference ~ board pair that fail forced, no simulator there."""
    located: list[Located] = []
    two = Ran({k: v for k, v in ran.recordings.items() if k != "simulator"}, ran.run_unit, ran.plain, ran.canary)
    judged(host.models, prepared, two, Options(dump_all=True), pull, located)
    forced = next(one.forced for one in located if one.b == "board")
    return [u.name for u in host.units if any(o in forced and forced[o].verdict != "PASSED" for o in u.outputs)]


def subjects(folder: Path, only: list[str] | None = None) -> list[Subject]:
    paths = {f"kwt1_{k}": REAL / "kwt1" / f"kwt1_{k}_qdq.onnx" for k in ("u8s8", "s8s8", "full_u8s8")}
    paths |= {f"small_vit_{bits}": small_vit(folder / f"small_vit_{bits}.onnx", bits) for bits in (8, 16)}
    chosen = {n: p for n, p in {**paths, "ppocr_cls_a16w8": SIXTEEN}.items() if not only or n in only}
    return [Subject(n, p) for n, p in chosen.items() if p.is_file()]


def summary(plants: list[Slight]) -> dict[str, Any]:
    def tally(found: list[Slight]) -> dict[str, int]:
        changed = [p for p in found if p.changed]
        names = ("detected", "located", "alone")
        return {
            "planted": len(found),
            "changed_bytes": len(changed),
            **{n: sum(getattr(p, n) for p in changed) for n in names},
        }

    return {
        **tally(plants),
        "per_kind": {kind: tally([p for p in plants if p.kind == kind]) for kind in SLIGHT},
        "missed": [str(p) for p in plants if p.changed and not (p.detected and p.located)],
        "missed_alone": [str(p) for p in plants if p.changed and not p.alone],
    }


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench floats")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=240, help="faults to plant")
    parser.add_argument("--healthy", type=int, default=10, help="healthy runs a network")
    parser.add_argument("--models", nargs="*", help="names, all by default")
    parser.add_argument("--json", dest="path")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="qverify-floats-") as folder:
        before = logging.root.manager.disable
        logging.disable(logging.WARNING)  # of onnxruntime's quantizer
        bench = Bench(options.seed, subjects(Path(folder), options.models))
        logging.disable(before)
        alarms: Counter[str] = Counter()
        for host in bench.subjects:
            open_units = {u.name: u for u in host.units}
            for seed in range(options.healthy):
                for name in bench.healthy_run(host, seed):
                    unit = open_units[name]
                    alarms[f"{host.name} {unit.op} {'integer' if unit.integer_reference else 'tie-aware'}"] += 1
        result = summary([bench.plant(i) for i in range(options.count)])
        result |= {
            "seed": options.seed,
            "models": [s.name for s in bench.subjects],
            "healthy_runs": options.healthy * len(bench.subjects),
        }
        result["failing_though_healthy"] = dict(alarms)
    text = json.dumps(result, indent=1)
    print(text)
    if options.path:
        Path(options.path).write_text(text + "\n")
    ties = any("tie-aware" in name for name in alarms)
    found = result["changed_bytes"]
    return 0 if result["detected"] == found and result["located"] >= 0.99 * found and not ties else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

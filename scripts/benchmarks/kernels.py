"""Triage of kernel bugs: each bug of kernel_bugs/ is built into the runtime, the networks whose bytes it changes are
found, and triage of one of them must detect it, blame a node that the edited file computes, and explain it rightly or
not at all."""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.inputs.prepare import random_inputs
from qverify.inputs.sources import InputRequest
from qverify.model_bin.graph import Graph
from qverify.model_bin.records import encode
from qverify.model_bin.units import units
from qverify.renderers import fault_explanation
from qverify.report.triage_document import Triage
from qverify.session.triage.run_triage import triage
from qverify.session.triage.triage_request import TriageRequest

from benchmarks.detection_subjects import REAL, WANTED
from benchmarks.kernel_bugs_built import BUGS, Builder, DoesNotApply, KernelBug, list_bugs

NETWORKS = {
    name: WANTED[name] for name in ("digits", "ad_toycar_tfl", "kws_u8s8", "resnet8_u8s8", "mbv1_025_128_qat")
} | {
    "kwt1": REAL / "kwt1" / "kwt1_u8s8_qdq.onnx",
    "kwt1_full": REAL / "kwt1" / "kwt1_full_u8s8_qdq.onnx",
}
DEADLINE_S, RUN_S, EXPLAIN_S = 60.0, 20.0, 20.0


@dataclass(frozen=True, slots=True)
class Network:
    """onnx, binary: files. ops: of its nodes."""

    name: str
    onnx: Path
    binary: Path
    ops: frozenset[str]
    graph: Graph


@dataclass(slots=True)
class BugResult:
    """sentences: what triage printed of every node explained. judged: for each confirmed one, right, wrong or new (not
    judged yet)."""

    name: str
    truth: str
    network: str = ""
    changed: int = 0
    why: str = ""
    detected: bool = False
    located: bool = False
    nodes: list[str] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)
    judged: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def outcome(self) -> str:
        if not self.changed:
            return "does not apply" if self.why else "changes nothing"
        if not self.judged:
            return "candidate" if any("CANDIDATE" in s for s in self.sentences) else "unexplained"
        return next((o for o in ("wrong", "new") if o in self.judged), "right")


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench kernels", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="draws the network of each bug and its inputs")
    parser.add_argument("--bugs", type=Path, default=BUGS, help="a folder of bugs")
    parser.add_argument("--only", nargs="*", help="beginnings of names")
    parser.add_argument("--count", type=int, help="so many bugs, drawn by the seed")
    parser.add_argument("--json", dest="path", metavar="F", help="the figures go to this file, too")
    options = parser.parse_args(words)
    bugs = [b for b in list_bugs(options.bugs) if not options.only or b.name.startswith(tuple(options.only))]
    if options.count is not None:
        bugs = sorted(random.Random(options.seed).sample(bugs, min(options.count, len(bugs))), key=lambda b: b.name)
    print(f"seed {options.seed}, {len(bugs)} bugs", file=sys.stderr, flush=True)
    results = []
    with tempfile.TemporaryDirectory(prefix="qverify-kernels-") as folder:
        bench = _Bench(Path(folder), options.seed, _right())
        for bug in bugs:
            results.append(bench.run(bug))
            print(_line(results[-1]), flush=True)
    table = summary(results)
    print(json.dumps(table, indent=1))
    if options.path:
        document = {"seed": options.seed, **table, "bugs": [asdict(r) | {"outcome": r.outcome} for r in results]}
        Path(options.path).write_text(json.dumps(document, indent=1) + "\n")
    seen = table["changed_bytes"]
    return 0 if seen and table["detected"] == seen and not table["wrong"] and not table["new"] else 1


def _right() -> dict[str, list[str]]:
    """Bug to the patterns of sentences that a reader judged right; a confirmed sentence of another is `wrong` where the
    bug has patterns, and `new` where nobody has judged it."""
    path = BUGS / "right.toml"
    return tomllib.loads(path.read_text()) if path.exists() else {}


def summary(results: list[BugResult]) -> dict[str, Any]:
    changed = [r for r in results if r.changed]
    outcomes = [r.outcome for r in changed]
    return {
        "bugs": len(results),
        "changed_bytes": len(changed),
        "detected": sum(r.detected for r in changed),
        "located": sum(r.located for r in changed),
        **{o: outcomes.count(o) for o in ("right", "wrong", "new", "candidate", "unexplained")},
        "median_s": sorted(r.seconds for r in changed)[len(changed) // 2] if changed else None,
    }


def _line(result: BugResult) -> str:
    said = "; ".join(dict.fromkeys(result.sentences))
    where = f"{result.network}, {result.seconds:.1f} s"
    marks = "".join(m for m, on in ((" NOT DETECTED", result.detected), (" NOT LOCATED", result.located)) if not on)
    if not result.changed:
        return f"{result.outcome:14} {result.name} {result.why}"
    return f"{result.outcome:14} {result.name} ({where}){marks}\n    truth: {result.truth}\n    said:  {said}"


class _Bench:
    def __init__(self, folder: Path, seed: int, right: dict[str, list[str]]):
        self.folder, self.seed, self.right = folder, seed, right
        (folder / "base").mkdir()
        self.builder = Builder(folder / "base")
        self.networks = list(_networks(folder / "networks"))
        self._digests: dict[tuple[str, int], str] = {}

    def run(self, bug: KernelBug) -> BugResult:
        result = BugResult(bug.name, bug.truth)
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            try:
                binary = self.builder.build(bug, Path(folder))
            except DoesNotApply as error:
                result.why = str(error)
                return result
            changed = [n for n in self.networks if self._changes(binary, n)]
            result.changed = len(changed)
            if changed:
                real = [n for n in changed if n.name in NETWORKS]
                self._triage(bug, result, random.Random(f"{self.seed} {bug.name}").choice(real or changed), binary)
        return result

    def _changes(self, binary: Path, network: Network) -> bool:
        key = (network.name, self.seed)
        if key not in self._digests:
            for at, item in enumerate(random_inputs(network.graph, self.seed).inputs):
                (network.binary.parent / f"{network.name}.in{at}").write_bytes(item.data)
            self._digests[key] = _digests(self.builder.healthy, network)
        return _digests(binary, network) != self._digests[key]

    def _triage(self, bug: KernelBug, result: BugResult, network: Network, binary: Path) -> None:
        result.network, start = network.name, time.perf_counter()
        request = TriageRequest(
            [str(network.onnx), str(network.binary)],
            board=f"local?runtime={binary}",
            inputs=InputRequest(seed=self.seed),
            deadline_s=DEADLINE_S,
            explain_s=EXPLAIN_S,
        )
        report: Triage = triage(request)
        result.seconds = round(time.perf_counter() - start, 2)
        rung = next((r for r in report.rungs if (r.a, r.b) == ("simulator", "board")), None)
        result.detected = rung is not None and rung.verdict == "FAILED"
        result.nodes = [one.node for one in report.explained]
        stems = {Path(f).stem for f in bug.files if f.startswith("ops/")}
        blamed = {one.node for one in report.explained}
        ops = {node.op for unit in units(network.graph) if unit.name in blamed for node in unit.nodes}
        shared = any(not f.startswith("ops/") or f.endswith(".h") or Path(f).stem == "window" for f in bug.files)
        result.located = bool(ops) and (shared or bool(ops & stems))
        for one in report.explained:
            said = fault_explanation.verdict(one.explanation) if one.explanation is not None else one.why
            result.sentences.append(f"{one.op} {one.tensor}: {said}")
            if one.explanation is not None and one.explanation.confirmed:
                result.judged.append(self._judge(bug.name, said))

    def _judge(self, bug: str, said: str) -> str:
        if bug not in self.right:
            return "new"
        statement = said.partition("; confirmed by")[0]
        return "right" if any(re.search(p, statement) for p in self.right[bug]) else "wrong"


def _digests(binary: Path, network: Network) -> str:
    inputs = ",".join(map(str, sorted(network.binary.parent.glob(f"{network.name}.in*"))))
    words = [str(binary), "infer", f"--model_file={network.binary}", f"--input_file={inputs}", "--digests"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=RUN_S, check=False)
    except subprocess.TimeoutExpired:
        return "hangs"
    return "\n".join(" ".join(line.split()[:2]) for line in done.stdout.splitlines()) + str(done.returncode)


def _networks(folder: Path) -> Iterator[Network]:
    """The real networks that are there, and every reference case of tests/ops as a network of a few nodes."""
    from tests.ops.case_files import ACTIVATIONS, CASES
    from tests.ops.qdq import Qdq

    folder.mkdir()
    for name, path in NETWORKS.items():
        if path.is_file():
            yield _network(folder, name, path.read_bytes())
    for name, (build, stem, _) in CASES.items():
        for act in ("u8", "s8", "s16"):
            maker = Qdq(*ACTIVATIONS[act], seed=sum(name.encode()))
            build(maker)
            if (
                network := _network(folder, f"case_{stem}_{name}_{act}", maker.model().SerializeToString())
            ) is not None:
                yield network


def _network(folder: Path, name: str, onnx: bytes) -> Network:
    path, binary = folder / f"{name}.onnx", folder / f"{name}.bin"
    path.write_bytes(onnx)
    graph = compile_model(onnx, path.name, CompilerOptions(check=False)).graph
    binary.write_bytes(encode(graph))
    return Network(name, path, binary, frozenset(n.op for n in graph.nodes), graph)

"""Triage of kernel bugs. Each bug of kernel_bugs.tar.xz is built into the runtime, and the networks whose bytes it changes
are determined. Triage of one of these must detect the bug, blame a node that the edited file computes, and explain it
correctly or not at all."""

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
from qverify.inputs.random_inputs import random_inputs
from qverify.inputs.sources import InputRequest
from qverify.model_bin.graph import Graph
from qverify.model_bin.records import encode
from qverify.model_bin.units import units
from qverify.renderers import fault_explanation
from qverify.report.triage_document import TriageDocument
from qverify.session.triage.run_triage import triage
from qverify.session.triage.triage_request import TriageRequest

from benchmarks.detection_subjects import MODELS, REAL
from benchmarks.kernel_bugs_archive import ARCHIVE, read_files
from benchmarks.kernel_bugs_built import Builder, DoesNotApply, KernelBug, list_bugs

NETWORKS = {
    name: MODELS[name] for name in ("digits", "ad_toycar_tfl", "kws_u8s8", "resnet8_u8s8", "mbv1_025_128_qat")
} | {
    "kwt1": REAL / "kwt1" / "kwt1_u8s8_qdq.onnx",
    "kwt1_full": REAL / "kwt1" / "kwt1_full_u8s8_qdq.onnx",
}
DEADLINE_S, RUN_S, EXPLAIN_S = 60.0, 20.0, 20.0


@dataclass(frozen=True, slots=True)
class Network:
    """A network on which bugs are tried. onnx, binary: its files. ops: the ops of its nodes."""

    name: str
    onnx: Path
    binary: Path
    ops: frozenset[str]
    graph: Graph


@dataclass(slots=True)
class BugResult:
    """The outcome of one bug.

    Attributes:
        truth: what the kernel does wrong, in its author's words.
        network: the network that was triaged.
        changed: number of networks whose bytes the bug changes.
        why: why the bug does not apply.
        detected: whether simulator and board differ.
        located: whether the edited file computes a node that is explained.
        nodes: the explained nodes.
        sentences: the text that triage prints for each of them.
        judged: "right", "wrong" or "new" (not judged yet) for each confirmed explanation.
        seconds: duration of the triage.
    """

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
        """The outcome in one or two words."""
        if not self.changed:
            return "does not apply" if self.why else "changes nothing"
        if not self.judged:
            return "candidate" if any("CANDIDATE" in s for s in self.sentences) else "unexplained"
        return next((o for o in ("wrong", "new") if o in self.judged), "right")


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench kernels", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="draws the network of each bug and its inputs")
    parser.add_argument("--bugs", type=Path, default=ARCHIVE, help="an archive or a folder of bugs")
    parser.add_argument("--set", default="", help="only this set of the archive")
    parser.add_argument("--only", nargs="*", help="beginnings of names")
    parser.add_argument("--count", type=int, help="so many bugs, drawn by the seed")
    parser.add_argument("--json", dest="path", metavar="F", help="the figures go to this file, too")
    options = parser.parse_args(words)
    bugs = [
        b for b in list_bugs(options.bugs, options.set) if not options.only or b.name.startswith(tuple(options.only))
    ]
    if options.count is not None:
        bugs = sorted(random.Random(options.seed).sample(bugs, min(options.count, len(bugs))), key=lambda b: b.name)
    print(f"seed {options.seed}, {len(bugs)} bugs", file=sys.stderr, flush=True)
    results = []
    with tempfile.TemporaryDirectory(prefix="qverify-kernels-") as folder:
        bench = _Bench(Path(folder), options.seed, _read_right_patterns())
        for bug in bugs:
            results.append(bench.run(bug))
            print(_line(results[-1]), flush=True)
    table = summary(results)
    print(json.dumps(table, indent=1))
    if options.path:
        document = {"seed": options.seed, **table, "bugs": [asdict(r) | {"outcome": r.outcome} for r in results]}
        Path(options.path).write_text(json.dumps(document, indent=1) + "\n")
    changed = table["changed_bytes"]
    return 0 if changed and table["detected"] == changed and not table["wrong"] and not table["new"] else 1


def _read_right_patterns() -> dict[str, list[str]]:
    """Returns the patterns of the explanations that a reader judged right, by bug. A confirmed explanation that matches
    none of them is `wrong`, or `new` if the bug has no patterns yet."""
    return tomllib.loads(read_files()["right.toml"])


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
    """Returns the line printed for a bug."""
    sentences = "; ".join(dict.fromkeys(result.sentences))
    where = f"{result.network}, {result.seconds:.1f} s"
    marks = "".join(m for m, on in ((" NOT DETECTED", result.detected), (" NOT LOCATED", result.located)) if not on)
    if not result.changed:
        return f"{result.outcome:14} {result.name} {result.why}"
    return f"{result.outcome:14} {result.name} ({where}){marks}\n    truth: {result.truth}\n    said:  {sentences}"


class _Bench:
    """Builds bugs and runs triage on them. right: see _read_right_patterns."""

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
        report: TriageDocument = triage(request)
        result.seconds = round(time.perf_counter() - start, 2)
        rung = next((r for r in report.rungs if (r.a, r.b) == ("simulator", "board")), None)
        result.detected = rung is not None and rung.verdict == "FAILED"
        result.nodes = [explained.node for explained in report.explained]
        stems = {Path(f).stem for f in bug.files if f.startswith("ops/")}
        blamed = set(result.nodes)
        ops = {node.op for unit in units(network.graph) if unit.name in blamed for node in unit.nodes}
        shared = any(not f.startswith("ops/") or f.endswith(".h") or Path(f).stem == "window" for f in bug.files)
        result.located = bool(ops) and (shared or bool(ops & stems))
        for node in report.explained:
            sentence = fault_explanation.verdict(node.explanation) if node.explanation is not None else node.why
            result.sentences.append(f"{node.op} {node.tensor}: {sentence}")
            if node.explanation is not None and node.explanation.confirmed:
                result.judged.append(self._judge(bug.name, sentence))

    def _judge(self, bug: str, sentence: str) -> str:
        """Returns right, wrong or new for a confirmed explanation."""
        if bug not in self.right:
            return "new"
        statement = sentence.partition("; confirmed by")[0]
        return "right" if any(re.search(p, statement) for p in self.right[bug]) else "wrong"


def _digests(binary: Path, network: Network) -> str:
    """Runs the runtime on the network and returns its digests and exit status as text."""
    inputs = ",".join(map(str, sorted(network.binary.parent.glob(f"{network.name}.in*"))))
    words = [str(binary), "infer", f"--model_file={network.binary}", f"--input_file={inputs}", "--digests"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=RUN_S, check=False)
    except subprocess.TimeoutExpired:
        return "hangs"
    return "\n".join(" ".join(line.split()[:2]) for line in done.stdout.splitlines()) + str(done.returncode)


def _networks(folder: Path) -> Iterator[Network]:
    """Yields the real networks whose files exist, and every reference case of tests/ops as a network of a few nodes."""
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

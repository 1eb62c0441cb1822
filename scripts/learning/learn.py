"""The command of scripts/learn_litert."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from qverify.compare.identify.arithmetic_file import read_arithmetic, to_text
from qverify.compare.identify.fit import RecordedUnit, collect, fit, run_free
from qverify.errors import QVerifyError
from qverify.model_bin.units import units
from qverify.report.learned import Arithmetic, LearnedOp
from qverify.session.tflite_alone import TfliteAlone, compile_plainly
from qverify.sides.simulator import Simulator
from qverify.tflite_model.convert import convert
from qverify.tflite_model.layout import as_in_onnx
from qverify.tflite_model.read_tflite import read_tflite

from scripts.learning.engines import Array, Engine, NotRun, open_engine
from scripts.learning.probes import draw_inputs, list_probes

NETWORK_RUNS = 3
LARGE = 8 << 20  # elements; of a larger network, one run is enough


@dataclass
class Opened:
    """A .tflite, converted and compiled as ref-exact."""

    name: str
    data: bytes

    def __post_init__(self) -> None:
        self.converted = convert(read_tflite(self.data, self.name))
        self.graph = compile_plainly(TfliteAlone(self.data, self.converted))
        self.units, self.simulator = units(self.graph), Simulator(self.graph)

    def record(self, engine: Engine, rng: np.random.Generator) -> dict[str, Array]:
        """Returns the tensors that the engine computes from random inputs, and the inputs."""
        names = [*self.graph.inputs, *self.graph.observable()]
        entries: Mapping[str, Any] = self.converted.tensors
        wanted = sorted({int(entries[n]["tfl"]) for n in names})
        found = engine.run(self.converted.model, self.data, draw_inputs(self.converted.model, rng), wanted)
        index = {n: int(entries[n]["tfl"]) for n in names}
        return {n: as_in_onnx(entries[n], found[i]) for n, i in index.items() if i in found}

    def collect(self, tensors: Mapping[str, Array]) -> list[RecordedUnit]:
        return collect(self.units, self.graph, lambda n: self._read(n, tensors), self.simulator.run_unit)

    def simulate(self, tensors: Mapping[str, Array], forms: Mapping[str, str]) -> Any:
        return run_free(self.units, self.graph, lambda n: self._read(n, tensors), self.simulator.run_unit, forms)

    def _read(self, name: str, tensors: Mapping[str, Array]) -> Array | None:
        return self.graph.constants.get(name, tensors.get(name))


def record_probes(engine: Engine, seed: int, refused: Counter[str]) -> Iterator[RecordedUnit]:
    """Yields the recorded units of all probes that the engine runs. refused: counts the others, which are added."""
    for number, (name, dtype, data) in enumerate(list_probes(seed)):
        try:
            opened = Opened(f"{name} {dtype} {number}.tflite", data)
            yield from opened.collect(opened.record(engine, np.random.default_rng([seed, number])))
        except NotRun as error:
            refused[f"{name} of {dtype}: {error}"] += 1


def check_network(path: str, engine: Engine, arithmetic: Arithmetic, seed: int) -> bool:
    """Prints how many tensors of a network the simulator gives bit by bit, free-running, and returns whether all."""
    opened, forms = Opened(Path(path).name, Path(path).read_bytes()), {k: op.form for k, op in arithmetic.ops.items()}
    runs, all_equal = 1 if sum(s.elements for s in opened.graph.tensors.values()) > LARGE else NETWORK_RUNS, True
    for run in range(runs):
        try:
            tensors = opened.record(engine, np.random.default_rng([seed, run]))
        except NotRun as error:
            print(f"{opened.name}: not run: {error}")
            return False
        free = opened.simulate(tensors, forms)
        all_equal &= free.equal == free.compared
        unknown = f"; by ops without a form: {len(free.unknown)}" if free.unknown else ""
        first = f"; first other {free.first}" if free.first else ""
        print(f"{opened.name}, input {run}: {free.equal} of {free.compared} tensors bit-equal{first}{unknown}")
    return all_equal


def describe(op: LearnedOp) -> str:
    """Returns a line that says what was learned of an op."""
    near = (
        f"; nearest {op.nearest.form} ({op.nearest.elements} of {op.nearest.of})" if op.nearest and not op.form else ""
    )
    told = f"; {op.decided} contradict {op.against}" if op.decided is not None else ""
    also = f"; also {', '.join(op.alike)}" if op.alike else ""
    return f"{op.op}: {op.form or f'unknown, {op.why}'}{told}{near}{also}; {op.nodes} nodes, {op.elements} elements"


def main(words: list[str], about: str) -> int:
    """Runs the command and returns its exit status: 0 if every op has a form and every network that ran is bit-equal."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", choices=["reference", "optimized", "xnnpack", "tflm", "cmsis-nn"])
    parser.add_argument("networks", nargs="*")
    parser.add_argument("-o", "--output", default="")
    parser.add_argument("--check", default="")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--source", default="")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_intermixed_args(words)
    try:
        engine = open_engine(options.kernels, options.python, options.source)
        learned = read_arithmetic(options.check) if options.check else learn(engine, options)
        if options.output:
            Path(options.output).write_text(to_text(learned))
        networks = [check_network(path, engine, learned, options.seed) for path in options.networks]
    except (QVerifyError, NotRun) as error:
        print(error, file=sys.stderr)
        return 2
    return 0 if all(networks) and all(op.form for op in learned.ops.values()) else 1


def learn(engine: Engine, options: argparse.Namespace) -> Arithmetic:
    """Returns what the probes show of an engine, and prints it."""
    refused = Counter[str]()
    ops = fit(record_probes(engine, options.seed, refused))
    for op in ops:
        print(describe(op), flush=True)
    if not ops:
        raise NotRun("no file of one operator was run")
    for why, count in refused.items():
        print(f"not run: {count} of {why}")
    name = Path(options.output).stem if options.output else options.kernels
    python = "" if options.python == sys.executable else " --python PYTHON"
    more = python + " --source CMSIS-NN" * bool(options.source) + f" --seed {options.seed}" * bool(options.seed)
    command = f"scripts/learn_litert {options.kernels} -o {name}.toml{more}"
    return Arithmetic(name, engine.name, command, {op.op: op for op in ops})

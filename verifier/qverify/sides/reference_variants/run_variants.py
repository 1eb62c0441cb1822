"""Measures how far onnxruntime with other settings or in other interpreters differs from the reference's own run."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from qverify.onnx_model.engine import Engine, version
from qverify.report.spread import SpreadRun
from qverify.sides.reference_variants.interpreter_files import ReferenceVariant
from qverify.sides.reference_variants.other_interpreter import OtherInterpreter
from qverify.tensors.recording import Array
from qverify.tensors.spec import TensorSpec

Step = Callable[[int, int], None]


@dataclass(slots=True)
class Spread:
    """The spread of the reference. widest: by tensor, the largest |a-b| in real values and the interpreter that had it.
    runs: a row for every interpreter, the current one first."""

    widest: dict[str, tuple[float, str]] = field(default_factory=dict)
    runs: list[SpreadRun] = field(default_factory=list)

    def add(self, row: SpreadRun, distances: Mapping[str, tuple[float, int]]) -> None:
        """Adds the distances of one interpreter, by tensor: in real values and in LSB."""
        row.tensors, row.differing = len(distances), sum(real > 0 or lsb > 0 for real, lsb in distances.values())
        row.max_lsb = max((lsb for _, lsb in distances.values()), default=0)
        row.widest = max(distances, key=lambda n: distances[n][0]) if row.differing else ""
        row.max_abs = distances[row.widest][0] if row.widest else 0.0
        for name, (real, _) in distances.items():
            if name not in self.widest or real > self.widest[name][0]:
                self.widest[name] = (real, row.who)
        self.runs.append(row)


def measure_spread(
    variants: Sequence[ReferenceVariant], others: Iterable[OtherInterpreter] = (), step: Step | None = None
) -> Spread:
    """Runs every variant in this interpreter, then in every other one. Raises UsageError if another interpreter
    fails."""
    spread, interpreters = Spread(), list(others)
    whole = len(variants) * (1 + len(interpreters))
    start, distances, values_by_model = time.perf_counter(), VariantDistances(variants), dict[int, dict[str, Array]]()
    for number, variant in enumerate(variants):
        values = Engine(variant.model, variant.level, variant.threads).run(variant.feed, list(variant.base))
        distances.add(number, values)
        values_by_model.setdefault(id(variant.model), values)
        _report_after(0, whole, step)(number + 1)
    row_of_this = SpreadRun("", version(), platform.python_version(), platform.machine())
    row_of_this.seconds, row_of_this.runs = round(time.perf_counter() - start, 3), len(variants)
    spread.add(row_of_this, distances.largest)
    for number, interpreter in enumerate(interpreters, 1):
        distances = VariantDistances(variants)
        like = [values_by_model[id(variant.model)] for variant in variants]
        row = interpreter.run(variants, like, distances.add, _report_after(number * len(variants), whole, step))
        spread.add(row, distances.largest)
    return spread


def _report_after(done: int, whole: int, step: Step | None) -> Callable[[int], None]:
    """Returns a function that reports `done + n` of `whole` runs."""
    return lambda n: None if step is None else step(done + n, whole)


class VariantDistances:
    """Distances of variants from their base. largest: by tensor, the largest distance in real values and in LSB."""

    def __init__(self, variants: Sequence[ReferenceVariant]):
        self._variants = variants
        self.largest: dict[str, tuple[float, int]] = {}

    def add(self, number: int, values: Mapping[str, Array]) -> None:
        """Adds the results of one variant, by the model's output names."""
        variant = self._variants[number]
        for name, value in values.items():
            spec = variant.specs[name]
            real, lsb = distance(spec, variant.base[name], value)
            before = self.largest.get(spec.name, (0.0, 0))
            self.largest[spec.name] = max(before[0], real), max(before[1], lsb)


def distance(spec: TensorSpec, a: Array, b: Array) -> tuple[float, int]:
    """Returns the largest |a-b| in real values (NaN equals NaN, and is infinitely far from a number), and in LSB for
    integers."""
    if a.shape != b.shape:
        return math.inf, 0
    integers = a.dtype.kind in "iu" and b.dtype.kind in "iu"
    lsb = int(np.abs(a.astype(np.int64) - b.astype(np.int64)).max(initial=0)) if integers else 0
    real, real_b = spec.dequantized(a), spec.dequantized(b)
    with np.errstate(invalid="ignore"):
        distances = np.abs(real - real_b)
    distances = np.where(np.isnan(distances), np.inf, distances)
    same = (real == real_b) | (np.isnan(real) & np.isnan(real_b))
    return float(np.where(same, 0.0, distances).max(initial=0.0)), lsb

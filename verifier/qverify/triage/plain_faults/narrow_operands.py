"""All operands are read with fewer bits: their lowest bits are dropped or rounded off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from qverify.tensors.spec import TensorSpec
from qverify.triage.case import Array, Case, UnitChange, limits
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.one_row import Recomputed
from qverify.triage.pre_rounding import add_ratios

NAME = "narrow-operands"
OPS = (
    *("add", "mul", "matmul", "concat", "conv", "conv_transpose", "fully_connected"),
    *("average_pool", "global_average_pool", "reduce_mean"),
)
KEPT = range(15, 7, -1)  # bits of a 16-bit operand
KEPT_OF_BYTE = range(7, 3, -1)
SAMPLE = 256  # differing elements that are looked at first
NEAR = 2.0  # LSB by which an element may be off there: a rounding, and the limit of another one
Way = Callable[[Array, int, int], Array]  # of stored integers, the number of bits lost, and the zero point
WAYS: dict[str, Way] = {
    "dropped": lambda q, count, zero: q >> count << count,
    "rounded off, half up": lambda q, count, zero: q + (1 << count - 1) >> count << count,
    "rounded off, half to even": lambda q, count, zero: np.rint(q / 2.0**count).astype(np.int64) << count,
    "dropped after the zero point is subtracted": lambda q, count, zero: (q - zero >> count << count) + zero,
    "dropped toward the zero point": lambda q, count, zero: (
        np.sign(q - zero) * (np.abs(q - zero) >> count << count) + zero
    ),
}


def variants(case: Case) -> Iterator[FaultVariant]:
    names = [n for n in case.unit.inputs if case.graph.spec(n).quantized and case.inputs[n].dtype.kind in "iu"]
    names = [n for n in names if len(case.graph.spec(n).zero_point) == 1]
    sizes = {case.inputs[n].itemsize for n in names}
    if len(case.unit.nodes) > 1 or not names or not sizes <= {1, 2} or (len(names) < 2 and sizes == {1}):
        return
    width = 8 * max(sizes)
    chosen = {"both operands" if len(names) == 2 else "all operands": tuple(names)} if len(names) > 1 else {}
    chosen |= {f"the operand {name}": (name,) for name in names}
    for kept in KEPT if width == 16 else KEPT_OF_BYTE:
        for verb, way in WAYS.items():
            if (
                "zero point" in verb
                and not any(case.graph.spec(n).zero_point[0] for n in names)
                and "toward" not in verb
            ):
                continue
            for which, changed in chosen.items():
                lost = width - kept
                bits = f"the lowest bit of {which} is" if lost == 1 else f"the lowest {lost} bits of {which} are"
                change = partial(_change, names=changed, way=way, lost=lost)
                look = partial(_may_fit, change=change) if case.last.op in ("add", "mul") else None
                yield FaultVariant(f"{bits} {verb} ({kept} bits are left)", Recomputed(change), 7.0, may_fit=look)


def _may_fit(case: Case, change: Callable[[Case], UnitChange]) -> bool:
    """Returns whether an addition or product of narrowed operands gives at least half of some differing elements, up to a
    rounding."""
    few = case.compute_once("few operands", lambda: _take_few(case))
    changed = change(few).inputs
    names = [n or "" for n in case.last.inputs[:2]]
    real = [changed.get(n, few.inputs[n]).astype(np.float64) - case.graph.spec(n).zero_point[0] for n in names]
    if case.last.op == "add":
        steps = real[0] * add_ratios(case)[0] + real[1] * add_ratios(case)[1]
    else:
        scales = [np.float64(case.graph.spec(n).scale[0]) for n in names]
        steps = real[0] * real[1] * (scales[0] * scales[1] / np.float64(case.spec.scale[0]))
    low, high = case.last.words[-2:]
    apart = np.abs(np.clip(steps + case.spec.zero_point[0], low, high) - few.recorded)
    return bool(2 * np.count_nonzero(apart <= NEAR) >= len(apart))


def _take_few(case: Case) -> Case:
    """Returns the case with the operands and the recorded values of some differing elements only, flat."""
    places = case.differing[:: max(1, len(case.differing) // SAMPLE)]
    names = [n or "" for n in case.last.inputs[:2]]
    values = {n: case.inputs[n] if n in case.inputs else case.graph.constants[n] for n in names}
    inputs = {n: np.broadcast_to(v, case.spec.shape).reshape(-1)[places] for n, v in values.items()}
    return replace(case, inputs=inputs, recorded=case.recorded.reshape(-1)[places], cache={})


def _change(case: Case, names: tuple[str, ...], way: Way, lost: int) -> UnitChange:
    """Returns the change in which these operands have fewer bits. Those that leave their type are in a wider one."""
    changed, specs = dict[str, Array](), dict[str, TensorSpec]()
    for name in names:
        values, spec = case.inputs[name], case.graph.spec(name)
        narrowed = way(values.astype(np.int64), lost, spec.zero_point[0])
        low, high = limits(spec)
        if narrowed.min() < low and spec.zero_point[0]:
            specs[name] = replace(spec, dtype="int32")
            changed[name] = narrowed.astype(np.int32)
        else:
            changed[name] = np.clip(narrowed, low, high).astype(values.dtype)
    return UnitChange(inputs=changed, specs=specs)

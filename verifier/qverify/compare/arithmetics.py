"""The catalogue of arithmetics: the ways in which runtimes are known to round the sums of a node. Each is computed for
single elements from the inputs that a side recorded, so that a few elements exclude those that do not fit.

A legal arithmetic is a rounding mode of NUMERICS.md section 1, or rounds the exact value to the nearest integer with
one rule for halves. The others are known mistakes, which are named and never accepted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from qverify.arithmetic.linear import is_wide
from qverify.arithmetic.multipliers import add_parameters, parameters
from qverify.arithmetic.requantize import half_up, requantize, shifted
from qverify.compare.accumulators import CHANNEL_AXIS, accumulate
from qverify.compare.error_bounds.bounded_values import Array, NoBound, Reals
from qverify.compare.error_bounds.documented_kernels import StatedOperands, is_change_of_quantization
from qverify.model_bin.graph import ROUNDINGS, Graph, Node
from qverify.model_bin.units import Unit
from qverify.ops import add, mul, simulate_node

MODES = tuple(r for r in ROUNDINGS if r not in ("ref-exact", "mul31"))  # mul31 is tflite-single
FLOOR = "pow2-floor"
RULES: dict[str, Callable[[Reals], Reals]] = {
    "half even": np.rint,
    "half up": lambda v: np.floor(v + 0.5),
    "half away from zero": lambda v: np.copysign(np.floor(np.abs(v) + 0.5), v),
    "half down": lambda v: np.ceil(v - 0.5),
}
MISTAKES: dict[str, Callable[[Reals], Reals]] = {
    "rounded down (floor)": np.floor,
    "cut off (toward zero)": np.trunc,
    "rounded up (ceiling)": np.ceil,
}
ZERO_INSIDE = "half even, the zero point added before"
CONVERT = "multiplier of 8 fraction bits"
LITERT_ADD = "each operand scaled by itself, gemmlowp"
SINGLE = (", scales multiplied in float32", ", scales in float32")  # how a runtime computed its multipliers
TWICE_HALF_UP = "gemmlowp with halves up at its second rounding"  # ruy, and the instructions of NEON
LEGAL = (
    *MODES,
    *(m + s for s in SINGLE for m in MODES),
    TWICE_HALF_UP,
    *(TWICE_HALF_UP + s for s in SINGLE),
    *RULES,
    ZERO_INSIDE,
    CONVERT,
    LITERT_ADD,
)
COARSE = (FLOOR, "mul8", *("mul8" + s for s in SINGLE), CONVERT)  # far from the nearest integer at more than near ties
SAMPLES = (24, 8), (1024, 512)  # elements by which arithmetics are excluded, in turn: that differ, and that do not
Compute = Callable[[Array], Array]  # from flat positions to the integers there


@dataclass(frozen=True)
class Rounded:
    """One output of a unit that the catalogue may explain. given: the recorded inputs."""

    unit: Unit
    output: str
    graph: Graph
    given: Mapping[str, Array]

    @cached_property
    def formulas(self) -> dict[str, Compute]:
        """The arithmetics of the catalogue for this unit, by name; empty if it has none."""
        first, *others = self.unit.nodes
        lookups = all(n.op == "lookup" for n in others)
        if not lookups or self.graph.spec(self.output).numpy_dtype.kind not in "iu":
            return {}
        try:
            found = dict(self._list_formulas(first))
        except (NoBound, KeyError, IndexError, ValueError):  # inputs or scales that do not fit
            return {}
        return {name: self._through(compute, others) for name, compute in found.items()}

    def _list_formulas(self, node: Node) -> Iterator[tuple[str, Compute]]:
        if node.op in CHANNEL_AXIS:
            yield from _list_linear(node, self.graph, self.given)
        elif node.op in ("add", "mul"):
            yield from _list_pairs(node, self.graph, self.given)
        elif node.op == "average_pool":
            yield from _list_pools(node, self.graph, self.given)
        elif node.op == "lookup" and is_change_of_quantization(node, self.graph):
            yield from _list_changes(node, self.graph, self.given)

    def _through(self, compute: Compute, lookups: list[Node]) -> Compute:
        """Returns the computation followed by these lookups."""

        def whole(at: Array) -> Array:
            values = compute(at)
            for node in lookups:
                lowest = int(np.iinfo(self.graph.spec(node.inputs[0] or "").dtype).min)
                values = self.graph.constants[node.inputs[1] or ""][values.astype(np.int64) - lowest]
            return values

        return whole if lookups else compute


def find_arithmetics(rounded: Rounded, made: Array, recorded: Array, among: Collection[str] | None = None) -> list[str]:
    """Returns the names of the arithmetics that give every recorded element, legal or not. made: what the other
    side computes from the same inputs, by which the first elements to try are chosen. among: the names to try, all of
    them if None."""
    flat, differing = recorded.reshape(-1), made.reshape(-1) != recorded.reshape(-1)
    stages = [*(_choose_sample(differing, *most) for most in SAMPLES), np.arange(recorded.size)]
    found = []
    for name, compute in rounded.formulas.items():
        if among is not None and name not in among:
            continue
        try:
            if all(np.array_equal(compute(at), flat[at]) for at in stages):
                found.append(name)
        except (ValueError, IndexError):  # scales that this arithmetic cannot represent
            continue
    return found


def _choose_sample(differing: Array, most_differing: int, most_others: int) -> Array:
    """Returns flat positions: some that differ and some that do not, evenly spread."""
    parts = (np.flatnonzero(differing), most_differing), (np.flatnonzero(~differing), most_others)
    return np.concatenate([where[:: max(1, len(where) // most)][:most] for where, most in parts])


def _list_linear(node: Node, graph: Graph, given: Mapping[str, Array]) -> Iterator[tuple[str, Compute]]:
    """Yields the arithmetics of an op that scales one sum."""
    y, (low, most) = graph.spec(node.outputs[0]), node.words[-2:]
    real = np.atleast_1d(StatedOperands(node, graph, dict(given)).rq)
    acc = accumulate(node, graph, given)
    if acc is None or len(y.zero_point) != 1:
        return
    flat, zero = acc.reshape(-1), y.zero_point[0]
    inner = int(np.prod(acc.shape[CHANNEL_AXIS[node.op] :][1:])) if CHANNEL_AXIS[node.op] >= 0 else 1
    wide = is_wide(*(graph.spec(n).dtype for n in node.inputs[:2] if n is not None and n in graph.tensors), y.dtype)

    def channel(at: Array) -> Array:
        return at // inner % len(real) if len(real) > 1 else np.zeros_like(at)

    def in_mode(at: Array, mode: str, scale: Reals) -> Array:
        multiplier, shift = parameters(mode, scale, wide).astype(np.int64)[:, channel(at)]
        return np.clip(shifted(flat[at], multiplier, shift, mode, wide) + zero, low, most).astype(y.dtype)

    def in_two_steps(at: Array, scale: Reals) -> Array:
        multiplier, exponent = parameters("gemmlowp", scale).astype(np.int64)[:, channel(at)]
        lifted = np.clip(flat[at] << np.maximum(exponent, 0), -(2**31), 2**31 - 1)
        high, right = (lifted * multiplier + 2**30) >> 31, np.maximum(-exponent, 0)
        return np.clip(np.where(right > 0, half_up(high, right), high) + zero, low, most).astype(y.dtype)

    for suffix, scale in _list_scales(node, graph, real).items():
        if not wide:
            yield TWICE_HALF_UP + suffix, lambda at, scale=scale: in_two_steps(at, scale)  # type: ignore[misc]
        for mode in MODES:
            yield mode + suffix, lambda at, mode=mode, scale=scale: in_mode(at, mode, scale)  # type: ignore[misc]
    yield from _list_rules(lambda at: np.asarray(flat[at] * real[channel(at)], np.float64), zero, (low, most), y.dtype)


def _list_scales(node: Node, graph: Graph, real: Reals) -> dict[str, Reals]:
    """Returns the scales of an op by the suffix of the name: as they are, and for an op of two operands as runtimes
    compute them that multiply the operands' scales, or do everything, in float32 (LiteRT: a FULLY_CONNECTED with one
    scale)."""
    names = node.inputs[:2]
    if node.op not in ("conv", "conv_transpose", "fully_connected", "matmul") or None in names:
        return {"": real}
    product = np.multiply(*(np.asarray(graph.spec(n or "").scale, np.float32) for n in names))
    y = np.float32(graph.spec(node.outputs[0]).scale[0])
    ways = (product.astype(np.float64) / np.float64(y), (product / y).astype(np.float64))
    fitting = {s: np.atleast_1d(w) for s, w in zip(SINGLE, ways, strict=True) if np.allclose(w, real, rtol=1e-6)}
    return {"": real, **fitting}


def _list_rules(
    steps: Callable[[Array], Reals], zero: int, limits: tuple[int, int], dtype: str
) -> Iterator[tuple[str, Compute]]:
    """Yields the rules by which the exact value is rounded. steps: returns it, in LSB before the zero point."""

    def by_rule(at: Array, rule: Callable[[Reals], Reals], inside: int = 0) -> Array:
        return np.clip(rule(steps(at) + inside) + (zero - inside), *limits).astype(dtype)

    for name, rule in (RULES | MISTAKES).items():
        yield name, lambda at, rule=rule: by_rule(at, rule)  # type: ignore[misc]
    yield ZERO_INSIDE, lambda at: by_rule(at, np.rint, zero)


def _list_pairs(node: Node, graph: Graph, given: Mapping[str, Array]) -> Iterator[tuple[str, Compute]]:
    """Yields the arithmetics of an addition or a product of two tensors."""
    operands = StatedOperands(node, graph, dict(given))
    names, y = [n or "" for n in node.inputs[:2]], graph.spec(node.outputs[0])
    stored = np.broadcast_arrays(*(graph.constants[n] if n in graph.constants else given[n] for n in names))
    first, second = (v.reshape(-1) for v in stored)
    real, rq = np.atleast_1d(operands.rq), node.inputs[2] or ""
    plain = replace(node, words=(0, *node.words[1:])) if node.op == "add" else node
    formula, wide = add.formula if node.op == "add" else mul.formula, is_wide(*(graph.spec(n).dtype for n in names))

    def in_form(at: Array, parts: Array, mode: str) -> Array:
        changed = replace(graph, constants={**graph.constants, rq: parts}, rounding=mode)
        return formula(plain, changed, first[at], second[at])

    def make(mode: str) -> Array:
        if node.op == "add":
            return add_parameters(mode, float(real[0]), float(real[1]))
        return parameters(mode, real[:1], wide)

    for mode in MODES:
        yield mode, lambda at, mode=mode: in_form(at, make(mode), mode)  # type: ignore[misc]
    if node.op == "add":
        yield LITERT_ADD, lambda at: in_form(at, _scale_operands(real), "gemmlowp")
    centred = [v.reshape(-1) for v in np.broadcast_arrays(operands.centred(0), operands.centred(1))]

    def steps(at: Array) -> Reals:
        a, b = (v[at] for v in centred)
        return np.asarray(a * real[0] + b * real[1] if node.op == "add" else a * b * real[0])

    _, low, high = (0, *node.words[-2:])
    yield from _list_rules(steps, y.zero_point[0], (low, high), y.dtype)


def _scale_operands(real: Reals) -> Array:
    """Returns the multipliers of both operands of a sum and of the sum itself, int32 [2, 3] (NUMERICS.md, add): LiteRT
    scales the operands one by one. real: their scales in LSB of the output, the second negative for a difference."""
    twice = 2 * float(np.abs(real).max())
    rq = parameters("gemmlowp", [abs(real[0]) / twice, abs(real[1]) / twice, twice / (1 << add.LEFT_SHIFT)])
    return rq * np.sign([[real[0], real[1], 1.0], [1.0, 1.0, 1.0]]).astype(np.int32)


def _list_pools(node: Node, graph: Graph, given: Mapping[str, Array]) -> Iterator[tuple[str, Compute]]:
    """Yields the rounding modes of an average pool."""
    x, y = graph.spec(node.inputs[0] or ""), graph.spec(node.outputs[0])
    ratio = np.float64(x.scale[0]) / np.float64(y.scale[0])
    counts = np.arange(node.words[0] * node.words[1], dtype=np.float64) + 1

    def in_mode(at: Array, mode: str) -> Array:
        changed = {**graph.constants, node.inputs[1] or "": parameters(mode, ratio / counts)}
        values = simulate_node(replace(graph, constants=changed, rounding=mode), node, given)
        return values[node.outputs[0]].reshape(-1)[at]

    for mode in MODES:
        yield mode, lambda at, mode=mode: in_mode(at, mode)  # type: ignore[misc]


def _list_changes(node: Node, graph: Graph, given: Mapping[str, Array]) -> Iterator[tuple[str, Compute]]:
    """Yields the arithmetics of a change of the quantization."""
    x, y = graph.spec(node.inputs[0] or ""), graph.spec(node.outputs[0])
    ratio, zero, limits = float(x.scale[0]) / float(y.scale[0]), y.zero_point[0], np.iinfo(y.dtype)
    ends: tuple[int, int] = int(limits.min), int(limits.max)
    centred = given[node.inputs[0] or ""].reshape(-1).astype(np.int64) - x.zero_point[0]

    def in_mode(at: Array, mode: str) -> Array:
        return requantize(centred[at], parameters(mode, ratio), zero, *ends, y.dtype, mode, False, 0)

    def convert(at: Array) -> Array:
        scaled = centred[at] * int(np.rint(256 * ratio)) + 128 >> 8
        return np.clip(scaled + zero, *ends).astype(y.dtype)

    for mode in MODES:
        yield mode, lambda at, mode=mode: in_mode(at, mode)  # type: ignore[misc]
    yield CONVERT, convert
    yield from _list_rules(lambda at: np.asarray(centred[at] * ratio, np.float64), zero, ends, y.dtype)


def describe(name: str) -> str:
    """Returns the arithmetic in words, with the option that gives it to model.bin if there is one."""
    mode, _, how = name.partition(", ")
    if mode == TWICE_HALF_UP:
        return f"rounding {name}"
    if mode not in MODES:
        return f"the exact value, {name}"
    return f"rounding {mode} (qverify compile --rounding {mode}{'; ' + how if how else ''})"


def choose_name(names: Collection[str]) -> str:
    """Returns the name to show of several arithmetics that give the same bytes: a mode of powers of two, which fits no
    other scales, then the order of the catalogue."""
    order = [*(m for m in MODES if m.startswith("pow2")), *LEGAL, *MISTAKES]
    return min(names, key=order.index) if names else ""

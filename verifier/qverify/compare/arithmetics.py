"""The catalogue of arithmetics: the ways in which runtimes are known to round the sums of a node. Each is computed for
single elements from the inputs that a side recorded, so that a few elements exclude those that do not fit.

A legal arithmetic is a rounding mode of NUMERICS.md section 1, or rounds the exact value to the nearest integer with
one rule for halves. The others are known mistakes, which are named and never accepted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from qverify.arithmetic.linear import is_wide
from qverify.arithmetic.multipliers import add_parameters, parameters
from qverify.arithmetic.requantize import half_up, requantize, shifted
from qverify.arithmetic.windows import plane_shape, taps_counted, window_of
from qverify.compare.accumulators import CHANNEL_AXIS, accumulate, accumulate_taps
from qverify.compare.error_bounds.bounded_values import Array, NoBound, Reals
from qverify.compare.error_bounds.documented_kernels import StatedOperands, is_change_of_quantization
from qverify.model_bin.graph import ROUNDINGS, Graph, Node
from qverify.model_bin.units import Unit
from qverify.ops import add, mul

MODES = tuple(r for r in ROUNDINGS if r not in ("ref-exact", "mul31"))  # mul31 is tflite-single
FLOOR = "pow2-floor"
FLOOR_MEANS = f"{FLOOR}, means divided"  # by their number of elements, which need not be a power of two
MEANS = ("average_pool", "global_average_pool", "reduce_mean")
DOWN = "rounded down (floor)"
RULES: dict[str, Callable[[Reals], Reals]] = {
    "half even": np.rint,
    "half up": lambda v: np.floor(v + 0.5),
    "half away from zero": lambda v: np.copysign(np.floor(np.abs(v) + 0.5), v),
    "half down": lambda v: np.ceil(v - 0.5),
}
MISTAKES: dict[str, Callable[[Reals], Reals]] = {
    DOWN: np.floor,
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
    FLOOR_MEANS,
    *(m + s for s in SINGLE for m in MODES),
    TWICE_HALF_UP,
    *(TWICE_HALF_UP + s for s in SINGLE),
    *RULES,
    ZERO_INSIDE,
    CONVERT,
    LITERT_ADD,
)
# Those that differ from the nearest integer at more than near ties, so that a fault may look like one of them
COARSE = (*(m for m in MODES if m.startswith("pow2")), "mul8", CONVERT)
TIES = 2.0**-7  # LSB from a tie within which those that are not coarse differ from the nearest integer, in 8 bits
FAR = (*COARSE, "mul16", *MISTAKES)  # those that differ at other elements, too
Compute = Callable[[Array], Array]  # from flat positions to the integers there


@dataclass(frozen=True)
class Exact:
    """The exact value of a node. steps: returns it, in LSB before the zero point `zero`, at flat positions. limits, dtype:
    those of the integers. scales: those by which integers are multiplied."""

    steps: Callable[[Array], Reals]
    zero: int
    limits: tuple[int, int]
    dtype: str
    scales: Reals


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
        named, exact = self._known
        rules = dict(_list_rules(exact)) if exact is not None else {}
        floor = rules.get(DOWN) if self.unit.nodes[0].op in MEANS else named.get(FLOOR)
        divided = {FLOOR_MEANS: floor} if floor is not None else {}
        return {name: self._through(compute) for name, compute in {**named, **rules, **divided}.items()}

    @property
    def exact(self) -> Exact | None:
        """The exact value of the first node, or None if the catalogue has none."""
        return self._known[1]

    @cached_property
    def nearest(self) -> Compute:
        """The nearest integer to the exact value."""
        assert self.exact is not None
        return self._through(dict(_list_rules(self.exact))["half even"])

    @cached_property
    def _known(self) -> tuple[dict[str, Compute], Exact | None]:
        first, *others = self.unit.nodes
        if any(n.op != "lookup" for n in others) or self.graph.spec(self.output).numpy_dtype.kind not in "iu":
            return {}, None
        try:
            if first.op in CHANNEL_AXIS:
                return _list_linear(first, self.graph, self.given)
            if first.op in ("add", "mul"):
                return _list_pairs(first, self.graph, self.given)
            if first.op == "average_pool":
                return _list_pools(first, self.graph, self.given)
            if first.op == "concat":
                return _list_concats(first, self.graph, self.given)
            if first.op == "lookup" and is_change_of_quantization(first, self.graph):
                return _list_changes(first, self.graph, self.given)
        except (NoBound, KeyError, IndexError, ValueError):  # inputs or scales that do not fit
            pass
        return {}, None

    def _through(self, compute: Compute) -> Compute:
        """Returns the computation followed by the unit's lookups."""
        lookups = self.unit.nodes[1:]

        def whole(at: Array) -> Array:
            values = compute(at)
            for node in lookups:
                lowest = int(np.iinfo(self.graph.spec(node.inputs[0] or "").dtype).min)
                values = self.graph.constants[node.inputs[1] or ""][values.astype(np.int64) - lowest]
            return values

        return whole if lookups else compute


Known = tuple[dict[str, Compute], Exact | None]


def _list_linear(node: Node, graph: Graph, given: Mapping[str, Array]) -> Known:
    """Returns the arithmetics of an op that scales one sum, and its exact value."""
    y, (low, most) = graph.spec(node.outputs[0]), node.words[-2:]
    real = np.atleast_1d(StatedOperands(node, graph, dict(given)).rq)
    acc = accumulate(node, graph, given)
    if acc is None or len(y.zero_point) != 1:
        return {}, None
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

    found: dict[str, Compute] = {}
    for suffix, scale in _list_scales(node, graph, real).items():
        if not wide:
            found[TWICE_HALF_UP + suffix] = partial(in_two_steps, scale=scale)
        found |= {mode + suffix: partial(in_mode, mode=mode, scale=scale) for mode in MODES}
    exact = Exact(lambda at: np.asarray(flat[at] * real[channel(at)], np.float64), zero, (low, most), y.dtype, real)
    return found, exact


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
    fitting = {
        s: np.atleast_1d(w) for s, w in zip(SINGLE, ways, strict=True) if np.allclose(w, real, rtol=1e-6, atol=0.0)
    }
    return {"": real, **fitting}


def _list_rules(exact: Exact) -> Iterator[tuple[str, Compute]]:
    """Yields the rules by which the exact value is rounded."""

    def by_rule(at: Array, rule: Callable[[Reals], Reals], inside: int = 0) -> Array:
        return np.clip(rule(exact.steps(at) + inside) + (exact.zero - inside), *exact.limits).astype(exact.dtype)

    for name, rule in (RULES | MISTAKES).items():
        yield name, partial(by_rule, rule=rule)
    yield ZERO_INSIDE, partial(by_rule, rule=np.rint, inside=exact.zero)


def _list_pairs(node: Node, graph: Graph, given: Mapping[str, Array]) -> Known:
    """Returns the arithmetics of an addition or a product of two tensors, and the exact value."""
    operands = StatedOperands(node, graph, dict(given))
    names, y = [n or "" for n in node.inputs[:2]], graph.spec(node.outputs[0])
    stored = np.broadcast_arrays(*(graph.constants[n] if n in graph.constants else given[n] for n in names))
    first, second = (v.reshape(-1) for v in stored)
    real, rq = np.atleast_1d(operands.rq), node.inputs[2] or ""
    plain = replace(node, words=(0, *node.words[1:])) if node.op == "add" else node
    formula, wide = add.formula if node.op == "add" else mul.formula, is_wide(*(graph.spec(n).dtype for n in names))

    def in_form(at: Array, mode: str, make: Callable[[str], Array]) -> Array:
        changed = replace(graph, constants={**graph.constants, rq: make(mode)}, rounding=mode)
        return formula(plain, changed, first[at], second[at])

    def make(mode: str) -> Array:
        if node.op == "add":
            return add_parameters(mode, float(real[0]), float(real[1]))
        return parameters(mode, real[:1], wide)

    found: dict[str, Compute] = {mode: partial(in_form, mode=mode, make=make) for mode in MODES}
    if node.op == "add":
        found[LITERT_ADD] = partial(in_form, mode="gemmlowp", make=lambda mode: _scale_operands(real))
    centred = [v.reshape(-1) for v in np.broadcast_arrays(operands.centred(0), operands.centred(1))]

    def steps(at: Array) -> Reals:
        a, b = (v[at] for v in centred)
        return np.asarray(a * real[0] + b * real[1] if node.op == "add" else a * b * real[0])

    low, high = node.words[-2:]
    return found, Exact(steps, y.zero_point[0], (low, high), y.dtype, real)


def _scale_operands(real: Reals) -> Array:
    """Returns the multipliers of both operands of a sum and of the sum itself, int32 [2, 3] (NUMERICS.md, add): LiteRT
    scales the operands one by one. real: their scales in LSB of the output, the second negative for a difference."""
    twice = 2 * float(np.abs(real).max())
    rq = parameters("gemmlowp", [abs(real[0]) / twice, abs(real[1]) / twice, twice / (1 << add.LEFT_SHIFT)])
    return rq * np.sign([[real[0], real[1], 1.0], [1.0, 1.0, 1.0]]).astype(np.int32)


def _list_pools(node: Node, graph: Graph, given: Mapping[str, Array]) -> Known:
    """Returns the rounding modes of an average pool, and the exact value."""
    x, y, window = graph.spec(node.inputs[0] or ""), graph.spec(node.outputs[0]), window_of(node.words, dilated=False)
    taps = node.words[0] * node.words[1]
    count = taps_counted(window, plane_shape(x.shape), plane_shape(y.shape), False)
    if not count.all():
        return {}, None
    real = np.float64(x.scale[0]) / np.float64(y.scale[0]) / (np.arange(taps, dtype=np.float64) + 1)
    divisor = np.broadcast_to(taps if node.words[8] else count, (*y.shape[:2], *plane_shape(y.shape))).reshape(-1)
    flat = accumulate_taps(node, graph, given).reshape(-1)
    zero, wide, (low, high) = y.zero_point[0], is_wide(x.dtype, y.dtype), node.words[-2:]

    def in_mode(at: Array, mode: str) -> Array:
        multiplier, shift = parameters(mode, real, wide).astype(np.int64)[:, divisor[at] - 1]
        return np.clip(shifted(flat[at], multiplier, shift, mode, wide) + zero, low, high).astype(y.dtype)

    found: dict[str, Compute] = {mode: partial(in_mode, mode=mode) for mode in MODES}
    exact = Exact(lambda at: np.asarray(flat[at] * real[divisor[at] - 1], np.float64), zero, (low, high), y.dtype, real)
    return found, exact


def _list_changes(node: Node, graph: Graph, given: Mapping[str, Array]) -> Known:
    """Returns the arithmetics of a change of the quantization, and the exact value."""
    x, y = graph.spec(node.inputs[0] or ""), graph.spec(node.outputs[0])
    ratio, zero, limits = float(x.scale[0]) / float(y.scale[0]), y.zero_point[0], np.iinfo(y.dtype)
    ends: tuple[int, int] = int(limits.min), int(limits.max)
    centred = given[node.inputs[0] or ""].reshape(-1).astype(np.int64) - x.zero_point[0]

    def in_mode(at: Array, mode: str) -> Array:
        return requantize(centred[at], parameters(mode, ratio), zero, *ends, y.dtype, mode, False, 0)

    def convert(at: Array) -> Array:
        scaled = centred[at] * int(np.rint(256 * ratio)) + 128 >> 8
        return np.clip(scaled + zero, *ends).astype(y.dtype)

    found: dict[str, Compute] = {mode: partial(in_mode, mode=mode) for mode in MODES}
    exact = Exact(lambda at: np.asarray(centred[at] * ratio, np.float64), zero, ends, y.dtype, np.atleast_1d(ratio))
    return {**found, CONVERT: convert}, exact


def _list_concats(node: Node, graph: Graph, given: Mapping[str, Array]) -> Known:
    """Returns the arithmetics of a concatenation that changes the quantization of its operands, and the exact value."""
    y, ends = graph.spec(node.outputs[0]), np.iinfo(graph.spec(node.outputs[0]).dtype)
    specs = [graph.spec(n or "") for n in node.inputs]
    if any(len(s.scale) != 1 for s in (*specs, y)):
        return {}, None
    real = np.array([s.scale[0] for s in specs]) / y.scale[0]
    stored = [graph.constants[s.name] if s.name in graph.constants else given[s.name] for s in specs]
    centred = [v.astype(np.int64) - s.zero_point[0] for v, s in zip(stored, specs, strict=True)]
    flat = np.concatenate(centred, node.words[0]).reshape(-1)
    operand = np.concatenate([np.full(v.shape, k) for k, v in enumerate(centred)], node.words[0]).reshape(-1)
    zero, limits = y.zero_point[0], (int(ends.min), int(ends.max))

    def in_mode(at: Array, mode: str) -> Array:
        multiplier, shift = parameters(mode, real).astype(np.int64)[:, operand[at]]
        return np.clip(shifted(flat[at], multiplier, shift, mode, False) + zero, *limits).astype(y.dtype)

    def convert(at: Array) -> Array:
        scaled = flat[at] * np.rint(256 * real).astype(np.int64)[operand[at]] + 128 >> 8
        return np.clip(scaled + zero, *limits).astype(y.dtype)

    found: dict[str, Compute] = {mode: partial(in_mode, mode=mode) for mode in MODES}
    exact = Exact(lambda at: np.asarray(flat[at] * real[operand[at]], np.float64), zero, limits, y.dtype, real)
    return {**found, CONVERT: convert}, exact


def is_coarse(name: str) -> bool:
    """Returns whether an arithmetic differs from the nearest integer far from ties, so that a fault may look like it."""
    return name.partition(", ")[0] in COARSE


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

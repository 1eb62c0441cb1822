"""The arithmetics of the catalogue for single elements of each op that it knows, and the exact value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from math import prod

import numpy as np

from qverify.arithmetic.forms import Form, make_addition_rq
from qverify.arithmetic.linear import is_wide
from qverify.arithmetic.methods import add_in_float32, hold_in_16_bits
from qverify.arithmetic.multipliers import add_parameters, parameters
from qverify.arithmetic.requantize import apply_steps, half_up, lift, shifted
from qverify.arithmetic.windows import plane_shape, taps_counted, window_of
from qverify.compare.accumulators import CHANNEL_AXIS, NodeSums, accumulate_taps, has_sums
from qverify.compare.arithmetics_of_htp import add_operands
from qverify.compare.catalogue import (
    CONVERT,
    HTP_ADD,
    HTP_CHANGE,
    LITERT_ADD,
    MODES,
    RULES,
    SINGLE,
    TWICE_HALF_UP,
    XNNPACK_ADD,
)
from qverify.compare.error_bounds.bounded_values import Array, Reals
from qverify.compare.error_bounds.documented_kernels import StatedOperands
from qverify.compare.scaled_sums import CODES, At, Pair, ScaledSums, Sums, remember
from qverify.model_bin.graph import Graph, Node
from qverify.ops import add
from qverify.tensors.spec import TensorSpec

Compute = Callable[[At], Array]  # from flat positions, or sums, to the integers there


@dataclass(frozen=True, slots=True)
class Codes:
    """A number below 2^16 for each element, on which alone its value depends. join: function that returns those of a
    run. decode: function that returns what is computed from for such numbers."""

    join: Callable[[slice], Array]
    decode: Callable[[Array], At]


@dataclass(frozen=True)
class Exact:
    """The exact value of a node, in LSB before the zero point.

    Attributes:
        steps: function that returns it at flat positions.
        zero: zero point of the output.
        limits: those of the integers.
        dtype: type of the integers.
        scales: those by which integers are multiplied.
        sums: the sums of which it is a multiple, or None.
        codes: the codes on which alone the elements depend, or None if there are none.
        ways: the scales by the suffix of a form's name, as runtimes compute them; {} if there is one way.
        operands: of an addition, function that returns both operands without their zero points.
    """

    steps: Callable[[At], Reals]
    zero: int
    limits: tuple[int, int]
    dtype: str
    scales: Reals
    sums: ScaledSums | None = None
    codes: Codes | None = None
    ways: Mapping[str, Reals] = field(default_factory=dict)
    operands: Callable[[At], tuple[Array, Array]] | None = None


Known = tuple[dict[str, Compute], Exact | None]


class _Modes:
    """The integer modes for sums that are multiplied by one scale each. Modes and scales that have the same multipliers
    are computed once for the same positions.

    Args:
        sums: the sums.
        y: the output.
        limits: limits of the integers.
        wide: whether the sums are int64.
        scales: the scales by the suffix of a mode's name, those of the sums if None.
    """

    def __init__(
        self,
        sums: ScaledSums,
        y: TensorSpec,
        limits: tuple[int, int],
        wide: bool,
        scales: dict[str, Reals] | None = None,
    ):
        self._sums, self._y, self._limits, self._wide = sums, y, limits, wide
        self.scales = scales or {"": sums.scales}
        self._made = remember(lambda at: dict[tuple[str, bytes], Array]())
        self._parameters: dict[tuple[str, str], tuple[Array, bytes]] = {}

    def compute(self, at: At, mode: str, suffix: str) -> Array:
        """Returns the integers that a mode gives."""
        mode = "gemmlowp" if mode == "cmsis" else mode  # of sums, they are one
        rq, key = self._find_parameters(mode, suffix)
        made = self._made(at)
        if (mode, key) not in made:
            sums = self._sums.read(at)
            multiplier, shift = rq if rq.shape[1] == 1 else rq[:, sums.number]
            made[mode, key] = self.store(shifted(sums.acc, multiplier, shift, mode, self._wide))
        return made[mode, key]

    def compute_in_two_steps(self, at: At, suffix: str) -> Array:
        """Returns the integers of gemmlowp with halves up at its second rounding."""
        sums, rq = self._sums.read(at), self._find_parameters("gemmlowp", suffix)[0]
        multiplier, exponent = rq if rq.shape[1] == 1 else rq[:, sums.number]
        high, right = (lift(sums.acc, exponent) * multiplier + 2**30) >> 31, np.maximum(-exponent, 0)
        return self.store(np.where(right > 0, half_up(high, right), high))

    def round_once(self, at: At, rule: str, suffix: str) -> Array:
        """Returns the integers nearest to the exact products with the scales of this suffix."""
        sums = self._sums.read(at)
        return self.store(RULES[rule](sums.acc * self.scales[suffix][sums.number]))

    def list(self, suffix: str = "") -> dict[str, Compute]:
        """Returns the modes with the scales of this suffix by name, which ends in it."""
        return {mode + suffix: partial(self.compute, mode=mode, suffix=suffix) for mode in MODES}

    def convert(self, at: At) -> Array:
        """Returns the integers of a change of the quantization by a multiplier of 8 fraction bits."""
        sums = self._sums.read(at)
        return self.store(sums.acc * np.rint(256 * self._sums.scales).astype(np.int64)[sums.number] + 128 >> 8)

    def list_changes(self) -> dict[str, Compute]:
        """Returns the arithmetics of a change of the quantization, by name."""
        changes: dict[str, Compute] = {**self.list(), CONVERT: self.convert}
        with suppress(ValueError):  # scales that it cannot represent
            rq = hold_in_16_bits(Form.parse(HTP_CHANGE), self._sums.scales).astype(np.int64)
            changes[HTP_CHANGE] = partial(self._hold, rq=rq)
        return changes

    def _hold(self, at: At, rq: Array) -> Array:
        sums = self._sums.read(at)
        return self.store(apply_steps(sums.acc, rq[:, sums.number]))

    def store(self, value: Array) -> Array:
        """Returns integers before the zero point as the output stores them."""
        value = value + self._y.zero_point[0]
        np.maximum(value, self._limits[0], out=value)
        return np.minimum(value, self._limits[1], out=value).astype(self._y.dtype)

    def _find_parameters(self, mode: str, suffix: str) -> tuple[Array, bytes]:
        kind = "pow2" if mode.startswith("pow2") else mode
        if (kind, suffix) not in self._parameters:
            try:  # at once for all suffixes, which takes little longer than for one
                every = parameters(mode, np.concatenate([*self.scales.values()]), self._wide)
                parts = dict(zip(self.scales, np.split(every, len(self.scales), 1), strict=True))
            except ValueError:  # scales that the mode cannot represent
                parts = {suffix: parameters(mode, self.scales[suffix], self._wide)}
            for name, part in parts.items():
                self._parameters[kind, name] = part.astype(np.int64), part.tobytes()
        return self._parameters[kind, suffix]


def _exact(sums: ScaledSums, y: TensorSpec, limits: tuple[int, int], codes: Codes | None = None) -> Exact:
    return Exact(sums.steps, y.zero_point[0], limits, y.dtype, sums.scales, sums, codes)


def list_linear(node: Node, graph: Graph, given: Mapping[str, Array], acc: NodeSums) -> Known:
    """Returns the arithmetics of an op that scales one sum, and its exact value."""
    y, limits = graph.spec(node.outputs[0]), (node.words[-2], node.words[-1])
    real = np.atleast_1d(StatedOperands(node, graph, dict(given)).rq)
    if not has_sums(node, graph) or len(y.zero_point) != 1:
        return {}, None
    axis = CHANNEL_AXIS[node.op]
    inner = prod(y.shape[axis:][1:]) if axis >= 0 else 1
    wide = is_wide(*(graph.spec(n).dtype for n in node.inputs[:2] if n is not None and n in graph.tensors), y.dtype)
    sums = ScaledSums(acc.take, acc.flat, real, inner)
    modes, found = _Modes(sums, y, limits, wide, _list_scales(node, graph, real)), dict[str, Compute]()
    for suffix in modes.scales:
        if not wide:
            found[TWICE_HALF_UP + suffix] = partial(modes.compute_in_two_steps, suffix=suffix)
        found |= modes.list(suffix)
        if suffix and not wide:
            found |= {rule + suffix: partial(modes.round_once, rule=rule, suffix=suffix) for rule in RULES}
    return found, replace(_exact(sums, y, limits), ways=modes.scales)


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


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Two operands of one shape, flat, and their zero points."""

    stored: tuple[Array, Array]
    zeros: tuple[int, int]

    def take(self, at: At) -> Pair:
        """Returns both, as they are stored."""
        assert not isinstance(at, Sums)
        return at if isinstance(at, Pair) else Pair(self.stored[0][at], self.stored[1][at])

    def centred(self, at: At) -> tuple[Array, Array]:
        """Returns both, int64, without their zero points."""
        pair = self.take(at)
        return pair.first.astype(np.int64) - self.zeros[0], pair.second.astype(np.int64) - self.zeros[1]

    def multiply(self) -> Array:
        """Returns all products; those of operands of 8 bits are int32."""
        dtype = np.int32 if all(v.dtype.itemsize == 1 for v in self.stored) else np.int64
        first, second = (np.subtract(v, z, dtype=dtype) for v, z in zip(self.stored, self.zeros, strict=True))
        return np.multiply(first, second, out=first)

    @property
    def codes(self) -> Codes | None:
        """Both stored bytes as one number; None for wider operands."""
        if any(v.dtype.itemsize > 1 for v in self.stored):
            return None
        first, second = (v.view(np.uint8) for v in self.stored)

        def decode(codes: Array) -> At:
            both = zip((codes >> 8, codes), self.stored, strict=True)
            return Pair(*(part.astype(np.uint8).view(v.dtype) for part, v in both))

        return Codes(lambda run: first[run].astype(np.int64) * CODES + second[run], decode)


def _read_pairs(node: Node, graph: Graph, given: Mapping[str, Array]) -> _Pairs:
    """Returns the operands. Raises ValueError for one that has several zero points."""
    names = [n or "" for n in node.inputs[:2]]
    stored = np.broadcast_arrays(*(graph.constants[n] if n in graph.constants else given[n] for n in names))
    zeros = [graph.spec(n).zero_point for n in names]
    if any(len(z) != 1 for z in zeros):
        raise ValueError("operands with several zero points")
    return _Pairs((stored[0].reshape(-1), stored[1].reshape(-1)), (zeros[0][0], zeros[1][0]))


def list_products(node: Node, graph: Graph, given: Mapping[str, Array]) -> Known:
    """Returns the arithmetics of a product of two tensors, and the exact value."""
    pairs, y = _read_pairs(node, graph, given), graph.spec(node.outputs[0])
    real = np.atleast_1d(StatedOperands(node, graph, dict(given)).rq)[:1]
    limits, wide = (
        (node.words[-2], node.words[-1]),
        is_wide(*(graph.spec(n or "").dtype for n in node.inputs[:2]), y.dtype),
    )
    sums = ScaledSums(lambda at: np.multiply(*pairs.centred(at)), cache(pairs.multiply), real)
    return _Modes(sums, y, limits, wide).list(), _exact(sums, y, limits)


def list_additions(node: Node, graph: Graph, given: Mapping[str, Array]) -> Known:
    """Returns the arithmetics of an addition of two tensors, and the exact value."""
    pairs, y = _read_pairs(node, graph, given), graph.spec(node.outputs[0])
    real, rq = np.atleast_1d(StatedOperands(node, graph, dict(given)).rq), node.inputs[2] or ""
    plain, take, changed = replace(node, words=(0, *node.words[1:])), remember(pairs.take), dict[str, Graph]()

    def in_form(at: At, mode: str, make: Callable[[str], Array], name: str) -> Array:
        if name not in changed:
            changed[name] = replace(graph, constants={**graph.constants, rq: make(mode)}, rounding=mode)
        pair = take(at)
        return add.formula(plain, changed[name], pair.first, pair.second)

    def make(mode: str) -> Array:
        return add_parameters(mode, float(real[0]), float(real[1]))

    found: dict[str, Compute] = {mode: partial(in_form, mode=mode, make=make, name=mode) for mode in MODES}
    found[LITERT_ADD] = partial(
        in_form,
        mode="gemmlowp",
        make=lambda mode: make_addition_rq(Form.parse(LITERT_ADD), *map(float, real)),
        name=LITERT_ADD,
    )

    def steps(at: At) -> Reals:
        first, second = pairs.centred(at)
        return np.asarray(first * real[0] + second * real[1])

    low, high = node.words[-2:]
    if all(v.dtype.itemsize == 1 for v in pairs.stored):
        scales = [graph.spec(n or "").scale[0] * float(np.sign(r)) for n, r in zip(node.inputs, real, strict=False)]
        with suppress(ValueError):
            summed = add_in_float32(Form.parse(XNNPACK_ADD), scales[0], scales[1], y.scale[0])
            found[XNNPACK_ADD] = partial(in_form, mode="gemmlowp", make=partial(_any_mode, summed), name=XNNPACK_ADD)
        operands = graph.spec(node.inputs[0] or ""), graph.spec(node.inputs[1] or "")
        with suppress(ValueError):
            htp = add_operands(pairs.centred, real, operands, y)
            found[HTP_ADD] = partial(_clip, htp, (low, high), y)
    exact = Exact(remember(steps), y.zero_point[0], (low, high), y.dtype, real, None, pairs.codes)
    return found, replace(exact, operands=pairs.centred)


def _any_mode(rq: Array, mode: str) -> Array:
    return rq


def _clip(compute: Callable[..., Array], limits: tuple[int, int], y: TensorSpec, at: At) -> Array:
    return np.clip(compute(at), limits[0], limits[1]).astype(y.dtype)


def list_pools(node: Node, graph: Graph, given: Mapping[str, Array]) -> Known:
    """Returns the rounding modes of an average pool, and the exact value."""
    x, y, window = graph.spec(node.inputs[0] or ""), graph.spec(node.outputs[0]), window_of(node.words, dilated=False)
    taps = node.words[0] * node.words[1]
    count = taps_counted(window, plane_shape(x.shape), plane_shape(y.shape), False)
    if not count.all():
        return {}, None
    real = np.float64(x.scale[0]) / np.float64(y.scale[0]) / (np.arange(taps, dtype=np.float64) + 1)
    divisor = np.broadcast_to(taps if node.words[8] else count, (*y.shape[:2], *plane_shape(y.shape))).reshape(-1)
    flat = accumulate_taps(node, graph, given).reshape(-1)
    wide, limits = is_wide(x.dtype, y.dtype), (node.words[-2], node.words[-1])
    sums = ScaledSums(lambda at: flat[at], lambda: flat, real, numbers=divisor - 1)
    return _Modes(sums, y, limits, wide).list(), _exact(sums, y, limits)


def list_changes(node: Node, graph: Graph, given: Mapping[str, Array]) -> Known:
    """Returns the arithmetics of a change of the quantization, and the exact value."""
    x, y = graph.spec(node.inputs[0] or ""), graph.spec(node.outputs[0])
    ratio, limits = np.atleast_1d(float(x.scale[0]) / float(y.scale[0])), _limits_of(y)
    stored = given[node.inputs[0] or ""].reshape(-1)

    def centred(at: Array | slice) -> Array:
        return stored[at].astype(np.int64) - x.zero_point[0]

    sums = ScaledSums(centred, lambda: centred(slice(None)), ratio)
    modes = _Modes(sums, y, limits, False)
    inputs = stored.view(f"u{stored.dtype.itemsize}")

    def decode(codes: Array) -> At:
        centred = codes.astype(inputs.dtype).view(stored.dtype).astype(np.int64) - x.zero_point[0]
        return Sums(centred, np.zeros_like(codes))

    codes = Codes(lambda run: inputs[run].astype(np.int64), decode)
    twice = {TWICE_HALF_UP: partial(modes.compute_in_two_steps, suffix="")}
    return {**modes.list_changes(), **twice}, _exact(sums, y, limits, codes)


def list_concats(node: Node, graph: Graph, given: Mapping[str, Array]) -> Known:
    """Returns the arithmetics of a concatenation that changes the quantization of its operands, and the exact value."""
    y, specs = graph.spec(node.outputs[0]), [graph.spec(n or "") for n in node.inputs]
    if any(len(s.scale) != 1 for s in (*specs, y)):
        return {}, None
    real = np.array([s.scale[0] for s in specs]) / y.scale[0]
    stored = [graph.constants[s.name] if s.name in graph.constants else given[s.name] for s in specs]
    flat = np.concatenate(stored, node.words[0]).reshape(-1)
    many = len(stored) > CODES
    numbers = [np.full(v.shape, k, np.int64 if many else np.uint8) for k, v in enumerate(stored)]
    operand, zeros = np.concatenate(numbers, node.words[0]).reshape(-1), np.array([s.zero_point[0] for s in specs])

    def centred(at: Array | slice) -> Array:
        return flat[at].astype(np.int64) - zeros[operand[at]]

    def decode(codes: Array) -> At:
        number = codes // CODES
        return Sums((codes % CODES).astype(np.uint8).view(flat.dtype).astype(np.int64) - zeros[number], number)

    joined = Codes(lambda run: operand[run].astype(np.int64) * CODES + flat.view(np.uint8)[run], decode)
    sums = ScaledSums(centred, lambda: centred(slice(None)), real, numbers=operand)
    modes = _Modes(sums, y, limits := _limits_of(y), False)
    exact = _exact(sums, y, limits, None if many or flat.dtype.itemsize > 1 else joined)
    return modes.list_changes(), exact


def _limits_of(y: TensorSpec) -> tuple[int, int]:
    limits = np.iinfo(y.dtype)
    return int(limits.min), int(limits.max)

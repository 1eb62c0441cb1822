"""RandomNodes: one graph of unconnected nodes with random words, shapes and values; cases/STEM.py adds those of its op."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from qverify.arithmetic.forms import NAMES, TWICE_HALF_UP, Form, make_rq, steps
from qverify.arithmetic.multipliers import parameters
from qverify.arithmetic.rounding_rules import RULES
from qverify.model_bin.graph import Graph, Node
from qverify.tensors.spec import TensorSpec

Array = np.ndarray[Any, np.dtype[Any]]
RANGE = {"uint8": (0, 255), "int8": (-128, 127), "uint16": (0, 65535), "int16": (-32768, 32767)}
BROADCASTS = (((2, 5, 7), (2, 5, 7)), ((2, 5, 7), (5, 1)), ((1,), (3, 11)), ((4, 1, 3), (1, 6, 3)))
Shape = tuple[int, ...]


class RandomNodes:
    """Makes tensors and nodes of names of their own. Every value comes from the seed."""

    def __init__(self, rounding: str, seed: int, in_forms: bool = False):
        """in_forms: whether nodes have forms of their own, too."""
        self.in_forms = in_forms
        self.rng = np.random.default_rng(seed)
        self.rounding = rounding
        self.requantized = 0  # how many times parameters of the rounding mode were drawn
        self.nodes: list[Node] = []
        self.specs: dict[str, TensorSpec] = {}
        self.constants: dict[str, Array] = {}
        self.values: dict[str, Array] = {}  # of graph inputs

    def pick(self, *of: int) -> int:
        return int(self.rng.choice(of))

    def type(self, *of: str) -> str:
        """One of these types; without any, one of 8 bits."""
        return str(self.rng.choice(of or ("uint8", "int8")))

    def broadcast(self) -> tuple[Shape, Shape]:
        """Two shapes that broadcast."""
        return BROADCASTS[self.pick(*range(len(BROADCASTS)))]

    def limits(self, dtype: str) -> tuple[int, int]:
        """act_min and act_max: those of the type, or narrower."""
        low, high = RANGE[dtype]
        return (low, high) if self.rng.random() < 0.6 else (low + 11, high - 5)

    def _add(self, spec: TensorSpec) -> TensorSpec:
        self.specs[spec.name] = spec
        return spec

    def _name(self) -> str:
        return f"t{len(self.specs)}"

    def output(self, dtype: str, shape: Shape, channels: int = 1, axis: int = -1) -> TensorSpec:
        """A quantized tensor with random scales and zero points, at the ends of the type and within."""
        low, high = RANGE[dtype]
        zeros = self.rng.choice([low, high, (low + high) // 2 + 1, low + (high - low) // 3], channels)
        scales = tuple(float(np.float32(s)) for s in self.rng.uniform(0.001, 0.02, channels))
        zero_point = tuple(int(z) for z in zeros)
        return self._add(
            TensorSpec(self._name(), dtype, tuple(shape), scale=scales, zero_point=zero_point, channel_axis=axis)
        )

    def like(self, x: TensorSpec, shape: Shape) -> TensorSpec:
        """A tensor that carries the quantization of x."""
        return self._add(TensorSpec(self._name(), x.dtype, shape, scale=x.scale, zero_point=x.zero_point))

    def float_output(self, shape: Shape) -> TensorSpec:
        return self.plain_output("float32", shape)

    def plain_output(self, dtype: str, shape: Shape) -> TensorSpec:
        """A tensor that is not quantized."""
        return self._add(TensorSpec(self._name(), dtype, shape))

    def input(self, dtype: str, shape: Shape, channels: int = 1, axis: int = -1) -> TensorSpec:
        """A quantized graph input with random values and many of both ends."""
        return self._filled(self.output(dtype, shape, channels, axis))

    def input_like(self, y: TensorSpec, shape: Shape) -> TensorSpec:
        """A graph input that carries the quantization of y."""
        return self._filled(self.like(y, shape))

    def _filled(self, spec: TensorSpec) -> TensorSpec:
        low, high = RANGE[spec.dtype]
        values, ends = self.rng.integers(low, high + 1, spec.shape), self.rng.random(spec.shape)
        values = np.where(ends < 0.1, low, np.where(ends > 0.9, high, values))
        self.values[spec.name] = values.astype(spec.dtype)
        return spec

    def floats(self, shape: Shape, spread: float = 4.0) -> TensorSpec:
        """A float32 graph input: normal values and exact zeros, no infinities."""
        values = self.rng.normal(0, spread, shape).astype(np.float32)
        values[self.rng.random(shape) < 0.05] = 0
        return self.plain(values)

    def plain(self, value: Array) -> TensorSpec:
        """A graph input of this value that is not quantized."""
        spec = self._add(TensorSpec(self._name(), value.dtype.name, value.shape))
        self.values[spec.name] = value
        return spec

    def constant(self, value: Array) -> TensorSpec:
        return self._constant(TensorSpec(self._name(), value.dtype.name, value.shape), value)

    def weights(self, dtype: str, shape: Shape, channels: int, axis: int = 0) -> TensorSpec:
        """A quantized constant; channels: scales along the axis, or 1 for all."""
        spec = self.output(dtype, shape, channels, axis if channels > 1 else -1)
        low, high = RANGE[dtype]
        return self._constant(spec, self.rng.integers(low, high + 1, shape).astype(dtype))

    def at_the_end(self, dtype: str, shape: Shape) -> TensorSpec:
        """A quantized graph input at the upper end of its type, its zero point at the lower."""
        low, high = RANGE[dtype]
        spec = self._add(TensorSpec(self._name(), dtype, shape, scale=(0.01,), zero_point=(low,)))
        self.values[spec.name] = np.full(shape, high, dtype)
        return spec

    def weights_of(self, dtype: str, value: Array) -> TensorSpec:
        """A quantized constant of this value, zero point 0."""
        return self._constant(
            TensorSpec(self._name(), dtype, value.shape, scale=(0.01,), zero_point=(0,)), value.astype(dtype)
        )

    def _constant(self, spec: TensorSpec, value: Array) -> TensorSpec:
        self.constants[spec.name] = np.ascontiguousarray(value)
        return self._add(spec)

    def rq(self, depth: int, channels: int, wide: bool = False, single: bool = True) -> TensorSpec:
        """Scales that send typical sums of `depth` products across the whole range, some exact powers of two."""
        size = (32767.0 * 16384 / 300 if wide else 128.0) * max(depth, 1) ** 0.5
        scale = self.rng.uniform(0.3, 2, channels) / size
        scale = np.where(self.rng.random(channels) < 0.3, 2.0 ** np.round(np.log2(scale)), scale)
        self.requantized += 1
        return self._parameters(scale, wide, np.float64 if wide or not single else np.float32)

    def _parameters(self, scale: Array, wide: bool, dtype: type) -> TensorSpec:
        """The rq of the file's rounding mode, or of a form of the node's own."""
        kind = self.rng.random() if self.in_forms else 1.0
        if kind < 0.15 and not wide:
            return self.constant(self._with_summands(scale))
        if kind < 0.25 and not wide:
            return self.constant(self._in_float32(scale))
        if kind < 0.6:
            return self.constant(make_rq(self.form(lambda form: make_rq(form, scale, wide)), scale, wide))
        if self.rounding == "ref-exact":
            return self.constant(scale.astype(dtype))
        own = self.rng.random() >= 0.7
        return self.constant(
            make_rq(NAMES["tflite-single"], scale, wide) if own else parameters(self.rounding, scale, wide)
        )

    def _with_summands(self, scale: Array) -> Array:
        """Steps with what is added to each sum and to its result."""
        form = self.form(lambda form: steps(replace(form, zero_inside=False), scale), exact=False)
        before = self.rng.choice([0, 1, -77, 5000, 2**31 - 1, -(2**31)], len(scale))
        rows = steps(replace(form, zero_inside=False), scale)
        return np.stack([*rows, before, self.rng.integers(-300, 300, len(scale))]).astype(np.int32)

    def _in_float32(self, scale: Array) -> Array:
        """A scale, and summands of the sum, of the product and of the result, in float32."""
        before, after = self.rng.choice([0, 3, -(2**24), 999], len(scale)), self.rng.integers(-300, 300, len(scale))
        return np.stack([scale, before, self.rng.choice([0, 0.5, -7.25, 3e38], len(scale)), after]).astype(np.float32)

    def form(self, use: Callable[[Form], Any], exact: bool = True) -> Form:
        """A form of any fields with which `use` raises no ValueError; with a multiplier if not `exact`."""
        while True:
            rule, kind, zero = str(self.rng.choice(RULES)), self.pick(0, 1, 2, 3, 4), bool(self.pick(0, 1))
            before = (self.pick(0, 1, 3, 8), str(self.rng.choice(RULES))) if self.pick(0, 1, 2) == 0 else None
            first = (self.pick(1, 8, 15, 31), str(self.rng.choice(RULES))) if self.pick(0, 1) else None
            bits = 0 if kind == 0 and exact else self.pick(1, 2, 8, 15, 16, 24, 31, 31)
            form = Form(rule, bits, zero_inside=zero)
            if kind == 1:
                form = NAMES[str(self.rng.choice(("tflite-single", "gemmlowp", TWICE_HALF_UP, "pow2-floor")))]
            elif bits:
                form = replace(form, cut=bool(self.pick(0, 1)), before=before, first=first)
            with contextlib.suppress(ValueError):
                use(form)
                return form

    def real_scales(self, channels: int) -> TensorSpec:
        """Scales of a node with a float output: float64 in every rounding mode."""
        return self.constant(self.rng.uniform(1e-5, 1e-3, channels))

    def float_bias(self, channels: int) -> TensorSpec:
        """A bias of a node with a float output, large and small beside its sums."""
        return self.constant(
            (self.rng.normal(0, 1, channels) * 10.0 ** self.rng.integers(-4, 3, channels)).astype(np.float32)
        )

    def mean(self, x: TensorSpec, y: TensorSpec, count: int, dtype: type = np.float32) -> TensorSpec:
        """The rq of a sum of `count` elements of x that becomes their mean in y."""
        scale = [x.scale[0] / (y.scale[0] * count)]
        self.requantized += 1
        return self._parameters(np.array(scale), False, dtype)

    def node(
        self,
        op: str,
        inputs: tuple[TensorSpec | None, ...],
        outputs: TensorSpec | tuple[TensorSpec, ...],
        words: tuple[int, ...] = (),
    ) -> None:
        made = outputs if isinstance(outputs, tuple) else (outputs,)
        names = tuple(None if x is None else x.name for x in inputs)
        self.nodes.append(Node(made[0].name, op, names, tuple(y.name for y in made), tuple(int(w) for w in words)))

    def graph(self) -> Graph:
        """Every output of every node is an output of the graph; constants that no node reads are left out."""
        outputs = tuple(name for node in self.nodes for name in node.outputs)
        used = {n for node in self.nodes for n in (*node.inputs, *node.outputs) if n is not None}
        specs = {n: s for n, s in self.specs.items() if n in used}
        constants = {n: v for n, v in self.constants.items() if n in used}
        meta = {"source_sha256": "0" * 64}
        return Graph(self.nodes, specs, constants, tuple(self.values), outputs, self.rounding, meta=meta)

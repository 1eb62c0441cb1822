"""What becomes of a node whose form has a method: constants and words of its own (verifier/ARITHMETICS.md, methods)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic import forms, functions64, methods
from qverify.arithmetic.float32 import sigmoid64
from qverify.arithmetic.float_steps import scale_in_float32
from qverify.arithmetic.forms import Form
from qverify.arithmetic.resize_places import METHODS as RESIZES
from qverify.arithmetic.resize_places import find_modes, make_tables
from qverify.arithmetic.sigmoid_in_segments import logistic, tanh
from qverify.arithmetic.softmax_fixed_point import OUTPUT_BITS, make_table
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.kinds_of_nodes import is_depthwise
from qverify.tensors.spec import TensorSpec

Array = npt.NDArray[Any]
Changes = tuple[dict[str, Array], Node]  # constants that are replaced, by name, and the node


@dataclass(frozen=True, slots=True)
class _Place:
    """A node and its form. real: the real scales of its rq, or None."""

    node: Node
    graph: Graph
    form: Form
    real: Array | None

    @property
    def x(self) -> TensorSpec:
        return self.graph.spec(self.node.inputs[0] or "")

    @property
    def y(self) -> TensorSpec:
        return self.graph.spec(self.node.outputs[0])

    def operand(self, k: int) -> TensorSpec:
        return self.graph.spec(self.node.inputs[k] or "")

    def require(self, rounding: str, *, same: bool = False) -> None:
        """Raises ValueError if the form states another rounding, a tensor has several scales or 16 bits, or, if same,
        the input has another quantization than the output."""
        if replace(self.form, method="") != Form(rounding):
            raise ValueError(f"{str(self.form)!r} is no form of it, wanted {rounding}, {self.form.method}")
        if same and (self.x.dtype, self.x.scale, self.x.zero_point) != (self.y.dtype, self.y.scale, self.y.zero_point):
            raise ValueError("the input has another quantization than the output")

    def with_rq(self, rq: Array) -> Changes:
        return {self.node.inputs[-1] or "": rq}, self.node


def with_method(node: Node, graph: Graph, form: Form, real: Array | None) -> Changes:
    """Returns the constants that a node has in a form with a method, by name, and the node. real: the real scales of its
    rq, if it has one. Raises ValueError for a method that is not computed for the node."""
    compute = _COMPUTED.get((node.op, form.method))
    if compute is None:
        raise ValueError(f"{form.method} is not computed for {node.op}")
    specs = [graph.spec(n) for n in (*node.inputs[: OPERANDS.get(node.op, 1)], *node.outputs) if n is not None]
    weights = 1 if node.op in LINEAR else None  # may have a scale for each channel
    most = 2 if form.method in ALSO_16_BITS else 1  # bytes
    wrong = [s for k, s in enumerate(specs) if s.numpy_dtype.itemsize > most or (k != weights and len(s.scale) != 1)]
    if wrong:
        raise ValueError(
            f"{wrong[0].name} is {wrong[0].dtype} with {len(wrong[0].scale)} scales, wanted {8 * most} bits and one scale"
        )
    return compute(_Place(node, graph, form, real))


CONVOLUTIONS = ("conv", "conv_transpose")
WITH_WEIGHTS = (*CONVOLUTIONS, "fully_connected")
LINEAR = (*WITH_WEIGHTS, "matmul")
ALSO_16_BITS = (forms.QUOTIENT, forms.DIVIDED, forms.SEGMENTS, forms.SUMS_32)
OPERANDS = {**dict.fromkeys(LINEAR, 2), "mul": 2, "add": 2}


def _quotient(place: _Place) -> Changes:
    place.require("half away from zero", same=True)
    return place.with_rq(np.array([place.x.zero_point[0]], np.int32))


def _count(place: _Place) -> int:
    return place.x.elements // max(1, place.y.elements)


def _divided(place: _Place) -> Changes:
    return place.with_rq(methods.divide_multiplier(place.form, place.x.scale[0], place.y.scale[0], _count(place)))


def _whole_zero(place: _Place) -> Changes:
    x = place.x.scale[0], place.x.zero_point[0]
    return place.with_rq(methods.take_whole_zero(place.form, x, place.y.scale[0], _count(place)))


def _float_mean(place: _Place) -> Changes:
    place.require("half even")
    x, y = ((s.scale[0], s.zero_point[0]) for s in (place.x, place.y))
    return place.with_rq(methods.mean_in_float32(x, y, _count(place)))


def _float_product(place: _Place) -> Changes:
    place.require("half even")
    y = place.y.scale[0], place.y.zero_point[0]
    return place.with_rq(methods.product_in_float32(place.x.scale[0], place.operand(1).scale[0], y))


def _htp_product(place: _Place) -> Changes:
    if place.real is None:
        raise ValueError("its output is no integer")
    first, second = (s.zero_point[0] - int(np.iinfo(s.dtype).min) for s in (place.x, place.operand(1)))
    return place.with_rq(methods.multiply_in_htp(place.form, float(np.atleast_1d(place.real)[0]), (first, second)))


def _zero_in_sum(place: _Place) -> Changes:
    if place.real is None:
        raise ValueError("its output is no integer")
    bias = place.graph.constants.get(place.node.inputs[2] or "") if len(place.node.inputs) > 3 else None
    zero = place.y.zero_point[0] - int(np.iinfo(place.y.dtype).min)
    if place.node.op not in CONVOLUTIONS:
        return place.with_rq(methods.add_zero_to_sums(place.form, np.atleast_1d(place.real), zero, bias))
    scales = place.x.scale[0], place.operand(1).scale, place.y.scale[0]
    depthwise = is_depthwise(place.node, place.graph)
    return place.with_rq(methods.convolve_in_htp(place.form, scales, zero, bias, depthwise=depthwise))


def _float_steps(place: _Place) -> Changes:
    place.require("half even")
    x, w, y = place.x, place.operand(1), place.y
    if place.real is None or x.dtype != y.dtype or any(w.zero_point):
        raise ValueError("input and output have different types, or the weights have zero points")
    bias = place.graph.constants.get(place.node.inputs[2] or "") if len(place.node.inputs) > 3 else None
    ends = (x.scale[0], x.zero_point[0]), w.scale, (y.scale[0], y.zero_point[0])
    matrix = place.node.op not in CONVOLUTIONS
    return place.with_rq(scale_in_float32(*ends, x.dtype, bias, matrix=matrix))


def _one_shift(place: _Place) -> Changes:
    if place.form.rounding != "half up" or place.form.bits != 14 or place.real is None:
        raise ValueError(f"{str(place.form)!r} is no form of it, wanted half up, multiplier of 14 bits")
    first, second, out = (s.zero_point[0] - int(np.iinfo(s.dtype).min) for s in (place.x, place.operand(1), place.y))
    ratios = float(place.real[0]), float(place.real[1])
    constants, node = place.with_rq(methods.add_with_one_shift(ratios, (first, second, out)))
    return constants, replace(node, words=(0, *node.words[1:]))


def _require_256_steps(y: TensorSpec) -> None:
    if y.scale != (2.0**-OUTPUT_BITS,) or y.zero_point != (int(np.iinfo(y.dtype).min),):
        raise ValueError("its output has not 256 steps from 0 to 1")


def _fixed_softmax(place: _Place) -> Changes:
    place.require("half away from zero")
    _require_256_steps(place.y)
    return {place.node.inputs[1] or "": make_table(place.x.scale[0])}, place.node


def _table_softmax(place: _Place) -> Changes:
    place.require("half up")
    _require_256_steps(place.y)
    below = -np.float32(place.x.scale[0]) * np.arange(255, -1, -1, dtype=np.float32)
    table = functions64.exp(below.astype(np.float64)).astype(np.float32)
    steps = np.float32(1 / place.y.scale[0])
    return {place.node.inputs[1] or "": np.append(table, steps)}, place.node


def _logistic(place: _Place) -> Changes:
    place.require("half up")
    real, x, y, limits = place.graph.real_tables.get(place.y.name), place.x, place.y, np.iinfo(place.y.dtype)
    if real is None:
        raise ValueError("its function is not known")
    lowest = int(np.iinfo(x.dtype).min)
    centred, values = np.arange(lowest, lowest + 256) - x.zero_point[0], np.asarray(real(), np.float64) * y.scale[0]
    ends = (int(limits.min), int(limits.max))
    table = methods.make_logistic_table(values, (x.scale[0], centred), (y.scale[0], y.zero_point[0]), ends)
    return {place.node.inputs[1] or "": table.astype(y.dtype)}, place.node


def _in_segments(place: _Place) -> Changes:
    place.require("half up")
    real, x, y = place.graph.real_tables.get(place.y.name), place.x, place.y
    if x.dtype != "int16" or x.zero_point != (0,) or (y.dtype, y.scale, y.zero_point) != ("int16", (2.0**-15,), (0,)):
        raise ValueError("wanted int16 with a zero point of 0, and an output of steps of 2^-15")
    codes = np.arange(-(1 << 15), 1 << 15, dtype=np.int64)
    values = np.zeros(len(codes)) if real is None else np.asarray(real(), np.float64) * y.scale[0]
    for function, exact in ((logistic, sigmoid64), (tanh, functions64.tanh)):
        if np.allclose(values, exact(codes * float(x.scale[0])), rtol=0.0, atol=methods.SIGMOID):
            table = np.clip(function(x.scale[0], codes), -(1 << 15), (1 << 15) - 1)
            return {place.node.inputs[1] or "": table.astype(np.int16)}, place.node
    raise ValueError("its function is neither the logistic one nor the hyperbolic tangent")


def _narrow_sums(place: _Place) -> Changes:
    """Returns the rq of sums that fit 32 bits although their operands have 16."""
    names = [n or "" for n in place.node.inputs[:2]]
    if place.real is None:
        raise ValueError("its output is no integer")
    operands = [place.graph.spec(n).scale for n in names]
    real = forms.real_in_float32(place.form, np.atleast_1d(place.real), operands, place.y.scale[0])
    rq = forms.steps(replace(place.form, method="", scales=""), real)
    if (rq[1] > 0).any():
        raise ValueError(f"a scale of {real.max():g} cannot be represented for sums of 16-bit operands")
    return place.with_rq(rq)


def _resize(place: _Place) -> Changes:
    rounding = "half away from zero" if place.form.method == forms.PLACES else "half up"
    place.require(rounding, same=True)
    names = [n or "" for n in place.node.inputs[1:]]
    sizes = [[place.x.shape[k], place.y.shape[k]] for k in (-2, -1)]
    index, weight = (place.graph.constants[n] for n in names)
    mode = next(find_modes(index, weight, sizes), None)
    if mode is None:
        raise ValueError("its places are those of no mode of LiteRT")
    index, weight, word = make_tables(place.form.method, sizes, mode)
    return dict(zip(names, (index, weight), strict=True)), replace(place.node, words=(word,))


_COMPUTED: Mapping[tuple[str, str], Callable[[_Place], Changes]] = {
    ("average_pool", forms.QUOTIENT): _quotient,
    ("global_average_pool", forms.QUOTIENT): _quotient,
    ("reduce_mean", forms.DIVIDED): _divided,
    ("reduce_mean", forms.WHOLE_ZERO): _whole_zero,
    ("reduce_mean", forms.FLOAT_MEAN): _float_mean,
    ("mul", forms.FLOAT_PRODUCT): _float_product,
    ("mul", forms.ZEROS_APART): _htp_product,
    **{(op, forms.ZERO_IN_SUM): _zero_in_sum for op in LINEAR},
    **{(op, forms.FLOAT_STEPS): _float_steps for op in WITH_WEIGHTS},
    ("add", forms.ONE_SHIFT): _one_shift,
    ("softmax", forms.FIXED_EXPONENTIALS): _fixed_softmax,
    ("softmax", forms.EXPONENTIAL_TABLE): _table_softmax,
    ("lookup", forms.FLOAT_FUNCTION): _logistic,
    ("lookup", forms.SEGMENTS): _in_segments,
    **{(op, forms.SUMS_32): _narrow_sums for op in ("mul", "conv")},
    **{("resize_linear", method): _resize for method in RESIZES},
}

"""Computes the operators whose results depend on constants and shapes alone, as shapes that a converter left to run
time do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from qverify.tflite_model.read_tflite import Array, TfliteModel, TfliteOperator, TfliteTensor

MOST_ELEMENTS = 4096  # of a result
INTEGERS = ("int32", "int64")
Values = list[Array]


def _strided_slice(values: Values, options: Mapping[str, Any]) -> Array:
    x, begins, ends, steps = (values[0], *(v.reshape(-1).tolist() for v in values[1:4]))
    places: list[int | slice] = []
    for axis, (begin, end, step) in enumerate(zip(begins, ends, steps, strict=True)):
        bit = 1 << axis
        if options["ShrinkAxisMask"] & bit:
            places.append(begin)
            continue
        stop = begin + end if options["Offset"] else end
        first, last = begin if not options["BeginMask"] & bit else None, stop if not options["EndMask"] & bit else None
        places.append(slice(first, last, step))
    if options["EllipsisMask"] or options["NewAxisMask"]:
        raise ValueError("an ellipsis or a new axis")
    return np.asarray(x[tuple(places)])


def _slice(values: Values, options: Mapping[str, Any]) -> Array:
    begins, sizes = (v.reshape(-1).tolist() for v in values[1:3])
    ends = [None if size < 0 else begin + size for begin, size in zip(begins, sizes, strict=True)]
    return np.asarray(values[0][tuple(slice(a, b) for a, b in zip(begins, ends, strict=True))])


def _range(values: Values, options: Mapping[str, Any]) -> Array:
    start, limit, step = (int(v.reshape(())) for v in values)
    return np.array(range(start, limit, step)[: MOST_ELEMENTS + 1], values[0].dtype)


def _fill(values: Values, options: Mapping[str, Any]) -> Array:
    dims = values[0].reshape(-1).tolist()
    if any(d < 0 for d in dims) or np.prod(dims, dtype=object) > MOST_ELEMENTS:
        raise ValueError("too many elements")
    return np.full(dims, values[1].reshape(()))


FOLDED: dict[str, Callable[[Values, Mapping[str, Any]], Array]] = {
    "ADD": lambda v, o: v[0] + v[1],
    "BROADCAST_ARGS": lambda v, o: np.array(np.broadcast_shapes(*(tuple(s.tolist()) for s in v)), v[0].dtype),
    "CAST": lambda v, o: v[0],
    "CONCATENATION": lambda v, o: np.concatenate(v, int(o["Axis"])),
    "EXPAND_DIMS": lambda v, o: v[0],
    "FILL": _fill,
    "GATHER": lambda v, o: np.take(v[0], v[1], int(o["Axis"])),
    "MAXIMUM": lambda v, o: np.maximum(*v),
    "MINIMUM": lambda v, o: np.minimum(*v),
    "MUL": lambda v, o: v[0] * v[1],
    "PACK": lambda v, o: np.stack(v, int(o["Axis"])),
    "RANGE": _range,
    "REDUCE_PROD": lambda v, o: np.prod(v[0], tuple(v[1].reshape(-1).tolist())),
    "RESHAPE": lambda v, o: v[0],
    "SLICE": _slice,
    "SQUEEZE": lambda v, o: v[0],
    "STRIDED_SLICE": _strided_slice,
    "SUB": lambda v, o: v[0] - v[1],
}
FAILURES = (ValueError, IndexError, TypeError, KeyError, OverflowError)


def fold(model: TfliteModel) -> TfliteModel:
    """Returns the model with such results as constants, and without the operators that compute them. What cannot be
    computed, and outputs of the network, stay as they are."""
    tensors, kept = list(model.tensors), list[TfliteOperator]()
    for operator in model.operators:
        value = None if set(operator.outputs) & set(model.outputs) else _value(operator, tensors)
        if value is None:
            kept.append(operator)
        else:
            (index,) = operator.outputs
            tensors[index] = replace(tensors[index], data=value)
    made_by = {i: o for i, o in model.made_by.items() if tensors[i].data is None}
    return replace(model, tensors=tuple(tensors), operators=tuple(kept), made_by=made_by)


def _value(operator: TfliteOperator, tensors: list[TfliteTensor]) -> Array | None:
    """Returns what an operator computes, or None if that is not known before it runs."""
    if len(operator.outputs) != 1 or not operator.inputs or min(operator.inputs) < 0:
        return None
    y, inputs = tensors[operator.outputs[0]], [tensors[i] for i in operator.inputs]
    if operator.kind == "SHAPE" and y.dtype in INTEGERS:
        return (
            np.array(inputs[0].shape, y.dtype).reshape(y.shape)
            if len(inputs[0].shape) == max(y.shape, default=0)
            else None
        )
    values = [t.data for t in inputs if t.data is not None and t.data.size <= MOST_ELEMENTS]
    if operator.kind not in FOLDED or len(values) < len(inputs):
        return None
    if y.dtype not in INTEGERS or any(t.dtype not in INTEGERS or t.scale.size for t in inputs):
        return None
    try:
        made = np.asarray(FOLDED[operator.kind](values, operator.options)).astype(y.dtype)
        return made.reshape(y.shape) if made.size <= MOST_ELEMENTS else None
    except FAILURES:
        return None

"""An operand of an operation on two or three tensors is read at wrong places: not repeated past its end, repeated from
the wrong axis, or with a stride of another axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import prod

import numpy as np

from qverify.triage.altered_kernels.inner_node import inner_case
from qverify.triage.altered_kernels.separable_copies import axis_names, dense_strides, plural_of_axis
from qverify.triage.altered_kernels.variant_checks import check_where_it_differs, operand, recompute_inner, with_operand
from qverify.triage.case import Array, Case, UnitChange, element_bits
from qverify.triage.hypotheses import FaultVariant

NAME = "broadcast-operand"
OPS = {"add": 2, "mul": 2, "mod": 2, "elementwise_float": 2, "where": 3}
ORDINAL = ("first", "second", "third")
Way = tuple[str, int, int]  # kind, size, stride


def variants(case: Case) -> Iterator[FaultVariant]:
    inner = inner_case(case)
    if inner is None or inner.last.op not in OPS or len(inner.last.inputs) < 2 or not inner.spec.shape:
        return
    for at, name in enumerate(inner.last.inputs[: OPS[inner.last.op]]):
        if name is None or not operand(inner, name).size:
            continue
        who = "the condition" if inner.last.op == "where" and not at else f"the {ORDINAL[at]} operand"
        if inner.last.op == "where" and at:
            who = f"the {ORDINAL[at - 1]} value"
        if inner.last.inputs.count(name) > 1:
            who = "one operand"  # of x * x
        for cost, text, way in _ways(inner, name):
            beyond = _beyond(operand(inner, name).shape, inner.spec.shape, way)
            yield from _judged(
                case, inner, f"{inner.last.op}: {who} {text}", partial(_compute_output, at=at, way=way), cost, beyond
            )


def _ways(inner: Case, name: str) -> Iterator[tuple[float, str, Way]]:
    y, shape = inner.spec.shape, operand(inner, name).shape
    count = prod(shape)
    if shape != y:
        yield (
            1.0,
            "is not repeated: past its end its last element is used for all remaining elements",
            ("flat clamped", 0, 0),
        )
        yield (
            1.2,
            "is not repeated: past its end its last element is used, but for the first column, which is right",
            ("flat clamped in rows", 0, 0),
        )
        yield (
            1.5,
            "is repeated in order of memory (element i mod its size), whatever axis it lacks",
            ("flat modulo", count, 0),
        )
        yield (
            1.5,
            "is spread in order of memory: each element serves consecutive outputs",
            ("flat divided", max(prod(y) // count, 1), 0),
        )
        yield 2.0, "is not repeated: past its end it counts as raw 0", ("flat zero", 0, 0)
        yield 2.0, "is aligned with the first dimensions instead of the last", ("leading", 0, 0)
    yield 1.5, "is read at its first element only", ("flat modulo", 1, 0)
    for k in range(len(y)):
        name_k = axis_names(len(y))[k]
        inner_size = prod(y[k + 1 :])
        if inner_size > 1:
            yield (
                1.5,
                f"repeats its first {inner_size} elements (one {name_k}) for every {name_k}",
                ("own modulo", inner_size, 0),
            )
            yield (
                2.0,
                f"is read at output element mod {inner_size} (restarts with every {name_k})",
                ("flat modulo", inner_size, 0),
            )
            yield (
                2.0,
                f"is read at output element / {inner_size} (one element for every {name_k})",
                ("flat divided", inner_size, 0),
            )
        if y[k] > 1:
            yield 1.5, f"does not advance with the {name_k} (stride 0)", ("stride", k, 0)
            for stride in dict.fromkeys((1, *dense_strides(shape), *dense_strides(y), y[k])):
                yield 3.0, f"advances by {stride} elements with each {name_k}", ("stride", k, stride)
            if (
                prod(shape[max(0, len(shape) - len(y) + k) :]) == prod(shape[max(0, len(shape) - len(y) + k + 1) :])
                and count > 1
            ):
                for end, phrase in ((0, "wrapping at its end"), (1, "staying at its last element")):
                    text = f"is not held along the {plural_of_axis(name_k)}: it moves on by one element with every {name_k}, {phrase}"
                    yield 2.0, text, ("moving", k, end)
            yield 2.5, f"is one {name_k} too far", ("rolled", k, -1)
            yield 2.5, f"is one {name_k} too early", ("rolled", k, 1)
            yield 2.5, f"is read backward along the {plural_of_axis(name_k)}", ("backward", k, 0)
    for kind, text in _WALKS.items():
        yield 2.0, text, (kind, 0, 0)
    for lanes in (2, 4, 8, 16, 32, 64):
        yield 3.0, f"is read once for every {lanes} columns: the first one's element serves all", ("held", lanes, 0)
        yield 3.0, f"repeats its first {lanes} columns", ("columns modulo", lanes, 0)


_WALKS = {
    "left all": "is not taken back to its start when a row or plane ends: its position keeps growing",
    "left one": "is taken back one step too little when a row or plane ends",
    "output strides": "is walked with the strides of the output's shape",
    "own strides": "is walked as if no dimension of 1 were repeated",
}


def _judged(
    case: Case, inner: Case, text: str, make: Callable[[Case], Array], cost: float, beyond: Array | None
) -> list[FaultVariant]:
    """Returns the fault as a list of one, or []. Elements that it reads beyond the operand cannot be predicted."""
    if beyond is None or not beyond.any() or inner.spec.shape != case.spec.shape:
        return check_where_it_differs(case, text, make, cost)
    differs, free = element_bits(case.recorded) != element_bits(case.healthy), beyond.reshape(-1)
    same = element_bits(make(case)) == element_bits(case.recorded)
    if not differs[~free].any() or not same[differs & ~free].all() or 2 * differs[free].sum() < free.sum():
        return []
    phrase = f"{text}; {np.count_nonzero(free)} elements are read from beyond it"
    return [FaultVariant(phrase, partial(_recorded, make=make, free=free), cost, free=free)]


def _recorded(case: Case, make: Callable[[Case], Array], free: Array) -> Array:
    return np.where(free, case.recorded.reshape(-1), make(case).reshape(-1)).reshape(case.spec.shape)


def _addresses(y: tuple[int, ...], strides: list[int]) -> Array:
    where: Array = np.zeros(y, np.int64)
    for k, (n, step) in enumerate(zip(y, strides, strict=True)):
        where = where + (np.arange(n) * step).reshape([-1 if j == k else 1 for j in range(len(y))])
    return where


def _walk(shape: tuple[int, ...], y: tuple[int, ...], kind: str) -> Array:
    """Returns the address that each output element reads in an operand that is walked in a wrong way of _WALKS."""
    padded = (1,) * (len(y) - len(shape)) + tuple(shape)
    dense = dense_strides(y if kind == "output strides" else padded)
    strides = [s if n > 1 or kind == "own strides" else 0 for n, s in zip(padded, dense, strict=True)]
    if kind.startswith("left"):
        axis_strides = list(strides)
        for axis in range(1, len(y) - 1):
            step = axis_strides[axis] * (1 if kind == "left one" else y[axis])
            for outer in range(axis):
                strides[outer] += prod(y[outer + 1 : axis]) * step
    return _addresses(y, strides)


def _beyond(shape: tuple[int, ...], y: tuple[int, ...], way: Way) -> Array | None:
    return _walk(shape, y, way[0]) >= prod(shape) if way[0] in _WALKS else None


def _compute_output(case: Case, at: int, way: Way) -> Array:
    inner = inner_case(case)
    assert inner is not None
    name = inner.last.inputs[at] or ""
    value = operand(inner, name)
    read = np.ascontiguousarray(_read(value, inner.spec.shape, way))
    if inner.last.inputs.count(name) == 1:
        return recompute_inner(case, with_operand(inner, name, read))
    inputs = tuple(f"{name}, operand {at}" if k == at else n for k, n in enumerate(inner.last.inputs))  # x * x
    spec = replace(inner.graph.spec(name), shape=read.shape, aligned_shape=())
    node = replace(inner.last, inputs=inputs)
    change = UnitChange(inputs={inputs[at] or "": read}, specs={inputs[at] or "": spec}, nodes={node.name: node})
    return recompute_inner(case, change)


def _read(value: Array, y: tuple[int, ...], way: Way) -> Array:
    kind, size, stride = way
    flat, index = value.reshape(-1), np.arange(prod(y))
    if kind in _WALKS:
        return flat[np.minimum(_walk(value.shape, y, kind), flat.size - 1)]
    if kind == "flat zero":
        return np.where(index < flat.size, flat[np.minimum(index, flat.size - 1)], value.dtype.type(0)).reshape(y)
    if kind == "flat clamped in rows":
        natural = np.broadcast_to(np.arange(flat.size).reshape(value.shape), y).reshape(-1)
        first = index % y[-1] == 0
        return flat[np.where(first, natural, np.minimum(index, flat.size - 1))].reshape(y)
    if kind.startswith("flat"):
        at = index % size if kind == "flat modulo" else index // size if kind == "flat divided" else index
        return flat[np.minimum(at, flat.size - 1)].reshape(y)
    if kind == "leading":
        return np.broadcast_to(value.reshape(value.shape + (1,) * (len(y) - value.ndim)), y)
    places = np.broadcast_to(np.arange(flat.size).reshape(value.shape), y)
    if kind == "own modulo":
        return flat[places % size]
    if kind == "moving":
        at = places + np.arange(y[size]).reshape([-1 if j == size else 1 for j in range(len(y))])
        return flat[np.minimum(at, flat.size - 1) if stride else at % flat.size]
    if kind == "rolled":
        return np.roll(np.broadcast_to(value, y), stride, size)
    if kind == "backward":
        return np.flip(np.broadcast_to(value, y), size)
    if kind in ("held", "columns modulo"):
        columns = np.arange(y[-1])
        return np.broadcast_to(value, y)[..., columns // size * size if kind == "held" else columns % size]
    steps = [0 if n == 1 else s for n, s in zip(value.shape, dense_strides(value.shape), strict=True)]
    strides = [0] * (len(y) - len(steps)) + steps
    strides[size] = stride
    where = _addresses(y, strides)
    if np.max(where) >= flat.size:
        raise ValueError("read beyond the operand")
    return flat[where]

"""SeparableCopy: an op that only moves elements, described by a table of places and a stride for each axis of its
output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify import ops
from qverify.triage.altered_kernels.inner_node import finished, inner_case
from qverify.triage.case import Case, element_bits
from qverify.triage.hypotheses import FaultVariant

Array = npt.NDArray[Any]
MOVED_OPS = ("transpose", "slice", "split", "pad", "gather", "depth_to_space", "resize_nearest", "reshape")
SAMPLES = 64
OUTSIDE = -(2**40)  # a place that reads the fill value, whatever the places on the other axes are


@dataclass(frozen=True, slots=True)
class SeparableCopy:
    """A copy: element (i0, i1, ...) of the output is element stride0*places0[i0] + stride1*places1[i1] + ... of the
    input.

    Attributes:
        names: names of the axes in texts.
        shape: shape of the output, in which an axis may be split in two.
        sizes: size of the input's dim to which each axis belongs.
        source: name of the input.
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    places: tuple[Array, ...]
    source: str

    def addresses(self) -> Array:
        """Returns the flat index that each element of the output reads; a negative one is outside of the tensor."""
        each = [
            _offsets(places, stride).reshape([-1 if a == k else 1 for a in range(len(self.shape))])
            for k, (places, stride) in enumerate(zip(self.places, self.strides, strict=True))
        ]
        return np.broadcast_to(reduce(np.add, each, np.zeros((), np.int64)), self.shape).reshape(-1)

    def at(self, elements: Array) -> Array:
        """Returns the flat indices that these elements of the output read."""
        where = np.unravel_index(elements, self.shape)
        each = (_offsets(p[w], s) for p, s, w in zip(self.places, self.strides, where, strict=True))
        return reduce(np.add, each, np.zeros(len(elements), np.int64))

    def with_places(self, changed: dict[int, Array]) -> SeparableCopy:
        """Returns the copy with other places on some axes."""
        return replace(self, places=tuple(changed.get(k, p) for k, p in enumerate(self.places)))

    def with_strides(self, changed: dict[int, int]) -> SeparableCopy:
        """Returns the copy with other strides on some axes."""
        return replace(self, strides=tuple(changed.get(k, s) for k, s in enumerate(self.strides)))


CopyChange = Callable[[SeparableCopy, Case], SeparableCopy]


def _offsets(places: Array, stride: int) -> Array:
    return np.where(places == OUTSIDE, OUTSIDE, places * stride)


def dense_strides(shape: Sequence[int]) -> list[int]:
    """Returns the row-major strides of a shape, in elements."""
    return [prod(shape[k + 1 :]) for k in range(len(shape))]


def axis_names(rank: int) -> tuple[str, ...]:
    """Returns the names of a tensor's axes in texts."""
    names = {4: ("batch", "channel", "row", "column"), 3: ("plane", "row", "column"), 2: ("row", "column")}
    return names.get(rank) or tuple(f"dimension {k}" for k in range(rank))


def plural_of_axis(name: str) -> str:
    """Returns the plural of an axis name in texts: what lies along the axis."""
    if name.startswith("dimension"):
        return f"places of {name}"
    return {"batch": "batch items", "index": "indices"}.get(name, f"{name}s")


def copy_of(case: Case) -> SeparableCopy | None:
    """Returns the copy that the unit's inner node makes, or None if it does more than move elements."""
    inner = inner_case(case)
    if inner is None or inner.last.op not in MOVED_OPS or not case.recorded.size or inner.spec.shape != case.spec.shape:
        return None
    copy: SeparableCopy | None = case.compute_once("separable copy", lambda: _MAKERS[inner.last.op](inner))
    return copy


def mover(case: Case, op: str = "") -> Case | None:
    """Returns the case of the node that moves elements, without the dequantize and quantize nodes around it, or None if
    there is none or it has another op than this one ("" for any)."""
    inner = inner_case(case)
    return inner if copy_of(case) is not None and inner is not None and op in ("", inner.last.op) else None


def needed_copy(case: Case) -> SeparableCopy:
    """Returns the copy of a unit that is known to have one."""
    copy = copy_of(case)
    assert copy is not None
    return copy


def _needed_inner_case(case: Case) -> Case:
    inner = inner_case(case)
    assert inner is not None
    return inner


def source_of(case: Case, copy: SeparableCopy) -> Array:
    """Returns the elements of the copy's input, flat."""
    name, case = copy.source, _needed_inner_case(case)
    return (case.inputs[name] if name in case.inputs else case.graph.constants[name]).reshape(-1)


def fill_of(case: Case) -> Any:
    """Returns the value that a constant pad writes; 0 for other ops."""
    case = _needed_inner_case(case)
    if case.last.op != "pad":
        return 0
    word = case.last.words[1]
    return np.array(word, np.int32).view(np.float32)[()] if case.spec.dtype == "float32" else word


def copy_variant(
    case: Case, phrase: str, change: CopyChange, bits_: float = 0.0, check: bool = True, beyond: str = "unknown"
) -> list[FaultVariant]:
    """Returns the fault of a changed copy as a list of one, or [] if it does not give the recorded bytes of elements
    that differ.

    Args:
        change: returns the changed copy.
        check: whether the fault is compared with a sample of these elements first.
        beyond: what is read outside of the tensor: "unknown" contents or "clamped"; with "nothing", a copy that reads
            there is not a fault.
    """
    changed = change(needed_copy(case), _needed_inner_case(case))
    if check and not fits(case, changed, beyond):
        return []
    where = changed.addresses()
    outside = _outside(where, source_of(case, changed).size)
    if beyond == "nothing" and outside.any():
        return []
    if beyond == "unknown" and outside.any():
        differs = element_bits(case.recorded) != element_bits(case.healthy)
        if not differs[~outside].any() or 2 * differs[outside].sum() < outside.sum():
            return []
        text = f"{phrase}; {np.count_nonzero(outside)} elements are read from beyond the tensor"
        return [FaultVariant(text, _Maker(change, beyond, outside), bits_, free=outside)]
    return [FaultVariant(phrase, _Maker(change, beyond), bits_)]


def _outside(where: Array, size: int) -> Array:
    return ((where < 0) & (where > OUTSIDE // 2)) | (where >= size)


@dataclass(frozen=True, slots=True)
class _Maker:
    change: CopyChange
    beyond: str
    free: Array | None = None

    def __call__(self, case: Case) -> Array:
        changed = self.change(needed_copy(case), _needed_inner_case(case))
        values = _read(case, changed, changed.addresses(), self.beyond)
        if self.free is not None:
            values = np.where(self.free, case.recorded.reshape(-1), values)
        return np.ascontiguousarray(values.reshape(case.spec.shape))


def _read(case: Case, copy: SeparableCopy, where: Array, beyond: str) -> Array:
    flat = source_of(case, copy)
    values = flat[np.clip(where, 0, flat.size - 1)]
    filled = where < OUTSIDE // 2
    values = np.where(filled, np.array(fill_of(case)).astype(values.dtype), values) if filled.any() else values
    return finished(case, values)


def fits(case: Case, copy: SeparableCopy, beyond: str) -> bool:
    """Returns whether the copy gives the recorded bytes of a sample of the elements that differ."""
    differing = case.differing
    chosen = differing[np.linspace(0, len(differing) - 1, min(SAMPLES, len(differing))).astype(np.int64)]
    where = copy.at(chosen)
    same = element_bits(_read(case, copy, where, beyond)) == element_bits(case.recorded)[chosen]
    if beyond == "unknown":
        same |= _outside(where, source_of(case, copy).size)
    return bool(same.all())


def _input(case: Case) -> tuple[str, tuple[int, ...]]:
    name = case.last.inputs[0] or ""
    return name, case.graph.spec(name).shape


def _whole(case: Case, strides: Sequence[int], places: Sequence[Array], sizes: Sequence[int]) -> SeparableCopy:
    y, (name, _) = case.spec.shape, _input(case)
    return SeparableCopy(axis_names(len(y)), y, tuple(sizes), tuple(strides), tuple(places), name)


def _transpose(case: Case) -> SeparableCopy:
    _, shape = _input(case)
    dense, order = dense_strides(shape), case.last.words
    return _whole(case, [dense[k] for k in order], [np.arange(n) for n in case.spec.shape], [shape[k] for k in order])


def _reshape(case: Case) -> SeparableCopy:
    y = case.spec.shape
    return _whole(case, dense_strides(y), [np.arange(n) for n in y], y)


def _slice(case: Case) -> SeparableCopy:
    _, shape = _input(case)
    start, step = case.last.words[: len(shape)], case.last.words[len(shape) :]
    places = [np.arange(n) * by + at for n, at, by in zip(case.spec.shape, start, step, strict=True)]
    return _whole(case, dense_strides(shape), places, shape)


def split_start(case: Case) -> int:
    """Returns the place on the split axis at which the output begins."""
    axis, at = case.last.words[0], list(case.last.outputs).index(case.output)
    return sum(case.graph.spec(n).shape[axis] for n in case.last.outputs[:at])


def _split(case: Case) -> SeparableCopy:
    _, shape = _input(case)
    places = [np.arange(n) for n in case.spec.shape]
    places[case.last.words[0]] = places[case.last.words[0]] + split_start(case)
    return _whole(case, dense_strides(shape), places, shape)


def _pad(case: Case) -> SeparableCopy:
    _, shape = _input(case)
    mode, _, *begin = case.last.words
    places = [
        border(np.arange(out) - b, n, ("constant", "reflect", "edge")[mode])
        for b, out, n in zip(begin, case.spec.shape, shape, strict=True)
    ]
    return _whole(case, dense_strides(shape), places, shape)


def border(places: Array, size: int, mode: str) -> Array:
    """Returns the places that are read on an axis of `size`, where places before 0 and after the end are replaced as by
    padding in this mode. mode: one name, or one for each end ("edge, constant")."""
    last, inside = size - 1, (places >= 0) & (places < size)
    if ", " in mode:
        before, after = (border(places, size, half) for half in mode.split(", "))
        return np.where(places < 0, before, after)
    read = {
        "constant": np.full_like(places, OUTSIDE),
        "reflect": np.where(places < 0, -places, 2 * last - places),
        "symmetric": np.where(places < 0, -places - 1, 2 * last - places + 1),
        "edge": np.where(places < 0, 0, last),
        "wrap": places % size,
        "other edge": np.where(places < 0, last, 0),
        "first": np.zeros_like(places),
        "unclamped": places,
        "reflect one too far": np.where(places < 0, -places + 1, 2 * last - places - 1),
        "second": np.where(places < 0, min(1, last), max(last - 1, 0)),
    }[mode]
    return np.where(inside, places, read)


def _gather(case: Case) -> SeparableCopy:
    name, shape = _input(case)
    axis, size = case.last.words[0], shape[case.last.words[0]]
    index = gather_index(case)
    view = (prod(shape[:axis]), index.size, prod(shape[axis + 1 :]))
    places = (np.arange(view[0]), np.where(index < 0, index + size, index), np.arange(view[2]))
    sizes, strides = (view[0], size, view[2]), (size * view[2], view[2], 1)
    return SeparableCopy(("outer block", "index", "inner element"), view, sizes, strides, places, name)


def gather_index(case: Case) -> Array:
    """Returns a gather's indices, flat."""
    name = case.last.inputs[1] or ""
    index = case.inputs[name] if name in case.inputs else case.graph.constants[name]
    return index.reshape(-1).astype(np.int64)


def _depth_to_space(case: Case) -> SeparableCopy:
    name, (n, c, h, w) = _input(case)
    block, crd = case.last.words
    plane, out = h * w, c // block**2
    of_block = (block * plane, plane) if crd else (block * out * plane, out * plane)
    view = (n, out, h, block, w, block)
    strides = (c * plane, block**2 * plane if crd else plane, w, of_block[0], 1, of_block[1])
    names = ("batch", "channel", "row", "row in the block", "column", "column in the block")
    return SeparableCopy(names, view, view, strides, tuple(np.arange(k) for k in view), name)


def tables_of(case: Case) -> list[Array]:
    """Returns the source index of every place of a resize_nearest, for each axis."""
    index = case.graph.constants[case.last.inputs[1] or ""].astype(np.int64)
    return np.split(index, np.cumsum(case.spec.shape)[:-1])


def _resize_nearest(case: Case) -> SeparableCopy:
    _, shape = _input(case)
    return _whole(case, dense_strides(shape), tables_of(case), shape)


_MAKERS: dict[str, Callable[[Case], SeparableCopy]] = {
    "transpose": _transpose,
    "slice": _slice,
    "split": _split,
    "pad": _pad,
    "gather": _gather,
    "depth_to_space": _depth_to_space,
    "resize_nearest": _resize_nearest,
    "reshape": _reshape,
}
assert all(op in ops.stems() for op in MOVED_OPS)

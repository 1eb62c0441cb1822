"""A lookup uses another table: not at all, twice, cut to fewer entries, interpolated, one half mirrored, or with
entries of fewer bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.tensors.spec import TensorSpec
from qverify.triage.altered_kernels.narrow_steps import TO_INTEGER
from qverify.triage.altered_kernels.variant_checks import check_where_it_differs
from qverify.triage.case import Array, Case, UnitChange, limits
from qverify.triage.hypotheses import FaultVariant

NAME = "lookup-table"
OPS = ("lookup",)
# The output table, from the table and the specs of input and output.
Way = Callable[[Array, TensorSpec, TensorSpec], Array]


def variants(case: Case) -> Iterator[FaultVariant]:
    if (
        case.last.op != "lookup"
        or len(case.unit.nodes) > 1
        or case.graph.constants[case.last.inputs[1] or ""].ndim != 1
    ):
        return
    size = case.recorded.size
    untabled: dict[str, Way] = {
        "passed through without the table": _passed,
        "requantized without the table": _requantized,
    }
    for without, direct in untabled.items():
        tails = {
            size % m: m for m in (64, 32, 2, 4, 8, 16) if size % m and size >= m and case.spec.numpy_dtype.kind in "iu"
        }
        for tail, m in tails.items():
            text = f"lookup: it works on blocks of {m} elements; the last {tail} of the tensor ({size} mod {m}) are {without}"
            yield from check_where_it_differs(case, text, partial(_tail, way=direct, tail=tail), 2.0)
    for cost, phrase, way in _ways(case):
        yield from check_where_it_differs(case, f"lookup: {phrase}", partial(_compute_output, way=way), cost)


def _compute_output(case: Case, way: Way) -> Array:
    source, name = (n or "" for n in case.last.inputs[:2])
    table = case.graph.constants[name]
    changed = way(table.astype(np.float64), case.graph.spec(source), case.spec)
    info = np.iinfo(table.dtype.name) if table.dtype.kind in "iu" else None
    if info is not None:
        changed = np.clip(changed, info.min, info.max)
    return case.recompute(UnitChange(constants={name: changed.astype(table.dtype)}))


def _tail(case: Case, way: Way, tail: int) -> Array:
    output = case.healthy.reshape(-1).copy()
    output[-tail:] = _compute_output(case, way).reshape(-1)[-tail:]
    return output.reshape(case.spec.shape)


def _ways(case: Case) -> Iterator[tuple[float, str, Way]]:
    x = case.graph.spec(case.last.inputs[0] or "")
    if case.spec.numpy_dtype.kind not in "iu":
        return
    width = 8 * x.numpy_dtype.itemsize
    if x.numpy_dtype.kind == "i":
        half = 1 << width - 1
        text = f"the raw bits of a signed input are the table index, without adding {half}: negative inputs read the upper half of the table, the others the lower half"
        yield 0.5, text, lambda t, a, b: np.roll(t, half)
    yield 1.0, "the input's bytes are passed through without the table", _passed
    yield 1.5, "the input is requantized to the output without the table", _requantized
    if x.dtype == case.spec.dtype:
        yield 2.0, "the table is applied twice", lambda t, a, b: t[(t - limits(a)[0]).astype(np.int64)]
    steps = [9, 8, *(k for k in range(1, width - 1) if k not in (8, 9))]
    for rare, k in enumerate(steps):
        for phrase, rounded in TO_INTEGER.items():
            text = f"every {1 << k}th entry of the table is kept and the values between are interpolated linearly, {phrase}"
            yield (
                1.0 + 0.05 * rare + (phrase != "rounded to the nearest (ties up)"),
                text,
                partial(_interpolated, k=k, rounded=rounded),
            )
            own_text = f"{text}; the last, shorter piece by its own length"
            yield (
                1.5 + 0.05 * rare + (phrase != "rounded to the nearest (ties up)"),
                own_text,
                partial(_interpolated, k=k, rounded=rounded, own=True),
            )
        yield (
            1.5 + 0.05 * rare,
            f"every {1 << k}th entry of the table is kept and the values between take the one before (index without its lowest {k} bits)",
            partial(_held, k=k, half=0),
        )
        yield (
            1.5 + 0.05 * rare,
            f"every {1 << k}th entry of the table is kept and the values between take the nearest one",
            partial(_held, k=k, half=1 << k - 1),
        )
        yield 3.0, f"the lowest {k} bits of the table's entries are lost", partial(_entries, k=k, half=0)
        yield 3.0, f"the table's entries are rounded to multiples of {1 << k}", partial(_entries, k=k, half=1 << k - 1)
    yield from _yield_range_faults(case, width)


def _yield_range_faults(case: Case, width: int) -> Iterator[tuple[float, str, Way]]:
    for text, way in _MIRRORS.items():
        yield 2.0, text, way
    for real in (1, 2, 3, 4, 5, 6, 8, 10, 16):
        yield (
            2.5,
            f"inputs beyond -{real} and {real} (real values) are taken as -{real} and {real}",
            partial(_limited, low=-real, high=real),
        )
    for real in (-8, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 8):
        yield 3.0, f"inputs below {real} (real value) are taken as {real}", partial(_limited, low=real, high=np.inf)
        yield 3.0, f"inputs above {real} (real value) are taken as {real}", partial(_limited, low=-np.inf, high=real)
    if case.spec.numpy_dtype.itemsize == 2:
        yield 2.0, "only the low byte of an entry is read", lambda t, a, b: t.astype(np.int64) & 255
        yield (
            2.0,
            "only the low byte of an entry is read, sign-extended",
            lambda t, a, b: (t.astype(np.int64) & 255 ^ 128) - 128,
        )
        yield 2.0, "only the high byte of an entry is read", lambda t, a, b: t.astype(np.int64) >> 8
    if width == 16:
        yield 1.5, "the index keeps its low byte only", lambda t, a, b: np.tile(t[:256], len(t) // 256)
        yield (
            1.5,
            "the index is the high byte of the input: 256 entries are used in order",
            lambda t, a, b: np.repeat(t[:256], len(t) // 256),
        )


def _inputs(x: TensorSpec, count: int) -> Array:
    return np.arange(count, dtype=np.float64) + limits(x)[0]


def _passed(table: Array, x: TensorSpec, y: TensorSpec) -> Array:
    return _inputs(x, len(table)).astype(np.int64).astype(y.dtype)


def _requantized(table: Array, x: TensorSpec, y: TensorSpec) -> Array:
    real = (_inputs(x, len(table)) - x.zero_point[0]) * x.scale[0]
    return np.rint(real / y.scale[0]) + y.zero_point[0]


def _interpolated(
    table: Array, x: TensorSpec, y: TensorSpec, k: int, rounded: Callable[[Array], Array], own: bool = False
) -> Array:
    """Returns the table interpolated between kept entries. The last piece ends at the very last entry: as if it were a
    whole piece away, or, with `own`, at its true distance."""
    index = np.arange(len(table))
    base = index >> k << k
    following = np.minimum(base + (1 << k), len(table) - 1)
    length = np.maximum(following - base, 1) if own else float(1 << k)
    return table[base] + rounded((table[following] - table[base]) * (index - base) / length)


def _held(table: Array, x: TensorSpec, y: TensorSpec, k: int, half: int) -> Array:
    return table[np.minimum(np.arange(len(table)) + half >> k << k, len(table) - 1)]


def _entries(table: Array, x: TensorSpec, y: TensorSpec, k: int, half: int) -> Array:
    return table.astype(np.int64) + half >> k << k


def _limited(table: Array, x: TensorSpec, y: TensorSpec, low: float, high: float) -> Array:
    ends = (np.rint(v / x.scale[0]) + x.zero_point[0] for v in (low, high))
    inputs = np.clip(_inputs(x, len(table)), *ends)
    return table[np.clip(inputs - limits(x)[0], 0, len(table) - 1).astype(np.int64)]


def _mirrored(table: Array, x: TensorSpec, y: TensorSpec, positive: bool, odd: bool, sigmoid: bool = False) -> Array:
    zero = x.zero_point[0] - limits(x)[0]
    index = np.arange(len(table))
    other = np.clip(2 * zero - index, 0, len(table) - 1)
    mirrored = table[other]
    if odd:
        mirrored = 2 * y.zero_point[0] - mirrored
    if sigmoid:
        mirrored = 2 * y.zero_point[0] + np.rint(1 / y.scale[0]) - mirrored
    return np.where(index < zero if positive else index > zero, mirrored, table)


_MIRRORS: dict[str, Way] = {
    "negative inputs are looked up by absolute value and the result is negated (an odd function)": partial(
        _mirrored, positive=True, odd=True
    ),
    "positive inputs are looked up as negative ones and the result is negated (an odd function)": partial(
        _mirrored, positive=False, odd=True
    ),
    "negative inputs are looked up by absolute value (an even function)": partial(_mirrored, positive=True, odd=False),
    "positive inputs are looked up as negative ones (an even function)": partial(_mirrored, positive=False, odd=False),
    "negative inputs are 1 minus the entry of their absolute value": partial(
        _mirrored, positive=True, odd=False, sigmoid=True
    ),
    "positive inputs are 1 minus the entry of their negative value": partial(
        _mirrored, positive=False, odd=False, sigmoid=True
    ),
}

"""arg_max searches in another way: among other elements, by other bits of them, with another rule for ties, or it
counts the index in another way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.inner_node import finished, inner_case
from qverify.triage.altered_kernels.narrow_steps import NARROW, significant
from qverify.triage.altered_kernels.variant_checks import check_where_it_differs, operand
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "arg-max-search"
OPS = ("arg_max",)
BLOCKS = (2, 4, 8, 16, 32, 64)
# Computes the index of each output from values [size, outputs]; the flag: whether the last of equal values wins.
Way = Callable[[Array, bool], Array]


def variants(case: Case) -> Iterator[FaultVariant]:
    inner = inner_case(case)
    if inner is None or inner.last.op != "arg_max":
        return
    x = operand(inner, inner.last.inputs[0] or "")
    rest = x.size // x.shape[inner.last.words[0]]
    contiguous = "the stride of its axis is ignored: it looks through consecutive elements of memory, as if the axis were the last one"
    yield from check_where_it_differs(
        case, f"arg_max: {contiguous}", partial(_compute_output, way=best, axis=None), 0.5
    )
    for axis, size in enumerate(x.shape):
        if axis != inner.last.words[0] and size > 1 and x.size // size == rest:
            yield from check_where_it_differs(
                case,
                f"arg_max: it searches along axis {axis} instead of {inner.last.words[0]}",
                partial(_compute_output, way=best, axis=axis),
                1.5,
            )
    for cost, text, way in _ways(x):
        yield from check_where_it_differs(
            case, f"arg_max: {text}", partial(_compute_output, way=way, axis=inner.last.words[0]), cost
        )


def _compute_output(case: Case, way: Way, axis: int | None) -> Array:
    inner = inner_case(case)
    assert inner is not None
    x, own_axis = operand(inner, inner.last.inputs[0] or ""), inner.last.words[0]
    planes = x.reshape(-1, x.shape[own_axis]).T if axis is None else np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1)
    index = way(planes, bool(inner.last.words[1])).astype(np.int64)
    return finished(case, index.reshape(inner.spec.shape)).reshape(case.spec.shape)


def best(planes: Array, last: bool) -> Array:
    """Returns the index of the first (or last) maximum of each column."""
    return len(planes) - 1 - planes[::-1].argmax(0) if last else planes.argmax(0)


def _keyed(planes: Array, last: bool, key: Callable[[Array], Array]) -> Array:
    return best(key(planes), last)


def _among(planes: Array, last: bool, part: Callable[[int], slice]) -> Array:
    chosen = part(len(planes))
    start = chosen.indices(len(planes))[0]
    if not planes[chosen].size:
        raise ValueError("nothing is searched")
    return best(planes[chosen], last) + start


def _from(planes: Array, last: bool, value: float) -> Array:
    index = best(planes, last)
    return np.where(planes.max(0) > value, index, 0)


def _lanes(planes: Array, last: bool, lanes: int) -> Array:
    """Returns the index if each lane keeps its own first maximum and the first lane with the largest one wins."""
    largest, index = planes.max(0), np.arange(len(planes))[:, None]
    order = index % lanes * len(planes) + index
    wins = planes == largest
    if last:
        return index.reshape(-1)[np.where(wins, order, -1).argmax(0)]
    return index.reshape(-1)[np.where(wins, order, 1 << 40).argmin(0)]


def _carried(planes: Array, last: bool) -> Array:
    """Returns the index if the largest value so far is kept from one output to the next."""
    highest, indices = -np.inf, []
    for column in planes.T:
        index = 0
        for i, value in enumerate(column):
            if value > highest or (last and value == highest):
                highest, index = value, i
        indices.append(index)
    return np.array(indices)


def _counted(planes: Array, last: bool, count: Callable[[Array, int], Array]) -> Array:
    return count(best(planes, last), len(planes))


def _ways(x: Array) -> Iterator[tuple[float, str, Way]]:
    yield (
        0.5,
        "of equal values the other one wins (the last instead of the first, or the first instead of the last)",
        lambda p, last: best(p, not last),
    )
    yield 1.0, "the index of the minimum is given", partial(_keyed, key=lambda p: -p.astype(np.float64))
    yield 1.0, "absolute values are compared", partial(_keyed, key=lambda p: np.abs(p.astype(np.float64)))
    for text, key in _keys(x):
        yield 1.0, f"values are compared {text}", partial(_keyed, key=key)
    parts: dict[str, Callable[[int], slice]] = {
        "the first element is not looked at": lambda n: slice(1, None),
        "the last element is not looked at": lambda n: slice(0, -1),
        "the second half is not looked at": lambda n: slice(0, n // 2),
        "the first half is not looked at": lambda n: slice(n // 2, None),
    }
    for text, part in parts.items():
        yield 1.5, text, partial(_among, part=part)
    for m in BLOCKS:
        yield (
            1.5,
            f"the elements after the last whole {m} are not looked at",
            partial(_among, part=partial(_whole, m=m)),
        )
        yield 2.0, f"only the first {m} elements are looked at", partial(_among, part=partial(_first, m=m))
        yield 2.0, f"only every {m}th element is looked at", partial(_every, m=m)
        yield (
            1.5,
            f"ties: each of {m} lanes keeps its own maximum and the first lane with the largest wins",
            partial(_lanes, lanes=m),
        )
        yield 2.0, f"the index is counted within its block of {m}", partial(_counted, count=partial(_modulo, m=m))
        yield (
            2.0,
            f"an index after the last whole {m} is counted from there",
            partial(_counted, count=partial(_from_tail, m=m)),
        )
        yield 2.0, f"the index of its block of {m} is given", partial(_counted, count=partial(_divided, m=m))
    for value in (0, 128, 127, -1, 1):
        yield (
            1.5,
            f"the search starts from the value {value}: where nothing is larger, the index is 0",
            partial(_from, value=value),
        )
    yield 1.5, "the maximum is not reset between outputs: it is that of all so far", _carried
    counts: dict[str, Callable[[Array, int], Array]] = {
        "the index is one too high": lambda i, n: i + 1,
        "the index is one too low": lambda i, n: i - 1,
        "the index is counted from the end": lambda i, n: n - 1 - i,
        "the index keeps its lowest 8 bits": lambda i, n: i % 256,
        "the index keeps its lowest 8 bits, signed": lambda i, n: (i + 128) % 256 - 128,
        "the index keeps its lowest 7 bits": lambda i, n: i % 128,
        "the first output's index is given for all": lambda i, n: np.full_like(i, i[0]),
        "the index is that of the output before": lambda i, n: np.append(i[:1], i[:-1]),
    }
    for text, count in counts.items():
        yield 2.0, text, partial(_counted, count=count)


def _modulo(i: Array, n: int, m: int) -> Array:
    return i % m


def _divided(i: Array, n: int, m: int) -> Array:
    return i // m


def _from_tail(i: Array, n: int, m: int) -> Array:
    return np.where(i >= n // m * m, i - n // m * m, i)


def _whole(n: int, m: int) -> slice:
    return slice(0, n // m * m)


def _first(n: int, m: int) -> slice:
    return slice(0, m)


def _every(planes: Array, last: bool, m: int) -> Array:
    return best(planes[::m], last) * m


def _keys(x: Array) -> Iterator[tuple[str, Callable[[Array], Array]]]:
    """Yields pairs of a text and a key function, for comparisons by fewer or other bits of the values."""
    if x.dtype.kind == "f":
        yield (
            "with their upper 16 bits only (bfloat16 by truncation); values that agree in these count as equal",
            NARROW["bfloat16 by truncation (upper 16 bits)"],
        )
        for text in ("float16", "bfloat16"):
            yield f"rounded to {text}; values that agree then count as equal", NARROW[text]
        for k in range(2, 23):
            yield f"with {k} significant bits", partial(significant, count=k)
        yield "as integers (truncated)", np.trunc
        yield "as integers (rounded down)", np.floor
        yield "by their bits as signed integers", lambda p: np.ascontiguousarray(p).view(np.int32)
        yield "by their bits as unsigned integers", lambda p: np.ascontiguousarray(p).view(np.uint32)
        return
    width = 8 * x.dtype.itemsize
    other = ("u" if x.dtype.kind == "i" else "i") + str(x.dtype.itemsize)
    yield f"as {'unsigned' if other[0] == 'u' else 'signed'} numbers", lambda p: np.ascontiguousarray(p).view(other)
    for k in range(1, min(width, 16)):
        yield f"without their lowest {k} bits", partial(_shifted, k=k)
    for low in (4, 7, 8):
        if low < width:
            yield f"with their lowest {low} bits only", partial(_lowest, k=low, signed=False)
            yield f"with their lowest {low} bits only, signed", partial(_lowest, k=low, signed=True)


def _shifted(p: Array, k: int) -> Array:
    return p >> k


def _lowest(p: Array, k: int, signed: bool) -> Array:
    half = 1 << k - 1
    low = p.astype(np.int64) & (2 * half - 1)
    return (low ^ half) - half if signed else low

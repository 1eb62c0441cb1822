"""A lookup keeps fewer entries of its table and interpolates between them, keeps them in fewer bits, or passes its
input through."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.model_bin.graph import Graph, Node
from qverify.triage.altered_kernels.bind_last import bind_last
from qverify.triage.altered_kernels.replaced_kernels import LIKELY, kernel_variant, nodes_of
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "lookup-entries"
OPS = ("lookup",)
Division = Callable[[Array, int], Array]  # divides whole numbers by 2^shift
DIVISIONS: dict[str, Division] = {
    "rounded half up": lambda v, s: (v + (1 << s >> 1)) >> s,
    "rounded down": lambda v, s: v >> s,
    "rounded toward zero": lambda v, s: np.sign(v) * (np.abs(v) >> s),
    "rounded half away from zero": lambda v, s: np.sign(v) * ((np.abs(v) + (1 << s >> 1)) >> s),
    "rounded half to even": lambda v, s: np.rint(v / 2.0**s).astype(np.int64),
}
AFTER = ("the last entry", "the entry one step on, extrapolated", "the first entry (wrapping)", "the entry before")


def variants(case: Case) -> Iterator[FaultVariant]:
    for node in nodes_of(case, "lookup")[:1]:
        table = case.graph.constants[node.inputs[1] or ""]
        yield kernel_variant("lookup: the input is copied to the output without the table", {"lookup": _passed}, LIKELY)
        yield kernel_variant(
            "lookup: the input less its zero point is copied to the output plus its own",
            {"lookup": partial(_passed, zero=True)},
            LIKELY,
        )
        yield kernel_variant("lookup: the table is applied twice", {"lookup": _twice})
        for text, value in {
            "0": 0,
            "the output's zero point": case.graph.spec(node.outputs[0]).zero_point[:1] or 0,
        }.items():
            yield kernel_variant(
                f"lookup: the result is {text} instead of the table's entry",
                {
                    "lookup": bind_last(
                        lambda n, i, g, v: np.broadcast_to(np.asarray(v).reshape(-1)[:1], i[0].shape), value
                    )
                },
            )
        zero = case.graph.spec(node.outputs[0]).zero_point[:1]
        for text, change in _short_tables(len(table), table.dtype.kind in "iu", zero):
            yield kernel_variant(f"lookup: {text}", {"lookup": partial(_looked_up, change=change)}, 3.0)
        text = "the raw bits of the signed input are the table's index, without the offset added: negative inputs read the upper half of the table, the others the lower half"
        if case.graph.spec(node.inputs[0] or "").dtype in ("int8", "int16"):
            yield kernel_variant(
                f"lookup: {text}", {"lookup": partial(_looked_up, change=lambda t: np.roll(t, len(t) // 2))}, 2.0
            )
        for text, change in _tables(len(table)):
            yield kernel_variant(f"lookup: {text}", {"lookup": partial(_looked_up, change=change)})


def _passed(node: Node, inputs: list[Array], graph: Graph, zero: bool = False) -> Array:
    x, y = graph.spec(node.inputs[0] or ""), graph.spec(node.outputs[0])
    if not zero:
        return inputs[0].view(y.dtype) if x.numpy_dtype.itemsize == y.numpy_dtype.itemsize else inputs[0]
    limits = np.iinfo(y.dtype)
    return np.clip(inputs[0].astype(np.int64) - x.zero_point[0] + y.zero_point[0], limits.min, limits.max)


def _twice(node: Node, inputs: list[Array], graph: Graph) -> Array:
    once = _looked_up(node, inputs, graph, lambda t: t)
    return _looked_up(node, [once.astype(inputs[0].dtype), inputs[1]], graph, lambda t: t)


def _looked_up(node: Node, inputs: list[Array], graph: Graph, change: Callable[[Array], Array]) -> Array:
    x, table = inputs[0], inputs[1]
    limits = np.iinfo(table.dtype) if table.dtype.kind in "iu" else None
    changed = change(table.astype(np.int64) if limits else table.astype(np.float64))
    changed = np.clip(changed, limits.min, limits.max) if limits else changed
    return changed[x.astype(np.int64) - np.iinfo(x.dtype).min]


def _short_tables(size: int, whole: bool, zero: tuple[int, ...]) -> Iterator[tuple[str, Callable[[Array], Array]]]:
    """Yields tables of which only a part is kept: indices beyond it read a constant, an end of the part, or the part
    again."""
    values = {"0": 0} | ({"the output's zero point": zero[0]} if any(zero) else {}) | ({"-1": -1} if whole else {})
    parts = {f"{n}/{m}": size * n // m for m in (4, 8, 16, 2) for n in range(1, m) if n % 2 or m == 2}
    parts |= {"all but one": size - 1, "all but two": size - 2}
    for text, kept in parts.items():
        for first, start, stop in (("first", 0, kept), ("last", size - kept, size)):
            where = f"positions {kept}..{size - 1}" if first == "first" else f"positions 0..{size - kept - 1}"
            phrase = (
                f"only the {first} {kept} of the {size} entries of the table are held ({text} of it); table {where}"
            )
            for name, value in values.items():
                yield (
                    f"{phrase} give {name}",
                    bind_last(lambda t, a, b, v: np.where(_within(t, a, b), t, v), start, stop, value),
                )
            yield (
                f"{phrase} give the entry at the end of the part",
                bind_last(lambda t, a, b: t[np.clip(np.arange(len(t)), a, b - 1)], start, stop),
            )
            yield (
                f"{phrase} read the part again",
                bind_last(lambda t, a, b: t[a + (np.arange(len(t)) - a) % (b - a)], start, stop),
            )
            yield f"{phrase} give the input itself", bind_last(_input_beyond, start, stop)


def _within(table: Array, start: int, stop: int) -> Array:
    at = np.arange(len(table))
    return (at >= start) & (at < stop)


def _input_beyond(table: Array, start: int, stop: int) -> Array:
    at = np.arange(len(table))
    return np.where(_within(table, start, stop), table, at if table.min() >= 0 else at - len(table) // 2)


def _tables(size: int) -> Iterator[tuple[str, Callable[[Array], Array]]]:
    whole = size.bit_length() - 1
    for shift in range(whole - 1, 0, -1):
        step = 1 << shift
        for rule, division in DIVISIONS.items():
            for after in AFTER:
                yield (
                    f"every {step}th entry of the table is kept and values between are interpolated linearly, {rule} (after the last kept one: {after})",
                    partial(_interpolated, shift=shift, division=division, after=after),
                )
        yield (
            f"a table of {size // step} + 1 entries over the whole range is interpolated in float and rounded to nearest",
            partial(_spread, points=size // step + 1),
        )
        yield (
            f"a table of {size // step} entries over the whole range is interpolated in float and rounded to nearest",
            partial(_spread, points=size // step),
        )
        for text, offset in (("the entry below", 0), ("the nearest entry", step // 2), ("the entry above", step - 1)):
            yield (
                f"every {step}th entry of the table is kept and {text} is taken",
                partial(_nearest, shift=shift, offset=offset),
            )
        yield f"the middle of every {step} entries is taken for all of them", partial(_middle, shift=shift)
    for k in (1, 2, 3, 4, 5, 6, 7, 8):
        for rule, division in DIVISIONS.items():
            yield (
                f"the table's entries lose their lowest {k} bits, {rule}",
                bind_last(lambda t, k, d: d(t, k) << k, k, division),
            )
        yield (
            f"the table's index is {k} entries too high",
            bind_last(lambda t, k: t[np.minimum(np.arange(len(t)) + k, len(t) - 1)], k),
        )
        yield (
            f"the table's index is {k} entries too low",
            bind_last(lambda t, k: t[np.maximum(np.arange(len(t)) - k, 0)], k),
        )
    for bits in range(4, whole):
        yield (
            f"the table's index keeps only its lower {bits} bits",
            bind_last(lambda t, b: t[np.arange(len(t)) & ((1 << b) - 1)], bits),
        )
        half, end = zero_index(size), 1 << bits - 1
        yield (
            f"the table's index saturates to {bits} bits around its middle",
            bind_last(lambda t, h, e: t[np.clip(np.arange(len(t)) - h, -e, e - 1) + h], half, end),
        )
    yield (
        "for negative inputs the entry of the absolute value is taken with its sign changed (an odd function)",
        lambda t: _mirrored(t, -1),
    )
    yield "for negative inputs the entry of the absolute value is taken (an even function)", lambda t: _mirrored(t, 1)
    yield "the first entry of the table is read as the second", lambda t: np.append(t[1:2], t[1:])
    yield "the last entry of the table is read as the one before", lambda t: np.append(t[:-1], t[-2:-1])


def zero_index(size: int) -> int:
    """Returns the index of a signed input's 0."""
    return size // 2


def _interpolated(table: Array, shift: int, division: Division, after: str) -> Array:
    size, step = len(table), 1 << shift
    at = np.arange(size)
    base = at & ~(step - 1)
    a = table[base]
    following = base + step
    b = table[np.minimum(following, size - 1)]
    if after == AFTER[1]:
        b = np.where(following < size, b, 2 * a - table[base - step])
    elif after == AFTER[2]:
        b = table[following % size]
    elif after == AFTER[3]:
        b = np.where(following < size, b, a)
    return a + division((b - a) * (at - base), shift)


def _spread(table: Array, points: int) -> Array:
    """Returns a table that is interpolated between so many points; the first and the last are the ends of the table."""
    at = np.rint(np.linspace(0, len(table) - 1, points)).astype(int)
    return np.rint(np.interp(np.arange(len(table)), at, table[at])).astype(np.int64)


def _nearest(table: Array, shift: int, offset: int) -> Array:
    at = np.arange(len(table)) + offset
    return table[np.minimum(at >> shift << shift, len(table) - 1)]


def _middle(table: Array, shift: int) -> Array:
    return table[(np.arange(len(table)) >> shift << shift) + (1 << shift >> 1)]


def _mirrored(table: Array, sign: int) -> Array:
    half = len(table) // 2
    at = np.arange(len(table)) - half
    return np.where(at < 0, sign * table[np.minimum(np.abs(at) + half, len(table) - 1)], table)

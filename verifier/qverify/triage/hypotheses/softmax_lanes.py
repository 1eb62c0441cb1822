"""Softmax pads its rows and counts the padding, saturates the sum, compares bytes with the other signedness for the
maximum, computes maximum and sum in one pass, or interpolates its table of exponentials."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from qverify.arithmetic.float32 import exp64
from qverify.model_bin.graph import Graph, Node
from qverify.triage.altered_kernels.bind_last import bind_last
from qverify.triage.altered_kernels.replaced_kernels import kernel_variant, nodes_of
from qverify.triage.altered_kernels.row_sample import fitting_rows
from qverify.triage.altered_kernels.softmax_kernels import FloatSoftmax, IntegerSoftmax, by_index, rows_of
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "softmax-lanes"
OPS = ("softmax", "softmax_float")
LANES = (8, 16, 4, 32, 64, 2, 128)
Exponential = Callable[[Array], Array]
Total = Callable[[Array, Exponential], Array]  # sums from rows and the exponential of differences to the maximum
Parts = Iterator[tuple[str, Callable[..., Array], float]]
F = np.float32


def variants(case: Case) -> Iterator[FaultVariant]:
    for node in nodes_of(case, "softmax", "softmax_float")[:1]:
        faults = (
            kernel_variant(f"softmax: {text}", {node.op: kernel}, bits) for text, kernel, bits in _kernels(case, node)
        )
        yield from fitting_rows(case, faults)


def _kernels(case: Case, node: Node) -> Parts:
    spec = case.graph.spec(node.inputs[0] or "")
    yield from _padded_rows(node, spec.zero_point[:1])
    yield from _one_pass()
    if node.op == "softmax":
        yield from _maxima(spec.dtype)
        yield from _interpolated()
    for text, most in _capacities().items():
        cost = 4.0 if "fraction" in text else 7.0
        yield f"the sum of exponentials (1 for the maximum) saturates at {text}", partial(_saturated, most=most), cost


def _kernel(op: str, **parts: Any) -> Callable[..., Array]:
    return IntegerSoftmax(**parts) if op == "softmax" else FloatSoftmax(**parts)


def _padded_rows(node: Node, zero: tuple[int, ...]) -> Parts:
    depth = node.words[1]
    values: dict[str, float | str] = {"0": 0}
    if node.op == "softmax":
        values |= {"the zero point": zero[0]} if any(zero) else {}
        values |= {"-128": -128, "127": 127, "255": 255, "-1": -1, "1": 1}
    values |= {"its first element": "first", "its last element": "last"}
    tried = set[int]()
    for lanes in LANES:
        more = -depth % lanes
        if more and more not in tried:
            tried.add(more)
            for phrase, value in values.items():
                text = f"rows are padded with {phrase} to a multiple of {lanes} elements ({more} more), and the padding"
                cost = 4.0 if value == 0 else 6.0
                kernel = partial(_with_padding, more=more, value=value)
                yield f"{text} counts in the sum, not in the maximum", partial(kernel, within=False), cost
                yield f"{text} counts in maximum and sum", partial(kernel, within=True), cost
    for more in (1, 2, 3):
        kernel = partial(_with_padding, more=more, value=0, within=False)
        yield f"{more} more exponentials than the row has, of elements 0, are summed", kernel, 7.0


def _with_padding(node: Node, inputs: list[Array], graph: Graph, more: int, value: float | str, within: bool) -> Array:
    outer, depth, inner = node.words[:3]
    x = inputs[0].reshape(outer, depth, inner)
    x = x if node.op == "softmax_float" else x.astype(np.int64)
    edge = {"first": x[:, :1], "last": x[:, -1:]}.get(str(value))
    tail = np.full((outer, 1, inner), value, x.dtype) if edge is None else edge
    wide = np.concatenate([x, np.repeat(tail, more, 1)], 1)
    largest = (lambda rows: rows.max(1, keepdims=True)) if within else (lambda rows: rows[:, :depth].max(1)[:, None])
    kernel = _kernel(node.op, largest=largest)
    output = kernel(replace(node, words=(outer, depth + more, *node.words[2:])), [wide, *inputs[1:]], graph)
    return output.reshape(outer, depth + more, inner)[:, :depth]


def _one_pass() -> Parts:
    for text, total in ONE_PASS.items():
        yield f"maximum and sum are formed in one pass; {text}", partial(_summed, total=total), 3.0
    for text, running in RUNNING.items():
        yield text, partial(_running, largest=running), 5.0


def _not_rescaled(rows: Array, exp: Exponential) -> Array:
    return _added(exp(rows - np.maximum.accumulate(rows, 1)))


def _added(e: Array) -> Array:
    return np.add.accumulate(e, 1)[:, -1:]


def _restarted(rows: Array, exp: Exponential) -> Array:
    """Returns the sums that restart at each new maximum."""
    largest = np.maximum.accumulate(rows, 1)
    new = np.diff(largest, axis=1, prepend=largest[:, :1] - 1) > 0
    start = rows.shape[1] - 1 - new[:, ::-1].argmax(1)[:, None]
    return _added(np.where(np.arange(rows.shape[1]) >= start, exp(rows - largest), 0).astype(exp(rows[:1]).dtype))


def _from_first(rows: Array, exp: Exponential) -> Array:
    return _added(exp(rows - rows[:, :1]))


def _stepped_once(rows: Array, exp: Exponential) -> Array:
    """Returns the sums that are rescaled by the exponential of the step from the maximum before to the new element, if
    that maximum is never updated."""
    largest = np.maximum.accumulate(rows, 1)
    total = exp(rows[:, :1] * 0)
    for i in range(1, rows.shape[1]):
        before, now = largest[:, i - 1 : i], largest[:, i : i + 1]
        step = exp(before - now)
        total = total * step * step + exp(rows[:, i : i + 1] - now)
    return total


ONE_PASS: dict[str, Total] = {
    "the sum collected so far is not rescaled when a new maximum appears (the numerators use the final maximum)": _not_rescaled,
    "the sum starts again at 1 when a new maximum appears": _restarted,
    "the sum is taken around the first element, the numerators around the maximum": _from_first,
    "the sum collected so far is rescaled twice when a new maximum appears": _stepped_once,
}
RUNNING: dict[str, Callable[[Array], Array]] = {
    "every exponential is taken around the maximum of the elements so far, in sum and numerators": lambda r: (
        np.maximum.accumulate(r, 1)
    ),
    "every exponential is taken around the element before, in sum and numerators": lambda r: np.concatenate(
        [r[:, :1], r[:, :-1]], 1
    ),
}


def _summed(node: Node, inputs: list[Array], graph: Graph, total: Total) -> Array:
    if node.op == "softmax":
        table = inputs[1].astype(F)
        sums = total(rows_of(inputs[0].astype(np.int64), node), lambda d: by_index(d, table))
    else:
        sums = total(rows_of(inputs[0].astype(np.float64), node), exp64)
    return _kernel(node.op, total=lambda e: sums)(node, inputs, graph)


def _running(node: Node, inputs: list[Array], graph: Graph, largest: Callable[[Array], Array]) -> Array:
    return _kernel(node.op, largest=largest)(node, inputs, graph)


def _capacities() -> dict[str, float]:
    """Returns the largest sums that fit into fixed-point numbers, by text; each once."""
    texts = dict[float, str]()
    for bits in (16, 15, 32, 31, 24, 8, 7, 12, 20):
        for fraction in range(max(0, bits - 12), bits + 1):
            most = (2.0**bits - 1) / 2.0**fraction
            if 1.0 <= most < 4096:
                texts.setdefault(
                    most,
                    f"{2**bits - 1}/{2**fraction}, just under {2 ** (bits - fraction)} ({bits} bits, {fraction} of them fraction)",
                )
    for power in range(13):
        texts.setdefault(2.0**power, str(2**power))
    return {text: most for most, text in texts.items()}


def _saturated(node: Node, inputs: list[Array], graph: Graph, most: float) -> Array:
    one = inputs[1].astype(F).reshape(-1)[255] if node.op == "softmax" else np.float64(1)

    def total(e: Array) -> Array:
        return np.minimum(_added(e), e.dtype.type(F(most) * one) if e.dtype == F else most)

    return _kernel(node.op, total=total)(node, inputs, graph)


def _maxima(dtype: str) -> Parts:
    other = "signed" if dtype == "uint8" else "unsigned"
    flip = (lambda r: (r + 128) % 256 - 128) if dtype == "uint8" else (lambda r: r % 256)
    like_above = "elements above it count like it"
    ways: dict[str, Callable[[Array], Array]] = {
        f"compares the bytes as {other} numbers": flip,
        "compares absolute values": np.abs,
        "compares the lower 7 bits": lambda r: r & 127,
        "compares the upper 7 bits": lambda r: r >> 1,
        "compares the upper 6 bits": lambda r: r >> 2,
        "compares the upper 4 bits": lambda r: r >> 4,
    }
    for text, key in ways.items():
        yield f"the search for the maximum {text}; {like_above}", IntegerSoftmax(largest=bind_last(_by_key, key)), 3.0


def _by_key(rows: Array, key: Callable[[Array], Array]) -> Array:
    return rows[np.arange(len(rows)), key(rows).argmax(1)][:, None]


def _interpolated() -> Parts:
    for step in (4, 2, 8, 16, 32, 64):
        for ended, rare in (("its first entry", 0.0), ("0", 3.0)):
            for phrase, weigh in WEIGHTS.items():
                exponential = partial(_between, step=step, weigh=weigh, ended=ended)
                text = f"only every {step}th entry of the table of exponentials is kept (differences 0, {step}, {2 * step} ... from the maximum), and those between are interpolated linearly{phrase} (beyond the table: {ended})"
                yield text, IntegerSoftmax(exponential=exponential), 4.0 + rare
        yield (
            f"only every {step}th entry of the table of exponentials is kept, from its first one on, and those between are interpolated linearly",
            IntegerSoftmax(exponential=partial(_from_start, step=step)),
            6.0,
        )
        for rule, name in ((np.sqrt, "geometrically"), (None, "by their mean")):
            way = partial(_means, step=step, root=rule is not None)
            text = f"only every {step}th entry of the table of exponentials is kept, and those between are taken {name} of the two beside"
            yield text, IntegerSoftmax(exponential=way), 8.0


WEIGHTS: dict[str, Callable[[Array, Array, Array], Array]] = {
    "": lambda a, b, f: a + (b - a) * f,
    " as a*(1 - f) + b*f": lambda a, b, f: a * (F(1) - f) + b * f,
}


def _kept(difference: Array, table: Array, step: int, ended: str) -> tuple[Array, Array, Array]:
    away = np.clip(-difference, 0, 255)
    first = 255 - away // step * step
    second = np.where(first >= step, first - step, 0)
    b = np.where((first < step) & (ended == "0"), F(0), table[second])
    return table[first], b, (away % step).astype(F) / F(step)


def _between(difference: Array, table: Array, step: int, weigh: Callable[..., Array], ended: str) -> Array:
    return weigh(*_kept(difference, table, step, ended)).astype(F)


def _means(difference: Array, table: Array, step: int, root: bool) -> Array:
    a, b, f = _kept(difference, table, step, "its first entry")
    middle = np.sqrt(a * b) if root else (a + b) / F(2)
    return np.where(f == 0, a, middle).astype(F)


def _from_start(difference: Array, table: Array, step: int) -> Array:
    at = np.clip(difference + 255, 0, 255)
    first = at // step * step
    second = np.minimum(first + step, 255)
    return (table[first] + (table[second] - table[first]) * ((at % step).astype(F) / F(step))).astype(F)

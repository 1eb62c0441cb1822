"""A mean of float32 adds up only a part of its elements, in a narrower accumulator or over another axis, or divides by
another number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.model_bin.graph import Graph, Node
from qverify.triage.altered_kernels.bind_last import bind_last
from qverify.triage.altered_kernels.float_formats import FORMATS, Format
from qverify.triage.altered_kernels.replaced_kernels import LIKELY, kernel_variant, nodes_of
from qverify.triage.altered_kernels.row_sums import RowSum, divisors, narrow_sums, partial_sums, whole
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "mean-sums"
OPS = ("reduce_mean",)


def variants(case: Case) -> Iterator[FaultVariant]:
    for node in nodes_of(case, "reduce_mean")[:1]:
        if case.graph.spec(node.inputs[0] or "").dtype == "float32":
            yield from _yield_float_faults(case, node)


def axes_of(node: Node, rank: int) -> list[int]:
    """Returns the axes that a mean reduces."""
    return [i for i in range(rank) if node.words[0] >> i & 1]


def rows_of(x: Array, axes: list[int]) -> Array:
    """Returns [kept elements, reduced elements]."""
    count = int(np.prod([x.shape[i] for i in axes]))
    return np.moveaxis(x, axes, range(-len(axes), 0)).reshape(-1, count)


def _yield_float_faults(case: Case, node: Node) -> Iterator[FaultVariant]:
    shape = case.graph.spec(node.inputs[0] or "").shape
    depth = int(np.prod([shape[i] for i in axes_of(node, len(shape))]))

    def variant(text: str, mean: Callable[[Array], Array], bits: float = 0.0) -> FaultVariant:
        return kernel_variant(f"reduce mean: {text}", {"reduce_mean": partial(_kernel, mean=mean)}, bits)

    for part in partial_sums(depth):
        yield variant(
            f"the sum takes part of the elements: {part.text} (divided by their whole number)",
            partial(_mean, of=part, divisor=depth),
            part.bits,
        )
        yield variant(
            f"the mean takes part of the elements: {part.text} (divided by the number added)",
            partial(_mean, of=part, divisor=part.size(depth)),
            part.bits + 1,
        )
    for of in narrow_sums(depth):
        yield variant(f"the elements are summed {of.text}", partial(_mean, of=of, divisor=depth), of.bits)
    for text, divisor in divisors(depth).items():
        yield variant(
            f"the sum is divided by {text} ({divisor:g}) instead of {depth}",
            bind_last(lambda rows, d: whole(rows) / d, divisor),
        )
    yield variant("the sum is not divided", whole, LIKELY)
    yield variant(
        "the sum in float32 is divided in float32",
        lambda rows: (whole(rows.astype(np.float32)) / np.float32(depth)).astype(float),
    )
    yield variant("the largest element is returned", lambda rows: rows.max(1), LIKELY)
    yield variant("the first element is returned", lambda rows: rows[:, 0], LIKELY)
    yield variant("the mean is updated element by element in float32", _running)
    for text, narrow in FORMATS.items():
        yield variant(
            f"1/{depth} is rounded to {text}, and multiplied",
            bind_last(lambda rows, f: whole(rows) * f(np.array(1 / depth)), narrow),
            10.0,
        )
        yield variant(
            f"each element is multiplied by 1/{depth} in {text} before the sum",
            bind_last(lambda rows, f: whole(f(rows / depth)), narrow),
            10.0,
        )
        yield variant(
            f"each element is multiplied by 1/{depth} and summed in {text}",
            partial(_scaled_sum, depth=depth, narrow=narrow),
            10.0,
        )
        yield variant(
            f"the sum in float32 is multiplied by 1/{depth} rounded to {text}",
            bind_last(
                lambda rows, f: whole(rows.astype(np.float32)) * f(np.array(1 / depth)).astype(np.float32), narrow
            ),
            10.0,
        )
        yield variant(
            f"the result is rounded to {text}", bind_last(lambda rows, f: f(whole(rows) / depth), narrow), 10.0
        )
    for text, kernel in _other_axes(case, node).items():
        yield kernel_variant(f"reduce mean: {text}", {"reduce_mean": kernel})


def _kernel(node: Node, inputs: list[Array], graph: Graph, mean: Callable[[Array], Array]) -> Array:
    return mean(rows_of(inputs[0].astype(np.float64), axes_of(node, inputs[0].ndim)))


def _mean(rows: Array, of: RowSum, divisor: float) -> Array:
    return of.total(rows) / divisor


def _running(rows: Array) -> Array:
    mean = rows[:, 0].astype(np.float32)
    for i in range(1, rows.shape[1]):
        mean = mean + (rows[:, i].astype(np.float32) - mean) / np.float32(i + 1)
    return mean.astype(np.float64)


def _scaled_sum(rows: Array, depth: int, narrow: Format) -> Array:
    total = np.zeros(len(rows))
    for i in range(rows.shape[1]):
        total = narrow(total + narrow(rows[:, i] / depth))
    return total


def _other_axes(case: Case, node: Node) -> dict[str, Callable[[Node, list[Array], Graph], Array]]:
    """Returns kernels of means over other axes that keep as many elements, and over neighbours in memory, by text."""
    shape, kept = case.graph.spec(node.inputs[0] or "").shape, case.graph.spec(node.outputs[0]).elements
    axes, total = axes_of(node, len(shape)), int(np.prod(shape))
    kernels: dict[str, Callable[[Node, list[Array], Graph], Array]] = {
        "the elements of a mean are neighbours in memory": lambda n, i, g: (
            whole(i[0].astype(float).reshape(kept, -1)) / (total // kept)
        ),
        f"the elements of a mean are {kept} apart in memory": lambda n, i, g: (
            whole(i[0].astype(float).reshape(-1, kept).T) / (total // kept)
        ),
    }
    for mask in range(1, 1 << len(shape)):
        others = [i for i in range(len(shape)) if mask >> i & 1]
        if others != axes and int(np.prod([shape[i] for i in others])) * kept == total:
            kernels[f"the mean is taken over axes {others} instead of {axes}"] = bind_last(
                lambda n, i, g, a: whole(rows_of(i[0].astype(float), a)) / (total // kept), others
            )
    return kernels

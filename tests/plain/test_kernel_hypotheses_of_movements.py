"""Kernel faults of ops that move, add, look up or search elements: each planted in plain numpy is found by its family, and
bytes near it are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from qverify.model_bin.units import units
from qverify.triage.case import Case
from qverify.triage.hypotheses import pages

from tests.plain.forensic_units import Small, generator

Array = Any
PAGES = {page.NAME: page for page in pages()}
Q = ("uint8", 0.5, 3)


def image(*shape: int, dtype: str = "uint8") -> Array:
    info = np.iinfo(dtype)
    return generator(7).integers(info.min, info.max, shape, dtype, endpoint=True)


def one(op: str, words: tuple[int, ...], x: Array, y: Array, **more: Any) -> tuple[Small, Array]:
    kind = (str(x.dtype), 0.5, 3)
    return Small(op, words, kind if y.dtype == x.dtype else (str(y.dtype), 0, 0), y.shape, x=(x, *kind[1:]), **more), y


def case_of(unit: Small, recorded: Array) -> Case:
    return Case(unit.graph, units(unit.graph)[0], unit.inputs, "y", np.ascontiguousarray(recorded))


def said(family: str, unit: Small, recorded: Array) -> list[str]:
    """The family's faults that give every recorded byte."""
    case = case_of(unit, recorded)
    return [v.text for v in PAGES[family].variants(case) if np.array_equal(v.make(case), recorded)]


def pad_symmetric() -> tuple[Small, Array]:
    x = image(1, 2, 5, 7)
    return one("pad", (1, 3, 0, 0, 1, 2), x, np.pad(x, [(0, 0), (0, 0), (1, 2), (2, 3)], "symmetric"))


def pad_other_value() -> tuple[Small, Array]:
    x = image(1, 2, 5, 7)
    return one("pad", (0, 3, 0, 0, 1, 2), x, np.pad(x, [(0, 0), (0, 0), (1, 2), (2, 3)]))


def slice_step() -> tuple[Small, Array]:
    x = image(1, 7, 9, 11)
    return one("slice", (0, 1, 2, 9, 1, 2, 1, -3), x, x[:, 1:4, 2:6, 9::-3])


def slice_from_last() -> tuple[Small, Array]:
    x = image(1, 7, 9, 11)
    return one("slice", (0, 1, 2, 9, 1, 2, 1, -3), x, x[:, 1:7:2, 2:6, 10:1:-3])


def transpose_inverted() -> tuple[Small, Array]:
    x = image(3, 3, 3, 3)
    return one("transpose", (0, 2, 3, 1), x, x.transpose(0, 3, 1, 2))


def transpose_batch() -> tuple[Small, Array]:
    x = image(2, 3, 5, 7)
    return one("transpose", (0, 2, 3, 1), x, np.repeat(x[:1].transpose(0, 2, 3, 1), 2, 0))


def gather_negative() -> tuple[Small, Array]:
    x, index = image(2, 5, 7), np.array([3, 0, -1])
    return one("gather", (1,), x, x[:, [3, 0, 0]], c_index=(index,))


def gather_outer() -> tuple[Small, Array]:
    x, index = image(2, 5, 7), np.array([3, 0, 4])
    y = np.stack([x.reshape(10, 7)[o * 3 + index] for o in range(2)])
    return one("gather", (1,), x, y, c_index=(index,))


def depth_to_space_dcr() -> tuple[Small, Array]:
    x = image(1, 8, 3, 5)
    y = x.reshape(1, 2, 2, 2, 3, 5).transpose(0, 3, 4, 1, 5, 2).reshape(1, 2, 6, 10)
    return one("depth_to_space", (2, 1), x, y)


def resize_nearest_rounds() -> tuple[Small, Array]:
    x = image(1, 2, 5, 7)
    rows, columns = (np.arange(m) * n // m for n, m in ((5, 8), (7, 12)))
    index = np.concatenate([[0], [0, 1], rows, columns]).astype(np.int32)
    near = [np.minimum(np.floor(np.arange(m) * n / m + 0.5).astype(int), n - 1) for n, m in ((5, 8), (7, 12))]
    return one("resize_nearest", (), x, x[:, :, near[0]][..., near[1]], c_index=(index,))


def tables(sizes: tuple[int, int], out: tuple[int, int]) -> tuple[Array, Array]:
    indices, weights = [], []
    for n, m in zip(sizes, out, strict=True):
        at = np.clip((np.arange(m) + 0.5) * n / m - 0.5, 0, n - 1)
        first = np.floor(at)
        indices += [first, np.minimum(first + 1, n - 1)]
        weights += [1 - (at - first), at - first]
    return np.concatenate(indices).astype(np.int32), np.concatenate(weights).astype(np.float32)


def bilinear(x: Array, at: tuple[Array, Array]) -> Array:
    (r, c), (h, w) = at, x.shape[2:]
    i, j = np.floor(r).astype(int), np.floor(c).astype(int)
    fr, fc = (r - i)[:, None], c - j
    real = (x.astype(np.float64) - 3) * 0.5
    i1, j1 = np.minimum(i + 1, h - 1), np.minimum(j + 1, w - 1)
    top = real[:, :, i][..., j] * (1 - fc) + real[:, :, i][..., j1] * fc
    bottom = real[:, :, i1][..., j] * (1 - fc) + real[:, :, i1][..., j1] * fc
    return np.rint((top * (1 - fr) + bottom * fr) / 0.5).astype(int) + 3


def resize_linear_asymmetric() -> tuple[Small, Array]:
    x = image(1, 1, 4, 4) // 2 * 2 + 1
    index, weight = tables((4, 4), (8, 8))
    y = bilinear(x, (np.arange(8) / 2, np.arange(8) / 2)).astype(np.uint8)
    return one("resize_linear", (0,), x, y, c_index=(index,), c_weight=(weight,))


def resize_linear_fewer_bits() -> tuple[Small, Array]:
    x = image(1, 1, 5, 7)
    index, weight = tables((5, 7), (11, 13))
    at = tuple(np.clip((np.arange(m) + 0.5) * n / m - 0.5, 0, n - 1) for n, m in ((5, 11), (7, 13)))
    four = tuple(np.floor(v) + np.floor((v - np.floor(v)) * 16 + 0.5) / 16 for v in at)
    y = bilinear(x, (np.minimum(four[0], 4), np.minimum(four[1], 6))).astype(np.uint8)
    return one("resize_linear", (0,), x, y, c_index=(index,), c_weight=(weight,))


def split_backward() -> tuple[Small, Array]:
    x = image(2, 7, 5)
    unit, _ = one("split", (1,), x, x[:, 5:7])
    node = unit.graph.nodes[0]
    rest = unit.graph.tensors["y"].__class__("z", "uint8", (2, 5, 5), (), (0.5,), (3,))
    unit.graph.tensors["z"] = rest
    unit.graph.nodes[0] = node.__class__(node.name, node.op, node.inputs, ("y", "z"), node.words)
    return unit, x[:, 5:7]


def reshape_half() -> tuple[Small, Array]:
    x = image(2, 3, 6, dtype="int16")
    y = x.reshape(-1).copy()
    y[18:] = 0
    return one("reshape", (), x, y.reshape(6, 6))


def added(way: Callable[[Array, Array], Array]) -> tuple[Small, Array]:
    a, b = image(3, 40), generator(9).integers(0, 256, (3, 40)).astype(np.uint8)
    r = np.array([0.37, 0.61, 20 - 5 * 0.37 - 9 * 0.61], np.float32)
    small = Small("add", (0, 0, 255), ("uint8", 1.0, 20), a.shape, a=(a, 0.37, 5), b=(b, 0.61, 9), c_rq=(r,))
    return small, np.clip(way((a - 5.0) * 0.37, (b - 9.0) * 0.61), 0, 255).astype(np.uint8)


def concat_fixed(first: bool = False) -> tuple[Small, Array]:
    a, b = image(1, 3, 60), image(1, 2, 60)
    ratio = (0.3 if first else 0.7) / 0.5
    by = int(ratio * 256 + 0.5)
    q = np.clip(((b.astype(int) - 9) * by + 128 >> 8) + 3, 0, 255)
    own = dict(a=(a, 0.5, 3), b=(b, 0.3 if first else 0.7, 9))
    return Small("concat", (1,), Q, (1, 5, 60), **own), np.concatenate([a, q.astype(np.uint8)], 1)


def concat_in_memory() -> tuple[Small, Array]:
    a, b = image(2, 3, 5), image(2, 2, 5)
    y = np.concatenate([a.reshape(-1), b.reshape(-1)]).reshape(2, 5, 5)
    return Small("concat", (1,), Q, y.shape, a=(a, 0.5, 3), b=(b, 0.5, 3)), y


def where_inverted() -> tuple[Small, Array]:
    cond, a, b = image(3, 7) > 99, image(3, 7), image(3, 7)[::-1]
    small = Small("where", (), Q, (3, 7), cond=(cond,), a=(a, 0.5, 3), b=(np.ascontiguousarray(b), 0.5, 3))
    return small, np.where(cond, b, a)


def where_first_row() -> tuple[Small, Array]:
    cond, a, b = image(3, 7) > 99, image(3, 7), np.ascontiguousarray(image(3, 7)[::-1])
    small = Small("where", (), Q, (3, 7), cond=(cond,), a=(a, 0.5, 3), b=(b, 0.5, 3))
    return small, np.where(cond[:1], a, b)


def arg_max_contiguous() -> tuple[Small, Array]:
    x = image(2, 11, 3)
    return one("arg_max", (1, 0), x, x.reshape(6, 11).argmax(1).reshape(2, 3))


def arg_max_from_tail() -> tuple[Small, Array]:
    x = image(2, 11, 3)
    index = x.argmax(1)
    return one("arg_max", (1, 0), x, np.where(index >= 8, index - 8, index))


def max_pool_zero() -> tuple[Small, Array]:
    x = image(1, 2, 5, 7, dtype="int8") // 4 - 70
    whole = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
    y = np.stack([whole[:, :, i : i + 5, j : j + 7] for i in range(3) for j in range(3)]).max(0)
    return one("max_pool", (3, 3, 1, 1, 1, 1, 1, 1, 1, 1), x, y)


def max_pool_edge() -> tuple[Small, Array]:
    x = image(1, 2, 5, 7, dtype="int8")
    whole = np.concatenate([np.full((1, 2, 1, 7), -128, np.int8), x], 2)
    whole[0, 1, 0] = x[0, 0, 4]
    return one("max_pool", (2, 1, 1, 1, 1, 0, 0, 0, 1, 1), x, np.maximum(whole[:, :, :-1], whole[:, :, 1:]))


def lookup_interpolated() -> tuple[Small, Array]:
    x = image(40, dtype="int16")
    table = (32000 * np.tanh(np.arange(-32768, 32768) / 9000)).astype(np.int16)
    index = x.astype(int) + 32768
    base = index & ~1023
    a, b = (table[np.minimum(k, 65535)].astype(int) for k in (base, base + 1024))
    return one("lookup", (), x, (a + ((b - a) * (index - base) + 512 >> 10)).astype(np.int16), c_table=(table,))


def mod_of_c() -> tuple[Small, Array]:
    x, by = generator(3).integers(-50, 50, (4, 6)), np.array([7])
    return Small("mod", (), ("int64", 0, 0), (4, 6), x=(x,), c_by=(by,)), np.fmod(x, by)


def copied_output() -> tuple[Small, Array]:
    x, table = image(1, 3, 4, 8), image(256)
    y = table[x]
    return one("lookup", (), x, y[..., np.arange(8) // 2 * 2], c_table=(table,))


def narrow_input() -> tuple[Small, Array]:
    x = image(4, 9, dtype="int16")
    low = (x & 255).astype(np.uint8).view(np.int8).astype(np.int16)
    return one("transpose", (1, 0), x, low.T)


def short_rows() -> tuple[Small, Array]:
    x, table = image(3, 21), image(256)
    cut = x.copy()
    cut[:, 16:] = 0
    return one("lookup", (), x, table[cut], c_table=(table,))


PLANTED: dict[str, tuple[str, Callable[[], tuple[Small, Array]], str]] = {
    "pad symmetric": ("pad-border", pad_symmetric, "edge element repeated"),
    "pad value": ("pad-border", pad_other_value, "raw 0"),
    "slice step": ("slice-steps", slice_step, "before the last two, consecutive elements"),
    "slice last": ("slice-steps", slice_from_last, "begins at the last element"),
    "transpose": ("transpose-order", transpose_inverted, "permutation is inverted"),
    "transpose batch": ("copy-strides", transpose_batch, "stride 0: every batch repeats"),
    "gather": ("gather-index", gather_negative, "negative indices are taken as 0"),
    "gather outer": ("gather-index", gather_outer, "the number of indices"),
    "depth to space": ("depth-to-space-order", depth_to_space_dcr, "DCR"),
    "resize nearest": ("resize-nearest-source", resize_nearest_rounds, "i * in / out is rounded to the nearest, halves up"),
    "resize linear": ("resize-linear-samples", resize_linear_asymmetric, "rows and columns are placed by asymmetric"),
    "resize weights": ("resize-linear-arithmetic", resize_linear_fewer_bits, "rounded to multiples of 1/16"),
    "split": ("split-order", split_backward, "from the end of the axis"),
    "reshape": ("partial-copy", reshape_half, "as many bytes as the tensor has elements"),
    "add apart": ("add-terms", lambda: added(lambda p, q: np.rint(p) + np.rint(q) + 20), "rounded to the nearest (ties to even) to an integer by itself"),
    "add floor": ("add-terms", lambda: added(lambda p, q: np.floor(p + q + 20)), "the sum is rounded down (floor)"),
    "concat": ("requantized-copy", concat_fixed, "multiple of 1/256, the product rounded to the nearest (ties up)"),
    "concat memory": ("concat-parts", concat_in_memory, "one after the other in memory"),
    "where": ("where-condition", where_inverted, "inverted"),
    "where row": ("broadcast-operand", where_first_row, "the condition does not advance with the row"),
    "arg max": ("arg-max-search", arg_max_contiguous, "stride of its axis is ignored"),
    "arg max tail": ("arg-max-search", arg_max_from_tail, "an index after the last whole 8 is counted from there"),
    "max pool": ("max-pool-window", max_pool_zero, "padded positions count as 0"),
    "padding": ("padding-from-memory", max_pool_edge, "the top holds the last rows of the plane before it"),
    "lookup": ("lookup-table", lookup_interpolated, "every 1024th entry"),
    "mod": ("mod-division", mod_of_c, "sign of the dividend"),
    "output": ("output-places", copied_output, "columns of the output repeat the first of every 2"),
    "narrow": ("narrow-elements", narrow_input, "lowest 8 bits and sign-extended"),
    "input tail": ("input-tail", short_rows, "every innermost row of the input after the last whole burst of 16 elements"),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str) -> None:
    family, plant, text = PLANTED[name]
    unit, recorded = plant()
    assert case_of(unit, recorded).differing.size
    assert [s for s in said(family, unit, recorded) if text in s]


@pytest.mark.parametrize("name", PLANTED)
def test_bytes_near_a_planted_fault_are_not_explained(name: str) -> None:
    family, plant, text = PLANTED[name]
    unit, recorded = plant()
    near = np.ascontiguousarray(recorded).copy()
    healthy = case_of(unit, recorded).healthy.reshape(-1)
    places = np.flatnonzero(near.reshape(-1) != healthy)
    near.reshape(-1)[places[len(places) // 2]] ^= 2 if near.dtype.kind in "iu" else 0
    assert not [s for s in said(family, unit, near) if text in s and "what was in memory" not in s]


def test_a_table_of_another_node_is_found() -> None:
    x, first, second = image(3, 7), image(256), image(256)[::-1].copy()
    unit, _ = one("lookup", (), x, first[x], c_table=(first,))
    node = unit.graph.nodes[0]
    unit.graph.constants["c_other"] = second
    unit.graph.tensors["c_other"] = unit.graph.tensors["c_table"].__class__("c_other", "uint8", (256,))
    unit.graph.tensors["z"] = unit.graph.tensors["y"].__class__("z", "uint8", (3, 7), (), (0.5,), (3,))
    unit.graph.nodes.append(node.__class__("z", "lookup", ("y", "c_other"), ("z",), ()))
    names = ("the lookup after it", "the last lookup")  # it is both
    assert said("other-node", unit, second[x]) == [f"lookup: it runs with the table of {name}" for name in names]

"""Probes of ops without weights: additions, products of elements, means, changes of the quantization, functions."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from qverify.arithmetic import functions64
from qverify.compare.probing.draws import (
    EXACT,
    GENERAL,
    NEAR,
    TIES,
    all_codes,
    draw_operand,
    draw_scale,
    draw_zero,
    near_scale,
    power_of_two,
    random_of,
    tied_scales,
)
from qverify.tensors.one_op import OneOp, Operand

TRIES = 40  # draws of scales
PAIRS = ((1, 5, 7, 9), (1, 16, 8, 8), (1, 5, 5, 13))  # shapes of the operands of additions and products
POOLS: tuple[tuple[str, tuple[int, ...], dict[str, Any]], ...] = (
    ("pool 3x3 padded", (1, 5, 9, 11), {"kernel_shape": [3, 3], "pads": [1] * 4}),
    ("pool 3x3 padding counted", (1, 5, 9, 11), {"kernel_shape": [3, 3], "pads": [1] * 4, "count_include_pad": 1}),
    ("pool 2x2 stride 2", (1, 16, 8, 8), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("pool 5x3", (1, 7, 9, 8), {"kernel_shape": [5, 3]}),
)
FUNCTIONS: dict[str, tuple[str, float, float, dict[str, Any]]] = {  # operator: its name, limits of its output
    "Sigmoid": ("sigmoid", 0.0, 1.0, {}),
    "Tanh": ("tanh", -1.0, 1.0, {}),
    "HardSwish": ("hardswish", -0.375, 6.0, {}),
    "LeakyRelu": ("leakyrelu", -1.0, 6.0, {"alpha": 0.1}),
    "Elu": ("elu", -1.0, 6.0, {}),
}


def _named(words: str, kind: str, dtype: str, turn: int) -> tuple[str, np.random.Generator]:
    name = f"{words}, {kind}, {dtype}" + (f", draw {turn}" if turn else "")
    return name, random_of(name)


def draw_pairs(op: str, dtype: str, turn: int = 0) -> Iterator[OneOp]:
    """Yields probes of add or mul with general scales, with scales of very different size, and with powers of two."""
    operator = {"add": "Add", "mul": "Mul"}[op]
    for words, shape, kind, apart in (
        (op, PAIRS[0], GENERAL, 1.0),
        (f"{op} whole", PAIRS[1], GENERAL, 1.0),
        (f"{op} unequal", PAIRS[0], GENERAL, 37.0),
        (op, PAIRS[0], TIES, 1.0),
        (f"{op} unequal", PAIRS[1], TIES, 8.0),
        (op, PAIRS[0], NEAR, 1.0),
        (f"{op} whole", PAIRS[1], NEAR, 1.0),
        (op, PAIRS[0], EXACT, 1.0),
        (f"{op} whole", PAIRS[1], EXACT, 1.0),
        (f"{op} long", PAIRS[2], EXACT, 1.0),
    ):
        name, random = _named(words, kind, dtype, turn)
        if kind == EXACT:
            yield _draw_tied_pair(op, operator, name, random, shape, dtype)
            continue
        a, b = draw_operand(random, shape, dtype, kind), draw_operand(random, shape, dtype, kind)
        if op == "add":
            b = Operand(b.codes, np.asarray(b.scale * np.float32(apart), np.float32), b.zero)
            scale = max(float(a.scale), float(b.scale)) * float(functions64.exp2(random.uniform(-1.0, 1.5)))
        else:
            scale = float(a.scale) * float(b.scale) * 60.0 * float(functions64.exp2(random.uniform(-2.0, 2.0))) / apart
        scale = float(np.float32(power_of_two(scale) if kind == TIES else scale))
        if kind == NEAR and op == "mul":
            one = float(a.scale) * float(b.scale)
            scale = near_scale(random, one * max(1.0, np.rint(scale / one)), 9)
        elif kind == NEAR:
            b = Operand(b.codes, a.scale, b.zero)  # the sum is that of the integers
            scale = near_scale(random, float(a.scale), 9)
        yield OneOp(op, name, operator, (a, b), scale, draw_zero(random, dtype, kind), dtype)


def _draw_tied_pair(
    op: str, operator: str, name: str, random: np.random.Generator, shape: tuple[int, ...], dtype: str
) -> OneOp:
    """Returns an addition or product of which many results are exact ties. Both operands of an addition have one scale."""
    a, b = draw_operand(random, shape, dtype, EXACT), draw_operand(random, shape, dtype, EXACT)
    first, scale = tied_scales(random, float(a.scale), 9, 2.0 if op == "add" else 60.0)
    second = np.asarray(power_of_two(b.scale), np.float32) if op == "mul" else first
    a, b = Operand(a.codes, first, a.zero), Operand(b.codes, second, b.zero)
    if op == "add":
        for _ in range(TRIES):
            if _ties_are_exact(a, b, scale):
                break
            first, scale = tied_scales(random, float(a.scale), 9, 2.0)
            a, b = Operand(a.codes, first, a.zero), Operand(b.codes, first, b.zero)
    else:
        scale *= float(second)
    return OneOp(op, name, operator, (a, b), scale, draw_zero(random, dtype, EXACT), dtype)


def _ties_are_exact(a: Operand, b: Operand, scale: float) -> bool:
    """Returns whether float64 has the ties of a sum of equal scales: those of the quotient, which the sum of both products
    may miss by a rounding."""
    first, second = (o.codes.astype(np.int64) - o.zero for o in (a, b))
    ratio = Fraction(float(a.scale)) / Fraction(scale)
    is_tie = (2 * (first + second) * ratio.numerator) % (2 * ratio.denominator) == ratio.denominator
    steps = first * float(ratio) + second * float(ratio)
    return bool(np.array_equal(is_tie, steps - np.floor(steps) == 0.5))


def draw_means(op: str, dtype: str, turn: int = 0) -> Iterator[OneOp]:
    """Yields probes of a pool or mean with its input's scale, with another, and with powers of two."""
    shapes: tuple[tuple[str, tuple[int, ...], str, dict[str, Any], tuple[int, ...]], ...]
    if op == "average_pool":
        shapes = tuple((words, shape, "AveragePool", more, ()) for words, shape, more in POOLS)
    elif op == "global_average_pool":
        shapes = tuple(
            (f"global pool {h}x{w}", (1, c, h, w), "GlobalAveragePool", {}, ())
            for c, h, w in ((32, 8, 8), (37, 7, 7), (35, 5, 3), (600, 9, 9))
        )
    else:
        shapes = (
            ("mean of columns", (1, 37, 6, 11), "ReduceMean", {"keepdims": 1}, (3,)),
            ("mean of a row", (1, 45, 29), "ReduceMean", {"keepdims": 1}, (2,)),
            ("mean of the plane", (1, 48, 4, 4), "ReduceMean", {"keepdims": 0}, (2, 3)),
        )
    for words, shape, operator, more, axes in shapes:
        for kind, same in ((GENERAL, True), (GENERAL, False), (TIES, False), (NEAR, False), (EXACT, False)):
            label = f"{words} same scale" if same else words
            name, random = _named(label, kind, dtype, turn)
            x = draw_operand(random, shape, dtype, kind)
            scale, zero = float(x.scale), x.zero
            if not same:
                factor = random.integers(-2, 1) if kind == TIES else random.uniform(-2.0, 0.5)
                scale, zero = float(np.float32(x.scale * functions64.exp2(factor))), draw_zero(random, dtype, kind)
            if kind == NEAR:
                scale = near_scale(random, float(x.scale) / 2, 9)
            elif kind == EXACT:
                first, scale = tied_scales(random, float(x.scale), 9, 0.5, _counts(op, shape, more, axes))
                x = Operand(x.codes, first, x.zero)
                if reduced := axes or ((2, 3) if op == "global_average_pool" else ()):
                    x = _with_ties(x, reduced, scale)
            yield OneOp(op, name, operator, (x,), scale, zero, dtype, attributes=more, axes=axes)


def _counts(op: str, shape: tuple[int, ...], attributes: dict[str, Any], axes: tuple[int, ...]) -> list[int]:
    """Returns the numbers of elements of which a probe has means: of whole windows, and of those at its borders."""
    if op != "average_pool":
        return [int(np.prod([shape[a] for a in axes or (2, 3)]))]
    rows, columns = attributes["kernel_shape"]
    cut = "pads" in attributes and "count_include_pad" not in attributes
    return [rows * columns, *((rows * (columns - 1), (rows - 1) * (columns - 1)) if cut else ())]


def _with_ties(x: Operand, axes: tuple[int, ...], scale: float) -> Operand:
    """Returns the operand with two of three means over these axes at exact ties of this scale."""
    rows = np.moveaxis(x.codes.astype(np.int64), axes, range(-len(axes), 0))
    flat = rows.reshape(*rows.shape[: -len(axes)], -1).copy()
    ratio, limits = Fraction(float(x.scale)) / Fraction(scale) / flat.shape[-1], np.iinfo(x.codes.dtype)
    tie = ratio.denominator // 2  # its odd multiples are ties
    missing = (tie - (flat - x.zero).sum(-1)) % (2 * tie)
    missing -= np.where(missing > tie, 2 * tie, 0)
    missing.reshape(-1)[::3] = 0
    for k in range(flat.shape[-1]):
        moved = np.clip(flat[..., k] + missing, limits.min, limits.max)
        missing -= moved - flat[..., k]
        flat[..., k] = moved
    codes = np.moveaxis(flat.reshape(rows.shape), range(-len(axes), 0), axes)
    return Operand(np.ascontiguousarray(codes.astype(x.codes.dtype)), x.scale, x.zero)


def draw_changes(dtype: str, turn: int = 0) -> Iterator[OneOp]:
    """Yields changes of the quantization of every integer."""
    for words, low, high, kind in (
        ("smaller", 1.05, 4.0, GENERAL),
        ("slightly smaller", 1.001, 1.05, GENERAL),
        ("larger", 0.3, 0.95, GENERAL),
        ("smaller", 2.0, 4.0, TIES),
        ("much smaller", 8.0, 32.0, TIES),
        ("smaller", 1.0, 4.0, NEAR),
        ("slightly smaller", 1.0, 2.0, NEAR),
        ("smaller", 1.0, 4.0, EXACT),
        ("slightly smaller", 1.0, 2.0, EXACT),
    ):
        name, random = _named(f"requantized {words}", kind, dtype, turn)
        x = Operand(
            all_codes(dtype, (1, 1, 16, 16)), draw_scale(random, 0.01, 0.08, kind), draw_zero(random, dtype, kind)
        )
        ratio = power_of_two(random.uniform(low, high)) if kind == TIES else random.uniform(low, high)
        scale = float(np.float32(float(x.scale) * ratio))
        scale = near_scale(random, float(x.scale), 9) if kind == NEAR else scale
        if kind == EXACT:
            first, scale = tied_scales(random, float(x.scale), 9, ratio)
            x = Operand(x.codes, first, x.zero)
        yield OneOp("lookup", name, "", (x,), scale, draw_zero(random, dtype, kind), dtype)


def draw_functions(dtype: str, turn: int = 0) -> Iterator[OneOp]:
    """Yields functions of one element, of every integer."""
    for operator, (words, low, high, more) in FUNCTIONS.items():
        name, random = _named(words, GENERAL, dtype, turn)
        x = Operand(
            all_codes(dtype, (1, 1, 16, 16)), draw_scale(random, 0.03, 0.06, GENERAL), draw_zero(random, dtype, GENERAL)
        )
        limits = np.iinfo(dtype)
        scale = float(np.float32((high - low) / 255.0))
        if operator in ("Sigmoid", "Tanh"):  # the scale that documented kernels have
            scale = (high - low) / 256.0
        zero = int(np.clip(np.rint(limits.min - low / scale), limits.min, limits.max))
        yield OneOp("lookup", name, operator, (x,), scale, zero, dtype, attributes=more)


def draw_softmaxes(dtype: str, turn: int = 0) -> Iterator[OneOp]:
    """Yields softmaxes over short and long rows."""
    lowest = int(np.iinfo(dtype).min)
    for words, shape in (("softmax of 10", (7, 10)), ("softmax of 33", (3, 33)), ("softmax of 16", (4, 16))):
        for low, high in ((0.02, 0.05), (0.1, 0.3)):
            name, random = _named(f"{words} scale {low}", GENERAL, dtype, turn)
            x = draw_operand(random, shape, dtype, GENERAL, low, high)
            yield OneOp("softmax", name, "Softmax", (x,), 1 / 256, lowest, dtype, attributes={"axis": -1})


def draw_concats(dtype: str, turn: int = 0) -> Iterator[OneOp]:
    """Yields joined tensors of two scales."""
    for words, shapes, kind in (
        ("concat", ((1, 3, 7, 9), (1, 5, 7, 9)), GENERAL),
        ("concat whole", ((1, 16, 4, 8), (1, 16, 4, 8)), GENERAL),
        ("concat", ((1, 3, 7, 9), (1, 5, 7, 9)), TIES),
        ("concat", ((1, 3, 7, 9), (1, 5, 7, 9)), NEAR),
        ("concat whole", ((1, 16, 4, 8), (1, 16, 4, 8)), NEAR),
        ("concat", ((1, 3, 7, 9), (1, 5, 7, 9)), EXACT),
    ):
        name, random = _named(words, kind, dtype, turn)
        operands = tuple(draw_operand(random, shape, dtype, kind) for shape in shapes)
        scale = max(float(o.scale) for o in operands) * (2.0 if kind == TIES else random.uniform(1.0, 1.7))
        if kind == NEAR:
            scale = near_scale(random, max(float(o.scale) for o in operands), 9)
        elif kind == EXACT:
            first, scale = tied_scales(random, max(float(o.scale) for o in operands), 9, 1.5)
            operands = tuple(Operand(o.codes, (first, first / 2)[k], o.zero) for k, o in enumerate(operands))
        zero = draw_zero(random, dtype, kind)
        yield OneOp("concat", name, "Concat", operands, float(np.float32(scale)), zero, dtype, attributes={"axis": 1})

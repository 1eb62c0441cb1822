"""Operators on single elements, rows and windows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from qverify.compare.probing.draws import all_codes, near_scale
from qverify.tensors.one_op import OneOp, Operand

from scripts.vector_files.drawn import Array, Drawn, codes, in_rows, middle, random_of, scale32

NEAR = "a scale with values near ties"
PAIRS, TAKEN, MEANS, ELEMENTS = 16384, 40, 512, 240  # ELEMENTS: of all windows of a case
RATIOS = {"a general scale": 1.713, "a larger scale": 0.391, "a power of two": 2.0, "a tiny scale": 0.0131, NEAR: 0.0}
FUNCTIONS = {"Sigmoid": (1, "logistic", 0.0, 1.0), "Tanh": (2, "hyperbolic tangent", -1.0, 1.0)}
WINDOWS = ((2, 2), (5, 3), (7, 7))
TALL = (9, 8)  # more than 8 rows and 64 elements
ROWS = {2: 12, 10: 6, 33: 3}  # lengths of rows of a softmax, and how many are taken


def draw_pairs(op: str, dtype: str) -> Iterator[Drawn]:
    """Yields additions, differences, or products."""
    for operator, sign in (("Add", 1), ("Sub", -1)) if op == "add" else (("Mul", 0),):
        for what, ratio in RATIOS.items():
            name = f"{operator} of {dtype}, {what}"
            rng, zeros = random_of("vectors", name), (middle(dtype, -7), middle(dtype, 5), middle(dtype, 11))
            power = what == "a power of two"
            sa, sb = (0.25, 0.5) if power else (scale32(0.0311), scale32(0.0713))
            sy = scale32(sb * ratio) if op == "add" else scale32(sa * sb * 40 * ratio)
            sy = 2.0 ** np.rint(np.log2(sy)) if power else sy
            if what == NEAR:
                sb = sa if op == "add" else sb
                sy = near_scale(rng, sa if op == "add" else sa * sb * 40, 9)
            a, b = codes(rng, (PAIRS,), dtype), codes(rng, (PAIRS,), dtype)
            low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
            a[:4], b[:4] = (low, low, high, high), (low, high, low, high)
            operands = Operand(a[None], np.float32(sa), zeros[0]), Operand(b[None], np.float32(sb), zeros[1])
            probe = OneOp(op, name, operator, operands, float(sy), zeros[2], dtype)
            scales, types = (sa, sb, float(sy)), (dtype, dtype, dtype)
            yield Drawn(probe, name, a[:, None], b[:, None], in_rows, scales, zeros, sign, TAKEN, 4, types)


def draw_changes(dtype: str) -> Iterator[Drawn]:
    """Yields changes of the quantization, within a type and to another."""
    for to in ("int8", "uint8"):
        for what, ratio in RATIOS.items():
            name = f"change from {dtype} to {to}, {what}"
            sx = 0.25 if what == "a power of two" else scale32(0.0311)
            sy = near_scale(random_of("vectors", name), sx, 9) if what == NEAR else scale32(sx * ratio)
            zeros = middle(dtype, -7), middle(to, 11)
            x = all_codes(dtype, (1, 256))
            probe = OneOp("lookup", name, "", (Operand(x, np.float32(sx), zeros[0]),), sy, zeros[1], to)
            yield Drawn(probe, name, x.reshape(-1, 1), None, in_rows, (sx, sy), zeros, 0, TAKEN, 1, (dtype, to))


def draw_functions(dtype: str) -> Iterator[Drawn]:
    """Yields functions of one element."""
    for operator, (number, words, low, high) in FUNCTIONS.items():
        for sx in (scale32(0.0311), scale32(0.0913)):
            name = f"{words} of {dtype}, scale {sx:.4f}"
            sy = (high - low) / 256
            zeros = middle(dtype, -7), int(np.iinfo(dtype).min - low / sy)
            x = all_codes(dtype, (1, 256))
            probe = OneOp("lookup", name, operator, (Operand(x, np.float32(sx), zeros[0]),), sy, zeros[1], dtype)
            yield Drawn(
                probe, name, x.reshape(-1, 1), None, in_rows, (sx, sy), zeros, number, 2 * TAKEN, 1, (dtype, dtype)
            )


def draw_concat(dtype: str) -> Iterator[Drawn]:
    """Yields operands of a concatenation that have another quantization than it."""
    for what, ratio in RATIOS.items():
        name = f"operand of a concatenation of {dtype}, {what}"
        sx = 0.25 if what == "a power of two" else scale32(0.0311)
        sy = near_scale(random_of("vectors", name), sx, 9) if what == NEAR else scale32(sx * ratio)
        zeros = middle(dtype, -7), middle(dtype, 11)
        x = all_codes(dtype, (1, 256))
        other = Operand(np.full((1, 1), zeros[1], dtype), np.float32(sy), zeros[1])
        operands = Operand(x, np.float32(sx), zeros[0]), other
        probe = OneOp("concat", name, "Concat", operands, sy, zeros[1], dtype, attributes={"axis": 1})

        def first(output: Array) -> Array:
            return output.reshape(-1, 1)[:256]

        yield Drawn(probe, name, x.reshape(-1, 1), None, first, (sx, sy), zeros, 0, TAKEN, 1, (dtype, dtype))


def draw_means(op: str, dtype: str) -> Iterator[Drawn]:
    """Yields pools and means: windows of several sizes, those of a padded pool, with the input's quantization and
    others."""
    sizes = [*WINDOWS, TALL] if op == "global_average_pool" else [*WINDOWS]
    for rows, columns in sizes:
        for what, ratio, keep in (
            ("one quantization", 1.0, 1),
            ("a general scale", 0.391, 1),
            ("a general scale, axes removed", 0.413, 0),
            ("a power of two", 0.5, 1),
            (NEAR, 0.0, 1),
        ):
            if not keep and op != "reduce_mean":
                continue
            yield _mean(op, dtype, (rows, columns), what, ratio, keep)
    if op == "average_pool":
        yield _mean(op, dtype, (2, 2), "padded", 0.391, 1)


def _mean(op: str, dtype: str, size: tuple[int, int], what: str, ratio: float, keep: int) -> Drawn:
    name = f"{op} of {size[0]}x{size[1]} {dtype}, {what}"
    rng, count, same = random_of("vectors", name), size[0] * size[1], ratio == 1.0
    sx = 0.25 if what == "a power of two" else scale32(0.0311)
    sy = near_scale(rng, sx / 2, 9) if what == NEAR else scale32(sx * ratio)
    zeros = middle(dtype, -7), middle(dtype, -7 if same else 11)
    x = codes(rng, (1, MEANS, *size), dtype)
    narrow = rng.integers(-12, 13, x.shape) + zeros[0]  # whose means are in the range, and often at ties
    x[:, MEANS // 4 :] = narrow[:, MEANS // 4 :].astype(dtype)
    operators: dict[str, tuple[str, dict[str, Any], tuple[int, ...]]] = {
        "average_pool": ("AveragePool", {"kernel_shape": [*size]}, ()),
        "global_average_pool": ("GlobalAveragePool", {}, ()),
        "reduce_mean": ("ReduceMean", {"keepdims": keep}, (2, 3)),
    }
    operator, attributes, axes = operators[op]
    if what == "padded":
        attributes = {"kernel_shape": [3, 3], "pads": [1] * 4}
    operand = Operand(x, np.float32(sx), zeros[0])
    probe = OneOp(op, name, operator, (operand,), sy, zeros[1], dtype, attributes=attributes, axes=axes)

    def of_channels(output: Array) -> Array:
        return output.reshape(MEANS, -1)[:, :1]

    most = max(5, ELEMENTS // count)
    flat = x.reshape(MEANS, count)
    return Drawn(probe, name, flat, None, of_channels, (sx, sy), zeros, count, most, 1, (dtype, dtype))


def draw_softmax(dtype: str) -> Iterator[Drawn]:
    """Yields softmaxes of short and long rows."""
    low = int(np.iinfo(dtype).min)
    for length, taken in ROWS.items():
        for scale in (scale32(0.0213), scale32(0.213)):
            name = f"softmax of {length} {dtype}, scale {scale:.4f}"
            rng, zero = random_of("vectors", name), middle(dtype, -7)
            x = codes(rng, (8000, length), dtype)
            x[0] = low  # all equal
            operand = Operand(x, np.float32(scale), zero)
            probe = OneOp("softmax", name, "Softmax", (operand,), 1 / 256, low, dtype, attributes={"axis": -1})

            def rows(output: Array) -> Array:
                return output

            yield Drawn(probe, name, x, None, rows, (scale, 1 / 256), (zero, low), length, taken, 1, (dtype, dtype))

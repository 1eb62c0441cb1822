"""A board that sums stored integers, their zero point still in, in an accumulator that is too narrow."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from qverify.triage.plain_faults import raw_sums

from tests.ops.qdq import Qdq
from tests.plain.faulty_runners import Array, Board, Change
from tests.plain.mechanisms import check_named, check_silent, compute, constant, noise, shown

SIDE = 24


def mean(act: str = "uint8", low: float = -2.0, high: float = 3.0) -> Qdq:
    m = Qdq(act, seed=4)
    x = m.input((1, 16, SIDE, SIDE), low, high)
    scale = np.linspace(0.2, 1.0, 16).astype(np.float32).reshape(1, 16, 1, 1)
    shifted = m.op("Add", [m.op("Mul", [x, m.constant("each", scale)], "m"), m.constant("by", 1.5 * scale)], "s")
    m.output(m.quantize(m.op("GlobalAveragePool", [m.quantize(shifted)], "y")))
    return m


def narrowed(limit: Callable[[str], list[tuple[object, ...]]]) -> Change:
    """Sums the integers of s in float64, limits the sum, and subtracts the zero point afterwards."""

    def change(board: Board) -> None:
        count = SIDE * SIDE
        zero, scale = (board.constants[f"s_{end}"].astype(np.float64) for end in ("zp", "scale"))
        steps: list[tuple[object, ...]] = [
            ("Cast", "s_q", "whole"),
            ("ReduceSum", "whole", np.array([2, 3]), "total"),
            *limit("total"),
            ("Sub", "limited", np.float32(zero * count), "centred"),
            ("Mul", "centred", np.float32(scale / count), "y"),
        ]
        compute(*steps)(board)

    return change


def clip(low: int, high: int) -> Change:
    return narrowed(lambda name: [("Clip", name, np.float32(low), np.float32(high), "limited")])


def wrong_scale(values: Array) -> Array:
    return np.clip(np.rint((values.astype(float) - 100) * 0.8) + 100, 0, 255).astype(np.uint8)


FAULTS = {
    "unsigned": (mean(), clip(0, 65535), "the sum of the stored integers saturates to 16 unsigned bits"),
    "signed": (mean("int8"), clip(-32768, 32767), "the sum of the stored integers saturates to 16 bits"),
    "of bytes": (mean(), clip(0, 32767), "the sum of the stored integers saturates to 16 bits"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_narrow_raw_sum_is_named(name: str) -> None:
    check_named(*FAULTS[name])


def test_other_faults_have_no_narrow_raw_sum() -> None:
    check_silent(raw_sums, mean(), {"noise": noise(9), "another scale": shown(wrong_scale)})


def conv(channels: int = 32) -> Qdq:
    m = Qdq("uint8", seed=3)
    x = m.input((1, channels, 6, 7))
    m.output(m.quantize(m.op("Conv", [x, m.weight((8, channels, 3, 3), axis=0)], "y")))
    return m


@pytest.mark.parametrize(("low", "high", "said"), [(-(1 << 17), (1 << 17) - 1, "saturates to 18 bits")])
def test_a_narrow_sum_of_products_is_named(low: int, high: int, said: str) -> None:
    def change(board: Board) -> None:
        weights = next(v for n, v in board.constants.items() if n.endswith("_i8")).astype(np.float32)
        scales = board.constants[next(n for n in board.constants if n.startswith("w") and n.endswith("_scale"))]
        zero, scale = float(board.constants["in0_zp"]), board.constants["in0_scale"]
        along = (1, -1, 1, 1)
        compute(
            ("Cast", "in0_q", "whole"),
            ("Conv", "whole", weights, "total"),
            ("Clip", "total", np.float32(low), np.float32(high), "limited"),
            ("Sub", "limited", (zero * weights.sum((1, 2, 3))).astype(np.float32).reshape(along), "centred"),
            ("Mul", "centred", (scale * scales).astype(np.float32).reshape(along), "y"),
        )(board)

    check_named(conv(), change, f"the sum of products with the input's zero point still in {said}")


def test_lost_weights_of_a_channel_are_no_narrow_sum() -> None:
    def lost(values: Array) -> Array:
        values[2] = 0
        return values

    check_silent(raw_sums, conv(), {"weights": constant("_i8", lost)})

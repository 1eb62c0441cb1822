"""Which rows, columns and channels of an input are tried as left out or repeated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from qverify.triage.case import Case

from tests.plain.fault_units import Table, check, found, small_case
from tests.plain.forensic_units import SX, SY, ZX, ZY, Small, generator
from tests.plain.test_hypotheses_of_inputs import Wide


def dropped(case: Case, name: str) -> list[int]:
    """The rows, columns or channels that are tried."""
    return sorted({int(s.split()[1]) for s in found("dropped-input", case) if s.startswith(name)})


@pytest.mark.parametrize(
    ("row", "others"), [(0, [1]), (1, [0, 2]), (4, [3, 5]), (5, [4])]
)  # fmt: skip
def test_a_row_repeats_only_a_neighbour(row: int, others: list[int]) -> None:
    unit = Table(1, 4, 6, 5)
    recorded = unit.y.copy()
    recorded[0, :, row] ^= 1
    wanted = [f"row {row} of the input left out: {value} there" for value in (0, 3)]
    wanted += [f"row {row} of the input repeats row {other}" for other in others]
    assert list(found("dropped-input", unit.case(recorded))) == wanted


@pytest.mark.parametrize(
    ("x", "y"), [((1, 2, 3, 4), (6, 4)), ((6, 4), (1, 2, 3, 4)), ((1, 2, 3, 4), (1, 2, 4, 3)), ((1, 1, 2, 3, 4), (6, 4))]
)  # fmt: skip
def test_no_row_where_input_and_output_have_other_shapes(x: Any, y: Any) -> None:
    value = np.arange(24, dtype=np.int8)
    recorded = value.copy()
    recorded[1] = 99
    small = Small("reshape", (), ("int8", 0.5, 3), y, x=(value.reshape(x), 0.5, 3))
    assert found("dropped-input", small_case(small, recorded.reshape(y))) == {}


@pytest.mark.parametrize(("row", "lines"), [(0, [0, 1]), (1, [2, 3]), (3, [6, 7])])
def test_rows_that_an_average_reads(row: int, lines: list[int]) -> None:
    """Kernel and stride 2, no padding; no dilation among its words."""
    x = generator(4).integers(-128, 128, (1, 5, 8, 6)).astype(np.int8)
    small = Small(
        "average_pool", (2, 2, 2, 2, 0, 0, 0, 0, 0, -100, 90), ("int8", 1.0, 3), (1, 5, 4, 3),
        x=(x, 0.5, -7), c_rq=(np.array([0.5, 1.0], np.float32),),
    )  # fmt: skip
    recorded = small_case(small, np.zeros((1, 5, 4, 3), np.int8)).healthy.copy()
    recorded[0, :, row] ^= 1
    assert dropped(small_case(small, recorded), "row") == lines


@pytest.mark.parametrize(
    ("inputs", "group", "outputs", "channels"),
    [
        (16, 1, [1], [*range(16)]),
        (17, 1, [1], []),
        (8, 2, [0, 1], [0, 1, 2, 3]),
        (8, 2, [2], [4, 5, 6, 7]),
        (8, 2, [1, 2], []),
        (34, 2, [1], []),
    ],
)
def test_which_channels_are_tried(inputs: int, group: int, outputs: list[int], channels: list[int]) -> None:
    """At most 16 one by one, of one group; of more, only those that explain an output: none here."""
    rng = generator(3)
    x = rng.integers(-128, 128, (1, inputs, 2, 3)).astype(np.int8)
    small = Small(
        "conv", (1, 1, 1, 1, 0, 0, 0, 0, 1, 1, group, -128, 127), ("int8", SY, ZY), (1, 4, 2, 3),
        x=(x, SX, ZX), c_w=(rng.integers(-128, 128, (4, inputs // group, 1, 1)).astype(np.int8), 0.01, 2),
        c_b=(np.zeros(4, np.int32),), c_rq=(np.full(4, 0.0004, np.float32),),
    )  # fmt: skip
    recorded = small_case(small, np.zeros((1, 4, 2, 3), np.int8)).healthy.copy()
    recorded[0, outputs] ^= 9
    assert dropped(small_case(small, recorded), "channel") == channels


def test_one_channel_of_many_where_one_scale_is_for_all() -> None:
    unit = Wide()
    unit.rq = np.array([0.0003], np.float32)
    unit.small.graph.constants["c_rq"] = unit.rq
    changed = unit.x.copy()
    changed[:, 7] = 0
    case = small_case(unit.small, unit.out(changed))
    assert np.array_equal(case.healthy, unit.out(unit.x))
    assert dropped(case, "channel") == [7]


@pytest.mark.parametrize(("operands", "orders"), [(2, 1), (4, 23), (5, 0)])
def test_of_how_many_operands_every_order_is_tried(operands: int, orders: int) -> None:
    tensors = {name: (np.array([at], np.int8), 0.5, 3) for at, name in enumerate("abcde"[:operands])}
    small = Small("concat", (0,), ("int8", 0.5, 3), (operands,), **tensors)
    case = small_case(small, np.arange(operands, dtype=np.int8)[::-1])
    variants = {s: v for s, v in found("operand-order", case).items() if s.startswith("operands")}
    assert len(variants) == orders
    for said, variant in variants.items():
        order = said.removeprefix("operands in the order ").split(", ")
        assert variant.make(case).tolist() == ["abcde".index(name) for name in order]


def test_a_tile_of_any_size() -> None:
    unit = Table(1, 2, 128, 2)
    recorded = unit.y.copy()
    recorded[0, 0, 70, 0] ^= 1
    said = [s for s in found("dropped-or-repeated", unit.case(recorded)) if s.startswith("rows ")]
    wanted = [f"rows {a} to {b - 1} repeat those {b - a} {way}"
              for a, b in ((70, 72), (68, 72), (64, 72), (64, 80), (64, 96)) for way in ("before", "after")]  # fmt: skip
    assert said == [*wanted, "rows 64 to 127 repeat those 64 before"]


@pytest.mark.parametrize(
    ("rows", "places", "away"),
    [((2, 3), [1, 2, 3, 4], [-2, -1, 1, 2]), ((0, 1, 2), [0, 2, 3], [1, 3]), ((4, 5), [3, 4, 5], [-4, -2, -1]),
     ((0, 1), [0, 1, 2], [1, 2, 4]), ((1, 2, 3), [0, 1, 3, 4], [-1, 1, 2])],
)  # fmt: skip
def test_which_place_several_rows_may_repeat(rows: tuple[int, ...], places: list[int], away: list[int]) -> None:
    """The one before them, the first and the last of them, the one after."""
    unit = Table(1, 4, 6, 5)
    recorded = unit.y.copy()
    recorded[0, :, list(rows)] ^= 1
    said = [s for s in found("dropped-or-repeated", unit.case(recorded)) if s.endswith("of axis 2")]
    assert said == [f"rows {rows[0]} to {rows[-1]} repeat place {place} of axis 2" for place in places]
    said = [s for s in found("dropped-or-repeated", unit.case(recorded)) if s.endswith("on axis 2")]
    ways = [f"{abs(by)} {'before' if by < 0 else 'after'} on axis 2" for by in away]
    assert said == [f"rows {rows[0]} to {rows[-1]} repeat those {way}" for way in ways]


def test_another_output_of_the_node() -> None:
    """Another output of a node with several is tried if it has the same shape."""
    x = np.arange(8, dtype=np.int8)
    small = Small("split", (0,), ("int8", 0.5, 3), (3,), x=(x, 0.5, 3))
    graph = small.graph
    for name, size in (("z", 3), ("v", 2)):
        graph.tensors[name] = replace(graph.tensors["y"], name=name, shape=(size,))
    graph.nodes[0] = replace(graph.nodes[0], outputs=("y", "z", "v"))
    case = small_case(small, x[3:6])
    check("operand-order", case, {"the output is z": x[3:6]})

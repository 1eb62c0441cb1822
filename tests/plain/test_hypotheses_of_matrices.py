"""Faults of the order of a matrix of weights, of a bias and of tables: all of a family on one matrix, as plain numpy makes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from qverify.arithmetic.multipliers import parameters
from qverify.model_bin.units import units
from qverify.triage.case import Case

from tests.plain.fault_units import PAGES, Way, case_of, check, found, small_case
from tests.plain.forensic_units import SX, SY, ZX, ZY, Conv, Small, generator
from tests.plain.test_hypotheses_of_inputs import Wide
from tests.plain.test_hypotheses_of_order import backward, dealt, exchanged, in_order, late, rolled, turned, words

Array = Any


class Matrix:
    """y [3, 4] of x [3, 6] and w [4, 6] of zero point 4, ref-exact; or w [6, 4] as the second input of a matmul."""

    def __init__(self, op: str = "fully_connected") -> None:
        rng = generator(4)
        self.op = op
        self.x = rng.integers(-128, 128, (3, 6)).astype(np.int8)
        self.w = rng.permutation(np.arange(-120, 120, 10)).astype(np.int8).reshape((4, 6) if op != "matmul" else (6, 4))
        self.b, self.rq = np.array([90, -700, 5, 44]), np.array([0.004, 0.002, 0.003, 0.0025], np.float32)
        bias = {"c_b": (self.b.astype(np.int32),)} if op != "matmul" else {}
        self.small = Small(
            op, (-128, 127), ("int8", SY, ZY), (3, 4),
            x=(self.x, SX, ZX), c_w=(self.w, 0.01, 4), **bias, c_rq=(self.rq,),
        )  # fmt: skip

    def out(self, w: Array | None = None) -> Array:
        centred = (self.w if w is None else w).astype(np.int64) - 4
        x = self.x.astype(np.int64) - ZX
        acc = x @ centred if self.op == "matmul" else x @ centred.T + self.b
        return np.clip(np.rint(acc.astype(np.float32) * self.rq) + ZY, -128, 127).astype(np.int8)

    def check(self, family: str, ways: dict[str, Way], label: str = "the weights") -> None:
        """These are the family's faults of the weights, and no other is."""
        case = small_case(self.small, self.out().reshape(-1)[::-1].reshape(3, 4))
        assert np.array_equal(case.healthy, self.out())
        variants = {said: v for said, v in found(family, case).items() if label in said}
        assert variants.keys() == ways.keys()
        for said, way in ways.items():
            assert np.array_equal(variants[said].make(case), self.out(way(self.w))), said
            assert variants[said].bits == 0 and not variants[said].copied


def along(axis: int, order: list[int]) -> Way:
    return lambda w: np.stack([w.take(i, axis) for i in order], axis)


@pytest.mark.parametrize("op", ["fully_connected", "matmul"])
def test_the_channels_of_a_matrix(op: str) -> None:
    matrix, ways = Matrix(op), {}
    label = "the weights" if op != "matmul" else "the second input"
    for axis, name in enumerate(("output", "input")):
        count = matrix.w.shape[axis]
        orders = {
            "in reverse order": [*range(count)][::-1],
            "one too far": [count - 1, *range(count - 1)],
            "one too early": [*range(1, count), 0],
            "exchanged in pairs": [i ^ 1 for i in range(count)],
        }
        orders["reversed in fours"] = [3, 2, 1, 0, *range(4, count)]
        if count == 4:
            orders["reversed in fours"] = orders["in reverse order"]
        for a, b in combinations(range(count), 2):
            orders[f": {a} and {b} are exchanged"] = [b if i == a else a if i == b else i for i in range(count)]
        for said, order in orders.items():
            ways[f"{name} channels of {label}{'' if said[0] == ':' else ' '}{said}"] = along(axis, order)
    matrix.check("channel-order", ways, label)


def test_groups_of_the_channels_of_a_matrix() -> None:
    matrix, ways = Matrix(), {}
    for axis, groups, members in ((0, 2, [[0, 1], [2, 3]]), (1, 2, [[0, 1, 2], [3, 4, 5]]),
                                  (1, 3, [[0, 1], [2, 3], [4, 5]])):  # fmt: skip
        orders = {
            "shuffled: the first of every group, then the second ...": list(zip(*members, strict=True)),
            "in reverse order of groups": members[::-1],
            "one group too far": [members[-1], *members[:-1]],
            "one group too early": [*members[1:], members[0]],
        }
        for said, order in orders.items():
            where = "" if axis else " (outputs)"
            ways[f"channels of the weights{where}, {groups} groups: {said}"] = along(
                axis, [i for g in order for i in g]
            )
    matrix.check("group-order", ways)


def test_a_matrix_that_is_transposed() -> None:
    ways: dict[str, Way] = {
        "layout: the weights is stored transposed": lambda w: w.T.reshape(4, 6),
        "layout: the weights is read as if it were transposed": lambda w: w.reshape(6, 4).T,
    }
    Matrix().check("layout", ways)


def test_tiles_of_a_matrix() -> None:
    ways: dict[str, Way] = {}
    for size in (2, 4, 8, 16, 32, 64):
        for said, whole in (("whole tiles", True), ("tiles, at the edge as much as is square,", False)):
            order = turned(4, 6, size, whole)
            if order != [*range(24)] and (whole or size > 2):
                ways[f"{said} of {size}x{size} of the weights are transposed"] = in_order(order)
    Matrix().check("tiles", ways)
    Matrix("matmul").check("tiles", {}, "the second input")
    assert not [said for said in found("tiles", case_of(Conv())) if "the weights" in said]


@pytest.mark.parametrize(("shape", "some"), [((2, 2), True), ((2, 1), False), ((1, 2), False), ((1, 1), False)])
def test_tiles_need_two_rows_and_two_columns(shape: tuple[int, int], some: bool) -> None:
    x = np.arange(np.prod(shape), dtype=np.int8).reshape(shape)
    small = Small("reshape", (), ("int8", 0.5, 3), shape, x=(x, 0.5, 3))
    assert bool(found("tiles", small_case(small, x.reshape(-1)[::-1].reshape(shape)))) is some


def test_a_matrix_whose_elements_are_dealt() -> None:
    ways: dict[str, Way] = {}
    for said, run in (("the whole", 24), ("rows", 6)):
        for count in (2, 4):
            apart = dealt(run, count)
            back = [apart.index(i) for i in range(run)]
            for text, order in (("dealt apart", apart), ("interleaved", back)):
                ways[f"elements of {said} of the weights are {text} {count} ways"] = in_order(order)
    Matrix().check("interleaving", ways)


def test_bytes_of_a_matrix() -> None:
    ways: dict[str, Way] = {f" reversed within words of {s} bytes": words(s, backward) for s in (2, 4, 8, 16)}
    ways |= {f", halves of words of {s} bytes exchanged": words(s, exchanged) for s in (4, 8, 16)}
    ways[", nibbles exchanged"] = words(1, lambda w: [w[0] >> 4 | w[0] << 4 & 0xF0])
    Matrix().check("byte-order", {f"byte order: the weights{said}": way for said, way in ways.items()})


def test_bytes_of_a_bias_and_of_scales_are_big_endian_or_right() -> None:
    matrix = Matrix()
    variants = found("byte-order", small_case(matrix.small, matrix.out()))
    said = {s for s in variants if "bias" in s or "scales" in s}
    assert said == {f"byte order: the {name} is big-endian" for name in ("bias", "scales")}


def test_a_matrix_that_begins_elsewhere() -> None:
    ways: dict[str, Way] = {}
    for by in (1, -1, 4, -4):
        said = (
            f"offset: the weights {abs(by)} element{'s' if abs(by) > 1 else ''} too {'late' if by > 0 else 'early'}, "
        )
        ways[f"{said}wrapped around"] = rolled(by)
        ways[f"{said}the end repeated"] = late(by, lambda f, by=by: f[0] if by > 0 else f[-1])
        ways[f"{said}0 there"] = late(by, lambda f: 0)
        ways[f"{said}the zero point there"] = late(by, lambda f: 4)
    Matrix().check("element-offset", ways)


def test_what_is_done_to_a_bias() -> None:
    """Beyond 16 bits at both ends, by one."""
    b = np.array([-32770, -32769, -32768, 32767, 32768, 32769, -3, 129], np.int32)
    wanted = {
        "left out": [0] * 8,
        "added twice": [-65540, -65538, -65536, 65534, 65536, 65538, -6, 258],
        "subtracted": [32770, 32769, 32768, -32767, -32768, -32769, 3, -129],
        "of the next channel": [-32769, -32768, 32767, 32768, 32769, -3, 129, -32770],
        "of the previous channel": [129, -32770, -32769, -32768, 32767, 32768, 32769, -3],
        "of the first channel for all": [-32770] * 8,
        "in reverse order": [129, -3, 32769, 32768, 32767, -32768, -32769, -32770],
        "cut to 16 bits": [32766, 32767, -32768, 32767, -32768, -32767, -3, 129],
        "saturated to 16 bits": [-32768, -32768, -32768, 32767, 32767, 32767, -3, 129],
        "cut to 8 bits": [-2, -1, 0, -1, 0, 1, -3, -127],
        "halved": [-16385, -16385, -16384, 16383, 16384, 16384, -2, 64],
    }
    page: Any = PAGES["bias"]
    assert {said: way(b).tolist() for said, way in (page.WAYS | page.INTEGER_WAYS).items()} == wanted
    assert found("bias", case_of(Conv())).keys() == {f"bias {said}" for said in wanted}  # all of them reach the output


def test_at_which_place_a_table_is_read() -> None:
    """The table has eight entries, at the places -4 to 3."""
    places: dict[str, Callable[[int], int]] = {
        "one too high": lambda i: min(i + 1, 3),
        "one too high, wrapping": lambda i: (i + 5) % 8 - 4,
        "one too low": lambda i: max(i - 1, -4),
        "one too low, wrapping": lambda i: (i + 3) % 8 - 4,
        "without the offset of the type's sign": lambda i: i % 8 - 4,
        "backward": lambda i: -1 - i,
        "without its highest bit": lambda i: i % 4 - 4,
        "without its lowest bit": lambda i: i // 2 * 2,
        "with its lowest bit set": lambda i: i // 2 * 2 + 1,
        "saturated to the lower half": lambda i: min(i, -1),
        "saturated to the upper half": lambda i: max(i, 0),
        "negative indices taken as 0": lambda i: max(i, 0),
        "by its absolute value": lambda i: min(abs(i), 3),
    }
    table = np.arange(-4, 4)
    made = {said: way(table).tolist() for said, way in PAGES["lookup-index"].WAYS.items()}  # type: ignore[attr-defined]
    assert made == {said: [place(i) for i in range(-4, 4)] for said, place in places.items()}


def test_only_a_table_of_one_row_is_read_at_another_place() -> None:
    assert found("lookup-index", case_of(Conv())) == {}
    x = np.array([[1, 2], [3, 4]], np.int8)
    table = np.zeros((2, 128), np.int8)
    small = Small("lookup", (), ("int8", 0.5, 3), (2, 2), x=(x, 0.5, 3), c_table=(table,))
    assert found("lookup-index", small_case(small, x)) == {}


@pytest.mark.parametrize("family", ["alignment", "layout", "interleaving", "channel-order", "group-order"])
def test_multipliers_and_shifts_have_no_other_order(family: str) -> None:
    """Two rows of them, which no kernel lays out as it does an activation."""
    c = Conv()
    graph = replace(c.graph(), rounding="mul31")
    graph.constants["rq"] = parameters("mul31", SX * c.sw.astype(np.float64) / SY, False)
    graph.tensors["rq"] = replace(graph.tensors["rq"], dtype="int32", shape=(2, 10))
    said = found(family, Case(graph, units(graph)[0], {"x": c.x}, "y", c.out()[..., ::-1]))
    assert said and not [s for s in said if "scales" in s or "bias" in s]


@pytest.mark.parametrize("family", ["alignment", "element-offset"])
def test_what_is_where_no_weight_was_written(family: str) -> None:
    """If there are several zero points, the first is used."""
    unit = Wide()
    said = [s for s in found(family, small_case(unit.small, unit.out(unit.x))) if "the weights" in s]
    zeros = [s for s in said if "zeros where" in s or ", 0 there" in s]
    assert zeros and len(zeros) == sum("the zero point" in s for s in said)


def test_no_fault_of_a_constant_of_what_has_none() -> None:
    x = np.arange(6, dtype=np.int8).reshape(2, 3)
    small = Small("reshape", (), ("int8", 0.5, 3), (3, 2), x=(x, 0.5, 3))
    for family in ("bias", "kernel-order", "lookup-index", "accumulator", "window", "operand-order", "resize-mode"):
        check(family, small_case(small, x.reshape(3, 2)), {})


def test_a_matrix_product_is_too_large_at_its_end() -> None:
    """No steps of it are tried, and it has no bias."""
    x, w = np.array([[-128, -128, 5]], np.int8), np.array([[-120, 127], [-127, 126], [3, 3]], np.int8)
    rq = np.array([2.0**-10], np.float32)
    small = Small("matmul", (-128, 127), ("int8", SY, ZY), (1, 2), x=(x, SX, 100), c_w=(w, 0.01, 0), c_rq=(rq,))
    acc = (x.astype(int) - 100) @ w.astype(int)
    wanted: dict[str, Array] = {}
    for width in (8, 12, 14, 15, 16):
        half = 2 ** (width - 1)
        limited = np.minimum(np.maximum(acc, -half), half - 1)
        made = {"of {} bits that wraps": (acc + half) % (2 * half) - half}
        made |= {f"saturated to {{}} bits {end}": limited for end in ("at the end", "before the bias")}
        for said, value in made.items():
            steps = np.clip(np.rint(value * 2.0**-10) + ZY, -128, 127).astype(np.int8)
            wanted[f"accumulator {said.format(width)}"] = steps
    assert acc.min() < -(2**15) and acc.max() < 2**16
    check("accumulator", small_case(small, np.zeros((1, 2), np.int8)), wanted)


def test_what_is_left_out_of_weights_of_several_zero_points() -> None:
    """Each output's own takes its place."""
    unit = Wide()
    recorded = unit.out(unit.x)
    case = small_case(unit.small, recorded)
    zeros = np.array([2, -3, 5], np.int8)[:, None, None]
    for said, part in (("the last channel", np.s_[:, 19]), ("the first row", np.s_[:, :, 0])):
        made = found("kernel-order", case)[f"{said} of the weights left out of the sum"].make(case)
        unit.w, own = unit.w.copy(), unit.w
        unit.w[part] = zeros
        assert np.array_equal(made, unit.out(unit.x))
        unit.w = own

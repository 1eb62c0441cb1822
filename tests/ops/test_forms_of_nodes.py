"""Nodes with a form of their own: simulator and runtime agree bit for bit, and both refuse parameters out of range."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qverify.arithmetic.forms import Form, make_addition_rq, make_rq
from qverify.errors import BadFileError
from qverify.model_bin.check import check_graph
from qverify.model_bin.graph import Graph

from tests.ops.nodes_of_forms import additions_of_every_byte, products_of_16_bits, products_of_every_byte
from tests.ops.random_nodes import RandomNodes
from tests.ops.runtime_library import COMPILER, binary
from tests.ops.test_runtime_equals_simulator import agree, refused

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler on this machine")


@pytest.mark.parametrize("make", [products_of_every_byte, products_of_16_bits, additions_of_every_byte])
def test_every_kind_of_form(make: Any, tmp_path: Path) -> None:
    made = RandomNodes("ref-exact", 36)
    make(made)
    assert len(made.nodes) > 100
    agree(made, (binary(False),), tmp_path, make.__name__)


def one_node(op: str, rq: np.ndarray, dtype: str = "int8") -> Graph:
    made = RandomNodes("ref-exact", 3)
    a, b = made.input(dtype, (4, 6)), made.input(dtype, (4, 6))
    limits = (-128, 127)
    made.node(op, (a, b, made.constant(rq)), made.output(dtype, (4, 6)), (0, *limits) if op == "add" else limits)
    return made.graph()


STEPS = make_rq(Form.parse("gemmlowp"), [0.01])
EXACT = make_rq(Form("half up"), [0.01])
SUM = make_addition_rq(Form.parse("each operand scaled by itself, gemmlowp"), 0.5, 0.75)
REAL_SUM = make_addition_rq(Form("half up"), 0.5, 0.75)


@pytest.mark.parametrize(
    ("op", "rq", "at", "value", "host", "said"),
    [
        ("mul", STEPS, (0, 0), -1, "multiplier of -1, wanted 0", "column 0 has multiplier -1"),
        ("mul", STEPS, (1, 0), 31, "first shift of 31, wanted -63 to 30", "shifts 31, 31 and"),
        ("mul", STEPS, (1, 0), -64, "first shift of -64", "shifts -64, 31 and"),
        ("mul", STEPS, (2, 0), 64, "shift of the product of 64, wanted 0 to 63", "shifts 0, 64 and"),
        ("mul", STEPS, (3, 0), -1, "last shift of -1, wanted 0 to 63", "and -1, and rules"),
        ("mul", STEPS, (4, 0), 7, "rules of 0x7", "rules 0x7, wanted"),
        ("mul", STEPS, (4, 0), 1 << 12, "rules of 0x1000", "rules 0x1000, wanted"),
        ("mul", STEPS, (4, 0), -1, "rules of", "rules 0xffffffff, wanted"),
        ("mul", EXACT, (0, 0), 0.0, "not finite and positive", "scale 0 is 0, wanted a positive"),
        ("mul", EXACT, (0, 0), np.inf, "not finite and positive", "scale 0 is inf, wanted a positive"),
        ("mul", EXACT, (1, 0), 7.0, "a rule of 7", "its rule is 7, wanted"),
        ("mul", EXACT, (1, 0), 0.5, "a rule of 0.5", "its rule is 0.5, wanted"),
        ("mul", EXACT, (1, 0), np.nan, "a rule of nan", "its rule is"),
        ("add", SUM, (1, 0), -(2**31), "multiplier of -2147483648", "row 1 has multiplier -2147483648"),
        ("add", SUM, (2, 0), -5, "multiplier of -5, wanted 0", "row 2 has multiplier -5"),
        ("add", SUM, (0, 1), 31, "first shift of 31", "row 0 has multiplier"),
        ("add", SUM, (1, 4), 1 << 11, "of an operand", "no zero point in an operand"),
        ("add", REAL_SUM, (0,), np.inf, "a scale is not finite", "scale 0 is inf, wanted a finite one"),
        ("add", REAL_SUM, (2,), 15.0, "a rule of 15", "its rule is 15, wanted"),
    ],
)
def test_parameters_out_of_range_are_refused(
    op: str, rq: np.ndarray, at: Any, value: float, host: str, said: str, tmp_path: Path
) -> None:
    check_graph(one_node(op, rq))
    wrong = rq.copy()
    wrong[at] = value
    graph = one_node(op, wrong)
    with pytest.raises(BadFileError, match=rf"node 't\d+' \({op}\): its rq: .*{host}"):
        check_graph(graph)
    refused(graph, said, tmp_path)


def test_rules_are_the_same_in_every_column_and_int64_sums_are_not_lifted(tmp_path: Path) -> None:
    wide = np.array([[5], [1], [0], [20], [0]], np.int32)
    check_graph(one_node("mul", wide))
    graph = one_node("mul", wide, "int16")
    with pytest.raises(BadFileError, match="first shift of 1, wanted -63 to 0"):
        check_graph(graph)
    refused(graph, "-63 to 0", tmp_path)
    made = RandomNodes("ref-exact", 3)
    a, b, y = made.input("int8", (4, 6)), made.input("int8", (6, 3)), made.output("int8", (4, 3))
    rq = make_rq(Form("half up", 15), [0.01, 0.02, 0.03])
    rq[4, 2] = 0x100
    made.node("matmul", (a, b, made.constant(rq)), y, (-128, 127))
    with pytest.raises(BadFileError, match="its rules differ"):
        check_graph(made.graph())
    refused(made.graph(), "column 2 has rules 0x100, column 0 0x0", tmp_path)

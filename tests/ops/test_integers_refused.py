"""What the ops of whole numbers and indices do not have is refused by the name of the node and of what it lacks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from qverify.compiler.compile_model import compile_model
from qverify.errors import UnsupportedError

from tests.ops.qdq import Qdq


def c(m: Qdq, *values: np.ndarray) -> list[str]:
    return [m.constant(f"c{k}", v) for k, v in enumerate(values)]


REFUSED: dict[str, tuple[Callable[[Qdq], str], str]] = {
    "one_hot_of_floats": (
        lambda m: m.op("OneHot", [m.input((5,)), *c(m, np.array(3), np.float32([0, 1]))]),
        r"OneHot\): its indices are float32, wanted int32 or int64",
    ),
    "scatter_nd_added_to_8_bits": (
        lambda m: m.op("ScatterND", ["in0_q", *c(m, np.array([[0]]), np.array([[1, 1]], m.act))], reduction="add"),
        r"ScatterND\): reduction=add of uint8; wanted float32, int32 or int64",
    ),
    "divided_by_zero": (
        lambda m: m.op("Div", [m.integers((2,)), *c(m, np.array([1, 0]))]),
        r"Div\): a divisor is 0",
    ),
    "remainder_of_the_dividends_sign": (
        lambda m: m.op("Mod", [m.integers((2,)), *c(m, np.array([3]))], fmod=1),
        r"Mod\): fmod=1 is not supported",
    ),
    "running_along_an_axis_that_is_computed": (
        lambda m: m.op("CumSum", [m.input((2, 3)), m.integers(())]),
        r"CumSum\): its axis is not one constant number",
    ),
    "a_diagonal_that_is_computed": (
        lambda m: m.op("Trilu", [m.input((2, 3)), m.integers(())]),
        r"Trilu\): its diagonal is not one constant number",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name: str) -> None:
    build, said = REFUSED[name]
    m = Qdq("uint8", opset=18)
    m.output(m.input((2, 2)))
    m.output(build(m))
    with pytest.raises(UnsupportedError, match=said):
        compile_model(m.model().SerializeToString(), "m")

"""Indices that are graph inputs: random ones lie within the table, one outside ends the run with a line, never PASSED."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.errors import BadFileError, QVerifyError
from qverify.inputs.random_inputs import index_range, random_inputs
from qverify.inputs.sources import InputRequest
from qverify.model_bin.graph import Graph
from qverify.session.job import verify
from qverify.session.request import Request
from qverify.sides.simulator import Simulator
from qverify.tensors.prepared import PreparedInput, PreparedInputs

from tests.ops.cases.gather import gathered_from_a_table
from tests.ops.qdq import Qdq


def built(build=gathered_from_a_table) -> tuple[Qdq, Graph]:
    m = Qdq("uint8")
    build(m)
    return m, compile_model(m.model().SerializeToString(), "m", CompilerOptions(check=False)).graph


def test_random_indices_reach_every_row_of_the_table() -> None:
    graph = built()[1]
    assert index_range(graph, "in0") == 11
    drawn = {int(i) for seed in range(30) for i in random_inputs(graph, seed).arrays()["in0"].reshape(-1)}
    assert drawn == set(range(11))


def test_the_smallest_table_decides_through_movements() -> None:
    def two_tables(m: Qdq) -> None:
        ids = m.integers((4, 3))
        first = m.op("Gather", [ids, m.constant("column", np.array(1, np.int64))], axis=1)
        m.output(m.op("Gather", [m.weight((9, 2)), first], axis=0))
        m.output(m.op("Gather", [m.weight((7, 2)), m.op("Cast", [ids], to=6)], axis=0))

    assert index_range(built(two_tables)[1], "in0") == 7


@pytest.mark.parametrize(
    ("op", "shape", "attributes", "size"),
    [
        ("GatherND", (4, 2), {}, 7),  # of 9 rows and 7 columns
        ("GatherND", (9, 3, 1), {"batch_dims": 1}, 7),
        ("GatherND", (4, 1), {}, 9),
        ("ScatterElements", (9, 2), {"axis": 1}, 7),
        ("ScatterND", (3, 2), {}, 7),
        ("ScatterND", (2, 1), {"wide": True}, 9),
    ],
)
def test_random_indices_lie_within_the_dims_that_they_pick(op: str, shape: tuple[int, ...], attributes, size: int):
    def picked(m: Qdq) -> None:
        table, ids = m.weight((9, 7)), m.integers(shape)
        rest = {k: v for k, v in attributes.items() if k != "wide"}
        updates = {"ScatterElements": [shape], "ScatterND": [(2, 7) if "wide" in attributes else shape[:-1]]}
        m.output(m.op(op, [table, ids, *(m.weight(s) for s in updates.get(op, []))], **rest))

    graph = built(picked)[1]
    assert index_range(graph, "in0") == size
    drawn = {int(i) for seed in range(40) for i in random_inputs(graph, seed).arrays()["in0"].reshape(-1)}
    assert drawn == set(range(size))


def test_integers_that_are_no_indices_are_flags() -> None:
    def mask(m: Qdq) -> None:
        m.output(m.op("Mul", [m.op("Cast", [m.integers((4, 3))], to=1), m.input((4, 3))]))

    assert index_range(built(mask)[1], "in0") == 2


@pytest.mark.parametrize("index", [11, -12, 2**40])
def test_an_index_outside_ends_the_run(index: int, tmp_path: Path) -> None:
    m, graph = built()
    path, inputs = tmp_path / "m.onnx", tmp_path / "i.npz"
    path.write_bytes(m.model().SerializeToString())
    values = np.array([[0, 1, 2], [3, index, 4]])
    np.savez(inputs, in0=values)
    with pytest.raises(QVerifyError, match="out of data bounds"):
        verify(Request([str(path)], "local", inputs=InputRequest(str(inputs))))
    given = PreparedInputs((PreparedInput(graph.spec("in0"), values.astype("<i8").tobytes(), "test", 0),))
    with pytest.raises(BadFileError, match=r"\(gather\).*index outside -11\.\.10"):
        Simulator(graph).run(given)


def divided(m: Qdq) -> None:
    m.output(m.op("Div", [m.op("Cast", [m.input((2, 3))], to=7), m.integers((2, 3))]))


def test_random_divisors_are_not_zero() -> None:
    graph = built(divided)[1]
    drawn = {int(v) for seed in range(20) for v in random_inputs(graph, seed).arrays()["in1"].reshape(-1)}
    assert drawn == {1, 2}


def test_a_divisor_of_zero_ends_the_run(tmp_path: Path) -> None:
    m, graph = built(divided)
    path, inputs = tmp_path / "m.onnx", tmp_path / "i.npz"
    path.write_bytes(m.model().SerializeToString())
    values = {"in0": np.full((2, 3), 2, np.float32), "in1": np.array([[1, 2, 3], [4, 0, 5]])}
    np.savez(inputs, **values)
    with pytest.raises(QVerifyError, match="division by zero"):
        verify(Request([str(path)], "local", inputs=InputRequest(str(inputs))))
    given = [PreparedInput(graph.spec(n), np.ascontiguousarray(v).tobytes(), "test", 0) for n, v in values.items()]
    with pytest.raises(BadFileError, match=r"\(elementwise_integer\).*a divisor is 0"):
        Simulator(graph).run(PreparedInputs(tuple(given)))


def test_the_lowest_integer_by_minus_one_ends_nothing(tmp_path: Path) -> None:
    """The operands are constants, which onnxruntime would divide in this process."""
    m = Qdq("uint8")
    m.output(m.quantize(m.op("Relu", [m.input((2, 3))])))
    sign = m.op("Sub", [m.op("ArgMax", [m.input((2, 3))], axis=1, keepdims=0), m.constant("four", np.array(4))])
    by = m.op("Div", [sign, m.op("Abs", [sign])])  # -1
    m.output(m.op("Div", [m.constant("lowest", np.array(np.iinfo(np.int64).min)), by]))
    graph = compile_model(m.model().SerializeToString(), "m", CompilerOptions(check=False)).graph
    made = Simulator(graph).run(random_inputs(graph, 0)).tensors
    assert made[graph.outputs[1]].tolist() == [np.iinfo(np.int64).min] * 2

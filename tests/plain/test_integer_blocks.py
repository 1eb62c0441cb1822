"""MatMulNBits of accuracy level 4: int8 activations in blocks, as onnxruntime's kernel rounds them, or float32 where it does
not; a board that computes otherwise is found."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from qverify.compare.error_bounds.chain import evaluate_unit
from qverify.compare.options import Options
from qverify.compare.verdict import judge_all
from qverify.compiler.compile_model import CompiledModel, compile_model
from qverify.model_bin.units import units
from qverify.onnx_model.engine import Engine
from qverify.report.document import ReportDocument
from qverify.session.job import verify
from qverify.session.request import Request
from qverify.sides.simulator import Simulator
from qverify.tensors.digest import tensor_digest
from qverify.tensors.recording import Recording

from tests.ops.cases.matmul_float import n_bits
from tests.ops.qdq import Qdq
from tests.plain.three_sides import ALL

LEVEL = 4
COMBINATIONS = [
    (bits, size, zeros)
    for bits, size, zeros in itertools.product((2, 4, 8), (16, 32, 64, 128, 256, 512), ("", "packed"))
    if bits != 2 or size in (32, 64, 128)
]


def network(rows: int, depth: int, bits: int, size: int, zeros: str = "packed", opset: int = 17, **more: int) -> Qdq:
    """One MatMulNBits of 19 columns on a float input x, with a bias."""
    m = Qdq(seed=bits + size, opset=opset)
    m.inputs.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, (rows, depth)))
    m.feed["x"] = m.rng.normal(size=(rows, depth)).astype(np.float32)
    more = {"accuracy_level": LEVEL, **more}
    m.output(n_bits(m, "x", depth, 19, bits, size=size, zeros=zeros, bias=True, **more))
    return m


def compiled(m: Qdq) -> CompiledModel:
    return compile_model(m.model().SerializeToString(), "q.onnx")


def operators(m: Qdq) -> list[str]:
    return [n.op for n in compiled(m).graph.nodes]


def simulated(result: CompiledModel, x: np.ndarray) -> dict[str, np.ndarray]:
    values = {"x": x}
    for unit in units(result.graph):
        values |= Simulator(result.graph).run_unit(unit, values)
    return values


@pytest.mark.parametrize(("bits", "size", "zeros"), COMBINATIONS)
@pytest.mark.parametrize("rows", [1, 7])
def test_onnxruntimes_own_kernel_is_within_the_bound_of_float32_sums(bits: int, size: int, zeros: str, rows: int):
    """On the original, so that the integers are its own: one that differs would be 1e-3 of the sum of magnitudes."""
    m = network(rows, 2 * size + 11, bits, size, zeros)
    result = compiled(m)
    assert [n.op for n in result.graph.nodes] == ["quantize_blocks", "matmul_blocks"]
    values, y = simulated(result, m.feed["x"]), m.outputs[0]
    original = Engine(m.model().SerializeToString()).run(m.feed)[y].reshape(-1)
    product = units(result.graph)[1]
    ((_, bounded),) = evaluate_unit(product, y, result.graph, values, np.arange(original.size))
    assert (np.abs(original - bounded.value) <= bounded.error).all()
    assert (np.abs(original - bounded.value) <= 2.0**-20 * np.abs(original).max()).all()
    integer = Engine(result.integer_onnx).run(m.feed)[y].reshape(-1)
    assert (np.abs(integer - bounded.value) <= bounded.error).all()


def test_ties_and_numbers_that_are_none_are_rounded_by_the_integer_onnx_as_by_the_simulator():
    m = network(6, 64, 4, 32)
    result = compiled(m)
    exposed = onnx.load_from_string(result.integer_onnx)
    exposed.graph.output.extend(onnx.ValueInfoProto(name=n) for n in ("x/quantized", "x/scale"))
    engine = Engine(exposed.SerializeToString())
    for _ in range(50):
        x = m.rng.integers(-254, 255, (6, 64)) / np.float32(2)
        x[:, ::32] = 127
        x *= np.float32(2.0) ** m.rng.integers(-20, 20, (6, 1))
        x[m.rng.random(x.shape) < m.rng.choice([0, 0.05, 0.7])] = m.rng.choice([np.nan, np.inf, 1e-37, 0])
        want, got = simulated(result, x.astype(np.float32)), engine.run({"x": x.astype(np.float32)})
        for name in ("x/quantized", "x/scale"):
            assert np.array_equal(want[name], got[name])


@pytest.mark.parametrize(
    ("bits", "size", "zeros", "more"),
    [
        *((4, 32, "packed", {"accuracy_level": level}) for level in range(LEVEL)),
        (2, 16, "", {}),
        (2, 256, "packed", {}),
        (4, 32, "float", {}),
    ],
)
def test_what_onnxruntime_computes_in_float32(bits: int, size: int, zeros: str, more: dict[str, int]):
    m = network(3, 75, bits, size, zeros, **more)
    result, y = compiled(m), m.outputs[0]
    assert {n.op for n in result.graph.nodes} == {"matmul_float", "elementwise_float"}
    original = Engine(m.model().SerializeToString()).run(m.feed)[y]
    assert np.abs(original - simulated(result, m.feed["x"])[y]).max() <= 2.0**-20 * np.abs(original).max()


def test_an_order_of_rows_is_float32():
    m = network(3, 64, 4, 32, "")
    m.nodes[-1].input[4] = m.constant("order", (np.arange(64) // 32).astype(np.int32))
    assert "matmul_float" in operators(m)


@pytest.mark.parametrize("opset", [17, 21])
@pytest.mark.parametrize("depth", [64, 70])
def test_all_sides_agree_in_the_integers(depth: int, opset: int, tmp_path: Path):
    m = network(5, depth, 4, 32, opset=opset)
    path = tmp_path / "q.onnx"
    path.write_bytes(m.model().SerializeToString())
    report = verify(Request([str(path)], "local", options=Options(dump_all=True))).report
    assert report.verdict == "PASSED" and not any("blocks" in note for note in report.notes)
    pairs = {(p.a, p.b): p for p in report.pairs}
    assert pairs["simulator", "board"].bit_equal
    rows = {t.name: t for t in pairs["reference", "board"].tensors}
    assert rows.keys() == {"x/quantized", "x/scale", m.outputs[0]}
    assert rows["x/quantized"].bit_equal and rows["x/scale"].bit_equal
    (plain,) = report.plain_onnxruntime["outputs"]
    assert plain["max_abs"] <= 2.0**-20 * 10


def judged(board: str) -> ReportDocument:
    """A simulator beside a board that has y of float32 activations ("float32"), q rounded half away from zero and what follows
    from it ("ties"), or q one too large at one place ("integer")."""
    m = network(4, 64, 4, 32)
    m.feed["x"][0, 0], m.feed["x"][0, 1] = 4, 4 * 2.5 / 127  # a tie
    result, y = compiled(m), m.outputs[0]
    graph, all_units = result.graph, units(result.graph)
    sides = {}
    for name in ("reference", "board"):
        values = {"x": m.feed["x"]} | simulated(result, m.feed["x"])
        if name == "reference":
            values[y] = Engine(result.integer_onnx).run(m.feed)[y]
        elif board == "float32":
            for node in m.nodes:
                level = next(a for a in node.attribute if a.name == "accuracy_level")
                level.i = 1
            values[y] = Engine(m.model().SerializeToString()).run(m.feed)[y]
        elif board != "right":
            at = (0, 0, 1) if board == "ties" else (2, 1, 7)
            values["x/quantized"] = values["x/quantized"].copy()
            values["x/quantized"][at] += 1
            values |= Simulator(graph).run_unit(all_units[1], values)
        kept = {o: values[o] for unit in all_units for o in unit.outputs}
        digests = {n: tensor_digest(v) for n, v in kept.items()}
        specs = {n: graph.spec(n) for n in kept}
        sides[name] = Recording(
            name, "test", specs=specs, finals=graph.outputs, tensors=kept, digests=digests, capabilities=ALL
        )

    def run(unit, inputs):
        return Simulator(graph).run_unit(unit, inputs)

    return judge_all(sides, graph, all_units, Options(dump_all=True), {"reference": run}, None, {"x": m.feed["x"]})


@pytest.mark.parametrize(
    ("board", "blamed"), [("float32", "matmulnbits0"), ("ties", "x/quantized"), ("integer", "x/quantized")]
)
def test_a_board_with_other_activations_fails(board: str, blamed: str):
    report = judged(board)
    assert report.verdict == "FAILED"
    forced = {t.name: t.forced.verdict for p in report.pairs for t in p.tensors if t.forced is not None}
    assert [n for n, verdict in forced.items() if verdict == "FAILED"] == [blamed]


def test_a_board_with_these_activations_passes():
    assert judged("right").verdict == "PASSED"

"""compile --arithmetic: each node computes in the form of its op, and a form that it cannot have is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qverify.arithmetic.forms import Form, FormsOfOps
from qverify.cli.main import main
from qverify.compare.arithmetics import Rounded
from qverify.compare.catalogue import LEGAL, MISTAKES
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.compiler.forms_of_nodes import WITH_FORMS
from qverify.errors import UnsupportedError
from qverify.model_bin.graph import Graph
from qverify.model_bin.records import decode, encode
from qverify.model_bin.units import units
from qverify.ops import simulate_node

from tests.ops.qdq import Qdq

NAMES = (*LEGAL, *MISTAKES)


def network(dtype: str = "int8", seed: int = 5) -> bytes:
    """Returns every op that has forms, with general scales."""
    m = Qdq(dtype, seed=seed)
    x = m.input((1, 8, 12, 12))
    a = m.quantize(m.op("Conv", [x, m.weight((8, 8, 3, 3), axis=0)], pads=[1] * 4))
    b = m.quantize(m.op("Conv", [a, m.weight((8, 1, 3, 3), axis=0)], pads=[1] * 4, group=8))
    c = m.quantize(m.op("Add", [a, b]))
    d = m.quantize(m.op("Mul", [b, c]))
    e = m.quantize(m.op("AveragePool", [c], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4))
    f = m.quantize(m.op("GlobalAveragePool", [d]))
    g = m.quantize(m.op("Gemm", [m.op("Flatten", [f]), m.weight((8, 10), axis=1)]))
    h = m.quantize(m.op("MatMul", [g, m.weight((10, 7))]))
    m.outputs += [h, e, m.quantize(m.op("Concat", [a, b], axis=1))]
    return m.model().SerializeToString()


def compiled(source: bytes, text: str = "", ops: tuple[str, ...] = WITH_FORMS) -> Graph:
    arithmetic = FormsOfOps("chip", {op: Form.parse(text) for op in ops}) if text else None
    return compile_model(source, "m.onnx", CompilerOptions(check=False, arithmetic=arithmetic)).graph


def run(graph: Graph, seed: int = 1) -> dict[str, Any]:
    values = dict(graph.constants)
    for name in graph.inputs:
        values[name] = np.random.default_rng(seed).normal(0, 1, graph.spec(name).shape).astype(np.float32)
    for node in graph.nodes:
        values |= simulate_node(graph, node, values)
    return values


@pytest.mark.parametrize(
    ("name", "dtype"), [*((n, "int8") for n in NAMES), *((n, "uint8") for n in ("gemmlowp", "half up", "mul15"))]
)
def test_nodes_compute_what_the_catalogue_says(name: str, dtype: str) -> None:
    """The two are independent: the catalogue computes single elements from the scales, model.bin has parameters."""
    source = network(dtype)
    reference, ops = compiled(source), set[str]()
    recorded = run(reference)
    for unit in units(reference):
        given = {n: recorded[n] for n in unit.inputs}
        if name in Rounded(unit, unit.outputs[0], reference, given).formulas:
            ops.add(unit.nodes[0].op)
    graph, seen = compiled(source, name, tuple(ops)), set[str]()
    values = run(decode(encode(graph)))
    for unit in units(reference):
        y = unit.outputs[0]
        formulas = Rounded(unit, y, reference, {n: values[n] for n in unit.inputs}).formulas
        if unit.nodes[0].op in ops:
            wanted = formulas[name](np.arange(values[y].size)).reshape(values[y].shape)
            np.testing.assert_array_equal(values[y], wanted, f"{unit.nodes[0].op} {name}")
            seen.add(unit.nodes[0].op)
    assert seen == ops and ops


def test_wide_sums_compute_in_forms() -> None:
    for text in ("gemmlowp", "half up", "half even, multiplier of 12 bits", "pow2-half-up"):
        graph = compiled(network("int16"), text)
        assert {graph.constants[n.inputs[-1] or ""].ndim for n in graph.nodes if n.op in ("conv", "matmul")} == {2}
        run(decode(encode(graph)))


def test_a_concat_reads_tables_without_a_reference() -> None:
    reference, graph = compiled(network()), compiled(network(), "half up", ("concat",))
    added = [n for n in graph.nodes if n.name not in {m.name for m in reference.nodes}]
    y = graph.spec(reference.nodes[-1].name)
    others = [n for n in reference.nodes[-1].inputs if graph.spec(n or "").scale != y.scale]
    assert [n.op for n in added] == ["lookup"] * len(others) and others and not any(n.integer_reference for n in added)
    assert all(not graph.spec(n.name).integer_reference and not graph.spec(n.name).interior for n in added)


def test_meta_states_the_arithmetic_and_restores_the_options() -> None:
    options = compiled(network(), "gemmlowp", ("conv", "add")).meta["options"]
    assert options["arithmetic"] == {"name": "chip", "ops": {"conv": "gemmlowp", "add": "gemmlowp"}}
    restored = CompilerOptions.restored(options, "", {}).arithmetic
    assert restored == FormsOfOps("chip", {op: Form.parse("gemmlowp") for op in ("conv", "add")})
    assert "arithmetic" not in compiled(network()).meta["options"]


@pytest.mark.parametrize(
    ("op", "text", "said"),
    [
        ("softmax", "half up", "arithmetic chip: softmax cannot have the form 'half up'; ops with forms: conv,"),
        ("global_average_pool", "gemmlowp, scales in float32", "because it has one operand"),
        ("add", "gemmlowp, scales in float32", "an addition cannot have the form"),
        (
            "conv",
            "half up, multiplier of 8 bits, product shifted by 62 first (floor)",
            r"\(conv\).* cannot represent a",
        ),
    ],
)
def test_a_form_that_a_node_cannot_have_is_refused_by_name(op: str, text: str, said: str) -> None:
    with pytest.raises(UnsupportedError, match=said) as error:
        compiled(network(), text, (op,))
    assert "\n" not in str(error.value) and "chip" in str(error.value)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, chip, out = tmp_path / "m.onnx", tmp_path / "chip.toml", tmp_path / "m.bin"
    model.write_bytes(network())
    chip.write_text(
        'format = 1\nname = "chip-2.1"\n[op.conv]\nform = "half up, multiplier of 15 bits, 3 fraction bits kept first (floor)"\n'
        "nodes = 1\nelements = 9\n[op.add]\nnodes = 1\nelements = 9\n"
    )
    assert main(["compile", str(model), "-o", str(out), "--arithmetic", str(chip)]) == 0
    said = capsys.readouterr().out
    assert (
        "arithmetic chip-2.1: conv half up, multiplier of 15 bits, 3 fraction bits kept first (floor). As the" in said
    )
    assert "without a form: add, average_pool, concat, fully_connected, global_average_pool, matmul, mul" in said
    assert decode(out.read_bytes()).meta["options"]["arithmetic"]["name"] == "chip-2.1"
    for words, wanted in (
        (["--arithmetic", str(chip), "--rounding", "gemmlowp"], "exclude each other"),
        (["--arithmetic", "chop"], "--arithmetic chop: no such file"),
    ):
        assert main(["compile", str(model), "-o", str(out), *words]) == 2
        assert wanted in capsys.readouterr().err

"""compile --arithmetic: each node computes in the form of its op, and a node that cannot have it is listed by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qverify.arithmetic.forms import Form, FormsOfOps
from qverify.cli.main import main
from qverify.compare.arithmetics import Rounded
from qverify.compare.catalogue import BYTE_PAIRS, HTP_SOFTMAX, LEGAL, MISTAKES, RULES, ZERO_INSIDE
from qverify.compare.identify.arithmetic_file import forms_of_ops, read_arithmetic
from qverify.compare.stated_arithmetic import read_stated
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.compiler.forms_of_nodes import WITH_FORMS, describe_forms, find_without_form, list_without_form
from qverify.errors import UnsupportedError
from qverify.model_bin.graph import Graph
from qverify.model_bin.records import decode, encode
from qverify.model_bin.units import units
from qverify.ops import simulate_node

from tests.ops.qdq import Qdq

NAMES = (*LEGAL, *MISTAKES)  # LEGAL has KERNELS
NOT_COMPUTED = (BYTE_PAIRS, HTP_SOFTMAX)  # no op is compiled in them: its nodes are listed


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
    t = m.quantize(m.op("ConvTranspose", [b, m.weight((8, 4, 3, 3))], strides=[2, 2]))
    m.outputs += [h, e, t, m.quantize(m.op("Concat", [a, b], axis=1))]
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


def kernels(dtype: str) -> bytes:
    """Returns the nodes of which kernels do not scale one sum, and a change of the quantization: means, a pool and resizes that keep the quantization, the
    softmax and the logistic function with 256 steps from 0 to 1."""
    m = Qdq(dtype, seed=7)
    x, limits = m.input((1, 8, 12, 12)), np.iinfo(dtype)
    steps = np.float32(2**-8), np.array(limits.min, dtype)
    m.outputs += [
        m.quantize(m.op("AveragePool", [x], kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 0]), like=x),
        m.quantize(m.op("GlobalAveragePool", [x]), like=x),
        m.quantize(m.op("ReduceMean", [x], axes=[2, 3], keepdims=0)),
        m.pair(m.op("Softmax", [x], axis=3), *steps),
        m.pair(m.op("Sigmoid", [x]), *steps),
        m.pair(x, np.float32(0.0313), np.array(limits.min + 77, dtype)),
    ]
    for k, how in enumerate(("asymmetric", "align_corners", "half_pixel")):
        sizes = m.constant(f"sizes{k}", np.array([1, 8, 7, 31], np.int64))
        resized = m.op("Resize", [x, "", "", sizes], mode="linear", coordinate_transformation_mode=how)
        m.outputs.append(m.quantize(resized, like=x))
    return m.model().SerializeToString()


@cache
def opened(make: Callable[[str], bytes], dtype: str) -> tuple[bytes, Graph, dict[str, Any]]:
    """Returns a network, compiled without an arithmetic, and its tensors."""
    source = make(dtype)
    graph = compiled(source)
    return source, graph, run(graph)


def compare_with_catalogue(make: Callable[[str], bytes], name: str, dtype: str) -> tuple[set[str], set[str]]:
    """Returns the ops whose nodes have a form and compute what the catalogue says, and those that are listed as nodes
    that cannot have it, although the catalogue has it for them."""
    source, reference, recorded = opened(make, dtype)
    ops = set[str]()
    for unit in units(reference):
        given = {n: recorded[n] for n in unit.inputs}
        if name in Rounded(unit, unit.outputs[0], reference, given).formulas:
            ops.add(unit.nodes[0].op)
    graph, seen, listed = compiled(source, name, tuple(ops)) if ops else reference, set[str](), set[str]()
    without = find_without_form(graph)
    assert all(without.values())
    values = run(decode(encode(graph)))
    for unit in units(reference):
        y, op = unit.outputs[0], unit.nodes[0].op
        formulas = Rounded(unit, y, reference, {n: values[n] for n in unit.inputs}).formulas
        if op not in ops or name not in formulas:
            assert op not in ops or unit.nodes[0].name in without, f"{op} {name}: silently without the form"
        elif unit.nodes[0].name in without:
            listed.add(op)
        else:
            wanted = formulas[name](np.arange(values[y].size)).reshape(values[y].shape)
            np.testing.assert_array_equal(values[y], wanted, f"{op} {name}")
            seen.add(op)
    assert not seen & listed and seen | listed == ops
    return seen, listed


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("name", NAMES)
def test_nodes_compute_what_the_catalogue_says(name: str, dtype: str) -> None:
    """The two are independent: the catalogue computes single elements from the scales, model.bin has parameters."""
    seen, listed = compare_with_catalogue(network, name, dtype)
    more, others = compare_with_catalogue(kernels, name, dtype)
    assert bool(seen | more) == (name not in NOT_COMPUTED)
    if name in (*RULES, "gemmlowp"):
        assert seen | more >= {*WITH_FORMS} - {"softmax", "resize_linear", "quantize"}
    if name != BYTE_PAIRS:  # a softmax is computed in its kernels' forms only
        assert listed | others == ({"softmax"} if name in (*RULES, ZERO_INSIDE, HTP_SOFTMAX) else set())


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
        ("softmax", "half up", "'half up' is no form of it"),
        ("global_average_pool", "gemmlowp, scales in float32", "because it has one operand"),
        ("add", "gemmlowp, scales in float32", "no addition is computed in the form"),
        ("conv", "half up, multiplier of 8 bits, product shifted by 62 first (floor)", "cannot represent a scale"),
        ("conv", BYTE_PAIRS, "is not computed for conv"),
        ("softmax", HTP_SOFTMAX, "is not computed for softmax"),
    ],
)
def test_a_form_that_a_node_cannot_have_is_listed_by_name(op: str, text: str, said: str) -> None:
    make = kernels if op == "softmax" else network
    source, reference, recorded = opened(make, "int8")
    graph, stated = compiled(source, text, (op,)), FormsOfOps("chip", {op: Form.parse(text)})
    nodes = [n for n in graph.nodes if n.op == op]
    assert set(find_without_form(graph)) == {n.name for n in nodes} and nodes
    line = describe_forms(graph, stated)
    assert (
        "\n" not in line and line.startswith("arithmetic chip: ") and f"; {op} {nodes[0].name}" in line and said in line
    )
    if text == BYTE_PAIRS:  # one reason for both convolutions
        assert f"; conv {nodes[0].name} and 1 more: " in line and len(nodes) == 2
    computed, board = run(graph), read_stated(graph)
    for name in reference.observable():
        np.testing.assert_array_equal(computed[name], recorded[name], name)
    assert board is not None and not any(board.states(u, graph) for u in units(graph) if u.nodes[0].op == op)


def test_a_form_of_an_op_that_has_none_is_refused() -> None:
    with pytest.raises(
        UnsupportedError, match=r"arithmetic chip: max_pool cannot have the form 'half up'; ops with"
    ) as error:
        compiled(network(), "half up", ("max_pool",))
    assert "\n" not in str(error.value)


def test_a_kind_without_a_form_does_not_have_that_of_its_op(tmp_path: Path) -> None:
    """Convolutions of uint8 are known to be unknown, and those of int8 have a form; both files are of one board."""
    chip = tmp_path / "chip.toml"
    chip.write_text(
        'format = 1\nname = "chip"\n[op.conv]\nform = "gemmlowp"\nnodes = 2\nelements = 9\n'
        '[op."conv, of uint8"]\nnodes = 2\nelements = 9\n'
    )
    forms = forms_of_ops(read_arithmetic(str(chip)))
    assert forms.forms == {"conv": Form.parse("gemmlowp"), "conv, of uint8": None}
    assert FormsOfOps.restored(forms.stored()) == forms
    for dtype, has in (("uint8", False), ("int8", True)):
        source, reference, recorded = opened(network, dtype)
        graph = compile_model(source, "m.onnx", CompilerOptions(check=False, arithmetic=forms)).graph
        graph = decode(encode(graph))
        convolutions = [u for u in units(graph) if u.nodes[0].op == "conv"]
        board = read_stated(graph)
        assert board is not None and [board.states(u, graph) for u in convolutions] == [has, has]
        assert ("conv (of uint8)" in list_without_form(graph, forms)) is not has
        values = run(graph)
        same = [np.array_equal(values[n], recorded[n]) for n in reference.observable()]
        assert all(same) is not has


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
        "arithmetic chip-2.1: conv: half up, multiplier of 15 bits, 3 fraction bits kept first (floor). As the" in said
    )
    assert "without a form: add, average_pool, concat, conv_transpose, fully_connected, global" in said
    assert decode(out.read_bytes()).meta["options"]["arithmetic"]["name"] == "chip-2.1"
    assert main(["compile", str(model), "--list", "--arithmetic", str(chip)]) == 0
    assert "arithmetic chip-2.1: conv: half up" in capsys.readouterr().out
    for words, wanted in (
        (["--arithmetic", str(chip), "--rounding", "gemmlowp"], "exclude each other"),
        (["--arithmetic", "chop"], "--arithmetic chop: no such file"),
    ):
        assert main(["compile", str(model), "-o", str(out), *words]) == 2
        assert wanted in capsys.readouterr().err

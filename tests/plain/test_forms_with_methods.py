"""Nodes in forms with a method: the simulator gives what LiteRT's kernels do, qvrt gives the same, and a node that cannot have
its form is said to have none."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from qverify.arithmetic.forms import HALF_QUOTIENT, Form, FormsOfOps
from qverify.cli.main import main
from qverify.compare.catalogue import BYTE_PAIRS, HTP_ADD, HTP_SOFTMAX, HTP_SUMS, KERNELS, LITERT_POOL, LITERT_SOFTMAX
from qverify.compare.identify.arithmetic_file import forms_of_ops
from qverify.compare.stated_arithmetic import read_stated
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.compiler.forms_of_nodes import METHODS_OF_CHANGES, describe_forms, list_without_form
from qverify.compiler.methods_of_nodes import _COMPUTED
from qverify.inputs.random_inputs import random_inputs
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import units
from qverify.session.stated_arithmetics import open_arithmetic
from qverify.session.tflite_alone import open_tflite
from qverify.sides.simulator import Simulator
from qverify.tflite_model.layout import as_in_onnx

from tests.ops.qdq import Qdq
from tests.ops.runtime_library import COMPILER, binary
from tests.ops.test_runtime_equals_simulator import agree
from tests.tflite_files import File

Array = np.ndarray[Any, np.dtype[Any]]
KERNEL_SETS = {  # the resolver of LiteRT, by the shipped arithmetic
    "litert-reference": "BUILTIN_REF",
    "litert": "BUILTIN_WITHOUT_DEFAULT_DELEGATES",
    "xnnpack": "BUILTIN",
}
litert = pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed")


def zero_of(dtype: str, zero: int) -> int:
    return zero + (128 if dtype == "uint8" else 0)


def several(kind: str, dtype: str, options: str, to: list[int], given: Array | None = None, **how: Any) -> bytes:
    """One operator on a tensor [1, 12, 10, 16]. given: its second input, of int32, or None for another tensor."""
    f, scale, zero = File(), 0.05, zero_of(dtype, -7)
    x = f.tensor("x", [1, 12, 10, 16], dtype, 0.05, zero)
    more = [] if given is None else [f.tensor("given", list(given.shape), "int32", None, value=given)]
    if kind in ("ADD", "SUB", "MUL"):
        more = [f.tensor("c", [1, 12, 10, 16], dtype, 0.0313, zero_of(dtype, 5))]
        scale, zero = 0.0717, zero_of(dtype, 9)
    if kind == "MEAN":
        scale, zero = 0.0123, zero_of(dtype, 3)
    if kind == "SOFTMAX":
        scale, zero = 1 / 256, zero_of(dtype, -128)
    y = f.tensor("y", to, dtype, scale, zero)
    f.operator(kind, [x, *more], [y], options, **how)
    f.inputs, f.outputs = [x, *(more if given is None else [])], [y]
    return f.written()


def resize(dtype: str, to: list[int], **how: Any) -> bytes:
    return several("RESIZE_BILINEAR", dtype, "ResizeBilinearOptions", [1, *to, 16], np.array(to, np.int32), **how)


WINDOW = {"strideH": 1, "strideW": 2, "filterHeight": 3, "filterWidth": 2, "padding": 0}
WHOLE = {"strideH": 1, "strideW": 1, "filterHeight": 12, "filterWidth": 10, "padding": 1}
FILES: Mapping[str, Any] = {
    "ADD": lambda t: several("ADD", t, "AddOptions", [1, 12, 10, 16]),
    "SUB": lambda t: several("SUB", t, "SubOptions", [1, 12, 10, 16]),
    "MUL": lambda t: several("MUL", t, "MulOptions", [1, 12, 10, 16]),
    "AVERAGE_POOL_2D": lambda t: several("AVERAGE_POOL_2D", t, "Pool2DOptions", [1, 12, 5, 16], **WINDOW),
    "AVERAGE_POOL_2D of the image": lambda t: several("AVERAGE_POOL_2D", t, "Pool2DOptions", [1, 1, 1, 16], **WHOLE),
    "MEAN": lambda t: several("MEAN", t, "ReducerOptions", [1, 16], np.array([1, 2], np.int32), keepDims=False),
    "MEAN kept": lambda t: several("MEAN", t, "ReducerOptions", [1, 1, 1, 16], np.array([1, 2], np.int32), keepDims=True),
    "SOFTMAX": lambda t: several("SOFTMAX", t, "SoftmaxOptions", [1, 12, 10, 16], beta=1.0),
    "RESIZE_BILINEAR": lambda t: resize(t, [31, 17]),
    "RESIZE_BILINEAR of aligned corners": lambda t: resize(t, [31, 17], alignCorners=True),
    "RESIZE_BILINEAR of half pixels": lambda t: resize(t, [5, 23], halfPixelCenters=True),
}  # fmt: skip


def run_litert(data: bytes, resolver: str, feed: list[Array], wanted: int) -> Array:
    from ai_edge_litert import interpreter

    opened = interpreter.Interpreter(
        model_content=data,
        num_threads=1,
        experimental_op_resolver_type=getattr(interpreter.OpResolverType, resolver),
    )
    opened.allocate_tensors()
    for detail, value in zip(opened.get_input_details(), feed, strict=True):
        opened.set_tensor(detail["index"], value)
    opened.invoke()
    found: Array = opened.get_tensor(wanted)
    return found


@litert
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("name", KERNEL_SETS)
@pytest.mark.parametrize("kind", FILES)
def test_the_simulator_gives_what_the_kernels_do(kind: str, name: str, dtype: str, tmp_path: Path) -> None:
    data, forms = FILES[kind](dtype), forms_of_ops(open_arithmetic(name))
    compiled, alone = open_tflite("m.tflite", data, forms)
    graph, model, entries = compiled.graph, alone.converted.model, alone.converted.tensors
    assert list_without_form(graph, forms) == [] and "without_form" not in graph.meta
    rng, limits = np.random.default_rng(36), np.iinfo(dtype)
    feed = [rng.integers(limits.min, limits.max + 1, model.tensors[i].shape).astype(dtype) for i in model.inputs]
    values = {n: as_in_onnx(entries[n], feed[model.inputs.index(entries[n]["tfl"])]) for n in graph.inputs}
    wanted = as_in_onnx(entries["y"], run_litert(data, KERNEL_SETS[name], feed, entries["y"]["tfl"]))
    given = dict(values)
    for unit in units(graph):
        given |= Simulator(graph).run_unit(unit, {n: given[n] for n in unit.inputs})
    np.testing.assert_array_equal(given["y"], wanted)
    assert len(np.unique(wanted)) > 8
    if COMPILER is not None and len(graph.nodes) == 1:
        agree(SimpleNamespace(graph=lambda: graph, values=values), (binary(),), tmp_path, f"{kind} {name}")  # type: ignore[arg-type]


def network() -> tuple[Qdq, bytes]:
    """A convolution with a scale for each channel, a product with a matrix, an addition and a pool."""
    m = Qdq("uint8", opset=18, seed=5)
    x = m.input((1, 3, 9, 9))
    w = m.weight((6, 3, 3, 3), axis=0)
    conv = m.quantize(m.op("Conv", [x, w, m.bias(x, w, 6)]))
    both = m.quantize(m.op("Add", [conv, m.input((1, 6, 7, 7))]))
    m.output(m.quantize(m.op("MatMul", [both, m.weight((7, 5))])))
    m.output(m.quantize(m.op("AveragePool", [both], kernel_shape=[2, 2])))
    return m, m.model().SerializeToString()


def compiled(**forms: str) -> Graph:
    stated = FormsOfOps("chip", {op: Form.parse(form) for op, form in forms.items()})
    return compile_model(network()[1], "m.onnx", CompilerOptions(check=False, arithmetic=stated)).graph


def simulate(graph: Graph) -> dict[str, Array]:
    given = dict(random_inputs(graph, 1).arrays())
    for unit in units(graph):
        given |= Simulator(graph).run_unit(unit, {n: given[n] for n in unit.inputs})
    return given


def shift(value: int, by: int) -> int:
    return (value + (1 << by >> 1)) >> by if by > 0 else value << -by


def test_sums_of_htp_by_hand() -> None:
    """Each element with Python's integers: the zero point counts from the lowest code in units of the sum."""
    graph = compiled(matmul=HTP_SUMS)
    values, node = simulate(graph), next(n for n in graph.nodes if n.op == "matmul")
    a, b, y = (graph.spec(n or "") for n in (*node.inputs[:2], node.outputs[0]))
    left = values[a.name].astype(np.int64).reshape(-1, 7) - a.zero_point[0]
    right = graph.constants[b.name].astype(np.int64) - b.zero_point[0]
    scale = float(np.float32(a.scale[0])) * float(np.float32(b.scale[0])) / float(np.float32(y.scale[0]))
    fraction, exponent = np.frexp(scale)
    multiplier = int(fraction * 2**11 + 0.5)
    assert multiplier < 2**11
    dropped, last = max(0, 1 - int(exponent) - 4), 11 - int(exponent)
    summand = int(np.floor(np.float64(np.float32(y.zero_point[0]) / np.float32(scale)) + 0.5))
    wanted = [
        min(255, max(0, shift((int(total) + summand >> dropped) * multiplier, last - dropped)))
        for total in (left @ right).reshape(-1)
    ]
    assert values[y.name].reshape(-1).tolist() == wanted and len(set(wanted)) > 20


def test_an_addition_of_htp_by_hand() -> None:
    graph = compiled(add=HTP_ADD)
    values, node = simulate(graph), next(n for n in graph.nodes if n.op == "add")
    a, b, y = (graph.spec(n or "") for n in (*node.inputs[:2], node.outputs[0]))
    ratios = [s.scale[0] / y.scale[0] for s in (a, b)]
    most = next(t for t in range(15, -1, -1) if sum(ratios) * 2**t < 2**14)
    first, second = (int(r * 2**most + 0.5) for r in ratios)
    constant = (y.zero_point[0] << most) - first * a.zero_point[0] - second * b.zero_point[0]
    low = constant // 256 * 256
    constant = low + (256 if constant - low > 128 else 0)
    pairs = zip(values[a.name].reshape(-1).tolist(), values[b.name].reshape(-1).tolist(), strict=True)
    wanted = [min(255, max(0, shift(first * p + second * q + constant, most))) for p, q in pairs]
    assert values[y.name].reshape(-1).tolist() == wanted and len(set(wanted)) > 20


@pytest.mark.skipif(COMPILER is None, reason="no C compiler on this machine")
def test_qvrt_computes_as_htp_does(tmp_path: Path) -> None:
    for stated in ({"conv": HTP_SUMS}, {"matmul": HTP_SUMS}, {"add": HTP_ADD}):
        graph, values = compiled(**stated), {}
        node = next(n for n in graph.nodes if n.op in stated)
        every = simulate(graph)
        names = [n for n in node.inputs if n is not None and n not in graph.constants]
        tensors = {n: graph.tensors[n] for n in (*node.inputs, *node.outputs) if n is not None}
        constants = {n: v for n, v in graph.constants.items() if n in tensors}
        values = {n: every[n] for n in names}
        part = Graph([node], tensors, constants, tuple(names), node.outputs, meta={"source_sha256": "0" * 64})
        agree(SimpleNamespace(graph=lambda made=part: made, values=values), (binary(),), tmp_path, str(stated))  # type: ignore[arg-type]


def test_a_node_that_cannot_have_its_form_is_listed_and_computes_as_without_one() -> None:
    plain, graph = simulate(compiled()), compiled(conv=BYTE_PAIRS, average_pool=LITERT_POOL, add="gemmlowp")
    stated = FormsOfOps("chip", {op: Form.parse(f) for op, f in read_stated(graph).forms.items()})  # type: ignore[union-attr]
    assert list_without_form(graph, stated) == ["average_pool", "conv", "matmul", "quantize"]
    conv, pool = (next(n for n in graph.nodes if n.op == op) for op in ("conv", "average_pool"))
    assert set(graph.meta["without_form"]) == {conv.name, pool.name}
    said = describe_forms(graph, stated)
    assert f"conv {conv.name}: products of bytes added in pairs of 16 bits is not computed for conv" in said
    assert f"average_pool {pool.name}: the input has another quantization than the output" in said
    np.testing.assert_array_equal(simulate(graph)[conv.name], plain[conv.name])
    board = read_stated(graph)
    assert board is not None
    states = {u.nodes[0].op: board.states(u, graph) for u in units(graph)}
    assert not states["conv"] and not states["average_pool"] and states["add"]


def test_a_form_of_a_change_is_none_of_a_function() -> None:
    m = Qdq("uint8", opset=18)
    m.output(m.quantize(m.op("Sigmoid", [m.input((3, 50))])))
    stated = FormsOfOps("chip", {"lookup": Form.parse("gemmlowp")})
    options = CompilerOptions(check=False, arithmetic=stated)
    graph = compile_model(m.model().SerializeToString(), "m.onnx", options).graph
    assert list_without_form(graph, stated) == ["lookup", "quantize"]


def test_every_kernel_of_the_catalogue_is_computed() -> None:
    """But for two, which ARITHMETICS.md names."""
    computed = {*METHODS_OF_CHANGES, HALF_QUOTIENT, *(method for _, method in _COMPUTED)}
    lacking = [k for k in KERNELS if (f := Form.parse(k)).method and f.method not in computed]
    assert lacking == [HTP_SOFTMAX, BYTE_PAIRS]
    page = " ".join((Path(__file__).parents[2] / "verifier" / "ARITHMETICS.md").read_text().split())
    named = ", ".join(f"`{Form.parse(k).method}`" for k in lacking)
    assert f"(methods that the compiler does not compute: {named}, and means that are rounded first)" in page


@litert
def test_the_main_job_under_a_shipped_arithmetic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(FILES["SOFTMAX"]("int8"))
    words = ["-m", str(path), "-r", "True"]
    for arithmetic, kernels in (("litert-reference", "reference"), ("litert", "optimized"), ("xnnpack", "xnnpack")):
        for board in (["-b", f"local?kernels={kernels}", "--runtime", "litert"], ["-b", "local"]):
            assert main([*words, *board, "--arithmetic", arithmetic]) == 0
    out = tmp_path / "m.bin"
    assert main(["compile", str(path), "-o", str(out), "--arithmetic", "xnnpack"]) == 0
    assert f"softmax: {open_arithmetic('xnnpack').ops['softmax'].form}" in capsys.readouterr().out
    assert open_arithmetic("xnnpack").ops["softmax"].form != LITERT_SOFTMAX

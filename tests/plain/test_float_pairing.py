"""Which float tensor a quantized one stands for, and what quantization costs it (TRIAGE.md, "Pairing" and "Loss")."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnxruntime.quantization import QuantFormat, QuantType
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.onnx_model.graph_view import GraphView
from qverify.triage.float_pairing import FloatPairs, pair_ends, pair_float
from qverify.triage.loss import Losses, make_switches, quantized_range

from tests.plain.triaged_models import float_model, quantized

Array = Any
NAMES = {  # float tensor to the node that makes it, its operator and the inputs of it that are constants
    "x": ("", "", []),
    "r1": ("conv1", "Conv", [1, 2]),
    "r2": ("conv2", "Conv", [1, 2]),
    "c3": ("conv3", "Conv", [1, 2]),
    "a": ("add", "Add", []),
    "p": ("pool", "GlobalAveragePool", []),
    "f": ("flatten", "Flatten", []),
    "y": ("gemm", "Gemm", [1, 2]),
}
KINDS = {
    "qdq": {},
    "tensor": {"per_channel": False},
    "qop": {"quant_format": QuantFormat.QOperator, "per_channel": False},
    "channels": {"quant_format": QuantFormat.QOperator},
    "unsigned": {"quant_format": QuantFormat.QOperator, "per_channel": False, "weight_type": QuantType.QUInt8},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """float.onnx, other.onnx (the same with other names inside) and a quantized one of each kind."""
    made = tmp_path_factory.mktemp("pairing")
    float_model(made / "float.onnx")
    float_model(made / "other.onnx", name="other_{}")
    for kind, how in KINDS.items():
        quantized(made / "float.onnx", made / f"{kind}.onnx", **how)
    return made


def views(folder: Path, floats: str, kind: str) -> tuple[GraphView, GraphView, Any]:
    data = (folder / f"{kind}.onnx").read_bytes()
    graph = compile_model(data, kind, CompilerOptions(check=False)).graph
    return GraphView(onnx.load(folder / f"{floats}.onnx"), floats), GraphView(onnx.load_from_string(data), kind), graph


def paired(folder: Path, floats: str = "float", kind: str = "qdq") -> FloatPairs:
    return pair_float(*views(folder, floats, kind))


@pytest.mark.parametrize("kind", KINDS)
def test_each_tensor_has_its_own(folder: Path, kind: str) -> None:
    found = paired(folder, kind=kind)
    assert found.unpaired == {} and found.inputs == {"x": "x"} and found.outputs == {"y": "y"}
    pairs = {p.tensor: p for p in found.pairs}
    assert list(pairs) == [n for n in NAMES if n in pairs] and {"x", "r1", "r2", "c3", "a", "p", "y"} <= pairs.keys()
    held = GraphView(onnx.load(folder / "float.onnx"), "float")
    for name, pair in pairs.items():
        node, op, constants = NAMES[name]
        assert (pair.node, pair.op) == (node, op) and list(pair.weights) == constants, name
        assert op == "Gemm" or pair.one_scale is (kind not in ("qdq", "channels") if constants else None), name
        for at, value in pair.weights.items():
            real = held.constants[next(n for n in held.nodes if n.name == node).input[at]]
            assert value.dtype == np.float32 and value.shape == real.shape
            assert np.abs(value - real).max() <= 0.011 * np.abs(real).max(), (name, at)
    assert all(p.how in ("name", "suffix") for p in found.pairs) and found.notes == []


def test_names_and_suffixes_are_said(folder: Path) -> None:
    for kind in KINDS:
        how = {p.tensor: p.how for p in paired(folder, kind=kind).pairs}
        assert {n for n, said in how.items() if said == "suffix"} == ({"y"} if kind in ("qdq", "tensor") else set())


@pytest.mark.parametrize("kind", KINDS)
def test_tensors_of_other_names_are_found_by_their_place(folder: Path, kind: str) -> None:
    found, same = paired(folder, "other", kind), paired(folder, "float", kind)
    assert found.unpaired == {}
    assert [p.tensor.removeprefix("other_") for p in found.pairs] == [p.tensor for p in same.pairs]
    assert [p.quantized for p in found.pairs] == [p.quantized for p in same.pairs]
    structural = [p for p in found.pairs if p.how == "structure"]
    assert len(structural) >= 4 and all(p.tensor.startswith("other_") for p in structural)
    assert found.notes == [f"{len(structural)} tensors paired by position in the graph, their names differ"]


def changed(folder: Path, change: Any) -> GraphView:
    model = onnx.load(folder / "other.onnx")
    change(model.graph)
    del model.graph.value_info[:]
    return GraphView(model, "changed")


def test_of_two_nodes_in_one_place_the_weights_decide(folder: Path) -> None:
    """A second convolution of the same shape reads the same tensor."""
    _, quant, graph = views(folder, "other", "qdq")

    def twin(other: Any) -> None:
        weights = next(i for i in other.initializer if i.name == "w3")
        wrong = numpy_helper.from_array(-numpy_helper.to_array(weights), "w3x")
        other.initializer.append(wrong)
        node = onnx.helper.make_node("Conv", ["other_r1", "w3x", "b3"], ["twin"], "twin")
        other.node.insert(4, node)

    found = pair_float(changed(folder, twin), quant, graph)
    assert {p.tensor: p.how for p in found.pairs}["other_c3"] == "structure" and "twin" not in {
        p.tensor for p in found.pairs
    }

    def same(other: Any) -> None:
        node = onnx.helper.make_node("Conv", ["other_r1", "w3", "b3"], ["twin"], "twin")
        other.node.insert(4, node)

    found = pair_float(changed(folder, same), quant, graph)  # which of the two is not to be told
    names = {p.tensor for p in found.pairs}
    assert not names & {"other_c3", "twin"}
    assert "no float tensor has its name, and several or none fit its position" in found.unpaired.values()


def test_a_tensor_of_another_shape_is_not_paired(folder: Path) -> None:
    floats, quant, graph = views(folder, "float", "qdq")
    floats.types["r1"] = ("float32", (1, 5, 11, 12))
    found = pair_float(floats, quant, graph)
    assert "r1 has another shape in the float model" in found.unpaired.values()
    assert "r1" not in {p.tensor for p in found.pairs}


@pytest.mark.parametrize(
    ("mine", "theirs", "found", "note"),
    [
        (["a", "b"], ["b", "a"], {"a": "a", "b": "b"}, ""),
        (["a", "b"], ["b", "a", "c"], {"a": "a", "b": "b"}, ""),
        (["a", "b"], ["a", "d"], {"a": "a", "b": "d"}, "ends paired by position, their names differ: b is d"),
        (["a", "b"], ["c", "d"], {"a": "c", "b": "d"}, "ends paired by position, their names differ: a is c, b is d"),
        (["a", "b"], ["a", "large"], {"a": "a"}, ""),
        (["a", "b"], ["a"], {"a": "a"}, ""),
        (["a"], ["b", "c"], {}, ""),
    ],
)
def test_ends_pair_by_name_else_by_position(
    mine: list[str], theirs: list[str], found: dict[str, str], note: str
) -> None:
    def shape(name: str, among: list[str]) -> tuple[int, ...]:
        assert name in among
        return (9,) if name == "large" else (2, 3)

    shapes = (partial(shape, among=mine), partial(shape, among=theirs))
    assert pair_ends(mine, theirs, shapes, "ends") == (found, note)


def test_losses_over_frames(folder: Path) -> None:
    """A tensor whose values are known: clipped above, and half a step off elsewhere."""
    floats, quant, graph = views(folder, "float", "qdq")
    pairs = pair_float(floats, quant, graph)
    losses, pair = Losses(pairs, floats, graph), {p.tensor: p for p in pairs.pairs}
    spec = graph.spec(pair["r1"].quantized)
    low, high = quantized_range(spec)
    step = float(spec.scale[0])
    shape = tuple(spec.shape)
    for top in (high + step * 0.4, high + step * 0.6):
        value = np.zeros(shape, np.float32)
        value.reshape(-1)[0] = top
        stored = np.full(shape, spec.zero_point[0], spec.numpy_dtype)
        stored.reshape(-1)[0] = 255
        losses.add([("r1", value), ("r2", np.zeros((0,), np.float32))], {pair["r1"].quantized: stored})
    losses.add([("r1", value)], {})  # not seen
    (row,) = losses.rows()
    elements = 2 * int(np.prod(shape))
    assert (row.tensor, row.quantized, row.node, row.op, row.paired_by) == (
        "r1",
        pair["r1"].quantized,
        "conv1",
        "Conv",
        "name",
    )
    assert (row.low, row.high) == (low, high) and row.float_low == 0 and row.float_high == pytest.approx(top)
    assert row.clipped == pytest.approx(1 / elements) and row.step == pytest.approx(step)
    assert row.used == pytest.approx(high / (high - low)) and row.drop_db is None and row.single is None
    assert row.rmse == pytest.approx(step * ((0.16 + 0.36) / elements) ** 0.5, rel=1e-3)
    assert row.weights_sqnr_db is not None and 30 < row.weights_sqnr_db < 80
    assert row.weights_one_scale is False and row.channels_lost == 0


def test_what_a_tensor_loses_beyond_what_it_reads(folder: Path) -> None:
    floats, quant, graph = views(folder, "float", "qdq")
    pairs = pair_float(floats, quant, graph)
    losses, pair = Losses(pairs, floats, graph), {p.tensor: p for p in pairs.pairs}
    off = {"r1": 0.01, "r2": 0.02, "c3": 0.05, "a": 0.2}
    for name, by in off.items():
        spec = graph.spec(pair[name].quantized)
        stored = np.arange(np.prod(spec.shape)).reshape(spec.shape) % 100 + 60
        stored = stored.astype(spec.numpy_dtype)
        real = spec.dequantized(stored)
        losses.add([(name, (real * (1 + by)).astype(np.float32))], {pair[name].quantized: stored})
    rows = {r.tensor: r for r in losses.rows()}
    assert rows["r1"].drop_db is None  # what it reads was not measured
    assert rows["r2"].drop_db == pytest.approx(rows["r1"].sqnr_db - rows["r2"].sqnr_db)
    assert rows["a"].drop_db == pytest.approx(min(rows["r2"].sqnr_db, rows["c3"].sqnr_db) - rows["a"].sqnr_db)
    assert rows["a"].sqnr_db == pytest.approx(20 * np.log10(1.2 / 0.2), abs=0.01)
    assert rows["a"].weights_sqnr_db is None and rows["a"].weights_one_scale is None


def test_channels_whose_weights_are_lost(folder: Path) -> None:
    """The outputs of a convolution are the first axis, those of a Gemm that is not transposed the last."""
    floats, quant, graph = views(folder, "float", "tensor")
    for name, part in (("w1", np.s_[0]), ("w4", np.s_[:, 0])):
        weights = floats.constants[name].copy()
        weights[part] *= np.float32(0.001)
        floats.constants[name] = weights
    pairs = pair_float(floats, quant, graph)
    losses = Losses(pairs, floats, graph)
    for pair in pairs.pairs:
        spec = graph.spec(pair.quantized)
        losses.add(
            [(pair.tensor, np.ones(spec.shape, np.float32))], {pair.quantized: np.ones(spec.shape, spec.numpy_dtype)}
        )
    rows = {r.tensor: r for r in losses.rows()}
    assert rows["r1"].channels_lost == pytest.approx(1 / 5) and rows["y"].channels_lost == pytest.approx(1 / 10)
    assert rows["c3"].channels_lost == 0 and rows["r1"].weights_one_scale is True


def test_a_switch_for_each_tensor(folder: Path) -> None:
    floats, quant, graph = views(folder, "float", "qdq")
    pairs = pair_float(floats, quant, graph)
    found = make_switches(pairs, floats, graph)
    assert [s.tensor for s in found] == [p.tensor for p in pairs.pairs]
    for switch, pair in zip(found, pairs.pairs, strict=True):
        spec = graph.spec(pair.quantized)
        assert tuple(np.atleast_1d(switch.scale).tolist()) == pytest.approx(spec.scale)
        assert [w.at for w in switch.weights] == list(pair.weights)


@pytest.mark.parametrize("weight_type", [QuantType.QInt8, QuantType.QUInt8])
@pytest.mark.parametrize(("per_channel", "format_"), [(c, f) for c in (True, False) for f in QuantFormat])
def test_the_weights_of_a_matrix_product(
    tmp_path: Path, per_channel: bool, format_: QuantFormat, weight_type: QuantType
) -> None:
    """Columns of very different sizes, each of its own scale or not; also read as QLinearMatMul holds them."""
    helper, real = onnx.helper, np.random.default_rng(3).standard_normal((13, 5)).astype(np.float32)
    real = (real + np.float32(0.4)) * np.float32([1, 2, 3, 4, 5])
    ends = [helper.make_tensor_value_info(n, 1, [1, 3, 11, size]) for n, size in (("x", 13), ("y", 5))]
    node, held = helper.make_node("MatMul", ["x", "w"], ["y"], "matmul"), numpy_helper.from_array(real, "w")
    model = helper.make_model(helper.make_graph([node], "made", ends[:1], ends[1:], [held]),
                              opset_imports=[helper.make_opsetid("", 17)], ir_version=8)  # fmt: skip
    onnx.save(model, tmp_path / "float.onnx")
    quantized(tmp_path / "float.onnx", tmp_path / "q.onnx", per_channel=per_channel, quant_format=format_,
              weight_type=weight_type)  # fmt: skip
    pairs = {p.tensor: p for p in paired(tmp_path, kind="q").pairs}
    assert list(pairs["y"].weights) == [1] and pairs["y"].one_scale == (not per_channel)
    steps = np.abs(real).max(0 if per_channel else None) / 127
    assert (np.abs(pairs["y"].weights[1] - real) <= 0.51 * steps).all()

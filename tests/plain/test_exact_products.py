"""Products of uint8 by int8 as products of uint8: the same integers, on a host whose kernels saturate, too."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from qverify.model_bin.islands import HostIsland
from qverify.onnx_model import canary
from qverify.onnx_model.canary_models import CANARIES, random_extremes
from qverify.onnx_model.exact_products import OPERANDS, inexact_kernels, unsure_products, with_exact_products
from qverify.onnx_model.light_model import LARGE, LightModel, light_model
from qverify.onnx_model.load import load
from qverify.onnx_model.open_exposed import open_exposed
from qverify.sides.float_file import FloatFile
from qverify.sides.host_islands import HostIslands
from qverify.tensors.digest import tensor_digest

ALL = frozenset(OPERANDS)
MIXED = [name for name in CANARIES if name.endswith(" u8s8")]


def model_of(nodes: list[onnx.NodeProto], inputs: dict[str, Any], constants: dict[str, Any]) -> onnx.ModelProto:
    """Returns a model whose outputs are of type int32."""
    graph = helper.make_graph(
        nodes,
        "products",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
            for n, v in inputs.items()
        ],
        [helper.make_tensor_value_info(o, TensorProto.INT32, None) for node in nodes for o in node.output],
        [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def run(model: LightModel, feed: dict[str, Any]) -> dict[str, Any]:
    return open_exposed(model, []).run(feed)


@pytest.mark.parametrize("name", MIXED)
def test_the_known_answers_are_computed_on_every_host(name: str) -> None:
    model, feed = CANARIES[name]()
    source = light_model(model)
    made = with_exact_products(source, ALL)
    assert made is not source and not {i.data_type for i in made.model.graph.initializer} & {TensorProto.INT8}
    assert tensor_digest(run(made, feed)["y"]) == canary.KNOWN_DIGESTS[name]
    assert with_exact_products(made, ALL) is made


def test_every_operator_with_a_canary_of_mixed_signs_is_known() -> None:
    assert {name.partition(" ")[0] for name in MIXED} <= ALL and inexact_kernels() <= ALL


@pytest.mark.parametrize("zeros", [[], ["a_zero"], ["a_zero", "b_zero"], ["", "b_zero"]])
def test_operands_that_are_computed_and_zero_points_that_are_left_out(zeros: list[str]) -> None:
    a, b = random_extremes("uint8", (8, 64), 1), random_extremes("int8", (64, 16), 2)
    constants = {"a_zero": np.array(3, np.uint8), "b_zero": np.array(-7, np.int8)}
    model = model_of([helper.make_node("MatMulInteger", ["a", "b", *zeros], ["y"])], {"a": a, "b": b}, constants)
    by = [int(constants[name]) if name in zeros else 0 for name in constants]
    wanted = (a.astype(np.int64) - by[0]) @ (b.astype(np.int64) - by[1])
    assert np.array_equal(run(with_exact_products(light_model(model), ALL), {"a": a, "b": b})["y"], wanted)


def test_weights_that_others_read_too_stay_as_they_are() -> None:
    """A large constant is read by a product of mixed signs, by one of int8, and under a name that is taken."""
    u, s, w = (
        random_extremes("uint8", (2, 256), 1),
        random_extremes("int8", (2, 256), 2),
        random_extremes("int8", (256, 128), 3),
    )
    assert w.nbytes > LARGE
    nodes = [helper.make_node("MatMulInteger", [of, "w"], [f"y_{of}"]) for of in ("u", "s")]
    nodes.append(helper.make_node("Cast", ["u"], ["w/uint8"], to=TensorProto.INT32))
    source = light_model(model_of(nodes, {"u": u, "s": s}, {"w": w}))
    made = with_exact_products(source, ALL)
    assert set(made.constants) == {"w", "w/uint8~"} and "w" in source.constants
    found = run(made, {"u": u, "s": s})
    assert all(
        np.array_equal(found[f"y_{n}"], v.astype(np.int64) @ w.astype(np.int64)) for n, v in (("u", u), ("s", s))
    )


def test_second_operands_of_two_types_are_unsure_not_shifted() -> None:
    inputs = ["x", "w", "r", *[""] * 5, "scale", "w_zero", "scale", "r_zero"]
    node = helper.make_node("DynamicQuantizeLSTM", inputs, ["y"], domain="com.microsoft", hidden_size=1)
    types = {"w": np.uint8, "w_zero": np.uint8, "r": np.int8, "r_zero": np.int8}
    constants = {n: np.zeros((1, 1, 4) if len(n) == 1 else (1,), kind) for n, kind in types.items()}
    made = light_model(model_of([node], {"x": np.zeros((1, 1, 1), np.float32)}, constants))
    assert with_exact_products(made, ALL) is made and unsure_products(made.model, ALL) == {"y"}


def test_what_is_not_of_mixed_signs_is_left_alone() -> None:
    s, w = random_extremes("int8", (2, 64), 1), random_extremes("int8", (64, 8), 2)
    source = light_model(model_of([helper.make_node("MatMulInteger", ["s", "w"], ["y"])], {"s": s}, {"w": w}))
    assert with_exact_products(source, ALL) is source
    assert with_exact_products(light_model(CANARIES[MIXED[0]]()[0]), frozenset()).model.graph.initializer


def test_a_product_of_constants_is_folded_exactly() -> None:
    a, b = random_extremes("uint8", (8, 64), 1), random_extremes("int8", (64, 16), 2)
    nodes = [helper.make_node("MatMulInteger", ["a", "b"], ["c"]), helper.make_node("Add", ["x", "c"], ["y"])]
    model = model_of(nodes, {"x": np.zeros((8, 16), np.int32)}, {"a": a, "b": b})
    del model.graph.output[0]  # c
    folded = {i.name: numpy_helper.to_array(i) for i in load(model.SerializeToString(), "m.onnx").graph.initializer}
    assert np.array_equal(folded["c"], a.astype(np.int64) @ b.astype(np.int64))


def test_what_the_host_and_the_stages_of_triage_compute_is_exact() -> None:
    a, b = random_extremes("uint8", (8, 64), 1), random_extremes("int8", (64, 16), 2)
    made = model_of([helper.make_node("MatMulInteger", ["a", "b"], ["y"])], {"a": a}, {"b": b})
    stage = FloatFile(made.SerializeToString(), "m.onnx")
    wanted = a.astype(np.int64) @ b.astype(np.int64)
    assert np.array_equal(stage.run({"a": a})["y"], wanted)
    assert np.array_equal(stage.compute_from("y", {"a": a}), wanted)
    island = HostIsland(("a",), (), ("y",), (), ())
    graph = SimpleNamespace(tensors={})
    computed = HostIslands(made.SerializeToString(), graph).run(island, {"a": a})  # type: ignore[arg-type]
    assert np.array_equal(computed["y"], wanted)

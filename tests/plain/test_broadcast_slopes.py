"""PRelu whose slope is larger than its input: shapes are those that onnxruntime computes, which broadcasts both ways."""

from __future__ import annotations

from math import prod
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from qverify.errors import UnsupportedError
from qverify.inputs.random_inputs import random_inputs
from qverify.onnx_model.infer_types import infer_types
from qverify.session.host_sides import HostSides
from qverify.session.models import open_models

SHAPES = [((), (1,)), ((1, 3), (2, 1)), ((2, 3), (1, 3)), ((2, 3), (3,)), ((), ())]


def scaled(shape: tuple[int, ...], slope: tuple[int, ...], summed: bool) -> onnx.ModelProto:
    """Writes x -> QDQ -> (a sum over it) -> PRelu -> QDQ -> y."""
    values = np.linspace(0.1, 0.3, prod(slope), dtype=np.float32).reshape(slope)
    scale, zero = (numpy_helper.from_array(v, n) for v, n in ((np.float32(0.02), "s"), (np.uint8(128), "z")))
    fed = (4,) if summed else shape
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["qx"]),
        helper.make_node("DequantizeLinear", ["qx", "s", "z"], ["dx"]),
        *([helper.make_node("ReduceSum", ["dx"], ["r"], keepdims=0)] if summed else []),
        helper.make_node("PRelu", ["r" if summed else "dx", "slope"], ["p"]),
        helper.make_node("QuantizeLinear", ["p", "s", "z"], ["qy"]),
        helper.make_node("DequantizeLinear", ["qy", "s", "z"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, fed)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    constants = [scale, zero, numpy_helper.from_array(values, "slope")]
    graph = helper.make_graph(nodes, "slopes", [x], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model


def computed_shape(shape: tuple[int, ...], slope: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape of what onnxruntime computes."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    constant = numpy_helper.from_array(np.ones(slope, np.float32), "slope")
    graph = helper.make_graph([helper.make_node("PRelu", ["x", "slope"], ["y"])], "one", [x], [y], [constant])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    (made,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": np.ones(shape, np.float32)})
    return tuple(made.shape)


@pytest.mark.parametrize(("shape", "slope"), SHAPES)
def test_compiled_shapes_are_those_of_a_run(shape: tuple[int, ...], slope: tuple[int, ...], tmp_path: Path) -> None:
    model = scaled(shape, slope, summed=not shape)
    onnx.save(model, tmp_path / "m.onnx")
    models = open_models([str(tmp_path / "m.onnx")])
    prepared = random_inputs(models.graph, 0)
    ran = HostSides(models).run(prepared, True)
    assert models.graph.spec("y").shape == computed_shape(shape, slope)
    for side in ("reference", "simulator"):
        made = ran.recordings[side].tensors["y"]
        assert made.shape == computed_shape(shape, slope)
    reports = [ran.recordings[side].tensors["qy"].astype(int) for side in ("reference", "simulator")]
    assert np.abs(reports[0] - reports[1]).max() <= 1


def test_a_slope_of_more_dims_is_refused_by_the_name_of_its_node(tmp_path: Path) -> None:
    onnx.save(scaled((3,), (2, 3), summed=False), tmp_path / "m.onnx")
    with pytest.raises(UnsupportedError, match=r"PRelu_2 \(PRelu\): its slope has more dims than its input"):
        open_models([str(tmp_path / "m.onnx")])


def test_no_value_of_a_shape_is_taken_from_a_slope() -> None:
    """What stands for PRelu in the inference of shapes computes no values: a Reshape behind it has no known shape."""
    nodes = [
        helper.make_node("PRelu", ["dims", "slope"], ["p"]),
        helper.make_node("Reshape", ["x", "p"], ["y"]),
    ]
    constants = [numpy_helper.from_array(np.array([2, 3]), "dims"), numpy_helper.from_array(np.array([1, 1]), "slope")]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [6])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y], constants))
    assert infer_types(model, {})["p"][1] == (2,) and "y" not in infer_types(model, {})

"""Where onnxruntime's own float32 rounding decides: shapes of Resize, and tensors that are small beside what they are
computed from."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from qverify.cli.main import main
from qverify.session.models import open_models


def saved(
    folder: Path,
    nodes: list[onnx.NodeProto],
    shape: list[int],
    scale: float,
    zero: int = 0,
    opset: int = 17,
    dtype: int = TensorProto.FLOAT,
    **constants: object,
) -> str:
    """Writes x (uint8) -> DequantizeLinear -> real -> the nodes -> y, and returns the file's path."""
    values = {"scale": np.float32(scale), "zero": np.uint8(zero), **constants}
    first = helper.make_node("DequantizeLinear", ["x", "scale", "zero"], ["real"])
    graph = helper.make_graph(
        [first, *nodes],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, shape)],
        [helper.make_tensor_value_info("y", dtype, None)],
        [numpy_helper.from_array(np.asarray(v), n) for n, v in values.items()],
    )
    path = folder / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9), path)
    return str(path)


def judged(path: str, value: np.ndarray, folder: Path) -> int:
    np.save(folder / "x.npy", value)
    return main(
        ["-m", path, "-b", "local", "-r", "True", "-i", str(folder / "x.npy"), "--json", str(folder / "r.json")]
    )


@pytest.mark.parametrize("scale, size", [(0.7, 7), (0.3, 3), (1.1, 11), (0.69, 6)])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_resize_by_scales_has_onnxruntimes_shape(mode, scale, size, tmp_path):
    """10 * 0.7 is 7 in float32 and less in float64."""
    nodes = [helper.make_node("Resize", ["real", "", "by"], ["y"], mode=mode)]
    path = saved(tmp_path, nodes, [1, 1, 10, 10], 0.1, by=np.array([1, 1, 1, scale], np.float32))
    assert open_models([path]).graph.spec("y").shape == (1, 1, 10, size)
    assert judged(path, np.arange(100, dtype=np.uint8).reshape(1, 1, 10, 10), tmp_path) == 0


def test_a_normalized_group_of_equal_values_passes(tmp_path):
    """A kernel may fold the mean into a factor of 66 and a summand; what is left of x is then rounding."""
    constants = {"gamma": np.float32([2.0958]), "beta": np.float32([-0.3689])}
    nodes = [helper.make_node("InstanceNormalization", ["real", "gamma", "beta"], ["y"], epsilon=0.001)]
    path = saved(tmp_path, nodes, [1, 1, 5, 1], 7.88761568, **constants)
    assert judged(path, np.ones((1, 1, 5, 1), np.uint8), tmp_path) == 0


@pytest.mark.parametrize("kind", ["Elu", "Selu", "Celu"])
def test_a_function_near_zero_passes(kind, tmp_path):
    """A kernel may compute exp(x) - 1, which is off by 2^-24 of 1 and not of its result."""
    path = saved(tmp_path, [helper.make_node(kind, ["real"], ["y"])], [1, 64], 5.45e-8, 255)
    assert judged(path, np.arange(64, dtype=np.uint8)[None], tmp_path) == 0
    forced = [t["forced"] for p in json.loads((tmp_path / "r.json").read_text())["pairs"] for t in p["tensors"]]
    assert forced and all(f["verdict"] == "PASSED" for f in forced)


def test_a_gelu_far_below_zero_passes(tmp_path):
    """A kernel gets 0 where the exact value is 1e-9."""
    path = saved(tmp_path, [helper.make_node("Gelu", ["real"], ["y"])], [1, 8], 1.0, 255, opset=20)
    assert judged(path, np.arange(200, 208, dtype=np.uint8)[None], tmp_path) == 0


@pytest.mark.parametrize("kind", ["ArgMin", "ArgMax"])
def test_an_index_along_the_only_axis(kind, tmp_path):
    path = saved(
        tmp_path, [helper.make_node(kind, ["real"], ["y"], axis=0, keepdims=0)], [7], 0.5, dtype=TensorProto.INT64
    )
    assert judged(path, np.uint8([5, 3, 9, 3, 0, 9, 1]), tmp_path) == 0

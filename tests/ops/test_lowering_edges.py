"""What exporters write at the edges: old Resize, further attributes, awkward names, outputs that are inputs. Each is computed
as onnxruntime does, or refused by name; never computed as something else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from qverify.compare.options import Options
from qverify.compiler.compile_model import compile_model
from qverify.errors import QVerifyError, UnsupportedError
from qverify.session.job import verify
from qverify.session.request import Request

from tests.ops.qdq import Qdq

RNG = np.random.default_rng(3)


def chain(
    kind: str, shape: tuple[int, ...], more: dict[str, np.ndarray], opset: int = 17, **attributes: object
) -> onnx.ModelProto:
    """x -> Q -> DQ -> OP -> Q -> DQ -> y, u8; more: further constant inputs of OP, "" names kept as absent ones."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "sx", "zx"], ["xq"], name="q"),
        helper.make_node("DequantizeLinear", ["xq", "sx", "zx"], ["xd"], name="d"),
        helper.make_node(kind, ["xd", *(n.strip() for n in more)], ["m"], name="op", **attributes),
        helper.make_node("QuantizeLinear", ["m", "sx", "zx"], ["mq"], name="mq_n"),
        helper.make_node("DequantizeLinear", ["mq", "sx", "zx"], ["y"], name="y_n"),
    ]
    held = {"sx": np.float32(0.05), "zx": np.uint8(120)} | {k: v for k, v in more.items() if k.strip()}
    graph = helper.make_graph(
        nodes,
        "edge",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in held.items()],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)], ir_version=8
    )
    return onnx.shape_inference.infer_shapes(model)


def passes(model: onnx.ModelProto, tmp_path: Path) -> None:
    path = tmp_path / "edge.onnx"
    path.write_bytes(model.SerializeToString())
    check = compile_model(path.read_bytes(), "edge").graph.meta["check"]
    assert check["units"] and not check["over"] and not check["not_checked"]
    report = verify(Request([str(path)], "local", options=Options(dump_all=True))).report
    assert report.verdict == "PASSED" and all(p.bit_equal for p in report.pairs)


def pool_of_integers(**attributes: object) -> onnx.ModelProto:
    """x -> Q -> QLinearAveragePool -> DQ -> y, u8, with windows that reach beyond the padding."""
    parameters = ["sx", "zx", "sx", "zx"]
    window = {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [0, 0, 1, 1], **attributes}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "sx", "zx"], ["xq"], name="q"),
        helper.make_node("QLinearAveragePool", ["xq", *parameters], ["m"], "op", domain="com.microsoft", **window),
        helper.make_node("DequantizeLinear", ["m", "sx", "zx"], ["y"], name="d"),
    ]
    graph = helper.make_graph(
        nodes,
        "edge",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 2, 5, 6))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(v, k) for k, v in (("sx", np.array(0.05, "f4")), ("zx", np.array(120, "u1")))],
    )
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=domains, ir_version=8)


def larger_than_padded(kind: str, spatial: int, opset: int, **attributes: object) -> onnx.ModelProto:
    """A first axis of 1 element and 1 of padding, which are fewer than its 3 taps; onnxruntime still makes a window."""
    window = {
        "kernel_shape": [3] * spatial,
        "strides": [2] * spatial,
        "pads": [0] * spatial + [1] + [0] * (spatial - 1),
    }
    return chain(kind, (1, 2, 1, *[6] * (spatial - 1)), {}, opset, **window, **attributes)


def of_floats(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model of `chain` with a Neg before its operator, which then reads a tensor that is not quantized."""
    model.graph.node.insert(2, helper.make_node("Neg", ["xd"], ["t"], name="t_n"))
    model.graph.node[3].input[0] = "t"
    return model


def pool_of_the_whole_image() -> onnx.ModelProto:
    """So many means that some lie half way between two integers, where a sum of floats ends above or below."""
    model = chain("AveragePool", (4, 500, 8, 8), {}, kernel_shape=[8, 8], strides=[3, 1])
    for held in model.graph.initializer:
        if held.name == "zx":
            held.CopyFrom(numpy_helper.from_array(np.array(0, np.uint8), "zx"))
    return model


def recurrent(kind: str = "LSTM", batch: int = 1, **attributes: object) -> onnx.ModelProto:
    """A recurrence of 2 steps with 3 inputs and 4 units; DynamicQuantizeLSTM with its scales and zero points."""
    gates = {"GRU": 3, "RNN": 1}.get(kind, 4) * 4
    w, r = (RNG.normal(0, 0.5, (1, gates, k)).astype(np.float32) for k in (3, 4))
    more: dict[str, np.ndarray] = {"w": w, "r": r}
    if kind == "DynamicQuantizeLSTM":
        more = {n: (v * 50).astype(np.int8).swapaxes(1, 2) for n, v in more.items()} | {" " * k: w for k in range(5)}
        for name in ("w", "r"):
            more |= {f"{name}s": np.full(1, 0.02, np.float32), f"{name}z": np.zeros(1, np.int8)}
        attributes["domain"] = "com.microsoft"
    return chain(kind, (2, batch, 3), more, hidden_size=4, **attributes)


def recurrent_of_lengths() -> onnx.ModelProto:
    model = recurrent("DynamicQuantizeLSTM")
    model.graph.node[2].input[4] = "lengths"
    model.graph.initializer.append(numpy_helper.from_array(np.array([2], np.int32), "lengths"))
    return model


SCALES = np.array([1, 1, 2, 1.5], np.float32)
RIGHT: dict[str, Callable[[], onnx.ModelProto]] = {
    "resize_by_scales_to_the_same_dims": lambda: chain(
        "Resize", (1, 2, 5, 6), {"": np.empty(0), "scales": np.array([1, 1, 1.1, 1.05], np.float32)}, 13, mode="linear"
    ),
    "resize_10_nearest": lambda: chain("Resize", (1, 2, 5, 6), {"scales": SCALES}, 10, mode="nearest"),
    "resize_10_linear": lambda: chain("Resize", (1, 2, 5, 6), {"scales": SCALES}, 10, mode="linear"),
    "resize_18_axes": lambda: chain(
        "Resize", (1, 2, 5, 6), {"": np.empty(0), "scales": SCALES[2:]}, 18, mode="nearest", axes=[2, 3]
    ),
    **{
        f"half_pixel_symmetric_{mode}": lambda mode=mode: chain(
            "Resize",
            (1, 2, 5, 6),
            {"": np.empty(0), "scales": np.array([1, 1, 1.3, 0.7], np.float32)},
            19,
            mode=mode,
            coordinate_transformation_mode="half_pixel_symmetric",
        )
        for mode in ("nearest", "linear")
    },
    "reduce_mean_of_nothing": lambda: chain("ReduceMean", (1, 2, 5, 6), {}, 18, noop_with_empty_axes=1),
    "reduce_mean_of_an_empty_list": lambda: chain(
        "ReduceMean", (1, 2, 5, 6), {"a": np.empty(0, np.int64)}, 18, noop_with_empty_axes=0
    ),
    "reduce_max_of_nothing": lambda: chain("ReduceMax", (1, 2, 5, 6), {}, 18, noop_with_empty_axes=1, keepdims=0),
    "reduce_mean_all": lambda: chain("ReduceMean", (1, 2, 5, 6), {}, 17, keepdims=0),
    "pad_18_axes": lambda: chain(
        "Pad", (1, 2, 5, 6), {"pads": np.array([1, 2], np.int64), "": np.empty(0), "axes": np.array([3], np.int64)}, 18
    ),
    "clip_whose_limits_cross": lambda: chain("Clip", (1, 2, 5, 6), {"lo": np.float32(0.5), "hi": np.float32(-0.7)}),
    "average_pool_of_integers": lambda: pool_of_integers(ceil_mode=1, count_include_pad=1),
    "average_pool_ceil": lambda: chain(
        "AveragePool", (1, 2, 5, 6), {}, 17, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1
    ),
    "average_pool_ceil_within_the_padding": lambda: chain(
        "AveragePool", (1, 2, 6, 6), {}, 17, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1, count_include_pad=1
    ),
    **{
        f"average_pool_larger_than_padded_{spatial}d_{opset}": lambda spatial=spatial, opset=opset: larger_than_padded(
            "AveragePool", spatial, opset, count_include_pad=1
        )
        for spatial in (1, 2)
        for opset in (18, 19)  # onnxruntime divides by the whole kernel in the first, by its part inside in the other
    },
    **{
        f"average_pool_of_floats_larger_than_padded_{opset}": lambda opset=opset: of_floats(
            larger_than_padded("AveragePool", 2, opset, count_include_pad=1)
        )
        for opset in (18, 19)
    },
    "average_pool_of_the_whole_image": lambda: pool_of_the_whole_image(),
}


@pytest.mark.parametrize("name", RIGHT)
def test_computed_as_onnxruntime_does(name: str, tmp_path: Path) -> None:
    passes(RIGHT[name](), tmp_path)


REFUSED: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "antialias_of_nearest": (
        lambda: chain("Resize", (1, 2, 5, 6), {"": np.empty(0), "scales": SCALES}, 18, mode="nearest", antialias=1),
        "antialias",
    ),
    "a_region": (
        lambda: chain(
            "Resize",
            (1, 2, 5, 6),
            {"": np.empty(0), "scales": SCALES},
            19,
            mode="cubic",
            coordinate_transformation_mode="tf_crop_and_resize",
        ),
        "coordinate_transformation_mode=tf_crop_and_resize",
    ),
    "aspect": (
        lambda: chain(
            "Resize",
            (1, 2, 5, 6),
            {"": np.empty(0), " ": np.empty(0), "sizes": np.array([7, 9])},
            18,
            keep_aspect_ratio_policy="not_larger",
            axes=[2, -1],
        ),
        "with keep_aspect_ratio_policy, which onnxruntime does not resize",
    ),
    "a_type_no_page_lowers": (
        lambda: chain("MaxRoiPool", (1, 2, 5, 6), {"rois": np.float32([[0, 0, 0, 3, 3]])}, 17, pooled_shape=[2, 2]),
        "this operator is not supported",
    ),
    "dilated_and_same": (
        lambda: chain("MaxPool", (1, 2, 5, 6), {}, 17, kernel_shape=[2, 2], dilations=[2, 1], auto_pad="SAME_UPPER"),
        "auto_pad with dilations",
    ),
    "same_of_less_than_a_stride": (
        lambda: chain("MaxPool", (1, 2, 9, 6), {}, 17, kernel_shape=[1, 2], strides=[3, 1], auto_pad="SAME_UPPER"),
        "smaller than its stride",
    ),
    "lp_pool_larger_than_padded": (
        lambda: larger_than_padded("LpPool", 2, 19),
        "a kernel larger than the padded input is not supported",
    ),
    "conv_transpose_3d_same_and_output_padding": (
        lambda: chain(
            "ConvTranspose",
            (1, 2, 4, 5, 6),
            {"w": np.ones((2, 3, 2, 2, 2), np.float32)},
            auto_pad="SAME_UPPER",
            strides=[2, 2, 2],
            output_padding=[1, 1, 1],
        ),
        "output_padding with auto_pad=SAME_UPPER is not supported",
    ),
    "conv_transpose_same_and_output_padding": (
        lambda: chain(
            "ConvTranspose",
            (1, 2, 5, 6),
            {"w": np.ones((2, 3, 2, 2), np.float32)},
            auto_pad="SAME_UPPER",
            strides=[2, 2],
            output_padding=[1, 1],
        ),
        "output_padding with auto_pad=SAME_UPPER is not supported",
    ),
    "lstm_of_an_unknown_activation": (
        lambda: recurrent("LSTM", activations=["Sigmoid", "Tanh", "Mish"]),
        "activation Mish is not supported; known: ",
    ),
    "lstm_of_too_few_activations": (
        lambda: recurrent("LSTM", activations=["Sigmoid", "Tanh"]),
        "2 activations, wanted 3",
    ),
    "dynamic_lstm_of_a_batch": (
        lambda: recurrent("DynamicQuantizeLSTM", batch=2),
        "a batch of 2, whose result in onnxruntime depends on its number of threads",
    ),
    "dynamic_lstm_of_lengths": (recurrent_of_lengths, "sequence_lens is not supported"),
    "conv_transpose_by_infinity": (
        lambda: chain("ConvTranspose", (1, 2, 5, 6), {"w": np.full((2, 3, 1, 1), np.inf, np.float32)}),
        "not finite constants",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name: str) -> None:
    build, said = REFUSED[name]
    with pytest.raises(UnsupportedError, match=f"op .*{said}"):
        compile_model(build().SerializeToString(), "edge")


def test_a_node_that_nothing_needs_is_not_asked_for_its_attributes(tmp_path: Path) -> None:
    model = chain("Relu", (1, 2, 5, 6), {})
    model.graph.node.append(helper.make_node("SplitToSequence", ["m"], ["unused"], name="left_over", axis=1))
    passes(model, tmp_path)


def test_a_further_output_that_is_used_is_refused() -> None:
    model = chain("SimplifiedLayerNormalization", (1, 2, 5, 6), {"scale": np.ones(6, np.float32)})
    model.graph.node[2].output.append("mean")
    model.graph.output.append(helper.make_tensor_value_info("mean", TensorProto.FLOAT, (1, 2, 5, 1)))
    with pytest.raises(UnsupportedError, match=r"op .*further output 'mean'"):
        compile_model(model.SerializeToString(), "edge")


def test_the_type_of_a_quantize_linear_without_zero_point(tmp_path: Path) -> None:
    model = chain("Relu", (1, 2, 5, 6), {}, 21)
    model.ir_version = 10
    for node in model.graph.node:
        if node.name in ("mq_n", "y_n"):
            del node.input[2]
        if node.name == "mq_n":
            node.attribute.append(helper.make_attribute("output_dtype", int(TensorProto.INT8)))
    del model.graph.value_info[:]  # inferred before mq became int8
    passes(model, tmp_path)


@pytest.mark.parametrize("name", ["mq/table", "result", "every", "xq/rq", "m~"])
def test_tensors_named_as_the_compiler_would(name: str, tmp_path: Path) -> None:
    model = chain("LeakyRelu", (1, 2, 5, 6), {})
    for node in model.graph.node:
        node.input[:] = [name if n == "m" else n for n in node.input]
        node.output[:] = [name if n == "m" else n for n in node.output]
    passes(model, tmp_path)


def test_nodes_without_names_and_one_that_looks_made(tmp_path: Path) -> None:
    model = chain("Relu", (1, 2, 5, 6), {})
    for node in model.graph.node:
        node.name = "QuantizeLinear_0" if node.op_type == "Relu" else ""
    passes(model, tmp_path)


def test_an_input_that_is_an_output_too(tmp_path: Path) -> None:
    model = chain("Relu", (1, 2, 5, 6), {})
    model.graph.output.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 2, 5, 6)))
    passes(model, tmp_path)


def test_a_scalar_input(tmp_path: Path) -> None:
    passes(chain("Relu", (), {}), tmp_path)


@pytest.mark.parametrize("act", ["uint8", "uint16", "int16"])
@pytest.mark.parametrize("kind", ["Mul", "Add", "Max"])
def test_two_scalars(act: str, kind: str, tmp_path: Path) -> None:
    m = Qdq(act=act, seed=3)
    m.output(m.quantize(m.op(kind, [m.input(()), m.input(())])))
    passes(m.model(), tmp_path)


def test_a_model_that_computes_nothing_is_no_pass(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("QuantizeLinear", ["x", "s"], ["unused"])],
        "nothing",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2,))],
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2,))],
        [numpy_helper.from_array(np.float32(0.1), "s")],
    )
    path = tmp_path / "nothing.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    )
    with pytest.raises(QVerifyError, match="no node could be checked"):
        verify(Request([str(path)], "local"))


def test_a_requantization_scale_that_underflows(tmp_path: Path):
    """A dead branch: the scales of both operands are so small that onnxruntime's float32 product of them is 0."""
    model = chain("MatMul", (2, 8), {"w": np.zeros((8, 4), np.float32)})
    small = np.float32(1e-30)
    for name, value in (("sx", small), ("sy", np.float32(1))):
        old = next((t for t in model.graph.initializer if t.name == name), None)
        if old is not None:
            model.graph.initializer.remove(old)
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    weights = RNG.integers(-127, 128, (8, 4)).astype(np.int8)
    parameters = {"wq": weights, "sw": np.float32(1e-20), "zw": np.int8(0)}
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), n) for n, v in parameters.items())
    model.graph.node.insert(0, helper.make_node("DequantizeLinear", ["wq", "sw", "zw"], ["w2"], name="w_n"))
    nodes = {node.name: node for node in model.graph.node}
    nodes["op"].input[1] = "w2"
    for name in ("mq_n", "y_n"):
        nodes[name].input[1] = "sy"
    passes(model, tmp_path)
    graph = compile_model(model.SerializeToString(), "edge").graph
    assert np.finfo(np.float32).tiny in [v.reshape(-1)[0] for n, v in graph.constants.items() if n.endswith("/rq")]


def test_a_mask_that_dequantizes_to_minus_infinity(tmp_path: Path):
    """The lowest float32 is -32767 steps of a scale that float32 rounds up, so that onnxruntime adds minus infinity."""
    m = Qdq("int16", opset=21)
    parameters = [m.constant("mask_scale", np.float32(1.0384911e34)), m.constant("mask_zp", np.int16(0))]
    limits = [m.constant("none", np.float32(0)), m.constant("lowest", np.float32(-3.4028235e38))]
    mask = m.op("Where", [m.op("Greater", [m.input((2, 5, 7)), m.input((5, 7), -9, 9)]), *limits])
    mask = m.op("DequantizeLinear", [m.op("QuantizeLinear", [mask, *parameters]), *parameters])
    total = m.op("QuantizeLinear", [m.op("Add", [m.input((2, 5, 7)), mask]), *parameters])
    finite = [m.constant("least", np.float32(-3)), m.constant("most", np.float32(3))]
    m.output(m.quantize(m.op("Clip", [m.op("DequantizeLinear", [total, *parameters]), *finite])))
    passes(m.model(), tmp_path)


def test_weights_with_a_scale_for_each_matrix(tmp_path: Path):
    """onnxruntime has no integer kernel for scales along the batch dim: the float32 product of the dequantized weights."""
    m = Qdq()
    m.output(m.quantize(m.op("MatMul", [m.input((1, 3, 5, 8)), m.weight((1, 3, 8, 6), axis=1)])))
    path = tmp_path / "q.onnx"
    path.write_bytes(m.model().SerializeToString())
    assert {"matmul_float"} <= {node.op for node in compile_model(path.read_bytes(), "q").graph.nodes}
    assert verify(Request([str(path)], "local", options=Options(dump_all=True))).report.verdict == "PASSED"


def test_an_addition_whose_ratio_of_scales_underflows(tmp_path: Path):
    """A QLinearAdd of scores and a mask of the lowest float32: float32 has no ratio of their scales but 0."""
    names = ["sa", "za", "bq", "sb", "zb", "sy", "zy"]
    held = dict.fromkeys(("za", "zb", "zy"), np.uint8(120)) | {
        "sa": np.float32(1e-9), "sb": np.float32(1e37), "sy": np.float32(1e37),
        "bq": RNG.integers(100, 140, (2, 8)).astype(np.uint8),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "sa", "za"], ["aq"], name="q"),
        helper.make_node("QLinearAdd", ["aq", *names], ["yq"], name="op", domain="com.microsoft"),
        helper.make_node("DequantizeLinear", ["yq", "sa", "zy"], ["y"], name="d"),
    ]
    model = chain("Relu", (2, 8), {})
    del model.graph.node[:], model.graph.initializer[:], model.graph.value_info[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), n) for n, v in held.items())
    passes(model, tmp_path)

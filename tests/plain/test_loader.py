"""Files as tools write them: nodes in any order, constants computed in the graph, functions, partial shapes. Each gives
what onnxruntime gives for it, or is refused by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from qverify.compiler.compile_model import compile_model
from qverify.errors import BadFileError, UnsupportedError
from qverify.onnx_model.value_shaped import find_value_shaped

from tests.ops.qdq import Qdq
from tests.plain.verified_model import array, passes, put_first, small, take


def refused(model: onnx.ModelProto, said: str, kind: type[Exception] = UnsupportedError) -> None:
    with pytest.raises(kind, match=said):
        compile_model(model.SerializeToString(), "q.onnx")


@pytest.mark.parametrize("seed", range(3))
def test_nodes_in_any_order(seed: int, tmp_path: Path):
    model, sorted_one = small(), small()
    nodes = [onnx.NodeProto.FromString(n.SerializeToString()) for n in model.graph.node]
    order = np.random.default_rng(seed).permutation(len(nodes))
    del model.graph.node[:]
    model.graph.node.extend(nodes[i] for i in order)
    graph = passes(model, tmp_path)
    assert {n.name for n in graph.nodes} == {n.name for n in passes(sorted_one, tmp_path).nodes}


@pytest.mark.parametrize(("opset", "ir_version"), [(10, 3), (11, 5), (13, 6), (18, 9), (21, 10), (23, 11), (25, 13)])
def test_versions_that_onnxruntime_takes(opset: int, ir_version: int, tmp_path: Path):
    """Also with initializers listed as inputs, as ir_version 3 wants them, and without."""
    m = Qdq(seed=4, opset=opset)
    x, w = m.input((1, 3, 7, 5)), m.weight((3, 3, 3, 3))
    m.output(m.quantize(m.op("Relu", [m.op("Conv", [x, w, m.bias(x, w, 3)])])))
    model = m.model()
    model.ir_version = ir_version
    passes(model, tmp_path)
    kinds = [(i.name, i.data_type, i.dims) for i in model.graph.initializer]
    model.graph.input.extend(helper.make_tensor_value_info(*kind) for kind in kinds)
    passes(model, tmp_path)


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("opset", [17, 22])
def test_windows_behind_the_padding_are_not_counted(kind: str, opset: int):
    """onnxruntime leaves them out in every opset; ONNX's inference only from 22 on."""
    m = Qdq(seed=4, opset=opset)
    window = {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 0, 1], "ceil_mode": 1}
    m.output(m.op(kind, [m.op("Exp", [m.input((1, 5, 9, 11))])], **window))
    model = m.model()
    model.graph.output[0].type.tensor_type.ClearField("shape")
    graph = compile_model(model.SerializeToString(), "q.onnx").graph
    assert graph.spec(graph.outputs[0]).shape == (1, 5, 5, 4)
    assert not graph.meta["check"]["over"] and not graph.meta["check"]["not_checked"]


def test_a_cycle_is_refused():
    model = small()
    conv = next(n for n in model.graph.node if n.op_type == "Conv")
    conv.input[0] = next(n for n in model.graph.node if n.op_type == "Add").output[0]
    refused(model, "waits for its own result", BadFileError)


def test_two_makers_of_one_tensor_are_refused():
    model = small()
    model.graph.node.add().CopyFrom(model.graph.node[0])
    refused(model, "two nodes make the tensor", BadFileError)


def test_scales_and_zero_points_as_constant_nodes(tmp_path: Path):
    model = small()
    names = [i.name for i in model.graph.initializer if i.name.endswith(("_scale", "_zp"))]
    put_first(model, *(helper.make_node("Constant", [], [n], value=take(model, n)) for n in names))
    passes(model, tmp_path)


@pytest.mark.parametrize("shared", [False, True])
def test_scales_that_are_rows_of_one_element(shared: bool, tmp_path: Path):
    """tf2onnx writes them; onnxruntime's integer Mul and LeakyRelu take scalars only."""
    m = Qdq(seed=7)
    x = m.input((1, 3, 7, 5))
    y = m.quantize(m.op("LeakyRelu", [m.quantize(m.op("Mul", [x, m.input((1, 3, 7, 5))]))]))
    w = m.weight((3, 3, 3, 3))
    m.output(m.quantize(m.op("Conv", [y, w, m.bias(y, w, 3)])))
    model = m.model()
    for initializer in model.graph.initializer:
        if not initializer.dims:
            initializer.dims.append(1)
    if shared:  # another node reads a zero point as a row
        zero = next(i.name for i in model.graph.initializer if i.name.endswith("_zp"))
        model.graph.input.append(helper.make_tensor_value_info("chosen", TensorProto.BOOL, (1,)))
        nodes = [
            helper.make_node("Where", ["chosen", zero, zero], [f"{zero}/scalar"]),
            helper.make_node("Cast", [f"{zero}/scalar"], ["row"], to=TensorProto.FLOAT),
            helper.make_node("Add", [model.graph.output[0].name, "row"], ["sum"]),
        ]
        model.graph.node.extend(nodes)
        model.graph.output.append(helper.make_tensor_value_info("sum", TensorProto.FLOAT, None))
    passes(model, tmp_path)


def test_outputs_that_are_constants(tmp_path: Path):
    """An initializer that nobody reads, quantized weights, a Constant, and the shape of a tensor."""
    model = small()
    constants = {i.name: i.data_type for i in model.graph.initializer}
    weights = next(n.input[0] for n in model.graph.node if n.op_type == "DequantizeLinear" and n.input[0] in constants)
    names = numpy_helper.from_array(np.array([3, 1, 2], np.int64), "classes")
    model.graph.initializer.append(names)
    model.graph.node.append(helper.make_node("Constant", [], ["threshold"], value_float=0.25))
    model.graph.node.append(helper.make_node("Shape", [model.graph.output[0].name], ["dims"]))
    types = {
        "classes": TensorProto.INT64,
        weights: constants[weights],
        "threshold": TensorProto.FLOAT,
        "dims": TensorProto.INT64,
    }
    model.graph.output.extend(helper.make_tensor_value_info(name, kind, None) for name, kind in types.items())
    graph = passes(model, tmp_path)
    assert list(graph.outputs)[1:] == [*types]


def test_scales_computed_from_constants(tmp_path: Path):
    model = small()
    names = [i.name for i in model.graph.initializer if i.name.endswith("_scale")]
    for name in names:
        half = numpy_helper.to_array(take(model, name)) / np.float32(2)
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(half), f"{name}/half"))
        put_first(model, helper.make_node("Add", [f"{name}/half", f"{name}/half"], [name]))
    passes(model, tmp_path)


def test_weights_stored_float_then_quantized_and_clipped(tmp_path: Path):
    """float -> Q -> Clip of integers -> DQ, as TensorRT, ModelOpt and Brevitas store weights."""
    m = Qdq(seed=5)
    x = m.input((1, 3, 7, 5))
    real = m.constant("w", m.rng.uniform(-0.4, 0.4, (4, 3, 3, 3)).astype(np.float32))
    s, z = m.constant("ws", np.full(4, 0.003, np.float32)), m.constant("wz", np.zeros(4, np.int8))
    q = m.op("QuantizeLinear", [real, s, z], axis=0)
    low, high = m.constant("low", np.int8(-100)), m.constant("high", np.int8(101))
    w = m.op("DequantizeLinear", [m.op("Clip", [q, low, high]), s, z], axis=0)
    m.output(m.quantize(m.op("Conv", [x, w])))
    passes(m.model(), tmp_path)


def reshaped() -> onnx.ModelProto:
    """A Reshape whose dims are computed from the shape of its input, as torch exports x.view(x.size(0), -1)."""
    m = Qdq(seed=6)
    x = m.input((2, 3, 4, 5))
    for name, value in (("zero", 0), ("axis", [0]), ("rest", [-1])):
        m.constant(name, np.array(value, np.int64))
    batch = m.op("Gather", [m.op("Shape", [x]), "zero"], axis=0)
    dims = m.op("Concat", [m.op("Unsqueeze", [batch, "axis"]), "rest"], axis=0)
    w = m.weight((60, 7), axis=1)
    m.output(m.quantize(m.op("Gemm", [m.quantize(m.op("Reshape", [x, dims]), like=x), w])))
    return m.model()


def test_shape_arithmetic(tmp_path: Path):
    graph = passes(reshaped(), tmp_path)
    assert {n.op for n in graph.nodes} <= {"quantize", "reshape", "fully_connected", "dequantize"}


def test_what_the_file_says_of_inner_tensors_is_not_used(tmp_path: Path):
    """Symbolic, missing and wrong shapes of inner tensors and outputs."""
    model = reshaped()
    kept = [onnx.ValueInfoProto.FromString(v.SerializeToString()) for v in model.graph.value_info]
    del model.graph.value_info[:]
    for at, info in enumerate(kept):
        dims = info.type.tensor_type.shape.dim
        if at % 3 == 1 and dims:
            dims[0].dim_param = "batch"
        if at % 3 == 2:
            info.type.tensor_type.ClearField("shape")
        model.graph.value_info.append(info)
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "n"
    passes(model, tmp_path)


def test_shapes_of_operators_that_inference_does_not_know(tmp_path: Path):
    """Shape of the output of a com.microsoft operator: by a run, then folded."""
    model = compiled_integer_form(reshaped())
    passes(model, tmp_path, plain=False)


def compiled_integer_form(model: onnx.ModelProto) -> onnx.ModelProto:
    integer = onnx.ModelProto.FromString(compile_model(model.SerializeToString(), "q.onnx").integer_onnx)
    del integer.graph.value_info[:]
    integer.graph.output[0].type.tensor_type.ClearField("shape")
    return integer


def test_a_shape_that_depends_on_values_is_refused():
    m = Qdq(seed=6)
    x = m.input((2, 3, 4))
    m.constant("to", np.array([3, -1], np.int64))
    found = m.op("NonZero", [x])
    flat = m.op("Cast", [found], to=TensorProto.FLOAT)
    s, z = m.constant("s", np.float32(0.1)), m.constant("z", np.uint8(3))
    m.output(m.op("DequantizeLinear", [m.op("QuantizeLinear", [flat, s, z]), s, z]))
    refused(m.model(), "depends on the values of the inputs|NonZero")


def test_a_constant_of_boundless_size_is_not_computed():
    model = small()
    model.graph.initializer.append(numpy_helper.from_array(np.array([2**20, 2**20], np.int64), "huge"))
    put_first(model, helper.make_node("ConstantOfShape", ["huge"], ["zeros"]))
    add = next(n for n in model.graph.node if n.op_type == "Add")
    model.graph.node.append(helper.make_node("ReduceSum", ["zeros"], ["sum"], keepdims=0))
    model.graph.node.append(helper.make_node("Add", [add.output[0], "sum"], ["more"]))
    model.graph.output.append(helper.make_tensor_value_info("more", TensorProto.FLOAT, None))
    refused(model, "ConstantOfShape|ReduceSum")


def function_model(depth: int = 1, recursive: bool = False) -> onnx.ModelProto:
    """A Conv whose QuantizeLinear and DequantizeLinear are in a function, `depth` functions deep."""
    model = small()
    opset = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    inner = [
        helper.make_node("QuantizeLinear", ["v", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["r"]),
    ]
    bodies = [helper.make_function("own", "fake0", ["v", "s", "z"], ["r"], inner, opset)]
    for at in range(1, depth):
        calls = [
            helper.make_node(f"fake{at - 1}", ["v", "s", "z"], ["t"], domain="own"),
            helper.make_node(f"fake{at - 1}", ["t", "s", "z"], ["r"], domain="own"),
        ]
        bodies.append(helper.make_function("own", f"fake{at}", ["v", "s", "z"], ["r"], calls, opset))
    if recursive:
        bodies[0].node.append(helper.make_node(f"fake{depth - 1}", ["v", "s", "z"], ["again"], domain="own"))
    model.functions.extend(bodies)
    model.opset_import.append(opset[1])
    pairs = [n for n in model.graph.node if n.op_type == "QuantizeLinear"][1:]
    for quantize in pairs:
        back = next(n for n in model.graph.node if n.op_type == "DequantizeLinear" and n.input[0] == quantize.output[0])
        quantize.op_type, quantize.domain = f"fake{depth - 1}", "own"
        quantize.output[0] = back.output[0]
        model.graph.node.remove(back)
    return model


def test_functions_are_written_out(tmp_path: Path):
    graph = passes(function_model(), tmp_path)
    assert {"conv", "add"} <= {n.op for n in graph.nodes}


def test_a_function_that_calls_itself_is_refused():
    refused(function_model(2, recursive=True), "calls itself", BadFileError)
    refused(function_model(1, recursive=True), "calls itself", BadFileError)


def test_functions_that_become_too_many_nodes_are_refused():
    refused(function_model(40), "have more than 262144 nodes", BadFileError)


def test_folding_is_of_the_same_bits(tmp_path: Path):
    """The weight that a chain of constants gives is onnxruntime's, not numpy's."""
    model = small()
    name = next(n.input[1] for n in model.graph.node if n.op_type == "DequantizeLinear" and "i8" in n.input[0])
    before = array(model, name)
    put_first(model, helper.make_node("Mul", ["base", "by"], [name]))
    take(model, name)
    held = {"base": (before / np.float32(3)).astype(np.float32), "by": np.float32(3)}
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), n) for n, v in held.items())
    passes(model, tmp_path)


OMITTED = {  # inputs of a QLinear operator between uint8 tensors; a zero point is "" or left out at the end
    "QLinearAdd": (["x", "s", "z", "x", "t", "z", "s"], {}),
    "QLinearMul": (["x", "s", "z", "x", "t", "z", "t"], {}),
    "QLinearSigmoid": (["x", "s", "", "t", "z"], {}),
    "QLinearLeakyRelu": (["x", "s", "", "t", "z"], {"alpha": 0.2}),
    "QLinearAveragePool": (["x", "s", "z", "s"], {"kernel_shape": [2, 2]}),
    "QLinearSoftmax": (["x", "s", "", "t", "z"], {"axis": -1, "opset": 13}),
}


@pytest.mark.parametrize("kind", OMITTED)
def test_zero_points_left_out(kind: str, tmp_path: Path):
    passes(left_out(kind, *OMITTED[kind]), tmp_path)


@pytest.mark.parametrize("kind", ["QLinearSigmoid", "QLinearLeakyRelu"])
def test_a_zero_point_without_which_onnxruntime_aborts(kind: str):
    refused(left_out(kind, ["x", "s", "z", "t"], {}), "has no Y_zero_point")


def left_out(kind: str, inputs: list[str], attributes: dict[str, object]) -> onnx.ModelProto:
    held = {"s": np.float32(0.05), "t": np.float32(0.03), "z": np.uint8(7)}
    x = helper.make_tensor_value_info("x", TensorProto.UINT8, (1, 2, 7, 5))
    y = helper.make_tensor_value_info("y", TensorProto.UINT8, None)
    node = helper.make_node(kind, inputs, ["y"], name="op", domain="com.microsoft", **attributes)
    constants = [numpy_helper.from_array(np.asarray(v), n) for n, v in held.items()]
    graph = helper.make_graph([node], "g", [x], [y], constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def test_tables_of_16_bits_in_the_domain_of_onnxruntime(tmp_path: Path):
    """com.microsoft's QuantizeLinear at an opset whose own knows no 16 bits, as Quark writes it."""
    m = Qdq("uint16", seed=7)
    m.output(m.quantize(m.op("Sigmoid", [m.input((3, 5))])))
    model = m.model()
    for node in model.graph.node:
        node.domain = "com.microsoft" if "Linear" in node.op_type else node.domain
    model.opset_import[0].version = 17
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    graph = passes(model, tmp_path)
    assert "lookup" in {n.op for n in graph.nodes}


def test_the_shape_of_a_branch_that_reads_found_places_depends_on_values():
    value = helper.make_tensor_value_info
    branch = helper.make_graph([helper.make_node("Identity", ["found"], ["b"])], "branch", [], [value("b", 7, None)])
    nodes = [
        helper.make_node("NonZero", ["x"], ["found"]),
        helper.make_node("If", ["condition"], ["y"], then_branch=branch, else_branch=branch),
    ]
    inputs = [value("x", TensorProto.FLOAT, (2, 3)), value("condition", TensorProto.BOOL, ())]
    graph = helper.make_graph(nodes, "g", inputs, [value("y", TensorProto.INT64, None)])
    types = {"x": (TensorProto.FLOAT, (2, 3)), "condition": (TensorProto.BOOL, ())}
    assert find_value_shaped(graph, types, graphs=False) == {"found", "y"}

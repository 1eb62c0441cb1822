"""The quantized ONNX that is written from tpu-mlir's text: the integers of the real toolkit, free-running, and the rules of
both chips on a small network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from qverify.arithmetic.forms import Form, make_addition_rq
from qverify.arithmetic.stated_multipliers import MULTIPLIERS, read_multipliers
from qverify.cli.main import main
from qverify.compare.identify.arithmetic_file import forms_of_ops
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.errors import BadFileError
from qverify.session.stated_arithmetics import open_arithmetic
from qverify.vendor_files.tpu_mlir import is_module, read_module
from qverify.vendor_files.tpu_mlir_names import onnx_names
from qverify.vendor_quantization.sophgo import write_quantized

SHARED = Path(__file__).parents[3] / "shared"
REAL = SHARED / "vendor-real" / "tpu-mlir-1.30.2" / "resnet8"
RESNET8 = SHARED / "models" / "resnet8_cifar10" / "resnet8_cifar10.onnx"
BM, CV = "bm1684x", "cv181x"
need_real = pytest.mark.skipif(not (REAL.is_dir() and RESNET8.is_file()), reason="needs ../shared/vendor-real")


def simulate(model: bytes, arithmetic: str, inputs: dict[str, np.ndarray], folder: Path) -> dict[str, np.ndarray]:
    """Returns every tensor of the simulator as real values, by name."""
    (folder / "q.onnx").write_bytes(model)
    np.savez(folder / "in.npz", **inputs)
    words = ["compile", str(folder / "q.onnx"), "-o", str(folder / "q.bin"), "--arithmetic", arithmetic]
    assert main(words) == 0
    words = ["infer", "-m", str(folder / "q.bin"), "-i", str(folder / "in.npz"), "-o", str(folder / "dump")]
    assert main([*words, "--dequantize"]) == 0
    manifest = json.loads((folder / "dump" / "manifest.json").read_text())["tensors"]
    return {name: np.load(folder / "dump" / file) for file, name in manifest.items()}


@need_real
@pytest.mark.parametrize(("chip", "dump"), [(BM, "tpu_outputs"), (CV, "model_outputs")])
def test_the_real_toolkits_integers_free_running(chip: str, dump: str, tmp_path: Path) -> None:
    text = REAL / f"resnet8_{chip}_int8_sym_tpu.mlir"
    quantized = write_quantized(RESNET8.read_bytes(), {text.name: text.read_bytes()})
    assert quantized.arithmetic == f"sophgo-{chip}" and any(
        "weights are quantized here" in c for c in quantized.changes
    )
    given = dict(np.load(REAL / "resnet8_in_f32.npz"))
    own = simulate(quantized.onnx, quantized.arithmetic, given, tmp_path)
    real = np.load(REAL / f"resnet8_{chip}_int8_sym_{dump}.npz")
    paired = {n: quantized.names[n] for n in real.files if quantized.names.get(n, "") in own}
    in_floats = {n for n in paired if chip == CV and "Softmax" in n}  # bfloat16 on this chip
    for name, tensor in paired.items():
        if name not in in_floats:
            assert np.array_equal(own[tensor].ravel(), real[name].ravel()), name
    compared = sum(real[n].size for n in paired if n not in in_floats)
    assert compared == {BM: 117_938, CV: 3_082}[chip]  # the logits of cv181x depend on everything before them


SCALES = {"x": 0.03, "a": 0.02, "b": 0.05, "y": 0.04}


def a_network() -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Returns a float network of two convolutions whose results are added, with its weights."""
    rng = np.random.default_rng(1)
    weights = {n: rng.normal(0, 0.3, (4, 3, 1, 1)).astype(np.float32) for n in ("wa", "wb")}
    weights |= {n: rng.normal(0, 0.5, 4).astype(np.float32) for n in ("ba", "bb")}
    nodes = [
        helper.make_node("Conv", ["x", "wa", "ba"], ["a"]),
        helper.make_node("Conv", ["x", "wb", "bb"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    ends = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, c, 16, 16])] for n, c in (("x", 3), ("y", 4))]
    constants = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "two", *ends, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), weights


def a_text(chip: str, steps: dict[str, tuple[list[int], list[int]]], mode: str) -> str:
    """Returns what tpu-mlir would write of a_network()."""

    def kind(name: str, channels: int) -> str:
        return f"tensor<1x{channels}x16x16x!quant.uniform<i8:f32, {SCALES[name]:.17g}>>"

    def conv(name: str) -> str:
        numbers = f"multiplier = {steps[name][0]}, quant_mode = #tpu<rq_mode {mode}>, rshift = {steps[name][1]}"
        return f"{{group = 1 : i64, {numbers}}} : ({kind('x', 3)}, tensor<4x3x1x1xsi8>, tensor<1x4x1x1xi32>) -> {kind(name, 4)}"

    added = f"{{do_relu = false, multipliers = {steps['y'][0]}, rshifts = {steps['y'][1]}}}"
    return f"""#loc = loc(unknown)
module @two attributes {{module.chip = "{chip}", module.mode = "INT8", module.weight_file = "two_weights.npz"}} {{
  func.func @main(%arg0: tensor<1x3x16x16xf32> loc(unknown)) -> tensor<1x4x16x16xf32> {{
    %1 = "top.Input"(%arg0) : (tensor<1x3x16x16xf32>) -> tensor<1x3x16x16x!quant.calibrated<f32<-3.8:3.8>>> loc(#loc1)
    %2 = "tpu.Cast"(%1) : (tensor<1x3x16x16xf32>) -> {kind("x", 3)} loc(#loc2)
    %3 = "top.Weight"() : () -> tensor<4x3x1x1xsi8> loc(#loc3)
    %4 = "top.Weight"() : () -> tensor<1x4x1x1xi32> loc(#loc4)
    %5 = "tpu.Conv2D"(%2, %3, %4) {conv("a")} loc(#loc5)
    %6 = "top.Weight"() : () -> tensor<4x3x1x1xsi8> loc(#loc6)
    %7 = "top.Weight"() : () -> tensor<1x4x1x1xi32> loc(#loc7)
    %8 = "tpu.Conv2D"(%2, %6, %7) {conv("b")} loc(#loc8)
    %9 = "tpu.Add"(%5, %8) {added} : ({kind("a", 4)}, {kind("b", 4)}) -> {kind("y", 4)} loc(#loc9)
    %10 = "tpu.Cast"(%9) : ({kind("y", 4)}) -> tensor<1x4x16x16xf32> loc(#loc10)
    return %10 : tensor<1x4x16x16xf32> loc(#loc)
  }} loc(#loc)
}} loc(#loc)
#loc1 = loc("x")
#loc2 = loc("xa_Conv_si8")
#loc3 = loc("a_Conv_filter_i8")
#loc4 = loc("a_Conv_bias_int32")
#loc5 = loc("a_Conv")
#loc6 = loc("b_Conv_filter_i8")
#loc7 = loc("b_Conv_bias_int32")
#loc8 = loc("b_Conv")
#loc9 = loc("y_Add")
#loc10 = loc("y_Add_f32")
"""


def half_up(value: np.ndarray, shift: np.ndarray | int) -> np.ndarray:
    return np.floor(value / 2.0 ** np.asarray(shift, np.float64) + 0.5).astype(np.int64)


def high_product(sums: np.ndarray, multiplier: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Returns gemmlowp's: the high half of the product, then a shift whose halves go away from zero."""
    high = (sums * multiplier + (1 << 30)) >> 31
    return np.sign(high) * half_up(np.abs(high), shift) if (shift > 0).all() else high


def bf16(value: Any) -> np.ndarray:
    """Returns float32 values rounded to BF16, halves to even."""
    bits = np.asarray(value, np.float32).view(np.uint32).astype(np.int64)
    return np.asarray(((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype(np.uint32)).view(np.float32)


def test_a_transposed_convolution_whose_sums_are_requantized_by_themselves(tmp_path: Path) -> None:
    """Multipliers, shifts and zero points lie with the weights, whose outputs come first."""
    rng = np.random.default_rng(4)
    weights, bias = rng.normal(0, 0.3, (3, 4, 2, 2)).astype(np.float32), rng.normal(0, 0.2, 4).astype(np.float32)
    node = helper.make_node("ConvTranspose", ["x", "w", "b"], ["t"], kernel_shape=[2, 2], strides=[2, 2])
    ends = [
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s)]
        for n, s in (("x", [1, 3, 8, 8]), ("t", [1, 4, 16, 16]))
    ]
    constants = [numpy_helper.from_array(v, n) for n, v in (("w", weights), ("b", bias))]
    graph = helper.make_graph([node], "deconv", *ends, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    filters, biases = rng.integers(-127, 128, (4, 3, 2, 2)), rng.integers(-900, 900, 4)
    m, r = rng.integers(10**6, 10**7, 4), np.array([30, 29, 30, 28])
    steps = np.stack([m, -r, np.zeros(4, np.int64)], 1).astype(np.int32)
    stored = {"f": filters.astype(np.int8).ravel(), "c": biases.astype(np.int32), "s": steps.ravel()}
    np.savez(tmp_path / "w.npz", **stored)
    text = """#loc = loc(unknown)
module @deconv attributes {module.chip = "bm1684x", module.mode = "INT8", module.weight_file = "w.npz"} {
    %1 = "top.Input"(%arg0) : (tensor<1x3x8x8xf32>) -> tensor<1x3x8x8xf32> loc(#loc1)
    %2 = "tpu.Cast"(%1) : (tensor<1x3x8x8xf32>) -> tensor<1x3x8x8x!quant.uniform<i8:f32, 0.03125>> loc(#loc2)
    %3 = "top.Weight"() : () -> tensor<4x3x2x2xsi8> loc(#loc3)
    %4 = "top.Weight"() : () -> tensor<1x4x1x1xi32> loc(#loc4)
    %5 = "top.Weight"() : () -> tensor<1x4x1x3xi32> loc(#loc5)
    %6 = "tpu.Deconv"(%2, %3, %4) {quant_mode = #tpu<rq_mode MultiplierShift>} : (x) -> tensor<1x4x16x16xi32> loc(#loc6)
    %7 = "tpu.RequantIntAxis"(%6, %5) {quant_mode = #tpu<rq_mode MultiplierShift>} : (x) -> tensor<1x4x16x16x!quant.uniform<i8:f32, 0.0625>> loc(#loc7)
}
#loc1 = loc("x")
#loc2 = loc("xt_ConvTranspose_si8")
#loc3 = loc("f")
#loc4 = loc("c")
#loc5 = loc("s")
#loc6 = loc("t_ConvTranspose_i32")
#loc7 = loc("t_ConvTranspose")
"""
    files = {"t.mlir": text.encode(), "w.npz": (tmp_path / "w.npz").read_bytes()}
    quantized = write_quantized(model.SerializeToString(), files)
    x = rng.integers(-127, 128, (1, 3, 8, 8))
    own = simulate(quantized.onnx, "sophgo-bm1684x", {"x": (x * 0.03125).astype(np.float32)}, tmp_path)
    sums = np.einsum("nchw,ocij->nohiwj", x, filters).reshape(1, 4, 16, 16) + biases.reshape(1, 4, 1, 1)
    wanted = np.clip(half_up(sums * m.reshape(1, 4, 1, 1), r.reshape(1, 4, 1, 1)), -128, 127)
    assert np.array_equal(own["t_QuantizeLinear_Output"], wanted * 0.0625)


@pytest.mark.parametrize("chip", [BM, CV])
def test_the_rules_of_each_chip_with_the_integers_of_the_weight_file(chip: str, tmp_path: Path) -> None:
    model, _ = a_network()
    rng = np.random.default_rng(2)
    integers = {f"{n}_Conv_filter_i8": rng.integers(-127, 128, (4, 3, 1, 1)) for n in "ab"}
    integers |= {f"{n}_Conv_bias_int32": rng.integers(-2000, 2000, (1, 4, 1, 1)) for n in "ab"}
    bits = 0 if chip == BM else 31
    if chip == BM:
        steps = {n: (rng.integers(10**6, 10**7, 4).tolist(), [30, 29, 30, 28]) for n in "ab"} | {"y": ([65, 5], [7, 2])}
    else:
        steps = {n: (rng.integers(2**30, 2**31, 4).tolist(), [7, 8, 9, 7]) for n in "ab"} | {"y": ([31, 79], [6])}
    np.savez(tmp_path / "w.npz", **{n: v.astype(np.int8 if "filter" in n else np.int32) for n, v in integers.items()})
    text = a_text(chip, steps, "MultiplierShift" if chip == BM else "QDM")
    files = {"two_tpu.mlir": text.encode(), "two_weights.npz": (tmp_path / "w.npz").read_bytes()}
    quantized = write_quantized(model.SerializeToString(), files)
    assert not any("weights are quantized here" in line for line in quantized.changes)
    x = rng.integers(-127, 128, (1, 3, 16, 16))
    own = simulate(
        quantized.onnx, quantized.arithmetic, {"x": (x * np.float32(SCALES["x"])).astype(np.float32)}, tmp_path
    )
    made: dict[str, np.ndarray] = {}
    for n in "ab":
        weights, bias = integers[f"{n}_Conv_filter_i8"][:, :, 0, 0], integers[f"{n}_Conv_bias_int32"]
        sums = np.einsum("ncij,oc->noij", x, weights) + bias
        m, r = (np.array(v).reshape(1, 4, 1, 1) for v in steps[n])
        made[n] = np.clip(half_up(sums * m, r) if bits == 0 else high_product(sums, m, r), -128, 127)
    (ma, mb), r = steps["y"]
    total = half_up(made["a"] * ma, r[0]) + half_up(made["b"] * mb, r[-1])
    made["y"] = np.clip(total if chip == BM else half_up(made["a"] * ma + made["b"] * mb, r[0]), -128, 127)
    for n in "aby":
        scale = np.float32(SCALES[n])
        assert np.array_equal(own[f"{n}_QuantizeLinear_Output"], made[n].astype(np.float32) * scale), n
    scale = np.float32(SCALES["y"])
    if chip == CV:  # its casts go by way of BF16: the scale, then the product
        assert np.array_equal(own["y"], bf16(made["y"].astype(np.float32) * bf16(scale)))
    else:
        assert np.array_equal(own["y"], made["y"].astype(np.float32) * scale)


def test_without_a_weight_file_weights_are_those_of_the_toolkit() -> None:
    model, weights = a_network()
    steps = {n: ([1 << 20] * 4, [30] * 4) for n in "ab"} | {"y": ([64, 5], [7, 2])}
    quantized = write_quantized(model.SerializeToString(), {"t.mlir": a_text(BM, steps, "MultiplierShift").encode()})
    constants = {i.name: numpy_helper.to_array(i) for i in onnx.load_from_string(quantized.onnx).graph.initializer}
    largest = np.abs(weights["wa"]).max((1, 2, 3), keepdims=True) / 127.0
    assert np.array_equal(constants["a/wa_quantized"], np.rint(weights["wa"] / largest).astype(np.int8))
    biases = np.rint(weights["ba"] / (largest.ravel() * SCALES["x"]))
    assert np.array_equal(constants["a/ba_quantized"], biases.astype(np.int32))
    assert quantized.names == {
        "x": "x",
        "xa_Conv_si8": "x_QuantizeLinear_Output",
        "a_Conv": "a_QuantizeLinear_Output",
        "b_Conv": "b_QuantizeLinear_Output",
        "y_Add": "y_QuantizeLinear_Output",
        "y_Add_f32": "y_QuantizeLinear_Output",
    }
    onnx.checker.check_model(onnx.load_from_string(quantized.onnx), full_check=True)


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({}, "0 files of tpu-mlir (none)"),
        ({"a.npz": b"PK"}, "0 files of tpu-mlir (a.npz)"),
        (
            {"a.mlir": b'module @m attributes {module.chip = "bm1684x"} {\n "tpu.None"() : () -> none loc(#loc)\n}'},
            "no op",
        ),
    ],
)
def test_files_that_state_nothing_are_refused_in_one_line(files: dict[str, bytes], why: str) -> None:
    with pytest.raises(BadFileError) as error:
        write_quantized(a_network()[0].SerializeToString(), files)
    assert why in str(error.value) and "\n" not in str(error.value)


def test_a_text_of_another_network_is_refused() -> None:
    steps = {n: ([1 << 20] * 4, [30] * 4) for n in "ab"} | {"y": ([64, 5], [7, 2])}
    text = a_text(BM, steps, "MultiplierShift").replace('loc("', 'loc("other_')
    with pytest.raises(BadFileError, match="wanted the text of this network"):
        write_quantized(a_network()[0].SerializeToString(), {"t.mlir": text.encode()})


def test_a_damaged_text_is_refused_or_read_but_never_breaks() -> None:
    steps = {n: ([1 << 20] * 4, [30] * 4) for n in "ab"} | {"y": ([64, 5], [7, 2])}
    text = a_text(BM, steps, "MultiplierShift").encode()
    rng = np.random.default_rng(3)
    for _ in range(100):
        data = bytearray(text)
        for at in rng.integers(0, len(data), 6):
            data[at] = int(rng.integers(32, 127))
        try:
            write_quantized(a_network()[0].SerializeToString(), {"t.mlir": bytes(data[: rng.integers(1, len(data))])})
        except BadFileError as error:
            assert "\n" not in str(error)


def test_stated_multipliers_replace_those_of_the_scales() -> None:
    """Without the metadata the multiplier of 7 bits is that of the scales, 1 more than the stated one."""
    model, _ = a_network()
    steps = {n: ([1 << 20] * 4, [30] * 4) for n in "ab"} | {"y": ([31, 79], [6])}
    quantized = write_quantized(model.SerializeToString(), {"t.mlir": a_text(CV, steps, "QDM").encode()})
    arithmetic = forms_of_ops(open_arithmetic("sophgo-cv181x"))
    stated = onnx.load_from_string(quantized.onnx)
    plain = onnx.load_from_string(quantized.onnx)
    del plain.metadata_props[:]

    def multipliers(m: onnx.ModelProto) -> list[int]:
        graph = compile_model(m.SerializeToString(), "m", CompilerOptions(arithmetic=arithmetic, check=False)).graph
        node = next(n for n in graph.nodes if n.op == "add")
        return [int(v) for v in graph.constants[node.inputs[-1] or ""][:2, 0]]

    assert multipliers(stated) == [31, 79] and multipliers(plain) == [32, 80]
    stated.metadata_props[0].value = json.dumps({"y_QuantizeLinear_Output": [[31, 20], [6]]})
    found = compile_model(stated.SerializeToString(), "m", CompilerOptions(arithmetic=arithmetic, check=False)).graph
    assert ["not those of its scales" in why for why in found.meta["without_form"].values()] == [True]


@pytest.mark.parametrize(
    "value",
    [
        "",
        "[]",
        "3",
        '{"a": 1}',
        '{"a": [[], []]}',
        '{"a": [[-1], [3]]}',
        '{"a": [[1, 2], [3, 4, 5]]}',
        '{"a": [[1], [99]]}',
    ],
)
def test_metadata_of_another_form_is_refused(value: str) -> None:
    with pytest.raises((ValueError, AttributeError, TypeError)):
        read_multipliers(value)
    model, _ = a_network()
    helper.set_model_props(model, {MULTIPLIERS: value})
    if value:
        with pytest.raises(BadFileError, match=r"m: its metadata qverify\.multipliers"):
            compile_model(
                model.SerializeToString(),
                "m",
                CompilerOptions(arithmetic=forms_of_ops(open_arithmetic("sophgo-cv181x"))),
            )


def test_operands_in_whole_steps_of_the_output() -> None:
    form = Form.parse("each operand in whole steps of the output, half up, multiplier of 7 bits")
    rq: Any = make_addition_rq(form, 0.6163, -2.00786)
    assert rq[:, 0].tolist() == [79, -64, 1] and rq[:2, 3].tolist() == [7, 5] and rq[2].tolist() == [1, 0, 0, 0, 0]


def test_names_of_what_the_toolkit_inserted() -> None:
    outputs = {"x": "", "a": "Conv", "a_Relu": "Relu", "y": "Softmax"}
    names = ["x", "xa_Relu_Relu_ui8", "a_Relu_Relu", "y_Softmax__softmax", "y_Softmax__softmax_reshape_f32", "z_f32"]
    assert onnx_names(names, outputs) == {
        "x": "x",
        "xa_Relu_Relu_ui8": "x",
        "a_Relu_Relu": "a_Relu",
        "y_Softmax__softmax": "y",
        "y_Softmax__softmax_reshape_f32": "y",
    }


@need_real
def test_the_real_texts_are_read() -> None:
    for chip, computed in ((BM, 21), (CV, 20)):
        data = (REAL / f"resnet8_{chip}_int8_sym_tpu.mlir").read_bytes()
        module = read_module(data, chip)
        assert is_module(data) and len(module.computed) == computed and module.facts["chip"] == chip
        by_name = {op.tensor: op for op in module.computed}
        real = np.load(REAL / f"resnet8_{chip}_int8_sym_model_outputs.npz")
        assert set(real.files) <= by_name.keys()
        assert by_name["t36_model_dense_MatMul_Gemm"].quantization.scale == 0.16336236771653542  # type: ignore[union-attr]


LONG = "9" * 5000


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("i8:f32", "i9:f32", "wanted i8 or u8 or i16 or u16"),
        (f"{SCALES['x']:.17g}>", f"{SCALES['x']:.17g}:{LONG}>", "a number of 5000 digits"),
        ("tensor<1x", f"tensor<{LONG}x", "a number of 5000 digits"),
    ],
    ids=["type", "zero point", "dim"],
)
def test_a_text_with_numbers_out_of_range_is_refused_in_one_line(old: str, new: str, why: str) -> None:
    text = a_text(BM, {name: ([90], [8]) if name != "y" else ([90, 91], [8, 8]) for name in "aby"}, "<MultiplierShift>")
    assert old in text
    with pytest.raises(BadFileError) as refused:
        write_quantized(a_network()[0].SerializeToString(), {"n_tpu.mlir": text.replace(old, new).encode()})
    assert why in str(refused.value) and "\n" not in str(refused.value)

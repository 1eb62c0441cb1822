"""Tests that everything a .tflite contains is read, and said, as it is."""

from __future__ import annotations

import struct
from importlib.util import find_spec

import numpy as np
import pytest
from qverify.errors import QVerifyError
from qverify.tflite_model.convert import convert
from qverify.tflite_model.read_tflite import read_tflite
from qverify.tflite_model.repair import repair

from tests.tflite_files import File, conv, dense, schema

pytestmark = pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed")


def _packed(values: np.ndarray, bits: int) -> np.ndarray:
    per_byte = 8 // bits
    fields = (values.reshape(-1).astype(np.int16) & ((1 << bits) - 1)).astype(np.uint8)
    fields = np.pad(fields, (0, -fields.size % per_byte)).reshape(-1, per_byte)
    return np.bitwise_or.reduce(fields << (np.arange(per_byte, dtype=np.uint8) * bits), axis=1).astype(np.uint8)


def _with_constant(value: np.ndarray, dtype: str, stored: np.ndarray) -> bytes:
    """Returns a file whose second tensor is this constant, stored as these bytes."""
    f = File()
    x = f.tensor("x", [1, 3], "float32", None)
    w = f.tensor("w", list(value.shape), "int8", None, value=stored.view(np.int8))
    y = f.tensor("y", [1, value.shape[0]], "float32", None)
    f.tensors[w].type = getattr(schema().TensorType, dtype)
    f.operator("FULLY_CONNECTED", [x, w], [y], "FullyConnectedOptions")
    f.inputs, f.outputs = [x], [y]
    return f.written()


@pytest.mark.parametrize(
    ("dtype", "bits", "low", "high"), [("INT4", 4, -8, 8), ("INT2", 2, -2, 2), ("UINT4", 4, 0, 16)]
)
def test_packed_constants_are_unpacked(dtype, bits, low, high):
    value = np.random.default_rng(0).integers(low, high, (5, 3))
    read = read_tflite(_with_constant(value, dtype, _packed(value, bits)), "m.tflite").tensors[1]
    assert (read.dtype, read.data.tolist()) == (dtype.lower(), value.tolist())


def test_float16_constants_are_read():
    value = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float16)
    read = read_tflite(_with_constant(value, "FLOAT16", value.view(np.uint8)), "m.tflite").tensors[1]
    assert read.data.dtype == np.float16 and np.array_equal(read.data, value)


def _behind(data: bytes, tensor: int) -> bytes:
    """Returns the file with the constant of this tensor behind the FlatBuffer, as converters store large ones."""
    import flatbuffers

    s = schema()
    model = s.ModelT.InitFromObj(s.Model.GetRootAs(data, 0))
    buffer = model.buffers[model.subgraphs[0].tensors[tensor].buffer]
    content, buffer.data = bytes(bytearray(buffer.data)), None
    buffer.offset, buffer.size = 7, len(content)  # places of the same width, replaced below
    whole = b""
    for place in (1 << 40, 0):
        builder = flatbuffers.Builder(1024)
        buffer.offset = place or len(whole) + -len(whole) % 16
        builder.Finish(model.Pack(builder), b"TFL3")
        whole = bytes(builder.Output())
    return whole + bytes(-len(whole) % 16) + content


def test_constants_behind_the_flatbuffer_are_read():
    data = dense(seed=3)
    moved = _behind(data, 1)
    before, after = (read_tflite(d, "m.tflite") for d in (data, moved))
    assert np.array_equal(before.tensors[1].data, after.tensors[1].data)
    assert convert(before).onnx == convert(after).onnx
    with pytest.raises(QVerifyError, match=r"cut off: it has \d+ bytes, and a constant lies at bytes \d+ to \d+"):
        read_tflite(moved[:-1], "m.tflite")


def test_a_file_of_several_signatures_names_them():
    import flatbuffers

    s = schema()
    model = s.ModelT.InitFromObj(s.Model.GetRootAs(dense(), 0))
    model.subgraphs.append(s.ModelT.InitFromObj(s.Model.GetRootAs(dense(), 0)).subgraphs[0])
    model.signatureDefs = []
    for k, name in enumerate(("first", "second")):
        signature = s.SignatureDefT()
        signature.signatureKey, signature.subgraphIndex, signature.inputs, signature.outputs = name.encode(), k, [], []
        model.signatureDefs.append(signature)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    read = read_tflite(bytes(builder.Output()), "m.tflite")
    assert [(g.name, g.subgraph) for g in read.signatures] == [("first", 0), ("second", 1)] and read.subgraphs == 2
    assert convert(read).onnx == convert(read_tflite(dense(), "m.tflite")).onnx


@pytest.mark.parametrize(
    ("code", "said"), [("ethos-u", "made by Vela for an Ethos-U"), ("edgetpu-custom-op", "Edge TPU")]
)
def test_a_file_for_an_npu_is_named(code, said):
    f = File()
    x, program = f.tensor("x", [1, 8]), f.tensor("program", [4], "uint8", None, value=np.zeros(4))
    scratch, y = f.tensor("scratch", [64], "uint8", None), f.tensor("y", [1, 4])
    f.operator(f"CUSTOM:{code}", [program, scratch, x], [y])
    f.inputs, f.outputs = [x], [y]
    with pytest.raises(QVerifyError, match=said) as error:
        convert(read_tflite(f.written(), "m.tflite"))
    assert "Next: give -m the .tflite from which it was made" in str(error.value)


def test_an_axis_of_scales_beyond_the_rank_is_repaired_in_memory():
    from ai_edge_litert.interpreter import Interpreter

    s = schema()
    data = bytearray(conv(depthwise=True))
    about = s.Model.GetRootAs(data, 0).Subgraphs(0).Tensors(2).Quantization()
    assert about.QuantizedDimension() == 0  # the default is not stored, so that the file is written once more
    model = s.ModelT.InitFromObj(s.Model.GetRootAs(data, 0))
    model.subgraphs[0].tensors[2].quantization.quantizedDimension = 3
    import flatbuffers

    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    wrong = bytes(builder.Output())
    with pytest.raises((ValueError, RuntimeError), match="quantized_dimension"):
        Interpreter(model_content=wrong).allocate_tensors()
    repaired, lines = repair(wrong)
    Interpreter(model_content=repaired).allocate_tensors()
    assert sum(a != b for a, b in zip(wrong, repaired, strict=True)) == 1
    assert lines == [
        "quantized_dimension of 1 tensor lies beyond its rank (first 'b'): LiteRT refuses the file for it; it was set to 0 "
        "in memory, the file is unchanged"
    ]
    assert repair(repaired) == (repaired, [])


def test_an_operator_without_options_has_the_defaults():
    f = File()
    a, b, y = (f.tensor(n, [1, 8]) for n in "aby")
    f.operator("ADD", [a, b], [y])
    f.inputs, f.outputs = [a, b], [y]
    assert read_tflite(f.written(), "m.tflite").operators[0].options == {
        "FusedActivationFunction": 0,
        "PotScaleInt16": True,
    }


def test_options_of_another_operator_are_damage():
    f = File()
    a, b, y = (f.tensor(n, [1, 8]) for n in "aby")
    f.operator("ADD", [a, b], [y], "SoftmaxOptions")
    f.inputs, f.outputs = [a, b], [y]
    with pytest.raises(QVerifyError, match=r"a damaged \.tflite: ADD with the options of another operator"):
        read_tflite(f.written(), "m.tflite")


def test_the_repair_leaves_damaged_files_to_the_reader():
    data = bytearray(conv())
    struct.pack_into("<I", data, 0, 1 << 30)
    assert repair(bytes(data)) == (bytes(data), [])

"""Recognises files that are not models by their first bytes, and names the option or command that takes them."""

from __future__ import annotations

import os

from qverify.plural import count

ONNX, TFLITE, MODEL_BIN, MLIR = "an ONNX", "TensorFlow Lite", "a model.bin of qverify compile", "the text of tpu-mlir"
BMODEL, CVIMODEL, PTE = "Sophgo's bmodel", "Sophgo's cvimodel", "an ExecuTorch program (.pte)"
WANTED = "not an ONNX or a model.bin of qverify compile"
_MODEL = "compile the quantized ONNX that it was made of; what it computed is compared by qverify compare"
_TPU_MLIR = (
    "NAME_tpu.mlir, which model_deploy writes beside it, states scales and multipliers (qverify inspect); " + _MODEL
)
_ZIP = "a zip archive, as .npz and PyTorch files are"
_PICTURE = "pictures are inputs: -i, with --description"
_ARRAY = (
    "arrays are inputs: -i; what a device gave is a folder with NAME.npy, NAME that of the output: -m MODEL,FOLDER, "
    "or qverify compare A B"
)
_CHIPS = "; `qverify chips {}` tells how that chip is tested"
# offset of the signature, the signature, description of such a file, next step
_SIGNATURES = (
    (0, b"\x4b\x4e\x4e\x52", "Rockchip RKNN", _MODEL + _CHIPS.format("rockchip")),
    (0, b"RKNN", "Rockchip RKNN", _MODEL + _CHIPS.format("rockchip")),
    (0, b"\xee\xaa\x55\xff", BMODEL, _TPU_MLIR + _CHIPS.format("sophgo")),
    (0, b"CviModel", CVIMODEL, _TPU_MLIR + _CHIPS.format("sophgo")),
    (4, b"ET12", PTE, _MODEL),
    (0, b"EDL2", "Espressif's .espdl", _MODEL + _CHIPS.format("espressif")),
    (0, b"\x01HEF", "Hailo HEF", _MODEL + _CHIPS.format("hailo")),
    (4, b"TFL3", TFLITE, "wanted the model as a quantized ONNX (tf2onnx converts it)"),
    (0, b"\x89HDF\r\n", "HDF5, as Keras writes it", "wanted the model as a quantized ONNX (tf2onnx converts it)"),
    (0, b"\x7fELF", "a program or library (ELF), as compilers of networks make them", _MODEL),
    (0, b"\x93NUMPY", "a NumPy array", _ARRAY),
    (0, b"PK\x03\x04", _ZIP, _ARRAY),
    (0, b"\x89PNG", "a PNG picture", _PICTURE),
    (0, b"\xff\xd8\xff", "a JPEG picture", _PICTURE),
    (0, b"BM", "a BMP picture", _PICTURE),
    (8, b"WEBP", "a WebP picture", _PICTURE),
)
_RUNS = (
    "its tool runs it on the board (-m quant.onnx,{} --runner 'TOOL {{model}} {{input}} {{out}}'), and what it computed is "
    "compared by qverify compare"
)
_ENDINGS = {  # of files that have no signature that is known: what they are called, whose chips
    ".dlc": ("a model of Qualcomm's SNPE and QAIRT (.dlc)", "qualcomm"),
    ".axmodel": ("AXera's .axmodel", "axera"),
    ".joint": ("AXera's .joint", "axera"),
    ".hbm": ("Horizon's .hbm", "horizon"),
    ".hbo": ("Horizon's .hbo", "horizon"),
}
_BINARIES = (
    "; a context binary of Qualcomm's QNN and Horizon's .bin are run by their tools (--runner; `qverify chips qualcomm`, "
    "`qverify chips horizon`)"
)
_HEAD = 1 << 12  # bytes in which a text of MLIR names its module
FOLDER = "a folder, not a model; -i takes a folder of inputs, qverify compare A B two folders of tensors, qverify replay a capture"


def name_content(data: bytes) -> str:
    """Returns the name of the format of a file that is not an ONNX; "" for an unknown one, and for an ONNX, which has no
    signature."""
    if data.startswith(b"QVMODEL\0"):
        return MODEL_BIN
    if b"\nmodule @" in data[:_HEAD] or data.startswith(b"module @"):
        return MLIR
    return next((name for at, start, name, _ in _SIGNATURES if data[at : at + len(start)] == start), "")


def describe_unknown(data: bytes, name: str) -> str:
    """Returns a message about a file that no reader knows: not an ONNX, of an unknown format or damaged."""
    why = f"not an ONNX: {count(len(data), 'byte')} that protobuf does not parse, of another format or cut off; give the whole .onnx"
    return why + (_BINARIES if name.endswith(".bin") else "")


def describe_other(data: bytes, path: str = "") -> str:
    """Returns a message with the recognised format, what was expected and the next step; "" for an unknown format. path: of
    the file, whose ending tells formats without a signature."""
    content, name = name_content(data), os.path.basename(path)
    by_ending = _ENDINGS.get(os.path.splitext(name)[1].lower())
    if by_ending is not None and content in ("", _ZIP):
        return f"this looks like {by_ending[0]}, {WANTED}; {_RUNS.format(name)}{_CHIPS.format(by_ending[1])}"
    if content == MODEL_BIN:
        return "this is a model.bin, compiled already; wanted the ONNX that it was made of"
    if content == MLIR:
        return f"this looks like {MLIR}, {WANTED}; qverify inspect shows it"
    step = next((step for _, _, name, step in _SIGNATURES if name == content), "")
    return f"this looks like {content}, {WANTED}; {step}" if content else ""

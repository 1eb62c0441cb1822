"""Espressif: NAME.espdl, which esp-ppq writes for ESP-DL. It holds the whole quantized network, so that no float ONNX is
needed; NAME.json beside it states the chip.

Tensors keep the names and the layout that they have in the file (channels last around convolutions and pools); scales are
2^exponent, zero points 0. Functions of int8 tensors are the file's own tables."""

from __future__ import annotations

from collections.abc import Mapping

from qverify.errors import BadFileError
from qverify.vendor_quantization import Quantized
from qverify.vendor_quantization.espdl_parts.chips import HALF_UP, find_chip
from qverify.vendor_quantization.espdl_parts.read_espdl import is_espdl, read_espdl
from qverify.vendor_quantization.espdl_parts.write_onnx import write_onnx

FILES = "NAME.espdl of esp-ppq, and NAME.json if it is there"
ARITHMETIC = "esp32-s3"  # the shipped arithmetic of the chips that do not round halves to even


def recognised(name: str, data: bytes) -> bool:
    """Returns whether a file is an .espdl."""
    return is_espdl(data)


def write_quantized(float_onnx: bytes, files: Mapping[str, bytes]) -> Quantized:
    """Returns the QDQ ONNX of an .espdl. float_onnx is not read. files: contents by file name. Raises BadFileError for a
    damaged file and for several, UnsupportedError for what cannot be written as an ONNX."""
    names = [name for name, data in files.items() if is_espdl(data)]
    if len(names) != 1:
        raise BadFileError(f"{', '.join(files)}: {len(names)} files are .espdl; wanted one")
    model = read_espdl(files[names[0]], names[0])
    texts = [data for name, data in files.items() if name.endswith(".json")]
    chip = find_chip(model, texts[0] if texts else b"")
    half_up = chip.rounding == HALF_UP
    changes = [f"halves are rounded {'up' if half_up else 'to even'}, as on {chip.name} ({chip.reason})"]
    tests = (model.test_inputs, model.test_outputs)
    onnx = write_onnx(model, half_up)
    return Quantized(onnx, changes, ARITHMETIC if half_up else "", tests=tests if all(tests) else None)

"""Writes a side's tensors as .npy files, with manifest.json and dump.json."""

from __future__ import annotations

import contextlib
import io
import json
import os
from typing import Any

import numpy as np

from qverify.errors import UsageError
from qverify.files import check_folder_writable, write_bytes, write_text
from qverify.sides.dumps.array_dump import DESCRIPTION, describes_itself, manifest_files
from qverify.tensors.file_names import file_stems
from qverify.tensors.recording import Array, Recording
from qverify.tensors.spec import TensorSpec


def check_writable_dump(output: str) -> None:
    """Raises UsageError if write_arrays() cannot write into this folder, or would replace a dump.json that `qverify
    infer` did not write."""
    check_folder_writable(output)
    path = os.path.join(output, DESCRIPTION)
    if os.path.lexists(path) and not describes_itself(output):
        raise UsageError(f"{path}: not written by qverify infer, and not replaced; give another folder in -o")


def write_arrays(recording: Recording, inputs: list[str], output: str, on_host: list[str], dequantize: bool) -> int:
    """Writes NAME.npy for each tensor, dump.json (a description of each file for the profile generic), and
    manifest.json (exact tensor name by file), whose state is `partial` until all files are written. inputs: hashes of
    the inputs. on_host: names of nodes that were left to the host. dequantize: True to write quantized tensors as real
    values in float32. Returns the number of tensors."""
    try:
        os.makedirs(output, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{output}: cannot be written: {error.strerror}") from error
    manifest: dict[str, Any] = {"side": recording.side, "state": "partial", "inputs": inputs}
    manifest |= {"outputs": list(recording.finals), "description": DESCRIPTION, "tensors": {}}
    manifest |= {"part": on_host} if on_host else {}
    earlier_files = [*manifest_files(output), DESCRIPTION]
    _write_json(
        manifest, output, "manifest.json"
    )  # lists no file of an earlier run, and marks an interrupted run as partial
    for file in earlier_files:
        with contextlib.suppress(OSError):
            os.remove(os.path.join(output, file))
    stems = file_stems(recording.tensors)
    entries = [_write_array(recording, name, f"{stems[name]}.npy", output, dequantize) for name in recording.tensors]
    _write_json({"tensor": entries, "missing": recording.missing}, output, DESCRIPTION)
    named = {entry["file"]: entry["name"] for entry in entries}
    _write_json(manifest | {"state": recording.state, "tensors": named}, output, "manifest.json")
    return len(entries)


def _write_array(recording: Recording, name: str, file: str, output: str, dequantize: bool) -> dict[str, Any]:
    """Writes one tensor and returns its entry of dump.json."""
    spec, value = recording.specs[name], recording.tensors[name]
    real = dequantize and spec.quantized
    value = spec.dequantized(value).astype("<f4") if real else np.asarray(value, order="C")
    buffer = io.BytesIO()
    np.save(buffer, value)
    write_bytes(buffer.getbuffer(), os.path.join(output, file))
    return _entry(name, file, value, buffer.tell() - value.nbytes) | ({} if real else _quantization(spec))


def _entry(name: str, file: str, value: Array, offset: int) -> dict[str, Any]:
    return {"name": name, "file": file, "dtype": value.dtype.name, "shape": list(value.shape), "offset": offset}


def _quantization(spec: TensorSpec) -> dict[str, Any]:
    """Returns scale and zero point, as lists if they are per channel; {} if the tensor is not quantized."""
    if not spec.quantized:
        return {}
    if len(spec.scale) == 1:
        return {"scale": float(spec.scale[0]), "zero_point": int(spec.zero_point[0])}
    scales, zeros = [float(s) for s in spec.scale], [int(z) for z in spec.zero_point]
    return {"scale": scales, "zero_point": zeros, "channel_axis": spec.channel_axis}


def _write_json(content: dict[str, Any], output: str, name: str) -> None:
    write_text(json.dumps(content, indent=1) + "\n", os.path.join(output, name))

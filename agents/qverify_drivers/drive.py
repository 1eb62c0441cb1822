"""Runs one request on one engine: `PYTHON drive.py ENGINE REQUEST.json`, where drive_ENGINE.py lies beside this file.

It is copied to the machine of the engine, whose interpreter needs numpy and the engine's own packages, nothing of
qverify. drive_ENGINE.py defines `run(request) -> Answer`. The tensors of the answer become tensors.npz in the
request's folder, all else answer.json. A refusal or an error of the engine is one line on stderr and status 2; then
neither file exists."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
import traceback
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

try:
    import numpy as np
except ModuleNotFoundError:
    if __name__ != "__main__":
        raise
    sys.exit(
        f"python={sys.executable}: no module numpy there; give python=PYTHON that has numpy and the engine's packages"
    )

TENSORS, ANSWER = "tensors.npz", "answer.json"
MAX_LINE = 500  # characters of an error
PACKAGES = {  # of engines and of modules, where it is not their own name
    "rknn": "rknn-toolkit2",
    "tflm": "tflite-micro",
    "tflite_micro": "tflite-micro",
    "sophgo": "tpu-mlir",
    "onnxruntime_ep": "onnxruntime",
}


class Refused(Exception):
    """Raised by a driver for a request that the engine does not take, with one line: what, got, wanted."""


@dataclass
class Request:
    """A request for one run.

    Attributes:
        model: path of the model's file.
        inputs: input arrays by name, in the model's order.
        outputs: names of the final outputs, in the model's order.
        taps: names of further tensors that are wanted; a driver gives those that its engine can give.
        out: an empty folder; what else is written there is left out of the answer.
        options: values of each option, the last one given last.
        files: paths of further files that the engine's page sent, by name.
        tensors: for a .tflite, where each tensor of the network lies in it, by name: {"index": its index there, "axes": the
            order in which its axes are transposed, "shape": the shape after that}; "real" for the real values of an
            integer tensor of the file.
    """

    model: str
    inputs: dict[str, Any]
    outputs: list[str]
    taps: list[str]
    out: str
    options: dict[str, list[str]]
    files: dict[str, str]
    tensors: dict[str, dict[str, Any]] = field(default_factory=dict)

    def option(self, key: str, default: str = "") -> str:
        """Returns the last value of an option, or the default."""
        return self.options.get(key, [default])[-1]


@dataclass
class Placed:
    """Where the engine ran one of its nodes.

    Attributes:
        node: the node's name, or the name of its first output.
        op: its operator, as the engine calls it.
        on: device, provider or delegate.
        kernel: the kernel and its precision, if the engine says so.
        fallback: whether it ran elsewhere than the user asked.
    """

    node: str
    op: str
    on: str
    kernel: str = ""
    fallback: bool = False


@dataclass
class Answer:
    """The result of one run.

    Attributes:
        tensors: arrays by the names of the request; others by the engine's names, in the order of execution.
        engine, version: for the report.
        ledger: versions of what took part, by name (driver, firmware, compiler, builder of the model's file).
        placement: where each node ran, in the order of execution; [] if the engine does not say.
        notes: lines for the report.
    """

    tensors: dict[str, Any]
    engine: str
    version: str
    ledger: dict[str, str] = field(default_factory=dict)
    placement: list[Placed] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def tapped(model: bytes, names: list[str]) -> bytes:
    """Returns the bytes of an ONNX file with these tensors as further outputs. In protobuf, messages that follow each
    other are merged, so that a ModelProto that has nothing but graph.output is appended."""
    outputs = b"".join(_field(12, _field(1, name.encode())) for name in names)
    return model + _field(7, outputs) if names else model


def node_outputs(model: bytes) -> set[str]:
    """Returns the names of the tensors that the nodes of an ONNX file's graph write."""
    return {
        str(output, "utf-8", "replace")
        for graph in _messages(memoryview(model), 7)
        for node in _messages(graph, 1)
        for output in _messages(node, 2)
    }


def _messages(data: memoryview, wanted: int) -> Iterator[memoryview]:
    """Yields the contents of the length-delimited fields of this number."""
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        if key & 7 == 2:
            size, at = _read_varint(data, at)
            if key >> 3 == wanted:
                yield data[at : at + size]
            at += size
        elif key & 7 == 0:
            _, at = _read_varint(data, at)
        elif key & 7 in (1, 5):
            at += 8 if key & 7 == 1 else 4
        else:
            raise Refused("not an ONNX file: protobuf does not parse")


def _read_varint(data: memoryview, at: int) -> tuple[int, int]:
    """Returns the number at this place, and the place behind it."""
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at
    raise Refused("not an ONNX file: protobuf does not parse")


def _field(number: int, content: bytes) -> bytes:
    """Returns a length-delimited field of a protobuf message."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    digits = bytearray()
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    return bytes([*digits, value])


def _read(path: str) -> Request:
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    inputs = {item["name"]: np.load(item["npy"], allow_pickle=False) for item in content.pop("inputs")}
    return Request(inputs=inputs, **content)


def _write(request: Request, answer: Answer) -> None:
    for entry in list(os.scandir(request.out)):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.remove(entry.path)
    tensors = {name: np.asarray(value) for name, value in answer.tensors.items()}
    with zipfile.ZipFile(os.path.join(request.out, TENSORS), "w") as archive:  # np.savez cannot name an array `file`
        for name, value in tensors.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, value, allow_pickle=False)
    content = {key: value for key, value in asdict(answer).items() if key != "tensors"}
    with open(os.path.join(request.out, ANSWER), "w", encoding="utf-8") as file:
        json.dump(content, file)


def _lacking(engine: str, error: ModuleNotFoundError) -> str:
    """Returns the line for an interpreter that lacks a module."""
    module = (error.name or str(error)).partition(".")[0]
    packages = dict.fromkeys(PACKAGES.get(name, name) for name in (engine, module))
    return f"python={sys.executable}: no module {module} there; give python=PYTHON that has {' and '.join(packages)}"


def main(engine: str, path: str) -> int:
    """Runs the request in the file at `path`. Returns the exit status."""
    try:
        request = _read(path)
        _write(request, importlib.import_module(f"drive_{engine}").run(request))
    except Exception as error:
        if os.environ.get("QVERIFY_DRIVER_TRACEBACK"):
            traceback.print_exc()
        text = " ".join(str(error).split())
        kind = "" if isinstance(error, Refused) else f"{type(error).__name__}: "
        if isinstance(error, ModuleNotFoundError):
            kind, text = "", _lacking(engine, error)
        print(f"{kind}{text}"[:MAX_LINE], file=sys.stderr, flush=True)
        return 2
    return 0


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    sys.modules["drive"] = sys.modules[__name__]  # what a driver imports is this module, so that its Refused is caught
    sys.stdout.flush()
    status = main(sys.argv[1], sys.argv[2])
    sys.stdout.flush()
    os._exit(status)  # engines' own threads and destructors may hang or end the process with another status

"""TensorFlow Lite for Microcontrollers: one inference, every tensor preserved if inner ones are wanted, and otherwise with the
arena planned as on a device, where tensors share memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
from drive import Answer, Placed, Refused, Request
from tflite_micro.python.tflite_micro import runtime

ARENA = 4 << 20
PER_BYTE = 12  # of the file: tensors that are all preserved need more than the package's own guess of ten
KERNELS = "TFLM reference kernels"


def run(request: Request) -> Answer:
    """Runs the .tflite once. Raises Refused for a file that is none, and for inputs that it does not have."""
    with open(request.model, "rb") as file:
        model = file.read()
    if model[4:8] != b"TFL3":
        raise Refused(
            f"{os.path.basename(request.model)}: not a .tflite; wanted X.tflite, alone or behind the quantized ONNX"
        )
    keep_all = bool(request.taps)
    interpreter = _interpreter(request, model, keep_all)
    details = [interpreter.get_input_details(at) for at in range(len(request.inputs))]
    feed = _feed(request, model, details)
    for at, value in enumerate(feed):
        interpreter.set_input(value, at)
    interpreter.invoke()
    graph = _subgraph(model)
    outputs = {int(index): at for at, index in enumerate(graph.outputs)}
    made = {int(i) for o in graph.operators for i in o.outputs}
    tensors = {}
    for name in [*request.taps, *request.outputs]:
        entry = request.tensors.get(name)
        if entry is None or (int(entry["index"]) not in made and int(entry["index"]) not in outputs):
            continue
        index = int(entry["index"])
        value = interpreter.get_output(outputs[index]) if index in outputs else _tensor(interpreter, index)
        tensors[name] = _as_network(np.asarray(value), graph.tensors[index], entry)
    if missing := next((n for n in request.outputs if n not in tensors), None):
        raise Refused(f"{os.path.basename(request.model)} computes no output {missing!r}")
    fed = {int(i): v for i, v in zip(graph.inputs, feed)}  # noqa: B905 (strict= is of Python 3.10)
    for name in request.taps:  # what quantizes the network's inputs is not in the file
        if name in request.tensors and int(request.tensors[name]["index"]) in fed:
            index = int(request.tensors[name]["index"])
            tensors[name] = _as_network(fed[index], graph.tensors[index], request.tensors[name])
    packages = {"tflite-micro": _version()}
    return Answer(tensors, "tflm", packages["tflite-micro"], packages, _placement(model, graph), _notes(request))


def _interpreter(request: Request, model: bytes, keep_all: bool) -> Any:
    arena = request.option("arena") or str(max(ARENA, PER_BYTE * len(model)))
    if not arena.isdigit() or not 0 < int(arena) <= 1 << 31:
        raise Refused(f"arena={arena}: wanted a number of bytes, at most {1 << 31}")
    kinds = runtime.InterpreterConfig
    config = kinds.kPreserveAllTensors if keep_all else kinds.kAllocationRecording

    def open_it() -> Any:
        return runtime.Interpreter.from_bytes(model, arena_size=int(arena), intrepreter_config=config)

    if request.option("arena") and (why := _find_end(open_it)):
        raise Refused(
            f"arena={arena}: TFLM cannot place this network in so many bytes ({why}); give more, or leave arena= out "
            f"({max(ARENA, PER_BYTE * len(model))})"
        )
    return open_it()


def _find_end(call: Callable[[], Any]) -> str:
    """Returns how a call ends badly, tried in a process of its own since TFLM may crash; "" if it returns."""
    child = os.fork()
    if child == 0:
        try:
            call()
        except Exception:
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return f"it crashes with signal {os.WTERMSIG(status)}"
    return "it refuses them" if status else ""


def _feed(request: Request, model: bytes, details: list[dict[str, Any]]) -> list[Any]:
    """Returns the inputs in the file's order, quantized where the network quantizes them before the file does."""
    by_index = {int(e["index"]): (e, n) for n, e in request.tensors.items() if n in request.inputs}
    feed = []
    for at, index in enumerate(_subgraph(model).inputs):
        if int(index) not in by_index:
            raise Refused(f"{os.path.basename(request.model)}: no input of the network is its input {at}")
        entry, name = by_index[int(index)]
        dims, value = [int(d) for d in details[at]["shape"]], np.asarray(request.inputs[name])
        axes = entry["axes"]
        value = np.ascontiguousarray(value.reshape([dims[a] for a in axes]).transpose(np.argsort(axes)))
        dtype = np.dtype(details[at]["dtype"])
        if entry.get("real"):
            scale, zero = (np.asarray(details[at]["quantization_parameters"][key]) for key in ("scales", "zero_points"))
            limits = np.iinfo(dtype)
            codes = np.rint(value / np.float32(scale[0])).astype(np.float64) + int(zero[0])
            value = np.clip(codes, limits.min, limits.max).astype(dtype)
        if value.dtype != dtype:
            raise Refused(f"{name}: {value.dtype} for an input that is {dtype} in {os.path.basename(request.model)}")
        feed.append(value)
    return feed


def _tensor(interpreter: Any, index: int) -> Any:
    return interpreter.GetTensor(index, 0)["tensor_data"]


def _as_network(value: Any, tensor: Any, entry: dict[str, Any]) -> Any:
    """Returns a tensor of the file as the network has it: its axes, its shape, real values if it wants those."""
    dims = [int(d) for d in tensor.shape]
    value = value.reshape(dims).transpose(entry["axes"]).reshape(entry["shape"])
    if entry.get("real"):
        scale, zero = np.float32(tensor.quantization.scale[0]), int(tensor.quantization.zeroPoint[0])
        return (value.astype(np.int32) - zero).astype(np.float32) * scale
    return np.ascontiguousarray(value)


def _subgraph(model: bytes) -> Any:
    return _object(model).subgraphs[0]


_OBJECTS: dict[int, Any] = {}


def _object(model: bytes) -> Any:
    """Returns the file as the package's own reader sees it."""
    key = id(model)
    if key not in _OBJECTS:
        _OBJECTS[key] = runtime.convert_bytearray_to_object(bytearray(model))
    return _OBJECTS[key]


def _placement(model: bytes, graph: Any) -> list[Placed]:
    """Returns the operators, each of which TFLM runs by a kernel of its own."""
    codes, names = _object(model).operatorCodes, {v: k for k, v in vars(runtime.schema_fb.BuiltinOperator).items()}
    placed = []
    for operator in graph.operators:
        kind = names.get(runtime.get_builtin_code_from_operator_code(codes[operator.opcodeIndex]), "CUSTOM")
        name = graph.tensors[operator.outputs[0]].name if len(operator.outputs) else b""
        placed.append(Placed((name or b"").decode(errors="replace"), kind, KERNELS))
    return placed


def _notes(request: Request) -> list[str]:
    ends = [n for n, e in request.tensors.items() if e.get("real")]
    return (
        [f"computed beside the .tflite, which has no such tensor, and not verified: {', '.join(sorted(ends))}"]
        if ends
        else []
    )


def _version() -> str:
    for name in ("tflite-micro", "tflite_micro"):
        try:
            return version(name)
        except ImportError:
            continue
    return "of an unknown version"

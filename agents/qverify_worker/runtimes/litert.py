"""LiteRT's Python package (ai-edge-litert, tflite_runtime or tensorflow): runs .tflite models, by its kernels or a
delegate.

A model is a .tflite file, or a zip of `model.tflite` and `tensors.json`. The latter names tensors of the file by index
and states their layout in the ONNX: {"inputs": [{"index", "name", "axes", "shape"}], "outputs": [...]}. axes: the order
in which the file's axes are transposed; shape: the shape after that. "dtype": the type in the ONNX, if it is another.
"""

from __future__ import annotations

import io
import json
import math
import os
import time
import zipfile
from collections.abc import Collection
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from qverify_worker.errors import FORMAT, INTERNAL, UNSUPPORTED, RequestError
from qverify_worker.model import Array, RuntimeSettings

NAME = "litert"
PACKAGES = ("ai_edge_litert.interpreter", "tflite_runtime.interpreter", "tensorflow.lite.python.interpreter")
RESOLVERS = {"reference": "BUILTIN_REF", "optimized": "BUILTIN_WITHOUT_DEFAULT_DELEGATES", "xnnpack": "BUILTIN"}
MAX_MODEL_BYTES = 1 << 31
SHOWN = {name: np.dtype(name) for name in ("uint8", "int64")}  # types in an ONNX that the file's may differ from
MARKS = (0x5A, 0xA5)  # values of all bytes of a tensor before a run: a tensor that still has them was not written
DELEGATED = "DELEGATE"  # LiteRT's name for a node that stands for nodes a delegate computes


def _import_library() -> Any:
    for name in PACKAGES:
        try:
            return import_module(name)
        except ImportError as error:
            last_error = error
    raise ImportError(f"none of {', '.join(PACKAGES)} ({last_error})")


def version() -> str:
    """Returns the library's version. Raises ImportError."""
    library = _import_library()
    top = import_module(library.__name__.partition(".")[0])
    return str(getattr(top, "__version__", "of an unknown version"))


def features(settings: RuntimeSettings) -> list[str]:
    """Returns the features that a board with these settings offers (PROTOCOL.md)."""
    return ["finals", "digests", "per_node", "inject"]


def open_model(data: bytes, settings: RuntimeSettings) -> LiteRtModel:
    """Opens a .tflite or a zip of one. Raises RequestError for a delegate that cannot be loaded, and for a model that
    LiteRT refuses."""
    return LiteRtModel(data, settings)


@dataclass(frozen=True)
class ModelTensor:
    """A tensor of the file. index: its index there. name: its name in the ONNX. dims: its shape in the file. axes: the
    order in which its axes are transposed for the ONNX. shape: its shape in the ONNX. shown: its type in the ONNX."""

    index: int
    name: str
    dtype: np.dtype[Any]
    dims: tuple[int, ...]
    axes: tuple[int, ...]
    shape: tuple[int, ...]
    shown: np.dtype[Any]


class LiteRtModel:
    """A Model (model.py). If it offers inner tensors, LiteRT keeps every tensor, so that a delegate computes each node
    alone. If it offers its final outputs only, nothing is kept and a delegate may join nodes, as in real use."""

    def __init__(self, data: bytes, settings: RuntimeSettings):
        self._content, tensor_names = _unpack_model(data)
        self._settings, self._delegates = settings, bool(settings.delegate or settings.kernels == "xnnpack")
        self._interpreter = self._open_interpreter(keep_all=False)
        self._report: dict[str, Any] = {}
        self.seconds: dict[str, float] = {}
        details = {d["index"]: d for d in (*self._interpreter.get_tensor_details(), *self._input_and_output_details())}
        inputs = tensor_names.get("inputs") or [{"index": d["index"]} for d in self._interpreter.get_input_details()]
        outputs = tensor_names.get("outputs") or [{"index": d["index"]} for d in self._interpreter.get_output_details()]
        finals = self._finals = {int(d["index"]) for d in self._interpreter.get_output_details()}
        self._inputs, offered = ([_find_tensor(entry, details) for entry in ends] for ends in (inputs, outputs))
        self._outputs = [t for t in offered if t.index in finals or not settings.finals_only]
        self.inputs = [(t.name, t.dtype, t.shape) for t in self._inputs]
        self.outputs = [t.name for t in self._outputs]
        self._keeps_all = any(t.index not in finals for t in self._outputs)
        if self._keeps_all:
            self._interpreter = self._open_interpreter(keep_all=True)

    def _open_interpreter(self, keep_all: bool) -> Any:
        """Returns an interpreter for the model. keep_all: it keeps every tensor, so that a delegate joins no nodes."""
        library = _import_library()
        try:
            delegate_options = self._load_delegate(library, self._settings)
            resolver = getattr(library.OpResolverType, RESOLVERS[self._settings.kernels or "optimized"])
            interpreter: Any = library.Interpreter(
                model_content=self._content,
                num_threads=self._settings.threads or None,
                experimental_op_resolver_type=resolver,
                experimental_preserve_all_tensors=keep_all,
                **delegate_options,
            )
            interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise RequestError(FORMAT, f"LiteRT refuses the model: {_one_line(error)}") from error
        return interpreter

    def _input_and_output_details(self) -> list[dict[str, Any]]:
        return [*self._interpreter.get_input_details(), *self._interpreter.get_output_details()]

    @staticmethod
    def _load_delegate(library: Any, settings: RuntimeSettings) -> dict[str, Any]:
        if not settings.delegate:
            return {}
        try:
            return {
                "experimental_delegates": [library.load_delegate(settings.delegate, dict(settings.delegate_options))]
            }
        except (OSError, ValueError, RuntimeError) as error:
            raise RequestError(UNSUPPORTED, f"delegate {settings.delegate}: {_one_line(error)}") from error

    def run(self, values: dict[str, Array], wanted: Collection[str]) -> dict[str, Array]:
        """Returns the outputs by name, each in the layout of the ONNX. Raises RequestError if LiteRT fails or leaves a
        tensor unwritten."""
        tensors = [t for t in self._outputs if not self._delegates or t.name in wanted or t.index in self._finals]
        self._report = {}
        outputs = self._run(self._interpreter, values, tensors)
        if self._delegates:
            provider = self._settings.delegate or "XNNPACK"
            self._report["nodes_by_provider"] = _count_nodes_by_provider(self._interpreter, provider)
            self._report |= {"each_node_alone": 1} if self._keeps_all else {}
        return outputs

    def time(self, values: dict[str, Array], wanted: Collection[str], runs: int) -> list[dict[str, float]]:
        """Returns, for each run, the seconds that the whole model took, under the name of the last of `wanted`."""
        self._run_marked(self._interpreter, values, self._outputs, MARKS[0])
        times = []
        for _ in range(runs):
            start = time.perf_counter()
            self._interpreter.invoke()
            times.append({list(wanted)[-1]: time.perf_counter() - start})
        return times

    def _run(self, interpreter: Any, values: dict[str, Array], tensors: list[ModelTensor]) -> dict[str, Array]:
        outputs = self._run_marked(interpreter, values, tensors, MARKS[0])
        doubtful = [t for t in tensors if _is_marked(outputs[t.name], MARKS[0])]
        if doubtful:
            second_outputs = self._run_marked(interpreter, values, doubtful, MARKS[1])
            if missing := next((t for t in doubtful if _is_marked(second_outputs[t.name], MARKS[1])), None):
                raise RequestError(
                    UNSUPPORTED,
                    f"{missing.name}: the delegate writes no such tensor; finals:BOARD judges the outputs alone",
                )
        return outputs

    def _run_marked(
        self, interpreter: Any, values: dict[str, Array], tensors: list[ModelTensor], mark: int
    ) -> dict[str, Array]:
        """Runs the model once and returns these tensors by name. If there is a delegate, which might leave a tensor
        unwritten, first fills each of them with the byte `mark`."""
        input_indices = {t.index for t in self._inputs}
        try:
            for tensor in tensors if self._delegates else []:
                if tensor.index not in input_indices:
                    marked_bytes = bytes([mark]) * (math.prod(tensor.dims) * tensor.dtype.itemsize)
                    interpreter.set_tensor(tensor.index, np.frombuffer(marked_bytes, tensor.dtype).reshape(tensor.dims))
            for tensor in self._inputs:
                value = values[tensor.name].reshape([tensor.dims[a] for a in tensor.axes])
                moved = np.ascontiguousarray(value.transpose(np.argsort(tensor.axes)))
                interpreter.set_tensor(tensor.index, moved.astype(tensor.dtype, copy=False))
            interpreter.invoke()
            read_values = {t.name: (t, interpreter.get_tensor(t.index)) for t in tensors}
        except (ValueError, RuntimeError) as error:
            raise RequestError(INTERNAL, f"LiteRT fails: {_one_line(error)}") from error
        moved = {n: (t, np.ascontiguousarray(v.transpose(t.axes))) for n, (t, v) in read_values.items()}
        return {n: v.reshape(t.shape).astype(t.shown, copy=False) for n, (t, v) in moved.items()}

    def report(self) -> dict[str, Any]:
        """Returns facts on the last run. With a delegate: the number of nodes by provider, and whether each node was
        given to it alone."""
        return self._report


def _is_marked(value: Array, mark: int) -> bool:
    return value.size > 0 and bool((value.view(np.uint8) == mark).all())


def _count_nodes_by_provider(interpreter: Any, delegate: str) -> dict[str, int]:
    """Returns the number of the model's nodes that the delegate computes and that LiteRT's kernels compute, or {} if
    this version of LiteRT does not report it."""
    try:
        nodes = interpreter._get_ops_details()
    except AttributeError:
        return {}
    model_nodes = [n for n in nodes if n["op_name"] != DELEGATED]
    delegate_nodes = [n for n in nodes if n["op_name"] == DELEGATED]
    return _count_delegated(model_nodes, delegate_nodes, os.path.basename(delegate))


def _count_delegated(
    model_nodes: list[dict[str, Any]], delegate_nodes: list[dict[str, Any]], delegate: str
) -> dict[str, int]:
    """Returns the number of nodes by provider. The nodes that the delegate computes are found from each output of a
    delegate node back to its inputs."""
    producer = {int(o): n for n in model_nodes for o in n["outputs"]}
    delegated = set()
    for part in delegate_nodes:
        part_inputs, todo = {int(i) for i in part["inputs"]}, [int(o) for o in part["outputs"]]
        while todo:
            node = producer.get(todo.pop())
            if node is not None and node["index"] not in delegated:
                delegated.add(node["index"])
                todo += [int(i) for i in node["inputs"] if int(i) not in part_inputs]
    kernels = len(model_nodes) - len(delegated)
    return {k: n for k, n in ((delegate, len(delegated)), ("LiteRT's kernels", kernels)) if n}


def _unpack_model(data: bytes) -> tuple[bytes, dict[str, Any]]:
    """Returns the .tflite and the content of tensors.json, {} if there is none."""
    if data[4:8] == b"TFL3":
        return data, {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            if sum(entry.file_size for entry in packed.infolist()) > MAX_MODEL_BYTES:
                raise RequestError(FORMAT, f"a packed model of more than {MAX_MODEL_BYTES} bytes")
            model, tensor_names = packed.read("model.tflite"), json.loads(packed.read("tensors.json"))
    except (zipfile.BadZipFile, KeyError, ValueError, RecursionError) as error:
        raise RequestError(FORMAT, f"not a .tflite, and not a packed one: {_one_line(error)}") from error
    return model, tensor_names if isinstance(tensor_names, dict) else {}


def _find_tensor(entry: Any, details: dict[int, dict[str, Any]]) -> ModelTensor:
    """Returns the tensor for an entry of tensors.json. Raises RequestError if the model has no such tensor."""
    detail = details.get(entry.get("index", -1)) if isinstance(entry, dict) else None
    if detail is None:
        raise RequestError(FORMAT, f"tensors.json: {str(entry)[:200]} is no tensor of the model")
    dims = tuple(int(d) for d in detail["shape"])
    axes = tuple(entry.get("axes") or range(len(dims)))
    shape = tuple(entry.get("shape") or (dims[a] for a in axes if a < len(dims)))
    if sorted(axes) != list(range(len(dims))) or np.prod(shape, dtype=np.int64) != np.prod(dims, dtype=np.int64):
        raise RequestError(FORMAT, f"tensors.json: {str(entry)[:200]}; the model's tensor is {dims}")
    dtype, name = np.dtype(detail["dtype"]), str(entry.get("name") or detail["name"])
    shown = SHOWN.get(entry.get("dtype"), dtype)
    return ModelTensor(detail["index"], name, dtype, dims, axes, shape, shown)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:600]

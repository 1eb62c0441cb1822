"""LiteRT's Python package (ai-edge-litert, tflite_runtime or tensorflow): .tflite models, by its kernels or a delegate.

A model is a .tflite, or a zip of `model.tflite` and `tensors.json`: which tensor, by its index, is called what, in which layout:
{"inputs": [{"index", "name", "axes", "shape"}], "outputs": [...]}. axes: the order of the file's axes that gives the named
tensor's; shape: of the named tensor.
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
from qverify_worker.model import Array, Settings

NAME = "litert"
PACKAGES = ("ai_edge_litert.interpreter", "tflite_runtime.interpreter", "tensorflow.lite.python.interpreter")
RESOLVERS = {"reference": "BUILTIN_REF", "optimized": "BUILTIN_WITHOUT_DEFAULT_DELEGATES", "xnnpack": "BUILTIN"}
MOST = 1 << 31  # bytes of a model
MARKS = (0x5A, 0xA5)  # bytes that a tensor has before a run; one that still has them was not written
MOST_SAID = 4
DELEGATED = "DELEGATE"  # LiteRT's name of what a delegate took over


def _library() -> Any:
    for name in PACKAGES:
        try:
            return import_module(name)
        except ImportError as error:
            why = error
    raise ImportError(f"none of {', '.join(PACKAGES)} ({why})")


def version() -> str:
    """Returns the library's version. Raises ImportError."""
    library = _library()
    top = import_module(library.__name__.partition(".")[0])
    return str(getattr(top, "__version__", "of an unknown version"))


def features(settings: Settings) -> list[str]:
    """Returns what a board with these settings offers."""
    return ["finals", "digests", "per_node", "inject"]


def open_model(data: bytes, settings: Settings) -> LiteRtModel:
    """Opens a .tflite or a zip of one. Raises RequestError for a delegate that cannot be loaded, and for a model that
    LiteRT refuses."""
    return LiteRtModel(data, settings)


@dataclass(frozen=True)
class Tensor:
    """A tensor of the file. dims: in the file. axes: which give the named tensor's layout. shape: of the named tensor."""

    index: int
    name: str
    dtype: np.dtype[Any]
    dims: tuple[int, ...]
    axes: tuple[int, ...]
    shape: tuple[int, ...]


class LiteRtModel:
    """A Model (model.py). Where a delegate computes, every tensor is read from an interpreter that gives it each node by
    itself; final outputs are always those of one in which it may join nodes, as in use."""

    def __init__(self, data: bytes, settings: Settings):
        self._content, named = _unpacked(data)
        self._settings, self._delegates = settings, bool(settings.delegate or settings.kernels == "xnnpack")
        self._interpreter = self._open(whole=not self._delegates)
        self._whole: Any = None if self._delegates else self._interpreter
        self._said: dict[str, Any] = {}
        self.seconds: dict[str, float] = {}
        details = {d["index"]: d for d in (*self._interpreter.get_tensor_details(), *self._ends())}
        inputs = named.get("inputs") or [{"index": d["index"]} for d in self._interpreter.get_input_details()]
        outputs = named.get("outputs") or [{"index": d["index"]} for d in self._interpreter.get_output_details()]
        self._inputs, self._outputs = ([_tensor(one, details) for one in ends] for ends in (inputs, outputs))
        self.inputs = [(t.name, t.dtype, t.shape) for t in self._inputs]
        self.outputs = [t.name for t in self._outputs]
        self._finals = {int(d["index"]) for d in self._interpreter.get_output_details()}

    def _open(self, whole: bool) -> Any:
        """Returns an interpreter. whole: it keeps every tensor, and joins no nodes in a delegate."""
        library = _library()
        try:
            more = self._delegate(library, self._settings)
            resolver = getattr(library.OpResolverType, RESOLVERS[self._settings.kernels or "optimized"])
            opened: Any = library.Interpreter(
                model_content=self._content,
                num_threads=self._settings.threads or None,
                experimental_op_resolver_type=resolver,
                experimental_preserve_all_tensors=whole,
                **more,
            )
            opened.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise RequestError(FORMAT, f"LiteRT refuses the model: {_one_line(error)}") from error
        return opened

    def _ends(self) -> list[dict[str, Any]]:
        return [*self._interpreter.get_input_details(), *self._interpreter.get_output_details()]

    @staticmethod
    def _delegate(library: Any, settings: Settings) -> dict[str, Any]:
        if not settings.delegate:
            return {}
        try:
            return {
                "experimental_delegates": [library.load_delegate(settings.delegate, dict(settings.delegate_options))]
            }
        except (OSError, ValueError, RuntimeError) as error:
            raise RequestError(UNSUPPORTED, f"delegate {settings.delegate}: {_one_line(error)}") from error

    def run(self, values: dict[str, Array], wanted: Collection[str]) -> dict[str, Array]:
        """Returns the outputs by name, each in its named layout. Raises RequestError where LiteRT fails, or a tensor was not
        written."""
        shown = [t for t in self._outputs if not self._delegates or t.name in wanted or t.index in self._finals]
        finals = [t for t in shown if t.index in self._finals]
        made = self._run(self._interpreter, values, shown if self._whole is self._interpreter else finals)
        self._said = {}
        if self._delegates:
            self._said["nodes_by_provider"] = _placement(self._interpreter, self._settings.delegate or "XNNPACK")
        if len(shown) > len(finals) and self._whole is not self._interpreter:
            if self._whole is None:
                self._whole = self._open(whole=True)
            whole = self._run(self._whole, values, shown)
            joined = [t.name for t in finals if whole[t.name].tobytes() != made[t.name].tobytes()]
            self._said |= {"each_node_alone": 1, "joined_differs": joined[:MOST_SAID]}
            made = {**whole, **made}
        return made

    def time(self, values: dict[str, Array], wanted: Collection[str], runs: int) -> list[dict[str, float]]:
        """Returns, for each of these runs, the seconds of the whole model, under the name of the last of `wanted`."""
        finals = [t for t in self._outputs if t.index in self._finals]
        self._run_marked(self._interpreter, values, finals, MARKS[0])
        taken = []
        for _ in range(runs):
            start = time.perf_counter()
            self._interpreter.invoke()
            taken.append({list(wanted)[-1]: time.perf_counter() - start})
        return taken

    def _run(self, opened: Any, values: dict[str, Array], shown: list[Tensor]) -> dict[str, Array]:
        made = self._run_marked(opened, values, shown, MARKS[0])
        doubtful = [t for t in shown if _is_marked(made[t.name], MARKS[0])]
        if doubtful:
            again = self._run_marked(opened, values, doubtful, MARKS[1])
            if lost := next((t for t in doubtful if _is_marked(again[t.name], MARKS[1])), None):
                raise RequestError(
                    UNSUPPORTED,
                    f"{lost.name}: the delegate writes no such tensor; finals:BOARD judges the outputs alone",
                )
        return made

    def _run_marked(self, opened: Any, values: dict[str, Array], shown: list[Tensor], mark: int) -> dict[str, Array]:
        """Runs once, after every tensor that is read got the bytes `mark`, where a delegate might leave it as it was."""
        fed = {t.index for t in self._inputs}
        try:
            for one in shown if self._delegates else []:
                if one.index not in fed:
                    bytes_of = bytes([mark]) * (math.prod(one.dims) * one.dtype.itemsize)
                    opened.set_tensor(one.index, np.frombuffer(bytes_of, one.dtype).reshape(one.dims))
            for tensor in self._inputs:
                file = values[tensor.name].reshape([tensor.dims[a] for a in tensor.axes])
                opened.set_tensor(tensor.index, np.ascontiguousarray(file.transpose(np.argsort(tensor.axes))))
            opened.invoke()
            made = {t.name: (t, opened.get_tensor(t.index)) for t in shown}
        except (ValueError, RuntimeError) as error:
            raise RequestError(INTERNAL, f"LiteRT fails: {_one_line(error)}") from error
        return {n: np.ascontiguousarray(v.transpose(t.axes)).reshape(t.shape) for n, (t, v) in made.items()}

    def report(self) -> dict[str, Any]:
        """Returns where the nodes of the last run were computed, and whether its final outputs are the same if a delegate
        joins nodes, where there is one."""
        return self._said


def _is_marked(value: Array, mark: int) -> bool:
    return value.size > 0 and bool((value.view(np.uint8) == mark).all())


def _placement(opened: Any, delegate: str) -> dict[str, int]:
    """Returns how many nodes of the model the delegate computes, and how many LiteRT's kernels. {} where this LiteRT does
    not say."""
    try:
        nodes = opened._get_ops_details()
    except AttributeError:
        return {}
    own = [n for n in nodes if n["op_name"] != DELEGATED]
    parts = [n for n in nodes if n["op_name"] == DELEGATED]
    return _count(own, parts, os.path.basename(delegate))


def _count(own: list[dict[str, Any]], parts: list[dict[str, Any]], delegate: str) -> dict[str, int]:
    """Returns the nodes of the parts: those from which a part's output is made, as far back as its inputs."""
    maker = {int(o): n for n in own for o in n["outputs"]}
    taken = set()
    for part in parts:
        given, todo = {int(i) for i in part["inputs"]}, [int(o) for o in part["outputs"]]
        while todo:
            node = maker.get(todo.pop())
            if node is not None and node["index"] not in taken:
                taken.add(node["index"])
                todo += [int(i) for i in node["inputs"] if int(i) not in given]
    kernels = len(own) - len(taken)
    return {k: n for k, n in ((delegate, len(taken)), ("LiteRT's kernels", kernels)) if n}


def _unpacked(data: bytes) -> tuple[bytes, dict[str, Any]]:
    """Returns the .tflite and the names of its tensors, {} where there are none."""
    if data[4:8] == b"TFL3":
        return data, {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            if sum(entry.file_size for entry in packed.infolist()) > MOST:
                raise RequestError(FORMAT, f"a packed model of more than {MOST} bytes")
            model, named = packed.read("model.tflite"), json.loads(packed.read("tensors.json"))
    except (zipfile.BadZipFile, KeyError, ValueError, RecursionError) as error:
        raise RequestError(FORMAT, f"not a .tflite, and not a packed one: {_one_line(error)}") from error
    return model, named if isinstance(named, dict) else {}


def _tensor(one: Any, details: dict[int, dict[str, Any]]) -> Tensor:
    """Returns the tensor that an entry of tensors.json names. Raises RequestError where the file has no such tensor."""
    detail = details.get(one.get("index", -1)) if isinstance(one, dict) else None
    if detail is None:
        raise RequestError(FORMAT, f"tensors.json: {str(one)[:200]} is no tensor of the model")
    dims = tuple(int(d) for d in detail["shape"])
    axes = tuple(one.get("axes") or range(len(dims)))
    shape = tuple(one.get("shape") or (dims[a] for a in axes if a < len(dims)))
    if sorted(axes) != list(range(len(dims))) or np.prod(shape, dtype=np.int64) != np.prod(dims, dtype=np.int64):
        raise RequestError(FORMAT, f"tensors.json: {str(one)[:200]}; the model's tensor is {dims}")
    return Tensor(detail["index"], str(one.get("name") or detail["name"]), np.dtype(detail["dtype"]), dims, axes, shape)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:600]

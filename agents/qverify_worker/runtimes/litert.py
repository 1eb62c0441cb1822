"""LiteRT's Python package (ai-edge-litert, tflite_runtime or tensorflow): .tflite models, by its kernels or a delegate.

A model is a .tflite, or a zip of `model.tflite` and `tensors.json`: which tensor, by its index, is called what, in which layout:
{"inputs": [{"index", "name", "axes", "shape"}], "outputs": [...]}. axes: the order of the file's axes that gives the named
tensor's; shape: of the named tensor.
"""

from __future__ import annotations

import io
import json
import zipfile
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
    """Returns what a board with these settings offers. A delegate's inner tensors are never written, so only the final
    outputs are offered then."""
    delegated = settings.delegate or settings.kernels == "xnnpack"
    return ["finals", "digests"] if delegated else ["finals", "digests", "per_node"]


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
    """A Model (model.py)."""

    def __init__(self, data: bytes, settings: Settings):
        library, (content, named) = _library(), _unpacked(data)
        whole = "per_node" in features(settings)
        try:
            more = self._delegates(library, settings)
            resolver = getattr(library.OpResolverType, RESOLVERS[settings.kernels or "optimized"])
            self._interpreter: Any = library.Interpreter(
                model_content=content,
                num_threads=settings.threads or None,
                experimental_op_resolver_type=resolver,
                experimental_preserve_all_tensors=whole,
                **more,
            )
            self._interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise RequestError(FORMAT, f"LiteRT refuses the model: {_one_line(error)}") from error
        details = {d["index"]: d for d in (*self._interpreter.get_tensor_details(), *self._ends())}
        inputs = named.get("inputs") or [{"index": d["index"]} for d in self._interpreter.get_input_details()]
        outputs = named.get("outputs") or [{"index": d["index"]} for d in self._interpreter.get_output_details()]
        self._inputs, self._outputs = ([_tensor(one, details) for one in ends] for ends in (inputs, outputs))
        self.inputs = [(t.name, t.dtype, t.shape) for t in self._inputs]
        self.outputs = [t.name for t in self._outputs]

    def _ends(self) -> list[dict[str, Any]]:
        return [*self._interpreter.get_input_details(), *self._interpreter.get_output_details()]

    @staticmethod
    def _delegates(library: Any, settings: Settings) -> dict[str, Any]:
        if not settings.delegate:
            return {}
        try:
            return {
                "experimental_delegates": [library.load_delegate(settings.delegate, dict(settings.delegate_options))]
            }
        except (OSError, ValueError, RuntimeError) as error:
            raise RequestError(UNSUPPORTED, f"delegate {settings.delegate}: {_one_line(error)}") from error

    def run(self, values: dict[str, Array]) -> dict[str, Array]:
        """Returns the outputs by name, each in its named layout. Raises RequestError where LiteRT fails."""
        try:
            for tensor in self._inputs:
                file = values[tensor.name].reshape([tensor.dims[a] for a in tensor.axes])
                self._interpreter.set_tensor(
                    tensor.index, np.ascontiguousarray(file.transpose(np.argsort(tensor.axes)))
                )
            self._interpreter.invoke()
            made = {t.name: (t, self._interpreter.get_tensor(t.index)) for t in self._outputs}
        except (ValueError, RuntimeError) as error:
            raise RequestError(INTERNAL, f"LiteRT fails: {_one_line(error)}") from error
        return {n: np.ascontiguousarray(v.transpose(t.axes)).reshape(t.shape) for n, (t, v) in made.items()}

    def report(self) -> dict[str, Any]:
        """Returns nothing: LiteRT does not say where a node ran."""
        return {}


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

"""Runs an unchanged ONNX file on onnxruntime without fusion: a float or fake-quantized stage of the ladder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from qverify.errors import BadFileError
from qverify.onnx_model.cut_nodes import cut_nodes
from qverify.onnx_model.engine import Engine
from qverify.onnx_model.graph_view import GraphView
from qverify.onnx_model.load import load, parse
from qverify.onnx_model.open_exposed import open_exposed
from qverify.tensors.recording import Array

MAX_EXPOSED_BYTES = 1 << 27  # of tensors that one run returns; more tensors need further runs


class FloatFile:
    """An ONNX file that can be run. folder: folder of its external data. shapes: shapes of its dynamic inputs. Raises
    BadFileError if the file cannot be run."""

    def __init__(self, data: bytes, name: str, folder: str = "", shapes: Mapping[str, tuple[int, ...]] | None = None):
        self.name = name
        self.model = load(data, name, folder, _shapes_of_dynamic_inputs(parse(data, name), shapes or {}))
        self.view = GraphView(self.model, name)
        self._plain = open_exposed(self.model, [])
        self._exposing: dict[tuple[str, ...], Engine] = {}

    @property
    def outputs(self) -> list[str]:
        return self.view.outputs

    def run(self, feed: Mapping[str, Array]) -> dict[str, Array]:
        """Returns the outputs by name. feed: arrays by this file's input names."""
        lacking = [n for n in self.view.inputs if n not in feed]
        if lacking:
            raise BadFileError(
                f"{self.name}: no value is known for its input {lacking[0]!r}; its inputs must be the quantized model's, by name or by position"
            )
        return self._plain.run({n: _cast(feed[n], self.view.dtype(n)) for n in self.view.inputs})

    def tensors(self, feed: Mapping[str, Array], names: list[str]) -> Iterator[tuple[str, Array]]:
        """Yields tensors with their names, at most MAX_EXPOSED_BYTES per run."""
        values = {n: _cast(feed[n], self.view.dtype(n)) for n in self.view.inputs}
        yield from ((n, values[n]) for n in names if n in values)
        for part in self._parts([n for n in names if n not in values]):
            if part not in self._exposing:
                self._exposing[part] = open_exposed(self.model, list(part))
            yield from self._exposing[part].run(values, part).items()

    def compute_from(self, output: str, tensors: Mapping[str, Array]) -> Array:
        """Returns one tensor, computed from these tensors instead of the file's inputs."""
        engine = open_exposed(cut_nodes(self.model, tensors, [output]), [])
        return engine.run({n: tensors[n] for n in engine.inputs})[output]

    def _parts(self, names: list[str]) -> list[tuple[str, ...]]:
        parts: list[list[str]] = [[]]
        size = 0
        for name in names:
            tensor_bytes = 4 * prod(self.view.types[name][1]) if name in self.view.types else 0
            if parts[-1] and size + tensor_bytes > MAX_EXPOSED_BYTES:
                parts.append([])
                size = 0
            parts[-1].append(name)
            size += tensor_bytes
        return [tuple(p) for p in parts if p]


def _shapes_of_dynamic_inputs(model: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Returns shapes of the file's dynamic inputs, by name; a single shape is used for a single input of any name."""
    constants = {i.name for i in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in constants]
    by_name = {inputs[0].name: next(iter(shapes.values()))} if len(inputs) == len(shapes) == 1 else dict(shapes)
    dynamic = [i.name for i in inputs if any(d.dim_value < 1 for d in i.type.tensor_type.shape.dim)]
    return {n: by_name[n] for n in dynamic if n in by_name}


def _cast(value: Array, dtype: str) -> Array:
    return value.astype(dtype, copy=False)

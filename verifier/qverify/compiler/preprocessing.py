"""compile --input NAME=nv12,...: adds nodes before the network that compute its input from the raw bytes a chip
receives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from qverify.errors import UnsupportedError, UsageError
from qverify.inputs.described_inputs import complete_description, layout_of
from qverify.inputs.description import Description
from qverify.inputs.formats import MAX_BYTES
from qverify.inputs.preprocessing_words import channels_of, convert_words, normalize_words, unpack_words
from qverify.model_bin.graph import Graph, Node
from qverify.tensors.spec import TensorSpec

OPS = ("unpack", "resizer", "yuv_to_rgb", "normalize")
OTHER_FORMAT = "Give another format, or mean and scale"


def add_preprocessing(graph: Graph, tables: Mapping[str, Mapping[str, Any]], renamed: Mapping[str, str]) -> Graph:
    """Returns the graph with these inputs read as raw bytes.

    tables: network input to its description; if that has no size, the network's is used. renamed: network inputs that
    are quantized on the host, to the integer graph input. Raises UsageError for a name that is not an input,
    UnsupportedError for an input that no node can compute."""
    preprocessed, inputs = graph, {}
    for name, table in tables.items():
        tensor = renamed.get(name, name)
        if tensor not in graph.inputs:
            raise UsageError(f"--input {name}: no such input; the model's inputs are {', '.join(graph.inputs)}")
        wanted, roi = complete_description(table, graph.spec(tensor)), None
        if table.get("format") == "featuremap":
            preprocessed = _aligned(preprocessed, tensor, wanted)
        elif wanted is not None:
            builder = _InputNodes(preprocessed, tensor, wanted)
            preprocessed, tensor = builder.graph()
            table = {**table, "size": list(wanted.size)}
            roi = builder.roi
        inputs[name] = {"tensor": tensor, "description": dict(table), **({"roi": roi} if roi else {})}
    if not inputs:
        return preprocessed
    return _give_to_islands(replace(preprocessed, meta={**preprocessed.meta, "inputs": inputs}))


def _give_to_islands(graph: Graph) -> Graph:
    """Returns the graph with those network inputs as outputs that host islands read and that nodes now compute."""
    computed = {o for node in graph.nodes for o in node.outputs} - set(graph.outputs)
    pulled = [tuple(n for n in island.inputs if n in computed) for island in graph.islands]
    islands = tuple(replace(i, pulled=(*i.pulled, *more)) for i, more in zip(graph.islands, pulled, strict=True))
    more_outputs = dict.fromkeys(n for names in pulled for n in names)
    return replace(graph, islands=islands, outputs=(*graph.outputs, *more_outputs))


def _aligned(graph: Graph, name: str, wanted: Description | None) -> Graph:
    """Returns the graph with the integer input stored in the description's alignment."""
    if wanted is None:
        return graph
    spec, plane = graph.spec(name), wanted.planes[0]
    stored = replace(spec, aligned_shape=(1, *plane.aligned_shape), layout=wanted.layout)
    return replace(graph, tensors={**graph.tensors, name: stored})


class _InputNodes:
    """Builds the preprocessing nodes of one input."""

    def __init__(self, graph: Graph, name: str, wanted: Description):
        self._old, self._spec, self._wanted = graph, graph.spec(name), wanted
        self._nodes: list[Node] = []
        self._tensors: dict[str, TensorSpec] = {}
        self._layout = layout_of(self._spec)
        width, height = wanted.size
        planar = (1, channels_of(wanted), height, width)
        self._planar, self._frame = planar, (*planar[:2], *wanted.frame[::-1])
        self.roi: str | None = None
        size = prod(self._frame) * np.dtype(wanted.dtype).itemsize
        if size > MAX_BYTES:
            raise UsageError(f"input {name!r}: its picture is {size} bytes on the board; at most {MAX_BYTES} are taken")
        if not self._layout or self._spec.shape != (
            planar if self._layout == "NCHW" else tuple(planar[k] for k in (0, 2, 3, 1))
        ):
            raise UnsupportedError(
                f"input {name!r} is {list(self._spec.shape)}; {wanted.format} of {width}x{height} makes {list(planar)}"
            )

    def graph(self) -> tuple[Graph, str]:
        """Returns the graph with the preprocessing nodes before the others, and the name of the input with the raw
        bytes."""
        wanted, name = self._wanted, self._spec.name
        raw = self._named("raw", TensorSpec("", "uint8", (wanted.size_bytes,)))
        stored = wanted.dtype
        current = raw
        steps = [("unpack", stored, unpack_words(wanted)), *self._resize(stored), *self._arithmetic()]
        if steps[-1][1] != self._spec.dtype:
            half = self._spec.dtype == "float16"
            advice = "Leave --input out, and describe the bytes with --description" if half else OTHER_FORMAT
            raise UnsupportedError(
                f"input {name!r} is {self._spec.dtype}; {wanted.format} makes {steps[-1][1]} of it. {advice}"
            )
        for number, (op, dtype, words) in enumerate(steps):
            last = number == len(steps) - 1
            shape = self._frame if op == "unpack" else self._planar
            target = self._target() if last else self._named(op, TensorSpec("", dtype, shape, layout="NCHW"))
            reads = (current, self.roi) if op == "resizer" else (current,)
            self._nodes.append(Node(target, op, reads, (target,), tuple(words)))
            current = target
        if current != name:
            self._nodes.append(Node(name, "transpose", (current,), (name,), (0, 2, 3, 1)))
        old = self._old
        fed = (raw,) if self.roi is None else (raw, self.roi)
        inputs = tuple(n for before in old.inputs for n in (fed if before == name else (before,)))
        return replace(old, nodes=self._nodes + old.nodes, tensors={**old.tensors, **self._tensors}, inputs=inputs), raw

    def _target(self) -> str:
        """Returns the name of the last step's output: the network's input, or a tensor that a transpose turns into
        it."""
        if self._layout == "NCHW":
            return self._spec.name
        return self._named("planar", replace(self._spec, shape=self._planar, aligned_shape=self._planar, layout="NCHW"))

    def _named(self, suffix: str, spec: TensorSpec) -> str:
        """Declares a new tensor, named after the input, and returns its name."""
        name = f"{self._spec.name}.{suffix}"
        of_islands = {n for island in self._old.islands for n in island.made}
        while name in self._old.tensors or name in of_islands:
            name += "~"
        self._tensors[name] = replace(spec, name=name)
        return name

    def _resize(self, dtype: str) -> list[tuple[str, str, list[int]]]:
        """Returns the step of a resizer, if there is one; its region of interest becomes a graph input after the
        bytes."""
        if self._wanted.source is None:
            return []
        self.roi = self._named("roi", TensorSpec("", "int32", (4,)))
        return [("resizer", dtype, [])]

    def _arithmetic(self) -> list[tuple[str, str, list[int]]]:
        """Returns the steps that convert colours and normalize."""
        where = f"input {self._spec.name!r}"
        converted = convert_words(self._wanted, where)
        normalized = normalize_words(self._wanted, self._spec.dtype, where)
        steps = [] if converted is None else [("yuv_to_rgb", "uint8", converted)]
        return steps if normalized is None else [*steps, ("normalize", "float32", normalized)]

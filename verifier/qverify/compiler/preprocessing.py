"""compile --input NAME=nv12,...: nodes in front of the network that make its input of the raw bytes a chip is fed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from qverify.compiler.builder import float_word
from qverify.errors import UnsupportedError, UsageError
from qverify.inputs import buffers
from qverify.inputs.description import FORMATS, REAL, SIGNED, YUV420, Description
from qverify.inputs.fed import completed, layout_of
from qverify.model_bin.graph import Graph, Node
from qverify.tensors.spec import TensorSpec

OPS = ("unpack", "resizer", "yuv_to_rgb", "normalize")


def preprocessed(graph: Graph, tables: Mapping[str, Mapping[str, Any]], renamed: Mapping[str, str]) -> Graph:
    """The graph with these inputs fed as bytes. tables: network input to its description, whose size may be left to the
    network. renamed: network inputs that are quantized on the host, to the integer graph input.
    UsageError for names that are no input, UnsupportedError for what no node can make."""
    made, fed = graph, {}
    for name, table in tables.items():
        tensor = renamed.get(name, name)
        if tensor not in graph.inputs:
            raise UsageError(f"--input {name}: no such input; the model's inputs are {', '.join(graph.inputs)}")
        wanted, roi = completed(table, graph.spec(tensor)), None
        if table.get("format") == "featuremap":
            made = _aligned(made, tensor, wanted)
        elif wanted is not None:
            front = _Front(made, tensor, wanted)
            made, tensor = front.graph()
            table = {**table, "size": list(wanted.size)}
            roi = front.roi
        fed[name] = {"tensor": tensor, "description": dict(table), **({"roi": roi} if roi else {})}
    return replace(made, meta={**made.meta, "inputs": fed}) if fed else made


def _aligned(graph: Graph, name: str, wanted: Description | None) -> Graph:
    """The integer input stored with the description's alignments."""
    if wanted is None:
        return graph
    spec, plane = graph.spec(name), buffers.planes(wanted)[0]
    stored = replace(spec, aligned_shape=(1, *plane.aligned_shape))
    return replace(graph, tensors={**graph.tensors, name: stored})


class _Front:
    """The nodes of one input."""

    def __init__(self, graph: Graph, name: str, wanted: Description):
        self._old, self._spec, self._wanted = graph, graph.spec(name), wanted
        self._nodes: list[Node] = []
        self._tensors: dict[str, TensorSpec] = {}
        self._layout = layout_of(self._spec)
        width, height = wanted.size
        planar = (1, self._channels(), height, width)
        self._planar, self._frame = planar, (*planar[:2], *wanted.frame[::-1])
        self.roi: str | None = None
        if not self._layout or self._spec.shape != (
            planar if self._layout == "NCHW" else tuple(planar[k] for k in (0, 2, 3, 1))
        ):
            raise UnsupportedError(
                f"input {name!r} is {list(self._spec.shape)}; {wanted.format} of {width}x{height} makes {list(planar)}"
            )

    def _channels(self) -> int:
        return 1 if self._wanted.gray else 3

    def graph(self) -> tuple[Graph, str]:
        wanted, name = self._wanted, self._spec.name
        raw = self._named("raw", TensorSpec("", "uint8", (buffers.size_bytes(wanted),)))
        stored = buffers.dtype_of(wanted)
        at = raw
        steps = [("unpack", stored, self._unpack()), *self._cut(stored), *self._converted(), *self._normalized()]
        if steps[-1][1] != self._spec.dtype:
            raise UnsupportedError(
                f"input {name!r} is {self._spec.dtype}; {wanted.format} makes {steps[-1][1]} of it. Give another format, or mean and scale"
            )
        for number, (op, dtype, words) in enumerate(steps):
            last = number == len(steps) - 1
            shape = self._frame if op == "unpack" else self._planar
            target = self._target() if last else self._named(op, TensorSpec("", dtype, shape, layout="NCHW"))
            reads = (at, self.roi) if op == "resizer" else (at,)
            self._nodes.append(Node(target, op, reads, (target,), tuple(words)))
            at = target
        if at != name:
            self._nodes.append(Node(name, "transpose", (at,), (name,), (0, 2, 3, 1)))
        old = self._old
        fed = (raw,) if self.roi is None else (raw, self.roi)
        inputs = tuple(n for before in old.inputs for n in (fed if before == name else (before,)))
        return replace(old, nodes=self._nodes + old.nodes, tensors={**old.tensors, **self._tensors}, inputs=inputs), raw

    def _target(self) -> str:
        """The network's input itself, or what a transpose makes it of."""
        if self._layout == "NCHW":
            return self._spec.name
        return self._named("planar", replace(self._spec, shape=self._planar, aligned_shape=self._planar, layout="NCHW"))

    def _named(self, what: str, spec: TensorSpec) -> str:
        name = f"{self._spec.name}.{what}"
        while name in self._old.tensors:
            name += "~"
        self._tensors[name] = replace(spec, name=name)
        return name

    def _unpack(self) -> list[int]:
        """format, then every channel's offset, row stride, column stride, shift."""
        wanted, rows = self._wanted, []
        parts = buffers.planes(wanted)
        if wanted.format in YUV420:
            y = parts[0]
            rows = [(y.offset, y.strides_bytes[0], 1, 0)]
            if wanted.format == "i420":
                rows += [(p.offset, p.strides_bytes[0], 1, 1) for p in parts[1:]]
            else:
                uv = [(parts[1].offset + k, parts[1].strides_bytes[0], 2, 1) for k in (0, 1)]
                rows += uv if wanted.format == "nv12" else uv[::-1]
        else:
            strides = parts[0].strides_bytes
            along = 2 if wanted.layout == "NHWC" else 0  # of the channels
            row, column = (k for k in range(3) if k != along)
            rows = [(parts[0].offset + c * strides[along], strides[row], strides[column], 0) for c in self._order()]
        return [FORMATS.index(wanted.format), *(row[k] for k in range(4) for row in rows)]

    def _order(self) -> list[int]:
        """Which stored channel is each of the network's."""
        wanted = self._wanted
        stored = wanted.format[:3]
        if self._channels() == 1 or stored not in ("rgb", "bgr") or wanted.train in ("", stored):
            return list(range(self._channels()))
        return [2, 1, 0]

    def _cut(self, dtype: str) -> list[tuple[str, str, list[int]]]:
        """A resizer's: its roi is a graph input beside the bytes."""
        if self._wanted.source is None:
            return []
        self.roi = self._named("roi", TensorSpec("", "int32", (4,)))
        return [("resizer", dtype, [])]

    def _converted(self) -> list[tuple[str, str, list[int]]]:
        wanted = self._wanted
        yuv = wanted.format in YUV420 or wanted.format.startswith("yuv444")
        if not yuv or wanted.train == "yuv444":
            return []
        if not wanted.train:
            raise UsageError(f"input {self._spec.name!r}: {wanted.format} becomes what? Give train=rgb, bgr or yuv444")
        words = list(wanted.colour.inverse(wanted.format in YUV420))
        if wanted.format in SIGNED:
            words[2:5] = [w - 128 for w in words[2:5]]
        if wanted.train == "bgr":
            words[5:8], words[11:14] = words[11:14], words[5:8]
        return [("yuv_to_rgb", "uint8", words)]

    def _normalized(self) -> list[tuple[str, str, list[int]]]:
        """(x - mean) * scale, of the byte even where it is stored less 128; raw_s16 is dequantized."""
        wanted = self._wanted
        if wanted.format == "raw_s16":
            if wanted.quantize is None:
                raise UsageError(f"input {self._spec.name!r}: raw_s16 needs quantize=SCALE,ZERO")
            mean, scale = [float(wanted.quantize[1])], [wanted.quantize[0]]
        elif wanted.format in REAL or self._spec.dtype != "float32":
            if self._spec.dtype != "float32" and (wanted.mean, wanted.scale) != ((0.0,), (1.0,)):
                raise UsageError(
                    f"input {self._spec.name!r} is {self._spec.dtype}: mean and scale need a float32 input"
                )
            return []
        else:
            less = 128.0 if wanted.format in SIGNED and not self._converted() else 0.0
            mean, scale = [m - less for m in wanted.mean], list(wanted.scale)
        channels = self._channels()
        spread = [np.resize(np.array(v), channels) for v in (mean, scale)]
        return [("normalize", "float32", [float_word(v) for part in spread for v in part])]

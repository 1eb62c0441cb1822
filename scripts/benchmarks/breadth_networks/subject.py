"""The subject that a style quantizes: a float network with its calibration, computed once and shared by all styles."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from .builder import Array, Inputs
from .networks import Network


class NotApplicable(Exception):
    """The style has nothing to quantize in this network, or its tool does not take it; the text says why."""


def session(
    model: onnx.ModelProto | str, optimized: str | None = None, extended: bool = False
) -> onnxruntime.InferenceSession:
    """A session on one thread, without warnings; `optimized` receives the graph after basic or extended optimization."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if optimized:
        options.optimized_model_filepath = optimized
        levels = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = levels.ORT_ENABLE_EXTENDED if extended else levels.ORT_ENABLE_BASIC
    source = model if isinstance(model, str) else model.SerializeToString()
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def saved_by_runtime(model: onnx.ModelProto, extended: bool) -> onnx.ModelProto:
    """The graph that onnxruntime writes to optimized_model_filepath."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "optimized.onnx"
        session(model, str(path), extended)
        return onnx.load(path)


class Subject:
    """One network on its way through the styles."""

    def __init__(self, network: Network) -> None:
        self.name = network.name
        self.calibration: list[Inputs] = network.calibration()
        self.made: dict[str, onnx.ModelProto] = {}
        self.raw = onnx.shape_inference.infer_shapes(network.build(), data_prop=True)

    @cached_property
    def prepared(self) -> onnx.ModelProto:
        """The graph after onnxruntime's basic optimization: BatchNormalization folded, constants computed."""
        return onnx.shape_inference.infer_shapes(saved_by_runtime(self.raw, extended=False), data_prop=True)

    def copy(self, prepared: bool = False, opset: int = 0) -> onnx.ModelProto:
        """A model that may be changed, converted upwards to `opset` where it has an older one."""
        model = onnx.ModelProto()
        model.CopyFrom(self.prepared if prepared else self.raw)
        if opset_of(model) >= opset:
            return model
        try:
            model = onnx.version_converter.convert_version(model, opset)
        except (RuntimeError, onnx.checker.ValidationError) as error:
            raise NotApplicable(f"onnx.version_converter to {opset}: {str(error).splitlines()[0]}") from error
        model.ir_version = max(model.ir_version, 10 if opset >= 21 else 9 if opset >= 19 else 8)
        return model

    def once(self, style: Callable[[Subject], onnx.ModelProto]) -> onnx.ModelProto:
        """A copy of what `style` makes of this subject, computed at the first call only."""
        if style.__name__ not in self.made:
            self.made[style.__name__] = style(self)
        model = onnx.ModelProto()
        model.CopyFrom(self.made[style.__name__])
        return model

    def ranges(self, model: onnx.ModelProto) -> dict[str, tuple[float, float]]:
        """Least and greatest value of every float32 tensor of `model` over the calibration inputs."""
        exposed = onnx.ModelProto()
        exposed.CopyFrom(model)
        known = {value.name for value in exposed.graph.output}
        names = [name for node in exposed.graph.node for name in node.output if name and name not in known]
        exposed.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
        running = session(exposed)
        found: dict[str, tuple[float, float]] = {}
        order = [output.name for output in running.get_outputs()]
        for inputs in self.calibration:
            for name, value in [*inputs.items(), *zip(order, running.run(None, inputs), strict=True)]:
                if isinstance(value, np.ndarray) and value.dtype == np.float32 and value.size:
                    low, high = found.get(name, (0.0, 0.0))
                    found[name] = (min(low, float(value.min())), max(high, float(value.max())))
        return found


def opset_of(model: onnx.ModelProto) -> int:
    return next(int(entry.version) for entry in model.opset_import if entry.domain in ("", "ai.onnx"))


@dataclass(frozen=True)
class Style:
    """One way to quantize. `sorted_nodes` is False where the file's order is on purpose not topological."""

    name: str
    apply: Callable[[Subject], onnx.ModelProto]
    external_data: bool = False
    sorted_nodes: bool = True


def symmetric_scale(values: tuple[float, float], levels: int) -> float:
    """The step that puts the greatest magnitude on `levels`."""
    return max(abs(values[0]), abs(values[1]), 1e-5) / levels


def affine(values: tuple[float, float], low: int, high: int) -> tuple[float, int]:
    """Scale and zero point that map the range, zero included, to low..high."""
    least, most = min(values[0], 0.0), max(values[1], 0.0)
    scale = max(most - least, 1e-5) / (high - low)
    return scale, int(np.clip(round(low - least / scale), low, high))


def quantize(weight: Array, scale: Array, axis: int | None, limit: int) -> Array:
    """Symmetric integers of a weight, per channel where `axis` is given."""
    if axis is not None:
        scale = scale.reshape([-1 if i == axis else 1 for i in range(weight.ndim)])
    return np.clip(np.rint(weight / scale), -limit, limit).astype(np.int32)

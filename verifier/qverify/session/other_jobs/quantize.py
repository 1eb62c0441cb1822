"""Quantizes a float ONNX with calibration inputs, and compares the result with the float model on the same inputs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.norms import norm
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.errors import QVerifyError, UndescribedError, UsageError
from qverify.files import write_bytes
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.model_bin.graph import Graph
from qverify.onnx_model.load import read_model
from qverify.onnx_model.quantizer import QuantizeOptions, input_specs, quantize
from qverify.session.many_frames import FrameSource, error_with_draft, frame_sources
from qverify.session.model_file import kind_of
from qverify.session.vendor_quantized import espdl_files, quantize_as_vendor
from qverify.sides.float_file import FloatFile
from qverify.tensors.spec import TensorSpec
from qverify.vendor_quantization import Quantized

MAX_COMPARED_FRAMES = 16  # on which float and quantized outputs are compared

Feed = dict[str, npt.NDArray[np.generic]]


@dataclass(frozen=True, slots=True)
class QuantizationLoss:
    """The difference between an output of the quantized model and that of the float model, over all compared frames.
    cosine: cosine similarity of all values. top1: number of items whose largest value is at the same index in both,
    None if the output is not a row of classes for each item. items: number of items."""

    name: str
    cosine: float
    top1: int | None
    items: int


@dataclass(slots=True)
class QuantizedFile:
    """The result of a quantization.

    Attributes:
        size_bytes: size of the quantized ONNX.
        used: number of calibration frames that were used.
        left_out: (name, reason) of each frame that could not be prepared.
        losses: the loss of each comparable output.
        compared: number of frames over which the losses were computed.
        not_compared: names of outputs that are not finite, or whose shape differs.
        blocker: why qverify cannot compile the result, "" if it can.
        drafts: proposed descriptions that the frames left out need, TOML by input name.
    """

    size_bytes: int
    used: int = 0
    left_out: list[tuple[str, str]] = field(default_factory=list)
    losses: list[QuantizationLoss] = field(default_factory=list)
    compared: int = 0
    not_compared: list[str] = field(default_factory=list)
    blocker: str = ""
    drafts: dict[str, str] = field(default_factory=dict)


def quantize_file(
    path: str,
    inputs: InputRequest,
    output: str,
    options: QuantizeOptions,
    progress: Callable[[str, int, int], None] | None = None,
) -> QuantizedFile:
    """Quantizes the model at `path` and writes the quantized ONNX to `output`. inputs: the calibration inputs, one
    frame or many. Raises UsageError if the model is not a float ONNX, or no input fits it."""
    data = read_model(path)
    if (kind := kind_of(path, data)) != "float.onnx":
        problem = f"it is quantized already: qverify compile {path}" if kind == "quant.onnx" else f"got {kind}"
        raise UsageError(f"{path}: wanted a float ONNX, {problem}")
    if not isinstance(inputs.files, str):
        raise UsageError("-i is missing: inputs like those that the network will get, from which ranges are measured")
    frames = frame_sources(inputs.files) or [FrameSource(inputs.files, inputs.files)]
    shapes = dict(options.shapes or {})
    calibration = _Calibration(graph_of_inputs(path, data, shapes), inputs, frames, progress)
    quantized = quantize(path, data, calibration.feeds(), options)
    write_bytes(quantized, output)
    result = QuantizedFile(len(quantized), calibration.used, calibration.left_out, drafts=calibration.drafts)
    float_file = FloatFile(data, path, os.path.dirname(os.path.abspath(path)), shapes)
    result.losses, result.compared = _compare(float_file, FloatFile(quantized, output), calibration.again())
    result.not_compared = [n for n in float_file.outputs if n not in {loss.name for loss in result.losses}]
    result.blocker = _find_blocker(quantized, output)
    return result


def quantize_as_stated(path: str, files: Sequence[str], output: str) -> Quantized:
    """Writes to `output` the quantized ONNX that the files of a vendor's toolkit and the float ONNX at `path` give, or an
    .espdl, which needs no other file. Raises UsageError if the model is not such a file, BadFileError for files that do not belong
    to it."""
    data = read_model(path)
    kind = kind_of(path, data)
    if kind == "espdl" and files:
        raise UsageError(f"--from {files[0]}: {path} states its own quantization; leave it out")
    if kind == "espdl":
        files = espdl_files(path)
    elif kind != "float.onnx":
        raise UsageError(f"{path}: got {kind}; wanted the float ONNX that the toolkit quantized")
    quantized = quantize_as_vendor(path, data, files)
    write_bytes(quantized.onnx, output)
    return quantized


def graph_of_inputs(path: str, data: bytes, shapes: dict[str, tuple[int, ...]]) -> Graph:
    """Returns a graph that has only the inputs of a float ONNX, as prepared_inputs needs it."""
    specs = {name: TensorSpec(name, dtype, shape) for name, dtype, shape in input_specs(path, data, shapes)}
    return Graph([], specs, {}, tuple(specs), ())


@dataclass
class _Calibration:
    """The calibration inputs, prepared one at a time, so that memory does not grow with their number. good: the frames
    that could be prepared. The other results are as in QuantizedFile."""

    graph: Graph
    inputs: InputRequest
    frames: list[FrameSource]
    progress: Callable[[str, int, int], None] | None
    used: int = 0
    left_out: list[tuple[str, str]] = field(default_factory=list)
    good: list[FrameSource] = field(default_factory=list)
    drafts: dict[str, str] = field(default_factory=dict)

    def feeds(self) -> Iterator[Feed]:
        """Yields the inputs of each frame that can be prepared. Raises UsageError at the end if there was none."""
        first_error: QVerifyError | None = None
        for at, frame in enumerate(self.frames):
            try:
                if frame.wrong:
                    raise UsageError(frame.wrong)
                feed = self._prepare(frame)
            except QVerifyError as error:
                first_error = first_error or error
                if isinstance(error, UndescribedError) and error.draft:
                    self.drafts[error.input] = error.draft
                self.left_out.append((frame.source, str(error)))
                continue
            self.used += 1
            self.good.append(frame)
            if self.progress is not None:
                self.progress("calibration", at + 1, len(self.frames))
            yield feed
        if not self.used:
            which = f"none of {len(self.frames)} frames fits" if len(self.frames) > 1 else "the input does not fit"
            raise error_with_draft(f"{which}: {self.left_out[0][1]}", first_error)

    def again(self) -> Iterator[Feed]:
        """Yields the inputs of the first MAX_COMPARED_FRAMES good frames, prepared again."""
        yield from map(self._prepare, self.good[:MAX_COMPARED_FRAMES])

    def _prepare(self, frame: FrameSource) -> Feed:
        return prepared_inputs(self.graph, replace(self.inputs, files=frame.files, prepared=frame.stated)).arrays()


def _compare(before: FloatFile, after: FloatFile, feeds: Iterator[Feed]) -> tuple[list[QuantizationLoss], int]:
    """Returns the loss of each comparable output, and the number of frames."""
    values: dict[str, list[tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]]] = {}
    frames = 0
    for feed in feeds:
        frames += 1
        exact, quantized = before.run(feed), after.run(feed)
        for name in before.outputs:
            pair = exact[name].astype(np.float64), quantized[name].astype(np.float64)
            values.setdefault(name, []).append(pair)
    comparable = {n: pairs for n, pairs in values.items() if all(_is_comparable(*pair) for pair in pairs)}
    return [_loss(name, pairs) for name, pairs in comparable.items()], frames


def _is_comparable(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> bool:
    """Returns whether all values are finite and the shapes equal. Some operators' shapes depend on values (NonZero)."""
    return a.shape == b.shape and bool(np.isfinite(a).all() and np.isfinite(b).all())


def _loss(name: str, pairs: list[tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]]) -> QuantizationLoss:
    a, b = (np.concatenate([pair[side].ravel() for pair in pairs]) for side in (0, 1))
    length = norm(a) * norm(b)
    cosine = float((a * b).sum() / length) if length else 1.0 if np.array_equal(a, b) else 0.0
    classes = pairs[0][0].shape[-1] if pairs[0][0].ndim == 2 else 1
    if classes < 2:
        return QuantizationLoss(name, cosine, None, 0)
    same = a.reshape(-1, classes).argmax(1) == b.reshape(-1, classes).argmax(1)
    return QuantizationLoss(name, cosine, int(same.sum()), same.size)


def _find_blocker(data: bytes, path: str) -> str:
    """Returns why qverify cannot compile the model without host islands; "" if it can."""
    try:
        compile_model(data, os.path.basename(path), CompilerOptions(check=False))
    except QVerifyError as error:
        return str(error)
    return ""

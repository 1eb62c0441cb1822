"""Quantizes a float ONNX with onnxruntime's own quantizer: ranges from calibration inputs, QDQ format."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from qverify.errors import BadFileError, UsageError
from qverify.onnx_model.engine import load_quantization
from qverify.onnx_model.load import load, read_file
from qverify.printable import describe_error

SCHEMES = {
    "u8s8": ("QUInt8", "QInt8"),
    "s8s8": ("QInt8", "QInt8"),
    "u8u8": ("QUInt8", "QUInt8"),
    "s16s8": ("QInt16", "QInt8"),
}
METHODS = {"minmax": "MinMax", "entropy": "Entropy", "percentile": "Percentile"}
MIN_OPSET = 13  # the first opset with scales per channel
TARGET_OPSET = 17  # older models are converted to it

Feed = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class QuantizeOptions:
    """Options of quantize().

    Attributes:
        scheme: a key of SCHEMES, the types of activations and weights.
        method: a key of METHODS, how ranges are chosen.
        per_channel: whether weights get a scale for each output channel.
        keep_float: names of ONNX nodes that stay float.
        int16: names of ONNX nodes whose outputs get 16 bits.
        shapes: dims of dynamic inputs.
    """

    scheme: str = "u8s8"
    method: str = "minmax"
    per_channel: bool = True
    keep_float: tuple[str, ...] = ()
    int16: tuple[str, ...] = ()
    shapes: Mapping[str, tuple[int, ...]] | None = None


def quantize(path: str, data: bytes, frames: Iterable[Feed], options: QuantizeOptions) -> bytes:
    """Returns the quantized ONNX.

    path, data: name and bytes of the float ONNX. frames: the calibration inputs, arrays by input name, read one after
    the other. Raises UsageError if an option names a node that does not exist, BadFileError if the quantizer refuses
    the model."""
    name = os.path.basename(path)
    tools = load_quantization()
    model = _name_nodes(
        _raise_opset(load(data, name, os.path.dirname(os.path.abspath(path)), dict(options.shapes or {})), name)
    )
    _check_names(model, name, (*options.keep_float, *options.int16))
    with tempfile.TemporaryDirectory(prefix="qverify-quantize-") as folder, _quiet():
        plain, source, target = (os.path.join(folder, f"{n}.onnx") for n in ("float", "prepared", "quantized"))
        try:
            onnx.save(model, plain)
            tools.quant_pre_process(plain, source, skip_symbolic_shape=True)
            prepared = onnx.load(source)
            _check_not_merged(prepared, name, (*options.keep_float, *options.int16))
            _run_quantizer(tools, source, target, frames, options, prepared)
        except (UsageError, BadFileError):
            raise
        except Exception as error:  # the quantizer and its libraries raise any type of error
            raise BadFileError(f"{name}: onnxruntime's quantizer refuses it: {describe_error(error)}") from error
        return read_file(target)


def _run_quantizer(
    tools: Any, source: str, target: str, frames: Iterable[Feed], options: QuantizeOptions, model: onnx.ModelProto
) -> None:
    activations, weights = (getattr(tools.QuantType, t) for t in SCHEMES[options.scheme])
    symmetric = options.scheme == "s16s8"
    extra: dict[str, Any] = {"ActivationSymmetric": symmetric, "WeightSymmetric": options.scheme != "u8u8"}
    if options.int16 and not symmetric:
        extra["TensorQuantOverrides"] = _widening_overrides(tools, model, options.int16, activations)
    tools.quantize_static(
        source,
        target,
        tools.reader(iter(frames)),
        quant_format=tools.QuantFormat.QDQ,
        per_channel=options.per_channel,
        activation_type=activations,
        weight_type=weights,
        nodes_to_exclude=list(options.keep_float),
        calibrate_method=getattr(tools.CalibrationMethod, METHODS[options.method]),
        extra_options=extra,
    )


def _widening_overrides(tools: Any, model: onnx.ModelProto, names: tuple[str, ...], default: Any) -> dict[str, Any]:
    """Returns the quantizer's overrides that give the outputs of these nodes 16 bits; nodes outside `names` that read
    them get 8 bits again."""
    wide = tools.QuantType.QUInt16 if default == tools.QuantType.QUInt8 else tools.QuantType.QInt16
    outputs = [n.output[0] for n in model.graph.node if n.name in names]
    overrides = tools.TensorQuantOverridesHelper({o: [{"quant_type": wide}] for o in outputs})
    tools.Fixer.create_from_model(overrides, model, default).apply(default, False)
    result: dict[str, Any] = overrides.get_dict()
    return result


def _raise_opset(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """Returns the model, converted to TARGET_OPSET if its opset has no scales per channel. Raises BadFileError."""
    version = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
    if version >= MIN_OPSET:
        return model
    try:
        return onnx.version_converter.convert_version(model, TARGET_OPSET)
    except Exception as error:  # the converters raise any type of error
        raise BadFileError(
            f"{name}: opset {version}, which has no scales per channel, and converting it to {TARGET_OPSET} failed: "
            f"{describe_error(error)}. Export it with opset {MIN_OPSET} or later"
        ) from error


def _name_nodes(model: onnx.ModelProto) -> onnx.ModelProto:
    """Names nodes without a name after their first output, in place, and returns the model. The quantizer excludes
    nodes by name."""
    for node in model.graph.node:
        node.name = node.name or node.output[0]
    return model


def _check_names(model: onnx.ModelProto, name: str, requested: Iterable[str]) -> None:
    """Raises UsageError if the model has no node of one of the requested names."""
    import difflib

    existing = [n.name for n in model.graph.node]
    for missing in (r for r in requested if r not in existing):
        near = difflib.get_close_matches(missing, existing, 3) or existing[:3]
        raise UsageError(f"{name}: no node {missing!r}; wanted the name of a node, such as {', '.join(near)}")


def _check_not_merged(model: onnx.ModelProto, name: str, requested: Iterable[str]) -> None:
    """Raises UsageError if preparing the model merged one of the requested nodes into another."""
    existing = {n.name for n in model.graph.node}
    if lost := next((r for r in requested if r not in existing), None):
        raise UsageError(
            f"{name}: node {lost!r} is merged into the node before it when the model is prepared; name that one"
        )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppresses the quantizer's prints and logs."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(before)


def input_specs(
    path: str, data: bytes, shapes: Mapping[str, tuple[int, ...]]
) -> list[tuple[str, str, tuple[int, ...]]]:
    """Returns name, dtype and shape of each input of the float ONNX."""
    model = load(data, os.path.basename(path), os.path.dirname(os.path.abspath(path)), dict(shapes))
    specs = []
    for value in model.graph.input:
        kind = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        specs.append((value.name, np.dtype(kind).name, tuple(d.dim_value for d in value.type.tensor_type.shape.dim)))
    return specs

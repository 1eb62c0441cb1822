"""Styles that onnxruntime.quantization itself writes: QDQ, QOperator, dynamic, 16 bit, 4 bit, and its options."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import Any

import onnx
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)

from .builder import Inputs
from .subject import Style, Subject, saved_by_runtime

U8, S8, U16, S16 = QuantType.QUInt8, QuantType.QInt8, QuantType.QUInt16, QuantType.QInt16


class Reader(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime ships no types
    """The calibration sets of a subject, one after the other."""

    def __init__(self, sets: list[Inputs]) -> None:
        self.sets = iter(sets)

    def get_next(self) -> Inputs | None:
        return next(self.sets, None)


def static(
    subject: Subject,
    activations: QuantType,
    weights: QuantType,
    prepared: bool = True,
    options: dict[str, Any] | None = None,
    **settings: Any,
) -> onnx.ModelProto:
    """`quantize_static`; the graph is first optimized as its documentation asks, unless `prepared` is False."""
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "quantized.onnx"
        quantize_static(
            subject.copy(prepared),
            path,
            Reader(subject.calibration),
            activation_type=activations,
            weight_type=weights,
            extra_options=options or {},
            **settings,
        )
        return onnx.load(path)


def dynamic(subject: Subject, weights: QuantType, **settings: Any) -> onnx.ModelProto:
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "quantized.onnx"
        quantize_dynamic(subject.copy(prepared=True), path, weight_type=weights, **settings)
        return onnx.load(path)


def u8s8(subject: Subject) -> onnx.ModelProto:
    """Unsigned activations, signed weights per tensor: the commonest file."""
    return static(subject, U8, S8)


def s8s8(subject: Subject) -> onnx.ModelProto:
    """The defaults of quantize_static, on the graph as it was exported."""
    return static(subject, S8, S8, prepared=False)


def u8u8(subject: Subject) -> onnx.ModelProto:
    return static(subject, U8, U8)


def u8s8_per_channel(subject: Subject) -> onnx.ModelProto:
    """Weights per channel and in 7 bits, as advised for processors without VNNI."""
    return static(subject, U8, S8, per_channel=True, reduce_range=True)


def a16w8(subject: Subject) -> onnx.ModelProto:
    return static(subject, U16, S8, per_channel=True)


def s16s8(subject: Subject) -> onnx.ModelProto:
    """Symmetric int16 activations with Q/DQ of com.microsoft, as written before opset 21."""
    return static(subject, S16, S8, options={"ActivationSymmetric": True, "UseQDQContribOps": True})


def a16w16(subject: Subject) -> onnx.ModelProto:
    """Sixteen bits on both sides, and biases left in float."""
    return static(subject, U16, S16, options={"QuantizeBias": False})


def qoperator(subject: Subject) -> onnx.ModelProto:
    return static(subject, U8, S8, quant_format=QuantFormat.QOperator)


def qoperator_per_channel(subject: Subject) -> onnx.ModelProto:
    return static(subject, U8, U8, quant_format=QuantFormat.QOperator, per_channel=True)


def dynamic_s8(subject: Subject) -> onnx.ModelProto:
    return dynamic(subject, S8)


def dynamic_u8_per_channel(subject: Subject) -> onnx.ModelProto:
    return dynamic(subject, U8, per_channel=True, reduce_range=True)


def conv_only(subject: Subject) -> onnx.ModelProto:
    """Only the convolutions are quantized, the rest stays in float."""
    return static(subject, U8, S8, op_types_to_quantize=["Conv", "ConvTranspose"], per_channel=True)


def matmul_only(subject: Subject) -> onnx.ModelProto:
    """Only the dense layers are quantized, the rest stays in float."""
    return static(subject, S8, S8, prepared=False, op_types_to_quantize=["MatMul", "Gemm"])


def half_quantized(subject: Subject) -> onnx.ModelProto:
    """Every third node is excluded, as someone does who chases accuracy."""
    excluded = [node.name for node in subject.prepared.graph.node if node.name][2::3]
    return static(subject, U8, S8, nodes_to_exclude=excluded)


def tensorrt_options(subject: Subject) -> onnx.ModelProto:
    """The options that onnxruntime's TensorRT examples set: symmetric, a pair for each consumer, pairs on weights."""
    options = {
        "ActivationSymmetric": True,
        "WeightSymmetric": True,
        "AddQDQPairToWeight": True,
        "DedicatedQDQPair": True,
        "QuantizeBias": False,
        "OpTypesToExcludeOutputQuantization": ["Conv", "MatMul", "Gemm", "Add"],
    }
    return static(subject, S8, S8, per_channel=True, options=options)


def asymmetric(subject: Subject) -> onnx.ModelProto:
    """Signed weights with zero points, activations kept that a fusion could remove, contrib Q/DQ."""
    options = {"WeightSymmetric": False, "QDQKeepRemovableActivations": True, "UseQDQContribOps": True}
    return static(subject, S8, S8, options=options)


def forced(subject: Subject) -> onnx.ModelProto:
    """Movement quantized even where its input is not, a least range, scales kept for biases."""
    options = {
        "ForceQuantizeNoInputCheck": True,
        "MinimumRealRange": 0.001,
        "QDQDisableWeightAdjustForInt32Bias": True,
        "ActivationRestrictedAsymmetric": True,
    }
    return static(subject, U8, S8, prepared=False, options=options)


def mixed_precision(subject: Subject) -> onnx.ModelProto:
    """Eight bits with some tensors in sixteen, joined by converting Q/DQ (what add_qtype_converter asks for)."""
    produced = [
        node.output[0]
        for node in subject.prepared.graph.node
        if node.op_type in ("Conv", "MatMul", "Gemm", "Add", "Mul", "LSTM", "GRU")
    ]
    outputs = {value.name for value in subject.prepared.graph.output}
    wide = [name for name in produced if name not in outputs][::3]
    overrides = {name: [{"quant_type": U8, "convert": {"quant_type": U16}}] for name in wide}
    return static(subject, U8, S8, options={"TensorQuantOverrides": overrides})


def w4_static(subject: Subject) -> onnx.ModelProto:
    """Eight-bit activations with four-bit weights per channel."""
    return static(subject, S8, QuantType.QInt4, per_channel=True)


def saved_static(subject: Subject) -> onnx.ModelProto:
    """The u8s8 file as onnxruntime saves it after extended optimization: QLinear operators of its own domain."""
    return saved_by_runtime(subject.once(u8s8), extended=True)


def saved_dynamic(subject: Subject) -> onnx.ModelProto:
    """The dynamic file saved the same way: DynamicQuantizeMatMul, MatMulIntegerToFloat and fused float nodes."""
    return saved_by_runtime(subject.once(dynamic_s8), extended=True)


def optimum_o2(subject: Subject) -> onnx.ModelProto:
    """Fused first (SkipLayerNormalization, BiasGelu, ...), then quantized dynamically, as Optimum does."""
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "quantized.onnx"
        quantize_dynamic(saved_by_runtime(subject.raw, extended=True), path, weight_type=S8, per_channel=True)
        return onnx.load(path)


STYLES = [
    Style(f"ort_{function.__name__}", function)
    for function in (
        u8s8, s8s8, u8u8, u8s8_per_channel, a16w8, s16s8, a16w16, qoperator, qoperator_per_channel, dynamic_s8,
        dynamic_u8_per_channel, conv_only, matmul_only, half_quantized, tensorrt_options, asymmetric, forced,
        mixed_precision, w4_static, saved_static, saved_dynamic, optimum_o2,
    )
]  # fmt: skip

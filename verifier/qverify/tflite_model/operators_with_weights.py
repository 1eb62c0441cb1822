"""Converts CONV_2D, DEPTHWISE_CONV_2D, TRANSPOSE_CONV, FULLY_CONNECTED and BATCH_MATMUL."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from qverify.errors import NotOnHostError, UnsupportedError
from qverify.tflite_model.activation_types import check_activation
from qverify.tflite_model.checks import activation_of, ends_of, integers, require
from qverify.tflite_model.dynamic_range import quantized_asymmetric, quantized_symmetric
from qverify.tflite_model.options import INT32
from qverify.tflite_model.read_tflite import TfliteModel, TfliteOperator, TfliteTensor
from qverify.tflite_model.windows import dilations_of, pads_of, strides_of
from qverify.tflite_model.writer import EIGHT_BITS, Array, Writer

CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")
PACKED_WITHOUT_KERNEL = {  # types of weights, operators and inputs whose weights LiteRT's kernels read as if of 8 bits
    *(("int2", kind, dtype) for kind in CONVOLUTIONS for dtype in ("float32", "int8", "int16")),
    *(("int4", "DEPTHWISE_CONV_2D", dtype) for dtype in ("float32", "int16")),
}
BLOCK = 32  # of which the size of a block of weights is a multiple for XNNPACK
STORED_WEIGHTS = (*EIGHT_BITS, "int4", "int2")


def convolution(writer: Writer, operator: TfliteOperator) -> None:
    """Writes a CONV_2D (weights OHWI) or a DEPTHWISE_CONV_2D (weights 1HWO) as Conv."""
    depthwise = operator.kind == "DEPTHWISE_CONV_2D"
    x, y = writer.tensor(operator.inputs[0]), writer.tensor(operator.outputs[0])
    weights = _weights(writer, operator, 3 if depthwise else 0)
    if len(x.shape) != 4 or weights.ndim != 4 or len(y.shape) != 4:
        raise UnsupportedError("its tensors do not have four axes")
    order = (3, 0, 1, 2) if depthwise else (0, 3, 1, 2)
    turned, channels = weights.transpose(order), x.shape[3]
    per_group = turned.shape[1]
    require(not depthwise or weights.shape[0] == 1, f"weights of {list(weights.shape)}")
    require(channels % per_group == 0 and turned.shape[0] % (channels // per_group) == 0, "groups that do not divide")
    kernel, strides, dilations = turned.shape[2:], strides_of(operator), dilations_of(operator)
    pads = pads_of(operator, x.shape[1:3], y.shape[1:3], kernel)
    how = {"kernel_shape": list(kernel), "strides": strides, "dilations": dilations, "pads": pads}
    group = channels // per_group
    if is_dynamic(writer, operator):
        symmetric = not depthwise and writer.tensor(operator.inputs[1]).scale.size == 1
        product = DynamicProduct(writer, operator, writer.real(x.index), (1, 2, 3), symmetric)
        product.write("Conv", turned, (1, turned.shape[0], 1, 1), group=group, **how)
    else:
        _check_sums(operator, x, turned, _stored_bias(writer, operator))
        inputs = [writer.real(x.index), _real_weights(writer, operator, turned), *_bias(writer, operator, x, 2)]
        writer.node("Conv", inputs, writer.unquantized(y.index), group=group, **how)
    writer.finish(operator, activation_of(operator))


def fully_connected(writer: Writer, operator: TfliteOperator) -> None:
    """Writes a FULLY_CONNECTED (one row of weights for each output) as a Gemm on rows."""
    x, y = writer.tensor(operator.inputs[0]), writer.tensor(operator.outputs[0])
    weights = _weights(writer, operator, 0)
    require(operator.options["WeightsFormat"] == 0, "shuffled weights")
    require(weights.ndim == 2, f"weights of {list(weights.shape)}")
    length = weights.shape[1]
    elements = int(np.prod(x.shape, dtype=np.int64))
    require(elements % length == 0, f"rows of {length} out of {elements} elements")
    made = (elements // length, weights.shape[0])
    require(prod(y.shape) == prod(made) and y.shape[-1:] == made[1:], f"an output of {list(y.shape)}")
    rows = (elements // length, length)
    source = writer.real(x.index) if x.shape == rows else writer.rows_first(x.index, rows)
    if is_dynamic(writer, operator):
        symmetric = not (operator.options["AsymmetricQuantizeInputs"] or writer.tensor(operator.inputs[1]).block)
        product = DynamicProduct(writer, operator, source, (1,), symmetric)
        product.write("Gemm", weights, (1, weights.shape[0]), transB=1)
    else:
        _check_sums(operator, x, weights, _stored_bias(writer, operator))
        inputs = [source, _real_weights(writer, operator, weights), *_bias(writer, operator, x, 2)]
        writer.node("Gemm", inputs, writer.unquantized(y.index), transB=1)
    if y.shape == made:
        writer.finish(operator, activation_of(operator))
        return
    copy = writer.entry(f"{writer.name(y.index)}@rows", y.index, range(len(y.shape)), made)
    writer.finish(operator, activation_of(operator), copy)
    writer.reshape_to(y.index, copy)


def sums_in_32_bits(operator: TfliteOperator) -> bool:
    """Returns whether LiteRT sums products with int16 in 32 bits, to a bias of int32."""
    return bool(operator.options.get("QuantizedBiasType", 0) == INT32)


def _check_sums(operator: TfliteOperator, x: TfliteTensor, weights: Array, bias: Array) -> None:
    """Raises UnsupportedError if sums of products with int16 may exceed the 32 bits in which LiteRT has them. weights: the
    outputs on the first axis."""
    if x.dtype == "int16" and sums_in_32_bits(operator):
        most = np.abs(weights.reshape(weights.shape[0], -1).astype(np.int64)).sum(1) * 2**15 + np.abs(bias)
        require(bool((most < 2**31).all()), "sums that may exceed 32 bits, where LiteRT's wrap")


def is_dynamic(writer: Writer, operator: TfliteOperator) -> bool:
    """Returns whether LiteRT quantizes the operator's input when it runs: floats beside weights that are integers."""
    return writer.tensor(operator.inputs[0]).dtype == "float32" != writer.tensor(operator.inputs[1]).dtype


class DynamicProduct:
    """A product of floats with weights that are integers. source: its real input. axes: those over which a scale of the
    input is common. symmetric: whether that has no zero point."""

    def __init__(self, writer: Writer, operator: TfliteOperator, source: str, axes: Sequence[int], symmetric: bool):
        self._writer, self._operator, self._source, self._axes = writer, operator, source, axes
        self._quantized = quantized_symmetric if symmetric else quantized_asymmetric

    def write(self, kind: str, weights: Array, channels: Sequence[int], **how: Any) -> None:
        """Writes the real output before its activation. weights: in the ONNX's layout. channels: dims by which a value of
        each channel is broadcast."""
        writer, operator = self._writer, self._operator
        (output,), tensor = operator.outputs, writer.tensor(operator.inputs[1])
        require(not tensor.zero.any(), "weights with a zero point beside an input of floats")
        name = writer.name(output)
        whole, scale = self._quantized(writer, self._source, name, self._axes)
        stored = writer.constant(f"{writer.name(tensor.index)}@whole{operator.position}", weights.astype(np.float32))
        sums = writer.node(kind, [whole, stored], f"{name}@sums", **how)
        scales_of_weights = (
            np.ones(1, np.float32) if tensor.block else tensor.scale
        )  # weights of blocks are real values
        steps = scales_of_weights.reshape(channels if scales_of_weights.size > 1 else ())
        stated = writer.constant(f"{name}@steps", steps)
        if operator.kind == "CONV_2D" and tensor.scale.size > 1:  # LiteRT's order of products
            sums, scales = writer.node("Mul", [sums, stated], f"{name}@stepped"), scale
        else:
            scales = writer.node("Mul", [scale, stated], f"{name}@scales")
        bias = _float_bias(writer, operator)
        real = writer.unquantized(output) if bias is None else f"{name}@scaled"
        writer.node("Mul", [sums, scales], real)
        if bias is not None:
            added = writer.constant(f"{name}@bias", bias.reshape(channels))
            writer.node("Add", [real, added], writer.unquantized(output))


def _float_bias(writer: Writer, operator: TfliteOperator) -> Array | None:
    """Returns the bias of a product of floats, None if there is none."""
    if len(operator.inputs) < 3 or operator.inputs[2] < 0:
        return None
    tensor, outputs = writer.tensor(operator.inputs[2]), writer.tensor(operator.outputs[0]).shape[-1]
    require(
        tensor.data is not None and tensor.dtype == "float32", f"a bias of {tensor.dtype}, wanted a constant of float32"
    )
    require(tensor.shape == (outputs,), f"a bias of {list(tensor.shape)} for {outputs} outputs")
    return tensor.data


def transpose_conv(writer: Writer, operator: TfliteOperator) -> None:
    """Writes a TRANSPOSE_CONV (weights OHWI; its first input is the shape of the output) as ConvTranspose."""
    require(len(operator.inputs) in (3, 4), f"{len(operator.inputs)} inputs")
    x, y = writer.tensor(operator.inputs[2]), writer.tensor(operator.outputs[0])
    check_activation(writer, operator, x.index)
    check_activation(writer, operator, y.index)
    weights = _weights(writer, operator, 0)
    require(len(x.shape) == len(y.shape) == weights.ndim == 4, "tensors that do not have four axes")
    if operator.inputs[0] not in writer.model.inputs:  # then it states the shape when the network runs
        require(tuple(integers(writer, operator.inputs[0])) == y.shape, f"an output that is not {list(y.shape)}")
    require(weights.shape[3] == x.shape[3] and weights.shape[0] == y.shape[3], f"weights of {list(weights.shape)}")
    strides, kernel = strides_of(operator), weights.shape[1:3]
    begins, ends, more = [], [], []
    for size, out, taps, step in zip(x.shape[1:3], y.shape[1:3], kernel, strides, strict=True):
        whole = (size - 1) * step + taps
        require(operator.options["Padding"] in (0, 1), f"padding {operator.options['Padding']}")
        computed = -(-out // step) if operator.options["Padding"] == 0 else -(-(out - taps + 1) // step)
        needed = max((computed - 1) * step + taps - out, 0)
        begins.append(needed // 2)
        ends.append(max(whole - out - begins[-1], 0))
        more.append(out - (whole - begins[-1] - ends[-1]))
        require(0 <= more[-1] < step, f"{size} that becomes {out}")
    inputs = [writer.real(x.index), _real_weights(writer, operator, weights.transpose(3, 0, 1, 2), 1)]
    writer.node(
        "ConvTranspose", [*inputs, *_bias(writer, operator, x, 3)], writer.unquantized(y.index), strides=strides,
        kernel_shape=list(kernel), pads=[*begins, *ends], output_padding=more,
    )  # fmt: skip
    writer.finish(operator, activation_of(operator))


def batch_matmul(writer: Writer, operator: TfliteOperator) -> None:
    """Writes a BATCH_MATMUL as MatMul. Either operand may be transposed."""
    a, y = ends_of(writer, operator, 2)
    b = writer.tensor(operator.inputs[1])
    if a.dtype != "float32" and b.scale.size > 1:
        raise NotOnHostError(
            f"an operand with {b.scale.size} scales, which LiteRT's kernels do not read: they compute zeros. Quantize it with one scale"
        )
    for tensor in (a, b, y):
        check_activation(writer, operator, tensor.index)
        alike = tensor.dtype == y.dtype or (tensor is b and (tensor.dtype, y.dtype) == ("int8", "int16"))
        require(len(tensor.shape) >= 2 and alike, f"a tensor of {tensor.dtype} {list(tensor.shape)}")
    if y.dtype == "int16":
        most = a.shape[-2 if operator.options["AdjX"] else -1] * 2.0**15 * -float(np.iinfo(b.dtype).min)
        scaled = most * float(a.scale[0]) * float(b.scale[0]) / float(y.scale[0])
        require(
            scaled < 2.0**31, "an output scale so small that LiteRT's scaled sums may exceed 32 bits, where they wrap"
        )
    operands = [
        writer.real(t.index, _matrices(writer, t, bool(operator.options[adjoint])))
        for t, adjoint in ((a, "AdjX"), (b, "AdjY"))
    ]
    real = writer.node("MatMul", operands, writer.unquantized(y.index))
    writer.quantize_file_order(real, y.index)


def _matrices(writer: Writer, tensor: TfliteTensor, turned: bool) -> str:
    """Returns the name of an operand as it is stored, with the file's axes, "" for the tensor itself. turned: whether the
    last two axes are exchanged."""
    source, rank = writer.in_file_order(tensor.index), len(tensor.shape)
    if not turned:
        return "" if source == writer.name(tensor.index) else source
    perm = [*range(rank - 2), rank - 1, rank - 2]
    name = f"{writer.name(tensor.index)}@adjoint"
    if tensor.data is not None:
        return writer.constant(name, tensor.data.transpose(perm))
    if name not in writer.tensors:
        writer.entry(name, tensor.index, perm, [tensor.shape[a] for a in perm])
        writer.move("Transpose", source, name, perm=perm)
    return name


def _weights(writer: Writer, operator: TfliteOperator, axis: int) -> Array:
    """Returns the weights. axis: the axis that their scales must have, if there are several. Raises
    UnsupportedError."""
    require(len(operator.inputs) in (2, 3, 4) and operator.inputs[1] >= 0, f"{len(operator.inputs)} inputs")
    tensor = writer.tensor(operator.inputs[1])
    require(tensor.data is not None, "weights that are no constant")
    assert tensor.data is not None
    if tensor.dtype == "float32":
        require(writer.tensor(operator.inputs[0]).dtype == "float32", "weights of float32 beside integers")
        return tensor.data
    if tensor.block:
        return _weights_of_blocks(writer, operator, tensor)
    require(
        tensor.dtype in STORED_WEIGHTS and tensor.scale.size > 0 and not tensor.sparse,
        f"weights of {tensor.dtype}, wanted float32 or quantized of 2, 4 or 8 bits",
    )
    x = writer.tensor(operator.inputs[0])
    if (tensor.dtype, operator.kind, x.dtype) in PACKED_WITHOUT_KERNEL:
        raise NotOnHostError(
            f"weights of {tensor.dtype} beside an input of {x.dtype}, which LiteRT's kernels do not unpack"
        )
    if tensor.scale.size > 1:
        fits = tensor.axis == axis < tensor.data.ndim and tensor.scale.size == tensor.data.shape[axis]
        require(fits, f"weights with {tensor.scale.size} scales along axis {tensor.axis}")
    return tensor.data


def _weights_of_blocks(writer: Writer, operator: TfliteOperator, tensor: TfliteTensor) -> Array:
    """Returns the real values of weights that have a scale for each block of a row. Raises NotOnHostError for those whose scales the
    reference does not read."""
    text = f"weights of {tensor.dtype} with a scale for each block of {tensor.block}"
    if not has_read_blocks(writer.model, operator):
        raise NotOnHostError(f"{text}, which LiteRT's reference kernels do not read and XNNPACK does not take here")
    assert tensor.data is not None
    rows, length = tensor.data.shape
    scales = writer.tensor(tensor.block_scales).data
    fits = scales is not None and length % tensor.block == 0 and scales.size == rows * length // tensor.block
    require(fits and tensor.block_zeros < 0, f"{text}, with other scales or with zero points")
    assert scales is not None
    blocks = tensor.data.reshape(rows, -1, tensor.block).astype(np.float32)
    return (blocks * _as_bfloat16(scales.astype(np.float32)).reshape(rows, -1, 1)).reshape(rows, length)


def _as_bfloat16(values: Array) -> Array:
    """Returns float32 rounded to the nearest bfloat16, halves to even, as XNNPACK holds such scales."""
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def has_read_blocks(model: TfliteModel, operator: TfliteOperator) -> bool:
    """Returns whether an operator has weights with scales of blocks that XNNPACK, alone of LiteRT's kernels, reads: of 4 bits,
    in a network of floats: elsewhere
    XNNPACK would round integers in its own way."""
    if operator.kind != "FULLY_CONNECTED" or len(operator.inputs) < 2 or min(operator.inputs[:2]) < 0:
        return False
    x, w = (model.tensors[i] for i in operator.inputs[:2])
    scales = model.tensors[w.block_scales] if 0 <= w.block_scales < len(model.tensors) else None
    of_floats = x.dtype == "float32" and scales is not None and scales.dtype in ("float16", "float32")
    of_floats &= all(model.tensors[i].dtype not in ("int8", "uint8", "int16") for i in (*model.inputs, *model.made_by))
    return (
        w.block > 0
        and of_floats
        and w.block % BLOCK == 0
        and w.dtype == "int4"
        and w.data is not None
        and w.data.ndim == 2
    )


def _stored_bias(writer: Writer, operator: TfliteOperator) -> Array:
    """Returns the stored numbers of a bias, 0 without a constant one."""
    data = writer.tensor(operator.inputs[2]).data if len(operator.inputs) > 2 and operator.inputs[2] >= 0 else None
    return np.zeros(1, np.int64) if data is None or data.dtype.kind == "f" else data.astype(np.int64)


def _real_weights(writer: Writer, operator: TfliteOperator, values: Array, axis_of_scales: int = 0) -> str:
    """Adds the weights `values`, in the ONNX's layout, and returns the name of their dequantized tensor."""
    index = operator.inputs[1]
    name = f"{writer.name(index)}@in{operator.position}"
    if writer.tensor(index).dtype == "float32":
        return writer.constant(name, values)
    writer.constant(name, values)
    axis = {"axis": axis_of_scales} if writer.tensor(index).scale.size > 1 else {}
    return writer.node("DequantizeLinear", [name, *writer.parameters(index)], f"{name}@real", **axis)


def _bias(writer: Writer, operator: TfliteOperator, x: TfliteTensor, at: int) -> Sequence[str]:
    """Adds the bias, input number `at`, and returns the name of its dequantized tensor in a list, [] if there is none. Its
    scale is that of the products, whatever scale the file states, because LiteRT adds the integers. x: the input."""
    if len(operator.inputs) <= at or operator.inputs[at] < 0:
        return []
    if x.dtype == "float32":
        bias = _float_bias(writer, operator)
        return (
            [] if bias is None else [writer.constant(f"{writer.name(operator.inputs[at])}@in{operator.position}", bias)]
        )
    tensor, w = writer.tensor(operator.inputs[at]), writer.tensor(operator.inputs[1])
    y = writer.tensor(operator.outputs[0])
    require(tensor.data is not None, "a bias that is no constant")
    assert tensor.data is not None
    wanted = "int64" if x.dtype == "int16" and not sums_in_32_bits(operator) else "int32"
    require(tensor.dtype == wanted, f"a bias of {tensor.dtype}, wanted {wanted}")
    values = tensor.data.astype(np.int32)
    require(bool((values == tensor.data).all()), "a bias beyond 32 bits")
    require(tensor.shape == (y.shape[-1],), f"a bias of {list(tensor.shape)} for {y.shape[-1]} outputs")
    steps = x.scale * w.scale
    require(bool((np.isfinite(steps) & (steps > 0)).all()), "products of scales that float32 cannot hold")
    if tensor.scale.size and w.scale.size == 1:  # else LiteRT looks at no scale of the bias
        near = np.abs(tensor.scale - steps) <= 0.02 * y.scale[0]  # LiteRT's own tolerance
        require(
            tensor.scale.size in (1, steps.size) and bool(near.all()), "a bias whose scale is not that of the products"
        )
    name = f"{writer.name(tensor.index)}@in{operator.position}"
    many = steps.size > 1
    inputs = [
        writer.constant(name, values),
        writer.constant(f"{name}@scale", steps if many else steps[0]),
        writer.constant(f"{name}@zero", np.zeros(steps.size if many else (), np.int32)),
    ]
    return [writer.node("DequantizeLinear", inputs, f"{name}@real", **({"axis": 0} if many else {}))]

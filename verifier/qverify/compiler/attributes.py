"""Attributes and types the lowerings read. Anything else on a node is refused by name: never computed as if it were not there."""

from __future__ import annotations

from typing import Any

from qverify.errors import UnsupportedError
from qverify.onnx_model.view import View, attributes

ANY: frozenset[Any] | None = None  # every value is read


def only(*values: Any) -> frozenset[Any]:
    return frozenset(values)


_WINDOW: dict[str, frozenset[Any] | None] = {
    "auto_pad": only(b"NOTSET", b"VALID", b"SAME_UPPER", b"SAME_LOWER"),
    "dilations": ANY,
    "kernel_shape": ANY,
    "pads": ANY,
    "strides": ANY,
}
_QUANTIZE: dict[str, frozenset[Any] | None] = {
    "axis": ANY,
    "block_size": only(0),
    "output_dtype": ANY,
    "saturate": ANY,
    "precision": ANY,
}
_CHANNELS: dict[str, frozenset[Any] | None] = {"channels_last": only(0)}
READ: dict[str, dict[str, frozenset[Any] | None]] = {
    "ArgMax": {"axis": ANY, "keepdims": ANY, "select_last_index": ANY},
    "AveragePool": {**_WINDOW, "ceil_mode": ANY, "count_include_pad": ANY},
    "BatchNormalization": {"epsilon": ANY, "momentum": ANY, "training_mode": only(0), "spatial": only(1)},
    "Concat": {"axis": ANY},
    "Conv": {**_WINDOW, "group": ANY},
    "ConvTranspose": {**_WINDOW, "group": ANY, "output_padding": ANY},
    "DepthToSpace": {"blocksize": ANY, "mode": only(b"DCR", b"CRD")},
    "DequantizeLinear": _QUANTIZE,
    "Gather": {"axis": ANY},
    "Gemm": {"alpha": ANY, "beta": ANY, "transA": ANY, "transB": ANY},
    "LayerNormalization": {"axis": ANY, "epsilon": ANY, "stash_type": only(1)},
    "LRN": {"alpha": ANY, "beta": ANY, "bias": ANY, "size": ANY},
    "MaxPool": {**_WINDOW, "ceil_mode": ANY, "storage_order": only(0)},
    "Pad": {"mode": only(b"constant", b"reflect", b"edge"), "pads": ANY, "value": ANY},
    "QGemm": {"alpha": ANY, "transA": only(0), "transB": ANY},
    "QLinearAveragePool": {**_WINDOW, "ceil_mode": ANY, "count_include_pad": ANY, **_CHANNELS},
    "QLinearConcat": {"axis": ANY},
    "QLinearConv": {**_WINDOW, "group": ANY, **_CHANNELS},
    "QLinearGlobalAveragePool": _CHANNELS,
    "QLinearLeakyRelu": {"alpha": ANY},
    "QLinearSoftmax": {"axis": ANY, "opset": ANY},
    "QuantizeLinear": _QUANTIZE,
    "ReduceMean": {"axes": ANY, "keepdims": ANY, "noop_with_empty_axes": only(0)},
    "Resize": {
        "antialias": only(0),
        "coordinate_transformation_mode": only(b"half_pixel", b"pytorch_half_pixel", b"asymmetric", b"align_corners"),
        "cubic_coeff_a": ANY,
        "exclude_outside": only(0),
        "extrapolation_value": ANY,
        "keep_aspect_ratio_policy": only(b"stretch"),
        "mode": only(b"nearest", b"linear"),
        "nearest_mode": only(b"floor", b"ceil", b"round_prefer_floor", b"round_prefer_ceil"),
        "axes": ANY,
    },
    "Softmax": {"axis": ANY},
    "Split": {"axis": ANY, "num_outputs": ANY, "split": ANY},
    "Transpose": {"perm": ANY},
}
PLAIN = (
    "Add",
    "GlobalAveragePool",
    "MatMul",
    "Mul",
    "QLinearAdd",
    "QLinearMatMul",
    "QLinearMul",
    "QLinearSigmoid",
    "QLinearWhere",
    "Slice",
    "Sub",
    "Where",
)
READ |= {kind: {} for kind in PLAIN}


def check_attributes(view: View) -> None:
    """Raises UnsupportedError for an attribute no lowering reads, a value none supports, an output none makes."""
    for node in view.nodes:
        read = READ.get(node.op_type)
        for name, value in attributes(node).items() if read is not None else ():
            assert read is not None
            if name not in read or ((allowed := read[name]) is not None and value not in allowed):
                shown = value.decode(errors="replace") if isinstance(value, bytes) else value
                raise UnsupportedError(
                    f"{node.name} ({node.op_type}): {name}={shown} is not supported; export without it, or cut the model before it"
                )
        if node.op_type in ("Dropout", "MaxPool", "LayerNormalization", "BatchNormalization"):
            _single_output(view, node)


def _single_output(view: View, node: Any) -> None:
    for name in node.output[1:]:
        if name and (view.consumers[name] or name in view.ends):
            raise UnsupportedError(
                f"{node.name} ({node.op_type}): its further output {name!r} is used; only the first can be compiled"
            )
    del node.output[1:]

"""Reads the options of the operators that can be converted, under the schema's names."""

from __future__ import annotations

from typing import Any

ACTIVATION = "FusedActivationFunction"
WINDOW = ("Padding", "StrideH", "StrideW", ACTIVATION)
DILATED = (*WINDOW, "DilationHFactor", "DilationWFactor")
POOL = ("Pool2DOptions", (*WINDOW, "FilterHeight", "FilterWidth"))

INT32 = 2  # the schema's number of the type, of QuantizedBiasType

OPTIONS: dict[
    str, tuple[str, tuple[str, ...]]
] = {  # operator to the name of its options table in the schema, and the fields read
    "CONV_2D": ("Conv2DOptions", (*DILATED, "QuantizedBiasType")),
    "CONV_3D": (
        "Conv3DOptions",
        ("Padding", ACTIVATION, *(f"Stride{a}" for a in "DHW"), *(f"Dilation{a}Factor" for a in "DHW")),
    ),
    "DEPTHWISE_CONV_2D": ("DepthwiseConv2DOptions", (*DILATED, "DepthMultiplier")),
    "FULLY_CONNECTED": (
        "FullyConnectedOptions",
        (ACTIVATION, "WeightsFormat", "AsymmetricQuantizeInputs", "QuantizedBiasType"),
    ),
    "BATCH_MATMUL": ("BatchMatMulOptions", ("AdjX", "AdjY")),
    "TRANSPOSE_CONV": ("TransposeConvOptions", WINDOW),
    "RESIZE_NEAREST_NEIGHBOR": ("ResizeNearestNeighborOptions", ("AlignCorners", "HalfPixelCenters")),
    "AVERAGE_POOL_2D": POOL,
    "MAX_POOL_2D": POOL,
    "ADD": ("AddOptions", (ACTIVATION, "PotScaleInt16")),
    "SUB": ("SubOptions", (ACTIVATION, "PotScaleInt16")),
    "MUL": ("MulOptions", (ACTIVATION,)),
    "CONCATENATION": ("ConcatenationOptions", ("Axis", ACTIVATION)),
    "SOFTMAX": ("SoftmaxOptions", ("Beta",)),
    "MEAN": ("ReducerOptions", ("KeepDims",)),
    "RESIZE_BILINEAR": ("ResizeBilinearOptions", ("AlignCorners", "HalfPixelCenters")),
    "ARG_MIN": ("ArgMinOptions", ("OutputType",)),
    "REDUCE_MAX": ("ReducerOptions", ("KeepDims",)),
    "REDUCE_MIN": ("ReducerOptions", ("KeepDims",)),
    "SUM": ("ReducerOptions", ("KeepDims",)),
    "ARG_MAX": ("ArgMaxOptions", ("OutputType",)),
    "DIV": ("DivOptions", (ACTIVATION,)),
    "GELU": ("GeluOptions", ("Approximate",)),
    "L2_NORMALIZATION": ("L2NormOptions", (ACTIVATION,)),
    "LEAKY_RELU": ("LeakyReluOptions", ("Alpha",)),
    "DEPTH_TO_SPACE": ("DepthToSpaceOptions", ("BlockSize",)),
    "GATHER": ("GatherOptions", ("Axis", "BatchDims")),
    "MIRROR_PAD": ("MirrorPadOptions", ("Mode",)),
    "PACK": ("PackOptions", ("Axis",)),
    "SPACE_TO_DEPTH": ("SpaceToDepthOptions", ("BlockSize",)),
    "STRIDED_SLICE": (
        "StridedSliceOptions",
        ("BeginMask", "EndMask", "EllipsisMask", "NewAxisMask", "ShrinkAxisMask", "Offset"),
    ),
    "SVDF": ("SVDFOptions", ("Rank", ACTIVATION)),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": ("UnidirectionalSequenceLSTMOptions", (ACTIVATION, "CellClip", "TimeMajor")),
    "VAR_HANDLE": ("VarHandleOptions", ("Container", "SharedName")),
    "UNPACK": ("UnpackOptions", ("Axis",)),
}


def options_of(schema: Any, kind: str, table: Any) -> dict[str, Any]:
    """Returns the options of an operator by name, {} for a kind of operator without options. An operator that stores none
    has the defaults of the schema. Raises ValueError if the table has the options of another operator."""
    if kind not in OPTIONS:
        return {}
    name, fields = OPTIONS[kind]
    stored = table.BuiltinOptions()
    if table.BuiltinOptionsType() == schema.BuiltinOptions.NONE and stored is None:
        defaults = getattr(schema, f"{name}T")()
        return {field: getattr(defaults, field[0].lower() + field[1:]) for field in fields}
    if table.BuiltinOptionsType() != getattr(schema.BuiltinOptions, name) or stored is None:
        raise ValueError(f"{kind} with the options of another operator")
    options = getattr(schema, name)()
    options.Init(stored.Bytes, stored.Pos)
    return {field: getattr(options, field)() for field in fields}

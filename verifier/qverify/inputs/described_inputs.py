"""Inputs of a model.bin that are fed as described bytes: its meta section back to descriptions (INPUTS.md section 7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qverify.errors import BadFileError, UsageError
from qverify.inputs.description import Description
from qverify.inputs.description_tables import described
from qverify.inputs.preprocessing_words import convert_words, normalize_words, unpack_words
from qverify.model_bin.graph import Graph
from qverify.tensors.spec import TensorSpec

Table = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DescribedInput:
    """One network input whose bytes are described. tensor: the graph input that is fed. description: None for a featuremap
    that is no picture. roi: the graph input that a resizer's part comes by."""

    name: str
    tensor: str
    description: Description | None
    table: Table
    roi: str | None = None


def described_inputs(graph: Graph) -> dict[str, DescribedInput]:
    """By graph input, from the meta section. BadFileError when it does not fit the graph."""
    found = {}
    rows = graph.meta.get("inputs", {})
    for name, row in rows.items() if isinstance(rows, dict) else ():
        table = row.get("description") if isinstance(row, dict) else None
        if not isinstance(table, dict) or row.get("tensor") not in graph.inputs:
            raise BadFileError(f"model.bin: its description of input {name!r} does not fit its graph")
        try:
            found[row["tensor"]] = _fed(str(name), table, graph.spec(row["tensor"]), graph, row.get("roi"))
        except UsageError as error:
            raise BadFileError(f"model.bin: its description of input {name!r}: {error}") from error
    return found


def _fed(name: str, table: Table, spec: TensorSpec, graph: Graph, roi: Any) -> DescribedInput:
    wanted = complete_description(table, spec)
    resized = wanted is not None and wanted.source is not None
    if resized != (roi is not None) or (resized and not (roi in graph.inputs and _dense(graph.spec(roi), "int32", 4))):
        raise UsageError("its roi does not fit its graph")
    if wanted is not None and not spec.quantized and not _dense(spec, "uint8", wanted.size_bytes):
        raise UsageError(f"{wanted.size_bytes} bytes, its tensor is {spec.dtype}{list(spec.shape)}")
    if wanted is not None and not spec.quantized:
        _check_nodes(graph, spec.name, wanted)
    return DescribedInput(name, spec.name, wanted, table, roi)


def _check_nodes(graph: Graph, tensor: str, wanted: Description) -> None:
    """UsageError where the nodes that read the bytes do otherwise than the description says."""
    after = {n: node for node in graph.nodes for n in node.inputs[:1] if n is not None}
    found, node = dict[str, list[int]](), after.get(tensor)
    last = tensor
    while node is not None and node.op in ("unpack", "resizer", "yuv_to_rgb", "normalize") and node.op not in found:
        found[node.op], last = list(node.words), node.outputs[0]
        node = after.get(last)
    where, dtype = f"input {tensor!r}", graph.spec(last).dtype
    made = {"unpack": unpack_words(wanted), "yuv_to_rgb": convert_words(wanted, where)}
    made["normalize"] = normalize_words(wanted, dtype, where)
    for op, words in made.items():
        if found.get(op) != words:
            raise UsageError(f"{op} of {tensor!r} is not what its description says")


def _dense(spec: TensorSpec, dtype: str, elements: int) -> bool:
    return (spec.dtype, spec.shape, spec.aligned_shape) == (dtype, (elements,), (elements,))


def complete_description(table: Table, spec: TensorSpec) -> Description | None:
    """The description with what the tensor says: size, layout and quantization of a featuremap; None for a featuremap
    that is no picture."""
    where = f"input {spec.name}"
    if table.get("format") != "featuremap":
        return described(table if "size" in table else {**table, "size": _size_of(spec)}, where)
    layout = layout_of(spec)
    if not layout:
        return None
    more: dict[str, Any] = {"size": _size_of(spec), "layout": layout}
    if spec.quantized:
        more |= {"quantize": [spec.scale[0], spec.zero_point[0]], "quantize_dtype": spec.dtype}
    if spec.shape[1 if layout == "NCHW" else 3] == 1:
        more["train"] = "gray"
    given = described({**more, **table}, where)
    wanted = described({**table, **more}, where)
    for key in (k for k in more if k in table and getattr(given, k) != getattr(wanted, k)):
        raise UsageError(f"{where}: {key} {table[key]!r}, but the tensor's own is {more[key]!r}; leave it out")
    return wanted


def description_for_tensor(table: Table, spec: TensorSpec) -> Description | None:
    """As completed(), in the tensor's own layout where the table names none."""
    layout = layout_of(spec)
    return complete_description({**({"layout": layout} if layout else {}), **table}, spec)


def layout_of(spec: TensorSpec) -> str:
    """NCHW or NHWC, by which dim is 1 or 3 channels; "" where it is neither."""
    if len(spec.shape) != 4 or spec.shape[0] != 1:
        return ""
    return "NCHW" if spec.shape[1] in (1, 3) else "NHWC" if spec.shape[3] in (1, 3) else ""


def _size_of(spec: TensorSpec) -> list[int]:
    """Width and height of a picture's tensor."""
    layout = layout_of(spec)
    if len(spec.shape) == 4 and spec.shape[0] != 1:
        raise UsageError(
            f"input {spec.name!r} {list(spec.shape)}: batch {spec.shape[0]}; pictures are for a batch of 1"
        )
    if not layout:
        raise UsageError(
            f"input {spec.name!r} {list(spec.shape)} is no picture of 1 or 3 channels, which this format would need"
        )
    height, width = spec.shape[2:] if layout == "NCHW" else spec.shape[1:3]
    return [width, height]

"""Reads the descriptions of a model.bin's inputs from its meta section (INPUTS.md section 7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qverify.errors import BadFileError, UsageError
from qverify.inputs.description import Description
from qverify.inputs.description_tables import parse_description
from qverify.inputs.preprocessing_words import convert_words, normalize_words, unpack_words
from qverify.model_bin.graph import Graph
from qverify.tensors.spec import TensorSpec

Table = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DescribedInput:
    """One network input with a description of its bytes.

    Attributes:
        name: name of the network's input.
        tensor: the graph input that takes the bytes.
        description: the description, or None for a featuremap that is not a picture.
        table: the description as it is stored in model.bin.
        roi: the graph input for the ROI of a resizer, or None.
    """

    name: str
    tensor: str
    description: Description | None
    table: Table
    roi: str | None = None


def described_inputs(graph: Graph) -> dict[str, DescribedInput]:
    """Returns the described inputs in the meta section, by graph input. Raises BadFileError if one does not fit the
    graph."""
    described_by_input = {}
    rows = graph.meta.get("inputs", {})
    for name, row in rows.items() if isinstance(rows, dict) else ():
        table = row.get("description") if isinstance(row, dict) else None
        if not isinstance(table, dict) or row.get("tensor") not in graph.inputs:
            raise BadFileError(f"model.bin: its description of input {name!r} does not fit its graph")
        try:
            spec = graph.spec(row["tensor"])
            described_by_input[row["tensor"]] = _read_described_input(str(name), table, spec, graph, row.get("roi"))
        except UsageError as error:
            raise BadFileError(f"model.bin: its description of input {name!r}: {error}") from error
    return described_by_input


def _read_described_input(name: str, table: Table, spec: TensorSpec, graph: Graph, roi: Any) -> DescribedInput:
    """Returns the described input. Raises UsageError if the description does not fit the graph."""
    wanted = complete_description(table, spec)
    resized = wanted is not None and wanted.source is not None
    if resized != (roi is not None) or (
        resized and not (roi in graph.inputs and _is_dense(graph.spec(roi), "int32", 4))
    ):
        raise UsageError("its roi does not fit its graph")
    if wanted is not None and not spec.quantized and not _is_dense(spec, "uint8", wanted.size_bytes):
        raise UsageError(f"{wanted.size_bytes} bytes, its tensor is {spec.dtype}{list(spec.shape)}")
    if wanted is not None and not spec.quantized:
        _check_nodes(graph, spec.name, wanted)
    return DescribedInput(name, spec.name, wanted, table, roi)


def _check_nodes(graph: Graph, tensor: str, wanted: Description) -> None:
    """Raises UsageError if the nodes that read the bytes do not match the description."""
    after = {n: node for node in graph.nodes for n in node.inputs[:1] if n is not None}
    actual, node = dict[str, list[int]](), after.get(tensor)
    last = tensor
    while node is not None and node.op in ("unpack", "resizer", "yuv_to_rgb", "normalize") and node.op not in actual:
        actual[node.op], last = list(node.words), node.outputs[0]
        node = after.get(last)
    where, dtype = f"input {tensor!r}", graph.spec(last).dtype
    expected = {"unpack": unpack_words(wanted), "yuv_to_rgb": convert_words(wanted, where)}
    expected["normalize"] = normalize_words(wanted, dtype, where)
    for op, words in expected.items():
        if actual.get(op) != words:
            raise UsageError(f"{op} of {tensor!r} does not match its description")


def _is_dense(spec: TensorSpec, dtype: str, elements: int) -> bool:
    return (spec.dtype, spec.shape, spec.aligned_shape) == (dtype, (elements,), (elements,))


def complete_description(table: Table, spec: TensorSpec) -> Description | None:
    """Returns the description, completed with properties of the tensor: the size, and for a featuremap layout and
    quantization. Returns None for a featuremap that is not a picture. Raises UsageError if description and tensor
    contradict each other."""
    where = f"input {spec.name}"
    if table.get("format") != "featuremap":
        return parse_description(table if "size" in table else {**table, "size": _find_size(spec)}, where)
    layout = layout_of(spec)
    if not layout:
        return None
    more: dict[str, Any] = {"size": _find_size(spec), "layout": layout}
    if spec.quantized:
        more |= {"quantize": [spec.scale[0], spec.zero_point[0]], "quantize_dtype": spec.dtype}
    if spec.shape[1 if layout == "NCHW" else 3] == 1:
        more["train"] = "gray"
    stated = parse_description({**more, **table}, where)
    completed = parse_description({**table, **more}, where)
    for key in (k for k in more if k in table and getattr(stated, k) != getattr(completed, k)):
        raise UsageError(f"{where}: {key} {table[key]!r}, but the tensor's own is {more[key]!r}; leave it out")
    return completed


def description_for_tensor(table: Table, spec: TensorSpec) -> Description | None:
    """Returns complete_description(), with the tensor's layout if the table contains none."""
    layout = layout_of(spec)
    return complete_description({**({"layout": layout} if layout else {}), **table}, spec)


def layout_of(spec: TensorSpec) -> str:
    """Returns the layout NCHW or NHWC of a picture's tensor, according to which dim is 1 or 3, or "" if neither is."""
    if len(spec.shape) != 4 or spec.shape[0] != 1:
        return ""
    return "NCHW" if spec.shape[1] in (1, 3) else "NHWC" if spec.shape[3] in (1, 3) else ""


def _find_size(spec: TensorSpec) -> list[int]:
    """Returns width and height of a picture's tensor. Raises UsageError if the tensor is not one picture."""
    layout = layout_of(spec)
    if len(spec.shape) == 4 and spec.shape[0] != 1:
        raise UsageError(f"input {spec.name!r} {list(spec.shape)}: batch {spec.shape[0]}; a picture needs a batch of 1")
    if not layout:
        raise UsageError(
            f"input {spec.name!r} {list(spec.shape)} is not a picture of 1 or 3 channels, which this format needs"
        )
    height, width = spec.shape[2:] if layout == "NCHW" else spec.shape[1:3]
    return [width, height]

"""Writes RotaryEmbedding (of ONNX and of com.microsoft) and MRotaryEmbedding, which rotate pairs of elements by the angle
of their position."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from qverify.onnx_model.rewriter import MICROSOFT, Rewriter, attribute, check_known, input_name

KNOWN = ("interleaved", "num_heads", "rotary_embedding_dim", "scale", "is_packed_batching")
OF_SECTIONS = ("mrope_section", "mrope_layout")


def rotary_embedding(r: Rewriter, node: onnx.NodeProto) -> None:
    """Writes y1 = x1 * cos - x2 * sin, y2 = x1 * sin + x2 * cos. x: (batch, heads, length, size), or (batch, length,
    heads * size)."""
    check_known(r, node, *KNOWN, *(OF_SECTIONS if node.op_type == "MRotaryEmbedding" else ()))
    if attribute(node, "scale", 1.0) != 1.0 or attribute(node, "is_packed_batching", 0):
        raise r.refusal("scale and is_packed_batching are not supported; export without them")
    if attribute(node, "interleaved", 0) not in (0, 1):
        raise r.refusal("interleaved is neither 0 nor 1")
    x, cosines, sines, positions = (
        input_name(node, i) for i in ((0, 2, 3, 1) if node.domain == MICROSOFT else (0, 1, 2, 3))
    )
    shape, half = r.dims(x), r.dims(cosines)[-1]
    turned = attribute(node, "rotary_embedding_dim", 0) or 2 * half
    dims, length = shape, shape[-2]
    if len(shape) == 3:
        heads = attribute(node, "num_heads", 0) or shape[2] // turned
        dims, length = (shape[0], shape[1], heads, shape[2] // heads), shape[1]
        x = r.step("Reshape", [x, r.ints("heads_dims", dims)], "by_head")
    if turned != 2 * half or turned > dims[3]:
        raise r.refusal(f"angles for {2 * half} of {turned} elements are not supported")
    along = [dims[0], length, 1, half] if len(shape) == 3 else [dims[0], 1, length, half]
    if node.op_type == "MRotaryEmbedding":
        angles = [_angles_of_sections(r, node, table, (shape[0], length, half), along) for table in (cosines, sines)]
    else:
        angles = [_angles(r, table, positions, length, along) for table in (cosines, sines)]
    untouched = []
    if turned < dims[3]:
        x, kept = _split(r, x, "to_turn", turned, dims[3] - turned)
        untouched = [kept]
    rotated = _turned(r, node, x, angles, (*dims[:3], turned))
    out = r.step("Concat", [rotated, *untouched], "with_rest", axis=-1) if untouched else rotated
    r.node("Reshape", [out, r.ints("dims", shape)], node.output[0])


def _turned(r: Rewriter, node: onnx.NodeProto, x: str, angles: list[str], dims: tuple[int, ...]) -> str:
    """Returns x, which has these dims, rotated. angles: cosines and sines, which broadcast to half of x."""
    between, half = attribute(node, "interleaved", 0), dims[3] // 2
    if between:
        x = r.step("Reshape", [x, r.ints("pairs_dims", [*dims[:3], half, 2])], "pairs")
        parts = _split(r, x, "half", 1, 1)
        parts = [r.step("Reshape", [p, r.ints("half_dims", [*dims[:3], half])], "flat_half") for p in parts]
    else:
        parts = _split(r, x, "half", half, half)
    (a, b), (cos, sin) = parts, angles
    first = r.step("Sub", [_product(r, a, cos), _product(r, b, sin)], "first")
    second = r.step("Add", [_product(r, a, sin), _product(r, b, cos)], "second")
    if not between:
        return r.step("Concat", [first, second], "turned", axis=-1)
    columns = [r.step("Reshape", [p, r.ints("column_dims", [*dims[:3], half, 1])], "column") for p in (first, second)]
    pairs = r.step("Concat", columns, "turned_pairs", axis=-1)
    return r.step("Reshape", [pairs, r.ints("turned_dims", dims)], "turned")


def _product(r: Rewriter, a: str, b: str) -> str:
    return r.step("Mul", [a, b], "product")


def _split(r: Rewriter, x: str, name: str, *sizes: int) -> list[str]:
    """Splits the last dim of x into parts of these sizes and returns their names."""
    parts = [r.fresh(name) for _ in sizes]
    cuts = [x, r.ints(f"{name}_sizes", sizes)] if r.opset >= 13 else [x]
    more: dict[str, Any] = {} if r.opset >= 13 else {"split": sizes}
    r.nodes.append(onnx.helper.make_node("Split", cuts, parts, f"{parts[0]}/Split", axis=-1, **more))
    return parts


def _angles(r: Rewriter, table: str, positions: str, length: int, dims: list[int]) -> str:
    """Returns the rows of a table of cosines or sines for every position, reshaped to dims."""
    # com.microsoft: a single value is the position of the first element
    if positions and r.dims(positions) == (1,) and length * dims[0] > 1:
        first = r.value(positions)
        if first is None:
            raise r.refusal("its first position is computed at run time; only a constant can be compiled")
        positions = r.ints("positions", np.arange(length) + int(first[0]))
        dims = [1, *dims[1:]]
    rows = r.step("Gather", [table, positions], "rows_of_angles", axis=0) if positions else table
    return r.step("Reshape", [rows, r.ints("angles_dims", dims)], "angles")


def _angles_of_sections(
    r: Rewriter, node: onnx.NodeProto, table: str, dims: tuple[int, int, int], along: list[int]
) -> str:
    """Returns the rows of a table for positions (3, batch, length) of time, row and column, of which each element of a
    head has one: by sections, or (mrope_layout=1) in turn as long as the sections of row and column last."""
    sections, half = list(attribute(node, "mrope_section", [])), dims[2]
    if (
        len(sections) != 3
        or min(sections) < 0
        or sum(sections) != half
        or attribute(node, "mrope_layout", 0) not in (0, 1)
    ):
        raise r.refusal(f"mrope_section {sections} for {half} angles; wanted three numbers whose sum is {half}")
    chosen = np.repeat(np.arange(3), sections)
    if attribute(node, "mrope_layout", 0):
        turn, place = np.arange(half) % 3, np.arange(half)
        chosen = np.where(place < 3 * np.array(sections)[turn], turn, 0)
    rows = r.step("Gather", [table, node.input[1]], "rows_of_three", axis=0)
    index = r.constant("section", np.broadcast_to(chosen.astype(np.int64), (1, *dims)))
    return r.step(
        "Reshape", [r.step("GatherElements", [rows, index], "rows", axis=0), r.ints("angles_dims", along)], "angles"
    )


REPLACED = {("", "RotaryEmbedding"): rotary_embedding, (MICROSOFT, "RotaryEmbedding"): rotary_embedding}
REPLACED |= {(MICROSOFT, "MRotaryEmbedding"): rotary_embedding}

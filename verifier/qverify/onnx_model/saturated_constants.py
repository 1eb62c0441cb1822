"""Constants of a quantized ONNX that its exporter saturated: biases at the limit of int32, scales of dead channels,
weights beyond the range of their scale."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.byte_sums import sum_rows
from qverify.onnx_model.graph_view import GraphView, attributes
from qverify.onnx_model.stored_biases import find_stored_biases
from qverify.plural import count

Array = npt.NDArray[Any]
INT32 = np.iinfo(np.int32)
BIAS_MARGIN = 256  # below the limit of int32; float32 has no closer numbers there
DEAD_SCALE = 2.0**-23 * (1 + 2.0**-10)  # the smallest scale that exporters write, for a channel of zeros
FEWEST, SHARE = 8, 0.2  # weights of a channel at the ends of their type, and their share of it, that are no accident
FEWEST_LEVELS = 4  # different integers of a channel; fewer are those of a binary or ternary network
MAX_CHANNELS = 8  # that are listed


def find_saturated(view: GraphView) -> list[tuple[str, str]]:
    """Returns the name of each saturated constant and the fact in words, in running order, each fact once; scales of dead
    channels whose bias does not fit int32 come last and are one fact; other dead channels, which many good networks have, are
    none."""
    found, dead = dict[tuple[str, str], None](), dict[str, str]()
    for node in view.nodes:
        for name, text in _of_node(view, node, dead):
            found.setdefault((name, text))
    if dead:
        first, text = next(iter(dead.items()))
        more = f"; {count(len(dead) - 1, 'more constant', 'has', 'have')} such channels" if len(dead) > 1 else ""
        found[(first, f"{text}{more}")] = None
    return list(found)


def _of_node(view: GraphView, node: Any, dead: dict[str, str]) -> Iterator[tuple[str, str]]:
    constants: Mapping[str, Array] = view.constants
    inputs = [constants.get(name) if name else None for name in node.input]
    if node.op_type in ("DequantizeLinear", "QuantizeLinear") and len(inputs) > 1 and inputs[0] is not None:
        value, scale, axis = inputs[0], inputs[1], int(attributes(node).get("axis", 1))
        if scale is None or "block_size" in attributes(node):
            return
        if node.op_type == "QuantizeLinear":
            zero = inputs[2] if len(inputs) > 2 and inputs[2] is not None else np.zeros(1, np.uint8)
            yield from _float_weights(node.input[0], value, scale, zero, axis)
        elif value.dtype == np.int32:
            yield from _bias(node.input[0], value)
        else:
            yield from _weights(node.input[0], value, scale, axis)
            _add_dead(node.input[0], value, scale, find_stored_biases(view, node), dead)
    elif node.op_type == "QLinearConv" and len(inputs) > 4:
        if inputs[3] is not None and inputs[4] is not None:
            yield from _weights(node.input[3], inputs[3], inputs[4], 0)
            bias = inputs[8] if len(inputs) > 8 else None
            _add_dead(node.input[3], inputs[3], inputs[4], [] if bias is None else [bias.astype(np.float64)], dead)
        if len(inputs) > 8 and inputs[8] is not None:
            yield from _bias(node.input[8], inputs[8])


def _bias(name: str, value: Array) -> Iterator[tuple[str, str]]:
    wide = value.astype(np.int64).reshape(-1)
    at = np.flatnonzero((wide >= INT32.max - BIAS_MARGIN) | (wide <= INT32.min + BIAS_MARGIN))
    if at.size:
        yield (
            name,
            f"{name}: {at.size} of {wide.size} biases {'lies' if at.size == 1 else 'lie'} at the limit of int32 "
            f"({_list(at)}): the exporter saturated them; a larger scale of these channels' weights mends it",
        )


def _add_dead(name: str, value: Array, scale: Array, biases: list[Array], dead: dict[str, str]) -> None:
    """Adds a fact to `dead` if weights have channels of the smallest scale whose bias does not fit int32. biases: those of the
    nodes that read the weights, in steps of their sums."""
    small = _list_small(scale)
    if not small.size or value.ndim < 2:
        return
    ends = INT32.max - BIAS_MARGIN
    scales = scale.reshape(-1).size
    unfit = [c for c in small if any(b.size == scales and abs(b.reshape(-1)[c]) >= ends for b in biases)]
    if unfit:
        whose = "a dead channel, whose bias does not" if len(unfit) == 1 else "dead channels, whose biases do not"
        dead.setdefault(
            name,
            f"{name}: the scale of {len(unfit)} of {count(scales, 'channel')} is 2^-23 or less ({_list(np.array(unfit))}): "
            f"{whose} fit int32",
        )


def _list_small(scale: Array) -> Array:
    scales = scale.astype(np.float64).reshape(-1)
    return np.flatnonzero((scales > 0) & (scales <= DEAD_SCALE))


def _weights(name: str, value: Array, scale: Array, axis: int) -> Iterator[tuple[str, str]]:
    """Yields a fact on the stored integers of constant weights."""
    scales, small = scale.reshape(-1), _list_small(scale)
    if value.dtype.name not in ("int8", "uint8") or value.ndim < 2:
        return
    share = _at_ends(value, scales.size, axis)
    each = value.size // share.size
    at = np.flatnonzero((share >= FEWEST) & (share >= SHARE * each))
    rows = _by_channel(value, scales.size, axis) if at.size else value
    at = np.array([c for c in at if np.unique(rows[c]).size >= FEWEST_LEVELS and c not in small], int)
    if at.size:
        worst = int(max(at, key=lambda c: share[c]))
        yield (
            name,
            f"{name}: {share[worst]} of {each} weights of channel {worst} lie at the ends of {value.dtype} "
            f"({_list(at)}): the exporter's range is too narrow",
        )


def _at_ends(value: Array, channels: int, axis: int) -> Array:
    """Returns how many stored integers of each channel are the largest or the smallest of their type; for int8 also -127,
    where symmetric quantizers end."""
    first = np.uint8(
        127 if value.dtype == np.int8 else 255
    )  # 127, -128 and -127 follow each other as uint8, as do 255 and 0
    count = 3 if value.dtype == np.int8 else 2
    stored = np.ascontiguousarray(value).view(np.uint8)
    if channels < 2:
        columns = stored.reshape(-1, stored.shape[-1])
    elif axis % value.ndim == 0:
        columns = stored.reshape(channels, -1).T
    else:
        columns = np.moveaxis(stored, axis, -1).reshape(-1, channels)
    found = sum_rows(columns, lambda block: block - first < count)
    return found if channels >= 2 else found.sum(keepdims=True)


def _float_weights(name: str, value: Array, scale: Array, zero: Array, axis: int) -> Iterator[tuple[str, str]]:
    """Yields a fact on float weights that the range of their own QuantizeLinear clips."""
    if value.dtype.kind != "f" or value.ndim < 2 or zero.dtype.kind not in "iu":
        return
    limits, rows = np.iinfo(zero.dtype), _by_channel(value, scale.size, axis).astype(np.float64)
    scales, zeros = (np.broadcast_to(a.astype(np.float64).reshape(-1), scale.size) for a in (scale, zero))
    stored = rows / scales[:, None] + zeros[:, None]
    beyond = ((stored > limits.max + 1) | (stored < limits.min - 1)).sum(axis=1)
    at = np.flatnonzero(beyond)
    if at.size:
        yield (
            name,
            f"{name}: {count(int(beyond.sum()), 'weight', 'lies', 'lie')} beyond the range of {'its' if beyond.sum() == 1 else 'their'} scale "
            f"({_list(at)}): clipped by the exporter",
        )


def _by_channel(value: Array, channels: int, axis: int) -> Array:
    """Returns the values with one row for each channel of the scales."""
    if channels < 2:
        return value.reshape(1, -1)
    return np.moveaxis(value, axis, 0).reshape(channels, -1)


def _list(channels: Array) -> str:
    """Returns `channel 3` or `channels 3, 4, 5`."""
    shown = ", ".join(map(str, channels[:MAX_CHANNELS])) + (" ..." if channels.size > MAX_CHANNELS else "")
    return f"channel{'s' if channels.size > 1 else ''} {shown}"

"""Repairs in memory what LiteRT refuses and other runtimes take."""

from __future__ import annotations

import struct
from typing import Any

from qverify.plural import count
from qverify.tflite_model.read_tflite import DAMAGE_ERRORS, schema

FIELD = 4 + 2 * 6  # place of `quantized_dimension` in the table of fields: the seventh of QuantizationParameters
MAX_TENSORS = 1 << 16


def repair(data: bytes) -> tuple[bytes, list[str]]:
    """Returns the file as LiteRT opens it, and a line on what was changed: the same bytes and [] where nothing was. A
    quantized_dimension that lies beyond the tensor's rank means nothing for a tensor of one scale or one axis, and is set
    to 0; LiteRT refuses the whole file for it."""
    places, names = list[int](), list[str]()
    try:
        model = schema().Model.GetRootAs(data, 0)
        for g in range(min(model.SubgraphsLength(), MAX_TENSORS)):
            graph = model.Subgraphs(g)
            for t in range(min(graph.TensorsLength(), MAX_TENSORS)):
                if (place := _beyond_rank(graph.Tensors(t))) is not None:
                    places.append(place)
                    names.append((graph.Tensors(t).Name() or b"").decode("utf-8", "replace"))
    except DAMAGE_ERRORS:
        return data, []  # reading the file says what is wrong
    if not places:
        return data, []
    repaired = bytearray(data)
    for place in places:
        struct.pack_into("<i", repaired, place, 0)
    what = f"quantized_dimension of {count(len(places), 'tensor')} lies beyond its rank (first {names[0][:60]!r})"
    return bytes(repaired), [
        f"{what}: LiteRT refuses the file for it; it was set to 0 in memory, the file is unchanged"
    ]


def _beyond_rank(tensor: Any) -> int | None:
    """Returns where the quantized_dimension of a tensor is stored if it has to be set to 0, else None."""
    about, rank = tensor.Quantization(), tensor.ShapeLength()
    if about is None or about.ScaleLength() == 0 or 0 <= about.QuantizedDimension() < max(rank, 1):
        return None
    if about.ScaleLength() > 1 and rank > 1:
        return None
    at = about._tab.Offset(FIELD)
    return int(about._tab.Pos + at) if at else None

"""The names that rknn-toolkit2 gives to tensors: those of the ONNX, with endings for what its optimizer did."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

# _int8, _int16: the quantized form of an input or output. _mm: a product that became a convolution. _rs, -rs: other dims
SAME_VALUES = re.compile(r"(?:_int8|_int16|_mm|[-_]rs)\Z")
# besides: another order of axes (_tp), the result of the operation that was exchanged with it (_sw), the first of two steps
# (_2conv0), a cast that rounds (__float16)
OTHER_VALUES = re.compile(r"(?:__float16|_tp|_sw|_2conv0)\Z")
_MADE = re.compile(r"(?:_int8|_int16|__float16|_mm|[-_]rs|_tp|_sw|_2conv0)+\Z")
RULE = "without the endings of rknn-toolkit2's optimizer (_int8, _mm, -rs, _rs)"


def stems(name: str) -> list[str]:
    """Returns the names that a tensor may have in the ONNX, besides its own: the longest first."""
    found = [name]
    while (shorter := SAME_VALUES.sub("", found[-1])) and shorter != found[-1]:
        found.append(shorter)
    return [stem for stem in found[1:] if not OTHER_VALUES.search(found[-1])]


def is_made(name: str, names: Collection[str]) -> bool:
    """Returns whether the toolkit made a tensor that the ONNX does not have: a cast or another form of one that is there,
    one of another order of axes, or a step between. names: those of all tensors."""
    body = _MADE.sub("", name)
    return body != name and (
        body in names or not name.endswith(("_int8", "_int16", "_mm", "_rs", "-rs")) or "_tp_" in name
    )


def onnx_names(names: Iterable[str], known: Collection[str] = ()) -> dict[str, str]:
    """Returns, by tensor of the toolkit, the name that the ONNX gives to the same values, for tensors whose own name is not
    one of the ONNX's. names: those of the toolkit, in its order. known: those of the ONNX; without them, a shorter name
    counts if no other tensor has it."""
    listed = list(names)
    taken, found = {*listed}, dict[str, str]()
    for name in listed:
        if name in known:
            continue
        stem = next((s for s in stems(name) if s not in taken and (not known or s in known)), "")
        if stem:
            taken.add(stem)
            found[name] = stem
    return found

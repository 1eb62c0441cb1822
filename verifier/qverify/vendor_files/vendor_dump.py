"""VendorTensor, VendorDump: the files that a vendor's tool wrote. Facts that the files do not state are left open."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

import numpy as np

from qverify.errors import BadFileError

ITEM = {  # supported dtypes, and the bytes of an element
    "int8": 1,
    "uint8": 1,
    "bool": 1,
    "int16": 2,
    "uint16": 2,
    "float16": 2,
    "bfloat16": 2,  # not a dtype of numpy: uint16 bits, converted to float32
    "int32": 4,
    "uint32": 4,
    "float32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
}
MAX_ELEMENTS = 1 << 31


@dataclass(frozen=True, slots=True)
class Rung:
    """A side of one run in a vendor's folder: its name, the path and `--side` that read it, and whether it is the network
    before quantization."""

    name: str
    path: str
    side: str = ""
    is_float: bool = False


@dataclass(frozen=True, slots=True)
class VendorTensor:
    """One tensor of a dump.

    Attributes:
        name: name in the dump.
        where: file and position, for messages.
        dtypes: possible types, keys of ITEM; exactly one if the dump states the type.
        size_bytes: number of bytes that read() returns.
        read: returns the stored bytes.
        shape: shape of the valid elements, or None if the dump does not state it.
        stored: shape with padding, or () if there is none.
        scale, zero_point: quantization parameters that the dump states, or ().
        channel_axis: axis of several scales, or -1.
        layout: "NHWC" if the dump always uses this layout, "NC1HWC2" if it states blocks of channels, else "".
        loose_inner: True if the innermost dim may contain padding that the shape does not show.
        flat: True if the tensor may be stored with other dims of the same number of elements.
        scale_step: largest error of each scale that was read from text, or () for exact scales.
        is_exact: True if the scale counts as exact where neither the other side nor the model has one of which it is a
            rounding.
        form: distinguishes several files of one tensor (fixed, float).
        index: position among the model's outputs, if known.
        decimals: number of known decimals of values from text, or None.
        inner_bytes: for raw files: returns the aligned size of an innermost dim of the given size, in bytes.
        is_input: True for an input of the network, which is compared only if the other side has it.
        other_names: other possible names, if the file name can be split in several ways.
        aliases: names that it may have in the ONNX, the likeliest first; the first that the other side has counts.
        is_inserted: True for a tensor that the toolkit inserted (a cast, a reshape, weights), which is compared only if
            the other side has it.
    """

    name: str
    where: str
    dtypes: tuple[str, ...]
    size_bytes: int
    read: Callable[[], bytes | memoryview]
    shape: tuple[int, ...] | None = None
    stored: tuple[int, ...] = ()
    scale: tuple[float, ...] = ()
    zero_point: tuple[int, ...] = ()
    channel_axis: int = -1
    layout: str = ""
    loose_inner: bool = False
    flat: bool = False
    scale_step: tuple[float, ...] = ()
    is_exact: bool = False
    form: str = ""
    index: int | None = None
    decimals: int | None = None
    inner_bytes: Callable[[int], int] | None = None
    is_input: bool = False
    other_names: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    is_inserted: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.other_names)


@dataclass(frozen=True, slots=True)
class LayerFacts:
    """The row of a layer in a vendor's own table. op: its operator, "" if it does not say. stated: printed values, by
    column."""

    op: str = ""
    stated: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class VendorDump:
    """A vendor's dump.

    Attributes:
        profile: name of the profile that read it.
        tensors: the tensors that it contains.
        respell: returns the vendor's spelling of a tensor's original name; None if names are unchanged.
        missing: reasons for the tensors that the dump declares but does not contain, by name.
        notes: notes for the report.
        layers: what the vendor's table states of the tensors, by name in the dump.
    """

    profile: str
    tensors: list[VendorTensor]
    respell: Callable[[str], str] | None = None
    missing: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    layers: dict[str, LayerFacts] = field(default_factory=dict)
    layout: str = ""


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """Options for reading a dump. dtypes: dtype by tensor name; the name "" stands for all tensors. side: which side of
    the dump to read. frame: which frame (Result_N). layer_info: file or folder with the names of tensors (profile
    tidl). layout: the order of the axes of tensors of four axes that do not state one; "" if it is not known."""

    dtypes: dict[str, str] = field(default_factory=dict)
    side: str = ""
    frame: int = 0
    layer_info: str = ""
    layout: str = ""


def count_elements(shape: tuple[int, ...], where: str) -> int:
    """Returns the number of elements of a declared shape. Raises BadFileError if a dim is negative, or if there are
    more than MAX_ELEMENTS."""
    if any(not 0 <= d <= MAX_ELEMENTS for d in shape) or len(shape) > 16 or (count := prod(shape)) > MAX_ELEMENTS:
        raise BadFileError(f"{where}: shape {list(shape)[:16]}; at most {MAX_ELEMENTS} elements in 16 dims are read")
    return count


def whole_number(text: str | bytes, where: str, most: int = MAX_ELEMENTS) -> int:
    """Parses a count in decimal digits. Raises BadFileError for anything else."""
    digits = text.decode("ascii", "replace") if isinstance(text, bytes) else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > 20 or int(digits) > most:
        raise BadFileError(f"{where}: {digits[:40]!r}; wanted a whole number of at most {most}")
    return int(digits)


def real_number(text: str | bytes, where: str) -> float:
    """Parses a finite number. Raises BadFileError for anything else, NaN included."""
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise BadFileError(f"{where}: {text[:40]!r}; wanted a finite number")
    return value


def spelled_loosely(name: str) -> str:
    """Returns the name with every character except letters and digits replaced by "_", for tools with an unpublished
    spelling. Names that become equal are reported as ambiguous."""
    return re.sub(r"[^A-Za-z0-9]", "_", name)

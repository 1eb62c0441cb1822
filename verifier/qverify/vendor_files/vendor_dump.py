"""VendorTensor, VendorDump: what a vendor's tool wrote to disk; what its files do not state stays open."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

import numpy as np

from qverify.errors import BadFileError

ITEM = {
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
MOST_ELEMENTS = 1 << 31


@dataclass(frozen=True, slots=True)
class VendorTensor:
    """One tensor of a dump. name: as in the dump. others: its other possible names, where a file name can be split in
    several ways. dtypes: possible ones, keys of ITEM; one when the dump states it. shape: of the valid elements, None
    when the dump does not state it. stored: the aligned shape, () when dense. read: returns its size_bytes bytes.
    layout: "NHWC" where the dump always stores so, else "". loose_inner: the innermost dim may contain alignment
    garbage even where shape does not say so. flat: may be stored with other dims of the same number of elements.
    scale_step: largest error of a scale that was read from text, one per scale; () for exact ones.
    form: distinguishes several files of one tensor (fixed, float). index: position among the model's outputs. decimals:
    known decimals of text, else None. inner_bytes: for raw files, from the size of the innermost dim to its aligned
    size, in bytes. fed: an input of the network: compared where the other side has it, not required otherwise."""

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
    form: str = ""
    index: int | None = None
    decimals: int | None = None
    inner_bytes: Callable[[int], int] | None = None
    fed: bool = False
    others: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.others)


@dataclass(slots=True)
class VendorDump:
    """A vendor's dump. written: from a tensor's original name to the vendor's spelling; None where names are unchanged.
    missing: for each tensor that the dump declares and lacks, the reason. notes: lines for the report."""

    profile: str
    tensors: list[VendorTensor]
    written: Callable[[str], str] | None = None
    missing: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """The options for reading a dump. dtypes: by tensor name, "" for all. side: which of its sides. frame: which
    Result_n. layer_info: folder of the names (profile tidl)."""

    dtypes: dict[str, str] = field(default_factory=dict)
    side: str = ""
    frame: int = 0
    layer_info: str = ""


def count_elements(shape: tuple[int, ...], where: str) -> int:
    """Returns the number of elements of a declared shape. Raises BadFileError for a negative dim, or more than
    MOST_ELEMENTS."""
    if any(not 0 <= d <= MOST_ELEMENTS for d in shape) or len(shape) > 16 or (count := prod(shape)) > MOST_ELEMENTS:
        raise BadFileError(f"{where}: shape {list(shape)[:16]}; at most {MOST_ELEMENTS} elements in 16 dims are read")
    return count


def whole_number(text: str | bytes, where: str, most: int = MOST_ELEMENTS) -> int:
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
    """Returns the name with "_" for every character but letters and digits, for tools whose spelling is not published.
    Names that become equal are reported as ambiguous."""
    return re.sub(r"[^A-Za-z0-9]", "_", name)

"""VendorTensor, VendorDump: what a vendor's tool left on disk, with everything its files do not tell left open."""

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
    "bfloat16": 2,  # no dtype of numpy: uint16 bits, given on as float32
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
    """name: as the dump has it; others: what else the same file may be named, where its name cannot be split for sure.
    dtypes: those it may be of, keys of ITEM; one when the dump tells. shape: of the valid elements, None when the dump
    does not tell; stored: the aligned shape, () when dense. read: its bytes, size_bytes of them.
    layout: "NHWC" where the dump always stores so, else "". loose_inner: the innermost dim may hold alignment garbage
    even where shape does not say so. scale_step: how far off a scale can be that came as
    text, one a scale; () for exact ones.
    form: tells apart several files of one tensor (fixed, float). index: position among the model's outputs.
    decimals: known decimals of text, else None. inner_bytes: for raw files, how many bytes the chip makes of the innermost
    dim's. fed: an input of the network: compared where the other side has it, not wanted otherwise."""

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
    """written: how the vendor's tool spells a tensor's true name in this dump; None where names are true.
    missing: tensor the dump declares and does not give, to why. notes: what the reader of a report has to know."""

    profile: str
    tensors: list[VendorTensor]
    written: Callable[[str], str] | None = None
    missing: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """What the command line says about a dump. dtypes: tensor to dtype, "" for all. frame: which Result_n."""

    dtypes: dict[str, str] = field(default_factory=dict)
    side: str = ""
    frame: int = 0
    layer_info: str = ""


def count_elements(shape: tuple[int, ...], where: str) -> int:
    """Elements of a declared shape. BadFileError for a negative dim, or more than MOST_ELEMENTS."""
    if any(not 0 <= d <= MOST_ELEMENTS for d in shape) or len(shape) > 16 or (count := prod(shape)) > MOST_ELEMENTS:
        raise BadFileError(f"{where}: shape {list(shape)[:16]}; at most {MOST_ELEMENTS} elements in 16 dims are read")
    return count


def whole_number(text: str | bytes, where: str, most: int = MOST_ELEMENTS) -> int:
    """A count in decimal digits. BadFileError for anything else."""
    held = text.decode("ascii", "replace") if isinstance(text, bytes) else text
    if not held.isascii() or not held.isdigit() or len(held) > 20 or int(held) > most:
        raise BadFileError(f"{where}: {held[:40]!r}; a number of at most {most} was wanted")
    return int(held)


def real_number(text: str | bytes, where: str) -> float:
    """A finite number. BadFileError for anything else, NaN included."""
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise BadFileError(f"{where}: {text[:40]!r}; a finite number was wanted")
    return value


def spelled_loosely(name: str) -> str:
    """For tools whose way with names is not published: every character but letters and digits as "_". Names that become one
    are told as such, never chosen from."""
    return re.sub(r"[^A-Za-z0-9]", "_", name)

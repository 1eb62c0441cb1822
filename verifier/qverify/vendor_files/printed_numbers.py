"""Numbers a vendor's tool printed: to float64, with the number of decimals that are known."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from qverify.errors import BadFileError

Reals = npt.NDArray[np.float64]
_BLOCK = 1 << 20
_NUMBER = re.compile(rb"[+-]?(?:(\d{1,40})(?:\.(\d{0,40}))?(?:[eE]([+-]?\d{1,3}))?|nan|inf|NaN|Inf|NAN|INF)")
_FIRST = re.compile(rb"[\s,]*+-?\d{1,40}\.(\d{1,40})(?:[\s,]|\Z)")
_SPLIT = re.compile(rb"[\s,]+")
_COMMAS = bytes.maketrans(b",", b" ")


def numbers(data: bytes, count: int, where: str, offset: int = 0) -> tuple[Reals, int | None]:
    """count values and their known decimals: None where all are whole numbers, below 0 where even those are not known.
    nan and inf stay what they are: they are judged, not refused. BadFileError for anything that is no number, or for
    another count; offset: of data in its file."""
    if count > len(data) // 2 + 1:
        raise BadFileError(f"{where}: byte {offset}: {count} values declared, {len(data)} bytes of text")
    found, at, seen = np.empty(count, np.float64), 0, _Decimals()
    for start, block in _blocks(data):
        values = _fixed(block, seen)
        if values is None:
            values = _any(block, seen, where, offset + start)
        if at + len(values) > count:
            raise BadFileError(f"{where}: byte {offset + start}: more than the {count} values declared")
        found[at : at + len(values)] = values
        at += len(values)
    if at != count:
        raise BadFileError(f"{where}: byte {offset + len(data)}: {at} values, {count} declared")
    return found, seen.known()


def _fixed(block: bytes, seen: _Decimals) -> Reals | None:
    """A block in which every number has as many decimals as its first, none an exponent; None where it is no such block."""
    first = _FIRST.match(block)
    if first is None:
        return None
    decimals = len(first[1])
    if re.fullmatch(rb"[\s,]*+(?:-?\d{1,40}\.\d{%d}(?:[\s,]++|\Z))*+" % decimals, block) is None:
        return None
    values = np.array(block.translate(_COMMAS).split()).astype(np.float64)
    seen.add_fixed(decimals, float(np.abs(values).max()))
    return values


def _any(block: bytes, seen: _Decimals, where: str, offset: int) -> Reals:
    """Number by number. BadFileError names the first that is none."""
    found = []
    for token in re.finditer(rb"[^\s,]+", block):
        match = _NUMBER.fullmatch(token[0])
        if match is None:
            raise BadFileError(f"{where}: byte {offset + token.start()}: {token[0][:40]!r} is no number")
        found.append(float(token[0]))
        seen.add(match)
    return np.array(found, np.float64)


def count_numbers(data: bytes) -> int:
    """How many there are, numbers or not."""
    return sum(len(block.translate(_COMMAS).split()) for _, block in _blocks(data))


class _Decimals:
    """%.Nf prints N decimals everywhere. Other forms print so many digits in all: the largest value has the fewest decimals."""

    def __init__(self) -> None:
        self.lengths: set[int] = set()  # of decimals
        self.digits, self.before, self.exponent = 0, -99, False

    def add(self, match: re.Match[bytes]) -> None:
        if match[1] is None:  # nan or inf
            return
        whole, decimals, exponent = match[1], match[2] or b"", match[3]
        self.lengths.add(len(decimals))
        self.exponent |= exponent is not None
        if held := (whole + decimals).lstrip(b"0"):
            self.digits = max(self.digits, len(held))
            self.before = max(self.before, len(held) - len(decimals) + int(exponent or 0))

    def add_fixed(self, decimals: int, largest: float) -> None:
        """Numbers of so many decimals, the largest of which is so large."""
        self.lengths.add(decimals)
        if largest > 0:
            before = math.floor(math.log10(largest)) + 1
            self.digits, self.before = max(self.digits, before + decimals), max(self.before, before)

    def known(self) -> int | None:
        if not self.exponent and len(self.lengths) == 1:
            return next(iter(self.lengths)) or None
        return min(15, self.digits - self.before) if self.digits else None


def _blocks(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Position and bytes of pieces that end between numbers, so that no list of all numbers is held."""
    start = 0
    while start < len(data):
        gap = _SPLIT.search(data, min(start + _BLOCK, len(data)))
        end = gap.end() if gap is not None else len(data)
        yield start, data[start:end]
        start = end

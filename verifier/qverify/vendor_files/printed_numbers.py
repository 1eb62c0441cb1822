"""Parses numbers that a vendor's tool printed, and determines how many of their decimals are known."""

from __future__ import annotations

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


class PrintedFloat(float):
    """A number that was read from text. error: the largest error that it has if it was rounded to this text, half a unit of
    its last decimal. Raises ValueError for text that is not a number."""

    error: float

    def __new__(cls, text: str) -> PrintedFloat:
        value = super().__new__(cls, text)
        mantissa, _, exponent = text.lower().replace("_", "").partition("e")
        value.error = float(f"5e{int(exponent or 0) - len(mantissa.partition('.')[2]) - 1}")
        return value


def numbers(data: bytes, count: int, where: str, offset: int = 0) -> tuple[Reals, int | None]:
    """Returns `count` values in float64 and the number of their known decimals: None if all are whole numbers, below 0
    if not even the units are known. nan and inf are values, too. where, offset: name of the file and offset of `data`
    in it, for messages. Raises BadFileError for anything that is not a number, or for another count."""
    if count > len(data) // 2 + 1:
        raise BadFileError(f"{where}: byte {offset}: {count} values declared, {len(data)} bytes of text")
    parsed, at, decimals = np.empty(count, np.float64), 0, _Decimals()
    for start, block in _blocks(data):
        values = _parse_fixed(block, decimals)
        if values is None:
            values = _parse_tokens(block, decimals, where, offset + start)
        if at + len(values) > count:
            raise BadFileError(f"{where}: byte {offset + start}: more than the {count} values declared")
        parsed[at : at + len(values)] = values
        at += len(values)
    if at != count:
        raise BadFileError(f"{where}: byte {offset + len(data)}: {at} values, {count} declared")
    return parsed, decimals.known()


def _parse_fixed(block: bytes, decimals_of_all: _Decimals) -> Reals | None:
    """Parses a block in which all numbers have the same number of decimals and no exponent. Returns None for any other
    block."""
    first = _FIRST.match(block)
    if first is None:
        return None
    decimals = len(first[1])
    if re.fullmatch(rb"[\s,]*+(?:-?\d{1,40}\.\d{%d}(?:[\s,]++|\Z))*+" % decimals, block) is None:
        return None
    values = np.array(block.translate(_COMMAS).split()).astype(np.float64)
    decimals_of_all.add_fixed(decimals, float(np.abs(values).max()))
    return values


def _parse_tokens(block: bytes, decimals: _Decimals, where: str, offset: int) -> Reals:
    """Parses a block number by number. Raises BadFileError, which quotes the first token that is not a number."""
    values = []
    for token in re.finditer(rb"[^\s,]+", block):
        match = _NUMBER.fullmatch(token[0])
        if match is None:
            raise BadFileError(f"{where}: byte {offset + token.start()}: {token[0][:40]!r} is not a number")
        values.append(float(token[0]))
        decimals.add(match)
    return np.array(values, np.float64)


def count_numbers(data: bytes) -> int:
    """Returns the number of tokens, which need not be numbers."""
    return sum(len(block.translate(_COMMAS).split()) for _, block in _blocks(data))


def printed_alike(values: Reals, decimals: int | None, real: Reals) -> bool:
    """Returns whether printed values can be those of an array. decimals: their known decimals; None if all are whole."""
    tolerance = 0.0 if decimals is None else 0.5 * 10.0**-decimals
    with np.errstate(invalid="ignore"):
        return real.size == values.size and bool(
            np.isclose(values, real, rtol=1e-6, atol=tolerance * 1.01, equal_nan=True).all()
        )


class _Decimals:
    """Determines the known decimals of printed numbers. The format %.Nf prints N decimals of every number. Other
    formats print a fixed number of digits, so the largest value has the fewest decimals."""

    def __init__(self) -> None:
        self.lengths: set[int] = set()  # numbers of decimals that occur
        self.digits = 0  # largest number of significant digits
        self.before = -99  # digits of the largest value before the decimal point; negative below 0.1
        self.exponent = False  # True if a number has an exponent

    def add(self, match: re.Match[bytes]) -> None:
        if match[1] is None:  # nan or inf
            return
        whole, decimals, exponent = match[1], match[2] or b"", match[3]
        self.lengths.add(len(decimals))
        self.exponent |= exponent is not None
        if digits := (whole + decimals).lstrip(b"0"):
            self.digits = max(self.digits, len(digits))
            self.before = max(self.before, len(digits) - len(decimals) + int(exponent or 0))

    def add_fixed(self, decimals: int, largest: float) -> None:
        """Adds numbers with this number of decimals. largest: their largest magnitude."""
        self.lengths.add(decimals)
        if largest > 0:
            before = int(f"{largest:.17e}".partition("e")[2]) + 1
            self.digits, self.before = max(self.digits, before + decimals), max(self.before, before)

    def known(self) -> int | None:
        """Returns the number of known decimals, or None if all numbers are whole."""
        if not self.exponent and len(self.lengths) == 1:
            return next(iter(self.lengths)) or None
        return min(15, self.digits - self.before) if self.digits else None


def _blocks(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields offset and bytes of pieces that end between numbers, so that memory for all tokens at once is not
    needed."""
    start = 0
    while start < len(data):
        gap = _SPLIT.search(data, min(start + _BLOCK, len(data)))
        end = gap.end() if gap is not None else len(data)
        yield start, data[start:end]
        start = end

"""Numbers a vendor's tool printed: to float64, with the number of decimals that are known."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from qverify.errors import BadFileError

Reals = npt.NDArray[np.float64]
_BLOCK = 1 << 20
_NUMBER = re.compile(rb"[+-]?(?:(\d{1,40})(?:\.(\d{0,40}))?(?:[eE]([+-]?\d{1,3}))?|nan|inf|NaN|Inf|NAN|INF)")
_SPLIT = re.compile(rb"[\s,]+")


def numbers(data: bytes, count: int, where: str, offset: int = 0) -> tuple[Reals, int | None]:
    """count values and their known decimals, None where all are whole, below 0 where even tens are not. nan and inf stay what they are: they are judged,
    not refused. BadFileError for anything that is no number, or for another count; offset: of data in its file."""
    if count > len(data) // 2 + 1:
        raise BadFileError(f"{where}: byte {offset}: {count} values declared, {len(data)} bytes of text")
    found, at, seen = np.empty(count, np.float64), 0, _Decimals()
    for position, token in _tokens(data):
        match = _NUMBER.fullmatch(token)
        if match is None:
            raise BadFileError(f"{where}: byte {offset + position}: {token[:40]!r} is no number")
        if at == count:
            raise BadFileError(f"{where}: byte {offset + position}: more than the {count} values declared")
        found[at] = float(token)
        seen.add(match)
        at += 1
    if at != count:
        raise BadFileError(f"{where}: byte {offset + len(data)}: {at} values, {count} declared")
    return found, seen.known()


def counted_in(data: bytes) -> int:
    """How many there are, numbers or not."""
    return sum(1 for _ in _tokens(data))


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

    def known(self) -> int | None:
        if not self.exponent and len(self.lengths) == 1:
            return next(iter(self.lengths)) or None
        return min(15, self.digits - self.before) if self.digits else None


def _tokens(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Position and text of each; in blocks, so that no list of them all is held."""
    start = 0
    while start < len(data):
        end = min(len(data), start + _BLOCK)
        while end < len(data) and not _SPLIT.match(data, end) and end - start < _BLOCK + 4096:
            end += 1
        at = start
        for gap in _SPLIT.finditer(data, start, end):
            if gap.start() > at:
                yield at, data[at : gap.start()]
            at = gap.end()
        if at < end:
            yield at, data[at:end]
        start = end

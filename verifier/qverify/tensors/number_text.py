"""Numbers a vendor's tool printed: to float64, with the number of decimals that are known."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from qverify.errors import BadFileError

Reals = npt.NDArray[np.float64]
_BLOCK = 1 << 20
_NUMBER = re.compile(rb"[+-]?(?:(\d{1,40})(?:\.(\d{0,40}))?(?:[eE][+-]?\d{1,3})?|nan|inf|NaN|Inf|NAN|INF)")
_SPLIT = re.compile(rb"[\s,]+")


def numbers(data: bytes, count: int, where: str, offset: int = 0) -> tuple[Reals, int | None]:
    """count values and their known decimals, None where all are whole. nan and inf stay what they are: they are judged,
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


class _Decimals:
    """%.Nf prints N decimals everywhere; other forms print so many digits in all, of which a large value has spent some
    before the point."""

    def __init__(self) -> None:
        self.fewest, self.most, self.digits, self.before = 99, 0, 0, 1
        self.exponent = False

    def add(self, match: re.Match[bytes]) -> None:
        whole, decimals = match[1], match[2]
        if whole is None:
            return
        self.exponent |= b"e" in match[0] or b"E" in match[0]
        self.before = max(self.before, len(whole.lstrip(b"0")))
        if decimals is not None:
            self.fewest, self.most = min(self.fewest, len(decimals)), max(self.most, len(decimals))
            self.digits = max(self.digits, len((whole + decimals).lstrip(b"0")))

    def known(self) -> int | None:
        if self.exponent:
            return 0
        if self.most == 0:
            return None
        return self.most if self.fewest == self.most else max(0, min(self.most, self.digits - self.before))


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

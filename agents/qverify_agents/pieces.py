"""A long content that lies in memory in several places, and is sent to a board without a copy of the whole."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate


class Pieces:
    """The bytes of several pieces, one after the other. pieces: the bytes, or views of bytes."""

    def __init__(self, pieces: Sequence[bytes | memoryview]):
        self.pieces = [memoryview(p) for p in pieces if len(p)]
        self._ends = list(accumulate(len(p) for p in self.pieces))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, part: slice) -> memoryview:
        """Returns these bytes: a view if they lie in one piece. part: a slice with a step of 1."""
        start, stop, _ = part.indices(len(self))
        found, at = list[memoryview](), bisect_right(self._ends, start)
        while start < stop:
            begin = self._ends[at] - len(self.pieces[at])
            found.append(self.pieces[at][start - begin : stop - begin])
            start, at = self._ends[at], at + 1
        return found[0] if len(found) == 1 else memoryview(b"".join(found))

    def __bytes__(self) -> bytes:
        return b"".join(self.pieces)

    def sha256(self) -> str:
        """Returns the SHA-256 of all bytes, in hexadecimal."""
        digest = hashlib.sha256()
        for piece in self.pieces:
            digest.update(piece)
        return digest.hexdigest()

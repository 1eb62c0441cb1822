"""Tables of a FlatBuffer, read with bounds: nothing in the file is trusted."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

DAMAGE_ERRORS = (struct.error, ValueError, IndexError, TypeError, OverflowError, KeyError, MemoryError, AttributeError)
MAX_COUNT = 1 << 16  # elements of one vector of tables or names
NUMBERS = {"b": 1, "i": 4, "q": 8, "f": 4}  # codes of struct, and their bytes


@dataclass(frozen=True, slots=True)
class FlatTable:
    """One table of a FlatBuffer. data: the buffer. position: of the table. All methods raise one of DAMAGE_ERRORS for what
    lies outside the buffer, and return nothing ("" , 0, None, an empty list) for a field that the table does not have.
    slot: the field's number in the schema, from 0."""

    data: bytes
    position: int

    @staticmethod
    def root(data: bytes) -> FlatTable:
        """Returns the buffer's root table."""
        return FlatTable(data, _read(data, "I", 0))

    def number(self, slot: int, code: str, default: float = 0) -> float:
        """Returns a scalar. code: as struct names its type."""
        at = self._field(slot)
        return _read(self.data, code, at) if at else default

    def table(self, slot: int) -> FlatTable | None:
        """Returns the table to which a field points."""
        at = self._field(slot)
        return FlatTable(self.data, at + _read(self.data, "I", at)) if at else None

    def inline(self, slot: int, code: str) -> float | None:
        """Returns the only element of a struct."""
        at = self._field(slot)
        return _read(self.data, code, at) if at else None

    def text(self, slot: int) -> str:
        """Returns a string, or a vector of bytes that holds one. Raises UnicodeDecodeError, a ValueError."""
        at = self._field(slot)
        return self._string(at + _read(self.data, "I", at)) if at else ""

    def texts(self, slot: int) -> list[str]:
        """Returns a vector of strings."""
        return [self._string(at) for at in self._targets(slot)]

    def tables(self, slot: int) -> list[FlatTable]:
        """Returns a vector of tables."""
        return [FlatTable(self.data, at) for at in self._targets(slot)]

    def numbers(self, slot: int, code: str) -> list[float]:
        """Returns a vector of scalars."""
        start, length = self._vector(slot, NUMBERS[code])
        return list(struct.unpack_from(f"<{length}{code}", self.data, start)) if length else []

    def bytes_of(self, slot: int, size: int) -> bytes:
        """Returns a vector of structs of `size` bytes each, as bytes."""
        start, length = self._vector(slot, size)
        return self.data[start : start + length * size]

    def _field(self, slot: int) -> int:
        """Returns the position of a field, 0 if the table does not have it."""
        layout = self.position - _read(self.data, "i", self.position)
        if layout < 0:
            raise ValueError(f"a table at byte {self.position} has its fields at byte {layout}")
        if 4 + 2 * slot >= _read(self.data, "H", layout):
            return 0
        offset = _read(self.data, "H", layout + 4 + 2 * slot)
        return self.position + offset if offset else 0

    def _vector(self, slot: int, size: int) -> tuple[int, int]:
        """Returns the position of a vector's first element and the number of its elements. size: bytes of one."""
        at = self._field(slot)
        if not at:
            return 0, 0
        start = at + _read(self.data, "I", at)
        length = _read(self.data, "I", start)
        if start + 4 + length * size > len(self.data):
            raise ValueError(f"a vector of {length} elements at byte {start} of {len(self.data)}")
        return start + 4, length

    def _targets(self, slot: int) -> Iterator[int]:
        """Yields the positions to which a vector of offsets points."""
        start, length = self._vector(slot, 4)
        if length > MAX_COUNT:
            raise ValueError(f"a vector of {length} elements; wanted at most {MAX_COUNT}")
        for at in range(start, start + 4 * length, 4):
            yield at + _read(self.data, "I", at)

    def _string(self, at: int) -> str:
        length = _read(self.data, "I", at)
        if at + 4 + length > len(self.data):
            raise ValueError(f"a text of {length} bytes at byte {at} of {len(self.data)}")
        return self.data[at + 4 : at + 4 + length].decode()


def _read(data: bytes, code: str, at: int) -> int:
    """Returns a number of the buffer, of the type that struct calls `code`."""
    if at < 0:
        raise ValueError(f"byte {at}")
    return struct.unpack_from(f"<{code}", data, at)[0]

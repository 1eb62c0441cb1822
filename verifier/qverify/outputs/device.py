"""What the device's application wrote: rows of numbers, or arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Rows:
    """Results as rows, in the order of the file.

    Attributes:
        numbers: float64 (N, K): four numbers of a box, or x and y of a keypoint; then those of further points.
        scores: float64 (N,), None if the file has none.
        classes: int64 (N,), None if the file has none.
        names: class names in place of numbers, as written; None without names.
        decimals: most decimals after the point among `numbers`, and among `scores`; None if they are not text.
        form: how boxes are written, as the file's keys say; "" if they do not say.
        significant: most significant digits among both, as decimals.
    """

    numbers: Array
    scores: Array | None = None
    classes: Array | None = None
    names: tuple[str, ...] | None = None
    decimals: tuple[int | None, int | None] = (None, None)
    form: str = ""
    significant: tuple[int | None, int | None] = (None, None)

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True, slots=True)
class DeviceResult:
    """What the device wrote. rows: results; None if there are only arrays. arrays: by name. text: recognized text."""

    rows: Rows | None = None
    arrays: dict[str, Array] = field(default_factory=dict)
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """How results are written, as the user states it.

    Attributes:
        form: key of forms.FORMS; "" for what the file says, or else xyxy.
        normalized: whether coordinates are shares of the picture.
        columns: names of the columns of a table without names.
        names: class names in the order of their numbers, () without.
        digits: decimals that are intended, -1 if all that float32 has.
        first_class: number of the network's class 0 in the file.
        cut: whether digits beyond the intended ones are meant to be cut off, not rounded.
    """

    form: str = ""
    normalized: bool = False
    columns: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    digits: int = -1
    first_class: int = 0
    cut: bool = False


def empty_rows() -> Rows:
    """Returns rows without a row."""
    return Rows(np.zeros((0, 4)), np.zeros(0), np.zeros(0, np.int64))

"""Wrong rows whose statistics a kernel may use for a row instead of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def row_choices(rows: int, inner: int = 1) -> dict[str, Array]:
    """Returns, by text, the index of the row whose statistics are used for each row. inner: number of rows that are
    interleaved in one block."""
    at = np.arange(rows)
    choices = {
        "the row before": np.maximum(at - 1, 0),
        "the row after": np.minimum(at + 1, rows - 1),
        "the row before, the first taking the last's": (at - 1) % rows,
        "the row after, the last taking the first's": (at + 1) % rows,
        "the first row": np.zeros(rows, int),
        "the last row": np.full(rows, rows - 1),
    }
    for n in (2, 4, 8, 16, 32):
        if rows > n:
            choices[f"the first of its {n} rows"] = at // n * n
            choices[f"the last of its {n} rows"] = np.minimum(at // n * n + n - 1, rows - 1)
        rest = rows % n
        if rest and rows > n:
            for text, row in {
                "the row before": at - 1,
                f"the last row of the last full {n}": np.full(rows, rows - rest - 1),
                "the first row": np.zeros(rows, int),
                f"the row {n} before": at - n,
                f"the row with its place in the first {n}": at % n,
            }.items():
                choices[f"{text}, in the last {rest} rows only (rows mod {n})"] = np.where(at >= rows - rest, row, at)
    distinct = dict[bytes, tuple[str, Array]]()
    for text, row in {**_inner(rows, inner), **choices}.items():
        if (row != at).any():
            distinct.setdefault(np.asarray(row).tobytes(), (text, row))
    return dict(distinct.values())


def _inner(rows: int, inner: int) -> dict[str, Array]:
    at, choices = np.arange(rows), dict[str, Array]()
    if inner > 1:
        choices["the first inner position"] = at // inner * inner
        choices["the inner position before"] = np.where(at % inner, at - 1, at)
        choices["the last inner position"] = at // inner * inner + inner - 1
        choices["the first block at the same inner position"] = at % inner
        for n in (2, 4, 8, 16):
            if inner > n:
                choices[f"the first of its {n} inner positions"] = at // inner * inner + at % inner // n * n
    return choices

"""No source of the runtime widens two floats and multiplies them but by qv_wide_product, which QEMU before 8.1 needs on s390x."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[2] / "board_runtime" / "src"
NAMED = re.compile(r"\bdouble (\w+) = \(double\)[\w>.\[\]()+*/ -]*?[,;]")
BOTH = re.compile(r"\(double\)(?!acc\b)[\w>.-]+(?:\[[^;]*?\])? \* \(double\)")


def widened(text: str) -> list[str]:
    """Returns the products of two floats that are written in double: of two casts, and of a cast's name with itself."""
    squares = [
        m[0]
        for name in NAMED.finditer(text)
        for m in [re.compile(rf"(?<![\w.>]){name[1]} \* {name[1]}\b").search(text, name.end(), name.end() + 200)]
        if m and " - " not in name[0]
    ]
    return squares + [m[0] for m in BOTH.finditer(text)]


@pytest.mark.parametrize("folder", ["arithmetic", "ops"])
def test_products_of_floats_are_made_in_one_place(folder: str) -> None:
    found = {p.name: widened(p.read_text()) for p in sorted((SOURCES / folder).glob("*.c"))}
    assert len(found) > 5 and {name: of for name, of in found.items() if of} == {}


@pytest.mark.parametrize(
    "text",
    [
        "double v = (double)from[i * inner], term = squares ? v * v : fabs(v);",
        "double v = (double)m->a[row * m->a_row];\n      sum += v * v;",
        "part[i] = rounded((double)q->gate[i / hidden + i % hidden] * (double)q->h[i]);",
        "double v = (double)x * (double)y;",
    ],
)
def test_what_it_looks_for_is_found(text: str) -> None:
    assert widened(text)

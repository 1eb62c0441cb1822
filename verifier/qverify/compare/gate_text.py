"""`--gate KIND:LIMIT`, the one spelling of every gate, to the fields of Options it stands for."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from qverify.compare.criteria import MOST_DIGITS
from qverify.errors import UsageError

WANTED = f"decimals:N (0 to {MOST_DIGITS}), exact, close:atol=A,rtol=R (either may be left out), cosine:X, sqnr:DB, rmse:X or lsb:N"
_LIMITS = {"cosine": "min_cosine", "sqnr": "min_sqnr_db", "rmse": "max_rmse", "lsb": "max_lsb"}
_LARGEST_IS_STRICTEST = ("digits", "min_cosine", "min_sqnr_db")


def parse_gates(texts: Iterable[str]) -> dict[str, Any]:
    """Field of Options to value, for all texts together: all must hold, so of one kind the strictest is taken. UsageError for any
    other form, and for two tolerances of close, of which neither is the stricter everywhere."""
    found: dict[str, Any] = {}
    for text in texts:
        for field, value in _parsed(text).items():
            if field not in found:
                found[field] = value
            elif field in ("atol", "rtol"):
                raise UsageError(f"--gate {text}: {field} is given twice")
            elif field != "rule":
                found[field] = max(found[field], value) if field in _LARGEST_IS_STRICTEST else min(found[field], value)
    return found


def _parsed(text: str) -> dict[str, Any]:
    kind, colon, limit = text.partition(":")
    try:
        if text == "exact":
            return {"rule": "exact"}
        if kind == "decimals" and colon:
            return {"digits": int(limit)}
        if kind == "close" and colon:
            return _tolerances(limit)
        if kind in _LIMITS and colon:
            return {_LIMITS[kind]: _finite(limit)}
    except ValueError:
        pass
    raise UsageError(f"--gate {text}: wanted {WANTED}")


def _tolerances(text: str) -> dict[str, float]:
    """ValueError for anything but atol=A, rtol=R or both."""
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name not in ("atol", "rtol") or name in found:
            raise ValueError(part)
        found[name] = _finite(value)
    return found


def _finite(text: str) -> float:
    """ValueError for NaN and infinity, too."""
    if not math.isfinite(number := float(text)):
        raise ValueError(text)
    return number

"""Parses `--gate KIND:LIMIT`, the common spelling of every gate, into fields of Options."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from qverify.closest_names import did_you_mean
from qverify.compare.criteria import MAX_DIGITS
from qverify.compare.roles import is_role_gate, parse_role_gate
from qverify.errors import UsageError

WANTED = f"decimals:N (0 to {MAX_DIGITS}), exact, close:atol=A,rtol=R (either may be left out), cosine:X, sqnr:DB, euclid:X, rmse:X, lsb:N, no-fallback, of a sequence tokens:topK, of a role OUTPUT.ROLE:METRIC>=LIMIT, or with --task task:METRIC>=LIMIT"
_LIMITS = {"cosine": "min_cosine", "sqnr": "min_sqnr_db", "euclid": "min_euclid", "rmse": "max_rmse", "lsb": "max_lsb"}
MAX_TOP = 1_000_000  # of tokens:topK
_LARGEST_IS_STRICTEST = ("digits", "min_cosine", "min_sqnr_db", "min_euclid")


def parse_gates(texts: Iterable[str]) -> dict[str, Any]:
    """Returns fields of Options with their values. All gates must pass, so if one kind is given twice, the strictest
    limit is kept. Raises UsageError for any other form, and if atol or rtol is given twice (neither tolerance need be
    the stricter one for all values)."""
    fields: dict[str, Any] = {}
    for text in texts:
        if is_role_gate(text):
            parse_role_gate(text)
            fields["role_gates"] = (*fields.get("role_gates", ()), text)
            continue
        if text.startswith("task:"):
            fields["task_gates"] = (*fields.get("task_gates", ()), text)
            continue
        for field, value in _parse(text).items():
            if field not in fields:
                fields[field] = value
            elif field in ("atol", "rtol"):
                raise UsageError(f"--gate {text}: {field} is given twice")
            elif field not in ("rule", "no_fallback"):
                strictest = max if field in _LARGEST_IS_STRICTEST else min
                fields[field] = strictest(fields[field], value)
    return fields


def _parse(text: str) -> dict[str, Any]:
    kind, colon, limit = text.partition(":")
    try:
        if text == "exact":
            return {"rule": "exact"}
        if text == "no-fallback":
            return {"no_fallback": True}
        if kind == "decimals" and colon:
            return {"digits": int(limit)}
        if kind == "tokens" and limit.startswith("top") and 1 <= int(limit[3:]) <= MAX_TOP:
            return {"tokens_top": int(limit[3:])}
        if kind == "close" and colon:
            return _parse_tolerances(limit)
        if kind in _LIMITS and colon:
            return {_LIMITS[kind]: _parse_finite(limit)}
    except ValueError:
        pass
    known = ("decimals", "exact", "close", "no-fallback", "tokens", *_LIMITS)
    meant = did_you_mean(kind, known) if kind not in known else ""
    raise UsageError(f"--gate {text}: wanted {WANTED}{meant}")


def _parse_tolerances(text: str) -> dict[str, float]:
    """Returns atol and rtol, as far as they are given. Raises ValueError for anything but atol=A, rtol=R or both."""
    tolerances: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name not in ("atol", "rtol") or name in tolerances:
            raise ValueError(part)
        tolerances[name] = _parse_finite(value)
    return tolerances


def _parse_finite(text: str) -> float:
    """Returns the number in the text. Raises ValueError if it is no finite number."""
    if not math.isfinite(number := float(text)):
        raise ValueError(text)
    return number

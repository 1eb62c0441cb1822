"""Renders `inputs diff` as lines and as `qverify.inputs_diff/1` (INPUTS.md section 6)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from qverify.inputs.difference import InputDifference, MistakeExplanation
from qverify.inputs.residual import Residual
from qverify.plural import count

SCHEMA = "qverify.inputs_diff/1"


def verdict(difference: InputDifference) -> str:
    """Returns the first line."""
    if difference.equal:
        return f"EQUAL: all {count(difference.size_bytes, 'byte')}"
    if difference.exact:
        return f"DIFFERENT: {difference.exact[0][0].said} reproduces all {difference.size_bytes} bytes"
    tried_text = f"none of the {difference.tried} tried" if difference.not_searched else "no known mistake"
    return f"DIFFERENT: {tried_text} reproduces them; {_describe_nearest(difference)}"


def _describe_nearest(difference: InputDifference) -> str:
    if difference.nearest is None:
        return f"nothing tried gives {count(difference.size_bytes, 'byte')}; the intended input has {difference.intended_bytes}"
    mistake, residual = difference.nearest
    if residual.first == {"plane": "padding"}:
        return f"only the padding differs: {mistake.said}, every valid element is equal"
    prefix = "nothing comes close; the nearest" if residual.unrelated else "nearest"
    return f"{prefix}: {mistake.said} (residual: {_describe_residual(residual, difference.size_bytes)})"


def _describe_residual(residual: Residual, size_bytes: int) -> str:
    first = " ".join(f"{k} {v}" for k, v in residual.first.items())
    differing = f"{round((1 - residual.equal) * size_bytes)} of {size_bytes} bytes differ"
    return f"mean {residual.mean_abs:.4g}, max {residual.max_abs:.4g}, {differing}, first at {first}"


def details(difference: InputDifference, fix: Callable[[MistakeExplanation], str]) -> list[str]:
    """Returns the lines below the first. fix: returns advice on a mistake, or ""."""
    lines = []
    for at, group in enumerate(difference.exact):
        if at:
            lines.append(f"equally exact on these bytes: {group[0].said}")
        lines += [f"equivalent for every picture: {mistake.said}" for mistake in group[1:]]
    if difference.exact and (advice := fix(difference.exact[0][0])):
        lines.append(f"fix: {advice}")
    if difference.size_bytes != difference.intended_bytes:
        lines.append(f"sizes: {difference.intended_bytes} bytes intended, {difference.size_bytes} captured")
    return lines + [f"not searched: {skipped}" for skipped in difference.not_searched]


def to_json(difference: InputDifference) -> dict[str, Any]:
    """Returns one frame of the document as plain values."""
    return {
        "verdict": "EQUAL" if difference.equal else "DIFFERENT",
        "size_bytes": difference.size_bytes,
        "intended_bytes": difference.intended_bytes,
        "exact": [[_list_causes(one) for one in group] for group in difference.exact],
        "nearest": None if difference.nearest is None else _add_residual(*difference.nearest),
        "tried": difference.tried,
        "not_searched": difference.not_searched,
    }


def _list_causes(mistake: MistakeExplanation) -> list[dict[str, str]]:
    return [asdict(cause) for cause in mistake.causes]


def _add_residual(one: MistakeExplanation, rest: Residual) -> dict[str, Any]:
    residual = asdict(rest)
    numbers = {k: v if math.isfinite(v) else str(v) for k, v in residual.items() if isinstance(v, float)}
    return {"causes": _list_causes(one), **residual, **numbers}

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


def verdict(found: InputDifference) -> str:
    """Returns the first line."""
    if found.equal:
        return f"EQUAL: all {count(found.size_bytes, 'byte')}"
    if found.exact:
        return f"DIFFERENT: {found.exact[0][0].said} reproduces all {found.size_bytes} bytes"
    none = f"none of the {found.tried} tried" if found.not_searched else "no known mistake"
    return f"DIFFERENT: {none} reproduces them; {_describe_nearest(found)}"


def _describe_nearest(found: InputDifference) -> str:
    if found.nearest is None:
        return f"nothing tried gives {count(found.size_bytes, 'byte')}; the intended input has {found.intended_bytes}"
    one, rest = found.nearest
    if rest.first == {"plane": "padding"}:
        return f"only the padding differs: {one.said}, every valid element is equal"
    near = "nothing comes close; the nearest" if rest.unrelated else "nearest"
    return f"{near}: {one.said} (residual: {_describe_residual(rest, found.size_bytes)})"


def _describe_residual(rest: Residual, size_bytes: int) -> str:
    first = " ".join(f"{k} {v}" for k, v in rest.first.items())
    differing = f"{round((1 - rest.equal) * size_bytes)} of {size_bytes} bytes differ"
    return f"mean {rest.mean_abs:.4g}, max {rest.max_abs:.4g}, {differing}, first at {first}"


def details(found: InputDifference, fix: Callable[[MistakeExplanation], str]) -> list[str]:
    """Returns the lines below the first."""
    lines = []
    for at, group in enumerate(found.exact):
        if at:
            lines.append(f"equally exact on these bytes: {group[0].said}")
        lines += [f"equivalent for every picture: {one.said}" for one in group[1:]]
    if found.exact and (advice := fix(found.exact[0][0])):
        lines.append(f"fix: {advice}")
    if found.size_bytes != found.intended_bytes:
        lines.append(f"sizes: {found.intended_bytes} bytes intended, {found.size_bytes} captured")
    return lines + [f"not searched: {what}" for what in found.not_searched]


def to_json(found: InputDifference) -> dict[str, Any]:
    """Returns one frame of the document as plain values."""
    return {
        "verdict": "EQUAL" if found.equal else "DIFFERENT",
        "size_bytes": found.size_bytes,
        "intended_bytes": found.intended_bytes,
        "exact": [[_list_causes(one) for one in group] for group in found.exact],
        "nearest": None if found.nearest is None else _add_residual(*found.nearest),
        "tried": found.tried,
        "not_searched": found.not_searched,
    }


def _list_causes(one: MistakeExplanation) -> list[dict[str, str]]:
    return [asdict(cause) for cause in one.causes]


def _add_residual(one: MistakeExplanation, rest: Residual) -> dict[str, Any]:
    residual = asdict(rest)
    numbers = {k: v if math.isfinite(v) else str(v) for k, v in residual.items() if isinstance(v, float)}
    return {"causes": _list_causes(one), **residual, **numbers}

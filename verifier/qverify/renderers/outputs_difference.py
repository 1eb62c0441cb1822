"""Renders `outputs diff` as lines and as `qverify.outputs_diff/1` (OUTPUTS.md section 5)."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from qverify.outputs.difference import ComparedPart, OutputDifference, OutputExplanation
from qverify.outputs.hypotheses import find_fix
from qverify.outputs.trial import Rest
from qverify.printable import printable
from qverify.report.outputs_document import SCHEMA, OutputCause, OutputNearest, OutputsDocument, OutputsPart

if TYPE_CHECKING:
    from qverify.decoders import Decoder


def is_equal(parts: list[ComparedPart]) -> bool:
    """Returns whether every part is equal, and there is one."""
    return bool(parts) and all(part.difference.equal for part in parts)


def render(parts: list[ComparedPart]) -> list[str]:
    """Returns the lines to print."""
    if len(parts) == 1:
        (only,) = parts
        return [
            printable(line) for line in [verdict(only.difference), *(f"  {line}" for line in details(only.difference))]
        ]
    differing = [p for p in parts if not p.difference.equal]
    lines = [
        f"EQUAL: all {len(parts)} outputs"
        if not differing
        else f"DIFFERENT: {len(differing)} of {len(parts)} outputs; {_common(differing)}"
    ]
    for part in differing:
        lines.append(f"{part.name}: {verdict(part.difference)}")
        lines += [f"  {line}" for line in details(part.difference)]
    return [printable(line) for line in lines]


def _common(differing: list[ComparedPart]) -> str:
    said = [{e.said for group in p.difference.exact for e in group} for p in differing]
    common = set.intersection(*said)
    if not common:
        return "each by its own mistake" if all(said) else "not every one is explained"
    first = next(e.said for group in differing[0].difference.exact for e in group if e.said in common)
    return f"{first} reproduces each"


def verdict(difference: OutputDifference) -> str:
    """Returns the first line."""
    if difference.equal:
        return f"EQUAL: all {difference.size}"
    if difference.exact:
        return f"DIFFERENT: {difference.exact[0][0].said} reproduces all {difference.size}"
    tried = f"none of the {difference.tried} tried" if difference.not_searched else "no known mistake"
    return f"DIFFERENT: {tried} reproduces them; {_describe_nearest(difference)}"


def _describe_nearest(difference: OutputDifference) -> str:
    if difference.near:
        return f"near, but not exactly: {difference.near}"
    if difference.nearest is None:
        return f"{difference.intended} intended, {difference.size} written"
    explanation, rest = difference.nearest
    what = "nearest" if rest.equal * 2 > rest.of else "nothing comes close; the nearest"
    return f"{what}: {explanation.said} ({describe_rest(rest)})"


def describe_rest(rest: Rest) -> str:
    """Returns what remains, in words."""
    every = rest.equal == rest.of == rest.ours and rest.largest > 0
    equal = "within the digits that were written" if every else "equal"
    text = f"{rest.equal} of {rest.of} {equal}, {rest.ours} made"
    if math.isfinite(rest.mean):
        text += f"; differences: mean {rest.mean:.4g}, largest {rest.largest:.4g}"
    if rest.quantiles:
        text += f", {', '.join(f'{q} % below {v:.4g}' for q, v in zip((50, 90, 99), rest.quantiles, strict=True))}"
    return text


def details(difference: OutputDifference) -> list[str]:
    """Returns the lines below the first."""
    lines = [f"equally exact: {e.said}" for group in difference.exact for e in group][1:]
    if difference.exact:
        lines += [f"change: {text}" for text in _list_fixes(difference.exact[0][0])]
    if difference.size != difference.intended:
        lines.append(f"sizes: {difference.intended} intended, {difference.size} written")
    return [
        *lines,
        *(f"note: {note}" for note in difference.notes),
        *(f"not searched: {s}" for s in difference.not_searched),
    ]


def _list_fixes(explanation: OutputExplanation) -> list[str]:
    return [text for text in dict.fromkeys(find_fix(c.family) for c in explanation.causes) if text]


def to_document(reference: str, device: str, decoder: Decoder | None, parts: list[ComparedPart]) -> dict[str, Any]:
    """Returns the document as plain values."""
    from qverify import __version__

    document = OutputsDocument(
        qverify=__version__,
        reference=reference,
        device=device,
        decoder="" if decoder is None else decoder.name,
        verdict="EQUAL" if is_equal(parts) else "DIFFERENT",
        parts=[_make_part(part.name, part.difference) for part in parts],
    )
    plain: dict[str, Any] = _finite(asdict(document))
    return {"schema": SCHEMA, **plain}


def _make_part(name: str, difference: OutputDifference) -> OutputsPart:
    nearest = difference.nearest
    return OutputsPart(
        output=name,
        verdict="EQUAL" if difference.equal else "DIFFERENT",
        size=difference.size,
        intended=difference.intended,
        exact=[[_list_causes(e) for e in group] for group in difference.exact],
        nearest=None if nearest is None else _make_nearest(*nearest),
        notes=[*difference.notes, *([difference.near] if difference.near else [])],
        tried=difference.tried,
        not_searched=difference.not_searched,
    )


def _make_nearest(explanation: OutputExplanation, rest: Rest) -> OutputNearest:
    values = asdict(rest) | {"quantiles": list(rest.quantiles)}
    return OutputNearest(causes=_list_causes(explanation), **values)


def _list_causes(explanation: OutputExplanation) -> list[OutputCause]:
    return [OutputCause(family=c.family, said=c.said, change=find_fix(c.family)) for c in explanation.causes]


def _finite(value: Any) -> Any:
    """Returns plain values with numbers that are not finite as text."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value

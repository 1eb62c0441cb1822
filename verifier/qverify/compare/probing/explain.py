"""What the probes of an op show: its form, or where it is not one arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from qverify.compare.identify.fit import FORMS, RecordedUnit, fit
from qverify.compare.probing.places import describe_places
from qverify.report.learned import LearnedOp

MOST = 3  # probes named


def fit_op(members: Sequence[RecordedUnit], names: dict[str, str]) -> LearnedOp:
    """Returns what the probes of one op show. names: of probes by their output. Functions of one element, which have the
    reference's form only, do not decide on changes of the quantization."""
    changes = [m for m in members if m.rounded.formulas]
    others = [m for m in members if not m.rounded.formulas]
    if not changes or not others:
        return _explain(fit(members)[0], members, names)
    first, second = _explain(fit(changes)[0], changes, names), _explain(fit(others)[0], others, names)
    both = replace(first, nodes=len(members), elements=first.elements + second.elements)
    if second.form:
        return both
    why = f"functions: {second.why}" + (f"; changes of the quantization: {first.form}" if first.form else "")
    return replace(both, form="", alike=(), decided=None, against="", nearest=second.nearest, why=why)


def _explain(op: LearnedOp, members: Sequence[RecordedUnit], names: dict[str, str]) -> LearnedOp:
    """Returns the op with the probes that show why it is not one arithmetic."""
    if op.form:
        return op
    parts = {names.get(m.output, m.unit.name): m.fitting for m in members if m.fitting} if op.parts else {}
    held = {form: [m for m in members if form in m.fitting] for form in FORMS}
    form = max(FORMS, key=lambda f: len(held[f]))
    if 2 * len(held[form]) < len(members):
        lost = [names.get(m.output, m.unit.name) for m in members if not m.fitting]
        more = f"; of {len(lost)} of {len(members)} probes no form gives every element, first {lost[0]}" if lost else ""
        return replace(op, parts=parts, why=f"{'not one arithmetic' if op.parts else 'no form of the catalogue'}{more}")
    shown = []
    for m in members:
        if m not in held[form]:
            shown.append(f"not {names.get(m.output, m.unit.name)} ({_where(m, form)})")
    more = f"; and {len(shown) - MOST} more" if len(shown) > MOST else ""
    why = f"not one arithmetic: {form} gives every element of {len(held[form])} of {len(members)} probes; "
    return replace(op, parts=parts, why=why + "; ".join(shown[:MOST]) + more)


def _where(member: RecordedUnit, form: str) -> str:
    try:
        return describe_places(member.compute(form) != member.recorded)
    except (KeyError, ValueError):
        return "its scales have no such form"

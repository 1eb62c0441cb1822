"""Learns the form of an op from its probes, or says where it is not one arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from qverify.arithmetic.forms import NAMES, Form
from qverify.compare.identify.fit import FORMS, RecordedUnit, fit, solve
from qverify.compare.identify.solve import neighbours
from qverify.compare.probing.contradictions import describe_contradiction, describe_few
from qverify.compare.probing.corners import find_corner
from qverify.compare.probing.places import describe_places
from qverify.model_bin.kinds_of_nodes import KINDS
from qverify.report.learned import LearnedOp

MOST = 3  # probes named
MOST_ALIKE = 24  # solved forms that are listed
NOT_ONE = "not one arithmetic"


def deciding(members: Sequence[RecordedUnit]) -> list[RecordedUnit]:
    """Returns the units that decide on the form of an op: those that have several forms and are no functions of one
    element, whose kernels say nothing of changes of the quantization."""
    return [m for m in members if _decides(m)]


def _decides(member: RecordedUnit) -> bool:
    return bool(member.rounded.formulas) and not KINDS["of a function"](member.unit.nodes[0], member.graph)


def left_forms(members: Sequence[RecordedUnit]) -> list[str]:
    """Returns the forms of the catalogue that give every element of all units that have several forms."""
    some = deciding(members)
    return [f for f in FORMS if all(f in m.fitting for m in some)] if some else []


def solved_forms(members: Sequence[RecordedUnit]) -> list[str]:
    """Returns the forms that are solved from all units that have several forms, the simplest first; [] if some of these
    are not sums of one scale."""
    triples = [m.fewest for m in deciding(members)]
    known = [t for t in triples if t is not None]
    return [str(f) for f in solve(known)] if len(known) == len(triples) else []


def neighbours_of(forms: Sequence[str], members: Sequence[RecordedUnit]) -> list[str]:
    """Returns neighbours of these forms that give every element, too."""
    some = deciding(members)
    made = dict.fromkeys(str(n) for f in forms for n in neighbours(Form.parse(f)))
    return [n for n in made if n not in forms and all(m.gives(n) for m in some)]


def fit_op(members: Sequence[RecordedUnit], names: Mapping[str, str]) -> LearnedOp:
    """Returns what the probes of one op show. names: of probes by their output. Functions of one element do not decide
    on changes of the quantization."""
    changes, others = deciding(members), [m for m in members if not _decides(m)]
    if not changes or not others:
        return _explain(fit(members, solving=False)[0], members, names)
    first, second = (
        _explain(fit(changes, solving=False)[0], changes, names),
        _explain(fit(others, solving=False)[0], others, names),
    )
    both = replace(first, nodes=len(members), elements=first.elements + second.elements)
    if second.form:
        return both
    why = f"functions: {second.why}" + (f"; changes of the quantization: {first.form}" if first.form else "")
    return replace(both, form="", alike=(), decided=None, against="", nearest=second.nearest, why=why)


def fit_solved(
    members: Sequence[RecordedUnit], forms: Sequence[str], held_out: int, names: Mapping[str, str]
) -> LearnedOp:
    """Returns the op with the first of these forms, which were solved and give every element. held_out: the number of
    elements that were asked after that."""
    others = [m for m in members if not _decides(m)]
    if others and not all(m.gives("ref-exact") for m in others):
        op = fit_op(members, names)
        return replace(op, why=f"{op.why}; changes of the quantization: {forms[0]}")
    op = fit(members, solving=False)[0]
    near = op.nearest
    decided, against = (near.elements, near.form) if near is not None else (None, "")
    return LearnedOp(
        op.op, forms[0], op.nodes, op.elements, decided, against, tuple(forms[1:MOST_ALIKE]), op.ties, held_out=held_out
    )  # fmt: skip


def explain_nodes(op: LearnedOp, members: Sequence[RecordedUnit]) -> LearnedOp:
    """Returns the op, and if a recording shows no form of it, where one form does not hold, or that its sums do not decide.
    A solved form of two roundings that has no short name is none if two forms of the catalogue, each in its part, explain as much. members: the
    recorded nodes of the op."""
    solved = Form.parse(op.form) if op.form and op.held_out is not None else None
    if not members or (op.form and (solved is None or op.form in NAMES or not (solved.before or solved.first))):
        return op
    corner = find_corner(members, solved=False)
    if corner is not None and (solved is None or corner.inside):
        why = f"{NOT_ONE}: {corner}; {_list(members, corner.form, {})}"
        return replace(op, form="", alike=(), decided=None, against="", held_out=None, why=why + _or_one(op))
    if solved is not None:
        return op
    shown = describe_contradiction(members) or describe_few(members)
    return replace(op, why=f"{op.why}; {shown}") if shown else op


def _or_one(op: LearnedOp) -> str:
    return f"; or one form: {op.form}" if op.form else ""


def _explain(op: LearnedOp, members: Sequence[RecordedUnit], names: Mapping[str, str]) -> LearnedOp:
    """Returns the op with the probes that show why it is not one arithmetic."""
    if op.form:
        return op
    parts = {names.get(m.output, m.unit.name): m.fitting for m in members if m.fitting} if op.parts else {}
    if (corner := find_corner(members, solved=False)) is not None:
        return replace(op, parts=parts, why=f"{NOT_ONE}: {corner}; {_list(members, corner.form, names)}")
    held = {form: [m for m in members if form in m.fitting] for form in FORMS}
    form = max(FORMS, key=lambda f: len(held[f]))
    if 2 * len(held[form]) >= len(members):
        but = f"of {len(held[form])} of {len(members)} probes"
        what = f"no form: {form} gives every element {but}, which may be one other form, or several"
        return replace(op, parts=parts, why=f"{what}; {_list(members, form, names)}")
    if (corner := find_corner(members, solved=True)) is not None:
        return replace(op, parts=parts, why=f"{NOT_ONE}: {corner}; {_list(members, corner.form, names)}")
    lost = [names.get(m.output, m.unit.name) for m in members if not m.fitting]
    more = f"of {len(lost)} of {len(members)} probes no form gives every element, first {lost[0]}" if lost else ""
    more = "; ".join(part for part in (more, describe_contradiction(members)) if part)
    return replace(op, parts=parts, why=f"{NOT_ONE if op.parts else 'no form'}{f'; {more}' if more else ''}")


def _list(members: Sequence[RecordedUnit], form: str, names: Mapping[str, str]) -> str:
    """Returns the probes of which a form does not give every element, and where it does not."""
    shown = [f"not {names.get(m.output, m.unit.name)} ({_where(m, form)})" for m in members if not m.gives(form)]
    more = f"; and {len(shown) - MOST} more" if len(shown) > MOST else ""
    return "; ".join(shown[:MOST]) + more


def _where(member: RecordedUnit, form: str) -> str:
    try:
        return describe_places(member.compute(form) != member.recorded)
    except (KeyError, ValueError):
        return "its scales have no such form"

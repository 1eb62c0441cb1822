"""Writes the pages of the shipped arithmetics: one for each, from its file, and a table of all."""

from __future__ import annotations

from pathlib import Path

from qverify.arithmetic.forms import EACH, REFERENCE, SUM_UP, Form
from qverify.compare.identify.arithmetic_file import read_arithmetic
from qverify.report.learned import Arithmetic, LearnedOp

from scripts.documents.blocks import ROOT

SHIPPED = ROOT / "verifier" / "qverify" / "arithmetics"
FOLDER = ROOT / "docs" / "reference" / "arithmetics"
NORMATIVE = "../../../verifier/ARITHMETICS.md"
MOST_ALIKE = 6
WRITTEN = "Written by `scripts/docs_output` from the shipped {}. A test compares it."


def every() -> dict[Path, str]:
    """Returns the current text of every page, by path."""
    shipped = [read_arithmetic(str(path)) for path in sorted(SHIPPED.glob("*.toml"))]
    pages = {FOLDER / f"{one.name}.md": page(one) for one in shipped}
    return {FOLDER / "index.md": overview(shipped), **pages}


def overview(shipped: list[Arithmetic]) -> str:
    """Returns the page with the forms of all ops under all arithmetics."""
    ops = dict.fromkeys(op for stem in _stems(shipped) for one in shipped for op in one.ops if _stem(op) == stem)
    lines = [
        "# Arithmetics of runtimes and chips",
        "",
        WRITTEN.format("files"),
        "",
        f"How the integer ops of each engine round, as qverify found it ([what the forms are]({NORMATIVE})). `--arithmetic NAME` in the main job, `compare`, `triage` and `compile` holds a board to one of them; [How a board rounds](../../how-to/arithmetic.md) shows how to learn another. [Vectors](../../../vectors/README.md) test a kernel against one.",
        "",
        "| name | engine |",
        "|---|---|",
        *(f"| [{one.name}]({one.name}.md) | {_cell(one.engine)} |" for one in shipped),
        "",
        "A row for a kind of nodes (`conv, of uint8`) states the nodes of that kind; the row of the op itself states the others. Empty: no node of it was asked, or the row of the op states it.",
        "",
        f"| op | {' | '.join(one.name for one in shipped)} |",
        f"|---|{'---|' * len(shipped)}",
        *(f"| {op} | {' | '.join(_short(one.ops.get(op)) for one in shipped)} |" for op in ops),
        "",
    ]
    return "\n".join(lines)


def page(one: Arithmetic) -> str:
    """Returns the page of an arithmetic."""
    known, unknown = [o for o in one.ops.values() if o.form], [o for o in one.ops.values() if not o.form]
    lines = [
        f"# {one.name}",
        "",
        WRITTEN.format(f"`{one.name}.toml`"),
        "",
        f"- Engine: {_cell(one.engine) or 'not stated'}",
        *(f"- Learned on {key} {_cell(version)}" for key, version in one.learned_on.items()),
        f"- Learned by `{one.learned}`" if one.learned else "- The command that learned it is not stated",
        f"- Use: `--arithmetic {one.name}`; vectors for kernels: `vectors/{one.name}.json` ([how](../../../vectors/README.md))",
        "",
        f"Every form gives every element of all nodes that were asked ([rules]({NORMATIVE})). Decided: how many elements contradict the nearest other form.",
        "",
        "| op | form | computed | nodes | elements | decided | against | the same bytes on these nodes |",
        "|---|---|---|---|---|---|---|---|",
        *(_row(op) for op in known),
        "",
    ]
    if unknown:
        lines += [
            "## Unknown",
            "",
            "An op without a form is computed as the reference does, and is judged as of a board whose arithmetic is not known.",
            "",
            "| op | nodes | elements | nearest | elements that it does not give | why |",
            "|---|---|---|---|---|---|",
            *(_unknown(op) for op in unknown),
            "",
        ]
    return "\n".join(lines)


def _row(op: LearnedOp) -> str:
    decided, against = ("", "") if op.decided is None else (str(op.decided), _cell(op.against))
    more = len(op.alike) - MOST_ALIKE
    alike = "; ".join(op.alike[:MOST_ALIKE]) + (f" and {more} more" if more > 0 else "")
    note = f" ({op.why})" if op.why else ""
    cells = (op.op, op.form + note, words_of(op.form), op.nodes, op.elements, decided, against, alike)
    return f"| {' | '.join(_cell(str(c)) for c in cells)} |"


def _unknown(op: LearnedOp) -> str:
    near = op.nearest
    apart = "; ".join(f"{node}: {', '.join(forms)}" for node, forms in op.parts.items())
    why = f"{op.why}: {apart}" if apart else op.why
    left = f"{near.elements} of {near.of}" if near else ""
    cells = (op.op, op.nodes, op.elements, near.form if near else "", left, why)
    return f"| {' | '.join(_cell(str(c)) for c in cells)} |"


def words_of(text: str) -> str:
    """Returns what a form computes from a sum and its scale S, step by step."""
    form = Form.parse(text)
    if form.rounding == REFERENCE:
        return "as the reference (NUMERICS.md)"
    if form.method:
        return f"{form.method}; last step {form.rounding}"
    steps = [f"S in float32 ({form.scales})"] if form.scales else []
    if form.operands == EACH:
        steps.append("each operand is scaled alone, then the sum")
    if form.is_exact:
        steps.append("exact sum * S")
    elif form.bits == 1:
        steps.append("sum * the power of two next to S")
    elif form.fraction:
        steps.append(f"sum * round(S * 2^{form.fraction})")
    else:
        steps.append(f"sum * M, M of {form.bits} bits" + (", rounded down" if form.cut else ""))
    if form.before:
        steps.insert(-1, f"sum shifted until {form.before[0]} fraction bits are left ({form.before[1]})")
    if form.first:
        steps.append(f"shifted by {form.first[0]} ({form.first[1]})")
    last = "half up" if form.operands == SUM_UP else form.rounding
    steps.append(f"{'zero point added, then ' if form.zero_inside else ''}rounded {last}")
    return "; ".join(steps)


def _stems(shipped: list[Arithmetic]) -> list[str]:
    return list(dict.fromkeys(_stem(op) for one in shipped for op in one.ops))


def _stem(op: str) -> str:
    return op.partition(", ")[0]


def _short(op: LearnedOp | None) -> str:
    if op is None:
        return ""
    return _cell(op.form) if op.form else "unknown"


def _cell(text: str) -> str:
    """Returns a text for a cell of a table."""
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())

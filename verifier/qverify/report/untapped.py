"""Describes how taps change the outputs of a board (`untapped` of a pair)."""

from __future__ import annotations

from collections.abc import Sequence

from qverify.plural import count
from qverify.report.document import Pair, UntappedOutputs

QUESTION = "taps changed the outputs"


def describe_untapped(outcome: UntappedOutputs) -> str:
    """Returns the answer of one run."""
    return _describe([outcome])


def untapped_lines(pairs: Sequence[Pair]) -> list[str]:
    """Returns the line on all runs of these pairs; [] if none had taps."""
    runs = {(p.board, p.frame): p.untapped for p in pairs if p.untapped is not None}
    return [_describe(list(runs.values()))] if runs else []


def _describe(runs: list[UntappedOutputs]) -> str:
    known = [r for r in runs if r.changed is not None]
    changed = [r for r in known if r.changed]
    text = "no" if known else "not known"
    if changed:
        text = f"yes ({sum(r.changed or 0 for r in changed)} of {sum(r.elements for r in changed)})"
        text += f" in {len(changed)} of {count(len(runs), 'run')}" if len(runs) > 1 else ""
        begins = dict.fromkeys(t for r in changed if (t := _describe_beginning(r)))
        text += f", {'; '.join(begins)}" if begins else ""
    unknown = next((r for r in runs if r.changed is None), None)
    if unknown is not None:
        text += f", not known in {count(len(runs) - len(known), 'run')}" if known else ""
        text += f": {unknown.why}"
    return f"{QUESTION}: {text}"


def _describe_beginning(outcome: UntappedOutputs) -> str:
    """Returns at which optimization level, and by which optimizers, the outputs begin to differ; "" if not known."""
    if not outcome.level:
        return ""
    if outcome.level == "disable_all":
        return "without any optimization, too: the floats of the QDQ form round apart from the integer form that ran with taps"
    by = f", by {', '.join(outcome.optimizers)}" if outcome.optimizers else ""
    return f"with level=disable_all they agree, from level {outcome.level} on they do not{by}"

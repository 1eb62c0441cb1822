"""Renders what a report knows of its pairs, as lines: facts that are equal for several pairs, outputs or tensors are one
line."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from qverify.plural import count
from qverify.renderers import verdict_lines
from qverify.renderers.blamed import also
from qverify.renderers.tensor_table import name_pair
from qverify.report import weakenings
from qverify.report.document import Pair
from qverify.report.side_names import within

SHOWN = 10  # names of a long list


def describe(pairs: list[Pair], verbose: bool) -> list[str]:
    """Returns a line for each fact, each naming the pairs that it is true of."""
    facts: list[Callable[[Pair], Iterable[str]]] = [_describe_coverage, _list_missing, _describe_first]
    facts += [_list_not_judged, _list_notes, _describe_cause]
    if verbose:
        facts.insert(3, _describe_digits)
    return [line for fact in facts for line in _join_equal(pairs, fact)] + _list_agreements(pairs)


def _join_equal(pairs: list[Pair], fact: Callable[[Pair], Iterable[str]]) -> list[str]:
    who = dict[str, list[str]]()
    for pair in pairs:
        for text in fact(pair):
            who.setdefault(text, []).append(name_pair(pair))
    return [f"{', '.join(dict.fromkeys(names))}: {text}" for text, names in who.items()]


def _describe_coverage(pair: Pair) -> Iterable[str]:
    ledger = pair.coverage
    if pair.cause == "does_not_run" and not ledger.compared:
        yield f"nothing compared: {verdict_lines.which_side(pair)}"  # the verdict line has the reason
        return
    digests = f" ({ledger.by_digest} of them by digest)" if ledger.by_digest else ""
    not_offered = f", {len(ledger.not_offered)} not offered" if ledger.not_offered else ""
    yield (
        f"{ledger.compared} of {count(ledger.expected, 'tensor')}, {count(ledger.elements, 'element')} compared{digests}, "
        f"{len(ledger.missing)} missing{not_offered}; {describe_equality(pair)}; "
        f"gate: {pair.gate}; scope: {pair.scope}"
    )


def _list_missing(pair: Pair) -> Iterable[str]:
    groups = dict[tuple[str, str], list[str]]()
    for one in pair.coverage.missing:
        groups.setdefault((one.side, one.why), []).append(one.tensor)
    reasons = list(groups.items())
    for (side, why), names in reasons[:SHOWN]:
        yield f"missing: {_list_names(names)} {within(side)}: {why}"
    if rest := sum(len(names) for _, names in reasons[SHOWN:]):
        yield f"missing: {rest} more"


def _list_names(names: list[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def _describe_first(pair: Pair) -> Iterable[str]:
    if (first := pair.first_divergence) is not None:
        yield f"first divergence: {first.tensor} ({first.op}){also(first.also)}"


def _describe_digits(pair: Pair) -> Iterable[str]:
    digits = [d for r in pair.tensors if isinstance(d := r.metrics.get("matching_digits"), int)]
    if digits:
        yield f"would still pass at {count(min(digits), 'decimal')} (-c {min(digits)})"


def _list_not_judged(pair: Pair) -> Iterable[str]:
    for one in pair.not_judged[:SHOWN]:
        yield weakenings.describe_not_judged([one])


def _list_notes(pair: Pair) -> Iterable[str]:
    yield from pair.notes


def _describe_cause(pair: Pair) -> Iterable[str]:
    if pair.cause in verdict_lines.CAUSES and pair.cause != "unlocated" and pair.verdict == "FAILED":
        yield verdict_lines.CAUSES[pair.cause]


def _list_agreements(pairs: list[Pair]) -> list[str]:
    """Returns the lines on the largest values of the outputs; what is the same for every output of every pair is one."""
    groups = dict[str, list[tuple[str, str]]]()
    for pair in pairs:
        for one in pair.agreement:
            if one.arg_max is not None:
                groups.setdefault(_describe_agreement(one.arg_max, one.top5), []).append((one.output, name_pair(pair)))
    return [f"{_name_outputs(who, groups)}: {text}" for text, who in groups.items()]


def _describe_agreement(arg_max: float, top5: float | None) -> str:
    text = f"arg-max agrees in {arg_max:.0%} of the items"
    return text if top5 is None else f"{text}, top-5 in {top5:.0%}"


def _name_outputs(who: list[tuple[str, str]], groups: dict[str, list[tuple[str, str]]]) -> str:
    outputs, pairs = list(dict.fromkeys(o for o, _ in who)), list(dict.fromkeys(p for _, p in who))
    every = len(groups) == 1 and len(who) == len(outputs) * len(pairs)
    if every:
        return outputs[0] if len(outputs) == 1 else f"all {len(outputs)} outputs"
    by_output = {o: [p for name, p in who if name == o] for o in outputs}
    return _list_names([f"{o} ({', '.join(names)})" for o, names in by_output.items()])


def describe_equality(pair: Pair) -> str:
    """Returns whether the bytes are the same, as far as they were compared."""
    if not pair.bit_equal:
        return "not bit-equal"
    return "bit-equal, as far as compared" if pair.coverage.missing else "bit-equal"

"""Renders the facts of pairs as lines. A fact that applies to several pairs, outputs or tensors is one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from qverify.plural import count
from qverify.renderers import verdict_lines
from qverify.renderers.blamed import list_others
from qverify.renderers.tensor_table import name_pair
from qverify.report import weakenings
from qverify.report.channels import describe_worst_channels
from qverify.report.document import Pair, TensorRow
from qverify.report.side_names import named, within

MAX_SHOWN = 10  # names of a long list
FAR_DB = 60.0  # signal to noise ratio below which the channels of an output that passes are named
MAX_CHANNEL_LINES = 3  # tensors of a pair whose worst channels are named


def describe(pairs: list[Pair], verbose: bool) -> list[str]:
    """Returns a line for each fact, which names the pairs that it applies to."""
    facts: list[Callable[[Pair], Iterable[str]]] = [
        _describe_coverage,
        _list_missing,
        _describe_first,
        _describe_channels,
    ]
    facts += [_list_not_judged, _list_notes, _describe_cause]
    if verbose:
        facts.insert(4, _describe_digits)
    return [line for fact in facts for line in _join_equal(pairs, fact)] + _list_agreements(pairs)


def _join_equal(pairs: list[Pair], fact: Callable[[Pair], Iterable[str]]) -> list[str]:
    pairs_by_text = dict[str, list[str]]()
    for pair in pairs:
        for text in fact(pair):
            pairs_by_text.setdefault(text, []).append(name_pair(pair))
    return [f"{', '.join(dict.fromkeys(names))}: {text}" for text, names in pairs_by_text.items()]


def _describe_coverage(pair: Pair) -> Iterable[str]:
    ledger = pair.coverage
    if pair.cause == "does_not_run" and not ledger.compared:
        yield f"nothing compared: {verdict_lines.shorten_reason(pair)}"  # the verdict line has the reason
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
    for missing in pair.coverage.missing:
        groups.setdefault((missing.side, missing.why), []).append(missing.tensor)
    reasons = list(groups.items())
    for (side, why), names in reasons[:MAX_SHOWN]:
        yield f"missing: {_list_names(names)} {within(side)}: {why}"
    if unlisted := sum(len(names) for _, names in reasons[MAX_SHOWN:]):
        yield f"missing: {unlisted} more"


def _list_names(names: list[str]) -> str:
    more = len(names) - MAX_SHOWN
    return ", ".join(names[:MAX_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _describe_first(pair: Pair) -> Iterable[str]:
    if (first := pair.first_divergence) is not None:
        yield f"first divergence: {first.tensor} ({first.what}){list_others(first.also)}"
    for region, limit in _list_regions(pair).items():
        yield f"recomputed as one: {region}; limit {limit}"


def _describe_channels(pair: Pair) -> Iterable[str]:
    """Yields the worst channels of the outputs and of tensors that did not pass, as far as few have most of the error."""
    rows = [r for r in pair.tensors if r.channels is not None and (r.verdict != "PASSED" or (r.final and _is_far(r)))]
    said = [(r.name, text) for r in rows if r.channels is not None and (text := describe_worst_channels(r.channels))]
    for name, text in said[:MAX_CHANNEL_LINES]:
        yield f"{name}: {text}"
    if len(said) > MAX_CHANNEL_LINES:
        yield f"{count(len(said) - MAX_CHANNEL_LINES, 'more tensor')} with few channels to name"


def _is_far(row: TensorRow) -> bool:
    """Returns whether a tensor that passes differs by more than roundings do."""
    ratio = row.metrics.get("sqnr_db")
    return isinstance(ratio, (int, float)) and ratio < FAR_DB


def _list_regions(pair: Pair) -> dict[str, str]:
    """Returns the limits of the regions that pass although they differ, by the region in words, at most MAX_SHOWN."""
    regions = [r.forced for r in pair.tensors if r.forced is not None and r.forced.region is not None]
    passing = {f.region.place: f.limit for f in regions if f.region and f.verdict == "PASSED" and f.mismatched}
    return dict(list(passing.items())[:MAX_SHOWN])


def _describe_digits(pair: Pair) -> Iterable[str]:
    digits = [d for r in pair.tensors if isinstance(d := r.metrics.get("matching_digits"), int)]
    if digits and min(digits) >= 0:  # -c takes no negative number
        yield f"would still pass at {count(min(digits), 'decimal')} (-c {min(digits)})"


def _list_not_judged(pair: Pair) -> Iterable[str]:
    for tensor in pair.not_judged[:MAX_SHOWN]:
        yield weakenings.describe_not_judged([tensor])


def _list_notes(pair: Pair) -> Iterable[str]:
    yield from pair.notes


def _describe_cause(pair: Pair) -> Iterable[str]:
    if pair.cause in verdict_lines.CAUSES and pair.cause != "unlocated" and pair.verdict == "FAILED":
        yield verdict_lines.CAUSES[pair.cause].replace("the board", named(pair.b))


def _list_agreements(pairs: list[Pair]) -> list[str]:
    """Returns lines on the agreement of the largest values; outputs and pairs with equal agreement share a line."""
    groups = dict[str, list[tuple[str, str]]]()
    for pair in pairs:
        for agreement in pair.agreement:
            if agreement.arg_max is not None:
                groups.setdefault(_describe_agreement(agreement.arg_max, agreement.top5), []).append(
                    (agreement.output, name_pair(pair))
                )
    return [f"{_name_outputs(places, groups)}: {text}" for text, places in groups.items()]


def _describe_agreement(arg_max: float, top5: float | None) -> str:
    text = f"arg-max agrees in {arg_max:.0%} of the items"
    return text if top5 is None else f"{text}, top-5 in {top5:.0%}"


def _name_outputs(places: list[tuple[str, str]], groups: dict[str, list[tuple[str, str]]]) -> str:
    outputs, pairs = list(dict.fromkeys(o for o, _ in places)), list(dict.fromkeys(p for _, p in places))
    is_everywhere = len(groups) == 1 and len(places) == len(outputs) * len(pairs)
    if is_everywhere:
        return outputs[0] if len(outputs) == 1 else f"all {len(outputs)} outputs"
    by_output = {o: [p for name, p in places if name == o] for o in outputs}
    return _list_names([f"{o} ({', '.join(names)})" for o, names in by_output.items()])


def describe_equality(pair: Pair) -> str:
    """Returns in words whether the compared bytes are equal."""
    if not pair.bit_equal:
        return "not bit-equal"
    return "bit-equal, as far as compared" if pair.coverage.missing else "bit-equal"

"""Compares two reports: which facts became better or worse, and which changes are not known."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from qverify.plural import count
from qverify.report.difference import (
    BlameChange,
    Change,
    Direction,
    MetricChange,
    OnlyInOne,
    PairChange,
    ReportDifference,
    RunFacts,
    TensorChange,
    TimeChange,
)
from qverify.report.document import Metric, Pair, ReportDocument, TensorRow, Verdict
from qverify.report.stack import describe_stack, list_fact_changes, list_fallbacks

BETTER_SIGN = {  # +1 if a larger value is better, -1 if a smaller one is
    "max_abs": -1,
    "max_lsb": -1,
    "mismatched": -1,
    "failing": -1,
    "rmse": -1,
    "cosine": 1,
    "sqnr_db": 1,
    "matching_digits": 1,
}
RANK = {"PASSED": 0, "INCONCLUSIVE": 1, "FAILED": 2}
Key = tuple[str, str, int, str | None, int]  # sides, frame, board, and a counter for pairs that are equal in these
DERIVED = (
    "norm_ratio",
    "centred_sqnr_db",
    "euclidean_similarity",
    "kl_divergence",
    "max_ulp",
)  # the other metrics say what changed, and if it is better


def compare_reports(a: ReportDocument, b: ReportDocument, source_a: str, source_b: str) -> ReportDifference:
    """Returns the changes from a to b. Pairs are matched by sides, frame and board, tensors by name. Boards are matched
    by address; if each run has one board only, the two are matched whatever their addresses are."""
    if all(len({pair.board for pair in r.pairs if pair.board}) < 2 for r in (a, b)):
        a, b = _without_board(a), _without_board(b)
    pairs = list(_pair_changes(a, b))
    facts = list_fact_changes(describe_stack(a), describe_stack(b))
    difference = ReportDifference(
        change="same",
        why="",
        a=_run(a, source_a),
        b=_run(b, source_b),
        pairs=pairs,
        blame=list(_blame_changes(a, b)),
        times=list(_times(a, b)),
        facts=facts,
    )
    before, now = _by_key(a), _by_key(b)
    for key in dict.fromkeys([*before, *now]):
        _add_tensors(difference, before.get(key), now.get(key))
    difference.change, difference.why = _judge(a, b, difference)
    difference.caveats = _caveats(difference)
    if pairs_without_rows := sum(map(_rows_left_out, [*before.values(), *now.values()])):
        difference.caveats.append(f"the reports lack the tensors of {count(pairs_without_rows, 'pair')}")
    return difference


def _run(report: ReportDocument, source: str) -> RunFacts:
    rows = sum(len(pair.tensors) for pair in report.pairs)
    return RunFacts(source, report.verdict, report.qverify, report.date, rows)


def _without_board(report: ReportDocument) -> ReportDocument:
    return replace(report, pairs=[replace(pair, board=None) for pair in report.pairs])


def _by_key(report: ReportDocument) -> dict[Key, Pair]:
    """Returns the pairs by key. A board that was given twice has two pairs for one frame."""
    pairs: dict[Key, Pair] = {}
    for pair in report.pairs:
        number = 0
        while (key := (pair.a, pair.b, pair.frame, pair.board, number)) in pairs:
            number += 1
        pairs[key] = pair
    return pairs


def step(before: Verdict | None, now: Verdict | None) -> Change:
    """Returns how the verdict changed. From FAILED to INCONCLUSIVE is "not known", since it was not seen to pass."""
    if before is None or now is None:
        return "not known" if now is None else "same" if now == "PASSED" else "worse"
    if before == now:
        return "same"
    if RANK[now] > RANK[before]:
        return "worse"
    return "better" if now == "PASSED" else "not known"


def _pair_changes(a: ReportDocument, b: ReportDocument) -> Iterator[PairChange]:
    before, now = _by_key(a), _by_key(b)
    for key in dict.fromkeys([*before, *now]):
        old, new = before.get(key), now.get(key)
        verdicts = old.verdict if old else None, new.verdict if new else None
        change, fewer = step(*verdicts), _describe_fewer(old, new)
        change = "not known" if change == "better" and fewer else change
        reasons = _reason(old), "; ".join(text for text in (_reason(new), fewer) if text)
        yield PairChange(_sides_text(key), key[2], key[3], *verdicts, change, *reasons)


def _describe_fewer(old: Pair | None, new: Pair | None) -> str:
    """Returns how many tensors are compared now, if fewer than before; else ""."""
    before, now = (pair.coverage.compared if pair is not None else 0 for pair in (old, new))
    return f"{count(now, 'tensor')} compared, {before} before" if new is not None and now < before else ""


def _sides_text(key: Key) -> str:
    return f"{key[0]}~{key[1]}"


def _reason(pair: Pair | None) -> str:
    return "" if pair is None else ": ".join(text for text in (pair.cause or "", pair.why) if text)


def _judge(a: ReportDocument, b: ReportDocument, difference: ReportDifference) -> tuple[Change, str]:
    """Returns how the whole run changed, and the reason if it is worse or not known."""
    worse = [p for p in difference.pairs if p.change == "worse"]
    if worse or step(a.verdict, b.verdict) == "worse":
        transitions = ", ".join(_transition(p) for p in worse[:3])
        return "worse", transitions or f"the run was {a.verdict}, now {b.verdict}"
    if fallen := _new_fallbacks(a, b):
        return "worse", f"{', '.join(fallen[:3])}{' ...' if len(fallen) > 3 else ''} fell back, and did not before"
    gone = [p for p in difference.pairs if p.now is None]
    if gone:
        return "not known", f"{gone[0].pair} is not in b"
    if not difference.compared:
        return "not known", "no tensor is in both runs"
    unknown = [p for p in difference.pairs if p.change == "not known"]
    if unknown or step(a.verdict, b.verdict) == "not known":
        return "not known", _transition(unknown[0]) if unknown else f"the run was {a.verdict}, now {b.verdict}"
    better = any(p.change == "better" for p in difference.pairs) or a.verdict != b.verdict
    return "better" if better else "same", ""


def _new_fallbacks(a: ReportDocument, b: ReportDocument) -> list[str]:
    """Returns the nodes that fell back in b, of sides that say in both runs where their nodes ran, and not in a."""
    before, now = list_fallbacks(a), list_fallbacks(b)
    return [
        f"{node} of {side}" for side in before.keys() & now.keys() for node in now[side] if node not in before[side]
    ]


def _transition(pair: PairChange) -> str:
    place = f"{pair.pair}{f' frame {pair.frame}' if pair.frame else ''}"
    fewer = f" ({pair.why_now})" if pair.now == "PASSED" and pair.why_now else ""
    return f"{place} was {pair.before or 'absent'}, now {pair.now}{fewer}"


def _blame_changes(a: ReportDocument, b: ReportDocument) -> Iterator[BlameChange]:
    before, now = ({blame.side: blame.node for blame in reversed(r.blamed or _blamed(r))} for r in (a, b))
    for side in dict.fromkeys([*before, *now]):
        if before.get(side) != now.get(side):
            yield BlameChange(side, before.get(side), now.get(side))


def _blamed(report: ReportDocument) -> list[Any]:
    return [report.blame] if report.blame is not None else []


def _add_tensors(difference: ReportDifference, old: Pair | None, new: Pair | None) -> None:
    """Adds the changes of every tensor of a pair to the difference."""
    if _rows_left_out(old) or _rows_left_out(new):
        return
    pair = old or new
    assert pair is not None
    sides, place = f"{pair.a}~{pair.b}", (pair.frame, pair.board)
    before = {row.name: row for row in old.tensors} if old else {}
    now = {row.name: row for row in new.tensors} if new else {}
    for name in dict.fromkeys([*before, *now]):
        if name not in now:
            difference.only.append(OnlyInOne("a", sides, *place, name, before[name].verdict))
        elif name not in before:
            difference.only.append(OnlyInOne("b", sides, *place, name, now[name].verdict))
        else:
            difference.compared += 1
            row, metrics = now[name], list(_metric_changes(before[name], now[name]))
            verdicts = before[name].verdict, row.verdict
            if not metrics and verdicts[0] == verdicts[1]:
                difference.equal += 1
                continue
            direction = _direction(*verdicts, metrics)
            difference.tensors.append(
                TensorChange(sides, *place, name, row.node, row.op, *verdicts, direction, metrics)
            )


def _rows_left_out(pair: Pair | None) -> bool:
    """Returns True if tensors were compared, but the report does not contain their rows. Of many frames, only the worst
    ones have rows."""
    return pair is not None and not pair.tensors and pair.coverage.compared > 0


def _direction(before: Verdict, now: Verdict, metrics: list[MetricChange]) -> Direction:
    if before != now:
        return "worse" if RANK[now] > RANK[before] else "better" if now == "PASSED" else "other"
    ways = {m.direction for m in metrics} - {"other"}
    return ways.pop() if len(ways) == 1 else "other"


def _metric_changes(old: TensorRow, new: TensorRow) -> Iterator[MetricChange]:
    before, now = (
        {n: v for n, v in (row.metrics | {"failing": row.failing}).items() if n not in DERIVED} for row in (old, new)
    )
    for name in sorted({*before, *now}):
        a, b = before.get(name), now.get(name)
        if isinstance(a, dict) or isinstance(b, dict) or _same(a, b):
            continue
        yield MetricChange(name, a, b, _metric_direction(name, a, b))


def _same(a: Metric, b: Metric) -> bool:
    return a == b or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))


def _metric_direction(name: str, a: Metric, b: Metric) -> Direction:
    """Returns the direction from a to b; `other` if the metric has no direction, or if a number is missing or NaN."""
    if name == "matching_digits":  # null: equal, at every number of digits
        a, b = (math.inf if value is None else value for value in (a, b))
    if name not in BETTER_SIGN or not isinstance(a, (int, float)) or not isinstance(b, (int, float)):
        return "other"
    if math.isnan(a) or math.isnan(b):
        return "worse" if math.isnan(b) else "other"
    return "better" if (b > a) == (BETTER_SIGN[name] > 0) else "worse"


def _times(a: ReportDocument, b: ReportDocument) -> Iterator[TimeChange]:
    for of, before, now in (("node", _node_seconds(a), _node_seconds(b)), ("step", a.timings, b.timings)):
        for name in dict.fromkeys([*before, *now]):
            yield TimeChange("node" if of == "node" else "step", name, before.get(name), now.get(name))


def _node_seconds(report: ReportDocument) -> dict[str, float]:
    """Returns the seconds that each node took, summed over frames and boards."""
    seconds: dict[str, float] = {}
    for side in report.sides:
        for name, duration in (side.get("node_seconds") or {}).items():
            seconds[name] = seconds.get(name, 0.0) + duration
    return seconds


def _caveats(difference: ReportDifference) -> list[str]:
    """Returns facts that make the two runs hard to compare, in words."""
    texts = {
        "model ": "other models",
        "input ": "other inputs",
        "decimals ": "other decimals",
        "criteria": "other criteria",
    }
    texts |= {"every node judged": "other tensors judged"}
    caveats = [text for start, text in texts.items() if any(f.what.startswith(start) for f in difference.facts)]
    if any(f.what.endswith((" gate", " scope", " relaxed")) for f in difference.facts):
        caveats.append("other gates or scope")
    only_in_a = sum(tensor.run == "a" for tensor in difference.only)
    return [*caveats, *([f"{count(only_in_a, 'tensor')} of a not compared in b"] if only_in_a else [])]

"""Compares two reports: what became better, what worse, what cannot be said."""

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
    FactChange,
    MetricChange,
    OnlyInOne,
    PairChange,
    ReportDifference,
    RunFacts,
    TensorChange,
    TimeChange,
)
from qverify.report.document import Metric, Pair, Report, TensorRow, Verdict

BETTER = {  # which way is better: +1 more, -1 less
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
DRAWN = ("spot_seed", "uri")  # settings that are drawn anew in each run, or said elsewhere
Key = tuple[str, str, int, str | None, int]  # the sides, frame, board, and the how-manieth of these


def compare_reports(a: Report, b: Report, source_a: str, source_b: str) -> ReportDifference:
    """Returns what changed from a to b. Pairs are matched by sides, frame and board, tensors by name. A board is matched by its
    address; where each run has a single board, the two are taken as one, whatever their addresses."""
    if all(len({pair.board for pair in r.pairs if pair.board}) < 2 for r in (a, b)):
        a, b = _without_board(a), _without_board(b)
    pairs = list(_pair_changes(a, b))
    facts = list(_fact_changes(a, b))
    found = ReportDifference(
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
        _add_tensors(found, before.get(key), now.get(key))
    found.change, found.why = _judge(a, b, found)
    found.caveats = _caveats(found)
    if left := sum(map(_left_out, [*before.values(), *now.values()])):
        found.caveats.append(f"the reports lack the tensors of {count(left, 'pair')}")
    return found


def _run(report: Report, source: str) -> RunFacts:
    rows = sum(len(pair.tensors) for pair in report.pairs)
    return RunFacts(source, report.verdict, report.qverify, report.date, rows)


def _without_board(report: Report) -> Report:
    return replace(report, pairs=[replace(pair, board=None) for pair in report.pairs])


def _by_key(report: Report) -> dict[Key, Pair]:
    """Returns the pairs; a board that was given twice has two of one frame."""
    pairs: dict[Key, Pair] = {}
    for pair in report.pairs:
        number = 0
        while (key := (pair.a, pair.b, pair.frame, pair.board, number)) in pairs:
            number += 1
        pairs[key] = pair
    return pairs


def step(before: Verdict | None, now: Verdict | None) -> Change:
    """Returns how the verdict changed. FAILED to INCONCLUSIVE is not known: nobody saw it pass."""
    if before is None or now is None:
        return "not known" if now is None else "same" if now == "PASSED" else "worse"
    if before == now:
        return "same"
    if RANK[now] > RANK[before]:
        return "worse"
    return "better" if now == "PASSED" else "not known"


def _pair_changes(a: Report, b: Report) -> Iterator[PairChange]:
    before, now = _by_key(a), _by_key(b)
    for key in dict.fromkeys([*before, *now]):
        old, new = before.get(key), now.get(key)
        verdicts = old.verdict if old else None, new.verdict if new else None
        yield PairChange(_said(key), key[2], key[3], *verdicts, step(*verdicts), _reason(old), _reason(new))


def _said(key: Key) -> str:
    return f"{key[0]}~{key[1]}"


def _reason(pair: Pair | None) -> str:
    return "" if pair is None else ": ".join(text for text in (pair.cause or "", pair.why) if text)


def _judge(a: Report, b: Report, found: ReportDifference) -> tuple[Change, str]:
    """Returns how the whole changed, and why where it is worse or not known."""
    worse = [p for p in found.pairs if p.change == "worse"]
    if worse or step(a.verdict, b.verdict) == "worse":
        named = ", ".join(_transition(p) for p in worse[:3])
        return "worse", named or f"the run was {a.verdict}, now {b.verdict}"
    gone = [p for p in found.pairs if p.now is None]
    if gone:
        return "not known", f"{gone[0].pair} is not in b"
    if not found.compared:
        return "not known", "no tensor is in both runs"
    unknown = [p for p in found.pairs if p.change == "not known"]
    if unknown or step(a.verdict, b.verdict) == "not known":
        return "not known", _transition(unknown[0]) if unknown else f"the run was {a.verdict}, now {b.verdict}"
    better = any(p.change == "better" for p in found.pairs) or a.verdict != b.verdict
    return "better" if better else "same", ""


def _transition(pair: PairChange) -> str:
    return f"{pair.pair}{f' frame {pair.frame}' if pair.frame else ''} was {pair.before or 'absent'}, now {pair.now}"


def _blame_changes(a: Report, b: Report) -> Iterator[BlameChange]:
    before, now = ({blame.side: blame.node for blame in reversed(r.blamed or _blamed(r))} for r in (a, b))
    for side in dict.fromkeys([*before, *now]):
        if before.get(side) != now.get(side):
            yield BlameChange(side, before.get(side), now.get(side))


def _blamed(report: Report) -> list[Any]:
    return [report.blame] if report.blame is not None else []


def _add_tensors(found: ReportDifference, old: Pair | None, new: Pair | None) -> None:
    """Adds the changes of every tensor of a pair to the difference."""
    if _left_out(old) or _left_out(new):
        return
    one = old or new
    assert one is not None
    said, rest = f"{one.a}~{one.b}", (one.frame, one.board)
    before = {row.name: row for row in old.tensors} if old else {}
    now = {row.name: row for row in new.tensors} if new else {}
    for name in dict.fromkeys([*before, *now]):
        if name not in now:
            found.only.append(OnlyInOne("a", said, *rest, name, before[name].verdict))
        elif name not in before:
            found.only.append(OnlyInOne("b", said, *rest, name, now[name].verdict))
        else:
            found.compared += 1
            row, metrics = now[name], list(_metric_changes(before[name], now[name]))
            verdicts = before[name].verdict, row.verdict
            if not metrics and verdicts[0] == verdicts[1]:
                found.equal += 1
                continue
            way = _direction(*verdicts, metrics)
            found.tensors.append(TensorChange(said, *rest, name, row.node, row.op, *verdicts, way, metrics))


def _left_out(pair: Pair | None) -> bool:
    """Returns whether tensors were compared, but the report does not have their rows (of many frames, the worst have)."""
    return pair is not None and not pair.tensors and pair.coverage.compared > 0


def _direction(before: Verdict, now: Verdict, metrics: list[MetricChange]) -> Direction:
    if before != now:
        return "worse" if RANK[now] > RANK[before] else "better" if now == "PASSED" else "other"
    ways = {m.direction for m in metrics} - {"other"}
    return ways.pop() if len(ways) == 1 else "other"


def _metric_changes(old: TensorRow, new: TensorRow) -> Iterator[MetricChange]:
    before = old.metrics | {"failing": old.failing}
    now = new.metrics | {"failing": new.failing}
    for name in sorted({*before, *now}):
        a, b = before.get(name), now.get(name)
        if isinstance(a, dict) or isinstance(b, dict) or _same(a, b):
            continue
        yield MetricChange(name, a, b, _metric_direction(name, a, b))


def _same(a: Metric, b: Metric) -> bool:
    return a == b or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))


def _metric_direction(name: str, a: Metric, b: Metric) -> Direction:
    """Returns the direction of two numbers; other for a metric without one, or where a number is missing or NaN."""
    if name == "matching_digits":  # null: equal, at every number of digits
        a, b = (math.inf if one is None else one for one in (a, b))
    if name not in BETTER or not isinstance(a, (int, float)) or not isinstance(b, (int, float)):
        return "other"
    if math.isnan(a) or math.isnan(b):
        return "worse" if math.isnan(b) else "other"
    return "better" if (b > a) == (BETTER[name] > 0) else "worse"


def _times(a: Report, b: Report) -> Iterator[TimeChange]:
    for of, before, now in (("node", _node_seconds(a), _node_seconds(b)), ("step", a.timings, b.timings)):
        for name in dict.fromkeys([*before, *now]):
            yield TimeChange("node" if of == "node" else "step", name, before.get(name), now.get(name))


def _node_seconds(report: Report) -> dict[str, float]:
    """Returns what each node took on the board, summed over frames; of several boards, their sum."""
    seconds: dict[str, float] = {}
    for side in report.sides:
        for name, one in (side.get("node_seconds") or {}).items():
            seconds[name] = seconds.get(name, 0.0) + one
    return seconds


def _fact_changes(a: Report, b: Report) -> Iterator[FactChange]:
    """Yields what of the two runs' versions, options, models, inputs and sides is not the same."""
    before, now = _facts(a), _facts(b)
    for what in dict.fromkeys([*before, *now]):
        if before.get(what) != now.get(what):
            yield FactChange(what, before.get(what), now.get(what))


def _facts(report: Report) -> dict[str, str]:
    facts = {"qverify": report.qverify, "every node judged": str(report.dump_all), "criteria": report.criteria}
    facts |= {f"decimals {name}": str(value) for name, value in report.decimals.items()}
    facts |= {f"board {at}": board for at, board in enumerate(report.boards)}
    facts |= {f"model {row.get('kind')} sha256": str(row.get("sha256")) for row in report.models}
    facts |= {f"input {row.get('name')} sha256": str(row.get("sha256")) for row in report.inputs}
    for side in report.sides:
        name = f"side {side.get('name')}"
        facts |= {f"{name} {what}": str(side.get(what)) for what in ("engine", "version", "host", "state")}
        settings = side.get("settings")
        facts |= (
            {f"{name} {k}": str(v) for k, v in settings.items() if k not in DRAWN} if isinstance(settings, dict) else {}
        )
    for pair in report.pairs:
        name = f"{pair.a}~{pair.b}"
        facts |= {f"{name} gate": pair.gate, f"{name} scope": pair.scope, f"{name} relaxed": "; ".join(pair.relaxed)}
    return facts


def _caveats(found: ReportDifference) -> list[str]:
    """Returns what makes the two runs hard to compare, in words."""
    words = {
        "model ": "other models",
        "input ": "other inputs",
        "decimals ": "other decimals",
        "criteria": "other criteria",
    }
    words |= {"every node judged": "other tensors judged"}
    said = [text for start, text in words.items() if any(f.what.startswith(start) for f in found.facts)]
    if any(f.what.endswith((" gate", " scope", " relaxed")) for f in found.facts):
        said.append("other gates or scope")
    gone = sum(one.run == "a" for one in found.only)
    return [*said, *([f"{count(gone, 'tensor')} of a not compared in b"] if gone else [])]

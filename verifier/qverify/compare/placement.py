"""Judges where a side's nodes ran: a node that an accelerator was to run, and did not, has not tested the accelerator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from qverify.compare.forced import is_foreign
from qverify.compare.judge import Judged
from qverify.compare.options import Options
from qverify.plural import count
from qverify.report.side_names import named
from qverify.tensors.placement import Placement
from qverify.tensors.recording import NO_VALUES, Recording

CAUSE = "fallback"  # Pair.cause
MAX_NAMED = 3


def describe_placement(placement: Iterable[Placement]) -> str:
    """Returns the number of nodes by device in words, the largest number first: `12 of 14 nodes ran on HTP; ...`."""
    nodes = Counter[str]()
    for placed in placement:
        nodes[placed.on] += placed.nodes
    return "; ".join(f"{number} of {nodes.total()} nodes ran on {name}" for name, number in nodes.most_common())


def describe_fallback(placement: Sequence[Placement]) -> str:
    """Returns which nodes ran elsewhere than the user asked, "" if none did."""
    fallen = [p for p in placement if p.fallback]
    if not fallen:
        return ""
    total, number = sum(p.nodes for p in placement), sum(p.nodes for p in fallen)
    named_nodes = [f"{p.node} ({p.op})" if p.op else p.node for p in fallen if p.node]
    some = (
        f", {', '.join(named_nodes[:MAX_NAMED])}{' ...' if len(named_nodes) > MAX_NAMED else ''}" if named_nodes else ""
    )
    where = " and ".join(dict.fromkeys(p.on for p in fallen))
    return f"{number} of {count(total, 'node')} fell back to {where}{some}"


def judge_placement(judged: Judged, options: Options) -> None:
    """States nodes that fell back in the pair's verdict line. With `options.no_fallback` such a pair is FAILED, and one of
    a side that does not say where its nodes ran INCONCLUSIVE."""
    pair = judged.pair
    for recording in (judged.a.recording, judged.b.recording):
        if not is_foreign(recording) or recording.state in NO_VALUES:
            continue
        text = describe_fallback(recording.placement)
        if text:
            pair.relaxed.append(f"{named(recording.side)}: {text}")
        if not options.no_fallback or pair.verdict != "PASSED":
            continue
        if text:
            pair.verdict, pair.cause, pair.why = "FAILED", CAUSE, f"{named(recording.side)}: {text}"
        elif not recording.placement:
            why = f"{named(recording.side)} does not say where its nodes ran, so the gate no-fallback cannot be applied"
            pair.verdict, pair.cause, pair.why = "INCONCLUSIVE", CAUSE, why


def list_placements(recordings: Iterable[Recording]) -> list[str]:
    """Returns a line for each further engine on where its nodes ran."""
    return [
        f"{r.side if r.is_engine else r.engine or r.side}: {describe_placement(r.placement)}"
        for r in recordings
        if any(p.node for p in r.placement)
    ]

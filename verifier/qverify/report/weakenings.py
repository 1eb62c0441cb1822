"""Describes what weakens a verdict, for verdict lines, `caveats` in JSON, suites, and triage's last line."""

from __future__ import annotations

from collections.abc import Sequence

from qverify.plural import count
from qverify.report.document import NodeByNode, NotJudged, Pair, ReportDocument


def list_caveats(report: ReportDocument) -> list[str]:
    """Returns everything that weakens a verdict of a report, as its verdict lines state it: `caveats` in JSON. A fact that
    not every two sides share names those that it applies to."""
    groups: dict[str, list[Pair]] = {}
    for pair in report.pairs:
        groups.setdefault(f"{pair.a} ~ {pair.b}", []).append(pair)
    sharing: dict[str, list[str]] = {}
    for name, pairs in groups.items():
        for fact in list_pair_caveats(pairs, all(pair.verdict == "PASSED" for pair in pairs)):
            sharing.setdefault(fact, []).append(name)
    facts = [fact if len(names) == len(groups) else f"{', '.join(names)}: {fact}" for fact, names in sharing.items()]
    return list(dict.fromkeys([*facts, *list_common_caveats(report)]))


def list_common_caveats(report: ReportDocument) -> list[str]:
    """Returns what weakens every verdict of a report: sides that did not take part, caveats of the models, random inputs."""
    seeds = sorted({i["seed"] for i in report.inputs if isinstance(i.get("seed"), int)})
    absent = [f"{n.side}: not run: {n.why}" for n in report.not_run]
    return [*absent, *report.caveats, *([f"random inputs, PCG64 seed {', '.join(map(str, seeds))}"] if seeds else [])]


def list_pair_caveats(pairs: Sequence[Pair], passed: bool) -> list[str]:
    """Returns what weakens the verdict of two sides over several frames or boards: only final outputs, reservations about
    PASSED, options that relax. passed: whether the verdict is PASSED."""
    scopes = [p.scope for p in pairs if p.scope.startswith("final outputs only")]
    weakenings = list_weakenings(pairs) if passed else []
    return list(dict.fromkeys([*scopes, *weakenings, *(text for p in pairs for text in p.relaxed)]))


def list_weakenings(pairs: Sequence[Pair]) -> list[str]:
    """Returns the reservations about two sides over several frames or boards, each for the worst pair: tensors judged
    node by node, elements not judged, tensors without elements, not bit-equal, tensors that differ outside the
    scope."""
    judged = [p.node_by_node for p in pairs if p.node_by_node is not None]
    facts = [_describe_node_by_node(judged, pairs)] if judged else []
    lost = [n for p in pairs for n in p.not_judged]
    facts += [describe_not_judged(lost)] if lost else []
    empty = list(dict.fromkeys(row.name for p in pairs for row in p.tensors if row.elements == 0))
    facts += [f"{count(len(empty), 'tensor', 'has', 'have')} no elements, first {empty[0]}"] if empty else []
    facts += ["not bit-equal"] if not all(p.bit_equal for p in pairs) else []
    others = [p.others for p in pairs if p.others is not None]
    if others:
        most = max(others, key=lambda o: o.tensors)
        agrees = f"{'it' if most.tensors == 1 else 'each'} agrees when recomputed"
        recomputed = all(o.recomputed for o in others)
        state = agrees if recomputed else f"not judged, first {most.first} (judged with -r True)"
        facts.append(f"{count(most.tensors, 'other tensor', 'differs', 'differ')}, {state}")
    return facts


def describe_not_judged(lost: Sequence[NotJudged]) -> str:
    """Returns a text on the tensor with the most elements that were not judged, and on how many other tensors have
    some."""
    most, tensors = max(lost, key=lambda n: n.elements), len({n.tensor for n in lost})
    more = f" (and in {count(tensors - 1, 'more tensor')})" if tensors > 1 else ""
    return f"{most.elements} of {count(most.of, 'element')} of {most.tensor} not judged: {most.why}{more}"


def _describe_node_by_node(judged: Sequence[NodeByNode], pairs: Sequence[Pair]) -> str:
    """Returns a text with the largest numbers of all frames."""
    lsb = max((j.max_lsb for j in judged if j.max_lsb is not None), default=None)
    largest_difference = max((j.max_abs for j in judged if j.max_abs is not None), default=0.0)
    arg_max_shares = [a.arg_max for p in pairs for a in p.agreement if a.arg_max is not None]
    top1_text = (
        f", top-1 agrees{'' if min(arg_max_shares) == 1 else f' in {min(arg_max_shares):.0%}'}"
        if arg_max_shares
        else ""
    )
    range_text = f"{lsb} LSB" if lsb is not None else f"{largest_difference:.3g}"
    tensors = count(max(j.tensors for j in judged), "tensor")
    kernels = next((j.kernels for j in judged if j.kernels), "")
    basis = (
        f"judged node by node, as {kernels} round in their own way"
        if kernels
        else "after float nodes judged node by node"
    )
    return f"{tensors} {basis}; free-running up to {range_text}{top1_text}"

"""The verdict lines a script can grep, one a pair, in the vendor's form; every weakening of a verdict stands in its line."""

from __future__ import annotations

from collections.abc import Sequence

from qverify.report.document import NodeByNode, Pair, Report, worst

NAMES = {"reference": "Quanti.onnx", "simulator": "Sim", "board": "Arm"}
CAUSES = {
    "accumulated_rounding": "every unit holds forced: the difference is accumulated rounding",
    "unlocated": "the node cannot be told",
    "does_not_run": "a side did not run",
    "not_finite": "NaN or Inf",
}


def line(pair: Pair, said: Sequence[str] = ()) -> str:
    """said: what stands in every line of the report."""
    why = [t for t in (pair.why, f"cause: {pair.cause}" if pair.cause else "") if t] if pair.verdict != "PASSED" else []
    return over([pair], why, said)


def over(pairs: Sequence[Pair], why: Sequence[str] = (), said: Sequence[str] = ()) -> str:
    """One line for the same two sides in several frames or on several boards: the worst verdict, every weakening of any."""
    verdict = worst([p.verdict for p in pairs])
    who = f"{NAMES.get(pairs[0].a, pairs[0].a)} and {NAMES.get(pairs[0].b, pairs[0].b)}"
    scopes = [p.scope for p in pairs if p.scope.startswith("final outputs only")]
    facts = [*why, *scopes, *(_passed(pairs) if verdict == "PASSED" else [])]
    facts += [text for p in pairs for text in p.relaxed]
    facts = list(dict.fromkeys([*facts, *said]))
    return f"{who} result Strict check {verdict}" + (f" ({'; '.join(facts)})" if facts else "")


def everywhere(report: Report) -> list[str]:
    """What stands in every line: sides that took no part, what a verdict must not be read without, random inputs."""
    seeds = sorted({i["seed"] for i in report.inputs if i.get("seed") is not None})
    absent = [f"{n.side}: not run: {n.why}" for n in report.not_run]
    return [*absent, *report.caveats, *([f"random inputs, PCG64 seed {', '.join(map(str, seeds))}"] if seeds else [])]


def render(report: Report) -> str:
    said = everywhere(report)
    lines = [line(pair, said) for pair in report.pairs]
    return "\n".join(lines or [f"nothing compared: {report.verdict}"])


def _passed(pairs: Sequence[Pair]) -> list[str]:
    """What a PASSED must not be read without."""
    judged = [p.node_by_node for p in pairs if p.node_by_node is not None]
    facts = [_node_by_node(judged, pairs)] if judged else []
    facts += ["not bit-equal"] if not all(p.bit_equal for p in pairs) else []
    others = [p.others for p in pairs if p.others is not None]
    if others:
        most = max(others, key=lambda o: o.tensors)
        recomputed = all(o.recomputed for o in others)
        state = "each agrees recomputed" if recomputed else f"not judged, first {most.first} (-r True judges them)"
        facts.append(f"{most.tensors} other tensors differ, {state}")
    return facts


def _node_by_node(judged: Sequence[NodeByNode], pairs: Sequence[Pair]) -> str:
    """The most of any frame."""
    lsb = max((j.max_lsb for j in judged if j.max_lsb is not None), default=None)
    apart = max((j.max_abs for j in judged if j.max_abs is not None), default=0.0)
    top = [a.arg_max for p in pairs for a in p.agreement if a.arg_max is not None]
    agree = f", top-1 agrees{'' if min(top) == 1 else f' in {min(top):.0%}'}" if top else ""
    far = f"{lsb} LSB" if lsb is not None else f"{apart:.3g}"
    return f"{max(j.tensors for j in judged)} tensors after float nodes judged node by node; free-running up to {far}{agree}"

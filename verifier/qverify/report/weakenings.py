"""What a PASSED must not be read without, in words; the same in verdict lines and in triage's last line."""

from __future__ import annotations

from collections.abc import Sequence

from qverify.report.document import NodeByNode, Pair


def list_weakenings(pairs: Sequence[Pair]) -> list[str]:
    """Of the same two sides in several frames or on several boards, the most of any: judged node by node, bytes lost, tensors
    that differ outside the scope."""
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

"""The arithmetics that qverify contains, beside what a side recorded: which of them computes so, and where a board that was
never learned rounds in another known way than the one that it is judged by."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from importlib import resources

from qverify.compare.catalogue import SHIPPED, choose_name, describe
from qverify.compare.one_arithmetic import GivesAll, NeedsEvidence, accept_one_arithmetic
from qverify.compare.stated_arithmetic import StatedArithmetic
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit
from qverify.plural import count
from qverify.report.document import Forced

NO_FAULT = "{}, which is no fault; `qverify identify` learns how this board computes"


@cache
def read_shipped(name: str) -> Mapping[str, str]:
    """Returns the forms of a shipped arithmetic by op, as a model.bin stores them; {} if there is none of this name."""
    from qverify.compare.identify.arithmetic_file import forms_of_ops, read_arithmetic

    file = resources.files("qverify") / "arithmetics" / f"{name}.toml"
    if not name.replace("-", "").isalnum() or not file.is_file():
        return {}
    with resources.as_file(file) as path:
        forms: dict[str, str] = forms_of_ops(read_arithmetic(str(path))).stored()["ops"]
    return forms


def name_shipped(
    lines: Collection[str], units: Iterable[Unit], graph: Graph, forced: Mapping[str, Forced], gives_all: GivesAll
) -> str:
    """Returns the shipped arithmetic that alone states what these lines on arithmetics name, if it gives every byte of all nodes
    that differ and of which a known arithmetic does; else ""."""
    differing = [u for u in units if (f := forced.get(u.outputs[0])) is not None and f.mismatched and f.arithmetics]
    for shipped, own in SHIPPED.items():
        named = any(f" {describe(name)} gives every byte" in f" {line}" for name in own for line in lines)
        if named and all(_gives(read_shipped(shipped), u, graph, gives_all) for u in differing):
            return shipped
    return ""


def _gives(forms: Mapping[str, str], unit: Unit, graph: Graph, gives_all: GivesAll) -> bool:
    from qverify.model_bin.kinds_of_nodes import find_of_node

    form = find_of_node(forms, unit.nodes[0], graph)
    return bool(form) and gives_all(unit, form or "") is True


def find_rounded_otherwise(
    stated: StatedArithmetic | None,
    graph: Graph,
    units: Iterable[Unit],
    forced: Mapping[str, Forced],
    gives_all: GivesAll,
    needs_evidence: NeedsEvidence,
) -> dict[str, Forced]:
    """Returns the verdicts, by tensor, of the nodes that are not as a shipped arithmetic states and that the rules for a board
    that is not qvrt accept: one known arithmetic gives every byte of all nodes of their op. A shipped arithmetic was not learned
    on the board, so they are no fault of it."""
    if stated is None or dict(stated.forms) != read_shipped(stated.name):
        return {}
    accepted = dict(forced)
    members = [u for u in units if stated.states(u, graph)]
    accept_one_arithmetic(members, accepted, gives_all, needs_evidence)
    return {n: f for n, f in accepted.items() if f.verdict == "PASSED" != forced[n].verdict}


def describe_rounded_otherwise(
    stated: StatedArithmetic | None, units: Iterable[Unit], rounded: Mapping[str, Forced], who: str
) -> list[str]:
    """Returns a line for each op of the nodes that find_rounded_otherwise() returned. who: the side, in words."""
    by_op: dict[str, list[Forced]] = {}
    for unit in units:
        by_op.setdefault(unit.nodes[0].op, []).extend(rounded[o] for o in unit.outputs if o in rounded)
    name = stated.name if stated is not None else ""
    return [
        f"{who} differs from arithmetic {name} at {op}: {_describe_common(found)} gives every byte of {count(len(found), 'tensor')}"
        for op, found in by_op.items()
        if found
    ]


def _describe_common(found: list[Forced]) -> str:
    return describe(choose_name(set.intersection(*(set(f.arithmetics) for f in found))))

"""The coverage of a dump that stands in the board's place: it is judged by the tensors that it has, as a runner is. A final
output that it lacks is missing, and so is a tensor that it may have under a name that was not paired."""

from __future__ import annotations

from qverify.plural import count
from qverify.printable import printable
from qverify.report.document import Pair
from qverify.session.models import Models
from qverify.sides.dumps.rewritten_names import find_rewritings
from qverify.tensors.recording import Recording

ASKED = "final outputs only; -r True judges every node that the dump gives"
MOST_NODES = 8  # between the end of a dump and a final output
ALONE = "final outputs only: the dump gives no others"


def find_not_offered(first: Recording, dump: Recording, models: Models) -> tuple[set[str], dict[str, str]]:
    """Returns the tensors of the host's side that the dump does not offer, and why others are missing in it, by name."""
    not_offered, why = set[str](), dict[str, str]()
    lacking = [n for n in first.specs if n not in dump.specs and n not in dump.missing]
    for name in lacking:
        unpaired = [n for n in find_rewritings(name, (*dump.specs, *dump.missing)) if n not in first.specs]
        if unpaired:
            reason = dump.missing.get(unpaired[0], "its values, shape or name do not say so")
            why[name] = f"{printable(unpaired[0])} of the dump may be it: {reason}"
        elif name not in models.graph.outputs:
            not_offered.add(name)
        elif reason := _describe_end(name, dump, models):
            why[name] = reason
    return not_offered, why


def leave_out_foreign(first: Recording, dump: Recording) -> list[str]:
    """Removes from a dump the tensors that the network does not have, such as accumulators and workspaces of an engine, if it
    has others. One with as many elements as a tensor that the dump lacks may be that one, and stays. Returns a note."""
    lacking = {s.elements for n, s in first.specs.items() if n not in dump.specs}
    foreign = [n for n, s in dump.specs.items() if n not in first.specs and s.elements not in lacking]
    if not foreign or len(foreign) == len(dump.specs):
        return []
    for name in foreign:
        del dump.specs[name]
        dump.missing.pop(name, None)
    some = count(len(foreign), "tensor", "is", "are")
    return [f"{some} in the dump and not in the ONNX, and not compared, first {printable(foreign[0])}"]


def _describe_end(name: str, dump: Recording, models: Models) -> str:
    """Returns what to do if a dump ends a few nodes before a final output, as where an accelerator leaves a softmax to the host;
    "" if it does not."""
    graph, makers = models.graph, models.graph.producers()
    given, known = {n for n in dump.specs if n not in dump.missing}, {*graph.observable(), *graph.inputs}
    ends, ops, todo = list[str](), list[str](), [name]
    while todo:
        tensor = todo.pop()
        if tensor in given:
            ends.append(tensor)
            continue
        if tensor not in makers or len(ops) == MOST_NODES:
            return ""
        node = makers[tensor]
        ops.append(node.op)
        todo += [i for i in node.inputs if i in known and i not in ends]
    file = next((row["path"] for row in models.rows if row["kind"] == "quant.onnx"), "")
    if not file or not ends or {*ends} & {*graph.inputs}:
        return ""
    what = ", ".join(dict.fromkeys(op for op in reversed(ops) if op not in ("quantize", "dequantize"))) or "dequantize"
    cut = f"import onnx; onnx.utils.extract_model({file!r}, 'cut.onnx', {[*graph.inputs]}, {ends})"
    return (
        f"the dump ends before the host's {what}, at {', '.join(map(printable, ends))}; to compare that, cut the model there "
        f'(python -c "{printable(cut)}") and give -m cut.onnx'
    )


def state_offered(pair: Pair, narrow: bool, alone: bool) -> None:
    """States in the verdict line which part of the model was judged. narrow: whether only the final outputs were. alone: whether
    the dump has nothing else."""
    if narrow:
        pair.scope = ALONE if alone else ASKED
    elif offered := pair.coverage.not_offered:
        total = len(offered) + pair.coverage.expected
        pair.relaxed.append(f"the dump gave {pair.coverage.compared} of {count(total, 'tensor')}")

"""Writes every Loop and Scan whose number of steps is known out: the nodes of its body, once for each step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container
from typing import Any, Protocol

import onnx

from qverify.errors import UnsupportedError
from qverify.onnx_model.file_checks import check_constants, check_operators, check_sizes
from qverify.onnx_model.loop_form import first_output, is_loop, name_of, read_form
from qverify.onnx_model.node_order import graphs_of
from qverify.onnx_model.omitted_outputs import name_omitted_outputs
from qverify.onnx_model.rewriter import Rewriter
from qverify.onnx_model.split_dynamic_matmul import split_dynamic_matmul

MAX_TENSORS = 50_000  # that the nodes of a model compute, once a loop of it is written out
MAX_ON_HOST = 64  # nodes of all steps of a loop that no kernel serves
MAX_BEFORE_HOST = (
    2000  # nodes before one that no kernel serves; a board runs at most 4,096 there, and some become several
)


class Decomposed(Protocol):
    """A DecomposedModel: a model, and how it came about."""

    model: onnx.ModelProto
    rounds: list[Any]


class LoopWriter:
    """Writes loops out, round by round: a loop in the body of another one in a later round.

    stays: loops that are not to be written out, by first output, each with the reason. served: the operators that a
    kernel serves, None if that does not matter."""

    def __init__(self, model: onnx.ModelProto, stays: dict[str, str], served: Container[str] | None):
        self._opsets, self._stays, self._served = list(model.opset_import), stays, served
        self._tensors = sum(len(node.output) for node in model.graph.node)
        self._loops = dict[str, str]()  # tensor to the loop of the file whose steps compute it
        self._why = dict[str, str]()  # loop to the reason why it is not written out

    def __call__(self, r: Rewriter, node: onnx.NodeProto) -> bool:
        """Writes a loop out, and returns whether it did; False for other nodes. Raises UnsupportedError for a loop that
        stays."""
        if not is_loop(node):
            return False
        loop = self._loops.get(first_output(node), first_output(node))
        try:
            self._write(r, node)
        except UnsupportedError as error:
            self._why[first_output(node)] = str(error)
            raise
        self._tensors += sum(len(n.output) for n in r.nodes)
        self._loops |= {o: loop for n in r.nodes for o in n.output if o}
        return True

    def _write(self, r: Rewriter, node: onnx.NodeProto) -> None:
        """Writes a loop out. Raises UnsupportedError if it stays."""
        from qverify.onnx_model.loop_copies import StepCopies
        from qverify.onnx_model.loop_steps import steps_of

        if reason := self._stays.get(first_output(node)):
            raise r.refusal(reason)
        form = read_form(r, node)
        steps = steps_of(r, node, form, self._opsets)
        if empty := next((s.final for s in form.stacked if s.final in r.read and not steps), ""):
            raise r.refusal(f"it has no steps, so that {empty!r} has no elements")
        copies = StepCopies(r, node, form)
        if branch := copies.branch_on_values():
            raise r.refusal(f"in its body, {name_of(branch)} (If): its branch depends on values")
        total = self._tensors + steps * copies.tensors_each()
        if total > MAX_TENSORS:
            raise r.refusal(
                f"{steps} steps of {copies.tensors_each()} tensors make {total} with the rest of the model; "
                f"at most {MAX_TENSORS} are written out"
            )
        copies.write(steps)

    def reasons_to_stay(self, graph: onnx.GraphProto) -> dict[str, str]:
        """Returns the loops of the file that are not to be written out after all, each with the reason.

        graph: the graph with all that could be written out, with the shapes that are known."""
        shaped = (v for v in graph.output if v.type.tensor_type.HasField("shape"))
        known = {v.name for v in (*graph.value_info, *shaped)}
        reasons, on_host, before = dict[str, str](), Counter[str](), Counter[str]()
        for number, node in enumerate(graph.node):
            loop = next((self._loops[o] for o in node.output if o in self._loops), "")
            by_host = self._served is not None and node.op_type not in self._served
            on_host[loop] += by_host
            if reason := self._reason_of_step(node, known, on_host[loop]) if loop else "":
                reasons.setdefault(loop, reason)
            before[loop] += 1
            longest = max((n for n in before if n), key=before.__getitem__, default="")
            if by_host and number > MAX_BEFORE_HOST and longest:
                reasons.setdefault(
                    longest,
                    f"{number} nodes would come before {name_of(node)} ({node.op_type}), which no kernel serves; at most "
                    f"{MAX_BEFORE_HOST} may",
                )
        return reasons

    def _reason_of_step(self, node: onnx.NodeProto, known: Collection[str], on_host: int) -> str:
        """Returns why a step that contains this node cannot be written out, "" if it can. known: tensors of which the
        shape is known. on_host: nodes of the loop up to this one that no kernel serves."""
        if graphs_of(node):
            by_values = f"{name_of(node)} ({node.op_type}): its branch depends on values"
            return f"in its body, {self._why.get(first_output(node), by_values)}"
        if unknown := next((o for o in node.output if o and o not in known), ""):
            return f"the shape of {unknown!r} in its body is not known"
        if on_host > MAX_ON_HOST:
            return f"no kernel serves {node.op_type} in its body, and the host can compute at most {MAX_ON_HOST} parts of it"
        return ""


def write_loops_out(done: Decomposed, rewrite: Callable[[LoopWriter], bool], served: Container[str] | None) -> None:
    """Writes out each loop of a model that can be written out to the end: all in its steps are operators without
    subgraphs, on tensors of known shape. served: as for LoopWriter.

    rewrite: calls its argument for every node of done.model, as decompose() does. Afterwards done.refused contains the
    loops that stay, each with the reason."""
    model, rounds, stays = done.model, list(done.rounds), dict[str, str]()
    if not any(is_loop(node) for node in model.graph.node):
        return
    while True:
        done.model, done.rounds = model, list(rounds)
        writer = LoopWriter(model, stays, served)
        while rewrite(writer):
            pass
        reasons = writer.reasons_to_stay(done.model.graph)
        if not reasons:
            return
        stays |= reasons


def finish_steps(model: onnx.ModelProto, name: str) -> None:
    """Checks nodes and constants that were in a body, and makes them as those of a loaded graph, in place. Raises
    BadFileError and UnsupportedError as load() does."""
    check_operators(model, name)
    check_sizes(model, name)
    check_constants(model, name)
    split_dynamic_matmul(model)
    name_omitted_outputs(model)

"""Checks of one page of plain faults: it names its fault on a faulty runner, and stays silent about other faults and about
a right board that rounds in another way."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any, cast
from unittest import mock

import numpy as np
import onnx
from onnx import helper
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.sides.simulator import Simulator
from qverify.triage.case import Case
from qverify.triage.fault_search import search_faults
from qverify.triage.hypotheses import HypothesisPage
from qverify.triage.near_fits import NearFits

from tests.ops.qdq import Qdq
from tests.plain.faulty_runners import Array, Board, Change, Judged


def check_named(m: Qdq, change: Change, said: str, seed: int = 5) -> None:
    """The cause at the blamed node says so, exactly or beside another rounding."""
    report = Judged(m).report(change, seed=seed)
    blame = report.blame
    assert report.verdict == "FAILED" and blame is not None and (blame.side, blame.node) == ("board", "y_q")
    assert blame.cause is not None, blame.why
    assert re.search(f"^cause: .*{said}", blame.cause.line), blame.cause.line
    assert blame.cause.bits >= blame.cause.wanted


def case_of(m: Qdq, change: Change, seed: int = 5) -> Case:
    """Returns the case of the blamed node of a board with this change."""
    with mock.patch("qverify.triage.recorded_cause.find_recorded_cause", return_value=None) as search:
        Judged(m).report(change, seed=seed)
    return cast(Case, search.call_args[0][0])


def fitting(page: ModuleType, case: Case) -> list[str]:
    """Returns the texts of the page's faults that give the record, exactly or beside another rounding."""
    near = NearFits(case)
    with mock.patch("qverify.triage.fault_search.pages_of", return_value=()):
        search = search_faults(case, near=near, first=(cast(HypothesisPage, page),))
    return [c.cause.said for group in search.groups for c in group] + [f.variant.text for f in near.found]


def check_silent(page: ModuleType, m: Qdq, others: dict[str, Change]) -> None:
    """No fault of the page gives the record of a right board in another rounding, nor of one with another fault."""
    for name, change in others.items():
        case = case_of(m, change)
        assert case.differing.size and not fitting(page, case), name
    judged = Judged(m)
    graph = compile_model(judged.quantized, "q.onnx", CompilerOptions(check=False, rounding="gemmlowp")).graph
    tensors = Simulator(graph).run(prepared_inputs(judged.compiled.graph, InputRequest(seed=5))).tensors
    report = judged.report(lambda board: board.after.update(y_q=lambda _: np.asarray(tensors["y_q"])))
    assert report.blame is None


def shown(alter: Any) -> Change:
    """Changes the values of the quantized output."""

    def change(board: Board) -> None:
        board.after["y_q"] = alter

    return change


def noise(reach: int) -> Change:
    """Adds up to `reach` LSB at random."""

    def alter(values: Array) -> Array:
        steps, limits = np.random.default_rng(1).integers(-reach, reach + 1, values.shape), np.iinfo(values.dtype)
        return np.clip(values.astype(int) + steps, limits.min, limits.max).astype(values.dtype)

    return shown(alter)


def constant(end: str, alter: Any) -> Change:
    """Changes the constant whose name ends so."""

    def change(board: Board) -> None:
        name = next(n for n in board.constants if n.endswith(end))
        board.constants[name] = alter(board.constants[name].copy())

    return change


def compute(*steps: tuple[Any, ...]) -> Change:
    """Replaces what makes y by these steps: (operator, inputs ..., output), where an input may be a number or array."""

    def change(board: Board) -> None:
        made: dict[str, onnx.NodeProto] = {}
        for kind, *inputs, output in steps:
            names = []
            for at, value in enumerate(inputs):
                if not isinstance(value, str):
                    board.constants[f"{output}/{at}"] = np.asarray(value)
                    value = f"{output}/{at}"
                names.append(value)
            attributes = {"to": onnx.TensorProto.FLOAT} if kind == "Cast" else {}
            made[output] = helper.make_node(kind, names, [output], **attributes)
        board.nodes = {
            new: made_node
            for name, node in board.nodes.items()
            for new, made_node in (made.items() if name == "y" else [(name, node)])
        }

    return change

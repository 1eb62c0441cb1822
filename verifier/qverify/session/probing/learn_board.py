"""Learns the arithmetic of a board by experiment: asks probes of each op, and further ones while forms are left that
they split."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from qverify_agents.errors import LinkError
from qverify_agents.link_estimates import estimate_rate

from qverify.compare.identify.fit import RecordedUnit, collect
from qverify.compare.probing.explain import (
    MOST_ALIKE,
    deciding,
    fit_op,
    fit_solved,
    left_forms,
    neighbours_of,
    solved_forms,
)
from qverify.compare.probing.plan import first_probes, further_probes
from qverify.compare.probing.split import choose, predictions
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.errors import BoardError, NotDeterministicError, UnsupportedError, UsageError
from qverify.model_bin.graph import Graph
from qverify.model_bin.kinds_of_nodes import KINDS, key_of
from qverify.model_bin.units import units
from qverify.plural import count
from qverify.report.learned import Arithmetic, LearnedOp
from qverify.session.offline.identify_dump import Origin
from qverify.session.probing.probe_board import (
    Answer,
    ProbedBoard,
    ask,
    input_names,
)
from qverify.session.probing.probe_models import ProbeModel, pack
from qverify.session.probing.probe_store import ProbeStore
from qverify.sides.simulator import Simulator
from qverify.tensors.one_op import OneOp
from qverify.tensors.recording import Array

Watch = Callable[[str, int, int], None]
Say = Callable[[str], None]
TURNS = 6  # draws of further probes of an op
MOST_FURTHER = 8  # further probes of an op that are asked
HELD_OUT = 4  # further probes on which a solved form is tried
OUTSIDE = ("scale of 1 or more",)  # kinds of nodes for which the form of the others may have no parameters
DIVIDED = ("of tall images", "depthwise, stride 2, close scales", *OUTSIDE)  # kinds that may have a form of their own
RUNS = 2  # of each model


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked. ops: the ops. dtypes: of activations. keep_going: an op that the board does not run is left
    unknown."""

    ops: tuple[str, ...]
    dtypes: tuple[str, ...]
    keep_going: bool = False


@dataclass(slots=True)
class LearnedBoard:
    """The result. probes, runs: how many were asked in this run of qverify. states: what the board states of itself.
    failed: ops that the board did not run, with the reason."""

    arithmetic: Arithmetic
    probes: int = 0
    runs: int = 0
    states: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


def learn_board(
    board: ProbedBoard, wanted: Wanted, store: ProbeStore, origin: Origin, say: Say, watch: Watch | None = None
) -> LearnedBoard:
    """Returns the arithmetic of a board. Raises BoardError if it fails or is not deterministic; what it answered before
    is kept in the store. say: called with the cost before anything is asked."""
    learner = _Learner(board, wanted, store, watch)
    say(learner.cost())
    learner.confirm_kept()
    learned = [found for op in wanted.ops if learner.has_probes(op) for found in learner.learn(op)]
    ops = {found.op: found for found in learned}
    learner.confirm_first()
    about = ", ".join(f"{v}" for k, v in learner.states.items() if k in ("program", "version", "arch", "runtime"))
    arithmetic = Arithmetic(origin.name, board.engine or about, origin.learned, ops, origin.learned_on)
    return LearnedBoard(
        arithmetic, learner.asked, learner.asked_models * RUNS, learner.states, learner.failed, learner.left_out
    )


class _Learner:
    def __init__(self, board: ProbedBoard, wanted: Wanted, store: ProbeStore, watch: Watch | None):
        self._board, self._wanted, self._store, self._watch = board, wanted, store, watch
        self.asked = self.asked_models = self._done = 0
        self.states: dict[str, str] = {}
        self.failed: dict[str, str] = {}
        self.left_out: list[str] = []
        self._first: tuple[ProbeModel, Answer] | None = None  # asked in this run, and its answer
        self._models = {op: list(self._first_models(op)) for op in wanted.ops}
        self._total = sum(map(len, self._models.values()))
        if not self._total:
            raise UsageError(f"--ops {','.join(wanted.ops)}: the board's runtime has no such op in 8 bits")

    def has_probes(self, op: str) -> bool:
        """Returns whether the op is asked at all."""
        return bool(self._models[op])

    def _first_models(self, op: str) -> Iterable[ProbeModel]:
        for dtype in self._wanted.dtypes:
            probes = first_probes(op, dtype)
            models = self._pack(probes)
            written = {p.name for m in models for p in m.probes}
            self.left_out += [p.name for p in probes if p.name not in written]
            yield from models

    def _pack(self, probes: Sequence[OneOp]) -> list[ProbeModel]:
        if self._board.is_litert:
            from qverify.tflite_model.write_probes import can_write

            probes = [p for p in probes if can_write(p)]
        return pack(probes, self._board.most)

    def cost(self) -> str:
        """Returns in words what the first probes cost."""
        models = [m for several in self._models.values() for m in several]
        kept = sum(m.key in self._store.keys for m in models)
        size = sum(m.size_bytes for m in models if m.key not in self._store.keys)
        probes, left = sum(len(m.probes) for m in models), len(models) - kept
        rate = estimate_rate(self._board.uri)
        seconds = size / rate.bytes_per_s + left * rate.login_s + left * RUNS * 3 * rate.round_trip_s
        text = f"{count(probes, 'probe')} of {count(len(self._wanted.ops), 'op')} in {count(len(models), 'model')}"
        text += f", {kept} of them answered before" if kept else ""
        text += (
            f"; {count(left * RUNS, 'run')}, about {size / 1e6:.1f} MB over the link, {max(1, round(seconds))} s of it"
        )
        return f"{text}; up to {MOST_FURTHER} further probes for each op that is not decided"

    def confirm_kept(self) -> None:
        """Asks the first and the last of the kept answers again. Raises UsageError if the board states that it is another
        one, BoardError if it answers otherwise."""
        models = {m.key: m for several in self._models.values() for m in several}
        known = [k for k in self._store.keys if k in models]
        for key in dict.fromkeys([*known[:1], *known[-1:]]):
            self._confirm(models[key], self._store.find(key) or {})

    def confirm_first(self) -> None:
        """Asks the first model of this run again, if there were others after it. Raises BoardError if the board answers
        otherwise."""
        if self._first is not None and self.asked_models > 1:
            self._confirm(self._first[0], self._first[1].values)

    def _confirm(self, model: ProbeModel, before: Mapping[str, Array]) -> None:
        answer = self._ask(model)
        for probe in model.probes:
            old, new = before.get(probe.output), answer.values[probe.output]
            if old is None or not np.array_equal(old, new):
                raise NotDeterministicError(
                    f"the board answers probe {probe.name!r} otherwise than before: another firmware, or it is not "
                    f"deterministic; nothing of {self._store.path} is used: --afresh asks everything again"
                )

    def learn(self, op: str) -> list[LearnedOp]:
        """Returns what the board's answers show of an op, and of the nodes of a kind if these have a form of their own."""
        members, names = list[RecordedUnit](), dict[str, str]()
        try:
            for model in self._models[op]:
                members += self._record(model, names)
            known, begun = left_forms(members), len(members)
            if not known and (parts := _divide(op, members)):
                return [replace(fit_op(some, names), op=key) for key, some in parts.items()]
            solved = [] if known or not deciding(members) else solved_forms(members)
            left = [*known, *neighbours_of(known, members)] or solved
            left = self._narrow(op, members, names, left, 0 if known else HELD_OUT)
        except BoardError as error:
            if not self._wanted.keep_going or isinstance(error, NotDeterministicError):
                raise
            self.failed[op] = str(error)
            return [LearnedOp(op, "", 0, 0, why=f"the board did not run it: {error}")]
        if not left or {*left} & {*known}:
            learned = fit_op(members, names)
            others = [f for f in left if f not in known][:MOST_ALIKE] if learned.form else []
            return [replace(learned, alike=(*learned.alike, *others))]
        return [fit_solved(members, left, sum(m.recorded.size for m in members[begun:]), names)]

    def _narrow(
        self, op: str, members: list[RecordedUnit], names: dict[str, str], forms: list[str], least: int
    ) -> list[str]:
        """Asks further probes while several forms are left that these split, and at least as many as `least` if there is
        a form. Returns the forms that are left."""
        asked = 0
        for turn in range(1, TURNS + 1):
            if not forms or (len(forms) == 1 and asked >= least) or asked >= MOST_FURTHER:
                break
            drawn = [p for dtype in self._wanted.dtypes for p in further_probes(op, dtype, turn)]
            probes = [p for m in self._pack(drawn) for p in m.probes]
            guesses = [(i, predictions(self._predict(p), forms)) for i, p in enumerate(probes)]
            chosen = choose(guesses, MOST_FURTHER - asked)
            chosen += [i for i in range(len(probes)) if i not in chosen][: max(0, least - asked - len(chosen))]
            for model in pack([probes[i] for i in chosen], self._board.most):
                self._total += 1
                made = self._record(model, names)
                members += made
                forms = [f for f in forms if all(m.gives(f) for m in made)]
            asked += len(chosen)
        return forms

    def _predict(self, probe: OneOp) -> RecordedUnit:
        """Returns the unit of a probe with the reference's output."""
        graph = _compiled(ProbeModel((probe,)))
        values = dict(zip(input_names(probe), (o.codes for o in probe.inputs), strict=True))
        unit = next(u for u in units(graph) if u.outputs[0] == probe.output)
        made = Simulator(graph, None).run_unit(unit, {n: values[n] for n in unit.inputs})[probe.output]
        return RecordedUnit(unit, graph, {n: values[n] for n in unit.inputs}, made, made)

    def _record(self, model: ProbeModel, names: dict[str, str]) -> list[RecordedUnit]:
        """Returns the units of a model with the board's answers, which are asked for if they are not kept."""
        kept = self._store.find(model.key)
        self._done += 1
        if self._watch is not None:
            self._watch(f"{model.op}: {model.probes[0].name}", self._done, self._total)
        if kept is None:
            answer = self._ask(model)
            self._store.keep(model.key, answer.values, self.states)
            self._first = self._first or (model, answer)
            self.asked += len(model.probes)
            self.asked_models += 1
            kept = dict(answer.values)
        names.update({p.output: p.name for p in model.probes})
        return _units_of(model, kept)

    def _ask(self, model: ProbeModel) -> Answer:
        try:
            answer = ask(model, self._store, self._board)
        except NotDeterministicError:
            raise
        except UsageError as error:  # the runner's command does not take the inputs of this op
            if not self._wanted.keep_going:
                raise UsageError(
                    f"probe {model.probes[0].name!r}: {error} (--keep-going leaves {model.op} out)"
                ) from error
            raise BoardError(str(error)) from error
        except (BoardError, LinkError) as error:
            number, path = len(self._store.keys) + 1, self._store.path
            raise BoardError(
                f"answer {number}, probe {model.probes[0].name!r}: {error}; {count(number - 1, 'answer')} of "
                f"{self._total} kept in {path}: the same command goes on there (--keep-going leaves out what fails)"
            ) from error
        self.states = {**self._board.states(), **answer.states}
        self._store.check(self.states)
        return answer


def _divide(op: str, members: list[RecordedUnit]) -> dict[str, list[RecordedUnit]]:
    """Returns the units of an op, and those of a kind of DIVIDED, by key, if both have forms, or the others have one and the
    kind is of OUTSIDE; else none."""
    for kind in DIVIDED:
        of_kind = [m for m in members if KINDS[kind](m.unit.nodes[0], m.graph)]
        parts = {op: [m for m in members if m not in of_kind], key_of(op, kind): of_kind}
        if all(some and (left_forms(some) or (some is of_kind and kind in OUTSIDE)) for some in parts.values()):
            return parts
    return {}


def _compiled(model: ProbeModel) -> Graph:
    """Returns the graph of a model in the reference's arithmetic."""
    return compile_model(model.onnx, "probe.onnx", CompilerOptions(check=False)).graph


def _units_of(model: ProbeModel, values: Mapping[str, Array]) -> list[RecordedUnit]:
    """Returns the unit of each probe with its recorded output. Inputs that the board does not give are those that it was
    given."""
    given = {n: o.codes for p in model.probes for n, o in zip(input_names(p), p.inputs, strict=True)}
    known, graph = {**given, **values}, _compiled(model)
    wanted = {p.output for p in model.probes}
    chosen = [u for u in units(graph) if u.outputs[0] in wanted]
    found = collect(chosen, graph, lambda n: graph.constants.get(n, known.get(n)), Simulator(graph, None).run_unit)
    if len(found) < len(wanted):
        lost = next(p.name for p in model.probes if p.output not in {f.output for f in found})
        raise UnsupportedError(f"probe {lost!r}: the model has no unit of it")
    return found

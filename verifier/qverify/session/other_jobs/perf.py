"""Times the nodes of a model on a board. Nothing is judged."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field

from qverify_agents.errors import LinkError

from qverify.errors import UsageError
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.plural import count
from qverify.report.perf import NodeTimes, Perf
from qverify.session.chosen_sides import choose_board
from qverify.session.models import open_models
from qverify.session.open_board import open_board

MAX_EVENTS_PER_REQUEST = 65536  # keeps the replies small
MAX_NODES = 4096  # that a board accepts in one list (agents/PROTOCOL.md)
MIN_REQUESTS = 10  # over which the runs are spread, so that a terminal shows progress


@dataclass(frozen=True, slots=True)
class PerfRequest:
    """A request to time the nodes of a model. runs: number of runs that are timed. warm_up: number of runs before
    these, whose times do not count; it includes the very first run. deadline_s: time limit of each reply. reach:
    options of the board's address. runner: what runs on the board, as in session.request.Request."""

    models: list[str]
    board: str
    inputs: InputRequest = field(default_factory=InputRequest)
    runs: int = 20
    warm_up: int = 2
    deadline_s: float = 120.0
    reach: dict[str, str] = field(default_factory=dict)
    runner: tuple[tuple[str, str], ...] = ()


def perf(request: PerfRequest, progress: Callable[[int, int], None] | None = None) -> Perf:
    """Returns the times of each node of the model on the board. progress: receives how many runs are done, and of how
    many. Raises LinkError if the board fails or reports no times of nodes, UsageError for a board with a runner or a
    model with too many nodes."""
    side = choose_board(request.board, request.runner, request.reach)
    if side.page is not None:
        raise UsageError(
            f"perf times nodes, and runner {side.engine} tells no times of them; the main job reports the time of its whole "
            "run, and by --runner-option timing= that of its own output"
        )
    models = open_models(request.models)
    graph, prepared = models.graph, prepared_inputs(models.graph, request.inputs)
    board = open_board(models, side, request.deadline_s)
    with closing(board):
        if "per_node" not in board.capabilities:
            raise LinkError(f"{request.board}: this board reports no times of nodes, only final outputs")
        if not 0 < len(graph.nodes) <= MAX_NODES:
            raise UsageError(
                f"perf times 1 to {MAX_NODES} nodes; this model has {len(graph.nodes)}. Cut the model in two"
            )
        start = time.perf_counter()
        board.send(prepared)
        sent_s = time.perf_counter() - start
        board.time_nodes(1)
        first_run_s = time.perf_counter() - start - sent_s
        if request.warm_up > 1:
            board.time_nodes(request.warm_up - 1)
        runs: list[dict[str, float]] = []
        batch = max(1, min(MAX_EVENTS_PER_REQUEST // len(graph.nodes), -(-request.runs // MIN_REQUESTS)))
        start = time.perf_counter()
        while len(runs) < request.runs:
            runs += board.time_nodes(min(batch, request.runs - len(runs)))
            if progress is not None:
                progress(len(runs), request.runs)
        wall_s = (time.perf_counter() - start) / request.runs
        timed = [n for n in graph.nodes if all(n.name in run for run in runs)]
        nodes = tuple(NodeTimes(n.name, n.op, n.covers, tuple(run[n.name] for run in runs)) for n in timed)
        totals = tuple(sum(run.values()) for run in runs)
        notes = _notes(board.runtime, len(graph.nodes) - len(timed))
        return Perf(request.board, board.facts, sent_s, first_run_s, wall_s, totals, nodes, request.warm_up, notes)


def _notes(runtime: str, not_timed: int) -> tuple[str, ...]:
    """Returns notes on how another runtime than qvrt measures its times. not_timed: number of nodes without a time."""
    if runtime == "qvrt":
        return ()
    kind = "each operator ran by itself as a model of its own" if runtime == "litert" else "its own profile"
    notes = [f"times of {runtime}: {kind}"]
    if not_timed:
        notes.append(f"{count(not_timed, 'node')} without a time: computed with another, or on the host")
    return tuple(notes)

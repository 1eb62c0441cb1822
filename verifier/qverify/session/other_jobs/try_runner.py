"""Tries a board's runner step by step: examines the board, runs the runner once, and reads its results. Nothing is
judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from qverify_agents.command_board import CommandBoard, CommandLine

from qverify.engines import RunnerChoice
from qverify.errors import UsageError
from qverify.inputs.sources import prepared_inputs
from qverify.plural import count
from qverify.printable import printable
from qverify.session.chosen_sides import ChosenSides, choose_sides
from qverify.session.request import Request
from qverify.session.runner import open_with_board_model, runner_board
from qverify.tensors.recording import NO_VALUES

TOOLS = ("tar", "setsid", "grep", "sed")  # programs on the board that help to run a runner; tar is required
PROBE = (
    "for t in TOOLS; do command -v $t >/dev/null || echo missing $t; done; echo kernel $(uname -sr); echo probe >probe"
)
OnStep = Callable[[bool, str], None]  # receives whether a step succeeded, and a line that describes it


@dataclass(frozen=True, slots=True)
class RunnerTrial:
    """The result of a trial. failed: the reason of the first failure, "" if every step succeeded."""

    failed: str = ""


def try_runner(request: Request, on_step: OnStep) -> RunnerTrial:
    """Tries the runner of request.board, and runs request.models with it if there are any. on_step: called after each
    step. Raises UsageError for a board without a runner, LinkError if the board cannot be reached."""
    sides = choose_sides(request)
    runner = sides.runner
    if runner is None:
        raise UsageError(_describe_missing_runner(sides))
    on_step(True, f"runner {runner.name}: {', '.join(f'{k} = {v!r}' for k, v in _list_options(runner))}")
    if why := _try_board(request, on_step):
        return RunnerTrial(why)
    return RunnerTrial(_try_run(request, sides, on_step)) if request.models else RunnerTrial()


def _describe_missing_runner(sides: ChosenSides) -> str:
    """Returns the error for a board without a runner, which names the runtime in the board's address, if any."""
    board = sides.board
    other = board is not None and not board.gives_our_bytes
    what_it_runs = (
        f"runs {board.engine}, which qverify drives itself" if board and other else "has no runner (it would run qvrt)"
    )
    return f"{board.where if board else ''}: {what_it_runs}; wanted a board with a runner in boards.toml, or --runner COMMAND"


def _list_options(runner: RunnerChoice) -> list[tuple[str, str]]:
    return [(key, value) for key, values in runner.options.items() for value in values] or [("options", "none")]


def _try_board(request: Request, on_step: OnStep) -> str:
    """Runs a small probe command on the board. Returns why the board cannot run a runner, "" if it can."""
    assert request.board is not None
    board = CommandBoard(request.board, request.deadline_s, request.reach)
    try:
        hello = board.agent.hello
        on_step(True, f"connected: {hello.get('arch', '?')}, lock {hello.get('lock', '?')}")
        started = board.start(CommandLine(PROBE.replace("TOOLS", " ".join(TOOLS))))
        try:
            started.wait()
        finally:
            started.close()
    finally:
        board.close()
    missing = [line.removeprefix("missing ") for line in started.lines if line.startswith("missing ")]
    if "tar" in missing:
        on_step(False, "the board has no tar, by which files are fetched")
        return "no tar"
    without = f" (without {', '.join(missing)}, what a command leaves is found less surely)" if missing else ""
    kernel = next((line for line in started.lines if line.startswith("kernel ")), "kernel unknown")
    on_step(True, f"a command runs there in {started.seconds:.2f} s; {kernel}{without}")
    return "" if started.number("status") == 0 else "a command fails there"


def _try_run(request: Request, sides: ChosenSides, on_step: OnStep) -> str:
    """Runs the runner once on the model. Returns why that failed, "" if it succeeded."""
    request = replace(request, allow_other_model=True)
    models, vendor = open_with_board_model(request, sides)
    assert vendor is not None and sides.board is not None
    prepared = prepared_inputs(models.graph, request.inputs)
    board = runner_board(request, sides.board, vendor, models)
    try:
        recording = board.run(prepared)
        result = board.last
    finally:
        board.close()
    for line in result.lines[-3:] if result is not None else ():
        on_step(True, f"  it says: {printable(line)}")
    if recording.state in NO_VALUES:
        on_step(False, recording.why)
        return recording.why
    assert result is not None
    measured = f", {result.measured_s * 1e3:g} ms by its own timing line" if result.measured_s is not None else ""
    on_step(True, f"ran in {result.seconds:.2f} s{measured}")
    finals = [n for n in models.graph.outputs if n in recording.tensors]
    nodes = len(recording.tensors) - len(finals)
    total = len(models.graph.observable()) - len(models.graph.outputs)
    on_step(
        True,
        f"read by {recording.settings.get('profile', 'their own description')}: {count(len(finals), 'final output')}, {nodes} of {count(total, 'node')}",
    )
    for name, why in recording.missing.items():
        on_step(False, f"{name}: {why}")
    for note in recording.notes:
        on_step(True, f"  {printable(note)}")
    return next(iter(recording.missing.values()), "")

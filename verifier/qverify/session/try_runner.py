"""Tries a board's runner: what the board has, how it is run, what it leaves, and how that is read. Judges nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from qverify_agents.command_board import CommandBoard, CommandLine
from qverify_agents.connect import find_runtime

from qverify.errors import UsageError
from qverify.inputs.sources import prepared_inputs
from qverify.plural import count
from qverify.printable import printable
from qverify.runners import RunnerChoice
from qverify.session.request import Request
from qverify.session.runner import open_with_board_model, runner_board, runner_for

TOOLS = ("tar", "setsid", "grep", "sed")
PROBE = (
    "for t in TOOLS; do command -v $t >/dev/null || echo missing $t; done; echo kernel $(uname -sr); echo probe >probe"
)
Tell = Callable[[bool, str], None]


@dataclass(frozen=True, slots=True)
class Tried:
    """What was tried. failed: the first step that failed, "" where none did."""

    failed: str = ""


def try_runner(request: Request, tell: Tell) -> Tried:
    """Tries the runner of request.board, step by step, with the files of request.models if there are any. tell: called
    with whether a step succeeded, and a line. Raises UsageError for a board without a runner, LinkError where the board
    cannot be reached."""
    runner = runner_for(request.board, request.runner)
    if runner is None or request.board is None:
        raise UsageError(_describe_none(request))
    tell(True, f"runner {runner.name}: {', '.join(f'{k} = {v!r}' for k, v in _shown(runner))}")
    if why := _try_board(request, tell):
        return Tried(why)
    return Tried(_try_run(request, runner, tell)) if request.models else Tried()


def _describe_none(request: Request) -> str:
    """Returns why there is no runner to try: what the board runs, as far as its address tells."""
    board = request.board or ""
    runtime = find_runtime(board, request.reach or {}) if board else ""
    known = f"runs {runtime}, which qverify drives itself" if runtime else "has no runner (it would run qvrt)"
    return f"{board}: {known}; wanted a board with a runner in boards.toml, or --runner COMMAND"


def _shown(runner: RunnerChoice) -> list[tuple[str, str]]:
    return [(key, value) for key, values in runner.options.items() for value in values] or [("options", "none")]


def _try_board(request: Request, tell: Tell) -> str:
    """Runs a small command of our own. Returns why the board cannot carry a runner, "" where it can."""
    assert request.board is not None
    board = CommandBoard(request.board, request.deadline_s, request.reach)
    try:
        hello = board.agent.hello
        tell(True, f"connected: {hello.get('arch', '?')}, lock {hello.get('lock', '?')}")
        started = board.start(CommandLine(PROBE.replace("TOOLS", " ".join(TOOLS))))
        try:
            started.wait()
        finally:
            started.close()
    finally:
        board.close()
    missing = [line.removeprefix("missing ") for line in started.lines if line.startswith("missing ")]
    if "tar" in missing:
        tell(False, "the board has no tar, by which files are fetched")
        return "no tar"
    without = f" (without {', '.join(missing)}, what a command leaves is found less surely)" if missing else ""
    said = next((line for line in started.lines if line.startswith("kernel ")), "kernel unknown")
    tell(True, f"a command runs there in {started.seconds:.2f} s; {said}{without}")
    return "" if started.number("status") == 0 else "a command fails there"


def _try_run(request: Request, runner: RunnerChoice, tell: Tell) -> str:
    """Runs the runner once on the model. Returns why that failed, "" where it did not."""
    request = replace(request, allow_other_model=True)
    models, vendor = open_with_board_model(request, runner)
    assert vendor is not None
    prepared = prepared_inputs(models.graph, request.inputs)
    board = runner_board(request, runner, vendor, models)
    try:
        recording = board.run(prepared)
        result = board.last
    finally:
        board.close()
    for line in result.lines[-3:] if result is not None else ():
        tell(True, f"  it says: {printable(line)}")
    if recording.state == "did not run":
        tell(False, recording.why)
        return recording.why
    assert result is not None
    measured = f", {result.measured_s * 1e3:g} ms by its own timing line" if result.measured_s is not None else ""
    tell(True, f"ran in {result.seconds:.2f} s{measured}")
    finals = [n for n in models.graph.outputs if n in recording.tensors]
    nodes = len(recording.tensors) - len(finals)
    total = len(models.graph.observable()) - len(models.graph.outputs)
    tell(
        True,
        f"read by {recording.settings.get('profile', 'their own description')}: {count(len(finals), 'final output')}, {nodes} of {count(total, 'node')}",
    )
    for name, why in recording.missing.items():
        tell(False, f"{name}: {why}")
    for note in recording.notes:
        tell(True, f"  {printable(note)}")
    return next(iter(recording.missing.values()), "")

"""Decides what runs as each side of a job, before a model is opened or a board connected. Nothing else chooses a runtime, a
runner or an engine: what opens and runs the sides is handed a ChosenSides, or one ChosenSide of it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

from qverify_agents.inventory import find_engine, find_runner
from qverify_agents.printable import last_line

from qverify.capture.rows import MAX_ENGINES
from qverify.engines import QVRT, ChosenSide, RunnerChoice, RunnerPlan, choose, name_page, option, split_engine
from qverify.errors import UsageError
from qverify.printable import printable
from qverify.session.request import Request
from qverify.session.stated_arithmetics import arithmetic_for

if TYPE_CHECKING:
    from qverify.report.learned import Arithmetic
    from qverify.sides.engine_process import EngineChoice

LITERT, LOCAL, BOARD = "litert", "local", "board"
SIMULATOR = "--simulator"
PYTHON = "python"  # option of an engine that has a driver
QUANTIZATION = "quantization"  # option of an engine that runs the toolkit's own files
COMMAND_LINES = ("command", "setup", "teardown")  # options that are command lines of the board's shell
SHELL_TIMEOUT_S = 10.0
Words = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ChosenSides:
    """The sides of a job.

    Attributes:
        board: the board; None without one.
        engines: the engines on this host that are further sides, by the name of their side.
        reference: whether the reference runs, if -m has a model for it.
        simulator: whether the simulator runs.
        reference_engine: the user's engine in place of onnxruntime as the reference (--reference-engine); None without one.
        arithmetic: the arithmetic that the board is stated to have; None without one.
    """

    board: ChosenSide | None = None
    engines: Mapping[str, ChosenSide] = field(default_factory=dict)
    reference: bool = True
    simulator: bool = True
    reference_engine: EngineChoice | None = None
    arithmetic: Arithmetic | None = None

    @property
    def runner(self) -> RunnerChoice | None:
        """The board's page; None without a board, and if qverify drives it itself."""
        return None if self.board is None else self.board.page


def choose_sides(request: Request) -> ChosenSides:
    """Returns what runs as each side of a request. Raises UsageError for a request that contradicts itself, engines that do
    not exist and options that they do not have, BadAddress for an address that no board can have."""
    engine, board = request.reference_engine, None
    if engine:
        _check_without_graph(request)
    if request.board is not None:
        board = choose_board(request.board, request.runner, request.reach, request.quantization)
        if engine and board.page is None:
            raise UsageError(
                "--reference-engine: the model has operators that qvrt and qverify's onnxruntime do not know; say what runs it "
                "on the board: --runner 'COMMAND' with -m quant.onnx,board.model (a dump of it: qverify infer and compare)"
            )
    elif request.runner:
        raise UsageError("--runner, --runtime and --runner-option say what runs on a board; give -b BOARD")
    elif request.repeat > 1:
        raise UsageError("--repeat runs a board again; give -b BOARD")
    elif request.checks:
        raise UsageError(f"--check {request.checks[0]} runs a board again; give -b BOARD")
    if request.arithmetic and not request.run_sim:
        raise UsageError("--arithmetic is computed by the simulator; give -s True")
    if request.paranoid and not (board is not None and request.run_sim):
        raise UsageError("--paranoid compares a board with the simulator on other inputs; give -b BOARD and -s True")
    if request.reference_python and not (engine or request.reference_spread):
        raise UsageError("--reference-python takes part in --reference-spread or --reference-engine; give one, too")
    arithmetic = None if request.arithmetic is None else arithmetic_for(request.board, request.arithmetic)
    if engine and arithmetic is not None:
        raise UsageError("--arithmetic needs the integer graph, which --reference-engine does not give")
    return ChosenSides(
        board,
        _choose_engines(request.simulators, request.quantization),
        request.run_reference,
        request.run_sim and not engine,
        _choose_reference_engine(request) if engine else None,
        arithmetic,
    )


def choose_board(
    address: str, words: Words = (), reach: Mapping[str, str] | None = None, quantization: Sequence[str] = ()
) -> ChosenSide:
    """Returns what runs on a board: the runner of the inventory with the options given separately, or what its address
    names. words, reach, quantization: as in Request. Raises UsageError for options that no runner has, BadAddress."""
    from qverify_agents.resolve_address import find_option, find_runtime

    where, listed = find_runner(address)
    if {key for key, _ in words} & {
        "runtime",
        "command",
    }:  # this may be another runner than the one listed for the board
        listed = tuple((key, value) for key, value in listed if key not in ("runtime", "command"))
    page = choose((*listed, *words), "--runner-option" if words else where)
    reach = reach or {}
    if page is not None:
        _check_options(page)
        page = _with_own_python(_with_toolkit_files(page, quantization)) if address == LOCAL else page
        return ChosenSide(BOARD, page.name, address, reach, page, "last")
    runtime = find_runtime(address, reach)
    if not runtime:
        return ChosenSide(BOARD, QVRT, address, reach)
    is_unchanged = runtime == LITERT or find_option(address, reach, "form") == "original"
    return ChosenSide(BOARD, runtime, address, reach, file="network" if is_unchanged else "integer")


def engine_words(text: str) -> Words:
    """Returns the pairs of key and value that an engine's text stands for, the first of them ("runtime", NAME). A name of
    the inventory stands for its table [engines.NAME], to which the text may add options. Raises UsageError, BadAddress."""
    (key, name), *options = split_engine(text)
    listed = find_engine(name)
    return name_page((*listed, *options) if listed else ((key, name), *options))


def choose_engine(text: str) -> RunnerChoice:
    """Returns the engine of a further side that a text stands for. Raises UsageError if there is none, and for options that
    it does not have, BadAddress for an entry of the inventory that cannot be used."""
    page = choose(engine_words(text), SIMULATOR)
    if page is None:
        raise UsageError(f"{SIMULATOR} {text}: qvrt and the simulator are sides of their own; wanted another engine")
    _check_options(page)
    return page


def _choose_engines(texts: Sequence[str], quantization: Sequence[str]) -> dict[str, ChosenSide]:
    """Returns the engines by the name of their side: the engine's name, with a number if it is there before."""
    if len(texts) > MAX_ENGINES:
        raise UsageError(
            f"{SIMULATOR}: {len(texts)} engines; at most {MAX_ENGINES}, since every two sides are compared"
        )
    engines: dict[str, ChosenSide] = {}
    for text in texts:
        page = choose_engine(text)
        same = sum(chosen.engine == page.name for chosen in engines.values())
        side = f"{page.name}-{same + 1}" if same else page.name
        file: Literal["float", "network"] = "float" if quantization and page.takes_float else "network"
        engines[side] = ChosenSide(
            side, page.name, LOCAL, {}, _with_own_python(_with_toolkit_files(page, quantization)), file
        )
    return engines


def _with_toolkit_files(page: RunnerChoice, files: Sequence[str]) -> RunnerChoice:
    """Returns the page of an engine on this host, with the file of --quantization as its option if the engine has such an
    option, the user gave none, and the toolkit's other files lie beside it."""
    if QUANTIZATION not in page.page.OPTIONS or option(page.options, QUANTIZATION) or len(files) != 1:
        return page
    path = os.path.abspath(files[0])
    stem = next((path.removesuffix(ending) for ending in page.beside if path.endswith(ending)), "")
    if not stem or not all(os.path.isfile(stem + ending) for ending in page.beside):
        return page
    return replace(page, options={**page.options, QUANTIZATION: (path,)})


def _with_own_python(page: RunnerChoice) -> RunnerChoice:
    """Returns the page of an engine on this host, with this interpreter as its own if it has the engine's package and the user
    named none."""
    if not page.package or option(page.options, PYTHON) or find_spec(page.package) is None:
        return page
    return replace(page, options={**page.options, PYTHON: (shlex.quote(sys.executable),)})


def _check_without_graph(request: Request) -> None:
    """Raises UsageError for what needs an integer graph, which a reference engine does not give."""
    given = {"--reference-spread": request.reference_spread, "--capture": request.capture is not None}
    if option := next((o for o, on in {**given, "--paranoid": request.paranoid}.items() if on), ""):
        raise UsageError(f"{option} needs an integer graph, which --reference-engine does not give; leave one out")
    if request.quantization:
        raise UsageError(
            "--quantization with --reference-engine: first write the ONNX with `qverify quantize --from`, and give that"
        )


def _choose_reference_engine(request: Request) -> EngineChoice:
    """Returns the engine that --reference-engine and --reference-python describe. Raises UsageError."""
    from qverify.sides.engine_process import LIBRARY, ONNXRUNTIME, EngineChoice

    engines, python = request.reference_engine, request.reference_python
    libraries = tuple(engine.removeprefix(LIBRARY) for engine in engines if engine.startswith(LIBRARY))
    callables = [engine for engine in engines if not engine.startswith(LIBRARY)]
    if len(callables) > 1 or (callables and libraries):
        raise UsageError(
            f"--reference-engine {callables[0]}: wanted one or more lib:PATH, or one module:callable, or {ONNXRUNTIME} alone"
        )
    entry = "" if not callables or callables[0] == ONNXRUNTIME else callables[0]
    module, colon, name = entry.rpartition(":")
    if entry and not (colon and module and name.isidentifier()):
        raise UsageError(
            f"--reference-engine {entry}: wanted lib:PATH, module:callable, FILE.py:callable or {ONNXRUNTIME}"
        )
    if missing := next((path for path in libraries if not os.path.isfile(path)), None):
        raise UsageError(f"--reference-engine lib:{missing}: no such file")
    if module.endswith(".py"):
        if not os.path.isfile(module):
            raise UsageError(f"--reference-engine {entry}: no such file: {module}")
        entry = f"{os.path.abspath(module)}:{name}"
    if len(python) > 1:
        raise UsageError(f"--reference-python {python[1]}: a reference engine runs in one interpreter; give one")
    if callables == [ONNXRUNTIME] and not python:
        raise UsageError(
            f"--reference-engine {ONNXRUNTIME}: give --reference-python, the interpreter whose onnxruntime runs the model"
        )
    paths, interpreter = tuple(map(os.path.abspath, libraries)), python[0] if python else ""
    return EngineChoice(paths, entry, interpreter, request.reference_timeout_s)


def _check_options(page: RunnerChoice) -> None:
    """Raises UsageError for options that are wrong whatever the model is: regular expressions, profile, command lines."""
    from qverify import profiles
    from qverify.sides.runner_plan import common_options

    common_options(RunnerPlan("true"), page.options)
    if (name := option(page.options, "profile")) and name not in profiles.names():
        raise UsageError(f"runner option profile={name}: no such profile; there are: {', '.join(profiles.names())}")
    prefix = option(page.options, "prefix")
    for key in COMMAND_LINES:
        line = option(page.options, key)
        if line and (why := find_syntax_error(f"{prefix} {line}" if prefix and key == "command" else line)):
            raise UsageError(f"runner option {key}={line}: {why}; wanted a command line of a POSIX shell")


def find_syntax_error(line: str) -> str:
    """Returns why this host's shell cannot parse the line; "" if it can, or if there is no shell. The line is not
    run."""
    shell = shutil.which("sh")
    if shell is None or "\0" in line:
        return "a byte of 0" if "\0" in line else ""
    try:
        parsed = subprocess.run(
            [shell, "-n"], input=line.encode(), capture_output=True, timeout=SHELL_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    message = printable(last_line(parsed.stderr.decode(errors="replace")).partition(": ")[2])
    return (message.partition(": ")[2] or message or "a syntax error") if parsed.returncode else ""

"""Engines: what runs a network in place of qvrt, one per file. NAME.py is the engine of `--runtime NAME` on a board, and
of `--simulator NAME` on this host. A page defines

WANTED   the programs and models that it runs, in one line, for --help
CHECKED  how it was tested, for every report; "" if it has no vendor
OPTIONS  its options in --runner-option and [boards.NAME.runner], each with a line of help
files(options) -> Mapping[str, bytes]    files that the board needs in addition to model and inputs, by file name
plan(request) -> RunnerPlan              how to run it, how to recognise success, and where it writes

Most engines have Python bindings. Their page starts a driver (agents/qverify_drivers) in the engine's interpreter; its
files and plan are those of driven().

A page may define BUILD, the command line that makes its model of an ONNX ({onnx}, {model}) where the user gives none
(--build-cmd of triage). It may define ARITHMETICS: the shipped arithmetics that describe how it rounds; FROM_FLOAT: whether
it takes the float ONNX of which --quantization states the quantization; BESIDE: endings of the files of which the first is
--quantization's, where these are the engine's own; STATES: patterns of the files in its folder `cache` that state its own
quantization of a float ONNX (qverify quantize --with); PACKAGE: the module that its driver imports, if an extra of qverify
installs it; TAKES: the contents of a model's file that it takes
(onnx_model/other_files.py), of which others that are recognised are refused before it starts.

A page never reads the files that its program writes. A profile does, so that dumps that a user copied by hand are read
by the same code. A page never communicates with a board: sides/runner_board.py does, and request.ask() runs a short
command there. The file names are the registry; `command` is the page for a user's own command line."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from qverify.closest_names import did_you_mean
from qverify.errors import UsageError
from qverify.pages import load_page, page_names
from qverify.tensors.spec import TensorSpec
from qverify.vendor_files.vendor_dump import ReadingOptions

Options = Mapping[str, tuple[str, ...]]
QVRT, COMMAND = "qvrt", "command"
_NEXT_KEY = re.compile(r",(?=[A-Za-z_]+=)")
COMMON = {
    "environment": "NAME=VALUE for the command's environment; may be repeated",
    "folder": "the board's folder in which it runs  [default: that of its outputs]",
    "setup": "a command line that runs before it",
    "teardown": "a command line that runs after it, also where it failed",
    "prefix": "words before the command, as 'taskset -c 4-7' or 'nice -n -5'",
    "success": "a regular expression that a line of its output must match",
    "failure": "a regular expression that no line of its output may match",
    "timing": "a regular expression whose group (named ms, us or s) is the time of one inference",
    "profile": "the profile that reads its files  [default: recognised by content]",
    "dtype": "[NAME=]DTYPE of files that do not state it; may be repeated",
    "ledger": "NAME=COMMAND: a version for the report, the first line that COMMAND prints on the board; may be repeated",
    "per_node": "0: its files are final outputs only, also where they have other names of the model",
}
REPEATABLE = ("environment", "dtype", "ledger", "config", "session")  # options that may be given more than once


@dataclass(frozen=True, slots=True)
class CommandReply:
    """The result of a command on the board. status: its exit status. text: its output, including stderr."""

    status: int
    text: str


@dataclass(frozen=True, slots=True)
class RunnerInput:
    """One prepared input on the board. spec: its spec in the model. path: path of a file with its aligned bytes. npy:
    path of a .npy file with its valid elements."""

    spec: TensorSpec
    path: str
    npy: str


@dataclass(frozen=True, slots=True)
class RunnerRequest:
    """A request for one run on one set of inputs. All paths are absolute paths on the board.

    Attributes:
        model: path of the model.
        model_name: name of the model's file on the host.
        inputs: the inputs, in the model's order.
        outputs: specs of the final outputs, in the model's order.
        out: path of a new, empty folder for the outputs.
        files: paths of the files that the page's files() returned, by name.
        dump_all: True if the outputs of all nodes are requested, provided that the runtime can write them.
        options: the runner's options.
        emulator: program that must precede a program of the board, or "" on a real board.
        ask: runs a command line on the board and returns its reply; equal lines are run once per connection.
        put: places a file beside the model and returns its path.
        taps: names of the tensors besides the outputs that are wanted, in the model's order.
        tensors: for a .tflite, where each tensor of the graph lies in it (sides/tflite_tensors.py), by name.
        step, feed: number of the step of a sequence, and its feed (forced, free-running); None and "" without one.
    """

    model: str
    model_name: str
    inputs: tuple[RunnerInput, ...]
    outputs: tuple[TensorSpec, ...]
    out: str
    files: Mapping[str, str]
    dump_all: bool
    options: Options
    emulator: str
    ask: Callable[[str], CommandReply]
    put: Callable[[str, bytes], str]
    taps: tuple[str, ...] = ()
    tensors: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    step: int | None = None
    feed: str = ""


@dataclass(frozen=True, slots=True)
class RunnerPlan:
    """The plan of one run.

    Attributes:
        line: command line for the board's POSIX shell.
        environment: variables of the command's environment.
        folder: folder in which the command runs, or "" for that of its outputs.
        collect: absolute path of the folder that it writes to, or "" for request.out; must be empty before the run.
        setup, teardown: command lines to run before and after it.
        success: regular expression that a line of its output must match.
        failure: regular expression that no line of its output may match.
        timing: regular expression for the time of one inference, as in COMMON.
        profile: name of the profile that reads its files, or "" to recognise them by content.
        reading: options of that profile.
        per_node: False if only files of final outputs are read, and none of other nodes.
        engine, version: name and version of the runtime, for the report.
        texts: contents of files to add to its outputs, by name, such as the text of model_info.
        notes: notes for the report.
        answer: name of the file of its outputs that states engine, versions and placement (EngineAnswer), or "".
    """

    line: str
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""
    collect: str = ""
    setup: str = ""
    teardown: str = ""
    success: str = ""
    failure: str = ""
    timing: str = ""
    profile: str = ""
    reading: ReadingOptions = field(default_factory=ReadingOptions)
    per_node: bool = True
    engine: str = ""
    version: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    answer: str = ""


@dataclass(slots=True)
class RunnerResult:
    """The result of one run.

    Attributes:
        folder: folder on this host with the new regular files that the run wrote.
        why: why the run did not succeed, or "" if it did.
        refused: files that are not in the folder, with the reason.
        seconds: time from start to end, measured on this host.
        measured_s: time that the run's own timing line states.
        lines: the first and last lines of its output.
    """

    folder: str
    why: str = ""
    refused: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    measured_s: float | None = None
    lines: list[str] = field(default_factory=list)


class RunnerPage(Protocol):
    """The interface of a runner's module."""

    WANTED: str
    CHECKED: str
    OPTIONS: Mapping[str, str]

    def files(self, options: Options) -> Mapping[str, bytes]: ...
    def plan(self, request: RunnerRequest) -> RunnerPlan: ...


@dataclass(frozen=True, slots=True)
class RunnerChoice:
    """A runner and its options, checked against its page."""

    name: str
    options: Options = field(default_factory=dict)

    @property
    def page(self) -> RunnerPage:
        return page(self.name)

    @property
    def build(self) -> str | None:
        """The command line that makes the engine's model of an ONNX, as the page states it; None if it states none."""
        command: str | None = getattr(self.page, "BUILD", None)
        return command

    @property
    def arithmetics(self) -> tuple[str, ...]:
        """The shipped arithmetics that describe how the engine rounds; () if there is none."""
        names: tuple[str, ...] = getattr(self.page, "ARITHMETICS", ())
        return names

    @property
    def takes_float(self) -> bool:
        """Whether it takes the float ONNX of which --quantization states the quantization."""
        return bool(getattr(self.page, "FROM_FLOAT", False))

    @property
    def contents(self) -> tuple[str, ...]:
        """The contents of a model's file that it takes; () if the page does not state them."""
        taken: tuple[str, ...] = getattr(self.page, "TAKES", ())
        return taken

    @property
    def states(self) -> tuple[str, ...]:
        """Patterns of the files in its folder `cache` that state its quantization of a float ONNX; () if it has none."""
        patterns: tuple[str, ...] = getattr(self.page, "STATES", ())
        return patterns

    @property
    def package(self) -> str:
        """The module that its driver imports, if it can be installed beside qverify; "" if not."""
        module: str = getattr(self.page, "PACKAGE", "")
        return module

    @property
    def beside(self) -> tuple[str, ...]:
        """Endings of the engine's own files, the first of them that of --quantization's; () if it has none."""
        endings: tuple[str, ...] = getattr(self.page, "BESIDE", ())
        return endings


@dataclass(frozen=True, slots=True)
class ChosenSide:
    """The program that is a board, or an engine on this host (session/chosen_sides.py decides it).

    Attributes:
        side: its name in the report.
        engine: what computes: qvrt, a runtime of qverify's worker, or the name of an engine's page.
        where: the board's address, or "local".
        reach: options of that address that were given separately.
        page: the engine's page with its options; None for what qverify drives itself.
        file: the file that it runs: the compiled model.bin; the integer form of the ONNX; the network itself (the quantized
            ONNX, or the .tflite); the float ONNX, which the engine quantizes; or the last file of -m.
    """

    side: str
    engine: str
    where: str
    reach: Mapping[str, str] = field(default_factory=dict)
    page: RunnerChoice | None = None
    file: Literal["model.bin", "integer", "network", "float", "last"] = "model.bin"

    @property
    def gives_our_bytes(self) -> bool:
        """The rule of its pairs: whether its bytes must be the simulator's. If not, a node of it is judged by itself,
        recomputed from its own tensors (VERDICTS.md, "A board that is not qvrt")."""
        return self.engine == QVRT


BUILT_BY_DRIVER = "cp {onnx} {model}"  # BUILD of an engine whose driver takes the ONNX itself
ANSWER = "answer.json"  # what a driver writes beside its tensors.npz (agents/qverify_drivers/drive.py)
PYTHON = "the interpreter that has the engine's packages, on the machine where it runs  [default: python3]"
DRIVER_OPTIONS = {
    "python": PYTHON,
    "network": "1: the engine may reach the network  [default: 0, where the host allows]",
}


def driver_files(name: str, *others: str) -> dict[str, bytes]:
    """Returns the files of the driver of an engine, by file name: drive.sh, drive.py, drive_NAME.py and the others that it
    names."""
    spec = find_spec("qverify_drivers")
    if spec is None or not spec.submodule_search_locations:
        raise UsageError("the package qverify_drivers is missing; install qverify again")
    folder = Path(next(iter(spec.submodule_search_locations)))
    return {file: (folder / file).read_bytes() for file in ("drive.sh", "drive.py", f"drive_{name}.py", *others)}


def driver_plan(name: str, request: RunnerRequest, taps_change_the_model: bool = True) -> RunnerPlan:
    """Returns the plan of an engine whose driver runs the request. taps_change_the_model: whether reading inner tensors
    makes it another model, so that the untouched one must run, too."""
    taps = list(request.taps) if request.dump_all else []
    content = {
        "model": request.model,
        "inputs": [{"name": i.spec.name, "npy": i.npy} for i in request.inputs],
        "outputs": [spec.name for spec in request.outputs],
        "taps": taps,
        "out": request.out,
        "options": {key: list(values) for key, values in request.options.items()},
        "files": dict(request.files),
        "tensors": {name: dict(entry) for name, entry in request.tensors.items()},
    }
    file = "request.json" if taps or not taps_change_the_model else "finals.json"
    path = request.put(file, json.dumps(content).encode())
    network = "0" if option(request.options, "network", "0") == "0" else "1"
    words = [network, *_interpreter(request.options), request.files["drive.py"], name, path]
    line = f"sh {shlex.join([request.files['drive.sh'], *words])}"
    return RunnerPlan(line, engine=name, answer=ANSWER)


def _interpreter(options: Options) -> list[str]:
    """Returns the words of the option python=. Raises UsageError for a value that names no program."""
    text = option(options, "python", "python3")
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"python={text}: {error}; wanted {PYTHON}") from error
    if not words:
        raise UsageError(f"python=: no interpreter is named; wanted {PYTHON}")
    return words


Files = Callable[[Options], Mapping[str, bytes]]
Plan = Callable[[RunnerRequest], RunnerPlan]


def driven(name: str, *others: str, taps_change_the_model: bool = True, profile: str = "") -> tuple[Files, Plan]:
    """Returns files() and plan() of an engine's page whose driver runs everything. others: further files of the driver.
    profile: the one that reads its tensors, if they have a toolkit's names."""

    def files(options: Options) -> Mapping[str, bytes]:
        return driver_files(name, *others)

    def plan(request: RunnerRequest) -> RunnerPlan:
        return replace(driver_plan(name, request, taps_change_the_model), profile=profile)

    return files, plan


def names() -> list[str]:
    """Returns the names of the runners, sorted."""
    return page_names(__name__)


def page(name: str, where: str = "--runtime") -> RunnerPage:
    """Returns a runner's module. where: the option that named it, for the message. Raises UsageError for an unknown
    name."""
    if name not in names():
        known = (*(("qvrt", "onnxruntime", "litert") if where == "--runtime" else ()), *names())
        raise UsageError(
            f"{where} {name}: no such engine; there are: {', '.join(known)}{did_you_mean(name.lower(), known)}"
        )
    return cast(RunnerPage, load_page(__name__, name, ("WANTED", "CHECKED", "OPTIONS", "files", "plan")))


def choose(words: tuple[tuple[str, str], ...], where: str = "--runner-option") -> RunnerChoice | None:
    """Returns the runner that these pairs of key and value describe, or None for qvrt or without any. `runtime` names
    the page; `command` without `runtime` selects the page `command`. A later value replaces an earlier one, except for
    the keys in REPEATABLE. Raises UsageError for a key that the page does not have."""
    options: dict[str, tuple[str, ...]] = {}
    for key, value in words:
        options[key] = (*options.get(key, ()), value) if key in REPEATABLE else (value,)
    if not options:
        return None
    default = (COMMAND,) if COMMAND in options else ()
    name = (options.pop("runtime", None) or default or ("",))[-1]
    if name in ("", QVRT):
        key = next(iter(options), "")
        if not key:
            return None
        raise UsageError(f"{where} {key}: no runner is given; wanted --runner 'COMMAND LINE' or --runtime NAME, too")
    named_by = "--runtime" if where == "--runner-option" else where if where.startswith("--") else f"{where} runtime ="
    known_keys = {**COMMON, **page(name, named_by).OPTIONS}
    if unknown := [key for key in options if key not in known_keys]:
        raise UsageError(
            f"{where} {unknown[0]}: runner {name} has no such option; known: {', '.join(sorted(known_keys))}"
            + did_you_mean(unknown[0], known_keys)
        )
    return RunnerChoice(name, options)


def split_engine(text: str) -> tuple[tuple[str, str], ...]:
    """Returns the pairs of key and value that `NAME,KEY=VALUE,...` stands for, the first of them ("runtime", NAME). A
    comma within a value is kept unless KEY= follows it. Raises UsageError for another form."""
    name, *rest = _NEXT_KEY.split(text)
    pairs = [tuple(part.split("=", 1)) for part in rest]
    if not name or "=" in name or "," in name:
        raise UsageError(f"engine {text!r}: wanted NAME or NAME,KEY=VALUE,...; names: {', '.join(names())}")
    return name_page((("runtime", name), *((key, value) for key, value in pairs)))


def name_page(words: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Returns the pairs of an engine with its page as the runtime, which some options decide."""
    if words[0][1] == "onnxruntime" and {"ep", "library"} & {key for key, _ in words}:
        return (("runtime", "onnxruntime_ep"), *words[1:])  # execution providers that are libraries of their own
    return words


def option(options: Options, key: str, default: str = "") -> str:
    """Returns the last value of an option, or the default if it was not given."""
    return options.get(key, (default,))[-1]

"""Runners: what computes on a board whose runtime is not qvrt, one runtime per file. NAME.py is what `--runtime NAME` runs.
A page defines

WANTED   what it runs, in a line, for --help
CHECKED  what it was tried with, for every report; "" where there is no vendor
OPTIONS  its options, of --runner-option and [boards.NAME.runner], each with a line of help
files(options) -> Mapping[str, bytes]         what must be on the board beside model and inputs, by file name
plan(request) -> RunnerPlan                   how it is run, what success is, what it writes

A page never reads what was written: that is a profile's duty, so that dumps carried by hand go through the same code. It
never speaks to a board: sides/runner_board.py does, and request.ask() runs a short command there. The file name is the
registry; `command` is the page of a command line of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, cast

from qverify.errors import UsageError
from qverify.pages import load_page, page_names
from qverify.tensors.spec import TensorSpec
from qverify.vendor_files.vendor_dump import ReadingOptions

Options = Mapping[str, tuple[str, ...]]
COMMAND = "command"
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
    "per_node": "0: its files are final outputs only, also where they have other names of the model",
}
MANY = ("environment", "dtype")  # options that may be given more than once


@dataclass(frozen=True, slots=True)
class CommandReply:
    """What a command on the board answered. status: its exit status. text: its output, stderr included."""

    status: int
    text: str


@dataclass(frozen=True, slots=True)
class RunnerInput:
    """One prepared input on the board. spec: of the model. path: of its aligned bytes. npy: of its valid elements as a
    .npy file."""

    spec: TensorSpec
    path: str
    npy: str


@dataclass(frozen=True, slots=True)
class RunnerRequest:
    """One run on one set of inputs. All paths are absolute paths of the board. model: what it runs. model_name: the name
    of its file on the host. inputs: in the model's order. outputs: the specs of the final outputs, in theirs. out: a
    new, empty folder. files: of what files() gave, by name. dump_all: whether every node's output is wanted, where the
    runtime can write them. emulator: the program that must precede a program of the board, "" on a real board. ask:
    runs a command line on the board and returns its answer; the same line is run once per connection."""

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


@dataclass(frozen=True, slots=True)
class RunnerPlan:
    """How a run is done. line: of the board's POSIX shell. collect: an absolute folder that it writes to if not to
    request.out; it must be empty before the run. success: a line of its output must match it; failure: none may.
    timing: as in COMMON. profile: that reads its files, "" to recognise them by content. reading: options for that.
    per_node: whether files of nodes, not only of final outputs, are read. engine, version: of the runtime, for the
    report. texts: files beside its outputs that are made from the board's answers, by name (a model_info). notes: for
    the report."""

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


@dataclass(slots=True)
class RunnerResult:
    """What one run gave. folder: on this host, with the new regular files that it left. why: why it did not succeed, ""
    where it did. refused: files that were left out, with the reason. seconds: from its start to its end as seen from
    here. measured_s: by its own timing line. lines: the first and last of its output."""

    folder: str
    why: str = ""
    refused: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    measured_s: float | None = None
    lines: list[str] = field(default_factory=list)


class RunnerPage(Protocol):
    """What a runner's module defines."""

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


def names() -> list[str]:
    """Returns the names of the runners, sorted."""
    return page_names(__name__)


def page(name: str, where: str = "--runtime") -> RunnerPage:
    """Returns a runner's module. where: for the message. Raises UsageError for an unknown name."""
    if name not in names():
        raise UsageError(f"{where} {name!r}: no such runner; there are: qvrt, {', '.join(names())}")
    return cast(RunnerPage, load_page(__name__, name, ("WANTED", "CHECKED", "OPTIONS", "files", "plan")))


def choose(words: tuple[tuple[str, str], ...], where: str = "--runner-option") -> RunnerChoice | None:
    """Returns the runner that these pairs of key and value describe; None for none, or for qvrt. `runtime` names the
    page, `command` without it is the page of that name. A later value replaces an earlier one, but for MANY. Raises
    UsageError for a key that the page does not have."""
    given: dict[str, tuple[str, ...]] = {}
    for key, value in words:
        given[key] = (*given.get(key, ()), value) if key in MANY else (value,)
    if not given:
        return None
    default = (COMMAND,) if COMMAND in given else ()
    name = (given.pop("runtime", None) or default or ("",))[-1]
    if name in ("", "qvrt"):
        key = next(iter(given), "")
        if not key:
            return None
        raise UsageError(f"{where} {key}: no runner is given; wanted --runner 'COMMAND LINE' or --runtime NAME, too")
    known = {**COMMON, **page(name, "--runtime" if where.startswith("--") else f"{where} runtime =").OPTIONS}
    if unknown := [key for key in given if key not in known]:
        raise UsageError(f"{where} {unknown[0]}: runner {name} has no such option; known: {', '.join(sorted(known))}")
    return RunnerChoice(name, given)


def option(options: Options, key: str, default: str = "") -> str:
    """Returns the value of an option that is given once."""
    return options.get(key, (default,))[-1]

"""A board with a runner: sends the model and the inputs, starts the runner there, and reads the files that it wrote."""

from __future__ import annotations

import io
import os
import re
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
from qverify_agents.command_board import CommandBoard, CommandLine
from qverify_agents.deadline import Deadline
from qverify_agents.errors import LinkError, LinkTimeout
from qverify_agents.printable import one_line
from qverify_agents.supervised_command import RunningCommandLine

from qverify.engines import (
    ChosenSide,
    CommandReply,
    RunnerChoice,
    RunnerInput,
    RunnerPlan,
    RunnerRequest,
    RunnerResult,
    option,
)
from qverify.errors import BadFileError, BoardError, UnreadError, UsageError
from qverify.model_bin.empty_inputs import empty_inputs, inputs_of_file
from qverify.model_bin.graph import Graph
from qverify.onnx_model.dequantized_names import OnnxNames
from qverify.onnx_model.other_files import ONNX, name_content
from qverify.plural import count
from qverify.sides.board_connection import BoardConnection
from qverify.sides.board_events import finite_number
from qverify.sides.engine_answer import take_answer
from qverify.sides.runner_files import unpack
from qverify.sides.runner_plan import RunnerOutput, common_options, exit_failure, wants_finals_only
from qverify.sides.runner_recording import read_folder
from qverify.sides.tflite_files import TfliteFiles
from qverify.tensors.digest import tensor_digest
from qverify.tensors.prepared import PreparedInput, PreparedInputs
from qverify.tensors.recording import ASKED, FINALS_ONLY, NO_VALUES, Array, Recording, Untapped
from qverify.tensors.spool import Spool

FACTS = ("arch", "system", "temperature_c", "frequency_mhz")  # fields of the HELLO message that reports include
WITHOUT_DUMPS = "the runner failed without dumps"
MAX_NAME_LENGTH = 100  # characters of a file name on the board, without its ending
MAX_VERSION = 200  # characters of one version of the ledger
MAX_REPLY_LENGTH = 1 << 22  # characters of output of a command that a page runs by RunnerRequest.ask


class RunnerBoard:
    """One board with one runner and one model, which is a file of any kind. run() records a fault of the board in the
    Recording and does not raise it; it raises UsageError if the runner's options do not fit the model. graph: the graph
    of the reference, whose final outputs the board must write. The constructor raises LinkError if the board cannot be
    reached. side: what runs, which has a page. names: the ONNX's names of tensors that the graph does not have. tensors: for a .tflite, where the graph's tensors lie in it. files: of a .tflite alone, whose runner takes and writes arrays as the file has
    them; None for an engine with a driver, which moves their axes itself."""

    slow_link = False
    received_digests: Mapping[str, str] = {}  # always empty: a runner sends nothing before its end

    def __init__(
        self,
        side: ChosenSide,
        model: tuple[str, bytes],
        graph: Graph,
        deadline_s: float = 120.0,
        model_sha256: str = "",
        names: OnnxNames | None = None,
        tensors: Mapping[str, Mapping[str, Any]] | None = None,
        files: TfliteFiles | None = None,
    ):
        assert side.page is not None
        _refuse_content(side.page, *model)
        self.uri, self.graph, self._choice, self._deadline_s = side.where, graph, side.page, deadline_s
        self._side, self._tensors, self._files = side.side, tensors or {}, files
        self._name, self._model, self._graph_sha256 = model[0], model[1], model_sha256
        self._names = names or OnnxNames()
        self._replies: dict[str, CommandReply] = {}
        self._spool = Spool()
        self._prepared: PreparedInputs | None = None
        self._dump_all = False
        self._connection = BoardConnection(side.where, deadline_s, side.reach)
        self._values: Mapping[str, Array] = {}
        self.last: RunnerResult | None = None

    @property
    def _board(self) -> CommandBoard:
        return self._connection.board

    def run(
        self,
        prepared: PreparedInputs,
        progress: Callable[[int, int], None] | None = None,
        pull: Literal["differ", "all"] = "differ",
        dump_all: bool = True,
        is_repeated: bool = False,
    ) -> Recording:
        """Runs the model once. Returns every tensor that the runner wrote, with its values. dump_all: True to request
        the outputs of every node, if the runner can write them; where this changes its command, the runner also runs
        without that request, unless the run `is_repeated`."""
        start = time.perf_counter()
        self._prepared, self._dump_all = prepared, dump_all
        recording = Recording(
            self._side, self._choice.name, host=self.uri, finals=self.graph.outputs, runtime=self._choice.name
        )
        try:
            recording = self._connection.run(lambda: self._recording(prepared, dump_all))
            recording.ledger |= self._connection.run(self._ask_versions)
            if dump_all and not is_repeated:
                recording.untapped = self._connection.run(lambda: self._run_without_dumps(prepared, recording))
        except LinkError as error:
            recording.state, recording.why = "did not run", str(error)
        except UnreadError as error:
            recording.state, recording.why = "not read", one_line(str(error))
        except (BoardError, BadFileError) as error:
            recording.state, recording.why = "did not run", one_line(str(error))
        if recording.state in NO_VALUES:
            recording.tensors, recording.specs = {}, {n: self.graph.spec(n) for n in self.graph.outputs}
            recording.missing = dict.fromkeys(recording.specs, recording.why)
        if self._connection.recovered:
            recording.settings["recovered"] = self._connection.recovered
            recording.notes.append(self._connection.recovered)
        if self._board.agent.place:
            recording.notes.append(f"the board is {self._board.agent.place}")
        recording.side, recording.is_engine = self._side, self._side != "board"
        recording.inputs_sha256, recording.duration_s = prepared.sha256, time.perf_counter() - start
        recording.link = self._board.agent.counters
        self._values = recording.tensors
        return recording

    def _recording(self, prepared: PreparedInputs, dump_all: bool) -> Recording:
        plan, placed, run = self._plan(prepared, dump_all)
        with tempfile.TemporaryDirectory(prefix="qverify-runner-") as folder:
            self.last = result = self._execute(plan, placed, run, folder)
            if result.why:
                raise BoardError(f"{result.why}{self._files.hint(prepared) if self._files is not None else ''}")
            recording = self._read(plan, folder, result)
        if not plan.answer:
            recording.engine, recording.version = plan.engine or self._choice.name, plan.version
        recording.host, recording.runtime = self.uri, self._choice.name
        command = plan.line.replace(run, "RUN")
        recording.settings |= {"uri": self.uri, "runner": self._choice.name, "command": command, **self.facts}
        if wants_finals_only(self._choice.options):
            recording.settings[FINALS_ONLY] = ASKED
        recording.settings["seconds_of_the_command"] = round(result.seconds, 6)
        if result.measured_s is not None:
            recording.settings["measured_s"] = result.measured_s
        elif pattern := option(self._choice.options, "timing"):
            recording.notes.append(
                f"no time: no line of the runner's output has a number where timing={pattern} wants it"
            )
        caveat = self._choice.page.CHECKED
        recording.notes += [*plan.notes, *([f"engine {self._choice.name}: {caveat}"] if caveat else [])]
        return recording

    def _run_without_dumps(self, prepared: PreparedInputs, dumped: Recording) -> Untapped | None:
        """Returns the final outputs of the command that requests no dumps; None if it is the command that ran."""
        if dumped.state == "did not run":
            return None
        plan, placed, run = self._plan(prepared, False)
        if plan.line.replace(run, "RUN") == dumped.settings["command"]:
            return None
        with tempfile.TemporaryDirectory(prefix="qverify-runner-") as folder:
            try:
                result = self._execute(plan, placed, run, folder)
                recording = None if result.why else self._read(plan, folder, result)
            except (BoardError, BadFileError) as error:
                return Untapped(why=f"{WITHOUT_DUMPS}: {one_line(str(error))}")
        if recording is None:
            return Untapped(why=f"{WITHOUT_DUMPS}: {result.why}")
        return Untapped({n: v for n, v in recording.tensors.items() if n in self.graph.outputs})

    def _read(self, plan: RunnerPlan, folder: str, result: RunnerResult) -> Recording:
        """Reads the files that were fetched. The reason for a missing tensor names the first file that was refused."""
        left_out = [f"{name}: {why}" for name, why in result.refused.items()]
        if not any(files for _, _, files in os.walk(folder)):
            suffix = f"; not read: {left_out[0]}" if left_out else ""
            raise UnreadError(f"the runner ended with success, but left no new file{suffix}{_said(result.lines)}")
        _write_texts(plan, folder)
        try:
            answer = take_answer(plan.answer, folder)
            if left_out and not any(files for _, _, files in os.walk(folder)):
                raise BadFileError("it left no tensors that can be read")
            recording = read_folder(
                folder,
                plan.profile,
                plan.reading,
                self.graph,
                self._graph_sha256,
                self._spool,
                plan.per_node,
                self._names,
                self._files,
            )
        except (BadFileError, UsageError) as error:
            text = str(error).replace(f"{folder}/", "").replace(folder, "what the runner left")
            why = f"{text}{f'; not read: {left_out[0]}' if left_out else ''}"
            raise UnreadError(f"{why}{_said(result.lines) if plan.answer else ''}") from error
        if answer is not None:
            recording.engine, recording.version = answer.engine, answer.version
            recording.placement, recording.ledger = answer.placement, answer.ledger
            recording.notes = [*answer.notes, *recording.notes]
        if left_out:
            recording.notes.append(f"{count(len(left_out), 'file')} of the runner not read, first {left_out[0]}")
            recording.missing = {n: f"{why}; not read: {left_out[0]}" for n, why in recording.missing.items()}
        return recording

    def _plan(self, prepared: PreparedInputs, dump_all: bool) -> tuple[RunnerPlan, dict[str, str], str]:
        """Sends the files that the run needs. Returns the plan, the hashes of the files by their name in the run's
        folder, and that folder."""
        run, placed = self._board.new_run_folder(), dict[str, str]()

        def place(name: str, data: bytes) -> str:
            name = _file_name(name, placed)
            placed[name] = self._board.put(data)
            return self._board.placed_path(run, name)

        inputs = []
        for prepared_input in _in_order_of_file(self.graph, prepared):
            npy, data, value = io.BytesIO(), prepared_input.data, prepared_input.array()
            if self._files is not None:
                value = self._files.as_in_file(prepared_input.spec.name, value)
                data = value.tobytes()
            np.save(npy, np.ascontiguousarray(value))
            path = place(f"{prepared_input.spec.name}.bin", data)
            inputs.append(
                RunnerInput(prepared_input.spec, path, place(f"{prepared_input.spec.name}.npy", npy.getvalue()))
            )
        page, options = self._choice.page, self._choice.options
        files = {name: place(name, data) for name, data in page.files(options).items()}
        request = RunnerRequest(
            place(self._name, self._model),
            self._name,
            tuple(inputs),
            tuple(self.graph.spec(n) for n in self.graph.outputs),
            f"{run}/out",
            files,
            dump_all,
            options,
            self._board.emulator,
            lambda line: self._ask(line, placed, run),
            place,
            tuple(n for n in self.graph.observable() if n not in self.graph.outputs),
            self._tensors,
            prepared.step,
            prepared.feed,
        )
        try:
            return common_options(page.plan(request), options), placed, run
        except UsageError as error:  # its text may quote output of the board
            raise UsageError(one_line(str(error))) from error

    def _ask(self, line: str, placed: dict[str, str], run: str) -> CommandReply:
        """Runs a command line for a page in a separate run, in which paths of the planned run are replaced by its own.
        Each command line is run once."""
        key = line.replace(run, "")
        if key not in self._replies:
            query_run = self._board.new_run_folder()
            lines, size = list[str](), 0

            def keep(text: str) -> None:
                nonlocal size
                size += len(text) + 1
                lines.extend([text] if size <= MAX_REPLY_LENGTH else [])

            plan = common_options(RunnerPlan(line.replace(run, query_run)), self._choice.options)
            started = self._board.start(_command(plan, plan.line, placed), query_run)
            try:
                started.wait(keep)
            finally:
                started.close()
            if size > MAX_REPLY_LENGTH:
                raise BoardError(f"{line[:100]}: the board answered {size} bytes, at most {MAX_REPLY_LENGTH} are read")
            status = started.number("status")
            self._replies[key] = CommandReply(-1 if status is None else status, "\n".join(lines))
        return self._replies[key]

    def _ask_versions(self) -> dict[str, str]:
        """Returns what the commands of the option `ledger` print on the board, by name: their first line, or how they
        ended."""
        versions = {}
        for text in self._choice.options.get("ledger", ()):
            name, _, line = text.partition("=")
            reply = self._ask(line, {}, self._board.new_run_folder())
            first = next((t for t in reply.text.splitlines() if t.strip()), "")
            versions[name] = (
                one_line(first)[:MAX_VERSION] if reply.status == 0 else f"not known: exit status {reply.status}"
            )
        return versions

    def _execute(self, plan: RunnerPlan, placed: dict[str, str], run: str, folder: str) -> RunnerResult:
        """Runs the plan and fetches its files into `folder`. Raises LinkError if the board is lost."""
        output, result = RunnerOutput(plan), RunnerResult(folder)
        started = self._board.start(_command(plan, self._emulated(plan), placed), run)
        try:
            _wait(started, output)
            result.lines, result.seconds, result.measured_s = started.lines, started.seconds, output.measured_s
            result.why = exit_failure(started, plan) or output.failure()
            if not result.why:
                with tempfile.TemporaryFile(prefix="qverify-") as archive:
                    started.fetch(archive, Deadline(self._deadline_s, self.uri))
                    result.refused = unpack(archive, folder, started.number("began"))
        finally:
            started.close()
        return result

    def _emulated(self, plan: RunnerPlan) -> str:
        """Returns the command line. On an emulated processor it is preceded by the emulator, unless it contains it
        already."""
        emulator = self._board.emulator
        return plan.line if not emulator or emulator in plan.line else f"{shlex.quote(emulator)} {plan.line}"

    @property
    def capabilities(self) -> frozenset[str]:
        """The capabilities that are known before a run: final outputs."""
        return frozenset({"finals"})

    @property
    def facts(self) -> dict[str, object]:
        """The facts that the board reports: arch, system, temperature_c, frequency_mhz."""
        return {k: self._board.agent.hello.get(k) for k in FACTS}

    def condition(self) -> dict[str, float | None]:
        """Returns the current temperature_c and frequency_mhz, or None for each that the board does not report."""
        facts = self._board.agent.refresh_hello()
        return {k: finite_number(facts.get(k)) for k in ("temperature_c", "frequency_mhz")}

    def pull(self, names: list[str]) -> dict[str, Array]:
        """Returns tensors of the last run, all of which were fetched. Raises LinkError if the runner did not write
        one."""
        if missing := next((n for n in names if n not in self._values), None):
            raise LinkError(f"{missing}: the runner did not write it")
        return {n: self._values[n] for n in names}

    @contextmanager
    def bounded_until(self, until: float) -> Iterator[None]:
        """Raises LinkTimeout if it is later than this time of time.monotonic(). A run that has begun is limited by
        --timeout only."""
        if time.monotonic() >= until:
            raise LinkTimeout(f"{self.uri}: no time is left (--explain SECONDS)")
        yield

    def repeat_run(self, changed_from: Mapping[str, str] | None) -> tuple[dict[str, str], dict[str, Array]]:
        """Runs once more on the same inputs. Returns the digest of every tensor, and this run's values of the tensors
        whose digest differs from `changed_from` (no values if it is None). Raises LinkError if the board fails."""
        assert self._prepared is not None
        recording = self.run(self._prepared, dump_all=self._dump_all, is_repeated=True)
        if recording.state != "complete" or recording.missing:
            raise LinkError(recording.why or next(iter(recording.missing.values())))
        values = dict(recording.tensors)
        digests = {n: tensor_digest(v) for n, v in values.items()}
        if changed_from is None:
            return digests, {}
        return digests, {n: v for n, v in values.items() if digests[n] != changed_from.get(n)}

    def close(self) -> None:
        """Disconnects; values remain readable."""
        self._spool.close()
        self._board.close()


def _command(plan: RunnerPlan, line: str, placed: Mapping[str, str]) -> CommandLine:
    return CommandLine(line, placed, plan.environment, plan.folder, plan.collect, plan.setup, plan.teardown)


def _wait(started: RunningCommandLine, output: RunnerOutput) -> None:
    """Waits until the run has ended. Raises LinkTimeout, with the last line that it printed, and LinkError."""
    try:
        started.wait(output.add)
    except LinkTimeout as error:
        raise LinkTimeout(f"{error}{_said(started.lines)}") from error


def _said(lines: list[str]) -> str:
    """Returns the end of a reason: the last line of the output, if there is any."""
    return f"; the last line of its output: {lines[-1]}" if lines else ""


def _refuse_content(choice: RunnerChoice, name: str, data: bytes) -> None:
    """Raises UsageError for a model's file that is recognised as one that the engine does not take."""
    content = name_content(data)
    if content and choice.contents and content not in choice.contents:
        raise UsageError(
            f"{name} is {content}; the engine {choice.name} takes {' or '.join(choice.contents)}"
            + (f": leave {name} out, and the ONNX of -m is run" if ONNX in choice.contents else "")
        )


def _in_order_of_file(graph: Graph, prepared: PreparedInputs) -> list[PreparedInput]:
    """Returns the inputs as the ONNX has them, with those that have no elements."""
    by_name = {i.spec.name: i for i in prepared.inputs}
    empty = {name: PreparedInput(spec, b"", "empty") for name, spec in empty_inputs(graph).items()}
    return [{**empty, **by_name}[name] for name in inputs_of_file(graph)] if empty else [*prepared.inputs]


def _file_name(name: str, taken: Mapping[str, str]) -> str:
    """Returns a file name of safe characters with the ending of `name` that is not in `taken`."""
    stem, dot, ending = name.rpartition(".")
    stem = re.sub(r"[^A-Za-z0-9_+-]", "_", stem if dot else ending)[:MAX_NAME_LENGTH] or "_"
    ending = re.sub(r"[^A-Za-z0-9]", "", ending)[:10] if dot else ""
    stem = stem if re.match(r"[A-Za-z0-9_]", stem) else f"_{stem}"
    for number in range(len(taken) + 1):
        free = f"{stem}{f'_{number}' if number else ''}{f'.{ending}' if ending else ''}"
        if free not in taken:
            return free
    raise AssertionError(name)


def _write_texts(plan: RunnerPlan, folder: str) -> None:
    """Writes the texts of the plan into the folder of the fetched files. Raises BoardError if the runner wrote a file
    of the same name."""
    for name, text in plan.texts.items():
        path = os.path.join(folder, name)
        if os.path.lexists(path):
            raise BoardError(f"{name}: the runner wrote a file of this name, which its own description needs")
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)

"""Finds the smallest part of a model that still differs on the board, and writes it to a folder with everything needed
to repeat the difference (TRIAGE.md, reduction)."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from qverify_agents.errors import LinkError

from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.compiler.preprocessing import OPS as PREPROCESSING_OPS
from qverify.errors import BadFileError, QVerifyError, UsageError
from qverify.inputs.sources import InputRequest
from qverify.model_bin.cut_graph import cut, find_needed_nodes
from qverify.model_bin.graph import Graph
from qverify.model_bin.records import encode
from qverify.model_bin.units import units
from qverify.onnx_model.cut_model import cut as cut_onnx
from qverify.onnx_model.load import parse
from qverify.session.job import Job, JobOutcome, verify
from qverify.session.npz_file import write_npz
from qverify.session.request import Request
from qverify.session.triage.reduced_bundle import write_bundle
from qverify.session.triage.reduced_folder import check_output_folder, move_whole
from qverify.session.triage.run_command import BUILD_TIMEOUT_S, fill_in_paths, run_to_end
from qverify.session.triage.tflite_parts import has_operators, tflite_part
from qverify.tensors.recording import Array

OnLine = Callable[[str], None]  # receives a line of progress


@dataclass(frozen=True, slots=True)
class ReductionResult:
    """The result of a reduction.

    Attributes:
        state: reduced, nothing (there is nothing to reduce) or inconclusive.
        why: why it is nothing or inconclusive, else "".
        node, op: the last node of the part.
        nodes: number of nodes of the part.
        of: number of nodes of the model.
        runs: how often the board ran.
        folder: the folder with the part.
    """

    state: str
    why: str = ""
    node: str = ""
    op: str = ""
    nodes: int = 0
    of: int = 0
    runs: int = 0
    folder: str = ""


class ReductionStopped(Exception):
    """Raised if the reduction can have no result: the board or the build command fails, or nothing differs."""


def reduce(request: Request, output: str, build: str | None = None, on_line: OnLine | None = None) -> ReductionResult:
    """Reduces a failing verification and writes the part. output: a folder that does not exist yet. build: a command
    with {onnx} and {bin} that compiles an ONNX to the board's model. on_line: called for each run of the board. Returns
    an inconclusive result if nothing differs, or the board or the command fails. Raises UsageError for an output folder
    that exists or cannot be created."""
    check_output_folder(output)
    job = Job(replace(request, options=replace(request.options, dump_all=True)))
    try:
        if job.has_runner:
            raise ReductionStopped(
                "a board that runs something else is not reduced; --build-cmd without --reduce locates the node"
            )
        if job.models.alone is not None and build is not None:
            raise UsageError("--build-cmd compiles an ONNX; the parts of a .tflite are cut out of it")
        if job.models.tflite is not None and job.models.alone is None:
            raise ReductionStopped("the parts of an ONNX have no .tflite; give -m the .tflite alone")
        outcome = job.run(request.inputs)
        search = _Search(request, job, outcome, build, on_line or (lambda line: None))
        return search.run(output)
    except ReductionStopped as error:
        return ReductionResult("inconclusive", str(error))
    finally:
        job.close()


class _Search:
    """The search for the smallest part. A part is a run of units that begins and ends at places of the model."""

    def __init__(self, request: Request, job: Job, outcome: JobOutcome, build: str | None, on_line: OnLine):
        self._request, self._graph, self._build, self._on_line = request, job.models.graph, build, on_line
        assert outcome.evidence is not None
        self._outcome, self._evidence, self._runs = outcome, outcome.evidence, 1
        self._units, self._alone = units(self._graph), job.models.alone
        self._failed_pairs = {(p.a, p.b) for p in outcome.report.pairs if p.verdict == "FAILED"}
        self._onnx = None if job.models.compiled is None else parse(job.models.compiled.integer_onnx, "integer ONNX")
        self._written = None if job.models.original is None else parse(job.models.original, "quantized ONNX")
        self._options = CompilerOptions(self._graph.rounding, check=False, fuse=True)
        self._places = self._list_places()  # indices of the units after which the model can be cut
        self._assumed: set[str] = set()  # tensors that the board does not show, for which the host's values are used

    def run(self, output: str) -> ReductionResult:
        """Searches the smallest part and moves its folder to `output`. Raises ReductionStopped if there is none."""
        report = self._outcome.report
        if report.verdict == "PASSED":
            raise ReductionStopped(
                "the difference does not occur when it runs again; --repeat N shows how often it does"
            )
        if report.verdict == "INCONCLUSIVE":
            why = next((p.why for p in report.pairs if p.why), "the verdict is INCONCLUSIVE")
            raise ReductionStopped(f"nothing to reduce: {why}")
        blamed = report.blame is not None
        if blamed:
            place = self._blamed_place()
        else:
            place = self._search_prefixes() if self._alone is None else self._search_single_units()
        with tempfile.TemporaryDirectory(prefix="qverify-reduce-") as work:
            part = self._find_smallest(place, work)
            move_whole(part.folder, output)
        unit = self._units[self._places[place]]
        total = len(self._graph.nodes)
        return ReductionResult("reduced", "", unit.name, unit.op, part.nodes, total, self._runs, output)

    def _list_places(self) -> list[int]:
        """Returns the indices of the units at which a part may end and the next one begin: with --build-cmd those whose
        outputs the given ONNX has, too, and for a .tflite those that are operators of it."""
        if self._alone is not None:
            return [at for at, u in enumerate(self._units) if has_operators(self._alone, u.inputs, u.outputs)]
        if self._build is None:
            return list(range(len(self._units)))
        if self._written is None:
            raise UsageError("--build-cmd needs the quantized ONNX in -m")
        named = {name for node in self._written.graph.node for name in node.output}
        return [at for at, unit in enumerate(self._units) if named.issuperset(unit.outputs)]

    def _first_unit(self, place: int) -> int:
        """Returns the index of the first unit of a part that begins at this place."""
        return self._places[place - 1] + 1 if place else 0

    def _blamed_place(self) -> int:
        """Returns the place of the blamed unit, or the first place after it."""
        assert self._outcome.report.blame is not None
        index = [u.name for u in self._units].index(self._outcome.report.blame.node)
        return next(place for place, end in enumerate(self._places) if end >= index)

    def _search_prefixes(self) -> int:
        """Returns the place of the first unit that differs when the model ends there, for boards that show only final
        outputs."""
        low, high = 0, len(self._places) - 1
        while low < high:
            middle = (low + high) // 2
            with tempfile.TemporaryDirectory(prefix="qverify-reduce-") as work:
                if self._differs(0, self._places[middle], work):
                    high = middle
                else:
                    low = middle + 1
        return low

    def _search_single_units(self) -> int:
        """Returns the place of the first unit that is wrong by itself. Prefixes cannot be used for another runtime,
        where they may differ by rounding alone. Raises ReductionStopped if no unit is wrong by itself."""
        for place, end in enumerate(self._places):
            with tempfile.TemporaryDirectory(prefix="qverify-reduce-") as work:
                if self._differs(end, end, work):
                    return place
        raise ReductionStopped(
            "no operator of the .tflite is wrong by itself; it differs only where several are joined"
        )

    def _find_smallest(self, place: int, work: str) -> ModelPart:
        """Returns the part between the place before this one and this one, if it differs by itself; otherwise the
        shortest part that ends at this place and differs, by bisection. work: a folder for temporary files."""
        end = self._places[place]
        alone = self._run_part(self._first_unit(place), end, os.path.join(work, "alone"))
        if alone is not None:
            return alone
        low, high = 0, place  # a part that begins at low differs, one that begins at high does not
        smallest = self._run_part(0, end, os.path.join(work, "0"))
        if smallest is None:
            raise ReductionStopped(
                f"{self._units[end].name} differs only in the whole model; no part of it differs on the board"
            )
        while high - low > 1:
            middle = (low + high) // 2
            shorter = self._run_part(self._first_unit(middle), end, os.path.join(work, str(middle)))
            if shorter is not None:
                smallest, low = shorter, middle
            else:
                high = middle
        return smallest

    def _differs(self, first: int, last: int, work: str) -> bool:
        return self._run_part(first, last, os.path.join(work, "x")) is not None

    def _run_part(self, first: int, last: int, folder: str) -> ModelPart | None:
        """Runs the units from index `first` to `last` as a model of their own on the board. Returns the part, or None
        if the board agrees with the host."""
        inputs = {o for u in self._units[:first] for o in u.outputs} | set(self._graph.fed())
        if first == last:
            inputs = set(self._units[last].inputs)
        outputs = self._units[last].outputs
        part = ModelPart(folder, inputs & _tensors_read(self._graph, outputs, inputs), outputs, 0)
        return self._check_part(part)

    def _check_part(self, part: ModelPart) -> ModelPart | None:
        """Verifies the part and writes its files. Returns the part, or None if the board agrees with the host."""
        os.makedirs(part.folder)
        values = {name: self._value(name) for name in self._graph.tensors if name in part.inputs}
        paths, nodes, file_inputs = self._write_models(part, values)
        write_npz(os.path.join(part.folder, "inputs.npz"), file_inputs)
        self._runs += 1
        self._on_line(f"board run {self._runs}: {nodes} of {len(self._graph.nodes)} nodes, to {part.outputs[0]}")
        request = replace(
            self._request,
            models=paths,
            inputs=InputRequest(os.path.join(part.folder, "inputs.npz"), source="inputs.npz"),
            options=replace(self._request.options, dump_all=True),
            shapes={},
            allow_other_model=self._build is not None,
            capture=None,
        )
        try:
            outcome = verify(request)
        except (QVerifyError, LinkError) as error:
            raise ReductionStopped(f"the part that ends in {part.outputs[0]} could not be run: {error}") from error
        if outcome.report.verdict == "INCONCLUSIVE":
            why = next((p.why for p in outcome.report.pairs if p.why), "no verdict")
            raise ReductionStopped(f"the part that ends in {part.outputs[0]}: {why}")
        failed = {(p.a, p.b) for p in outcome.report.pairs if p.verdict == "FAILED"}
        if not failed & self._failed_pairs:  # only pairs that passed for the whole model fail: another fault
            return None
        if self._alone is not None and outcome.report.blame is None:  # LiteRT only rounds differently
            return None
        differing_part = replace(part, nodes=nodes)
        assumed = [name for name in values if name in self._assumed]
        write_bundle(differing_part.folder, paths, outcome, self._request, nodes, assumed)
        return differing_part

    def _value(self, name: str) -> Array:
        """Returns the board's tensor; if the board does not show it, the host's, which the README of the part states.
        Raises ReductionStopped if it is not available."""
        value, why = self._evidence.board_value(name)
        if why:
            raise ReductionStopped(f"{name} of the board is not available: {why}")
        if value is None:
            self._assumed.add(name)
            value = self._evidence.host_value(name)
        if value is None:
            raise ReductionStopped(f"the board does not show {name}")
        return value

    def _write_models(self, part: ModelPart, values: dict[str, Array]) -> tuple[list[str], int, dict[str, Array]]:
        """Writes the model files of the part. Returns their paths, the number of nodes, and the inputs under the names
        that the files have for them. values: the inputs by the graph's names."""
        if self._alone is None:
            return *self._write_models_of_onnx(part), values
        piece = tflite_part(self._alone, values, part.outputs)
        path = os.path.join(part.folder, "part.tflite")
        Path(path).write_bytes(piece.data)
        return [path], piece.operators, piece.inputs

    def _write_models_of_onnx(self, part: ModelPart) -> tuple[list[str], int]:
        """Writes the model files of the part. Returns their paths and the number of nodes. The ONNX is left out if it
        would not compile to the same nodes. Raises ReductionStopped if the build command needs it then, or fails."""
        part_graph = cut(self._graph, part.inputs, part.outputs)
        binary = os.path.join(part.folder, "model.bin")
        source = self._cut_onnx(part, part_graph)
        if source is None and self._build is not None:
            raise ReductionStopped(
                f"--build-cmd needs an ONNX of the part that ends in {part.outputs[0]}, which has none: it starts with preprocessing on the board"
            )
        if source is None:
            Path(binary).write_bytes(encode(part_graph))
            return [binary], len(part_graph.nodes)
        path = os.path.join(part.folder, "quant.onnx")
        Path(path).write_bytes(source)
        if self._build is not None:
            self._run_build(path, binary)
            return [path, binary], len(part_graph.nodes)
        compiled = compile_model(source, "quant.onnx", self._options).graph
        Path(binary).write_bytes(encode(compiled))
        return [path, binary], len(compiled.nodes)

    def _cut_onnx(self, part: ModelPart, part_graph: Graph) -> bytes | None:
        """Returns the integer ONNX of the part; None if there is none that compiles to exactly the nodes of
        part_graph."""
        if self._onnx is None or any(node.op in PREPROCESSING_OPS for node in part_graph.nodes):
            return None
        source = bytes(cut_onnx(self._onnx, self._graph.tensors, part.inputs, part.outputs).SerializeToString())
        if self._build is not None:  # the nodes depend on the command, not on qverify's compiler
            return source
        try:
            compiled = compile_model(source, "quant.onnx", self._options).graph
        except (QVerifyError, ValueError):
            return None
        return source if [n.name for n in compiled.nodes] == [n.name for n in part_graph.nodes] else None

    def _run_build(self, path: str, binary: str) -> None:
        """Runs the user's build command. Raises ReductionStopped if it fails or writes no file."""
        assert self._build is not None
        words = fill_in_paths(shlex.split(self._build), path, binary)
        try:
            status, last_line = run_to_end(words, BUILD_TIMEOUT_S)
        except (OSError, TimeoutError) as error:
            raise ReductionStopped(f"--build-cmd {words[0]}: {error}") from error
        if status or not os.path.isfile(binary):
            raise ReductionStopped(
                f"--build-cmd {words[0]}: exit status {status}{f', {last_line}' if last_line else ''}"
            )


@dataclass(frozen=True, slots=True)
class ModelPart:
    """A part of the model. folder: for its files. inputs: names of the tensors from which it is computed. outputs:
    names of the outputs of its last unit. nodes: number of its nodes, 0 before it was compiled."""

    folder: str
    inputs: set[str]
    outputs: tuple[str, ...]
    nodes: int


def _tensors_read(graph: Graph, outputs: tuple[str, ...], inputs: set[str]) -> set[str]:
    """Returns the names of the tensors that the nodes between `inputs` and `outputs` read. Raises BadFileError if an
    output cannot be computed from the inputs."""
    try:
        return {n for node in find_needed_nodes(graph, outputs, inputs) for n in node.inputs if n is not None}
    except KeyError as error:
        raise BadFileError(f"no node computes {error} from the given tensors") from error

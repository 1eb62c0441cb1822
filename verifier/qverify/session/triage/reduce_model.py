"""Finds the smallest part of a model that still differs on the board, and writes it as a bundle (TRIAGE.md,
reduction)."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from qverify_agents.errors import LinkError

from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.compiler.preprocessing import OPS as FRONT
from qverify.errors import BadFileError, QVerifyError, UsageError
from qverify.inputs.sources import InputRequest
from qverify.model_bin.cut_graph import cut, find_needed_nodes
from qverify.model_bin.graph import Graph
from qverify.model_bin.records import encode
from qverify.model_bin.units import units
from qverify.onnx_model.cut_model import cut as cut_onnx
from qverify.onnx_model.load import parse
from qverify.session.job import Job, Outcome, verify
from qverify.session.npz_file import write_npz
from qverify.session.request import Request
from qverify.session.triage.reduced_bundle import write_bundle
from qverify.session.triage.reduced_folder import check_output_folder, move_whole
from qverify.session.triage.run_command import run_whole
from qverify.session.triage.tflite_parts import has_operators, tflite_part
from qverify.tensors.recording import Array

BUILD_TIMEOUT_S = 600.0
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Reduced:
    """The result of a reduction. state: reduced, nothing (to reduce), or inconclusive with why. node: the part's last
    node. nodes: how many it has. of: how many the model has. runs: how often the board ran."""

    state: str
    why: str = ""
    node: str = ""
    op: str = ""
    nodes: int = 0
    of: int = 0
    runs: int = 0
    folder: str = ""


class ReductionStopped(Exception):
    """Raised where the board or the build command fails, or nothing differs: the reduction has no result."""


def reduce(request: Request, output: str, build: str | None = None, tell: Tell | None = None) -> Reduced:
    """Reduces a failing verification and writes the bundle. output: a folder that does not exist yet. build: a command
    with {onnx} and {bin} that compiles an ONNX to the board's model. Returns an inconclusive result where nothing
    differs, or the board or the command fails. Raises UsageError for an output folder that exists or cannot be made."""
    check_output_folder(output)
    job = Job(replace(request, options=replace(request.options, dump_all=True)))
    try:
        if job.foreign:
            raise ReductionStopped(
                "a board that runs something else is not reduced; --build-cmd without --reduce locates the node"
            )
        if job.models.alone is not None and build is not None:
            raise UsageError("--build-cmd compiles an ONNX; the parts of a .tflite are cut out of it")
        if job.models.tflite is not None and job.models.alone is None:
            raise ReductionStopped("the parts of an ONNX have no .tflite; give -m the .tflite alone")
        outcome = job.run(request.inputs)
        search = _Search(request, job, outcome, build, tell or (lambda line: None))
        return search.run(output)
    except ReductionStopped as error:
        return Reduced("inconclusive", str(error))
    finally:
        job.close()


class _Search:
    def __init__(self, request: Request, job: Job, outcome: Outcome, build: str | None, tell: Tell):
        self._request, self._graph, self._build, self._tell = request, job.models.graph, build, tell
        assert outcome.evidence is not None
        self._outcome, self._evidence, self._runs = outcome, outcome.evidence, 1
        self._units, self._alone = units(self._graph), job.models.alone
        self._failed = {(p.a, p.b) for p in outcome.report.pairs if p.verdict == "FAILED"}
        self._onnx = None if job.models.compiled is None else parse(job.models.compiled.integer_onnx, "integer ONNX")
        self._written = None if job.models.original is None else parse(job.models.original, "quantized ONNX")
        self._options = CompilerOptions(self._graph.rounding, check=False, fuse=True)
        self._places = self._ends()
        self._assumed: set[str] = set()  # tensors the board does not show

    def run(self, output: str) -> Reduced:
        report = self._outcome.report
        if report.verdict == "PASSED":
            raise ReductionStopped(
                "the difference does not occur when it runs again; --repeat N shows how often it does"
            )
        if report.verdict == "INCONCLUSIVE":
            why = next((p.why for p in report.pairs if p.why), "the verdict is INCONCLUSIVE")
            raise ReductionStopped(f"nothing to reduce: {why}")
        blamed = report.blame is not None
        at = self._blamed() if blamed else self._by_prefixes() if self._alone is None else self._one_by_one()
        with tempfile.TemporaryDirectory(prefix="qverify-reduce-") as work:
            part = self._smallest(at, work)
            move_whole(part.folder, output)
        unit = self._units[self._places[at]]
        return Reduced("reduced", "", unit.name, unit.op, part.nodes, len(self._graph.nodes), self._runs, output)

    def _ends(self) -> list[int]:
        """Returns the units where a part may end and the next begin: for --build-cmd those whose outputs the given ONNX
        has too, for a .tflite those that are operators of it."""
        if self._alone is not None:
            return [at for at, u in enumerate(self._units) if has_operators(self._alone, u.inputs, u.outputs)]
        if self._build is None:
            return list(range(len(self._units)))
        if self._written is None:
            raise UsageError("--build-cmd needs the quantized ONNX in -m")
        named = {name for node in self._written.graph.node for name in node.output}
        return [at for at, unit in enumerate(self._units) if named.issuperset(unit.outputs)]

    def _start(self, place: int) -> int:
        """Returns the first unit of a part that starts at this place."""
        return self._places[place - 1] + 1 if place else 0

    def _blamed(self) -> int:
        """Returns the place of the blamed unit, or the first one after it."""
        assert self._outcome.report.blame is not None
        at = [u.name for u in self._units].index(self._outcome.report.blame.node)
        return next(place for place, end in enumerate(self._places) if end >= at)

    def _by_prefixes(self) -> int:
        """Returns the place of the first unit whose tensor differs when the model ends there, for boards that show only
        final outputs."""
        low, high = 0, len(self._places) - 1
        while low < high:
            middle = (low + high) // 2
            with tempfile.TemporaryDirectory(prefix="qverify-reduce-") as work:
                if self._differs(0, self._places[middle], work):
                    high = middle
                else:
                    low = middle + 1
        return low

    def _one_by_one(self) -> int:
        """Returns the place of the first unit that is wrong by itself: another runtime's prefixes may differ by rounding
        alone. Raises ReductionStopped where none is."""
        for place, end in enumerate(self._places):
            with tempfile.TemporaryDirectory(prefix="qverify-reduce-") as work:
                if self._differs(end, end, work):
                    return place
        raise ReductionStopped(
            "no operator of the .tflite is wrong by itself; it differs only where several are joined"
        )

    def _smallest(self, at: int, work: str) -> ModelPart:
        """Returns the part between two places if it differs by itself; else the shortest run of nodes that ends there,
        by bisection."""
        end = self._places[at]
        alone = self._run_part(self._start(at), end, os.path.join(work, "alone"))
        if alone is not None:
            return alone
        low, high = 0, at  # starting at low it differs, at high it does not
        smallest = self._run_part(0, end, os.path.join(work, "0"))
        if smallest is None:
            raise ReductionStopped(
                f"{self._units[end].name} differs only in the whole model; no part of it differs on the board"
            )
        while high - low > 1:
            middle = (low + high) // 2
            if (shorter := self._run_part(self._start(middle), end, os.path.join(work, str(middle)))) is not None:
                smallest, low = shorter, middle
            else:
                high = middle
        return smallest

    def _differs(self, first: int, last: int, work: str) -> bool:
        return self._run_part(first, last, os.path.join(work, "x")) is not None

    def _run_part(self, first: int, last: int, folder: str) -> ModelPart | None:
        """Runs units first..last as a model of its own on the board. Returns the part, or None where the board
        agrees."""
        inputs = {o for u in self._units[:first] for o in u.outputs} | set(self._graph.fed())
        if first == last:
            inputs = set(self._units[last].inputs)
        outputs = self._units[last].outputs
        part = ModelPart(folder, inputs & _reads(self._graph, outputs, inputs), outputs, 0)
        return self._check_part(part)

    def _check_part(self, part: ModelPart) -> ModelPart | None:
        """Verifies the part and writes its bundle; None where the board agrees."""
        os.makedirs(part.folder)
        values = {name: self._value(name) for name in self._graph.tensors if name in part.given}
        paths, nodes, fed = self._models(part, values)
        write_npz(os.path.join(part.folder, "inputs.npz"), fed)
        self._runs += 1
        self._tell(f"board run {self._runs}: {nodes} of {len(self._graph.nodes)} nodes, to {part.outputs[0]}")
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
        if not failed & self._failed:  # a pair that passed for the whole model is another fault
            return None
        if self._alone is not None and outcome.report.blame is None:  # it rounds in its own way
            return None
        done = replace(part, nodes=nodes)
        assumed = [name for name in values if name in self._assumed]
        write_bundle(done.folder, paths, outcome, self._request, nodes, assumed)
        return done

    def _value(self, name: str) -> Array:
        """Returns the board's tensor; where the board does not show it, the host's, which the part's README states."""
        value, why = self._evidence.board_value(name)
        if why:
            raise ReductionStopped(f"{name} of the board is not available: {why}")
        if value is None:
            self._assumed.add(name)
            value = self._evidence.host_value(name)
        if value is None:
            raise ReductionStopped(f"the board does not show {name}")
        return value

    def _models(self, part: ModelPart, values: dict[str, Array]) -> tuple[list[str], int, dict[str, Array]]:
        """Writes the part's files. Returns their paths, the number of nodes, and the inputs as the files name them."""
        if self._alone is None:
            return *self._models_of_onnx(part), values
        piece = tflite_part(self._alone, values, part.outputs)
        path = os.path.join(part.folder, "part.tflite")
        Path(path).write_bytes(piece.data)
        return [path], piece.operators, piece.inputs

    def _models_of_onnx(self, part: ModelPart) -> tuple[list[str], int]:
        """Writes the part's files. Returns their paths and the number of nodes. The ONNX is left out where it would not
        compile to the same nodes."""
        own = cut(self._graph, part.given, part.outputs)
        binary = os.path.join(part.folder, "model.bin")
        source = self._source(part, own)
        if source is None and self._build is not None:
            raise ReductionStopped(
                f"--build-cmd needs an ONNX of the part that ends in {part.outputs[0]}, which has none: it starts with preprocessing on the board"
            )
        if source is None:
            Path(binary).write_bytes(encode(own))
            return [binary], len(own.nodes)
        path = os.path.join(part.folder, "quant.onnx")
        Path(path).write_bytes(source)
        if self._build is not None:
            self._run_build(path, binary)
            return [path, binary], len(own.nodes)
        compiled = compile_model(source, "quant.onnx", self._options).graph
        Path(binary).write_bytes(encode(compiled))
        return [path, binary], len(compiled.nodes)

    def _source(self, part: ModelPart, own: Graph) -> bytes | None:
        """Returns the integer ONNX of the part; None where there is none that compiles to exactly these nodes."""
        if self._onnx is None or any(node.op in FRONT for node in own.nodes):
            return None
        source = bytes(cut_onnx(self._onnx, self._graph.tensors, part.given, part.outputs).SerializeToString())
        if self._build is not None:  # the command decides its nodes
            return source
        try:
            again = compile_model(source, "quant.onnx", self._options).graph
        except (QVerifyError, ValueError):
            return None
        return source if [n.name for n in again.nodes] == [n.name for n in own.nodes] else None

    def _run_build(self, path: str, binary: str) -> None:
        """Runs the user's build command. Raises ReductionStopped where it fails or writes no file."""
        assert self._build is not None
        words = [
            w.replace("{onnx}", path).replace("{bin}", binary).replace("{model}", binary)
            for w in shlex.split(self._build)
        ]
        try:
            status, last_line = run_whole(words, BUILD_TIMEOUT_S)
        except (OSError, TimeoutError) as error:
            raise ReductionStopped(f"--build-cmd {words[0]}: {error}") from error
        if status or not os.path.isfile(binary):
            raise ReductionStopped(
                f"--build-cmd {words[0]}: exit status {status}{f', {last_line}' if last_line else ''}"
            )


@dataclass(frozen=True, slots=True)
class ModelPart:
    """A part of the model as a folder. given: names of the tensors it starts from. outputs: names of its last unit's
    outputs."""

    folder: str
    given: set[str]
    outputs: tuple[str, ...]
    nodes: int


def _reads(graph: Graph, outputs: tuple[str, ...], given: set[str]) -> set[str]:
    """Returns the names of the tensors that the nodes between `given` and `outputs` read."""
    try:
        return {n for node in find_needed_nodes(graph, outputs, given) for n in node.inputs if n is not None}
    except KeyError as error:
        raise BadFileError(f"no node computes {error} from the given tensors") from error

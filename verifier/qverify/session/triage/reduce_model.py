"""The smallest part of a model that still differs on the board, as a bundle somebody else can run (TRIAGE.md, reduction)."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from qverify_agents.errors import LinkError

from qverify.compiler.compile_model import CompileOptions, compile_model
from qverify.compiler.preprocessing import OPS as FRONT
from qverify.errors import BadFileError, QVerifyError, UsageError
from qverify.inputs.sources import InputRequest
from qverify.model_bin.cut_graph import cut, needed
from qverify.model_bin.graph import Graph
from qverify.model_bin.records import encode
from qverify.model_bin.units import units
from qverify.onnx_model.cut_model import cut as cut_onnx
from qverify.onnx_model.load import parse
from qverify.session.job import Job, Outcome, verify
from qverify.session.request import Request
from qverify.session.triage.reduced_bundle import write_bundle
from qverify.session.triage.run_command import run_whole
from qverify.session.triage.write_npz import write_npz
from qverify.tensors.recording import Array

BUILD_TIMEOUT_S = 600.0
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Reduced:
    """state: reduced, nothing (to reduce), or inconclusive with why. node: the part's last. nodes: how many it has. runs: of the board."""

    state: str
    why: str = ""
    node: str = ""
    op: str = ""
    nodes: int = 0
    of: int = 0
    runs: int = 0
    folder: str = ""


class ReductionStopped(Exception):
    """The board, or the build command, did not do its part: no verdict comes of that."""


def reduce(request: Request, output: str, build: str | None = None, tell: Tell | None = None) -> Reduced:
    """output: a folder that is not there yet. build: a command with {onnx} and {bin} that makes the board's model of an
    ONNX. UsageError where nothing differs. A board that breaks on the way ends it as inconclusive."""
    check_output_folder(output)
    job = Job(replace(request, options=replace(request.options, dump_all=True)))
    try:
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
        self._units = units(self._graph)
        self._failed = {(p.a, p.b) for p in outcome.report.pairs if p.verdict == "FAILED"}
        self._onnx = None if job.models.integer_onnx is None else parse(job.models.integer_onnx, "integer ONNX")
        self._written = None if job.models.original is None else parse(job.models.original, "quantized ONNX")
        self._options = CompileOptions(self._graph.rounding, check=False, fuse=True)
        self._places = self._ends()
        self._assumed: set[str] = set()  # tensors the board does not show

    def run(self, output: str) -> Reduced:
        report = self._outcome.report
        if report.verdict == "PASSED":
            raise ReductionStopped(
                "what differed before does not differ when it runs again; --repeat N shows how often it does"
            )
        if report.verdict == "INCONCLUSIVE":
            why = next((p.why for p in report.pairs if p.why), "the verdict is INCONCLUSIVE")
            raise ReductionStopped(f"nothing to reduce: {why}")
        at = self._blamed() if report.blame is not None else self._by_prefixes()
        with tempfile.TemporaryDirectory(prefix="qverify-reduce-") as work:
            part = self._smallest(at, work)
            _moved(part.folder, output)
        unit = self._units[self._places[at]]
        return Reduced("reduced", "", unit.name, unit.op, part.nodes, len(self._graph.nodes), self._runs, output)

    def _ends(self) -> list[int]:
        """Units where a part may end, and so where another may begin: for --build-cmd those whose outputs the given ONNX has, too."""
        if self._build is None:
            return list(range(len(self._units)))
        if self._written is None:
            raise UsageError("--build-cmd needs the quantized ONNX in -m")
        named = {name for node in self._written.graph.node for name in node.output}
        return [at for at, unit in enumerate(self._units) if named.issuperset(unit.outputs)]

    def _start(self, place: int) -> int:
        """The first unit of a part that starts after the place before."""
        return self._places[place - 1] + 1 if place else 0

    def _blamed(self) -> int:
        """The place of the blamed unit, or the first one behind it."""
        assert self._outcome.report.blame is not None
        at = [u.name for u in self._units].index(self._outcome.report.blame.node)
        return next(place for place, end in enumerate(self._places) if end >= at)

    def _by_prefixes(self) -> int:
        """The first unit whose tensor differs when the model ends there: for boards that show final outputs alone."""
        low, high = 0, len(self._places) - 1
        while low < high:
            middle = (low + high) // 2
            with tempfile.TemporaryDirectory(prefix="qverify-reduce-") as work:
                if self._differs(0, self._places[middle], work):
                    high = middle
                else:
                    low = middle + 1
        return low

    def _smallest(self, at: int, work: str) -> ModelPart:
        """The part between two places where that differs alone; else the shortest run of nodes that ends there, by halving."""
        end = self._places[at]
        alone = self._tried(self._start(at), end, os.path.join(work, "alone"))
        if alone is not None:
            return alone
        low, high = 0, at  # starting at low it differs, at high it does not
        found = self._tried(0, end, os.path.join(work, "0"))
        if found is None:
            raise ReductionStopped(
                f"{self._units[end].name} differs in the whole model only; no part of it differs on the board"
            )
        while high - low > 1:
            middle = (low + high) // 2
            if (shorter := self._tried(self._start(middle), end, os.path.join(work, str(middle)))) is not None:
                found, low = shorter, middle
            else:
                high = middle
        return found

    def _differs(self, first: int, last: int, work: str) -> bool:
        return self._tried(first, last, os.path.join(work, "x")) is not None

    def _tried(self, first: int, last: int, folder: str) -> ModelPart | None:
        """Units first..last as models of their own, run on the board; None where it agrees."""
        given = {o for u in self._units[:first] for o in u.outputs} | set(self._graph.inputs)
        if first == last:
            given = set(self._units[last].inputs)
        outputs = self._units[last].outputs
        part = ModelPart(folder, given & _reads(self._graph, outputs, given), outputs, 0)
        return self._checked(part)

    def _checked(self, part: ModelPart) -> ModelPart | None:
        os.makedirs(part.folder)
        values = {name: self._value(name) for name in self._graph.tensors if name in part.given}
        paths, nodes = self._models(part)
        write_npz(os.path.join(part.folder, "inputs.npz"), values)
        self._runs += 1
        self._tell(f"board run {self._runs}: {nodes} of {len(self._graph.nodes)} nodes, to {part.outputs[0]}")
        request = replace(
            self._request,
            models=paths,
            inputs=InputRequest(os.path.join(part.folder, "inputs.npz")),
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
        if not failed & self._failed:  # what fails otherwise than the whole model did is another matter
            return None
        done = replace(part, nodes=nodes)
        assumed = [name for name in values if name in self._assumed]
        write_bundle(done.folder, paths, outcome, self._request.board or "local", nodes, assumed)
        return done

    def _value(self, name: str) -> Array:
        """As the board had it; where it does not show it, the host's, and the part's README says so."""
        value, why = self._evidence.board_value(name)
        if why:
            raise ReductionStopped(f"{name} of the board cannot be had: {why}")
        if value is None:
            self._assumed.add(name)
            value = self._evidence.host_value(name)
        if value is None:
            raise ReductionStopped(f"the board does not show {name}")
        return value

    def _models(self, part: ModelPart) -> tuple[list[str], int]:
        """The part's files, written; how many nodes it has. Its ONNX is left out where that would not give the same nodes."""
        own = cut(self._graph, part.given, part.outputs)
        binary = os.path.join(part.folder, "model.bin")
        source = self._source(part, own)
        if source is None and self._build is not None:
            raise ReductionStopped(
                f"--build-cmd needs the ONNX of the part that ends in {part.outputs[0]}, which has none: it starts with preprocessing on the board"
            )
        if source is None:
            Path(binary).write_bytes(encode(own))
            return [binary], len(own.nodes)
        path = os.path.join(part.folder, "quant.onnx")
        Path(path).write_bytes(source)
        if self._build is not None:
            self._built(path, binary)
            return [path, binary], len(own.nodes)
        compiled = compile_model(source, "quant.onnx", self._options).graph
        Path(binary).write_bytes(encode(compiled))
        return [path, binary], len(compiled.nodes)

    def _source(self, part: ModelPart, own: Graph) -> bytes | None:
        """The integer ONNX of the part; None where it has none that compiles to these very nodes."""
        if self._onnx is None or any(node.op in FRONT for node in own.nodes):
            return None
        source = bytes(cut_onnx(self._onnx, self._graph.tensors, part.given, part.outputs).SerializeToString())
        if self._build is not None:  # its nodes are the command's
            return source
        try:
            again = compile_model(source, "quant.onnx", self._options).graph
        except (QVerifyError, ValueError):
            return None
        return source if [n.name for n in again.nodes] == [n.name for n in own.nodes] else None

    def _built(self, path: str, binary: str) -> None:
        """By the user's command. Broken where it fails or makes nothing."""
        assert self._build is not None
        words = [w.replace("{onnx}", path).replace("{bin}", binary) for w in shlex.split(self._build)]
        try:
            status, said = run_whole(words, BUILD_TIMEOUT_S)
        except (OSError, TimeoutError) as error:
            raise ReductionStopped(f"--build-cmd {words[0]}: {error}") from error
        if status or not os.path.isfile(binary):
            raise ReductionStopped(f"--build-cmd {words[0]}: exit status {status}{f', {said}' if said else ''}")


@dataclass(frozen=True, slots=True)
class ModelPart:
    """given: tensors it starts from. outputs: of its last unit."""

    folder: str
    given: set[str]
    outputs: tuple[str, ...]
    nodes: int


def _reads(graph: Graph, outputs: tuple[str, ...], given: set[str]) -> set[str]:
    """What the nodes between them read."""
    try:
        return {n for node in needed(graph, outputs, given) for n in node.inputs if n is not None}
    except KeyError as error:
        raise BadFileError(f"nothing makes {error} of the given tensors") from error


def _moved(folder: str, output: str) -> None:
    """The whole folder, or none. UsageError where it cannot be written."""
    part = f"{output.rstrip('/')}.part"
    try:
        shutil.copytree(folder, part)
        os.rename(part, output)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        raise UsageError(f"--reduce {output}: cannot be written: {_reason(error)}") from error
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def _reason(error: OSError) -> str:
    """shutil.Error holds a list of (from, to, why)."""
    listed = error.args[0] if isinstance(error, shutil.Error) and error.args else None
    return str(listed[0][-1]) if isinstance(listed, list) and listed else error.strerror or str(error)


def check_build_command(build: str | None) -> None:
    """UsageError for a command without its places, or with a quote that is not closed."""
    if build is None:
        return
    try:
        words = shlex.split(build)
    except ValueError as error:
        raise UsageError(f"--build-cmd {build!r}: {error}") from error
    if not all(any(place in word for word in words) for place in ("{onnx}", "{bin}")):
        raise UsageError(f"--build-cmd {build!r}: wanted {{onnx}} and {{bin}} in it")


def check_output_folder(output: str) -> None:
    """UsageError for a folder that is there already, or cannot be made."""
    if os.path.lexists(output):
        raise UsageError(f"--reduce {output}: it is there already; name a folder that is not")
    above = os.path.dirname(os.path.abspath(output))
    if not os.path.isdir(above) or not os.access(above, os.W_OK):
        raise UsageError(f"--reduce {output}: {above} is no folder that can be written to")

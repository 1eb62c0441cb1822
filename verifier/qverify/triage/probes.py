"""Probes: the blamed op runs on the board in other shapes, and the causes that the experiments left must give its bytes
there, too."""

from __future__ import annotations

import base64
import re
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from qverify.tensors.digest import tensor_digest
from qverify.triage.case import Array, Case, bits
from qverify.triage.cause_kind import NUMBER, Kind, describe_kind, variants_of
from qverify.triage.experiment_inputs import KINDS, draw_inputs
from qverify.triage.experiments import OUT_OF_TIME, Experiment, ExperimentBoard, FallenFault, NoOtherModel, predict
from qverify.triage.fault import Candidate, Fault
from qverify.triage.fault_search import fit_family
from qverify.triage.probe_models import ProbeModel, probe_models

MOST, MOST_SLOW = 4, 2  # probes, and over a slow link
MOST_KINDS, SEED = 2, 1  # kinds of inputs for each, until the board differs
ALONE = 400.0  # bits of evidence for a cause that does not show in another shape
PLACES = frozenset(  # families of rules of places: at one shape many of them are the same
    (
        "alignment",
        "average-pool-arithmetic",
        "broadcast-index",
        "carried-sum",
        "channel-order",
        "concat-parts",
        "copy-places",
        "copy-strides",
        "copy-words",
        "depth-to-space-order",
        "dropped-input",
        "dropped-or-repeated",
        "element-offset",
        "float-means",
        "gather-index",
        "group-order",
        "input-pitch",
        "input-planes",
        "input-tail",
        "integer-convolution",
        "integer-matmul",
        "integer-products",
        "interleaving",
        "kernel-order",
        "layout",
        "lrn-window",
        "matrix-operands",
        "max-pool-window",
        "mean-divisor",
        "mean-reads",
        "operand-order",
        "operand-rows",
        "output-places",
        "output-tail",
        "pad-border",
        "padding-from-memory",
        "padding-reads",
        "parameter-index",
        "partial-copy",
        "partial-sums",
        "pool-counts",
        "pool-divisor",
        "product-parameters",
        "product-terms-left-out",
        "product-windows",
        "resize-linear-samples",
        "resize-mode",
        "resize-nearest-source",
        "slice-steps",
        "softmax-axis",
        "split-order",
        "split-products",
        "summand-order",
        "summands-left-out",
        "tiles",
        "transpose-order",
        "transposed-overlaps",
        "vector-tail",
        "where-condition",
        "window",
        "window-positions",
        "window-words",
    )
)
LIST = r"[0-9]+(?:/[0-9]+)?(?:(?:,? or |, )[0-9]+)*"
CONSTANT = re.compile(
    rf"(?:whole(?: burst of)?|every|groups of|(?:blocks?|panels?|tiles?) of|multiples? of) ({LIST})|([0-9]+)(?= (?:significant |signed |unsigned |binary )?(?:bits|places))"
)
SEVERAL = re.compile("#(?:(?:,? or |, )#)+")
TAIL = re.compile(r"last (?:# )?([a-z]+?)s?(?: \(beyond whole groups of #\))?(?= |$)")


@dataclass(slots=True)
class ProbeSeries:
    """The outcome. standing: causes that gave every byte of every probe that decides them. ran: probes, as experiments.
    fallen: those that did not. why: why none stands, or why the probes could not be run. scope: where the board is
    right and the cause would show."""

    standing: list[Candidate]
    ran: list[Experiment] = field(default_factory=list)
    fallen: list[FallenFault] = field(default_factory=list)
    why: str = ""
    scope: str = ""


def run_probes(
    case: Case,
    standing: list[Candidate],
    experiments: list[Experiment],
    board: ExperimentBoard,
    evidence_bits: float,
    deadline: float,
) -> ProbeSeries:
    """Lets other shapes decide between causes that experiments on the node confirmed. evidence_bits: of these
    experiments. deadline: on time.monotonic()'s clock. Raises LinkError where the board fails."""
    trial = _Trial(case, standing, experiments, evidence_bits, deadline)
    try:
        trial.run(board)
    except NoOtherModel as error:
        trial.result.why = str(error)
    except TimeoutError:
        trial.result.why = OUT_OF_TIME
    return trial.conclude()


class _Trial:
    """shown: causes that a probe decided for."""

    def __init__(
        self,
        case: Case,
        standing: list[Candidate],
        experiments: list[Experiment],
        evidence_bits: float,
        deadline: float,
    ):
        self.case, self.deadline, self.evidence_bits = case, deadline, evidence_bits
        self.number = len(experiments)
        self.result = ProbeSeries(list(standing))
        by_effect = sorted(experiments, key=lambda e: -e.changed)
        self.kinds = list(dict.fromkeys(e.kind for e in by_effect))[:MOST_KINDS]
        self.shown, self.agreed = set[int](), set[int]()
        self.numbers = dict[int, list[frozenset[str]]]()  # of a cause, that no shape changes

    def run(self, board: ExperimentBoard) -> None:
        for model in _chosen(self.case, board.most):
            if not self.result.standing:
                return
            for kind in self.kinds:
                if self._differs(model, kind, board):
                    break

    def _differs(self, model: ProbeModel, kind: str, board: ExperimentBoard) -> bool:
        """Runs one probe and judges the causes by it. Returns whether the board differs from a healthy one."""
        self._check_time()
        case = model.case.on_inputs(draw_inputs(model.case, kind, SEED))
        recorded = board.run_probe(self.case, model, case, kind, SEED)
        case = replace(case, recorded=recorded, cache={})
        healthy = not case.differing.size
        judge = self._judge_healthy if healthy else self._judge_differing
        with np.errstate(all="ignore"):
            fell = judge(case, model)
        result = self.result
        number = self.number + len(result.ran) + 1
        result.fallen += [FallenFault(c.cause, number) for c in fell]
        gone = {id(c) for c in fell}
        result.standing = [c for c in result.standing if id(c) not in gone]
        result.ran.append(_entry(case, model, kind, len(result.standing), len(fell)))
        if fell and not result.standing:
            result.why = _contradiction(case, model)
        return not healthy

    def _check_time(self) -> None:
        if time.monotonic() > self.deadline:
            raise TimeoutError

    def _judge_differing(self, case: Case, model: ProbeModel) -> list[Candidate]:
        """Returns the causes whose kind is known in this shape and does not give its bytes."""
        fell = []
        for family in dict.fromkeys(c.cause.family for c in self.result.standing):
            self._check_time()
            exact, looked_at = fit_family(case, family, self.deadline)
            self._check_time()
            fitting = dict[Kind, list[list[frozenset[str]]]]()
            for one in exact:
                fitting.setdefault(_alike(describe_kind(self.case, one.cause)), []).append(self._constants(one.cause))
            known = {_alike(describe_kind(self.case, Fault(family, said, 0.0))) for said in looked_at}
            for candidate in (c for c in self.result.standing if c.cause.family == family):
                if self._holds(candidate, fitting.get(_alike(describe_kind(self.case, candidate.cause)), [])):
                    self.shown.add(id(candidate))
                elif self._whole(candidate) in known:
                    fell.append(candidate)
        return fell

    def _holds(self, candidate: Candidate, fitting: list[list[frozenset[str]]]) -> bool:
        """Returns whether one of these causes of its kind has its numbers, those that no shape changes; of several that
        were the same until now, those stay that are the same here."""
        own = self.numbers.setdefault(id(candidate), self._constants(candidate.cause))
        kept = [[a & b for a, b in zip(own, other, strict=True)] for other in fitting if len(other) == len(own)]
        kept = [numbers for numbers in kept if all(numbers)]
        if kept:
            self.numbers[id(candidate)] = [frozenset().union(*same) for same in zip(*kept, strict=True)]
        return bool(kept)

    def _constants(self, cause: Fault) -> list[frozenset[str]]:
        """Returns the numbers that must be the same; of a gather all, since its indices are others in a probe."""
        if self.case.last.op == "gather":
            return [frozenset([number]) for number in NUMBER.findall(cause.said)]
        return list_constants(cause.said)

    def _whole(self, candidate: Candidate) -> Kind:
        """Returns the kind of the cause without the part of the output to which it is confined."""
        part = candidate.variant.part
        said = candidate.cause.said.removesuffix(f", {part}") if part else candidate.cause.said
        return _alike(describe_kind(self.case, replace(candidate.cause, said=said)))

    def _judge_healthy(self, case: Case, model: ProbeModel) -> list[Candidate]:
        """Returns the causes that would show in this shape, where the board is right: rules of places if it is the same
        path of the kernel, and others that have little evidence."""
        fell = []
        for candidate in self.result.standing:
            self._check_time()
            kind = describe_kind(self.case, candidate.cause)
            made = [predict(case, variant) for variant in variants_of(case, kind, named=self.case)]
            known = [output for output in made if output is not None]
            if not known:
                continue
            if any((bits(output) == bits(case.recorded)).all() for output in known):
                self.agreed.add(id(candidate))
            elif model.alike and (candidate.cause.family in PLACES or self.evidence_bits < ALONE):
                fell.append(candidate)
            else:
                self.result.scope = f"not in every shape: at {model.shape} the board is right, and the cause would show"
        return fell

    def conclude(self) -> ProbeSeries:
        """Drops causes that no probe decided where another was decided for, and rules of places that no probe decided
        for."""
        result = self.result
        if result.why and result.standing:
            more = "all " if result.ran else ""
            result.scope = "; ".join(filter(None, (result.scope, f"not tried in {more}other shapes: {result.why}")))
        if any(id(c) in self.shown for c in result.standing):
            result.standing = [c for c in result.standing if id(c) in self.shown]
        elif result.standing and any(c.cause.family in PLACES for c in result.standing):
            differed = any(run.board != run.simulator for run in result.ran)
            agreed = set[int]() if differed else self.agreed
            left = [c for c in result.standing if c.cause.family not in PLACES or id(c) in agreed]
            if not left:
                result.why = _undecided(result)
            result.standing = left
        return result


def _undecided(result: ProbeSeries) -> str:
    what = "it is a rule of places, which may be another one in other shapes"
    if result.why:
        return f"{what}, and none was run: {result.why}" if not result.ran else f"{what}: {result.why}"
    if not result.ran:
        return f"{what}, and this op is not run in others"
    shapes = "; ".join(dict.fromkeys(run.shape for run in result.ran))
    return f"{what}, and the same op in other shapes ({shapes}) does not show it"


def _contradiction(case: Case, model: ProbeModel) -> str:
    count = f"{case.differing.size} of {case.recorded.size} elements differ" if case.differing.size else "it is right"
    return f"it does not predict what the board gives for the same op at {model.shape}: there {count}"


def _alike(kind: Kind) -> Kind:
    """Returns the kind with one text for the last one and for the last ones beyond whole vectors, and for one number
    and several."""
    return kind[0], TAIL.sub(r"last \1", SEVERAL.sub("#", kind[1]))


def list_constants(said: str) -> list[frozenset[str]]:
    """Returns the numbers of a cause that no shape changes, in the order of the text: sizes of vectors and numbers of
    bits; several where it names several that are the same."""
    return [frozenset(NUMBER.findall(match[1] or match[2])) for match in CONSTANT.finditer(said)]


def _entry(case: Case, model: ProbeModel, kind: str, stood: int, fell: int) -> Experiment:
    return Experiment(
        "probe",
        kind,
        SEED,
        {n: tensor_digest(v) for n, v in case.inputs.items()},
        tensor_digest(case.recorded),
        tensor_digest(case.healthy),
        case.recorded.size,
        int(case.differing.size),
        stood,
        fell,
        model.shape,
        pack_output(case.recorded),
    )


def pack_output(output: Array) -> str:
    """Returns a probe's output as text: base64 of its zlib-compressed little-endian bytes."""
    little = np.ascontiguousarray(output, output.dtype.newbyteorder("<"))
    return base64.b64encode(zlib.compress(little.tobytes(), 9)).decode()


def unpack_output(text: str, like: Array) -> Array:
    """Returns the output in the shape and dtype of `like`. Raises ValueError for a text that is not such an output."""
    try:
        data = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), like.nbytes + 1)
    except zlib.error as error:
        raise ValueError(f"an output that cannot be read: {error}") from error
    if len(data) != like.nbytes:
        raise ValueError(f"an output of {len(data)} bytes, wanted {like.nbytes}")
    return np.frombuffer(data, like.dtype.newbyteorder("<")).reshape(like.shape).astype(like.dtype)


def cost_bytes(case: Case) -> int:
    """Returns about how many bytes the probes of this case's unit transfer."""
    return sum(model.size_bytes for model in _chosen(case, 0))


def _chosen(case: Case, experiments: int) -> Iterator[ProbeModel]:
    """Returns the first probes. experiments: that the link is worth."""
    return islice(probe_models(case), MOST if experiments >= len(KINDS) else MOST_SLOW)

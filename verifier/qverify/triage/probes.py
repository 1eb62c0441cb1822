"""Probes: the blamed op runs on the board in other shapes, and causes that experiments confirmed must give the board's
bytes there, too."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from qverify.tensors.digest import tensor_digest
from qverify.triage.case import Case, element_bits
from qverify.triage.cause_kind import NUMBER, Kind, describe_kind, variants_of
from qverify.triage.experiment_inputs import KINDS, draw_inputs
from qverify.triage.experiments import OUT_OF_TIME, Experiment, ExperimentBoard, FallenFault, NoOtherModel, predict
from qverify.triage.fault import MARGIN_BITS, Candidate, Fault
from qverify.triage.fault_search import fit_family
from qverify.triage.packed_output import pack_output
from qverify.triage.probe_models import ProbeModel, probe_models

MAX_PROBES, MAX_PROBES_SLOW = 4, 2  # the second over a slow link
MAX_KINDS = 2  # kinds of inputs that are tried in a probe until the board differs
SEED = 1
ALONE_BITS = 400.0  # of evidence needed for a cause that does not show in another shape
PLACES = frozenset(  # families of rules of places, many of which are the same in one shape
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
        "shifted-pairs",
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
    """The outcome of all probes.

    Attributes:
        standing: causes that gave every byte of every probe that decides on them.
        ran: the probes as experiments.
        fallen: causes that failed a probe.
        why: the reason why no cause stands, or why the probes could not be run.
        scope: in which shapes the board is right although the cause would show, in words.
    """

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
    """Decides by runs in other shapes between causes that experiments on the node confirmed. Raises LinkError if the
    board fails.

    Args:
        standing: the causes that the experiments confirmed.
        evidence_bits: the evidence of these experiments.
        deadline: a time of time.monotonic().
    """
    trial = _ProbeTrial(case, standing, experiments, evidence_bits, deadline)
    try:
        trial.run(board)
    except NoOtherModel as error:
        trial.result.why = str(error)
    except TimeoutError:
        trial.result.why = OUT_OF_TIME
    return trial.conclude()


class _ProbeTrial:
    """Runs probes and judges the causes by them.

    Attributes:
        decided_for: ids of the causes that a probe decided for.
        agreed: ids of the causes that predict a healthy output where the board's is healthy.
        numbers: by id of a cause, its numbers that no shape changes.
    """

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
        self.kinds = list(dict.fromkeys(e.kind for e in by_effect))[:MAX_KINDS]
        self.decided_for, self.agreed = set[int](), set[int]()
        self.numbers = dict[int, list[frozenset[str]]]()

    def run(self, board: ExperimentBoard) -> None:
        for model in _choose_probes(self.case, board.most):
            if not self.result.standing:
                return
            for kind in self.kinds:
                if self._run_probe(model, kind, board):
                    break

    def _run_probe(self, model: ProbeModel, kind: str, board: ExperimentBoard) -> bool:
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
        fallen_ids = {id(c) for c in fell}
        result.standing = [c for c in result.standing if id(c) not in fallen_ids]
        result.ran.append(_make_experiment(case, model, kind, len(result.standing), len(fell)))
        if fell and not result.standing:
            result.why = _describe_contradiction(case, model)
        return not healthy

    def _check_time(self) -> None:
        if time.monotonic() > self.deadline:
            raise TimeoutError

    def _judge_differing(self, case: Case, model: ProbeModel) -> list[Candidate]:
        """Returns the causes that fall: their kind has variants in this shape, and none gives the board's bytes."""
        fell = []
        for family in dict.fromkeys(c.cause.family for c in self.result.standing):
            self._check_time()
            exact, tried_texts = fit_family(case, family, self.deadline)
            self._check_time()
            fitting = dict[Kind, list[list[frozenset[str]]]]()
            for fit in exact:
                kind = _simplify(describe_kind(self.case, fit.cause))
                fitting.setdefault(kind, []).append(self._constants(fit.cause))
            known_kinds = {_simplify(describe_kind(self.case, Fault(family, text, 0.0))) for text in tried_texts}
            for candidate in (c for c in self.result.standing if c.cause.family == family):
                if self._has_same_numbers(
                    candidate, fitting.get(_simplify(describe_kind(self.case, candidate.cause)), [])
                ):
                    self.decided_for.add(id(candidate))
                elif self._kind_of_whole(candidate) in known_kinds:
                    fell.append(candidate)
        return fell

    def _has_same_numbers(self, candidate: Candidate, fitting: list[list[frozenset[str]]]) -> bool:
        """Returns whether a fitting cause of the candidate's kind has the same numbers, as far as no shape changes
        them.

        A candidate may name several numbers that were equivalent so far; it keeps those that are equivalent here.
        fitting: the numbers of each fitting cause."""
        numbers = self.numbers.setdefault(id(candidate), self._constants(candidate.cause))
        common = [[a & b for a, b in zip(numbers, fit, strict=True)] for fit in fitting if len(fit) == len(numbers)]
        common = [sets for sets in common if all(sets)]
        if common:
            self.numbers[id(candidate)] = [frozenset().union(*sets) for sets in zip(*common, strict=True)]
        return bool(common)

    def _constants(self, cause: Fault) -> list[frozenset[str]]:
        """Returns the numbers of a cause that must be the same in every shape: all numbers for a gather, because its
        indices are others in a probe."""
        if self.case.last.op == "gather":
            return [frozenset([number]) for number in NUMBER.findall(cause.said)]
        return list_constants(cause.said)

    def _kind_of_whole(self, candidate: Candidate) -> Kind:
        """Returns the kind of the cause without the part of the output to which the cause is confined."""
        part = candidate.variant.part
        text = candidate.cause.said.removesuffix(f", {part}") if part else candidate.cause.said
        return _simplify(describe_kind(self.case, replace(candidate.cause, said=text)))

    def _judge_healthy(self, case: Case, model: ProbeModel) -> list[Candidate]:
        """Returns the causes that fall because they would show in this shape, in which the board is right: if the
        kernel takes the same path, rules of places and causes with little evidence."""
        fell = []
        for candidate in self.result.standing:
            self._check_time()
            kind = describe_kind(self.case, candidate.cause)
            predictions = [predict(case, variant) for variant in variants_of(case, kind, named=self.case)]
            outputs = [output for output in predictions if output is not None]
            if not outputs:
                continue
            if any((element_bits(output) == element_bits(case.recorded)).all() for output in outputs):
                self.agreed.add(id(candidate))
            elif model.alike and (candidate.cause.family in PLACES or self.evidence_bits < ALONE_BITS):
                fell.append(candidate)
            else:
                self.result.scope = f"not in every shape: at {model.shape} the board is right, and the cause would show"
        return fell

    def conclude(self) -> ProbeSeries:
        """Returns the result without causes that no probe decided on if a probe decided for another, and without rules
        of places for which no probe decided; nor with causes that are much less specific than such a rule."""
        result = self.result
        if result.why and result.standing:
            more = "all " if result.ran else ""
            result.scope = "; ".join(filter(None, (result.scope, f"not tried in {more}other shapes: {result.why}")))
        if any(id(c) in self.decided_for for c in result.standing):
            result.standing = [c for c in result.standing if id(c) in self.decided_for]
        elif result.standing and any(c.cause.family in PLACES for c in result.standing):
            differed = any(run.board != run.simulator for run in result.ran)
            agreed = set[int]() if differed else self.agreed
            least = min(c.cause.bits for c in result.standing if c.cause.family in PLACES)
            standing = [
                c
                for c in result.standing
                if id(c) in agreed or (c.cause.family not in PLACES and c.cause.bits <= least + MARGIN_BITS)
            ]
            if not standing:
                result.why = _describe_undecided(result)
            result.standing = standing
        return result


def _describe_undecided(result: ProbeSeries) -> str:
    rule = "it is a rule of places, which may be another one in other shapes"
    if result.why:
        return f"{rule}, and none was run: {result.why}" if not result.ran else f"{rule}: {result.why}"
    if not result.ran:
        return f"{rule}, and this op is not run in others"
    shapes = "; ".join(dict.fromkeys(run.shape for run in result.ran))
    return f"{rule}, and the same op in other shapes ({shapes}) does not show it"


def _describe_contradiction(case: Case, model: ProbeModel) -> str:
    count = f"{case.differing.size} of {case.recorded.size} elements differ" if case.differing.size else "it is right"
    return f"it does not predict what the board gives for the same op at {model.shape}: there {count}"


def _simplify(kind: Kind) -> Kind:
    """Returns the kind with the same text for the last one and for the last ones beyond whole vectors, and for one
    number and for several."""
    return kind[0], TAIL.sub(r"last \1", SEVERAL.sub("#", kind[1]))


def list_constants(text: str) -> list[frozenset[str]]:
    """Returns the numbers of a cause that no shape changes (sizes of vectors and numbers of bits) in the order of the
    text. An entry has several numbers if the cause names several that are equivalent."""
    return [frozenset(NUMBER.findall(match[1] or match[2])) for match in CONSTANT.finditer(text)]


def _make_experiment(case: Case, model: ProbeModel, kind: str, stood: int, fell: int) -> Experiment:
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


def cost_bytes(case: Case) -> int:
    """Returns the approximate number of bytes that the probes of this case's unit transfer."""
    return sum(model.size_bytes for model in _choose_probes(case, 0))


def _choose_probes(case: Case, experiments: int) -> Iterator[ProbeModel]:
    """Returns the first probes. experiments: number of experiments that are worth their time on the link."""
    return islice(probe_models(case), MAX_PROBES if experiments >= len(KINDS) else MAX_PROBES_SLOW)

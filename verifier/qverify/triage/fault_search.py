"""Searches the known faults that give every byte that the board recorded for a unit."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np

from qverify.arithmetic.functions64 import log2_of
from qverify.arithmetic.workers import one_blas_thread
from qverify.tensors.digest import tensor_digest
from qverify.triage import evidence
from qverify.triage.case import Array, Case, OutOfTime, element_bits
from qverify.triage.fault import DOES_NOT_FIT, Candidate, Fault
from qverify.triage.hypotheses import FaultVariant, HypothesisPage, pages_of
from qverify.triage.near_fits import NearFits
from qverify.triage.one_row import is_contradicted
from qverify.triage.output_parts import restrict

Watch = Callable[[str, int, int], None]
NOISE_SEEDS = (1, 2, 3)
ENOUGH_S = 3.0  # CPU seconds after which a search that has a cause ends; a busy machine finds the same
OUT_OF_COMPUTING = "the limit of computing was reached"
MAX_PARTIAL = 3  # faults listed that do not give every byte


@dataclass(frozen=True, slots=True)
class Partial:
    """A fault that reproduces only a part of the bytes. of_differing: share of the differing elements, 0..1. of_all:
    share of all elements."""

    cause: Fault
    of_differing: float
    of_all: float


@dataclass(slots=True)
class FaultSearch:
    """The result of a search.

    Attributes:
        groups: candidates that give every recorded byte, the most specific first. The candidates of a group give equal
            bytes for random inputs, too.
        partial: the nearest of the faults that do not give every byte.
        families: for each family, the best share of all elements that it reproduces; 1.0 if it reproduces all. A family
            that does not apply to the unit is absent.
        tried: number of variants that were tried.
        not_tried: families that were not tried, or not completely, with the reason.
        finished: families of which all variants were tried.
        trial: contains the variants that one row of the output contradicts. partial and families leave these out until
            complete_partial is called (0.0 for a family of which nothing else was tried).
        seconds: duration of the search.
        near: faults that give the recorded integers within a rounding, if they were asked for.
    """

    case: Case
    groups: list[list[Candidate]] = field(default_factory=list)
    partial: list[Partial] = field(default_factory=list)
    families: dict[str, float] = field(default_factory=dict)
    tried: int = 0
    not_tried: list[str] = field(default_factory=list)
    finished: frozenset[str] = frozenset()
    trial: _FaultTrial | None = field(default=None, repr=False)
    seconds: float = 0.0
    near: NearFits | None = None


def search_faults(
    case: Case,
    deadline_s: float = 20.0,
    watch: Watch | None = None,
    before: FaultSearch | None = None,
    near: NearFits | None = None,
    cpu_s: float = inf,
    first: tuple[HypothesisPage, ...] = (),
) -> FaultSearch:
    """Searches the faults that explain the case, whose `recorded` must have the shape and dtype of its spec.

    Args:
        deadline_s: seconds after which the search stops. It stops after ENOUGH_S of computing if a cause was found.
        watch: is called with a text, the number of families tried and their total.
        before: an earlier search whose causes were all refuted. The new search tries the families that it did not
            finish, and stops only when all are tried.
        near: collects the faults that give the recorded elements within a rounding. Each candidate is a group of its
            own then.
        cpu_s: seconds of computing after which the search stops: a busy machine finds the same.
        first: pages that are tried first, also such that pages_of() does not have.
    """
    search, start = FaultSearch(case, near=near), time.monotonic()
    with np.errstate(all="ignore"), warnings.catch_warnings(), one_blas_thread():
        # A fault may overflow, also in a thread, which has an errstate of its own.
        warnings.simplefilter("ignore")
        if not case.differing.size:
            return search
        trial = _FaultTrial(case, time.monotonic() + deadline_s, before)
        trial.near, trial.cpu_end = near, time.process_time() + cpu_s
        case.cache["end"] = trial.cpu_end
        pages = (*first, *(page for page in pages_of(case) if page not in first))
        for at, page in enumerate(pages):
            if watch is not None:
                watch(f"known faults at {case.output}", at, len(pages))
            trial.try_page(page)
        search.groups = _group(case, trial.exact) if near is None else [[candidate] for candidate in trial.exact]
    search.partial, search.trial = trial.nearest(), trial
    search.families, search.tried, search.not_tried = trial.families, trial.tried, trial.not_tried
    search.finished = frozenset(trial.finished)
    search.seconds = time.monotonic() - start + (before.seconds if before is not None else 0.0)
    return search


def complete_partial(search: FaultSearch) -> None:
    """Computes the whole output for the variants that one row of it contradicted, so that partial and families cover
    all variants. This is needed if nothing explains the case. Variants for which there is no time until the search's
    deadline are left out."""
    if search.trial is None or not search.trial.contradicted:
        return
    with np.errstate(all="ignore"), warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore")
        search.trial.compute_contradicted()
    search.partial, search.families = search.trial.nearest(), search.trial.families


class _FaultTrial:
    """Tries faults on one case.

    Attributes:
        exact: candidates that gave every byte.
        partial: by family, its best fault that comes nearer than no fault at all.
        numbers: by family, the number of the variant in `partial`, in the order in which variants came.
        number: number of the last variant.
        contradicted: variants that one row of the output contradicts, each with its number and page.
        texts: texts of all variants, if they are collected.
        near: as in search_faults. cpu_end: time of time.process_time() at which the trial ends.
    """

    def __init__(self, case: Case, deadline: float, before: FaultSearch | None = None):
        self.case, self.deadline, self.enough = case, deadline, time.process_time() + ENOUGH_S
        self.recorded, self.differing = element_bits(case.recorded), case.differing
        self.share_without_fault = 1 - self.differing.size / self.recorded.size
        self.exact: list[Candidate] = []
        self.partial: dict[str, Partial] = {}
        self.numbers: dict[str, int] = {}
        self.number = 0
        self.contradicted: list[tuple[int, HypothesisPage, FaultVariant]] = []
        self.families: dict[str, float] = {}
        self.not_tried: list[str] = []
        self.finished: set[str] = set()
        self.tried = 0
        if before is not None:
            self.enough, self.finished, self.tried = inf, set(before.finished), before.tried
            self.partial, self.families = {p.cause.family: p for p in before.partial}, dict(before.families)
            self.contradicted = list(before.trial.contradicted) if before.trial is not None else []
            self.number = before.trial.number if before.trial is not None else 0
        self.differing_mask: Array | None = None
        self.texts: set[str] | None = None
        self.near: NearFits | None = None
        self.cpu_end = inf

    def try_page(self, page: HypothesisPage) -> None:
        """Tries all variants of a page, as far as there is time."""
        if page.NAME in self.finished:
            return
        if why := self._reason_to_stop():
            self.not_tried.append(f"{page.NAME}: {why}")
            return
        exact, tried, tried_before = [], 0, self.case.number_tried
        try:
            for variant in page.variants(self.case):
                if why := self._reason_to_stop():
                    self.not_tried.append(f"{page.NAME}, all or part of it: {why}")
                    break
                tried += 1
                if self.texts is not None:
                    self.texts.add(variant.text)
                exact += self._try_variant(page, variant)
            else:
                self.finished.add(page.NAME)
        except OutOfTime:
            self.not_tried.append(f"{page.NAME}, all or part of it: {OUT_OF_COMPUTING}")
        except DOES_NOT_FIT as error:
            self.not_tried.append(f"{page.NAME}: {type(error).__name__}: {error}")
            self.finished.add(page.NAME)
        tried = max(tried, self.case.number_tried - tried_before)
        self.tried += tried
        for variant in exact:
            choice = (variant.bits or log2_of(tried)) + variant.part_bits
            cause = _make_cause(page.NAME, choice, variant, self.case)
            self.exact.append(Candidate(cause, variant, self._is_supported(choice, variant)))

    def _reason_to_stop(self) -> str:
        """Returns the reason why the search must stop now, or ""."""
        if time.monotonic() > self.deadline:
            return "the time limit was reached"
        if time.process_time() > self.cpu_end:
            return OUT_OF_COMPUTING
        is_enough = self.exact and time.process_time() > self.enough
        return f"{ENOUGH_S:g} s of computing had passed and a cause was found" if is_enough else ""

    def _try_variant(self, page: HypothesisPage, variant: FaultVariant) -> list[FaultVariant]:
        """Returns the fault if it gives every byte. If it gives only every differing byte, returns the fault confined
        to those parts of the output with which it gives every byte. Records how near the fault comes."""
        self.number += 1
        try:
            may_fit = None if self.near is not None and self.case.recorded.dtype.kind == "f" else variant.may_fit
            if may_fit is not None and not may_fit(self.case):
                return []
            if is_contradicted(self.case, variant.make, 0 if self.near is None else self.near.reach):
                self.contradicted.append((self.number, page, variant))
                self.families.setdefault(page.NAME, 0.0)
                return []
        except DOES_NOT_FIT:
            return []
        return self._compare_whole(self.number, page, variant)

    def _compare_whole(self, number: int, page: HypothesisPage, variant: FaultVariant) -> list[FaultVariant]:
        try:
            output = variant.make(self.case)
        except DOES_NOT_FIT:  # words or shapes that this fault cannot have on this unit
            return []
        if output.shape != self.case.recorded.shape or output.dtype != self.case.recorded.dtype:
            return []
        if self.near is not None:
            self.near.add(page.NAME, variant, output)
        same = element_bits(output) == self.recorded
        if same.all():
            self.families[page.NAME] = 1.0
            return [variant]
        predicted = same if variant.free is None else same & ~variant.free
        self._note_partial(number, page, variant, predicted)
        if variant.free is not None or variant.copied or not same[self.differing].all():
            return []
        if self.differing_mask is None:
            self.differing_mask = np.zeros(same.size, bool)
        self.differing_mask[self.differing] = True
        return restrict(self.case, variant, output, self.differing_mask)

    def _note_partial(self, number: int, page: HypothesisPage, variant: FaultVariant, predicted: Array) -> None:
        of_all = np.count_nonzero(predicted) / predicted.size
        self.families[page.NAME] = max(self.families.get(page.NAME, 0.0), of_all)
        best = self.partial.get(page.NAME)
        least = self.share_without_fault if best is None else best.of_all
        if of_all > least or (best is not None and of_all == least and number < self.numbers.get(page.NAME, 0)):
            share = np.count_nonzero(predicted[self.differing]) / self.differing.size
            if share:
                fault = Fault(page.NAME, variant.text, round(variant.bits, 1))
                self.partial[page.NAME], self.numbers[page.NAME] = Partial(fault, share, of_all), number

    def nearest(self) -> list[Partial]:
        """Returns the best of `partial`; equally good ones are in the order in which they came."""
        ranked = sorted(self.partial.values(), key=lambda p: (-p.of_all, self.numbers.get(p.cause.family, 0)))
        return ranked[:MAX_PARTIAL]

    def compute_contradicted(self) -> None:
        """Computes the whole output of the contradicted variants, for partial and families, until the deadline."""
        while self.contradicted and time.monotonic() <= self.deadline:
            self._compare_whole(*self.contradicted.pop(0))

    def _is_supported(self, choice: float, variant: FaultVariant) -> bool:
        """Returns whether the differing elements give more evidence than the choice of the fault from its family
        costs."""
        if variant.copied:
            return evidence.copy_is_evidence(self.case, choice, variant.free)
        if variant.free is not None:
            return evidence.garbage_is_evidence(self.case, choice, variant.free)
        return evidence.difference_bits(self.case) >= choice + evidence.MIN_MARGIN_BITS


def fit_family(case: Case, family: str, deadline: float) -> tuple[list[Candidate], frozenset[str]]:
    """Returns the faults of one family that give every recorded byte, and the texts of all that were tried. deadline: a
    time of time.monotonic()."""
    page = next((page for page in pages_of(case) if family == page.NAME), None)
    if page is None:
        return [], frozenset()
    with np.errstate(all="ignore"), warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore")
        trial = _FaultTrial(case, deadline)
        trial.enough, trial.texts = inf, case.note_texts()
        trial.try_page(page)
    return trial.exact, frozenset(trial.texts)


def _make_cause(family: str, choice: float, variant: FaultVariant, case: Case) -> Fault:
    taken = 0 if variant.free is None else int(np.count_nonzero(variant.free))
    return Fault(family, variant.text, round(choice + taken * 8 * case.recorded.itemsize, 1), taken)


def _group(case: Case, exact: list[Candidate]) -> list[list[Candidate]]:
    """Returns the candidates in groups that give equal bytes on random inputs. Candidates that change nothing there are
    not shown to be equal, so each is a group of its own."""
    digests_of = [tuple[str, ...]()] * len(exact)  # digests on random inputs, as far as others have the same
    healthy: tuple[str, ...] = ()
    for noise_case in (case.on_noise(seed) for seed in NOISE_SEEDS if len(exact) > 1):
        counts = Counter(digests_of)
        digests_of = [
            (*digests, _digest(candidate.variant, noise_case)) if counts[digests] > 1 else digests
            for digests, candidate in zip(digests_of, exact, strict=True)
        ]
        healthy = (*healthy, tensor_digest(noise_case.healthy))
    groups: dict[tuple[str, ...], list[Candidate]] = {}
    for digests, candidate in zip(digests_of, exact, strict=True):
        groups.setdefault((candidate.variant.text,) if digests == healthy else digests, []).append(candidate)
    ranked = sorted((sorted(_prefer_whole(g), key=_rank) for g in groups.values()), key=lambda g: _rank(g[0]))
    return [[replace(candidate, group=at) for candidate in group] for at, group in enumerate(ranked)]


def _prefer_whole(group: list[Candidate]) -> list[Candidate]:
    """Returns the causes that apply to the whole output, or all causes if there are none."""
    return [c for c in group if not c.variant.part] or group


def _rank(candidate: Candidate) -> tuple[bool, float, int]:
    return not candidate.supported, candidate.cause.bits, len(candidate.cause.said)


def _digest(variant: FaultVariant, case: Case) -> str:
    try:
        output: Array = variant.make(case)
    except DOES_NOT_FIT:
        return variant.text
    return tensor_digest(output)

"""Forced verdicts: side a runs one unit on the inputs that side b recorded, and the result is compared with the output
that b recorded."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from qverify.compare.error_bounds.chain import is_stepwise
from qverify.compare.judge import Judged
from qverify.compare.kernel_sets import (
    KEYS,
    KernelSets,
    RunUnit,
    differ_wholly,
    judge_by_kernels,
    leave_wholly_different_open,
    leave_wide_limit_open,
    sets_of,
)
from qverify.compare.limits import BITS, Limit, choose_foreign_limit, limit_for
from qverify.compare.paired_values import bits_equal
from qverify.compare.regions import Region
from qverify.compare.same_arrays import SameArrays
from qverify.compare.stated_arithmetic import read_stated
from qverify.compare.tie_aware import ExactUnit, TieAwareLimits, check_both, conclude_ties
from qverify.compare.values import Values, both_keep_arrays, same_bytes
from qverify.errors import QVerifyError
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit
from qverify.printable import describe_error
from qverify.report.document import Forced
from qverify.report.side_names import named, within
from qverify.tensors.codes import store_as
from qverify.tensors.recording import NOT_GIVEN, Array, Recording

DUMPS = ("dump", "A", "B")  # sides of which nothing shows which runtime made them


@dataclass(frozen=True, slots=True)
class Located:
    """The results of forcing one pair.

    Attributes:
        a, b: the two sides.
        same: function that returns whether both sides have the same bytes of a tensor, or None if this is not known.
        forced: forced verdicts by tensor.
    """

    a: str
    b: str
    same: Callable[[str], bool | None]
    forced: Mapping[str, Forced]


def is_foreign(side: Recording) -> bool:
    """Returns whether a side is a dump or was computed by a runtime other than qvrt."""
    return side.side in DUMPS or side.runtime != "qvrt"


class Forcing:
    """Forces the units of one judged pair.

    Args:
        judged: the pair.
        graph: the graph that both sides run.
        run_unit: function that runs one unit on side a, or None if a cannot run single units.
        exact: whether both sides run the same model.bin, so that their bytes must be equal.
        inputs: the graph's inputs, shared by all sides.
        cache: the cache that the pairs of one comparison share.
        kernel_sets: functions that run one unit with other kernels of side a, of a graph of an engine's operators.
    """

    def __init__(
        self,
        judged: Judged,
        graph: Graph,
        run_unit: RunUnit | None,
        exact: bool,
        inputs: Mapping[str, Array],
        cache: SameArrays | None = None,
        kernel_sets: Mapping[str, RunUnit] | None = None,
    ):
        self.judged, self.graph, self.run_unit, self.exact, self.inputs = judged, graph, run_unit, exact, inputs
        self.stated = read_stated(graph) if exact and is_foreign(judged.b.recording) else None
        self._cache = cache or SameArrays()
        self._same: dict[str, bool | None] = {}
        self._offered: dict[str, bool] = {}
        self._stored: dict[tuple[str, int], tuple[Array, Array | str]] = {}
        self._unreadable: dict[str, str] = {}
        self._fitting: dict[str, list[str] | None] = {}  # the arithmetics that give every element, by unit
        self._kernel_sets = KernelSets(
            sets_of(kernel_sets or {}, judged.b.recording.engine) if is_foreign(judged.b.recording) else {}
        )
        # What shipped_arithmetics.find_rounded_otherwise() returns, set by who forces all units.
        self.rounded_otherwise: dict[str, Forced] = {}
        self.giving: dict[str, list[str]] = {}  # sets of kernels that give every byte of a recorded output, by its name
        self._graph_inputs, self._finals = frozenset(graph.inputs), frozenset(judged.b.recording.finals)

    def prefetch(self, units: list[Unit]) -> None:
        """Pulls all tensors that these units need from b, in one request."""
        names = dict.fromkeys(n for u in units for n in (*u.inputs, *u.outputs))
        needed = [n for n in names if n not in self._graph_inputs and not self.same(n)]
        self.judged.b.fetch([self._map_names(n)[1] for n in needed if self.is_offered(n)])

    def same(self, name: str) -> bool | None:
        """Returns whether both sides have the same bytes of this tensor, or None if that cannot be determined."""
        if name in self._graph_inputs:
            return True
        if name not in self._same:
            row = self.judged.rows.get(name)
            if row is not None:
                self._same[name] = row.bit_equal or self._has_same_codes(name)
            elif self.is_offered(name):
                self._same[name] = same_bytes(self.judged.a, self.judged.b, *self._map_names(name))
            else:
                self._same[name] = None
        return self._same[name]

    def _has_same_codes(self, name: str) -> bool:
        """Returns whether a side gives real values of a quantized tensor that stand for the other side's integers."""
        name_a, name_b = self._map_names(name)
        sides = (self.judged.a, name_a), (self.judged.b, name_b)
        values = [side.get_local(n) for side, n in sides]
        spec = self.graph.spec(name)
        if any(v is None for v in values) or all(v is not None and v.dtype == spec.numpy_dtype for v in values):
            return False
        stored = [self._as_stored(name, v, side, n) for v, (side, n) in zip(values, sides, strict=True)]
        return stored[0] is not None and stored[1] is not None and bits_equal(stored[0], stored[1])

    def force_unit(self, unit: Unit) -> dict[str, Forced]:
        """Returns the forced verdict of each output, by name. A unit that cannot be forced is INCONCLUSIVE, with the
        reason."""
        outputs = [o for o in unit.outputs if not self.graph.spec(o).interior]
        known = self._same
        inputs_same = all([known.get(n) or self.same(n) for n in unit.inputs])
        if inputs_same and all([known.get(o) or self.same(o) for o in outputs]):
            return {o: self._accept_equal(unit, o) for o in outputs}
        arrays = self._list_local_arrays(unit)
        if arrays is None:
            return self._run(unit, outputs, inputs_same)
        key = (id(self.judged.a), self.exact, self.is_foreign, self.kernels, *unit.outputs)
        verdicts = self._cache.find(key, arrays)
        if verdicts is None or any(f.why and f.on != self.judged.pair.b for f in verdicts.values()):
            verdicts = self._run(unit, outputs, inputs_same)  # `why` may name the side
            self._cache.keep(key, arrays, verdicts)
        return {o: replace(f, on=self.judged.pair.b) for o, f in verdicts.items()}

    def _list_local_arrays(self, unit: Unit) -> list[Array] | None:
        """Returns all arrays of b on which a verdict of this unit depends, or None if one of them has not been sent or
        is not kept in memory."""
        if not both_keep_arrays(self.judged.a, self.judged.b):
            return None
        arrays = []
        for name in (*unit.inputs, *unit.outputs):
            value = self.inputs[name] if name in self.inputs else self.judged.b.get_local(self._map_names(name)[1])
            if value is None:
                return None
            arrays.append(value)
        return arrays

    def _run(self, unit: Unit, outputs: list[str], inputs_same: bool) -> dict[str, Forced]:
        """Computes the unit on side a and returns the forced verdict of each output, by name."""
        computed = self._compute(unit, outputs, inputs_same)
        if isinstance(computed, str):
            return {o: self._make_inconclusive(unit, o, computed) for o in outputs}
        return {o: self._judge(unit, o, computed) for o in outputs}

    def _compute(self, unit: Unit, outputs: list[str], inputs_same: bool) -> Mapping[str, Array] | str:
        """Returns a's outputs for b's inputs, or the reason why they cannot be computed."""
        if inputs_same:  # then a's run has already computed them
            recorded_by_a = {o: self._get_local(self.judged.a, self._map_names(o)[0], o) for o in outputs}
            if all(v is not None for v in recorded_by_a.values()):
                return recorded_by_a  # type: ignore[return-value]
        if self.run_unit is None:
            return f"{named(self.judged.pair.a)} cannot run a node alone"
        arrays = {}
        for name in unit.inputs:
            value = self.read_recorded(name)
            if value is None:
                return self._explain_missing(name, "input")
            if why := self._describe_misfit(name, value):
                return why
            arrays[name] = value
        try:
            computed = self.run_unit(unit, arrays)
        except (QVerifyError, ValueError, MemoryError) as error:  # which must not end the comparison
            return f"{named(self.judged.pair.a)} could not run it alone: {describe_error(error)}"
        lacking = [o for o in outputs if o not in computed]
        return f"{named(self.judged.pair.a)} gave no {lacking[0]}" if lacking else computed

    def _describe_misfit(self, name: str, value: Array) -> str:
        """Returns why a recorded input is not one of the graph's, by type or shape; "" if it is."""
        spec = self.graph.spec(name)
        if value.shape == spec.shape and value.dtype == spec.numpy_dtype:
            return ""
        given, wanted = f"{value.dtype}{list(value.shape)}", f"{spec.dtype}{list(spec.shape)}"
        return f"its input {name} is {given} {within(self.judged.pair.b)}, {wanted} in the model"

    def read_recorded(self, name: str) -> Array | None:
        """Returns the value of an input that b recorded, or a's copy if the bytes are the same, or None if neither is
        available."""
        if name in self.inputs:
            return self.inputs[name]
        name_a, name_b = self._map_names(name)
        if name in self._graph_inputs or self.same(name):
            for side, name_at_side in ((self.judged.b, name_b), (self.judged.a, name_a)):
                if (value := self._get_local(side, name_at_side, name)) is not None:
                    return value
        if not self.is_offered(name):
            return None
        return self._as_stored(name, self.judged.b.get(name_b), self.judged.b, name_b)

    def _get_local(self, side: Values, name_at_side: str, name: str) -> Array | None:
        return self._as_stored(name, side.get_local(name_at_side), side, name_at_side)

    def _as_stored(self, name: str, value: Array | None, side: Values, name_at_side: str) -> Array | None:
        """Returns the value as the graph stores it, if it has the graph's shape: as store_as() does. Returns None if it
        stands for none, and keeps the reason."""
        spec = self.graph.spec(name)
        if value is None or value.shape != spec.shape or value.dtype == spec.numpy_dtype:
            return value
        key = name, id(value)
        if key not in self._stored:
            own = side.recording.specs.get(name_at_side)
            self._stored[key] = value, store_as(value, own, spec)
        codes = self._stored[key][1]
        if isinstance(codes, str):
            self._unreadable[name] = codes
            return None
        return codes

    def _explain_missing(self, name: str, role: str) -> str:
        """Returns the reason why an input or output that b recorded cannot be read."""
        if why := self._unreadable.get(name):
            return f"its {role} {name} is recorded as {why}"
        return f"its {role} {name} is missing {within(self.judged.pair.b)}"

    def _read_output(self, name: str) -> Array | None:
        """Returns the value of an output that b recorded, or a's copy if the bytes are the same, or None if neither is
        available."""
        name_b = self._map_names(name)[1]
        recorded = self._as_stored(name, self.judged.b.get(name_b), self.judged.b, name_b)
        if recorded is None and self.same(name):
            recorded = self._get_local(self.judged.a, self._map_names(name)[0], name)
        return recorded

    def _judge(self, unit: Unit, name: str, computed: Mapping[str, Array]) -> Forced:
        from qverify.compare.distance import measure_distance

        spec, made, recorded = self.graph.spec(name), computed[name], self._read_output(name)
        if recorded is None:
            return self._make_inconclusive(unit, name, self._explain_missing(name, "output"))
        limit, by_ties = self._choose_limit(unit, name)
        foreign = self._is_foreign_unit(unit)
        if made.shape != recorded.shape or made.dtype != recorded.dtype:
            why = f"{recorded.dtype}{list(recorded.shape)} recorded, {made.dtype}{list(made.shape)} computed"
            if isinstance(unit, Region):  # the row says so; nothing shows at which of its nodes
                return self._make_inconclusive(unit, name, why)
            return Forced(
                "FAILED", None, None, None, spec.elements, limit.text, self.judged.pair.a, self.judged.pair.b, why
            )
        forced = measure_distance(made, recorded, spec, limit, self.judged.pair.a, self.judged.pair.b)
        if not forced.mismatched:
            return forced
        if self.graph.is_of_operators:
            return self._judge_by_kernels(unit, name, made, recorded, forced)
        if isinstance(unit, Region) and (foreign or limit.lsb + limit.share > 0):
            return self._judge_region(unit, name, made, recorded, forced)
        if foreign or self.stated is not None:
            found = self._judge_foreign(unit, name, made, recorded, forced)
            if foreign and self._kernel_sets.is_known and differ_wholly(made, recorded):
                return leave_wide_limit_open(found)
            if foreign and found.verdict != "PASSED":
                given = {source: value for source in unit.inputs if (value := self.read_recorded(source)) is not None}
                self.giving[name] = self._kernel_sets.find(unit, name, given, recorded)
            return found
        return self._judge_ties(unit, name, computed, recorded, forced) if by_ties else forced

    def _judge_by_kernels(self, unit: Unit, name: str, made: Array, recorded: Array, measured: Forced) -> Forced:
        """Returns the verdict on an operator of another engine, which nothing but the engine's own kernels evaluates."""
        from qverify.compare.rounded_inputs import is_of_blocks, judge_layer_of_blocks

        given = {source: value for source in unit.inputs if (value := self.read_recorded(source)) is not None}
        if len(given) < len(unit.inputs):
            missing = next(source for source in unit.inputs if source not in given)
            return self._make_inconclusive(unit, name, self._explain_missing(missing, "input"))
        if is_of_blocks(unit, self.graph):
            if self.run_unit is None:
                return self._make_inconclusive(unit, name, f"{named(self.judged.pair.a)} cannot run a node alone")
            return judge_layer_of_blocks(measured, unit, name, given, recorded, self.run_unit)
        names = self.giving[name] = self._kernel_sets.find(unit, name, given, recorded)
        if names and differ_wholly(made, recorded):
            self.giving[name] = []
            return leave_wholly_different_open(measured, names)
        if not names and (why := self._find_hidden_state(unit, name, given, made)):
            return replace(measured, verdict="INCONCLUSIVE", why=why, unexplained=measured.mismatched or 0)
        here = bool(self.kernels) and re.split("[:?]", self.judged.b.recording.host)[0] == "local"
        same = all(self.same(n) for n in unit.inputs)
        read = given[unit.inputs[0]].size if unit.inputs else 0
        return judge_by_kernels(measured, unit.op, made, recorded, names, here, same, read)

    def _find_hidden_state(self, unit: Unit, name: str, given: Mapping[str, Array], made: Array) -> str:
        """Returns why `made` shows nothing, if the reference does not give it again from these inputs; else ""."""
        by = named(self.judged.pair.a)
        try:
            again = self.run_unit(unit, given).get(name) if self.run_unit is not None else None
        except (QVerifyError, ValueError, MemoryError) as error:
            return f"{by} cannot run it alone: {describe_error(error)}"
        if again is not None and again.shape == made.shape and bits_equal(again, made):
            return ""
        return f"{by} gives other bytes when it runs it alone on the same inputs"

    def _judge_region(self, unit: Region, name: str, made: Array, recorded: Array, measured: Forced) -> Forced:
        """Returns the verdict on several units of which the side does not give the tensors between them."""
        from qverify.compare.region_verdict import RecomputedRegion, judge_region

        given = {source: value for source in unit.inputs if (value := self.read_recorded(source)) is not None}
        if len(given) < len(unit.inputs):
            missing = next(source for source in unit.inputs if source not in given)
            return self._make_inconclusive(unit, name, self._explain_missing(missing, "input"))
        half = 0.5 * 10.0**-self.judged.gate.digits
        stated = self.stated is not None and self.stated.states_all(unit.members, self.graph)
        return judge_region(RecomputedRegion(unit, name, self.graph, given, made, recorded, half, stated), measured)

    def _judge_foreign(self, unit: Unit, name: str, made: Array, recorded: Array, measured: Forced) -> Forced:
        """Returns the verdict on a unit of a side that rounds in its own way, known or stated."""
        from qverify.compare.foreign import ForeignUnit, describe_stated

        given = {source: value for source in unit.inputs if (value := self.read_recorded(source)) is not None}
        if len(given) < len(unit.inputs):
            missing = next(source for source in unit.inputs if source not in given)
            return self._make_inconclusive(unit, name, self._explain_missing(missing, "input"))
        same, others = all(self.same(n) for n in unit.inputs), self._read_others(unit, name, recorded)
        half = 0.5 * 10.0**-self.judged.gate.digits
        foreign = ForeignUnit(
            unit, name, self.graph, given, made, recorded, self.kernels, same, others, half, self.is_made_known
        )
        if not self._is_foreign_unit(unit):
            return describe_stated(foreign, measured)
        return self._cache.judge_once(foreign, measured)

    def gives_all(self, unit: Unit, arithmetic: str) -> bool | None:
        """Returns whether an arithmetic of the catalogue gives every element of the unit's first output that b
        recorded, or None if a tensor is missing or the catalogue has nothing on the unit."""
        if unit.name not in self._fitting:
            self._fitting[unit.name] = self._find_fitting(unit)
        fitting = self._fitting[unit.name]
        return None if fitting is None else arithmetic in fitting

    def gives_all_by_kernels(self, unit: Unit, kernels: str) -> bool | None:
        """Returns whether a set of kernels gives every element of the unit's first output that b recorded, or None if a tensor
        is missing."""
        given = {source: value for source in unit.inputs if (value := self.read_recorded(source)) is not None}
        recorded = self._read_output(unit.outputs[0])
        if recorded is None or len(given) < len(unit.inputs):
            return None
        return kernels in self._kernel_sets.find(unit, unit.outputs[0], given, recorded)

    def find_kernels(self, units: list[Unit]) -> str:
        """Returns the documented kernels whose bytes b gave at every node, from the inputs that b recorded: of LiteRT, one set on
        this host. "" if no set does, or b did not give a tensor. units: all of the graph, or regions in their place."""
        name = self._kernel_sets.find_common(
            units, self.read_recorded, lambda unit: [o for o in unit.outputs if not self.graph.spec(o).interior]
        )
        return KEYS.get(name, "")

    def _find_fitting(self, unit: Unit) -> list[str] | None:
        from qverify.compare.arithmetics import Rounded
        from qverify.compare.find_arithmetics import find_arithmetics

        given = {source: value for source in unit.inputs if (value := self.read_recorded(source)) is not None}
        recorded = self._read_output(unit.outputs[0])
        if recorded is None or len(given) < len(unit.inputs):
            return None
        if any(v.shape != self.graph.spec(n).shape for n, v in {**given, unit.outputs[0]: recorded}.items()):
            return None
        rounded = Rounded(unit, unit.outputs[0], self.graph, given)
        return find_arithmetics(rounded, recorded, recorded) if rounded.formulas else None

    @property
    def unreadable(self) -> list[str]:
        """The tensors that b recorded as real values that stand for no integers, so that nothing is recomputed from
        them."""
        return list(self._unreadable)

    @property
    def refused(self) -> set[str]:
        """The tensors, by the graph's names, that b gave and that could not be used."""
        reasons = self.judged.b.failed
        named_b = {self._map_names(name)[1]: name for name in self.graph.tensors}
        return {named_b[n] for n, why in reasons.items() if n in named_b and not why.startswith(NOT_GIVEN)}

    def needs_evidence(self, unit: Unit, arithmetic: str) -> bool:
        """Returns needs_evidence() of find_arithmetics for a unit of this graph."""
        from qverify.compare.find_arithmetics import needs_evidence

        return needs_evidence(unit, self.graph, arithmetic)

    def _judge_ties(
        self, unit: Unit, name: str, computed: Mapping[str, Array], recorded: Array, measured: Forced
    ) -> Forced:
        """Returns the verdict under a tie-aware limit, for which the unit is evaluated once more in float64."""
        from qverify.compare.distance import measure_distance

        plain, arrays = limit_for(unit, name, self.graph), {}
        for source in unit.inputs:
            value = self.read_recorded(source)
            if value is None:
                return self._make_inconclusive(unit, name, self._explain_missing(source, "input"))
            arrays[source] = value
        try:
            limit = self._choose_limit(unit, name)[0]
            exact = ExactUnit(unit, name, self.graph, arrays, computed, self._read_others(unit, name, recorded))
            outcome = check_both(exact, computed[name], recorded, limit, plain)
        except (ValueError, IndexError, MemoryError) as error:  # recorded inputs that cannot be evaluated
            return self._make_inconclusive(unit, name, f"it could not be evaluated in float64: {type(error).__name__}")
        if isinstance(outcome, Limit):
            return measure_distance(computed[name], recorded, self.graph.spec(name), outcome, measured.by, measured.on)
        return conclude_ties(measured, outcome, recorded.shape)

    def _read_others(self, unit: Unit, name: str, recorded: Array) -> dict[str, Array]:
        """Returns the outputs that b recorded and on which the value of this one depends: all of a stepwise unit's,
        else none."""
        if not is_stepwise(unit):
            return {}
        others = {o: self._read_output(o) for o in unit.outputs if o != name}
        return {name: recorded, **{o: v for o, v in others.items() if v is not None}}

    def _choose_limit(self, unit: Unit, name: str) -> tuple[Limit, bool]:
        """Returns the limit before any evaluation, and whether it is tie-aware. It is not tie-aware if a side is another
        runtime, which is judged by foreign.judge_foreign()."""
        foreign = self._is_foreign_unit(unit)
        if (self.exact and not foreign) or self.graph.is_of_operators:
            return BITS, False
        if foreign:
            return choose_foreign_limit(limit_for(unit, name, self.graph), self.graph.spec(name)), False
        return self.graph.once(TieAwareLimits).of(unit, name)

    @cached_property
    def is_foreign(self) -> bool:
        """Whether one of the sides is a runtime other than qvrt, which rounds in its own way."""
        a, b = self.judged.a.recording, self.judged.b.recording
        return is_foreign(b) or (not self.exact and a.runtime != "qvrt")

    def _is_foreign_unit(self, unit: Unit) -> bool:
        """Returns whether the unit is judged as one of a side that rounds in its own way: not if the side's arithmetic
        states every byte of it."""
        return self.is_foreign and (self.stated is None or not self.stated.states(unit, self.graph))

    @property
    def kernels(self) -> str:
        """The documented kernels of the recorded side, as in Recording.kernels; "" if they are not known. If that side is
        qvrt, those of the reference, which is the one that is not."""
        a, b = self.judged.a.recording, self.judged.b.recording
        return b.kernels if is_foreign(b) else a.kernels

    @property
    def is_made_known(self) -> bool:
        """Whether what side a computes keeps to the same distance from ties as b's kernels. LiteRT as the reference does
        not, beside a side whose kernels are not known."""
        return bool(self.kernels) or not self.judged.a.recording.kernels

    def _accept_equal(self, unit: Unit, name: str) -> Forced:
        spec, (limit, _) = self.graph.spec(name), self._choose_limit(unit, name)
        lsb = 0 if spec.numpy_dtype.kind in "iub" else None
        return Forced(
            "PASSED",
            lsb,
            0,
            0.0,
            spec.elements,
            limit.text,
            self.judged.pair.a,
            self.judged.pair.b,
            "inputs and outputs agree bit for bit",
        )

    def _make_inconclusive(self, unit: Unit, name: str, why: str) -> Forced:
        limit, pair = self._choose_limit(unit, name)[0].text, self.judged.pair
        return Forced("INCONCLUSIVE", None, None, None, 0, limit, pair.a, pair.b, why)

    def _map_names(self, name: str) -> tuple[str, str]:
        pair = self.judged.names.get(name)
        return (name, name) if pair is None else (pair.a, pair.b)

    def is_offered(self, name: str) -> bool:
        """Returns whether b declares this tensor."""
        if name not in self._offered:
            side, name_b = self.judged.b.recording, self._map_names(name)[1]
            self._offered[name] = name_b in side.digests or name_b in side.tensors or name_b in self._finals
        return self._offered[name]

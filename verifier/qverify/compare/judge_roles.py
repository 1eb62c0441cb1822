"""Judges the roles of a tensor's channels by the gates that were given for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from qverify.compare.gate import Gate, GateCount
from qverify.compare.metrics import Context, make_measures, measure_equal
from qverify.compare.options import Options
from qverify.compare.paired_values import PairedValues, bits_equal
from qverify.compare.roles import (
    OutputRoles,
    RoleGate,
    axis_of,
    check_roles,
    parse_role_gate,
    parse_roles,
)
from qverify.model_bin.channel_axes import default_axis, find_channel_axes
from qverify.model_bin.graph import Graph
from qverify.report.channels import RoleRow
from qverify.tensors.recording import Array
from qverify.tensors.spec import TensorSpec


class RoleJudge:
    """Judges the roles of one pair's tensors. gate: that of the pair."""

    def __init__(self, options: Options, gate: Gate):
        self._gate, self._replaces = gate, gate.decimals and not gate.bits and not options.digits_given
        self._roles = parse_roles(options.roles)
        self._gates = [] if gate.bits else [parse_role_gate(text) for text in options.role_gates]

    def describe(self) -> str:
        """Returns the gates of roles in words, to follow those of the pair; "" without any."""
        return "".join(f"; {g.output}.{g.role} {g.describe()}" for g in self._gates)

    def describe_relaxation(self) -> list[str]:
        """Returns how roles are judged more mildly than the pair; [] if none is."""
        if not self._replaces or not self._gates:
            return []
        return [f"{g.output}.{g.role} judged by {g.describe()} instead of decimals" for g in self._gates]

    def list_equal(self, name: str, spec: TensorSpec, known_axis: int) -> list[RoleRow]:
        """Returns the rows of a tensor whose bytes are equal."""
        roles, rows = self._roles.get(name), []
        if roles is None:
            return []
        axis = axis_of(roles, known_axis, len(spec.shape))
        for role in roles.ranges:
            elements = spec.elements // max(spec.shape[axis], 1) * len(roles.select(role))
            dtype = "" if spec.scale else spec.dtype
            context = Context(self._gate.rule, self._gate.digits, elements, spec.numpy_dtype.kind in "iub", dtype)
            rows.append(self._row(role, roles, axis, elements, self._gates_of(name, role)))
            rows[-1].metrics = {k: v for k, v in measure_equal(context).items() if isinstance(v, (int, float))}
        return rows

    def measure(self, name: str, values: PairedValues, known_axis: int) -> list[RoleRow]:
        """Returns the rows of a tensor, judged."""
        roles, rows = self._roles.get(name), []
        if roles is None or not values.a.ndim:
            return []
        axis = axis_of(roles, known_axis, values.a.ndim)
        for role in roles.ranges:
            part = take_channels(values, axis, np.array(roles.select(role)))
            gates = self._gates_of(name, role)
            row = self._row(role, roles, axis, part.a.size, gates)
            row.metrics = self._measure(part, axis)
            if gates and not self._gate.bits:
                own = replace(self._gate, decimals=False, extra={g.metric: g.limit for g in gates})
                missed = GateCount(own).list_refusals(bits_equal(part.a, part.b), {**row.metrics})
                row.verdict, row.why = ("FAILED", "; ".join(missed)) if missed else ("PASSED", "")
            rows.append(row)
        return rows

    def rest_of(self, name: str, values: PairedValues, known_axis: int) -> PairedValues | None:
        """Returns the channels that the decimals judge, of a tensor with roles whose gates replace them; None if they judge
        the whole tensor."""
        roles = self._roles.get(name)
        gated = [g.role for g in self._gates if g.output == name]
        if roles is None or not gated or not self._replaces:
            return None
        axis = axis_of(roles, known_axis, values.a.ndim)
        judged = np.array([channel for role in gated for channel in roles.select(role)])
        rest: npt.NDArray[np.int64] = np.setdiff1d(np.arange(values.a.shape[axis]), judged)
        return take_channels(values, axis, rest)

    def _gates_of(self, name: str, role: str) -> list[RoleGate]:
        return [g for g in self._gates if (g.output, g.role) == (name, role)]

    def _row(self, role: str, roles: OutputRoles, axis: int, elements: int, gates: list[RoleGate]) -> RoleRow:
        return RoleRow(role, roles.describe(role), axis, elements, gates=[gate.describe() for gate in gates])

    def _measure(self, part: PairedValues, axis: int) -> dict[str, float | int | None]:
        """Returns the metrics of a role that are one number, and its largest share of clipped elements of a channel on
        side b."""
        from qverify.compare.channel_errors import measure_channels

        context = Context(self._gate.rule, self._gate.digits, part.a.size, part.integers, part.dtype)
        measures = make_measures(context)
        for block in part.blocks():
            for measure in measures.values():
                measure.add(block)
        found = {n: v for n, m in measures.items() if isinstance(v := m.result(), (int, float))}
        channels = measure_channels(part, axis, fewest=1)
        return {**found, "clipped": channels.most_clipped if channels is not None else None}


def check_output_roles(options: Options, graph: Graph) -> None:
    """Raises UsageError for roles and gates of roles that do not fit the final outputs of the network."""
    if options.roles or options.role_gates:
        shapes = {name: graph.spec(name).shape for name in graph.outputs}
        check_roles_of(options, shapes, find_channel_axes(graph))


def check_roles_of(
    options: Options, shapes: Mapping[str, Sequence[int]], axes: Mapping[str, int] | None = None
) -> None:
    """Raises UsageError for roles and gates of roles that do not fit tensors of these shapes, by name. axes: of their channels;
    None where nothing but the shape is known."""
    known = {name: default_axis(shape) for name, shape in shapes.items()} if axes is None else axes
    check_roles(parse_roles(options.roles), [parse_role_gate(text) for text in options.role_gates], shapes, known)


def take_channels(values: PairedValues, axis: int, channels: npt.NDArray[np.int64]) -> PairedValues:
    """Returns both tensors with these channels alone."""
    a, b = (np.ascontiguousarray(np.take(side, channels, axis=axis)) for side in (values.a, values.b))
    return PairedValues(
        a, b, _take_spec(values.spec_a, a, axis, channels), _take_spec(values.spec_b, b, axis, channels)
    )


def _take_spec(spec: TensorSpec, part: Array, axis: int, channels: npt.NDArray[np.int64]) -> TensorSpec:
    part_of = replace(spec, shape=part.shape, aligned_shape=part.shape)
    if len(spec.scale) <= 1 or spec.channel_axis != axis:
        return part_of
    scale = tuple(spec.scale[at] for at in channels)
    zero = tuple(spec.zero_point[at] for at in channels) if spec.zero_point else ()
    return replace(part_of, scale=scale, zero_point=zero)

"""The roles of an output's channels, by description (`[outputs.NAME] roles = {box = "0:64", score = "64:144"}`), and the gates
of single roles (`--gate boxes.score:cosine>=0.999`)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from qverify.closest_names import did_you_mean
from qverify.errors import UsageError
from qverify.printable import printable

KEYS, KEYS_OF_OUTPUTS_DIFF = ("roles", "axis"), ("scale", "zero_point")  # of a table [outputs.NAME]
MAX_ROLES, MAX_RANGES = 64, 1024  # of one output; of one role
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
GATE = re.compile(r"(?P<output>.+)\.(?P<role>[^.:]+):(?P<metric>[a-z0-9_]+)(?P<sign>>=|<=)(?P<limit>.+)")
METRICS: dict[
    str, tuple[str, Literal[">=", "<="]]
] = {  # what a gate of a role limits: its metric, and the sign that passes
    "cosine": ("cosine", ">="),
    "sqnr": ("sqnr_db", ">="),
    "euclid": ("euclidean_similarity", ">="),
    "rmse": ("rmse", "<="),
    "lsb": ("max_lsb", "<="),
    "max_abs": ("max_abs", "<="),
    "ulp": ("max_ulp", "<="),
    "kl": ("kl_divergence", "<="),
    "clipped": ("clipped", "<="),
}
SIGNS = dict(METRICS.values())
WANTED = "OUTPUT.ROLE:METRIC>=LIMIT, of cosine, sqnr, euclid, or OUTPUT.ROLE:METRIC<=LIMIT, of rmse, lsb, max_abs, ulp, kl, clipped"


@dataclass(frozen=True, slots=True)
class RoleGate:
    """A gate of one role. output: name of the output, as the user gave it. metric: name in the report. text: as it was
    given."""

    output: str
    role: str
    metric: str
    limit: float
    text: str

    def describe(self) -> str:
        """Returns the gate in words."""
        return f"{self.metric} {SIGNS[self.metric]} {self.limit:.12g}"


def is_role_gate(text: str) -> bool:
    """Returns whether a text of --gate may be meant as a gate of a role."""
    return bool(re.search(r"\.[^.:]*:[^:]*[<>=]", text)) and not text.startswith("task:")


def parse_role_gate(text: str) -> RoleGate:
    """Returns the gate. Raises UsageError for any other form, and for a sign that no bad value would miss."""
    match = GATE.fullmatch(text)
    try:
        limit = float(match["limit"]) if match else math.nan
    except ValueError:
        limit = math.nan
    if match is None or not math.isfinite(limit) or match["metric"] not in METRICS:
        meant = did_you_mean(match["metric"], METRICS) if match and match["metric"] not in METRICS else ""
        raise UsageError(f"--gate {printable(text)}: wanted {WANTED}{meant}")
    metric, sign = METRICS[match["metric"]]
    if sign != match["sign"]:
        raise UsageError(
            f"--gate {printable(text)}: {match['metric']} is better if it is {_BETTER[sign]}; wanted {sign}"
        )
    if metric == "cosine" and not -1 <= limit <= 1:
        raise UsageError(f"--gate {printable(text)}: wanted a cosine of -1 to 1")
    if sign == "<=" and limit < 0:
        raise UsageError(f"--gate {printable(text)}: wanted a limit >= 0")
    return RoleGate(match["output"], match["role"], metric, limit, text)


_BETTER = {">=": "larger", "<=": "smaller"}


@dataclass(frozen=True)
class OutputRoles:
    """The roles of one output. axis: of the channels, as the description states it; None if it does not. ranges: by role,
    (start, stop) of its channels, in the description's order."""

    axis: int | None
    ranges: dict[str, tuple[tuple[int, int], ...]]

    def select(self, role: str) -> list[int]:
        """Returns the numbers of the role's channels, in rising order."""
        return _numbers(self.ranges[role])

    def describe(self, role: str) -> str:
        """Returns the role's channels as text, such as 0:64."""
        return ",".join(f"{start}:{stop}" for start, stop in self.ranges[role])

    @cached_property
    def end(self) -> int:
        """The number of channels that the output must have at least."""
        return max(stop for ranges in self.ranges.values() for _, stop in ranges)


def _numbers(ranges: Sequence[tuple[int, int]]) -> list[int]:
    return sorted({channel for start, stop in ranges for channel in range(start, stop)})


def parse_roles(tables: Mapping[str, Any]) -> dict[str, OutputRoles]:
    """Returns the roles that the tables [outputs.NAME] of a description state, by output. Raises UsageError for a key or a range of
    another form, and for channels that two roles of one output have."""
    found = {}
    for output, table in tables.items():
        where = f"[outputs.{printable(output)}]"
        if not isinstance(table, Mapping):
            raise UsageError(f'{where}: wanted a table with roles = {{NAME = "START:STOP"}}')
        if unknown := [key for key in table if key not in (*KEYS, *KEYS_OF_OUTPUTS_DIFF)]:
            raise UsageError(
                f"{where}: unknown key {printable(unknown[0])!r}; known: {', '.join((*KEYS, *KEYS_OF_OUTPUTS_DIFF))}"
            )
        if not any(key in table for key in KEYS) and table:
            continue
        roles, axis = table.get("roles"), table.get("axis")
        if not isinstance(roles, Mapping) or not 1 <= len(roles) <= MAX_ROLES:
            raise UsageError(f'{where}: wanted roles = {{NAME = "START:STOP"}}, 1 to {MAX_ROLES} of them')
        if axis is not None and (type(axis) is not int or not -8 <= axis < 8):
            raise UsageError(f"{where}: axis {printable(str(axis))}: wanted a whole number, the axis of the channels")
        ranges = {name: _parse_ranges(text, f"{where} {printable(name)}") for name, text in roles.items()}
        if wrong := [name for name in roles if not NAME.fullmatch(name)]:
            raise UsageError(f"{where}: role {printable(wrong[0])!r}: wanted letters, digits, _ and -")
        _check_apart(ranges, where)
        found[output] = OutputRoles(axis, ranges)
    return found


def _parse_ranges(text: Any, where: str) -> tuple[tuple[int, int], ...]:
    parts = text.split(",") if isinstance(text, str) else [str(text)] if type(text) is int else []
    ranges = []
    for part in parts if len(parts) <= MAX_RANGES else []:
        start, colon, stop = (word.strip() for word in part.partition(":"))
        if not (start.isascii() and start.isdigit() and len(start) < 9) or (
            colon and not (stop.isdigit() and len(stop) < 9)
        ):
            break
        ranges.append((int(start), int(stop) if colon else int(start) + 1))
    if len(ranges) != len(parts) or not ranges or any(start >= stop or stop > 1 << 16 for start, stop in ranges):
        raise UsageError(
            f'{where}: {printable(str(text))[:80]!r}: wanted channels as "START:STOP", or several with commas'
        )
    return tuple(ranges)


def _check_apart(ranges: Mapping[str, Sequence[tuple[int, int]]], where: str) -> None:
    owner: dict[int, str] = {}
    for name, own in ranges.items():
        for channel in _numbers(own):
            if channel in owner:
                raise UsageError(f"{where}: channel {channel} is of two roles, {owner[channel]} and {name}")
            owner[channel] = name


def axis_of(roles: OutputRoles, known_axis: int, rank: int) -> int:
    """Returns the axis of the channels of an output: as stated, else as the network knows it."""
    return known_axis if roles.axis is None else roles.axis + rank if roles.axis < 0 else roles.axis


def check_roles(
    roles: Mapping[str, OutputRoles],
    gates: Sequence[RoleGate],
    shapes: Mapping[str, Sequence[int]],
    axes: Mapping[str, int],
) -> None:
    """Raises UsageError for roles of what is no output, or of channels that it does not have, and for gates of roles that
    are not described. shapes, axes: of the final outputs, by name."""
    for output, stated in roles.items():
        if output not in shapes:
            meant = did_you_mean(output, list(shapes))
            known = ", ".join(map(printable, list(shapes)[:10]))
            raise UsageError(f"[outputs.{printable(output)}]: no such output{meant}; the network has {known}")
        shape = shapes[output]
        axis = axis_of(stated, axes.get(output, -1), len(shape))
        if not 0 <= axis < len(shape) or stated.end > shape[axis]:
            dims = "x".join(map(str, shape))
            raise UsageError(
                f"[outputs.{printable(output)}]: roles up to channel {stated.end - 1} along axis {axis}, but the output is "
                f"{dims}; give axis, or other ranges"
            )
    for gate in gates:
        if gate.output not in roles:
            meant = did_you_mean(gate.output, list(roles))
            raise UsageError(
                f"--gate {printable(gate.text)}: no roles of {printable(gate.output)} are described{meant}; wanted "
                f"--description FILE with [outputs.{printable(gate.output)}] roles"
            )
        if gate.role not in roles[gate.output].ranges:
            known = ", ".join(roles[gate.output].ranges)
            raise UsageError(f"--gate {printable(gate.text)}: {printable(gate.output)} has the roles {known}")

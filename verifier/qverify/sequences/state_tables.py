"""Reads [state] and [steps] of a description."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from qverify.closest_names import did_you_mean
from qverify.errors import UsageError

if TYPE_CHECKING:
    from qverify.sequences.state import State, StepInput

STATE_KEYS = ("input", "initial", "grows", "via")
KINDS: tuple[Literal["count", "mask", "same"], ...] = ("count", "mask", "same")
MAX_START = 1 << 31


@dataclass(frozen=True, slots=True)
class StateTables:
    """What a description states. states: None without [state], so that states are found by name."""

    states: tuple[State, ...] | None = None
    steps: tuple[StepInput, ...] = ()


def parse_state_tables(states: Any, steps: Any, where: str) -> StateTables:
    """Returns [state] and [steps] of a description as read from TOML or JSON, None for an absent table. where: the file.
    Raises UsageError, in one line, for the first mistake."""
    for name, table in (("state", states), ("steps", steps)):
        if table is not None and not isinstance(table, Mapping):
            raise UsageError(f'{where}: {name} is not a table; wanted [{name}] with NAME = "..."')
    parsed = None if states is None else tuple(_parse_state(name, value, where) for name, value in states.items())
    if parsed is not None and not parsed:
        raise UsageError(f'{where}: [state] is empty; wanted OUTPUT = "INPUT", or no [state] to find states by name')
    made = StateTables(parsed, tuple(_parse_step(name, value, where) for name, value in (steps or {}).items()))
    _check_inputs(made, where)
    return made


def _parse_state(output: str, value: Any, where: str) -> State:
    from qverify.sequences.state import ARGMAX, State

    at = f"{where}: [state] {output}"
    if isinstance(value, str):
        value = {"input": value}
    if not isinstance(value, Mapping):
        raise UsageError(f'{at}: got {value!r}, wanted the name of an input or {{input = "NAME", initial = ...}}')
    if unknown := [key for key in value if key not in STATE_KEYS]:
        known = ", ".join(STATE_KEYS)
        raise UsageError(f"{at}: unknown key {unknown[0]!r}; known: {known}{did_you_mean(unknown[0], STATE_KEYS)}")
    name, via = value.get("input"), value.get("via", "")
    if not isinstance(name, str) or not name:
        raise UsageError(f"{at}: input is {name!r}, wanted the name of an input of the network")
    if via not in ("", ARGMAX):
        raise UsageError(f"{at}: via is {via!r}, wanted {ARGMAX!r}")
    return State(output, name, _parse_initial(value.get("initial", "zeros"), at, where), _parse_axis(value, at), via)


def _parse_initial(value: Any, at: str, where: str) -> float | str:
    """Returns a number, or the path of a .npy, taken relative to the description's folder."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    if value == "zeros":
        return 0.0
    if isinstance(value, str) and value.lower().endswith(".npy"):
        path = os.path.join(os.path.dirname(where), value)
        if not os.path.isfile(path):
            raise UsageError(f"{at}: initial {path}: no such file")
        return path
    raise UsageError(f'{at}: initial is {value!r}, wanted "zeros", a number or the path of a .npy')


def _parse_axis(value: Mapping[str, Any], at: str) -> int | None:
    axis = value.get("grows")
    if axis is None:
        return None
    if not isinstance(axis, int) or isinstance(axis, bool) or axis < 0:
        raise UsageError(f"{at}: grows is {axis!r}, wanted the number of an axis, from 0")
    return axis


def _parse_step(name: str, value: Any, where: str) -> StepInput:
    from qverify.sequences.state import StepInput

    at = f"{where}: [steps] {name}"
    kind, start = value, 0
    if isinstance(value, Mapping) and len(value) == 1:
        (kind, start) = next(iter(value.items()))
        if kind == "same" or not isinstance(start, int) or isinstance(start, bool) or not 0 <= start < MAX_START:
            raise UsageError(f"{at}: got {value!r}, wanted {{count = START}} with a whole number from 0")
    kinds = {known: known for known in KINDS}
    if not isinstance(kind, str) or kind not in kinds:
        raise UsageError(f'{at}: got {value!r}, wanted "count", "mask" or "same"')
    return StepInput(name, kinds[kind], start)


def _check_inputs(tables: StateTables, where: str) -> None:
    """Raises UsageError if an input gets its value from two places."""
    writers: dict[str, str] = {}
    for state in tables.states or ():
        if state.input in writers:
            raise UsageError(
                f"{where}: [state] {state.output}: input {state.input!r} is also that of {writers[state.input]}; "
                "an input has one output"
            )
        writers[state.input] = state.output
    for step in tables.steps:
        if step.input in writers:
            raise UsageError(f"{where}: [steps] {step.input}: it is a state, the output {writers[step.input]} before")

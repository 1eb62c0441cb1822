"""A network's loop: its states and step inputs, checked against its tensors."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from qverify.closest_names import did_you_mean
from qverify.errors import UsageError
from qverify.inputs.arrays import read_array_file
from qverify.model_bin.empty_inputs import empty_inputs
from qverify.model_bin.graph import Graph
from qverify.sequences.find_states import POSITIONS, find_states, find_step_inputs, growing_axis
from qverify.sequences.state import State, StepInput
from qverify.sequences.state_tables import StateTables
from qverify.tensors.file_names import file_stems
from qverify.tensors.recording import Array
from qverify.tensors.spec import TensorSpec

NEXT = 'name them in [state] of a --description: OUTPUT = "INPUT"'


@dataclass(frozen=True, slots=True)
class Loop:
    """The states of a network and its other inputs. inputs: specs of all inputs. states: by input. steps: by input.
    external: the inputs that get values from -i or at random, in the network's order."""

    inputs: Mapping[str, TensorSpec]
    states: Mapping[str, State]
    steps: Mapping[str, StepInput]
    external: tuple[str, ...]

    @property
    def shown(self) -> list[str]:
        """The states and step inputs, one per line."""
        lines = [f"state: {state.shown}" for state in self.states.values()]
        lines += [f"step input: {step.shown}" for step in self.steps.values()]
        return lines

    def initial(self, state: State) -> Array:
        """Returns the values of a state in the first step. Raises UsageError for a file that does not fit."""
        spec = self.inputs[state.input]
        if state.raw is not None:
            if len(state.raw) != spec.valid_bytes:
                raise UsageError(
                    f"{state.input}: {len(state.raw)} bytes of initial values in the file, wanted {spec.valid_bytes}"
                )
            return np.frombuffer(state.raw, spec.numpy_dtype).reshape(spec.shape)
        if not isinstance(state.initial, str):
            return np.full(spec.shape, _cast(state, spec), spec.numpy_dtype)
        values = np.asarray(read_array_file(state.initial))
        if values.shape != spec.shape or values.dtype != spec.numpy_dtype:
            got = f"{values.dtype}{list(values.shape)}"
            raise UsageError(
                f"{state.initial}: {got}, wanted {spec.dtype}{list(spec.shape)}, the initial value of {state.input}"
            )
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise UsageError(f"{state.initial}: contains NaN or infinite values; wanted an initial value")
        return values


def _cast(state: State, spec: TensorSpec) -> float | int:
    """Returns the initial number in the input's type; of zeros of a quantized input, its zero point."""
    value = float(state.initial)
    if spec.quantized and len(spec.scale) == 1:
        value = round(value / spec.scale[0]) + spec.zero_point[0]
    if np.dtype(spec.dtype).kind not in "iu":
        return value
    limits = np.iinfo(spec.dtype)
    if not value.is_integer() if isinstance(value, float) else False:
        raise UsageError(f"[state] {state.output}: initial {state.initial} for {spec.dtype} input {state.input!r}")
    if not limits.min <= value <= limits.max:
        raise UsageError(
            f"[state] {state.output}: initial {state.initial} is beyond {spec.dtype}, the type of {state.input!r}"
        )
    return int(value)


def find_prefill(graph: Graph, tables: StateTables, named: Collection[str] = ()) -> Loop:
    """Returns the loop of a prefill, whose outputs are the states of another network: its inputs are all external, but for
    those that count or start at the initial value of a state. named: as for find_loop()."""
    inputs = {name: graph.spec(name) for name in graph.inputs}
    outputs = {name: graph.spec(name) for name in graph.network_outputs()}
    known = tables.states if tables.states is not None else find_states(inputs, outputs)
    states = {s.input: s for s in known if s.input in inputs and s.output in outputs and not s.via}
    steps = {
        s.input: s
        for s in (*tables.steps, *find_step_inputs(_unnamed(inputs, named)))
        if s.input in inputs and s.input not in states
    }
    same = {n for n, s in steps.items() if s.kind == "same"}
    return Loop(inputs, states, steps, tuple(n for n in inputs if n not in states and (n not in steps or n in same)))


def find_loop(graph: Graph, tables: StateTables, steps: int, named: Collection[str] = ()) -> Loop:
    """Returns the loop of a network. steps: how many are asked. named: inputs that have files, by the names of the
    inputs or of the files. Raises UsageError, in one line, for states that the network does not have or that do not fit."""
    inputs = {name: graph.spec(name) for name in graph.inputs} | empty_inputs(graph)
    outputs = {name: graph.spec(name) for name in graph.network_outputs()}
    if tables.states is None:
        stated = {step.input for step in tables.steps}
        states = find_states({n: s for n, s in inputs.items() if n not in stated}, outputs)
        if not states:
            raise UsageError(
                f"--steps: no state was found by name (inputs {', '.join(inputs)}; outputs {', '.join(outputs)}); {NEXT}"
            )
    else:
        states = tuple(_checked(state, inputs, outputs) for state in tables.states)
    for step in tables.steps:
        if step.input not in inputs:
            raise UsageError(f"[steps] {step.input}: {_no_such('input', step.input, inputs)}")
    given = {*(s.input for s in states), *(s.input for s in tables.steps)}
    found = find_step_inputs({n: s for n, s in _unnamed(inputs, named).items() if n not in given})
    by_step = {s.input: s for s in (*tables.steps, *found)}
    same = {n for n, s in by_step.items() if s.kind == "same"}
    by_state = {s.input: s for s in states}
    external = tuple(n for n in graph.inputs if n not in by_state and (n not in by_step or n in same))
    loop = Loop(inputs, by_state, by_step, external)
    _check_length(loop, steps)
    return loop


def _unnamed(inputs: dict[str, TensorSpec], named: Collection[str]) -> dict[str, TensorSpec]:
    """Returns the inputs that -i does not name."""
    stems = file_stems(inputs)
    return {n: s for n, s in inputs.items() if n not in named and stems[n] not in named}


def _no_such(what: str, name: str, known: Mapping[str, TensorSpec]) -> str:
    return f"the network has no such {what}; there are {', '.join(known)}{did_you_mean(name, list(known))}"


def _checked(state: State, inputs: Mapping[str, TensorSpec], outputs: Mapping[str, TensorSpec]) -> State:
    """Returns the state, with the axis that grows. Raises UsageError if it is not one of the network."""
    at = f"[state] {state.output}"
    if state.output not in outputs:
        raise UsageError(f"{at}: {_no_such('output', state.output, outputs)}")
    if state.input not in inputs:
        raise UsageError(f"{at}: input {state.input!r}: {_no_such('input', state.input, inputs)}")
    before, after = inputs[state.input], outputs[state.output]
    kinds = f"{after.dtype}{list(after.shape)}, its input {state.input!r} is {before.dtype}{list(before.shape)}"
    if state.via:
        if before.elements != 1 or before.dtype not in ("int32", "int64") or not after.shape:
            raise UsageError(f"{at}: it is {kinds}; argmax wanted one int32 or int64 element for a token")
        return state
    if before.dtype != after.dtype or (before.quantized and after.quantized and not before.same_meaning(after)):
        raise UsageError(f"{at}: it is {kinds}; wanted one type and one scale in both, so that it can be fed back")
    if before.shape == after.shape and state.grows is None:
        return state
    axis = growing_axis(before.shape, after.shape)
    if axis is None or state.grows != axis:
        hint = f", or grows = {axis}" if axis is not None else ""
        wanted = (
            f"one shape{hint}" if state.grows is None else f"an output that is longer along axis {state.grows} only"
        )
        raise UsageError(f"{at}: it is {kinds}; wanted {wanted}: the shapes do not fit from one step to the next")
    return replace(state, grows=axis)


def _check_length(loop: Loop, steps: int) -> None:
    """Raises UsageError if a position would be counted past the end of caches that are written in place."""
    counts = [s for n, s in loop.steps.items() if s.kind == "count" and n.lower() in POSITIONS]
    caches = [loop.inputs[s.input].shape for s in loop.states.values() if not s.via and s.grows is None]
    if not counts or not caches or any(len(shape) < 3 for shape in caches):
        return
    lengths = {shape[-2] for shape in caches}
    if len(lengths) != 1 or (length := lengths.pop()) < 2:
        return
    last = max(s.start for s in counts) + steps
    if last > length:
        raise UsageError(
            f"--steps {steps}: {counts[0].input} would count to {last - 1}, and the cache of "
            f"{next(iter(loop.states))} has {length} places; give --steps {max(length - counts[0].start, 0)} or fewer"
        )

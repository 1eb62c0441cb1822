"""One side's states from step to step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from qverify.sequences.loop import Loop
from qverify.sequences.state import State
from qverify.sequences.tokens import token_of
from qverify.tensors.recording import Array


@dataclass(slots=True)
class Chain:
    """The states that one side has before a step.

    Attributes:
        side: reference, simulator or board.
        values: the states by input.
        before: the states of the step before; {} before the first.
        outputs: its outputs in the step before, by name; {} before the first.
        lost: why the side has no state any more, "" if it has.
    """

    side: str
    values: dict[str, Array] = field(default_factory=dict)
    before: dict[str, Array] = field(default_factory=dict)
    outputs: dict[str, Array] = field(default_factory=dict)
    lost: str = ""

    def begin(self, loop: Loop) -> None:
        """Takes the initial values."""
        self.values = {state.input: loop.initial(state) for state in loop.states.values()}

    def advance(self, loop: Loop, outputs: Mapping[str, Array], why: str, tokens: Mapping[str, Array]) -> None:
        """Takes the outputs of a step as the next states. why: the reason if the side lacks one. tokens: the outputs of the
        side that chooses tokens, which every side gets."""
        lacking = [s.output for s in loop.states.values() if s.output not in (tokens if s.via else outputs)]
        if lacking:
            self.lost = f"{lacking[0]} of the {self.side} is missing" + (f": {why}" if why else "")
            return
        if misfit := next((text for s in loop.states.values() if (text := self._misfit(s, loop, outputs))), ""):
            self.lost = misfit
            return
        self.before, self.outputs, self.values = self.values, dict(outputs), {}
        for state in loop.states.values():
            spec = loop.inputs[state.input]
            if state.via:
                self.values[state.input] = np.full(spec.shape, token_of(tokens[state.output]), spec.numpy_dtype)
            else:
                self.values[state.input] = np.asarray(outputs[state.output])

    def _misfit(self, state: State, loop: Loop, outputs: Mapping[str, Array]) -> str:
        """Returns why an output cannot be the next state, "" if it can."""
        if state.via:
            return ""
        spec, value = loop.inputs[state.input], outputs[state.output]
        if value.dtype == spec.numpy_dtype and (value.shape == spec.shape or state.grows is not None):
            return ""
        got, wanted = f"{value.dtype}{list(value.shape)}", f"{spec.dtype}{list(spec.shape)}"
        return f"{state.output} of the {self.side} is {got}: wanted {wanted}"

    def equals(self, other: Chain) -> bool:
        """Returns whether both have the same bytes in every state."""
        return self.values.keys() == other.values.keys() and all(
            same_bytes(v, other.values[n]) for n, v in self.values.items()
        )


def same_bytes(a: Array, b: Array) -> bool:
    """Returns whether two arrays have the same type, shape and bytes."""
    if a is b or (a.dtype, a.shape) != (b.dtype, b.shape):
        return a is b
    if a.dtype.kind not in "biuf":
        return a.tobytes() == b.tobytes()
    bits = np.dtype(f"u{a.dtype.itemsize}")
    return bool(np.array_equal(np.ascontiguousarray(a).view(bits), np.ascontiguousarray(b).view(bits)))

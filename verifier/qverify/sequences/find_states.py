"""Finds the states of a network, and the inputs that count its steps, by names, types and shapes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from qverify.errors import UsageError
from qverify.plural import count
from qverify.sequences.state import State, StepInput
from qverify.tensors.spec import TensorSpec

OLD = frozenset({"past", "prev", "previous", "old", "last", "in", "input", "initial", "init"})
NEW = frozenset({"present", "next", "new", "out", "output", "updated", "cur", "current", "final", "n"})
STATED_OLD = frozenset({"past", "prev", "previous", "old"})  # words that no input has that is not a state
SIGNALS = frozenset(
    {
        "audio",
        "wave",
        "signal",
        "image",
        "frame",
        "mel",
        "spec",
        "x",
        "y",
        "data",
        "sample",
        "samples",
        "token",
        "tokens",
    }
    | {"ids", "logits", "mask", "input", "output"}
)
COUNTS = frozenset({"position", "position_ids", "cache_position", "input_pos", "step", "past_len", "past_length"})
POSITIONS = COUNTS - {"step"}
MASKS = frozenset({"attention_mask"})
PLAIN = frozenset({"state", "states", "cache", "caches"})
SPLIT = re.compile(r"[._/:\-\s]+|(?<=[a-zA-Z])(?=\d)|(?<=\d)(?=[a-zA-Z])")
Words = tuple[str, ...]


def words_of(name: str) -> list[str]:
    """Returns the words of a tensor's name, in lower case."""
    return [word.lower() for word in SPLIT.split(name) if word]


def _reduce(name: str, role: frozenset[str]) -> tuple[Words, bool]:
    """Returns the words of a name without those of a role, and whether it had one. `key values` after past or present
    is a part of that word."""
    kept, has_role, words = list[str](), False, words_of(name)
    at = 0
    while at < len(words):
        if words[at] in role:
            has_role = True
            at += 3 if words[at] in ("past", "present") and words[at + 1 : at + 3] == ["key", "values"] else 1
            continue
        kept.append(words[at])
        at += 1
    return tuple(kept), has_role


def is_past(name: str) -> bool:
    """Returns whether an input is a past value by its name."""
    return bool(STATED_OLD & set(words_of(name)))


def _plainer(words: Words) -> Words:
    """Returns the words without those that only say what a tensor is."""
    return tuple(word for word in words if word not in PLAIN)


def _suffixed(name: str) -> set[str]:
    """Returns the names that the output of an input X has where it is called Xn, XN, or Xn of X0."""
    return {f"{name}n", f"{name}N", *((f"{name[:-1]}n", f"{name[:-1]}N") if name.endswith("0") and name[:-1] else ())}


def growing_axis(before: Sequence[int], after: Sequence[int]) -> int | None:
    """Returns the only axis along which `after` is longer; None if there is none or more than one differs."""
    axes = [k for k, (b, a) in enumerate(zip(before, after, strict=False)) if a != b]
    return axes[0] if len(before) == len(after) and len(axes) == 1 and after[axes[0]] > before[axes[0]] else None


def _belong(name: str, source: TensorSpec, output: str, target: TensorSpec) -> bool:
    """Returns whether an output is the next value of an input, by their names, types and shapes."""
    if source.dtype != target.dtype:
        return False
    if source.shape != target.shape and growing_axis(source.shape, target.shape) is None:
        return False
    if output in _suffixed(name):
        return not set(words_of(name)) <= SIGNALS
    (old, has_old), (new, has_new) = _reduce(name, OLD), _reduce(output, NEW)
    said = (has_old or has_new) and not (set(old) <= SIGNALS and not is_past(name))
    return said and (old == new or (_plainer(old) == _plainer(new) != ()))


def find_states(inputs: Mapping[str, TensorSpec], outputs: Mapping[str, TensorSpec]) -> tuple[State, ...]:
    """Returns the states that names show, in the order of the inputs. Raises UsageError if some inputs that are past
    values by name find an output and others do not."""
    pairs = [(i, o) for i, a in inputs.items() for o, b in outputs.items() if _belong(i, a, o, b)]
    of_input, of_output = Counter(i for i, _ in pairs), Counter(o for _, o in pairs)
    states = tuple(
        State(o, i, grows=growing_axis(inputs[i].shape, outputs[o].shape), found=True)
        for i, o in pairs
        if of_input[i] == 1 and of_output[o] == 1
    )
    found = {state.input for state in states}
    past = [name for name in inputs if is_past(name)]
    lonely = [name for name in past if name not in found]
    if lonely and found & set(past):
        raise UsageError(
            f"input {lonely[0]!r} is a past value by its name, and no output writes it (outputs: {', '.join(outputs)}; "
            f"{count(len(states), 'state')} found); name it in [state] of a --description"
        )
    return states


def find_step_inputs(inputs: Mapping[str, TensorSpec]) -> tuple[StepInput, ...]:
    """Returns the inputs that count the steps or mask what is not written yet, by their names. inputs: those that
    nothing else gives a value."""
    found = []
    for name, spec in inputs.items():
        called = name.lower().rpartition("/")[2].partition(":")[0]
        if called in COUNTS and spec.dtype.startswith(("int", "uint")) and not spec.quantized:
            found.append(StepInput(name, "count", found=True))
        elif called in MASKS and spec.shape and spec.shape[-1] > 1:
            found.append(StepInput(name, "mask", found=True))
    return tuple(found)

"""Snapshots: the states before a step, from which a later run begins (SEQUENCES.md, section 8)."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from qverify import __version__
from qverify.capture.writer import check_capture_folder
from qverify.errors import BadFileError, UsageError
from qverify.files import parse_strict_json, read_regular, write_bytes, write_text
from qverify.sequences.chain import Chain
from qverify.sequences.loop import Loop
from qverify.tensors.prepared import PreparedInput
from qverify.tensors.recording import Array

SCHEMA, FILE, STATES = "qverify.snapshot/1", "snapshot.json", "states.bin"
MAX_INDEX_BYTES, MAX_STATE_BYTES = 1 << 22, 1 << 32
CHAINS, TIMES = ("reference", "own"), ("now", "before")  # whose states; before this step, and before the one before it
AGAIN = "take it again: --snapshot STEP:DIR"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot as it was read. step: the step that begins with it. model_sha256: of the model.bin. inputs: SHA-256 of each
    external input of the step. states: by side (of CHAINS), time (of TIMES) and input."""

    folder: str
    step: int
    model_sha256: str
    inputs: Mapping[str, str]
    states: Mapping[tuple[str, str], Mapping[str, Array]]

    def check(self, loop: Loop, model_sha256: str, steps: int) -> None:
        """Raises UsageError if a sequence of this many steps of this model cannot begin with it."""
        where = f"--from-snapshot {self.folder}"
        if self.model_sha256 != model_sha256:
            raise UsageError(
                f"{where}: it is of another model (model.bin {self.model_sha256[:12]}, -m gives {model_sha256[:12]}); "
                "give the files and options of the run that took it"
            )
        if self.step >= steps:
            raise UsageError(
                f"{where}: it is of step {self.step}, --steps {steps} ends with step {steps - 1}; "
                f"give --steps {self.step + 1} or more"
            )
        wanted = {s.input: loop.inputs[s.input] for s in loop.states.values()}
        for (side, time), values in self.states.items():
            if time == "before" and not values:
                continue
            for name, spec in wanted.items():
                value = values.get(name)
                got = "no state of it" if value is None else f"{value.dtype}{list(value.shape)}"
                if value is None or value.dtype != spec.numpy_dtype or value.shape != spec.shape:
                    raise UsageError(
                        f"{where}: input {name!r} of the {side} side is {spec.dtype}{list(spec.shape)}, the snapshot has {got}; "
                        "give the description of the run that took it"
                    )


def check_folder(folder: str) -> None:
    """Raises UsageError if a snapshot cannot be written there."""
    try:
        check_capture_folder(folder)
    except UsageError as error:
        raise UsageError(f"--snapshot{str(error).removeprefix('--capture')}") from error


def write_snapshot(
    folder: str, step: int, model_sha256: str, external: Mapping[str, PreparedInput], chains: Mapping[str, Chain]
) -> None:
    """Writes the states before a step to a folder that exists. chains: by side (of CHAINS). Raises UsageError if it cannot be
    written."""
    rows, pieces, at = list[dict[str, Any]](), list[bytes](), 0
    for side, chain in chains.items():
        for time, values in zip(TIMES, (chain.values, chain.before), strict=True):
            for name, value in values.items():
                pieces.append(np.ascontiguousarray(value).tobytes())
                form = {"dtype": value.dtype.name, "shape": list(value.shape)}
                rows.append({"side": side, "time": time, "input": name, **form, "at": at})
                at += len(pieces[-1])
    data = b"".join(pieces)
    index = {
        "schema": SCHEMA,
        "qverify": __version__,
        "step": step,
        "model_sha256": model_sha256,
        "inputs": {name: item.sha256 for name, item in external.items()},
        "states": rows,
        "states_sha256": hashlib.sha256(data).hexdigest(),
    }
    write_bytes(data, os.path.join(folder, STATES))
    write_text(json.dumps(index, indent=1) + "\n", os.path.join(folder, FILE))


def read_snapshot(folder: str) -> Snapshot:
    """Returns a snapshot. Raises UsageError, in one line, if the folder has none, or a damaged one."""
    where, path = f"--from-snapshot {folder}", os.path.join(folder, FILE)
    if not os.path.isfile(path):
        raise UsageError(f"{where}: it has no {FILE}; wanted a folder that --snapshot STEP:DIR wrote")
    try:
        index = parse_strict_json(read_regular(path, MAX_INDEX_BYTES))
        if index["schema"] != SCHEMA:
            raise UsageError(f"{where}: its schema is {str(index['schema'])[:40]!r}, wanted {SCHEMA!r}; {AGAIN}")
        data = read_regular(os.path.join(folder, STATES), MAX_STATE_BYTES)
        if hashlib.sha256(data).hexdigest() != index["states_sha256"]:
            raise UsageError(f"{where}: {STATES} is damaged: its SHA-256 is not that of {FILE}; {AGAIN}")
        inputs = {str(name): str(sha256) for name, sha256 in index["inputs"].items()}
        return Snapshot(folder, _whole(index["step"]), str(index["model_sha256"]), inputs, _read_states(index, data))
    except BadFileError as error:
        raise UsageError(f"{where}: {error}; {AGAIN}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError, MemoryError) as error:
        raise UsageError(f"{where}: {FILE} is damaged ({type(error).__name__}: {error}); {AGAIN}") from error


def _read_states(index: Mapping[str, Any], data: bytes) -> dict[tuple[str, str], dict[str, Array]]:
    """Returns the states by side and time. Raises ValueError, KeyError or TypeError for a row that is none."""
    states: dict[tuple[str, str], dict[str, Array]] = {(side, time): {} for side in CHAINS for time in TIMES}
    for row in index["states"]:
        dtype, shape = np.dtype(str(row["dtype"])), tuple(_whole(n) for n in row["shape"])
        if dtype.kind not in "biuf":
            raise ValueError(f"a state of {dtype}")
        count = 1
        for length in shape:
            count *= length
        value = np.frombuffer(data, dtype.newbyteorder("<"), count, _whole(row["at"])) if count else np.empty(0, dtype)
        states[str(row["side"]), str(row["time"])][str(row["input"])] = value.reshape(shape)
    return states


def _whole(number: Any) -> int:
    """Returns a whole number from 0 on. Raises ValueError for anything else."""
    if type(number) is not int or number < 0:
        raise ValueError(f"{number!r} is no whole number from 0 on")
    return number

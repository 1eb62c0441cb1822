"""Runs an engine's driver with one planted mistake: `PYTHON faulty_engine.py FAULT.json drive.py NAME REQUEST.json`.

It stands in an engine's interpreter (python=) in the words of a driver's start, needs numpy only, and does what a
careless application does: it gives the engine other inputs than it was asked for, or gives back tensors that were
altered. FAULT.json states "input" (bgr, half, layout, other), or "tensors" (exchange, element, channel, late) with
"names", or "model", the path of another one. The engine's true answers are kept in "cache", by what they follow
from, so that one engine runs once for many mistakes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from typing import Any

import numpy as np

STEPS = 5  # by how much an altered element or channel is off, in whole steps


def run(words: list[str]) -> int:
    with open(words[0], encoding="utf-8") as file:
        fault = json.load(file)
    with open(words[3], encoding="utf-8") as file:
        request = json.load(file)
    request["model"] = fault.get("model", request["model"])
    spoil_inputs(request["inputs"], fault)
    status = answer(words[1:3], request, fault["cache"])
    if status == 0 and fault.get("tensors"):
        spoil_tensors(os.path.join(request["out"], "tensors.npz"), fault)
    return status


def spoil_inputs(inputs: list[dict[str, str]], fault: dict[str, Any]) -> None:
    """Replaces the files of the inputs by those of another array."""
    kind = fault.get("input", "")
    for number, item in enumerate(inputs):
        value = np.load(item["npy"], allow_pickle=False)
        if kind == "bgr":
            value = value[:, ::-1] if value.shape[1] == 3 else value[..., ::-1]
        elif kind == "half":
            value = (value / 2).astype(value.dtype)
        elif kind == "layout":
            value = np.moveaxis(value, 1, -1).reshape(value.shape)
        elif kind == "other":
            value = value.reshape(-1)[::-1].reshape(value.shape)
        item["npy"] = os.path.join(os.environ.get("TMPDIR", "."), f"input{number}.npy")
        np.save(item["npy"], np.ascontiguousarray(value))


def answer(driver: list[str], request: dict[str, Any], cache: str) -> int:
    """Runs the driver, or takes its answer to the same question. Returns its exit status."""
    digest = hashlib.sha256(json.dumps([driver[1], request["taps"], request["options"]]).encode())
    for path in (request["model"], *(item["npy"] for item in request["inputs"])):
        with open(path, "rb") as file:
            digest.update(hashlib.sha256(file.read()).digest())
    kept = os.path.join(cache, digest.hexdigest()[:24])
    if not os.path.isdir(kept):
        path = os.path.join(os.environ.get("TMPDIR", "."), "request.json")
        with open(path, "w", encoding="utf-8") as text:
            json.dump(request, text)
        status = subprocess.run([sys.executable, *driver, path], check=False).returncode
        if status:
            return status
        shutil.copytree(request["out"], kept)
        return 0
    shutil.copytree(kept, request["out"], dirs_exist_ok=True, copy_function=shutil.copyfile)  # not older than the run
    return 0


def spoil_tensors(path: str, fault: dict[str, Any]) -> None:
    """Alters tensors of the answer; those that this run did not ask for are left."""
    with np.load(path, allow_pickle=False) as archive:
        tensors = {name: archive[name] for name in archive.files}
    names = [name for name in fault["names"] if name in tensors]
    if len(names) == len(fault["names"]):
        if fault["tensors"] == "exchange":
            tensors[names[0]], tensors[names[1]] = tensors[names[1]], tensors[names[0]]
        else:
            tensors[names[0]] = altered(tensors[names[0]], fault["tensors"], float(fault["place"]))
    np.savez(path, **tensors)


def altered(value: Any, kind: str, place: float) -> Any:
    """Returns the array with one element or channel off, or one channel late. place: where, of 0 to 1."""
    value = value.copy()
    axis = 1 if value.ndim > 1 and value.shape[1] > 1 else int(np.argmax(value.shape))
    step = STEPS if value.dtype.kind in "iu" else np.abs(value).max() / 8 + 1e-3
    if kind == "element":
        at = int(place * value.size)
        value.reshape(-1)[at] = _moved(value.reshape(-1)[at : at + 1], step)[0]
    elif kind == "channel":
        index = [slice(None)] * value.ndim
        at = int(place * value.shape[axis])
        index[axis] = slice(at, at + 1)
        value[tuple(index)] = _moved(value[tuple(index)], step)
    else:
        value = np.roll(value, 1, axis)
    return value


def _moved(value: Any, step: Any) -> Any:
    """Returns the values by a step higher, or lower where the type ends."""
    if value.dtype.kind not in "iu":
        return value + np.asarray(step, value.dtype)
    top = np.iinfo(value.dtype).max
    return np.where(value > top - step, value - step, value + step).astype(value.dtype)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))

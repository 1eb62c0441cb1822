"""Runs a reference engine of the user's in a process of its own, with bounds on time, memory and bytes; what it answers is
treated as untrusted."""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from qverify_agents.printable import one_line
from qverify_agents.process_group import KILL, kill_group, new_group_arguments
from qverify_agents.signals_held import signals_held

from qverify.errors import QVerifyError, UsageError
from qverify.files import parse_json, read_regular
from qverify.inputs.arrays import npy_array
from qverify.onnx_model import engine
from qverify.sides.reference_variants.other_interpreter import OURS, bytes_in, last_output
from qverify.tensors.recording import Array

PROGRAM = Path(engine.__file__).with_name("run_reference_engine.py")
MOST_RESULT = 1 << 31  # bytes of all arrays of one run
MOST_NAMES = 1 << 24
LIBRARY = "lib:"
ONNXRUNTIME = "onnxruntime"


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """A reference engine. libraries: paths of custom operators for onnxruntime. entry: `module:name`, "" where
    onnxruntime runs the model. python: a shell command that starts the interpreter, "" for this one. timeout_s: for each
    run. most_memory: bytes of address space; 0: as much as this host's memory."""

    libraries: tuple[str, ...] = ()
    entry: str = ""
    python: str = ""
    timeout_s: float = 900.0
    most_memory: int = 0

    @property
    def shown(self) -> str:
        """Returns the option's values, without folders."""
        return (
            os.path.basename(self.entry)
            or ", ".join(LIBRARY + os.path.basename(one) for one in self.libraries)
            or ONNXRUNTIME
        )


@dataclass(frozen=True, slots=True)
class EngineResult:
    """What a run gave. engine, version, python: as it states them."""

    tensors: Mapping[str, Array]
    engine: str
    version: str
    python: str


def choose_engine(given: Sequence[str], python: Sequence[str], timeout_s: float) -> EngineChoice:
    """Returns the engine that --reference-engine and --reference-python describe. Raises UsageError."""
    libraries = tuple(one.removeprefix(LIBRARY) for one in given if one.startswith(LIBRARY))
    others = [one for one in given if not one.startswith(LIBRARY)]
    if len(others) > 1 or (others and libraries):
        raise UsageError(
            f"--reference-engine {others[0]}: wanted one or more lib:PATH, or one module:callable, or {ONNXRUNTIME} alone"
        )
    entry = "" if not others or others[0] == ONNXRUNTIME else others[0]
    module, colon, name = entry.rpartition(":")
    if entry and not (colon and module and name.isidentifier()):
        raise UsageError(
            f"--reference-engine {entry}: wanted lib:PATH, module:callable, FILE.py:callable or {ONNXRUNTIME}"
        )
    if lost := next((one for one in libraries if not os.path.isfile(one)), None):
        raise UsageError(f"--reference-engine lib:{lost}: no such file")
    if module.endswith(".py"):
        if not os.path.isfile(module):
            raise UsageError(f"--reference-engine {entry}: no such file: {module}")
        entry = f"{os.path.abspath(module)}:{name}"
    if len(python) > 1:
        raise UsageError(f"--reference-python {python[1]}: a reference engine runs in one interpreter; give one")
    if others == [ONNXRUNTIME] and not python:
        raise UsageError(
            f"--reference-engine {ONNXRUNTIME}: give --reference-python, the interpreter whose onnxruntime runs the model"
        )
    return EngineChoice(tuple(map(os.path.abspath, libraries)), entry, python[0] if python else "", timeout_s)


def run_engine(choice: EngineChoice, model: bytes, feed: Mapping[str, Array]) -> EngineResult:
    """Runs the model on these inputs. Raises UsageError where the engine cannot be started, fails, is late, takes too
    much, or answers anything but arrays by name; all that it started is ended."""
    with tempfile.TemporaryDirectory(prefix="qverify-engine-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        try:
            _write_job(folder, choice, model, feed)
            _wait(_command(choice), folder, choice, bytes_in(folder) + MOST_RESULT)
            return _read(folder)
        except (UsageError, OSError) as error:
            said = one_line(str(error).replace(f"{folder}{os.sep}", ""))
            raise UsageError(f"--reference-engine {choice.shown}: {said}") from error


def _command(choice: EngineChoice) -> list[str]:
    if not choice.python:
        return [sys.executable]
    try:
        words = shlex.split(choice.python)
    except ValueError as error:
        raise UsageError(f"--reference-python {choice.python!r}: {error}") from error
    if not words or shutil.which(words[0]) is None:
        raise UsageError(f"--reference-python {choice.python!r}: no such program")
    return words


def _write_job(folder: Path, choice: EngineChoice, model: bytes, feed: Mapping[str, Array]) -> None:
    job = {
        "callable": choice.entry,
        "libraries": choice.libraries,
        "model": "model.onnx",
        "inputs": [*feed],
        "most_memory": choice.most_memory or _memory_of_host(),
        "path": os.getcwd(),
    }
    (folder / "model.onnx").write_bytes(model)
    arrays: dict[str, Any] = {str(at): value for at, value in enumerate(feed.values())}
    np.savez(folder / "inputs.npz", **arrays)
    (folder / "job.json").write_text(json.dumps(job))


def _memory_of_host() -> int:
    """Returns the bytes of this host's memory; a large number where the system does not say."""
    if sys.platform == "win32":
        return 1 << 62
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 62


def _wait(command: list[str], folder: Path, choice: EngineChoice, most: int) -> None:
    """Runs the program to its end. Raises UsageError where it fails, is late or writes too much."""
    drop = OURS if choice.python else ()
    process = None
    try:
        with open(folder / "said", "wb") as output, signals_held():
            process = subprocess.Popen(
                [*command, str(PROGRAM), str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={name: value for name, value in os.environ.items() if name not in drop},
                **new_group_arguments(KILL),
            )
        end, pause = time.monotonic() + choice.timeout_s, 0.005
        while process.poll() is None:
            if time.monotonic() > end:
                raise UsageError(f"no answer within {choice.timeout_s:g} s; --reference-timeout allows more")
            if bytes_in(folder) > most:
                raise UsageError(f"it writes more than {MOST_RESULT} bytes")
            time.sleep(pause)
            pause = min(0.1, pause * 1.5)
    finally:
        if process is not None:
            kill_group(process)
            process.wait()
    status = process.returncode
    if status:
        how = f"status {status}" if status >= 0 else f"signal {-status}"
        raise UsageError(f"ended with {how}{last_output(folder)}")
    if not (folder / "result.npz").is_file():
        raise UsageError(f"ended without an answer{last_output(folder)}")


def _read(folder: Path) -> EngineResult:
    """Returns the answer. Raises UsageError for one that is damaged, or larger than it may be."""
    try:
        stated = parse_json(read_regular(str(folder / "names.json"), MOST_NAMES), "names.json")
        names = stated["names"]
        identity = [one_line(str(stated[key]))[:80] for key in ("engine", "version", "python")]
        if not all(isinstance(n, str) and n for n in names) or len(set(names)) < len(names):
            raise UsageError("names.json: a name is empty or there twice")
        size = os.path.getsize(folder / "result.npz")
        if size > MOST_RESULT:
            raise UsageError(f"{size} bytes, at most {MOST_RESULT} are read")
        data = read_regular(str(folder / "result.npz"), MOST_RESULT + 1)
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return EngineResult(_arrays(archive, names), *identity)
    except UsageError:
        raise
    except QVerifyError as error:
        raise UsageError(str(error)) from error
    except Exception as error:  # zipfile, zlib and numpy raise many types
        raise UsageError(f"its answer cannot be read: {type(error).__name__}: {error}") from error


def _arrays(archive: zipfile.ZipFile, names: list[str]) -> dict[str, Array]:
    if sorted(archive.namelist()) != sorted(f"{at}.npy" for at in range(len(names))):
        raise UsageError(f"result.npz has {len(archive.namelist())} arrays for {len(names)} names")
    sizes = [archive.getinfo(f"{at}.npy").file_size for at in range(len(names))]
    if sum(sizes) > MOST_RESULT:
        raise UsageError(f"{sum(sizes)} bytes of arrays, at most {MOST_RESULT} are read")
    arrays = {}
    for at, name in enumerate(names):
        with archive.open(f"{at}.npy") as file:
            value = npy_array(file, sizes[at], name)
        arrays[name] = value.astype(value.dtype.newbyteorder("="), copy=False)
    return arrays

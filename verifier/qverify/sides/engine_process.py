"""Runs a user's reference engine in a separate process, with limits on time, memory and bytes. Its results are
untrusted."""

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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from qverify_agents.printable import one_line
from qverify_agents.process_group import KILL, kill_group, new_group_arguments
from qverify_agents.signals_held import signals_held

from qverify.errors import QVerifyError, UsageError
from qverify.files import parse_json, read_regular
from qverify.inputs.arrays import read_npy
from qverify.onnx_model import engine
from qverify.sides.reference_variants.other_interpreter import OUR_VARIABLES, folder_bytes, last_output
from qverify.tensors.recording import Array

PROGRAM = Path(engine.__file__).with_name("run_reference_engine.py")
MAX_RESULT_BYTES = 1 << 31  # of all arrays of one run
MAX_NAMES_BYTES = 1 << 24  # of names.json
LIBRARY = "lib:"
ONNXRUNTIME = "onnxruntime"


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """A reference engine.

    Attributes:
        libraries: paths of libraries with custom operators for onnxruntime.
        entry: `module:name` of the user's callable, or "" if onnxruntime runs the model.
        python: shell command that starts the interpreter, or "" for the current one.
        timeout_s: limit of each run.
        most_memory: limit of the address space in bytes; 0 stands for the size of this host's memory.
    """

    libraries: tuple[str, ...] = ()
    entry: str = ""
    python: str = ""
    timeout_s: float = 900.0
    most_memory: int = 0

    @property
    def shown(self) -> str:
        """The option's values, without folders."""
        return (
            os.path.basename(self.entry)
            or ", ".join(LIBRARY + os.path.basename(library) for library in self.libraries)
            or ONNXRUNTIME
        )


@dataclass(frozen=True, slots=True)
class EngineResult:
    """The result of one run. engine, version, python: as the engine's process states them."""

    tensors: Mapping[str, Array]
    engine: str
    version: str
    python: str


def run_engine(choice: EngineChoice, model: bytes, feed: Mapping[str, Array]) -> EngineResult:
    """Runs the model on these inputs. Raises UsageError if the engine cannot be started, fails, exceeds a limit, or
    returns anything but arrays by name. All processes that it started are ended."""
    with tempfile.TemporaryDirectory(prefix="qverify-engine-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        try:
            _write_job(folder, choice, model, feed)
            _run_program(_command(choice), folder, choice, folder_bytes(folder) + MAX_RESULT_BYTES)
            return _read_result(folder)
        except (UsageError, OSError) as error:
            why = one_line(str(error).replace(f"{folder}{os.sep}", ""))
            raise UsageError(f"--reference-engine {choice.shown}: {why}") from error


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
    arrays: dict[str, Any] = {str(number): value for number, value in enumerate(feed.values())}
    np.savez(folder / "inputs.npz", **arrays)
    (folder / "job.json").write_text(json.dumps(job))


def _memory_of_host() -> int:
    """Returns the size of this host's memory in bytes, or 1 << 62 if the system does not report it."""
    if sys.platform == "win32":
        return 1 << 62
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 62


def _run_program(command: list[str], folder: Path, choice: EngineChoice, max_bytes: int) -> None:
    """Runs the program to its end. Raises UsageError if it fails, takes too long or writes more than max_bytes."""
    dropped = OUR_VARIABLES if choice.python else ()
    process = None
    try:
        with open(folder / "said", "wb") as output, signals_held():
            process = subprocess.Popen(
                [*command, str(PROGRAM), str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={name: value for name, value in os.environ.items() if name not in dropped},
                **new_group_arguments(KILL),
            )
        deadline, pause = time.monotonic() + choice.timeout_s, 0.005
        while process.poll() is None:
            if time.monotonic() > deadline:
                raise UsageError(f"no answer within {choice.timeout_s:g} s; --reference-timeout allows more")
            if folder_bytes(folder) > max_bytes:
                raise UsageError(f"it writes more than {MAX_RESULT_BYTES} bytes")
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


def _read_result(folder: Path) -> EngineResult:
    """Returns the result that the program wrote. Raises UsageError if it is damaged or too large."""
    try:
        content = parse_json(read_regular(str(folder / "names.json"), MAX_NAMES_BYTES), "names.json")
        names = content["names"]
        identity = [one_line(str(content[key]))[:80] for key in ("engine", "version", "python")]
        if not all(isinstance(n, str) and n for n in names) or len(set(names)) < len(names):
            raise UsageError("names.json: a name is empty or there twice")
        size = os.path.getsize(folder / "result.npz")
        if size > MAX_RESULT_BYTES:
            raise UsageError(f"{size} bytes, at most {MAX_RESULT_BYTES} are read")
        data = read_regular(str(folder / "result.npz"), MAX_RESULT_BYTES + 1)
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return EngineResult(_arrays(archive, names), *identity)
    except UsageError:
        raise
    except QVerifyError as error:
        raise UsageError(str(error)) from error
    except Exception as error:  # zipfile, zlib and numpy raise many types
        raise UsageError(f"its answer cannot be read: {type(error).__name__}: {error}") from error


def _arrays(archive: zipfile.ZipFile, names: list[str]) -> dict[str, Array]:
    if sorted(archive.namelist()) != sorted(f"{number}.npy" for number in range(len(names))):
        raise UsageError(f"result.npz has {len(archive.namelist())} arrays for {len(names)} names")
    sizes = [archive.getinfo(f"{number}.npy").file_size for number in range(len(names))]
    if sum(sizes) > MAX_RESULT_BYTES:
        raise UsageError(f"{sum(sizes)} bytes of arrays, at most {MAX_RESULT_BYTES} are read")
    arrays = {}
    for at, name in enumerate(names):
        with archive.open(f"{at}.npy") as file:
            value = read_npy(file, sizes[at], name)
        arrays[name] = value.astype(value.dtype.newbyteorder("="), copy=False)
    return arrays

"""A fault planted in a LiteRT delegate of the tests' own: built from C, and searched by the main job and by a reduction."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from qverify.cli.main import main
from qverify.session.models import Models, open_models

SOURCE = Path(__file__).parent / "models" / "delegate" / "spoiling_delegate.c"


def built_delegate(folder: Path) -> Path:
    """Returns the delegate as a shared library of this machine. RuntimeError without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise RuntimeError("no C compiler")
    library = folder / "libspoiling_delegate.so"
    words = [compiler, "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", str(library), str(SOURCE)]
    subprocess.run(words, check=True, capture_output=True)
    return library


@dataclass(frozen=True)
class Spoilable:
    """One operator of a file. names: those of its output in the report. option: of the delegate, that spoils it."""

    position: int
    kind: str
    names: frozenset[str]
    option: str


def spoilable(tflite: Path) -> list[Spoilable]:
    """Returns the file's operators with an output of 8 bits."""
    from ai_edge_litert.interpreter import Interpreter

    models: Models = open_models([str(tflite)])
    assert models.alone is not None
    converted = models.alone.converted
    opened = Interpreter(str(tflite))
    raw = {d["index"]: d["name"] for d in opened.get_tensor_details()}
    found = []
    for operator in converted.model.operators:
        index = operator.outputs[0]
        names = frozenset(n for n, entry in converted.tensors.items() if int(entry["tfl"]) == index)
        if converted.model.tensors[index].dtype == "int8" and names:
            found.append(Spoilable(operator.position, operator.kind, names, f"spoils={_fnv(raw[index]):08x}"))
    return found


def _fnv(text: str) -> int:
    value = 2166136261
    for byte in text.encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return value


def board(library: Path, one: Spoilable | None, seed: int, finals: bool, more: str = "") -> str:
    """Returns the address of a board whose delegate takes over every node and spoils this one."""
    options = "".join(f",{text}" for text in (*([one.option, f"seed={seed}"] if one else []), more) if text)
    return f"{'finals:' if finals else ''}local?runtime=litert&kernels=reference&delegate={library}{options}"


def verify(tflite: Path, uri: str, folder: Path, *words: str) -> tuple[int, dict]:
    """Returns exit status and report of the main job."""
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    with contextlib.redirect_stdout(io.StringIO()):
        status = main(["-m", str(tflite), "-b", uri, "-r", "True", "-q", "--json", str(report), *words])
    return status, json.loads(report.read_text())


def reduce(tflite: Path, uri: str, folder: Path, *words: str) -> tuple[int, dict]:
    """Returns exit status and report of a triage with a reduction."""
    report, out = folder / "triage.json", folder / "reduced"
    report.unlink(missing_ok=True)
    shutil.rmtree(out, ignore_errors=True)
    triage = ["triage", "-m", str(tflite), "-b", uri, "-q", "--reduce", str(out), "--json", str(report), *words]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        status = main(triage)
    return status, json.loads(report.read_text())

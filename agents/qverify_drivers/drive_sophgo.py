"""Sophgo's tpu-mlir: builds a float ONNX or .tflite for a chip and runs it in the MLIR interpreter, which gives every tensor,
and on the chip's cmodel, which gives the outputs.

Every step is one of the toolkit's own commands (model_transform, run_calibration, model_deploy, model_runner). A step has
succeeded if its exit status is 0 and the file that it is to write is new; the tensors of the last one are counted. Runs of one
interpreter wait for each other, because the toolkit changes a link among its own files to select a chip."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from drive import Answer, Placed, Refused, Request

CV18XX = ("cv180x", "cv181x", "cv182x", "cv183x", "cv184x", "cv186x")
OLD = ("libc.so.6", "libm.so.6", "libpthread.so.0")  # of Ubuntu 22.04: on a newer system no command starts with them
BUILT = (".bmodel", ".cvimodel")
MAX_LINES = 40  # of a log, in which the reason is looked for
_VERSION = re.compile(r"TPU-MLIR (v[\w.-]+)")
_OP = re.compile(r'%\w+(?::\d+)? = "(tpu\.\w+)".*-> (.+) loc\(#(loc\d+)\)')
_LOC = re.compile(r'^#(loc\d+) = loc\("([^"]+)"\)', re.MULTILINE)
_TYPE = re.compile(r"quant\.uniform<([iu]\d+):|x(bf16|f16|f32)>|<(bf16|f16|f32)<")
ON_CPU = ("tpu.GenericCpu",)


def run(request: Request) -> Answer:
    """Runs the network once: built, or as the toolkit built it before."""
    tools = _Tools(request)
    with _alone():
        folder, name = tools.build() if request.option("float") or _is_source(request.model) else tools.take()
        return tools.answer(folder, name)


def _is_source(path: str) -> bool:
    with open(path, "rb") as file:
        start = file.read(1 << 16)
    if b"module @" in start or path.endswith(BUILT):
        return False
    if start[4:8] != b"TFL3" and b"QuantizeLinear" in _whole(path):
        raise Refused(
            "tpu-mlir quantizes by itself and takes no QDQ ONNX; wanted float=FILE, or the float ONNX as the model"
        )
    return True


def _whole(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Waits until no other run uses this interpreter's toolkit."""
    path = os.path.join(sys.prefix, ".qverify-tpu-mlir.lock")
    try:
        handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    except OSError:
        handle = os.open(os.path.join("/tmp", f"qverify-tpu-mlir-{os.getuid()}.lock"), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


class _Tools:
    """The toolkit's commands, in a folder of the run."""

    def __init__(self, request: Request):
        self.request = request
        self.chip = request.option("chip", "bm1684x")
        self.mode = request.option("quantize", "INT8")
        self.work = os.path.join(request.out, "work")
        os.makedirs(self.work)
        self.notes: list[str] = []
        self.version = ""
        self.bin = os.path.dirname(os.path.abspath(sys.executable))
        if not os.path.exists(os.path.join(self.bin, "model_deploy")):
            raise Refused(
                f"python={sys.executable}: no model_deploy beside it; give python=PYTHON that has tpu-mlir (a CPython 3.10)"
            )

    def command(self, made: str, name: str, *words: str) -> str:
        """Runs a command of the toolkit in the folder of the run, and returns what it printed. made: the file that it must
        have written. Raises Refused with its reason."""
        before = os.stat(made).st_mtime_ns if os.path.exists(made) else -1
        line = [os.path.join(self.bin, name), *words]
        done = subprocess.run(
            line,
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        if found := _VERSION.search(done.stdout):
            self.version = found[1]
        if done.returncode:
            raise Refused(f"{name} ended with status {done.returncode}: {_reason(done.stdout)}")
        path = os.path.join(self.work, made)
        if not os.path.isfile(path) or os.stat(path).st_mtime_ns == before:
            raise Refused(f"{name} ended with status 0 and wrote no {made}: {_reason(done.stdout)}")
        return done.stdout

    def build(self) -> tuple[str, str]:
        """Builds the model; returns the folder and the name of the build. A build of the same bytes and options is taken from
        the cache, if there is one."""
        source = self.request.option("float", self.request.model)
        if not os.path.isfile(source):
            raise Refused(f"float={source}: no such file on this machine")
        table, data = self._calibration()
        key = hashlib.sha256(_whole(source))
        for part in (self.chip, self.mode, self.request.option("deploy"), table, data):
            key.update(f"{part}\0".encode())
            key.update(_content(part) if part else b"")
        cache = self.request.option("cache")
        kept = os.path.join(cache, key.hexdigest()[:24]) if cache else ""
        if kept and os.path.isdir(kept):
            return kept, "net"
        self._build(source, table, data)
        if kept:
            os.makedirs(cache, exist_ok=True)
            with contextlib.suppress(OSError):  # another run may have kept it in the meantime
                shutil.copytree(self.work, kept + ".part", dirs_exist_ok=True)
                os.rename(kept + ".part", kept)
        return self.work, "net"

    def _calibration(self) -> tuple[str, str]:
        """Returns a calibration table and a folder of inputs; one of both is "", or both where the mode needs none."""
        given = self.request.option("calibration")
        if self.mode.upper() != "INT8":
            return "", ""
        if given and not os.path.exists(given):
            raise Refused(f"calibration={given}: neither a file nor a folder on this machine")
        if given and os.path.isfile(given):
            return os.path.abspath(given), ""
        if not given:
            given = os.path.join(self.work, "calibration")
            os.makedirs(given, exist_ok=True)
            np.savez(os.path.join(given, "0.npz"), **self.request.inputs)
            self.notes.append("calibrated with the inputs of this run alone; calibration=FOLDER or TABLE gives others")
        return "", os.path.abspath(given)

    def _build(self, source: str, table: str, data: str) -> None:
        ending = ".tflite" if _whole(source)[4:8] == b"TFL3" else ".onnx"
        shutil.copyfile(source, os.path.join(self.work, f"source{ending}"))
        shapes = ",".join(f"[{','.join(map(str, np.shape(v)))}]" for v in self.request.inputs.values())
        words = ["--model_name", "net", "--model_def", f"source{ending}", "--input_shapes", f"[{shapes}]"]
        self.command("net.mlir", "model_transform", *words, "--mlir", "net.mlir")
        if data:
            self.command(
                "table",
                "run_calibration",
                "net.mlir",
                "--dataset",
                data,
                "--input_num",
                str(_count(data)),
                "-o",
                "table",
            )
        deploy = ["--mlir", "net.mlir", "--quantize", self.mode, "--chip", self.chip, "--debug"]
        deploy += ["--calibration_table", table or "table"] if table or data else []
        built = f"net.{'cvimodel' if self.chip in CV18XX else 'bmodel'}"
        self.command(built, "model_deploy", *deploy, *self.request.option("deploy").split(), "--model", built)

    def take(self) -> tuple[str, str]:
        """Returns the folder and the name of a build that the user gives: a .bmodel or .cvimodel, or the text of a module with
        its weights."""
        model = self.request.model
        text = b"module @" in _whole(model)[: 1 << 16]
        target = "net_tpu.mlir" if text else f"net{os.path.splitext(model)[1]}"
        shutil.copyfile(model, os.path.join(self.work, target))
        if text:
            match = re.search(r'module\.weight_file = "([^"/]+)"', _whole(model).decode("utf-8", "replace"))
            given = self.request.option("weights") or (os.path.join(os.path.dirname(model), match[1]) if match else "")
            if not match or not os.path.isfile(given):
                raise Refused(f"the text names the weights {match[1] if match else '?'}; wanted weights=FILE")
            shutil.copyfile(given, os.path.join(self.work, match[1]))
        return self.work, "net"

    def answer(self, folder: str, name: str) -> Answer:
        """Runs the build: its module in the interpreter if inner tensors are wanted, its model on the cmodel."""
        files = sorted(os.listdir(folder))
        text = next((f for f in files if f.startswith(name) and f.endswith("_tpu.mlir")), "")
        model = next((f for f in files if f.startswith(name) and f.endswith(BUILT)), "")
        if folder != self.work:
            for file in files:
                if file.startswith(name) and os.path.isfile(os.path.join(folder, file)):
                    shutil.copyfile(os.path.join(folder, file), os.path.join(self.work, file))
        np.savez(os.path.join(self.work, "inputs.npz"), **self.request.inputs)
        inner = self._run(text, "inner.npz") if text and (self.request.taps or not model) else {}
        finals = self._run(model, "finals.npz") if model and self.request.option("cmodel", "1") == "1" else {}
        if not inner and not finals:
            raise Refused(f"the build has neither a module nor a model: {', '.join(files)[:200]}")
        tensors = {**inner, **{k: v for k, v in finals.items() if k not in inner}}
        both = [k for k in finals if k in inner]
        apart = [k for k in both if not np.array_equal(np.ravel(finals[k]), np.ravel(inner[k]))]
        tensors.update({k: np.reshape(finals[k], np.shape(inner[k])) for k in both if finals[k].size == inner[k].size})
        if apart:
            self.notes.append(f"the cmodel's {apart[0]} is not the interpreter's; it is the cmodel's that is compared")
        ledger = {"tpu-mlir": self.version or "?", "chip": self.chip, "mode": self.mode}
        placed = self._placement(os.path.join(self.work, text)) if text else []
        if finals:
            self.notes.append(
                f"{len(finals)} of {len(tensors)} tensors are of the cmodel, the others of the MLIR interpreter"
            )
        return Answer(tensors, "tpu-mlir", self.version.lstrip("v").split("-")[0], ledger, placed, self.notes)

    def _run(self, model: str, out: str) -> dict[str, Any]:
        self.command(
            out, "model_runner", "--input", "inputs.npz", "--model", model, "--output", out, "--dump_all_tensors"
        )
        with np.load(os.path.join(self.work, out), allow_pickle=False) as archive:
            tensors = {key: archive[key] for key in archive.files}
        if not tensors:
            raise Refused(f"model_runner ended with status 0 and wrote no tensor of {model}")
        return tensors

    def _placement(self, path: str) -> list[Placed]:
        """Returns the ops of the module, each with the type in which it is computed. Those of the chip's host processor are
        fallbacks; the toolkit's own quantization of an input is none."""
        text = _whole(path).decode("utf-8", "replace")
        names = dict(_LOC.findall(text))
        placed = []
        for op, made, location in _OP.findall(text):
            kinds = _TYPE.search(made)
            kind = next((k for k in kinds.groups() if k), "") if kinds else ""
            on_cpu = op in ON_CPU and 'cpu_op_name = "quant"' not in text
            placed.append(
                Placed(names.get(location, location), op[4:], "CPU" if op in ON_CPU else self.chip, kind, on_cpu)
            )
        return placed


def _count(folder: str) -> int:
    return max(1, sum(1 for entry in os.scandir(folder) if entry.is_file()))


def _content(path: str) -> bytes:
    """Returns what a calibration file, or a folder of inputs, holds; nothing for a word that names neither."""
    if os.path.isfile(path):
        return _whole(path)
    if not os.path.isdir(path):
        return b""
    files = sorted(entry.path for entry in os.scandir(path) if entry.is_file())
    return b"".join(hashlib.sha256(_whole(file)).digest() for file in files)


def _reason(printed: str) -> str:
    """Returns the line of a log that says why a command failed."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()][-MAX_LINES:]
    telling = [line for line in lines if re.search(r"Error\b|error:|\[Failed\]|FAILED|not support|Exception", line)]
    return (telling or lines or ["it printed nothing"])[-1][:300]

"""The kernels whose arithmetic is learned: LiteRT's three sets in this process, TFLM's in a child, CMSIS-NN's compiled."""

from __future__ import annotations

import json
import platform
import shlex
import subprocess
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from scripts.learning.cmsis_nn import CmsisNn, NotRun

Array = npt.NDArray[Any]
RESOLVERS = {"reference": "BUILTIN_REF", "optimized": "BUILTIN_WITHOUT_DEFAULT_DELEGATES", "xnnpack": "BUILTIN"}
CHILD = Path(__file__).with_name("run_tflm.py")
ARENA = 256 << 20
FEATURES = ("avx2", "fma", "avx512f", "avx512_vnni", "asimd", "asimddp")  # that choose kernels


def processor() -> str:
    """Returns the machine and those of its features that choose kernels."""
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    return " ".join([platform.machine(), *(f for f in FEATURES if f in text.split())])


class LiteRt:
    """LiteRT with one set of kernels. Every tensor is kept, so that a delegate computes each operator alone."""

    def __init__(self, kernels: str):
        from ai_edge_litert import interpreter

        self._library, self._kernels = interpreter, kernels
        self.name = f"ai-edge-litert {version('ai-edge-litert')}, {kernels} kernels, {processor()}"

    def run(self, model: Any, data: bytes, feed: Sequence[Array], wanted: Sequence[int]) -> Mapping[int, Array]:
        """Returns the wanted tensors of a file (a TfliteModel, and its bytes) by index."""
        resolver = getattr(self._library.OpResolverType, RESOLVERS[self._kernels])
        try:
            with warnings.catch_warnings(action="ignore"):
                opened = self._library.Interpreter(
                    model_content=data,
                    num_threads=1,
                    experimental_op_resolver_type=resolver,
                    experimental_preserve_all_tensors=True,
                )
            opened.allocate_tensors()
            for index, value in zip(model.inputs, feed, strict=True):
                opened.set_tensor(index, value)
            opened.invoke()
            return {i: opened.get_tensor(i) for i in wanted}
        except (RuntimeError, ValueError) as error:
            raise NotRun(" ".join(str(error).split())) from error


class Tflm:
    """TFLM's Python package, in a child process. python: command of a Python that has it."""

    def __init__(self, python: str):
        self._command, self._folder = shlex.split(python), tempfile.TemporaryDirectory()
        asked = "from importlib.metadata import version; print(version('tflite_micro'))"
        found = subprocess.run([*self._command, "-c", asked], capture_output=True, text=True, check=False)
        if found.returncode:
            raise NotRun(f"{python}: no tflite_micro there (pip install tflite_micro; --python COMMAND)")
        self.name = f"tflite_micro {found.stdout.strip()}, {platform.machine()}"
        self._child = self._start()

    def _start(self) -> subprocess.Popen[str]:
        pipe, none = subprocess.PIPE, subprocess.DEVNULL
        return subprocess.Popen([*self._command, str(CHILD)], stdin=pipe, stdout=pipe, stderr=none, text=True)

    def run(self, model: Any, data: bytes, feed: Sequence[Array], wanted: Sequence[int]) -> Mapping[int, Array]:
        """Returns those of the wanted tensors that TFLM keeps, by index."""
        folder = Path(self._folder.name)
        (folder / "model.tflite").write_bytes(data)
        np.savez(folder / "feed.npz", **{str(k): v for k, v in enumerate(feed)})  # type: ignore[arg-type]
        inner = [i for i in wanted if i not in model.inputs and i not in model.outputs]
        request = {
            "model": str(folder / "model.tflite"),
            "feed": str(folder / "feed.npz"),
            "result": str(folder / "result.npz"),
            "tensors": [[i, model.tensors[i].dtype, model.tensors[i].shape] for i in inner],
            "outputs": len(model.outputs),
            "arena": ARENA,
        }
        assert self._child.stdin is not None and self._child.stdout is not None
        self._child.stdin.write(json.dumps(request) + "\n")
        self._child.stdin.flush()
        answer = self._child.stdout.readline()
        if not answer:
            self._child.wait()
            self._child = self._start()
            raise NotRun("TFLM ended its process")
        if why := json.loads(answer).get("why"):
            raise NotRun(why)
        with np.load(folder / "result.npz") as arrays:
            found = {i: arrays[str(i)] for i in inner if str(i) in arrays.files}
            found |= {i: arrays[f"output {k}"] for k, i in enumerate(model.outputs)}
        return found | dict(zip(model.inputs, feed, strict=True))


Engine = LiteRt | Tflm | CmsisNn


def open_engine(kernels: str, python: str, source: str = "") -> Engine:
    """Returns the engine with these kernels. python: command of a Python with tflite_micro. source: folder of
    CMSIS-NN's sources."""
    if kernels == "cmsis-nn":
        return CmsisNn(source)
    return Tflm(python) if kernels == "tflm" else LiteRt(kernels)

"""Measures what a large model costs: processor seconds and memory, of qverify's processes together, of `compile` and of the
main job (`-b local -r True`), each beside onnxruntime's loading and running the same ONNX on default settings.

The model is a decoder that ../shared/scale/make_decoder.py makes, of 429 MB in one file or, with --large, of 3.1 GB with
external data; or any quantized ONNX."""

from __future__ import annotations

import argparse
import json
import os
import resource
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import psutil

MAKER = Path(__file__).resolve().parents[3] / "shared" / "scale" / "make_decoder.py"
LARGE = ("--layers", "44", "--hidden", "2048", "--ffn", "8192", "--heads", "16")
QVERIFY = "import sys; from qverify.cli.main import main; sys.exit(main(sys.argv[1:]))"
ONNXRUNTIME = """
import sys, numpy as np, onnxruntime as ort
kinds = {"tensor(float)": "f4", "tensor(int64)": "i8", "tensor(int32)": "i4", "tensor(uint8)": "u1", "tensor(int8)": "i1"}
session = ort.InferenceSession(sys.argv[1])
session.run(None, {i.name: np.zeros(i.shape, kinds[i.type]) for i in session.get_inputs()})
"""
SAMPLED_S = 0.02
OUTSIDE_BYTES = 1 << 16  # larger constants are written to the external data as they are made


def cost(words: Sequence[str]) -> dict[str, Any]:
    """Runs a command. Returns processor seconds, the peak of the sum of its processes' resident memory in MB (files that
    several of them have mapped count several times), and its exit status."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        peak, whole = 0, psutil.Process(process.pid)
        while process.poll() is None:
            peak = max(peak, _resident_bytes(whole))
            time.sleep(SAMPLED_S)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"cpu_s": round(cpu_s, 2), "peak_mb": peak // 10**6, "status": process.returncode}


def _resident_bytes(process: psutil.Process) -> int:
    found = 0
    try:
        for each in (process, *process.children(recursive=True)):
            found += each.memory_info().rss
    except psutil.Error:  # one of them has ended
        pass
    return found


def _make(path: Path, words: Sequence[str]) -> None:
    """Runs the maker in a process of its own, which writes large constants outside of the model as it makes them."""
    subprocess.run([sys.executable, __file__, "--make", str(path), *words], check=True, stdout=subprocess.DEVNULL)


def _make_outside(words: list[str]) -> None:
    """Runs the maker with its constants written to PATH.data, so that never more than one is in memory."""
    path, in_memory = Path(words[0]), onnx.numpy_helper.from_array
    with open(f"{path}.data", "wb") as data:

        def from_array(value: Any, name: str | None = None) -> onnx.TensorProto:
            value = np.ascontiguousarray(value).reshape(np.shape(value))
            if value.nbytes < OUTSIDE_BYTES:
                return in_memory(value, name)
            data.write(bytes(-data.tell() % 64))
            place = {"location": f"{path.name}.data", "offset": str(data.tell()), "length": str(value.nbytes)}
            data.write(value.data)
            kind = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
            entries = [onnx.StringStringEntryProto(key=k, value=v) for k, v in place.items()]
            outside = onnx.TensorProto.EXTERNAL
            return onnx.TensorProto(
                name=name, data_type=kind, dims=value.shape, data_location=outside, external_data=entries
            )

        onnx.numpy_helper.from_array = from_array
        sys.argv = [str(MAKER), *words]
        runpy.run_path(str(MAKER), run_name="__main__")


def _rows(model: Path, folder: Path, job: bool) -> dict[str, dict[str, Any]]:
    binary = folder / "model.bin"
    qverify = [sys.executable, "-c", QVERIFY]
    rows = {"onnxruntime": cost([sys.executable, "-c", ONNXRUNTIME, str(model)])}
    rows["compile"] = cost([*qverify, "compile", str(model), "-o", str(binary)])
    if job:
        store = folder / "store"
        both, board = f"{model},{binary}", f"local?store={store}"
        rows["main job, first run"] = cost([*qverify, "-m", both, "-b", board, "-r", "True"])
        rows["main job, model on the board"] = cost([*qverify, "-m", both, "-b", board, "-r", "True"])
    size = sum(p.stat().st_size for p in (model, Path(f"{model}.data")) if p.exists())
    rows["files"] = {"onnx_mb": size // 10**6, "ratio": round(binary.stat().st_size / size, 3)}
    return rows


def main(argv: list[str]) -> int:
    """Prints a line for each command; --json writes them to a file."""
    if argv[:1] == ["--make"]:
        _make_outside(argv[1:])
        return 0
    parser = argparse.ArgumentParser(prog="scripts/bench size", description=__doc__)
    parser.add_argument("--model", help="a quantized ONNX in place of the decoder")
    parser.add_argument("--large", action="store_true", help="the decoder of 3.1 GB; needs 8 GB of memory, 15 of disk")
    parser.add_argument("--no-job", action="store_true", help="without the main job")
    parser.add_argument("--folder", help="where the files are made")
    parser.add_argument("--json", metavar="F", help="the figures go to this file, too")
    options = parser.parse_args(argv)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        os.environ["PYTHONPYCACHEPREFIX"] = str(folder / "pyc")  # imports are compiled before anything is measured
        needed = (8 << 30, 15 << 30) if options.large else (3 << 30, 3 << 30)
        if psutil.virtual_memory().available < needed[0] or shutil.disk_usage(folder).free < needed[1]:
            print(f"skipped: wanted {needed[0] >> 30} GiB of memory and {needed[1] >> 30} GiB of disk")
            return 0
        model = Path(options.model).resolve() if options.model else folder / "decoder.onnx"
        if not options.model:
            if not MAKER.exists():
                print(f"skipped: no {MAKER.name}; --model names another ONNX")
                return 0
            _make(model, LARGE) if options.large else _make_in_one_file(model)
        subprocess.run([sys.executable, "-c", QVERIFY, "compile", "--help"], stdout=subprocess.DEVNULL, check=True)
        rows = _rows(model, folder, not options.no_job)
        for what, row in rows.items():
            print(f"{what}: " + "  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    return 0


def _make_in_one_file(model: Path) -> None:
    """Runs the maker as it is, for a model of one file."""
    subprocess.run([sys.executable, str(MAKER), str(model)], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

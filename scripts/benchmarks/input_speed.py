"""Measures the speed of `inputs prepare` and of OpenCV's own calls for the same steps, and its memory for many
photos."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

WIDTH, HEIGHT = 1920, 1080
ROUNDS = 15


def photo(folder: Path, width: int = WIDTH, height: int = HEIGHT) -> str:
    """Writes a smooth picture with some noise as JPEG, about as large as a camera's, and returns its path."""
    import cv2

    random = np.random.Generator(np.random.PCG64(1))
    coarse = random.integers(0, 256, (height // 40, width // 40, 3), np.uint8)
    pixels = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC).astype(np.int16)
    pixels += random.integers(-6, 7, pixels.shape, np.int16)
    path = str(folder / f"{width}x{height}.jpg")
    cv2.imwrite(path, pixels.clip(0, 255).astype(np.uint8), [cv2.IMWRITE_JPEG_QUALITY, 92])
    return path


def theirs(path: str) -> bytes:
    """Returns NV12 made by OpenCV: decodes, converts, interleaves."""
    import cv2

    planes = cv2.cvtColor(cv2.imread(path), cv2.COLOR_BGR2YUV_I420).reshape(-1)
    pixels = WIDTH * HEIGHT
    chroma = cv2.merge([planes[pixels : pixels * 5 // 4], planes[pixels * 5 // 4 :]])
    return bytes(planes[:pixels].tobytes() + chroma.tobytes())


def ours(path: str) -> bytes:
    """Returns NV12 made by qverify."""
    from qverify.inputs.description import Description
    from qverify.inputs.reading import read_bytes

    return read_bytes(path, Description("nv12", (WIDTH, HEIGHT)))


def written(path: str) -> bytes:
    """Does the work of the whole command, including hashes and manifest, records the time, and returns the written
    bytes."""
    from qverify.inputs.description import Description
    from qverify.session.inputs.prepared_files import prepare

    with tempfile.TemporaryDirectory(prefix="qverify-bench-") as folder:
        start = time.perf_counter()
        prepare([path], Description("nv12", (WIDTH, HEIGHT)), folder)
        _written.append(time.perf_counter() - start)
        return Path(folder, "0000.bin").read_bytes()


_written: list[float] = []


def nv12_1080p() -> dict[str, float]:
    """Returns the medians of interleaved rounds in seconds, and their ratio. Exits if the bytes are not equal."""
    sides: dict[str, list[float]] = {"ours": [], "theirs": []}
    with tempfile.TemporaryDirectory(prefix="qverify-bench-") as place:
        path = photo(Path(place))
        for _ in range(ROUNDS):
            for name, run in (("ours", ours), ("theirs", theirs)):
                start = time.perf_counter()
                run(path)
                sides[name].append(time.perf_counter() - start)
            if written(path) != theirs(path) or ours(path) != theirs(path):
                raise SystemExit("nv12 of 1080p: our bytes are not OpenCV's")
    own_s, opencv_s, whole_s = (float(np.median(v)) for v in (sides["ours"], sides["theirs"], _written))
    return {
        "ours_s": own_s,
        "opencv_s": opencv_s,
        "hashed_and_written_s": whole_s,
        "ratio": round(own_s / opencv_s, 3),
    }


def peak_mb(photos: int) -> float:
    """Returns the peak memory in MB of a process that prepares this number of photos."""
    with tempfile.TemporaryDirectory(prefix="qverify-bench-") as place:
        path = photo(Path(place), 640, 480)
        for k in range(photos):
            os.link(path, os.path.join(place, f"{k:05d}.jpg"))
        os.unlink(path)
        words = [sys.executable, __file__, "child", place]
        done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=True, env=_environment())
        return float(done.stdout.split()[-1])


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def _child(place: str) -> None:
    from qverify.cli.main import main

    if main(["inputs", "prepare", place, "--format", "nv12", "--size", "320x240", "-o", os.path.join(place, "out")]):
        raise SystemExit("prepare failed")
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def measured() -> dict[str, Any]:
    speed = nv12_1080p()
    few, many = peak_mb(10), peak_mb(1000)
    return {
        "nv12_1080p_vs_opencv": speed["ratio"],
        "nv12_1080p": speed,
        "peak_mb": {"10 photos": round(few, 1), "1000 photos": round(many, 1)},
    }


if __name__ == "__main__":
    _child(sys.argv[2])

"""Virtual environments with the real engines, of pinned public packages, each made once in the user's cache folder."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from qverify_agents.this_user import cache_folder

PIP_S = 1800.0
SMALL_MB = 100  # an engine whose packages are no larger is run in CI


class NoEngine(Exception):
    """Raised if an engine cannot be had on this machine; its text is the reason, in one line."""


@dataclass(frozen=True)
class Packages:
    """The packages of an engine's interpreter.

    Attributes:
        pins: requirements of pip, every one pinned.
        megabytes: what they download, about.
        without_dependencies: requirements that are installed without what they ask for.
    """

    pins: tuple[str, ...]
    megabytes: int
    without_dependencies: tuple[str, ...] = ()


PACKAGES = {
    "rknn": Packages(  # torch: its metadata pins an older one of 3 GB; the parts used here run with this one
        (
            "onnx==1.18.0",
            "numpy==1.26.4",
            "onnxruntime==1.26.0",
            "protobuf==4.25.4",
            "ruamel.yaml==0.19.1",
            "psutil==7.2.2",
            "scipy==1.17.1",
            "tqdm==4.70.1",
            "fast-histogram==0.14",
            "opencv-python-headless==4.10.0.84",
        ),
        1100,
        ("rknn-toolkit2==2.5.0", "torch==2.13.0", "typing_extensions==4.16.0"),
    ),
    "openvino": Packages(("openvino==2026.4.1", "numpy==2.4.6"), 60),
    "onnxruntime_ep": Packages(("onnxruntime==1.32.0", "onnxruntime-qnn==2.7.0", "numpy==2.4.6"), 140),
    "tflm": Packages(("tflite-micro==0.dev20261023182759", "numpy==2.4.6"), 30),
}


def engine_python(name: str) -> Path:
    """Returns the interpreter that has an engine's packages. Raises NoEngine if pip cannot install them."""
    packages = PACKAGES[name]
    cache = cache_folder() / "engines"
    pinned = "-".join(pin.replace("==", "-") for pin in packages.pins[:1])
    return make_environment(cache, pinned, packages.pins, packages.without_dependencies)


def make_environment(cache: Path, name: str, pins: Sequence[str], without_dependencies: Sequence[str] = ()) -> Path:
    """Returns the Python of a virtual environment of this name in a folder, which is made once. Raises NoEngine if pip cannot
    install the requirements."""
    cache.mkdir(parents=True, exist_ok=True)
    cache = cache.resolve()  # programs of an environment name their Python by this path
    folder = cache / f"{name}-python{sys.version_info[0]}.{sys.version_info[1]}"
    python, done = folder / "bin" / "python", folder / "installed"
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            venv.create(folder, clear=True, with_pip=True)
            _install(python, pins)
            _install(python, without_dependencies, "--no-deps")
            done.touch()
    return python


def _install(python: Path, pins: Sequence[str], *options: str) -> None:
    if not pins:
        return
    words = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *options, *pins]
    try:
        made = subprocess.run(words, capture_output=True, text=True, timeout=PIP_S, check=False)
    except subprocess.TimeoutExpired:
        raise NoEngine(f"pip does not install {pins[0]} within {PIP_S:.0f} s") from None
    if made.returncode:
        raise NoEngine(f"pip cannot install {pins[0]}: {(made.stderr.strip() or 'no message').splitlines()[-1][-200:]}")

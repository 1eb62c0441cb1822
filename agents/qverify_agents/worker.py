"""The agent for runtimes with Python bindings (agents/qverify_worker): packed into one file, found a Python for, and started."""

from __future__ import annotations

import hashlib
import io
import os
import shlex
import sys
import tempfile
import zipfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from qverify_agents.address import Address
from qverify_agents.errors import BadAddress, BoardUnreachable
from qverify_agents.this_user import cache_folder

RUNTIMES = ("onnxruntime", "litert")  # the pages of qverify_worker/runtimes
MODULES = {"onnxruntime": ("onnxruntime",), "litert": ("ai_edge_litert", "tflite_runtime", "tensorflow")}
OPTIONS = frozenset({"runtime", "python", "providers", "level", "threads", "delegate", "kernels", "form"})
OF_ONE = {
    "providers": "onnxruntime",
    "level": "onnxruntime",
    "form": "onnxruntime",
    "delegate": "litert",
    "kernels": "litert",
}
EPOCH = (1980, 1, 1, 0, 0, 0)


def is_worker(address: Address) -> bool:
    """Returns whether the address asks for a runtime that the worker drives. Raises BadAddress for options that do not
    belong to it."""
    runtime = address.options.get("runtime", "")
    if runtime not in RUNTIMES:
        if option := min(OPTIONS.intersection(address.options) - {"runtime"}, default=""):
            raise BadAddress(
                f"{option}={address.options[option]}: is for runtime={' or '.join(RUNTIMES)}; give that, too"
            )
        return False
    if wrong := next((k for k, of in OF_ONE.items() if k in address.options and of != runtime), None):
        raise BadAddress(f"{wrong}={address.options[wrong]}: is for runtime={OF_ONE[wrong]}, got runtime={runtime}")
    if "fault" in address.options:
        raise BadAddress(
            f"runtime={runtime} beside a fault: a fault is planted in the runtime that comes with qverify only"
        )
    return True


@cache
def packed_worker() -> bytes:
    """Returns the worker as a zip that Python runs; the same bytes for the same sources."""
    spec = find_spec("qverify_worker")
    if spec is None or not spec.submodule_search_locations:
        raise BoardUnreachable("the package qverify_worker is missing; install qverify again")
    folder = Path(next(iter(spec.submodule_search_locations)))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        start = "import sys\nfrom qverify_worker.__main__ import main\nsys.exit(main(sys.argv[1:]))\n"
        archive.writestr(zipfile.ZipInfo("__main__.py", EPOCH), start)
        for path in sorted(folder.rglob("*.py")):
            name = f"qverify_worker/{path.relative_to(folder).as_posix()}"
            archive.writestr(zipfile.ZipInfo(name, EPOCH), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def worker_name() -> str:
    """Returns the file's name on a board: it contains the hash of its bytes."""
    return f"qverify_worker-{hashlib.sha256(packed_worker()).hexdigest()[:16]}.pyz"


def worker_file() -> Path:
    """Returns the packed worker as a file of this user's cache."""
    path = cache_folder() / "bin" / worker_name()
    data = packed_worker()
    if path.is_file() and path.read_bytes() == data:
        return path
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".worker-", delete=False) as file:
            file.write(data)
        os.replace(file.name, path)
    except OSError as error:
        raise BoardUnreachable(f"{path}: cannot be written: {error.strerror}") from error
    return path


def python_words(address: Address) -> list[str]:
    """Returns the command of the Python that the address names, [] for none."""
    return shlex.split(address.options.get("python", ""))


def own_python(address: Address) -> list[str]:
    """Returns the command of the Python on this machine: the one that the address names, or this one."""
    return python_words(address) or [sys.executable]


def runtime_words(address: Address) -> list[str]:
    """Returns the worker's options for the runtime that the address asks for."""
    options = address.options
    words = [f"--runtime={options['runtime']}"]
    words += [f"--provider={one}" for one in options.get("providers", "").split("+") if one]
    words += [f"--{key}={options[key]}" for key in ("level", "threads", "kernels") if key in options]
    if "delegate" in options:
        path, *settings = options["delegate"].split(",")
        words += [f"--delegate={path}", *(f"--delegate_option={setting}" for setting in settings)]
    return words

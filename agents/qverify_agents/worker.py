"""The agent for runtimes with Python bindings (agents/qverify_worker): packs it into one file, and builds its command
line."""

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

RUNTIMES = ("onnxruntime", "litert")  # the modules of qverify_worker/runtimes
MODULES = {"onnxruntime": ("onnxruntime",), "litert": ("ai_edge_litert", "tflite_runtime", "tensorflow")}
OPTIONS = frozenset({"runtime", "python", "providers", "level", "threads", "delegate", "kernels", "form"})
RUNTIME_OF_OPTION = {
    "providers": "onnxruntime",
    "level": "onnxruntime",
    "form": "onnxruntime",
    "delegate": "litert",
    "kernels": "litert",
}
EPOCH = (1980, 1, 1, 0, 0, 0)  # date of all files in the archive, so that its bytes depend on the sources only


def is_worker(address: Address) -> bool:
    """Returns whether the address names a runtime that the worker drives. Raises BadAddress for options that do not
    belong to the runtime."""
    runtime = address.options.get("runtime", "")
    if runtime not in RUNTIMES:
        if option := min(OPTIONS.intersection(address.options) - {"runtime"}, default=""):
            raise BadAddress(
                f"{option}={address.options[option]}: is for runtime={' or '.join(RUNTIMES)}; give that, too"
                + ("; another engine takes it as --runtime NAME,python=COMMAND" if option == "python" else "")
            )
        return False
    foreign = [k for k, of in RUNTIME_OF_OPTION.items() if k in address.options and of != runtime]
    if foreign:
        option, owner = foreign[0], RUNTIME_OF_OPTION[foreign[0]]
        raise BadAddress(f"{option}={address.options[option]}: is for runtime={owner}, got runtime={runtime}")
    if "fault" in address.options:
        raise BadAddress(
            f"runtime={runtime} beside a fault: a fault is planted in the runtime that comes with qverify only"
        )
    return True


@cache
def pack_worker() -> bytes:
    """Returns the worker as a zip file that Python can run; the same sources give the same bytes."""
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


def worker_file_name() -> str:
    """Returns the name of the worker's file on a board, which contains the hash of its bytes."""
    return f"qverify_worker-{hashlib.sha256(pack_worker()).hexdigest()[:16]}.pyz"


def write_worker_file() -> Path:
    """Writes the packed worker to this user's cache, unless it is there, and returns the file's path. Raises
    BoardUnreachable if it cannot be written."""
    path = cache_folder() / "bin" / worker_file_name()
    data = pack_worker()
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


def named_python(address: Address) -> list[str]:
    """Returns the command of the Python that the address names, or [] if it names none."""
    return shlex.split(address.options.get("python", ""))


def local_python(address: Address) -> list[str]:
    """Returns the command of the Python to use on this machine: the one that the address names, else the running
    one."""
    return named_python(address) or [sys.executable]


def runtime_arguments(address: Address) -> list[str]:
    """Returns the worker's command-line options for the runtime that the address names."""
    options = address.options
    words = [f"--runtime={options['runtime']}"]
    words += [f"--provider={provider}" for provider in options.get("providers", "").split("+") if provider]
    words += [f"--{key}={options[key]}" for key in ("level", "threads", "kernels") if key in options]
    if "delegate" in options:
        path, *settings = options["delegate"].split(",")
        words += [f"--delegate={path}", *(f"--delegate_option={setting}" for setting in settings)]
    return words

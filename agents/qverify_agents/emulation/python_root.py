"""Makes a folder with Python, numpy and onnxruntime for ARM from distribution packages and PyPI's wheels. QEMU's user
mode runs it."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from qverify_agents.emulation.archive import FILE, iterate_deb_files
from qverify_agents.emulation.packages import Packages
from qverify_agents.emulation.user_mode import find_emulator
from qverify_agents.errors import BoardUnreachable
from qverify_agents.printable import last_line
from qverify_agents.this_user import cache_folder

SUITE, LIBC = "bookworm", 36  # the suite's glibc is 2.36
SKIP = {"dpkg", "perl", "perl-base", "install-info", "mime-support", "mailcap", "media-types", "debconf", "tar"}
WHEELS_S, ANSWER_S = 900, 600  # generous, as on a busy host a timeout would lose what was fetched
CPU = "cortex-a53"
PACKAGES = "usr/lib/python3/dist-packages"
LITERT = ["ai-edge-litert", "flatbuffers", "ml_dtypes", "protobuf", "tqdm", "typing_extensions", "backports.strenum"]
CPUINFO = """processor\t: {number}
BogoMIPS\t: 100.00
Features\t: fp asimd aes pmull sha1 sha2 crc32 cpuid
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: 0xd03
CPU revision\t: 4

"""


def make_python_root(
    root: Path,
    onnxruntime: str,
    mirror: str | None = None,
    say: Callable[[str], None] = lambda _: None,
    litert: bool = False,
) -> str:
    """Makes the folder, unless it exists, and returns the command that runs its Python. Raises BoardUnreachable if
    something cannot be fetched or does not run; no new folder is then left behind.

    Args:
        root: the folder.
        onnxruntime: version of onnxruntime.
        mirror: a Debian archive, or None for that of this machine's apt.
        say: called with a line on the progress.
        litert: whether LiteRT is installed, too, also into a folder that exists without it.
    """
    program = find_emulator("aarch64")
    if program is None:
        raise BoardUnreachable("no qemu-aarch64 on this machine; install qemu-user-static")
    if not (root / "usr").is_dir():
        _make(root, program, onnxruntime, mirror, say)
    _check_python(python_command(program, root), onnxruntime)
    if litert and not (root / PACKAGES / "ai_edge_litert").is_dir():
        say("fetching LiteRT for aarch64")
        install_wheels(root / PACKAGES, python_version(root), LITERT)
    return shlex.join(python_command(program, root))


def find_python_roots() -> list[Path]:
    """Returns the folders of make_python_root in this user's cache (arm_reference/VERSION), the oldest version
    first."""
    folders = (cache_folder() / "arm_reference").glob("*/usr/bin/python3")
    return sorted((p.parents[2] for p in folders), key=lambda p: [int(n) for n in re.findall(r"\d+", p.name)])


def python_command(program: str, root: Path) -> list[str]:
    """Returns the command that runs the folder's Python. program: QEMU's emulator."""
    return [program, "-cpu", CPU, "-L", str(root), str(root / "usr/bin/python3")]


def _make(root: Path, program: str, onnxruntime: str, mirror: str | None, say: Callable[[str], None]) -> None:
    """Makes the folder completely or not at all."""
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise BoardUnreachable(f"{root}: exists and is not a Python root folder; wanted a new name or an empty folder")
    root.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{root.name}-", dir=root.parent) as name:
        part = Path(name) / "root"
        part.mkdir()
        say(f"fetching Python of {SUITE} for arm64")
        version = _unpack_python(part, mirror)
        say(f"fetching numpy and onnxruntime {onnxruntime} for aarch64")
        install_wheels(part / PACKAGES, version, ["numpy", f"onnxruntime=={onnxruntime}"])
        _write_own_files(part)
        _check_python(python_command(program, part), onnxruntime)
        part.replace(root)


def _unpack_python(root: Path, mirror: str | None) -> str:
    """Unpacks the interpreter and the libraries that it and the wheels need. Returns the Python version, 3.N."""
    state = root / "apt"
    packages = Packages(state, "arm64", SUITE, mirror)
    packages.update()
    name = next((n for n in packages.depends("python3-minimal") if re.fullmatch(r"python3\.\d+-minimal", n)), None)
    if name is None:
        raise BoardUnreachable(f"python3-minimal has no Python among its dependencies in {SUITE}")
    version = name.removeprefix("python").removesuffix("-minimal")
    roots = [name, f"libpython{version}-stdlib", "libstdc++6"]
    for deb in packages.fetch(packages.closure(roots, SKIP)).values():
        for entry_name, entry in iterate_deb_files(deb):
            path = root / entry_name
            path.parent.mkdir(parents=True, exist_ok=True)
            if entry.kind == FILE:
                path.write_bytes(entry.data)
                path.chmod(entry.mode)
            else:
                path.unlink(missing_ok=True)
                path.symlink_to(entry.data.decode())
    (root / "usr/bin/python3").symlink_to(f"python{version}")
    shutil.rmtree(state)
    return version


def python_version(root: Path) -> str:
    """Returns the version of the folder's Python, 3.N."""
    return (root / "usr/bin/python3").readlink().name.removeprefix("python")


def install_wheels(target: Path, version: str, packages: list[str]) -> None:
    """Installs the wheels for ARM of these packages, without their dependencies, for that Python version into the folder
    `target`, with the running Python's pip. Raises BoardUnreachable."""
    platforms = [f"manylinux_2_{n}_aarch64" for n in range(LIBC, 16, -1)] + ["manylinux2014_aarch64"]
    words = ["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile", "--only-binary=:all:"]
    words += ["--target", str(target), "--implementation", "cp"]
    words += ["--python-version", version, *(word for platform in platforms for word in ("--platform", platform))]
    command = [sys.executable, "-m", "pip", *words, *packages]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=WHEELS_S, check=False)
    except subprocess.TimeoutExpired:
        raise BoardUnreachable(f"pip: did not end within {WHEELS_S} s") from None
    if result.returncode:
        raise BoardUnreachable(f"pip: {last_line(result.stderr, f'status {result.returncode}')}")


def _write_own_files(root: Path) -> None:
    """Writes files that hide those of the host under the emulator's option -L. Without them the emulator shows the
    host's /proc/cpuinfo, in which onnxruntime looks for ARM cores; if there are none, it crashes with a null
    pointer."""
    text = {
        "proc/cpuinfo": "".join(CPUINFO.format(number=number) for number in range(2)),
        "sys/devices/system/cpu/possible": "0-1\n",
        "sys/devices/system/cpu/present": "0-1\n",
    }
    for name, content in text.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)


def _check_python(command: list[str], onnxruntime: str) -> None:
    """Checks that the command runs and has this onnxruntime. Raises BoardUnreachable."""
    words = [*command, "-I", "-c", "import numpy, onnxruntime; print(onnxruntime.__version__)"]
    try:
        result = subprocess.run(words, capture_output=True, text=True, timeout=ANSWER_S, check=False)
    except subprocess.TimeoutExpired:
        raise BoardUnreachable(f"{command[-1]}: no answer within {ANSWER_S} s") from None
    except OSError as error:
        raise BoardUnreachable(f"{command[0]}: {error.strerror}") from error
    if result.returncode:
        raise BoardUnreachable(f"{command[-1]}: {last_line(result.stderr, f'status {result.returncode}')}")
    if result.stdout.strip() != onnxruntime:
        raise BoardUnreachable(f"{command[-1]}: has onnxruntime {last_line(result.stdout)}, wanted {onnxruntime}")

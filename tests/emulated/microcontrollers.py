"""Builds of the example firmware and of the agent for QEMU's microcontrollers; every skip has its reason."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from qverify_agents.emulation.mcu_sources import LINK, board_arguments, sources_root
from qverify_agents.emulation.microcontrollers import MICROCONTROLLERS

EXAMPLE = sources_root() / "hook" / "example"
WARNINGS = ("-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Wshadow", "-Wcast-qual", "-Wmissing-prototypes")
FIRMWARE_CFLAGS = (
    "-std=c99",
    "-O2",
    "-ffp-contract=off",
    "-ffunction-sections",
    "-fdata-sections",
    *WARNINGS,
    "-Werror",
)


def need(name: str) -> pytest.MarkDecorator:
    """Returns a mark that skips a test where QEMU or the compiler of this microcontroller is missing."""
    kind = MICROCONTROLLERS[name]
    missing = [program for program in (kind.program, kind.compiler) if shutil.which(program) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{' and '.join(missing)} not on this machine")


def each(*names: str) -> list[object]:
    """Returns these microcontrollers as parameters of a test."""
    return [pytest.param(name, marks=need(name)) for name in names]


def build_firmware(folder: Path, name: str, onnx: Path, fault: str = "", extra: Sequence[str] = ()) -> Path:
    """Returns the example firmware with the network of this ONNX, for a microcontroller."""
    network, out, kind = folder / "network.c", folder / f"firmware-{name}.elf", MICROCONTROLLERS[name]
    words = [sys.executable, str(EXAMPLE / "write_network.py"), str(onnx), str(network), "--fault", fault]
    written = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    input_name = written.stdout.strip().partition("=")[2]
    sources = ["hook/example/main.c", "hook/example/layers.c", "hook/qv_hook.c", str(network.absolute())]
    defines = [f'-DINPUT_NAME="{input_name}"', f'-DEXAMPLE_ARCH="{kind.core}"', "-Ihook/example", *extra]
    command = [
        kind.compiler,
        *FIRMWARE_CFLAGS,
        *defines,
        *sources,
        *board_arguments(kind),
        *LINK,
        "-o",
        str(out.absolute()),
    ]
    done = subprocess.run(command, cwd=sources_root(), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    return out

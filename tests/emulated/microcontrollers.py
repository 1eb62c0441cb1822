"""Builds of the example firmware for QEMU's microcontrollers; every skip has its reason."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from qverify.session.other_jobs.mcu_sources import write_example_firmware
from qverify_agents.emulation.mcu_sources import NETWORK, compile_firmware
from qverify_agents.emulation.microcontrollers import MICROCONTROLLERS

WARNINGS = (
    "-Wall",
    "-Wextra",
    "-pedantic",
    "-Wconversion",
    "-Wshadow",
    "-Wcast-qual",
    "-Wmissing-prototypes",
    "-Werror",
)
FILES = ("hook/qv_hook.c", "hook/example/main.c", "hook/example/layers.c", NETWORK)


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
    sources = folder / f"sources-{name}"
    assert write_example_firmware(str(sources), str(onnx), fault) == len(FILES)
    return compile_firmware(sources, FILES, name, (*WARNINGS, *extra))

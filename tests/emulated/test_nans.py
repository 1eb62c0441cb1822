"""Random nodes of every op on NaNs, infinities and zeros of both signs: other architectures give the simulator's bytes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from qverify_agents.binaries import runtime_path

from tests.conftest import need_qemu
from tests.ops.test_runtime_equals_simulator import agree, nodes_of_nans

ARCHITECTURES = {"aarch64": "aarch64", "armv7": "arm", "riscv64": "riscv64", "s390x": "s390x"}


@pytest.mark.parametrize("often", [0.02, 0.5])
@pytest.mark.parametrize("architecture", [pytest.param(a, marks=need_qemu(q)) for a, q in ARCHITECTURES.items()])
def test_nans_have_one_pattern(architecture: str, often: float, tmp_path: Path) -> None:
    name = f"qemu-{ARCHITECTURES[architecture]}"
    emulator, program = shutil.which(f"{name}-static") or shutil.which(name), tmp_path / "qvrt"
    program.write_text(f'#!/bin/sh\nexec {emulator} {runtime_path(architecture)} "$@"\n')
    program.chmod(0o755)
    agree(nodes_of_nans(often), (program,), tmp_path, f"{architecture}, NaNs at {often}")

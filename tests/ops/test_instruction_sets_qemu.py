"""The kernels of 64-bit ARM's instruction sets, on processors with and without them, against the plain loops of the oldest of these,
bit for bit: under QEMU's user mode, of the runtime that QVERIFY_BIN_DIR or else the package has."""

from __future__ import annotations

from pathlib import Path

import pytest
from qverify_agents.binaries import runtime_path
from qverify_agents.emulation.user_mode import find_emulator

from tests.conftest import need_qemu
from tests.ops.random_nodes import RandomNodes
from tests.ops.test_instruction_sets import convolutions, products, transposed_convolutions, words_of, write
from tests.ops.test_runtime_equals_simulator import digests, instruction_sets

pytestmark = need_qemu("aarch64")
PROCESSORS = {
    "cortex-a53": ["neon", "portable"],
    "cortex-a76": ["dotprod", "neon", "portable"],
    "max": ["i8mm", "dotprod", "neon", "portable"],
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The runtime as each of PROCESSORS runs it."""
    folder = tmp_path_factory.mktemp("processors")
    for processor in PROCESSORS:
        program = folder / processor
        program.write_text(
            f'#!/bin/sh\nexec "{find_emulator("aarch64")}" -cpu {processor} "{runtime_path("aarch64").resolve()}" "$@"\n'
        )
        program.chmod(0o755)
    return {processor: folder / processor for processor in PROCESSORS}


@pytest.mark.parametrize("processor", PROCESSORS)
def test_each_processor_has_its_sets(programs: dict[str, Path], processor: str) -> None:
    assert instruction_sets(programs[processor]) == PROCESSORS[processor]


@pytest.mark.parametrize(
    ("made_by", "rounding"),
    [
        (convolutions, "ref-exact"),
        (transposed_convolutions, "tflite-single"),
        (products, "ref-exact"),
        (products, "pow2-floor"),
    ],
)
def test_they_agree(programs: dict[str, Path], made_by, rounding: str, tmp_path: Path) -> None:
    made = RandomNodes(rounding, 78, in_forms=True)
    made_by(made)
    names, words = write(made, tmp_path), words_of(made)
    plain = digests(programs["cortex-a53"], tmp_path, names, "--plain")
    assert len(plain) == len(made.nodes)
    for processor, sets in PROCESSORS.items():
        runs = [(name, 1) for name in sets if name != "portable" or processor == "max"] + [(sets[0], 2)]
        for name, threads in runs:
            found = digests(programs[processor], tmp_path, names, f"--instructions={name}", f"--threads={threads}")
            assert found.keys() == plain.keys()
            assert {words[t]: d for t, d in found.items() if d != plain[t]} == {}, (processor, name, threads)

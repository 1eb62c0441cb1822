"""The reference, the compiler and the canaries on processors without VNNI and without AVX2: tests of them run again in child
processes under QEMU's user mode, in which onnxruntime chooses its kernels by the emulated processor."""

from __future__ import annotations

import platform
from collections.abc import Mapping

import pytest
from qverify_agents.emulation.user_mode import find_emulator

from tests.conftest import need_qemu
from tests.processors import EMULATED, child, note_exercised

pytestmark = [
    need_qemu("x86_64"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the wheels in this Python are not for x86-64"),
]
PLACES = (  # a run takes some of them (tests/share.py)
    *("test_exact_products.py", "test_canary.py", "test_reinterpreted_integers.py", "test_channels_last.py"),
    "test_host_islands.py::test_names_of_classes_are_compared_with_those_of_the_untouched_file",
    "test_decompositions_of_forms.py::test_written_out[integer_products_of_vectors]",
)
SATURATES = {"Haswell": True, "Nehalem": False}
FEATURES = """
from numpy._core._multiarray_umath import __cpu_features__ as features
from qverify.onnx_model.canary import failing_kinds, run_canaries
print(*(name for name in ("AVX2", "AVX512F") if features[name]), "/", *sorted(failing_kinds(run_canaries(False), mixed=True)))
"""


def words_of(processor: str) -> tuple[list[str], Mapping[str, str]]:
    emulator = find_emulator("x86_64")
    assert emulator is not None
    return [emulator, "-cpu", processor], EMULATED[processor]


@pytest.mark.parametrize("processor", EMULATED)
def test_the_emulated_processor_has_its_kernels(processor: str) -> None:
    """Those of Haswell saturate, those of Nehalem do not; this processor's features are not seen."""
    emulator, _ = words_of(processor)
    shown = child(emulator, {}, "-c", FEATURES)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    features, _, kinds = shown.stdout.strip().rpartition("/")
    assert features.split() == (["AVX2"] if processor == "Haswell" else [])
    assert ("MatMulInteger" in kinds.split()) == SATURATES[processor]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("processor", EMULATED)
def test_verdicts_are_the_same_there(processor: str, place: str) -> None:
    emulator, environment = words_of(processor)
    words = ["-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-p", "no:randomly", f"tests/plain/{place}"]
    ran = child(emulator, environment, *words)
    assert ran.returncode == 0 and " passed" in ran.stdout, ran.stdout[-5000:] + ran.stderr[-1000:]
    note_exercised(f"onnxruntime on {processor} (QEMU)")

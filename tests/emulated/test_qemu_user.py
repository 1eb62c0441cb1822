"""Other architectures under QEMU's user mode: simulator equals board bit for bit, in every rounding mode."""

from __future__ import annotations

from pathlib import Path

import pytest
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.inputs.random_inputs import random_inputs
from qverify.model_bin.graph import ROUNDINGS
from qverify.model_bin.records import encode
from qverify.sides.board import Board
from qverify.sides.simulator import Simulator
from qverify_agents.binaries import runtime_path
from qverify_agents.emulation.user_mode import find_emulator

from tests.conftest import MODELS, need_models, need_qemu
from tests.ops.nodes_of_forms import additions_of_every_byte, linear_nodes, products_of_16_bits, products_of_every_byte
from tests.ops.random_nodes import RandomNodes
from tests.ops.test_runtime_equals_simulator import agree

ARCHITECTURES = [
    pytest.param("aarch64", marks=need_qemu("aarch64")),
    pytest.param("armv7", marks=need_qemu("arm")),
    pytest.param("riscv64", marks=need_qemu("riscv64")),
    pytest.param("s390x", marks=need_qemu("s390x")),
]


def digests_agree(source: Path, rounding: str, uri: str) -> None:
    compiled = compile_model(source.read_bytes(), source.name, CompilerOptions(rounding, check=False))
    prepared = random_inputs(compiled.graph, 3)
    simulated = Simulator(compiled.graph).run(prepared)
    board = Board(uri, encode(compiled.graph), compiled.graph, 300)
    try:
        ran = board.run(prepared)
    finally:
        board.close()
    assert ran.state == "complete", ran.why
    assert ran.digests == simulated.digests


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_example_in_every_rounding_mode(digits, arch, rounding):
    digests_agree(digits / "digits_quant.onnx", rounding, f"qemu-user:{arch}")


@pytest.mark.parametrize("make", [products_of_every_byte, products_of_16_bits, additions_of_every_byte, linear_nodes])
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_nodes_in_forms(arch, make, tmp_path):
    """Nodes of every kind of form, at ties and at the ends of the ranges."""
    program, made = tmp_path / "qvrt", RandomNodes("ref-exact", 37, in_forms=True)
    program.write_text(f'#!/bin/sh\nexec "{find_emulator(arch)}" "{runtime_path(arch).resolve()}" "$@"\n')
    program.chmod(0o755)
    make(made)
    agree(made, (program,), tmp_path, make.__name__)


@need_models()
@pytest.mark.parametrize(
    "name",
    [
        "kws_dscnn/kws_dscnn_s8s8_qdq",
        "resnet8_cifar10/resnet8_cifar10_u8s8_qop",
        "kwt1/kwt1_full_u8s8_qdq",
        "kwt1/kwt1_u8s8_qdq",
        "vww_96/vww_96_s8s8_qdq",
    ],
)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_real_models(arch, name):
    digests_agree(MODELS / f"{name}.onnx", "ref-exact", f"qemu-user:{arch}")

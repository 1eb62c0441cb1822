"""The packaged example: PASSED on this machine and an emulated one, then what FAILED looks like."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from qverify_agents.emulation.user_mode import emulator

from qverify import example
from qverify.compare.options import Options
from qverify.compiler.compile_model import CompileOptions, compile_model
from qverify.inputs.sources import InputRequest
from qverify.model_bin.records import encode
from qverify.session.job import Outcome, verify
from qverify.session.request import Request

FAULT = "faulty:local?fault=bitflip@relu2_QuantizeLinear_Output"


def demo(show: Callable[[str, Outcome | None], None]) -> bool:
    """Calls show(title, outcome) for every step. Returns whether every verdict is as expected."""
    folder = Path(example.__file__).parent
    source = (folder / "digits_quant.onnx").read_bytes()
    with tempfile.TemporaryDirectory(prefix="qverify-demo-") as work:
        model = os.path.join(work, "digits.bin")
        compiled = compile_model(source, "digits_quant.onnx", CompileOptions())
        Path(model).write_bytes(encode(compiled.graph))
        with np.load(folder / "digits.npz") as digits:
            image = os.path.join(work, "digit_3.npy")
            np.save(image, digits["digit_3"])
        show(
            f"compiled digits_quant.onnx to model.bin: {len(compiled.graph.nodes)} nodes, worst node {compiled.graph.meta['check']['worst_lsb']:g} LSB from the original",
            None,
        )
        boards = ["local"] + (["qemu-user:aarch64"] if emulator("aarch64") else [])
        good = True
        for board in [*boards, FAULT]:
            outcome = verify(
                Request(
                    [str(folder / "digits_quant.onnx"), model],
                    board,
                    inputs=InputRequest(image),
                    options=Options(dump_all=True),
                )
            )
            show(f"qverify -m digits_quant.onnx,model.bin -b {board} -i digit_3.npy -r True", outcome)
            wanted = "FAILED" if board == FAULT else "PASSED"
            good = good and outcome.report.verdict == wanted
            if board == FAULT:
                blame = outcome.report.blame
                good = (
                    good and blame is not None and (blame.side, blame.node) == ("board", "relu2_QuantizeLinear_Output")
                )
        if len(boards) == 1:
            show("qemu-aarch64 is not installed: the emulated board is left out (install qemu-user-static)", None)
        return good

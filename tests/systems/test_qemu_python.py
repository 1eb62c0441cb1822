"""The emulated board with the real ARM libraries: onnxruntime, LiteRT, and a vendor's tool of the tests, over SSH."""

from __future__ import annotations

import base64
import json
import shutil
import zlib
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.session.models import open_models
from qverify_agents.emulation.python_root import PACKAGES, find_python_roots

from tests.conftest import MODELS, need_models, with_images
from tests.plain.hrt_stand_in import model_file

MISSING = next((p for p in ("qemu-system-aarch64", "qemu-img", "apt-get") if shutil.which(p) is None), "")
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"no {MISSING} on this machine")
TOOL = Path(__file__).parents[1] / "plain" / "hrt_stand_in.py"
PATIENT = ["--timeout", "400"]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Returns a function: the newest kept Python for ARM that has a package. No machine but the test's own is there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(with_images(tmp_path / "cache")))

    def having(package: str) -> str:
        found = [one for one in find_python_roots() if (one / PACKAGES / package).is_dir()]
        if not found:
            pytest.skip(f"no Python for ARM with {package} is kept; scripts/arm_reference makes one")
        return str(found[-1])

    return having


def test_onnxruntime_for_arm(root, digits, capsys):
    board = f"qemu:arm64?root={root('onnxruntime')}"
    words = ["-m", str(digits / "digits_quant.onnx"), "-b", board, "--runtime", "onnxruntime", "-r", *PATIENT]
    assert main(words) == 0
    assert "nodes ran on CPUExecutionProvider" in capsys.readouterr().out


@need_models()
def test_litert_for_arm(root, capsys):
    board = f"qemu:arm64?kernels=reference&root={root('ai_edge_litert')}"
    tflite = MODELS / "resnet8_cifar10" / "resnet8_cifar10_int8.tflite"
    assert main(["-m", str(tflite), "-b", board, "--runtime", "litert", "-r", *PATIENT]) == 0
    assert "Quanti.onnx and Arm result Strict check PASSED" in capsys.readouterr().out


def test_horizons_tool_over_ssh(root, digits, tmp_path, capsys):
    """The stand-in (synthetic) is written to the board by the runner's setup, and run by the Python there."""
    onnx, golden = digits / "digits_quant.onnx", tmp_path / "golden"
    assert main(["infer", "-m", str(onnx), "--side", "simulator", "-o", str(golden)]) == 0
    image = prepared_inputs(open_models([str(onnx)]).graph, InputRequest()).inputs[0].array()
    names = json.loads((golden / "manifest.json").read_text())["tensors"]
    tensors = {name: np.load(golden / file) for file, name in names.items()}
    hbm = tmp_path / "model.hbm"
    model_file(hbm, {"image": np.asarray(image)}, tensors, {"prob": (1, 10)})
    text, tool = base64.b64encode(zlib.compress(TOOL.read_bytes(), 9)).decode(), "/tmp/hrt/hrt_model_exec"
    unpack = f"import base64, zlib; print(zlib.decompress(base64.b64decode('{text}')).decode())"
    setup = (  # dropbear takes commands of less than 9000 characters
        f'mkdir -p /tmp/hrt && python3 -c "{unpack}" >/tmp/hrt/tool.py && '
        f"printf '#!/bin/sh\\nexec python3 /tmp/hrt/tool.py \"$@\"\\n' >{tool} && chmod 755 {tool}"
    )
    words = ["-m", f"{onnx},{hbm}", "-b", f"qemu:arm64?root={root('numpy')}", "--runtime", "hrt_model_exec", *PATIENT]
    words += ["--runner-option", f"program={tool}", "--runner-option", f"setup={setup}", "-r"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "Quanti.onnx and Arm result Strict check PASSED" in shown and "checked against a stand-in" in shown

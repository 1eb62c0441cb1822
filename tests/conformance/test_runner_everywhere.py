"""A runner on every kind of board that can carry one: qvrt itself as the user's own tool, through files instead of its protocol."""

from __future__ import annotations

from pathlib import Path

import pytest
from qverify.cli.main import main
from qverify_agents.binaries import host_architecture, runtime_path

from tests.board_kinds import Place

PLACES = ["local", "qemu-user:aarch64", "openssh", "dropbear", "container", "qemu-ssh"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> str:
    binary = tmp_path_factory.mktemp("model") / "model.bin"
    assert main(["compile", str(digits / "digits_quant.onnx"), "-o", str(binary)]) == 0
    return f"{digits / 'digits_quant.onnx'},{binary}"


def tool_on(there: Place) -> str:
    """The words that start qvrt on the board: of this machine's processes its file, elsewhere what the push left."""
    if there.name == "local":
        return str(runtime_path(host_architecture()))
    if there.name.startswith("qemu-user:"):
        return str(runtime_path("aarch64"))
    if there.name in ("openssh", "dropbear"):
        return f"set -- {there.cache}/bin/qvrt-*; exec $1"
    return "exec $(for e in /proc/[0-9]*/exe; do readlink $e; done | grep /bin/qvrt- | head -n 1)"  # the agent there


@pytest.mark.parametrize(
    "words", [("--dump_intermediate=1", "8 of 8 tensors"), ("--enable_dump", "final outputs only")]
)
def test_the_same_verdict_as_over_the_protocol(
    where: Place, model: str, words: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    runner = f"{tool_on(where)} infer --model_file={{model}} --input_file={{input}} {words[0]}"
    assert main(["-m", model, "-b", where.address, "--runner", runner, "-r"]) == 0, capsys.readouterr()
    shown = capsys.readouterr().out
    assert "Quanti.onnx and Arm result Strict check PASSED" in shown and words[1] in shown
    assert "model.bin is tied to digits_quant.onnx by the hash of the ONNX in model.bin" in shown


def test_a_serial_console_cannot_carry_one(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["-m", model, "-b", "serial:///dev/ttyS0?baud=115200", "--runner", "tool {model} {input}"]
    assert main(words) == 2
    assert "a serial console carries one program at a time" in capsys.readouterr().err

"""qverify mcu, and what the host does with a HELLO of a small agent; without a compiler."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from qverify.cli.main import main
from qverify_agents.address import Address
from qverify_agents.boards.qemu_mcu import up
from qverify_agents.deadline import Deadline
from qverify_agents.emulation.mcu_sources import flash_text, known_ops, needed_files, sources_root
from qverify_agents.errors import BadAddress, ProtocolError
from qverify_agents.protocol.messages import encode_text, own_content, read_hello


def test_only_needed_files_are_written(tmp_path: Path, digits: Path, capsys: pytest.CaptureFixture[str]):
    model, folder = tmp_path / "M.bin", tmp_path / "sources"
    assert main(["compile", str(digits / "digits_quant.onnx"), "-o", str(model)]) == 0
    assert main(["mcu", str(folder), "--model", str(model)]) == 0
    shown = capsys.readouterr().out
    assert "conv, dequantize, fully_connected, max_pool, quantize, reshape, softmax" in shown
    written = {p.relative_to(folder).as_posix() for p in folder.rglob("*.c")}
    assert {
        "src/ops/conv.c",
        "src/ops/max_pool.c",
        "src/agent/serve.c",
        "mcu/cortex_m.c",
        "table.c",
        "flash.c",
    } <= written
    assert not {"src/ops/lstm.c", "src/posix.c", "src/threads.c", "src/commands/perf.c"} & written
    assert "&qv_op_conv" in (folder / "table.c").read_text() and "qv_op_lstm" not in (folder / "table.c").read_text()
    makefile = (folder / "Makefile").read_text()
    assert "agent-$(BOARD).elf" in makefile and "src/ops/conv.c" in makefile


@pytest.mark.parametrize(
    "words, message",
    [
        ((), "no model; give --model M.bin, or --every-op"),
        (("--model", "none.bin"), "none.bin"),
        (("--model", "quant.onnx"), "wanted a model.bin. Next: qverify compile"),
    ],
)
def test_mistakes_are_one_line(
    words: tuple[str, ...],
    message: str,
    tmp_path: Path,
    digits: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quant.onnx").write_bytes((digits / "digits_quant.onnx").read_bytes())
    assert main(["mcu", "sources", *words]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not (tmp_path / "sources").exists()


def test_a_folder_with_files_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "mine").write_text("mine")
    assert main(["mcu", str(tmp_path), "--every-op"]) == 2
    assert "does not exist or is empty" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]


def test_every_op_needs_its_file():
    root = sources_root()
    for op in known_ops(root):
        assert f"src/ops/{op}.c" in needed_files(root, [op])
    with pytest.raises(BadAddress, match="no such op"):
        needed_files(root, ["nothing"])


def test_models_in_flash_are_found_by_their_hash():
    text = flash_text({"a */ b": b"\1\2"})
    assert "= {\n1, 2};" in text and text.count("model_0") == 4 and "a  b" in text


def hello(**fields: object) -> bytes:
    return encode_text(json.dumps({"protocol": 1, **fields}))


def test_a_hello_states_the_agents_limits():
    read = read_hello(hello(max_payload=512, own_model="kws", inputs=["x", 3], float="exact"))
    assert read == {"protocol": 1, "max_payload": 512, "own_model": "kws", "inputs": ["x"], "float": "exact"}


@pytest.mark.parametrize("bytes_", [0, -1, 100, 1 << 21])
def test_a_limit_that_no_request_fits_is_refused(bytes_: int):
    with pytest.raises(ProtocolError, match="payloads of at most"):
        read_hello(hello(max_payload=bytes_))


def test_an_input_of_a_firmware_is_identified_by_digest_and_number():
    assert own_content(3, "ef46db3751d8e999") == "99e9d85137db46ef" + "0300" + "00" * 22


@pytest.mark.parametrize("rest, options", [("an999", {}), ("an386", {"firmware": "none.elf"})])
def test_unknown_machines_and_files_are_bad_addresses(rest: str, options: dict[str, str]):
    with pytest.raises(BadAddress, match=r"known machines are|no such file"):
        up(Address("qemu-mcu", rest, options), Deadline(1, "x"))

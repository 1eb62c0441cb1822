"""What a library or this machine says reaches the user whole, or cut between words, with the file it is about."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from qverify.cli.main import main
from qverify.errors import BadFileError
from qverify.files import writing
from qverify.onnx_model.engine import Engine
from qverify.printable import describe_error, shortened


@pytest.mark.parametrize("most", [40, 60, 100, 300])
def test_a_message_is_cut_between_words(most: int):
    text = (
        " ".join(f"Sentence {i} says something about tensor_{i}." for i in range(12)) + " The reason is a wrong shape."
    )
    said = shortened(text, most)
    assert len(said) <= most
    words = said.replace(" ... ", " ").split()
    assert all(word in text.split() for word in words)
    assert said.endswith(".")
    assert shortened("short", most) == "short"


def test_one_long_word_and_no_word():
    assert len(shortened("x" * 1000, 100)) <= 100
    assert describe_error(ValueError("")) == "ValueError"
    assert describe_error(ValueError("first line\n second line")) == "first line second line"


def test_onnxruntime_is_quoted_to_the_end_of_its_reason():
    nodes = [helper.make_node("Reshape", ["x", "to"], ["y"], name="the/long/name/of/a/node" * 3)]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", ["n", 4, 8]), ("y", [1, 32]))]
    to = numpy_helper.from_array(np.array([1, 32], np.int64), "to")
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [to])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(BadFileError) as raised:
        Engine(model.SerializeToString()).run({"x": np.zeros((2, 4, 8), np.float32)})
    assert "Input shape:{2,4,8}, requested shape:{1,32}" in str(raised.value)
    assert "/onnxruntime_src/" not in str(raised.value)


def test_an_error_of_write_names_the_file():
    with (
        pytest.raises(OSError, match="No space left") as raised,
        writing("there.bin"),
        open("/dev/full", "wb", 0) as file,
    ):
        file.write(b"x")
    assert raised.value.filename == "there.bin"


@pytest.mark.parametrize(
    "command",
    [
        ["extract", "{capture}", "{out}"],
        ["infer", "-m", "{digits}", "--side", "simulator", "-o", "{out}"],
        ["compile", "{digits}", "-o", "{out}"],
        ["--json", "{out}", "-m", "{digits}"],
        ["pack", "-m", "{digits}", "-o", "{out}"],
    ],
)
def test_a_full_disk_is_told_with_the_file(
    command: list[str],
    digits: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    """Full after 100 bytes: the limit of a process' files stands for a disk's."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # Python would keep 100 bytes of a module's
    capture, model = tmp_path / "capture", digits / "digits_quant.onnx"
    if command[0] == "extract":
        assert main(["-m", str(model), "--capture", str(capture)]) == 0
    capsys.readouterr()
    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, former[1]))
    try:
        status = main([w.format(capture=capture, out=tmp_path / "out", digits=model) for w in command])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, former)
    printed = capsys.readouterr().err
    assert status == 2
    assert "File too large" in printed and str(tmp_path / "out") in printed, printed
    assert printed.count("\n") == 1 and ": :" not in printed and "None" not in printed, printed

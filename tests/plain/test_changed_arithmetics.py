"""identify names what changed when an arithmetic is learned again."""

from __future__ import annotations

from pathlib import Path

import pytest
from qverify.cli.main import main
from qverify.compare.identify.arithmetic_file import read_arithmetic
from qverify.compare.identify.changes import describe_changes
from qverify.report.learned import Arithmetic, LearnedOp


def arithmetic(version: str = "", **forms: str) -> Arithmetic:
    ops = {op: LearnedOp(op, form, 1, 100) for op, form in forms.items()}
    return Arithmetic("chip", "", "", ops, {"firmware": version} if version else {})


def test_equal_arithmetics_have_no_changes() -> None:
    assert describe_changes(arithmetic("1", conv="gemmlowp"), arithmetic("1", conv="gemmlowp")) == []


def test_versions_and_ops_that_changed_are_named() -> None:
    former = arithmetic("2.1", conv="gemmlowp", add="half up", mul="half up", matmul="")
    learned = arithmetic("2.2", conv="tflite-single", add="", mul="half up", softmax="ref-exact", matmul="")
    assert describe_changes(former, learned) == [
        "firmware: 2.2, was 2.1",
        "conv: tflite-single, was gemmlowp",
        "add: unknown, was half up",
        "softmax: ref-exact, was unknown",
    ]


def test_an_op_that_was_not_learned_again_is_said() -> None:
    assert describe_changes(arithmetic(conv="half up", add="half up"), arithmetic(add="half up")) == [
        "conv: not learned this time, was half up"
    ]


def test_forms_that_the_data_do_not_tell_apart_are_no_change() -> None:
    former = arithmetic(conv="half up")
    learned = Arithmetic("chip", "", "", {"conv": LearnedOp("conv", "ref-exact", 1, 9, alike=("half up",))})
    assert describe_changes(former, learned) == [
        "conv: ref-exact, was half up; both give every element, so nothing shows a change"
    ]
    assert "nothing shows a change" in describe_changes(learned, former)[0]


def test_identify_writes_versions_and_says_what_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    boards, out = tmp_path / "boards.toml", str(tmp_path / "chip.toml")
    monkeypatch.setenv("QVERIFY_BOARDS", str(boards))
    boards.write_text(
        '[boards.desk]\nuri = "local"\narithmetic = "chip.toml"\ntags = { firmware = "2.1", room = "4" }\n'
    )
    words = ["identify", "-b", "desk", "--ops", "mul", "--types", "int8", "-o", out]
    assert main(words) == 0
    assert read_arithmetic(out).learned_on == {"firmware": "2.1"}
    capsys.readouterr()
    assert main([*words, "--on", "firmware=2.2"]) == 2
    assert "its answers are of engine 'firmware 2.1'" in capsys.readouterr().err
    assert main([*words, "--on", "firmware=2.2", "--afresh"]) == 0
    assert "beside the former file: firmware: 2.2, was 2.1" in capsys.readouterr().out
    assert main([*words, "--on", "firmware"]) == 2
    assert "--on firmware: wanted KEY=VALUE" in capsys.readouterr().err

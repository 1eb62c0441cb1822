"""The real agent behind a relay that alters one thing of what it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from lying_agent import lying_board
from qverify.cli.main import main
from qverify.sides.board import Board
from qverify.sides.board_events import DigestMismatch
from qverify.sides.simulator import Simulator
from qverify_agents.errors import ProtocolError
from tiny_model import graph, model_bytes, prepared

UNSTABLE = "if f.type == frames.DATA and messages.read_text(request.payload)[0] != 'y': payload[-1] ^= 1"
ONE = "if f.type == frames.DATA and messages.read_text(request.payload)[0] == {name!r}: payload[-1] ^= 1"
FIRST = "relu1_QuantizeLinear_Output"
NO_DIGESTS = """if f.type == frames.HELLO: payload = payload.replace(b'"inject", "digests"', b'"inject"           ')"""
Relay = Callable[[str], Board]


def altering_board(alter: str, folder: Path, monkeypatch: pytest.MonkeyPatch, faulty: bool = False) -> None:
    """From now on a line of Python alters the payload of each frame that `local` sends."""
    lie = f"payload = bytearray(f.payload)\n{alter}\nreturn [(f.type, bytes(payload))]"
    lying_board(lie, folder, monkeypatch, faulty)


@pytest.fixture
def relayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Relay:
    """A board of this machine whose agent's frames go through a line of Python."""

    def made(alter: str) -> Board:
        altering_board(alter, tmp_path, monkeypatch)
        return Board("local", model_bytes(), graph(), 20)

    return made


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("NaN", "not JSON: the number NaN"),
        ("-Infinity", "not JSON: the number -Infinity"),
        ("1e999", "not JSON: the number 1e999"),
        ("9" * 400, "not JSON: the number 9999"),
        ("[" * 3000, "a text of 30.. bytes; wanted at most 1023"),
        ("[" * 300 + "]" * 300, "lists or objects nested more than 8 deep"),
        ('"' + "x" * 1000 + '"', "a text of 10.. bytes; wanted at most 1023"),
        ('"\0"', "none of them NUL"),
    ],
)
def test_a_hello_that_no_report_could_hold(relayed: Relay, value: str, said: str) -> None:
    text = b'{"protocol": 1, "temperature_c": ' + value.encode() + b"}"
    with pytest.raises(ProtocolError, match=said) as caught:
        relayed(f"if f.type == frames.HELLO: payload = {len(text).to_bytes(2, 'little') + text!r}").close()
    assert caught.value.exit_status == 3


def test_a_tensor_that_does_not_hold_its_digest_is_not_said_to_hold_it(relayed: Relay) -> None:
    board = relayed(UNSTABLE)
    try:
        recording = board.run(prepared())
    finally:
        board.close()
    assert recording.state == "partial" and "do not match the digest that the board reported" in recording.why
    assert not [note for note in recording.notes if note.startswith("spot check")]


def test_one_tensor_that_breaks_its_digest_keeps_no_other_back(relayed: Relay) -> None:
    board, expected = relayed(ONE.format(name="t")), Simulator(graph()).run(prepared())
    try:
        recording = board.run(prepared())
        with pytest.raises(DigestMismatch, match="t: the pulled bytes do not match the digest") as caught:
            board.pull(["q", "t", "u"])
    finally:
        board.close()
    assert set(caught.value.matching) == {"q", "u"} and set(caught.value.broken) == {"t"}
    assert all(np.array_equal(v, expected.tensors[n]) for n, v in caught.value.matching.items())
    assert np.array_equal(recording.tensors["y"], expected.tensors["y"])


def test_a_final_output_that_breaks_its_digest_is_missing_alone(relayed: Relay) -> None:
    board = relayed(ONE.format(name="y"))
    try:
        recording = board.run(prepared())
    finally:
        board.close()
    assert recording.state == "partial" and set(recording.missing) == {"y"}
    assert "do not match the digest" in recording.missing["y"] and "do not match the digest" in recording.why
    assert set(recording.digests) == {"q", "t", "u", "y"} and recording.tensors


@pytest.mark.parametrize("broken", ["relu2_QuantizeLinear_Output", "prob"])
def test_a_fault_is_blamed_though_another_tensor_breaks_its_digest(
    broken: str, digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The fault is in the first node; of what it spoils behind, one tensor does not come whole."""
    folder = tmp_path / "bin"
    folder.mkdir()
    altering_board(ONE.format(name=broken), folder, monkeypatch, faulty=True)
    words = ["-m", str(digits / "digits_quant.onnx"), "-b", f"faulty:local?fault=plus_one@{FIRST}", "-r", "True"]
    assert main([*words, "--json", str(tmp_path / "r.json")]) == 1
    report = json.loads((tmp_path / "r.json").read_text())
    assert (report["blame"]["side"], report["blame"]["node"]) == ("board", FIRST)
    pair = next(p for p in report["pairs"] if (p["a"], p["b"]) == ("simulator", "board"))
    assert [m["tensor"] for m in pair["coverage"]["missing"]] == [broken]
    assert "do not match the digest" in pair["coverage"]["missing"][0]["why"]


def test_a_board_with_every_tensor_and_no_digests_gives_their_values(relayed: Relay) -> None:
    board, expected = relayed(NO_DIGESTS), Simulator(graph()).run(prepared())
    try:
        recording = board.run(prepared())
    finally:
        board.close()
    assert recording.capabilities == {"finals", "per_node", "inject"}
    assert (recording.state, recording.missing, recording.digests, recording.notes) == ("complete", {}, {}, [])
    assert set(recording.tensors) == {"q", "t", "u", "y"}
    assert all(np.array_equal(recording.tensors[n], expected.tensors[n]) for n in recording.tensors)

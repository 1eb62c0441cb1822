"""A capture whose fields have other kinds than a run writes, or whose report is not its own, is refused in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from qverify.capture.reader import open_capture
from qverify.cli.main import main
from qverify.errors import BadFileError

from tests.plain.captured_run import NODE

Held = dict[str, Any]


def frame(held: Held) -> Held:
    first: Held = held["frames"][0]
    return first


def board(held: Held) -> Held:
    side: Held = frame(held)["sides"][2]
    return side


ALTERED: dict[str, tuple[Callable[[Held], object], str]] = {
    "a label of another side": (lambda h: board(h).update(label="simulator"), "sides labelled"),
    "a tensor of True": (lambda h: board(h)["tensors"].update({NODE: [True, None]}), "tensor [True, None]"),
    "a tensor without a digest": (lambda h: board(h)["tensors"].update({NODE: [0]}), "not a manifest of qverify.capture/1"),
    "a digest of a number": (lambda h: board(h)["tensors"].update({NODE: [0, 7]}), "tensor [0, 7]"),
    "a list of missing": (lambda h: board(h).update(missing=[NODE]), "missing of a side"),
    "a text of settings": (lambda h: board(h).update(settings="fast"), "settings of a side"),
    "a text of finals": (lambda h: board(h).update(finals="prob"), "finals of a side"),
    "a text of notes": (lambda h: board(h).update(notes="x"), "notes of a side"),
    "a list of repeat": (lambda h: frame(h).update(repeat=[1]), "repeat or other_inputs of a frame"),
    "a text of other inputs": (lambda h: frame(h).update(other_inputs="PASSED"), "repeat or other_inputs of a frame"),
    "one experiment": (lambda h: frame(h).update(experiments={}), "experiments of a frame"),
    "an input without a seed": (lambda h: frame(h)["inputs"][0].pop("seed"), "an input"),
    "a number of why": (lambda h: frame(h).update(why=3), "source or why of a frame"),
    "scales of no axis": (
        lambda h: h["specs"][NODE].update(scale=[1.0, 2.0], zero_point=[0, 0], channel_axis=9), "the scales of"
    ),
    "an input without bytes": (
        lambda h: frame(h)["inputs"][0].update(part=None), "frame 0 has no bytes of input 'image'"
    ),
    "other bytes of an input": (
        lambda h: frame(h)["inputs"][0].update(sha256="0" * 64), "input 'image' of frame 0 is not what was captured"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ALTERED)
def test_it_is_refused(
    name: str, captured: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert captured() == 0
    change, said = ALTERED[name]
    manifest = tmp_path / "cap" / "capture.json"
    held = json.loads(manifest.read_text())
    change(held)
    manifest.write_text(json.dumps(held))
    capsys.readouterr()
    assert main(["replay", str(tmp_path / "cap")]) == 2
    printed = capsys.readouterr()
    assert said in printed.err and printed.err.count("\n") == 1 and "PASSED" not in printed.out


@pytest.mark.parametrize("digest", [None, "abc"])
@pytest.mark.parametrize("part", [-1, 10_000])
def test_a_tensor_of_no_part_is_not_known(
    part: int, digest: str | None, captured: Callable[..., int], tmp_path: Path
) -> None:
    assert captured() == 0
    manifest = tmp_path / "cap" / "capture.json"
    held = json.loads(manifest.read_text())
    for side in frame(held)["sides"]:
        side["tensors"][NODE] = [part, digest]
    manifest.write_text(json.dumps(held))
    report = tmp_path / "r2.json"
    assert main(["replay", str(tmp_path / "cap"), "-r", "--json", str(report)]) == 3
    said = json.loads(report.read_text())
    assert said["verdict"] == "INCONCLUSIVE"
    assert all(pair["verdict"] != "PASSED" for pair in said["pairs"] if pair["b"] == "board")


@pytest.mark.parametrize(
    ("data", "own", "said"),
    [
        (b"{}", True, "is not what was captured (its SHA-256 differs)"),
        (b"{", False, "not JSON"),
        (b"[" * 100_000, False, "not JSON"),
        (b"[]", False, "not a JSON object"),
    ],
    ids=["another", "cut", "deep", "list"],
)
def test_a_report_that_is_not_its_own(
    data: bytes, own: bool, said: str, captured: Callable[..., int], tmp_path: Path
) -> None:
    assert captured() == 0
    manifest = tmp_path / "cap" / "capture.json"
    held = json.loads(manifest.read_text())
    assert open_capture(str(tmp_path / "cap")).report()["verdict"] == "PASSED" and held["report_sha256"]
    if not own:
        held["report_sha256"] = ""
        manifest.write_text(json.dumps(held))
    (tmp_path / "cap" / "report.json").write_bytes(data)
    with pytest.raises(BadFileError) as refusal:
        open_capture(str(tmp_path / "cap")).report()
    assert said in str(refusal.value)

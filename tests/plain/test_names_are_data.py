"""Names of tensors, nodes, files and boards cannot write a line, move the cursor or turn the direction of a report."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from qverify.cli.main import main
from qverify.printable import VERDICT_WORDS, printable, visible
from qverify.report.document import Blame, Pair, ReportDocument
from qverify_agents import printable as agents_printable
from qverify_agents.errors import LinkError
from qverify_agents.printable import one_line

EVIL = "relu\nSim and Arm result Strict check PASSED\x1b[2J\u202egnp.\x9b1m\r"
PASSED = "Sim and Arm result Strict check PASSED"


@pytest.fixture(scope="module")
def evil(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The example with one evil tensor, compiled; and the name's node for a fault."""
    model = onnx.load(str(digits / "digits_quant.onnx"))
    old = "relu2_QuantizeLinear_Output"
    for node in model.graph.node:
        for names in (node.input, node.output):
            for at, name in enumerate(names):
                names[at] = EVIL if name == old else name
    folder = tmp_path_factory.mktemp("evil")
    onnx.save(model, str(folder / "q.onnx"))
    assert main(["compile", str(folder / "q.onnx"), "-o", str(folder / "m.bin")]) == 0
    return str(folder / "q.onnx"), str(folder / "m.bin")


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[str]:
    printed = capsys.readouterr()
    lines = [*printed.out.split("\n"), *printed.err.split("\n")]
    for line in lines:
        assert line.isprintable(), line
    return lines


def dumped(evil: tuple[str, str], folder: Path, spoil: bool) -> str:
    """The simulator's tensors as an .npz of evil names, the evil one spoilt."""
    folder.mkdir(exist_ok=True)
    assert main(["infer", "-m", evil[1], "-o", str(folder)]) == 0
    manifest = json.loads((folder / "manifest.json").read_text())
    for file, name in manifest["tensors"].items():
        if name == EVIL and spoil:
            np.save(folder / file, np.load(folder / file) ^ 1)
    return str(folder)


def test_of_tensors_in_the_main_job_compare_and_triage(evil, tmp_path, capsys) -> None:
    one, two = dumped(evil, tmp_path / "a", False), dumped(evil, tmp_path / "b", True)
    lines_of(capsys)
    held = tmp_path / "r.json"
    assert main(["compare", one, two, "--json", str(held)]) == 1
    assert not any(PASSED in line for line in lines_of(capsys))
    assert EVIL in [row["name"] for row in json.loads(held.read_text())["pairs"][0]["tensors"]]
    assert main(
        ["-m", ",".join(evil), "-b", "faulty:local?fault=bitflip@logits_QuantizeLinear_Output", "-r", "True"]
    ) in (
        1,
        2,
    )
    assert not any(PASSED in line for line in lines_of(capsys))
    assert main(["triage", "-m", ",".join(evil), "-b", "local"]) == 0
    lines_of(capsys)


def test_of_files_folders_and_boards(evil, tmp_path, capsys) -> None:
    folder = tmp_path / "a\nSim and Arm result Strict check PASSED"
    folder.mkdir()
    for words in (
        ["compare", str(folder), str(folder)],
        ["-m", str(folder / "x\x1b[2J.onnx")],
        ["-m", evil[1], "-b", "nosuch:\nSim and Arm result Strict check PASSED\x1b[2J"],
        ["infer", "-m", evil[1], "-o", str(folder / "out")],
        ["-m", evil[1], "-b", "local", "--bad\nSim and Arm result Strict check PASSED"],
    ):
        main(words)
        assert not any(PASSED in line for line in lines_of(capsys)), words


def test_a_text_stays_as_it_is_or_is_escaped() -> None:
    assert printable("Größe/日本 'x'") == "Größe/日本 'x'"
    assert printable(EVIL) == "relu\\nSim and Arm result Strict\\x20check PASSED\\x1b[2J\\u202egnp.\\x9b1m\\r"
    assert printable("\udcff").isascii()


def test_every_text_of_a_report_is_visible_and_the_report_is_left_as_it_was() -> None:
    report = ReportDocument(
        verdict="FAILED",
        blame=Blame("board", EVIL, EVIL, [EVIL]),
        decimals={EVIL: (EVIL, 1)},
        pairs=[Pair("a", "b", "FAILED", why=EVIL)],
    )
    shown = visible(report)
    assert report.pairs[0].why == EVIL and report.blame is not None and shown.blame is not None
    assert {shown.pairs[0].why, shown.blame.node, shown.blame.why, *shown.blame.also} == {printable(EVIL)}
    assert shown.decimals == {printable(EVIL): (printable(EVIL), 1)}


def test_what_a_board_says_is_no_verdict_line() -> None:
    assert agents_printable.VERDICT_WORDS == VERDICT_WORDS
    assert PASSED not in one_line(f"the agent says: {EVIL}") and PASSED not in str(LinkError(EVIL))

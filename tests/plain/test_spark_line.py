"""The line of matching decimals along the network: what each character says, its width, its ASCII form."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest
from qverify.renderers import spark_line, terminal
from qverify.renderers.text_view import TextView, cells

from tests.plain.three_sides import record, side, three, two, wrong_at

SCREEN = TextView(80, True, blocks=True)


def test_the_line_falls_where_the_board_begins_to_differ():
    line = spark_line.draw(three(board=wrong_at("n2")), SCREEN)
    assert line == "matching digits, sim ~ board: █▁▁  █ equal ▇ 5+ ▁ 0"
    assert spark_line.draw(three(board=wrong_at("n2")), TextView(80, True)).endswith(": #__  # equal * 5+ _ 0")


def test_levels_follow_the_decimals():
    values = {f"t{at}": [10.0] for at in range(7)}
    other = {f"t{at}": [10.0 + (0 if at == 6 else 0.4 * 10**-at)] for at in range(7)}
    line = spark_line.draw(two(side("reference", **values), side("board", **other)), SCREEN)
    assert line.split(": ")[1].split()[0] == "▁▂▃▅▆▇█"


def test_many_tensors_fit_and_the_worst_of_several_is_shown():
    values = {f"t{at}": [1.0] for at in range(500)}
    report = two(side("reference", **values), side("board", **{**values, "t250": [2.0]}))
    for columns in (40, 80, 120):
        line = spark_line.draw(report, TextView(columns, True, blocks=True))
        assert cells(line) <= columns and line.count("▁") == (1 if columns == 40 else 2)  # one of the legend


def test_nothing_is_drawn_where_nothing_differs_or_in_a_pipe():
    assert spark_line.draw(three(), SCREEN) == ""
    bad = three(board=wrong_at("n2"))
    assert "matching digits, sim" in terminal.render(bad, [], SCREEN)
    assert "matching digits, sim" not in terminal.render(bad, [], TextView())
    assert "matching digits, sim" not in terminal.render(bad, [], TextView(80, True, detail="quiet"))


def test_what_is_not_known_is_a_question_mark():
    report = two(record("reference"), record("board", wrong_at("n2")))
    report.pairs[0].tensors[1].metrics.clear()
    assert "█?▁" in spark_line.draw(report, SCREEN)


@pytest.mark.parametrize(("encoding", "mark"), [("utf-8", "▁"), ("ascii", "_")])
def test_a_terminal_shows_it_in_its_encoding(encoding, mark, digits):
    ours, theirs = pty.openpty()
    words = ["-m", "digits_quant.onnx", "-b", "faulty:local?fault=plus_one@relu2_QuantizeLinear_Output", "-r", "True"]
    done = subprocess.Popen(
        [sys.executable, "-m", "qverify", *words],
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        cwd=digits,
        env={**os.environ, "PYTHONIOENCODING": encoding, "COLUMNS": "80"},
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert done.wait() == 1
    lines = [line for line in shown.decode().splitlines() if line.startswith("matching digits")]
    assert len(lines) == 1 and mark in lines[0] and cells(lines[0]) <= 80

"""What a person at a terminal wants to see of a report:

 1. At 80 columns, a pass of 200 nodes: which model and board, the outputs, what was compared, the verdicts; on one screen.
 2. A failure of 200 nodes: the rows around the first culprit, how many others there are and what they are, the outputs.
 3. At 120 columns: more columns, longer names; no line is wider than the terminal.
 4. Every row, where I ask for it; or the few that differ most.
 5. Only the verdict lines, for a script; or also engines, times and the link's traffic.
 6. Which marks mean what, where marks are used; a cell never says PASSED where elements differ.
 7. Names that I can tell apart, although they are shortened.
 8. What is true of 48 outputs in one line, not in 48.
 9. A folder of pictures: every result stays on the screen, how far it is stands below, and is gone at the end.
10. Two boards: which part of the output is about which board.
11. In a pipe: a fact is one line that grep finds, no colours, no bar; tables as wide as COLUMNS, otherwise 80.
12. Five runs that were the same are said to be the same.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace

import pytest
from qverify.cli.main import main
from qverify.renderers import frame_lines, pair_facts, several_boards, terminal, verdict_lines
from qverify.renderers.columns import Column, draw
from qverify.renderers.shortened_names import shorten_all
from qverify.renderers.text_view import TextView, cells
from qverify.report.document import Agreement, Blame, FirstDivergence, MissingTensor, Pair, ReportDocument, TensorRow

NODES = 200
SIDES = [("reference", "simulator"), ("reference", "board"), ("simulator", "board")]
STRICT = "Strict check"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def name(at: int) -> str:
    return f"/backbone/stage{at // 40}/block.{at}/expanded_conv/depthwise/BatchNorm_QuantizeLinear_Output_0"


def row(at: int, verdict: str = "PASSED", differing: int = 0, final: bool = False) -> TensorRow:
    metrics = {"max_lsb": 3 * bool(differing), "mismatched": differing, "max_abs": 0.1 * bool(differing), "cosine": 1.0}
    kinds = (("conv", "add", "max_pool")[at % 3], [f"onnx_{at}"], ("uint8", "int8")[at % 2], [1, 8 + at, 4])
    same = differing == 0
    return TensorRow(name(at), name(at), *kinds, verdict, same, same, 1000, final, True, metrics)


def report(bad: dict[int, int] | None = None, mild: dict[int, int] | None = None, outputs: int = 1) -> ReportDocument:
    """bad, mild: how many of its 1000 elements differ, by the node that fails or passes with them, between host and board."""
    bad, mild, pairs = bad or {}, mild or {}, []
    for a, b in SIDES:
        apart = bad | mild if b == "board" else {}
        failing = set(bad) & set(apart)
        rows = [
            row(at, "FAILED" if at in failing else "PASSED", apart.get(at, 0), at >= NODES - outputs)
            for at in range(NODES)
        ]
        pair = Pair(a, b, "FAILED" if failing else "PASSED", bit_equal=not apart, gate="5 decimals", tensors=rows)
        pair.coverage.expected = pair.coverage.compared = NODES
        pair.agreement = [Agreement(name(at), 1.0, 1.0) for at in range(NODES - outputs, NODES)]
        if failing:
            pair.first_divergence = FirstDivergence(name(min(failing)), name(min(failing)), "conv")
        pairs.append(pair)
    verdict = "FAILED" if bad else "PASSED"
    whole = ReportDocument(verdict=verdict, blame=None, decimals={"digits": 5, "rule": "half"}, pairs=pairs)
    whole.models, whole.boards = [{"path": "/a/quant.onnx", "sha256": "0" * 64, "kind": "quant.onnx"}], ["local"]
    if bad:
        whole.blame = Blame("board", name(min(bad)), "conv: its bytes differ " * 8)
    whole.link = {"bytes_sent": 5}
    return whole


def screen(of: ReportDocument, columns: int = 80, **more) -> list[str]:
    lines = terminal.render(of, [], TextView(columns, wrapped=True, **more)).split("\n")
    plain = [COLOUR.sub("", line) for line in lines]
    assert [line for line in plain if cells(line) > columns and STRICT not in line] == []
    return plain


def table(lines: list[str]) -> list[str]:
    return lines[lines.index("") + 1 : lines.index("", lines.index("") + 1)]


@pytest.mark.parametrize("columns", [40, 80, 120, 200])
def test_a_pass_is_one_screen_with_the_outputs(columns):
    lines = screen(report(), columns)
    shown = table(lines)
    assert len(lines) <= (24 if columns >= 80 else 40)
    assert lines[0].startswith("qverify ") and "quant.onnx" in " ".join(lines[:3]) and "local" in " ".join(lines[:3])
    assert "... 199 tensors, all equal" in shown
    assert len([line for line in shown if line.startswith("/")]) == 1
    assert lines[-3:] == [verdict_lines.verdict_line(p) for p in report().pairs]


@pytest.mark.parametrize("columns", [40, 80, 120, 200])
def test_a_failure_is_the_rows_around_the_first_culprit(columns):
    of = report(bad={90: 12, 150: 1}, mild={100: 5})
    lines = screen(of, columns)
    shown = table(lines)
    rows = [line for line in shown if line.startswith("/")]
    assert len(rows) == 8 and len([line for line in rows if "FAILED" in line]) == 1
    assert "... 87 tensors, all equal" in shown
    assert "... 105 tensors: 1 FAILED, 103 equal, 1 within the gate" in " ".join(line.strip() for line in shown)
    assert lines[-3:] == [verdict_lines.verdict_line(p) for p in of.pairs]
    assert "".join("".join(lines).split()).count("firstdivergence") == 1  # of two pairs, one line
    assert f"blame: board at {name(90)}".replace(" ", "") in "".join(lines).replace(" ", "")


def test_more_columns_where_there_is_room():
    heads = [table(screen(report(bad={90: 12}), columns))[0].split("  ") for columns in (40, 80, 120, 200)]
    counts = [len([h for h in head if h]) for head in heads]
    assert counts == sorted(counts) and counts[0] < counts[-1]
    assert {"op", "dtype", "shape", "cosine", "forced"} - set(heads[-1]) <= {"forced"}


def test_every_row_or_the_few_that_differ_most():
    of = report(bad={90: 12, 150: 1}, mild={100: 700})
    assert len([line for line in table(screen(of, every=True)) if line.startswith("/")]) == NODES
    shown = table(screen(of, top=3))
    rows = [line for line in shown if line.startswith("/")]
    assert ["FAILED 12/1000" in rows[0], "FAILED 1/1000" in rows[1], "~ 700/1000" in rows[2]] == [True] * 3
    assert len(rows) == 3 and "... 197 more tensors differ less or not at all" in shown


def test_only_the_verdict_lines_or_more_facts():
    of = report(bad={90: 12})
    assert screen(of, detail="quiet") == [verdict_lines.verdict_line(p) for p in of.pairs]
    assert not [line for line in screen(of) if line.startswith("link:")]
    assert "link: bytes sent 5" in screen(of, detail="verbose")


def test_a_cell_says_what_differs_and_the_legend_what_it_means():
    of = report(mild={199: 1000})
    of.pairs[0].tensors = of.pairs[0].tensors[:-1]
    text = " ".join(screen(of, 120))
    assert "PASSED 1000/1000" not in text and "~ 1000/1000" in text
    assert (
        "~ other bytes, which the gate allows" in text and "- not compared" in text and "= the same bytes" not in text
    )
    assert "= the same bytes" in " ".join(screen(report(), 120))


def test_shortened_names_stay_apart():
    names = [name(at) for at in range(NODES)]
    for room in (20, 28, 40, 60, 91):
        short = shorten_all(names, room)
        assert len(set(short)) == NODES and max(map(cells, short)) <= room
    alike = [f"{'a' * 40}{at}{'b' * 40}" for at in range(30)]  # no beginning and no end tells them apart
    assert len(set(shorten_all(alike, 12))) == 30
    assert shorten_all(["short", "網" * 30], 20)[0] == "short"
    assert cells(shorten_all(["網" * 30], 20)[0]) <= 20


def test_names_of_wide_characters_keep_the_columns():
    lines, _ = draw([Column("n", ["網路", "ab", "e\u0301"], name=True), Column("x", ["1", "2", "3"])], TextView(40))
    assert [cells(line) for line in lines[2:]] == [7, 7, 7]
    assert unicodedata.east_asian_width("網") == "W"


def test_columns_that_are_empty_or_all_the_same_go():
    columns = [
        Column("n", ["a", "b"], name=True),
        Column("e", ["", ""]),
        Column("s", ["k", "k"]),
        Column("x", ["1", "2"]),
    ]
    lines, same = draw(columns, TextView(40))
    assert (lines[0].split(), same) == (["n", "x"], "s k")
    one, same = draw([replace(c, texts=c.texts[:1]) for c in columns], TextView(40))
    assert (one[0].split(), same) == (["n", "s", "x"], "")  # of one row nothing can be the same


def test_equal_facts_are_one_line():
    of = report(outputs=48)
    of.plain_onnxruntime = {
        "outputs": [{"name": name(at), "equal": True, "max_abs": 0.0, "why": ""} for at in range(48)]
    }
    for pair in of.pairs:
        pair.coverage.missing = [MissingTensor(name(at), "board", "the link broke") for at in range(48)]
    lines = terminal.render(of, []).split("\n")
    for words in ("arg-max agrees", "default onnxruntime", "the link broke", "48 missing"):
        assert len([line for line in lines if words in line and STRICT not in line]) == 1, words
    assert "all 48 outputs: arg-max agrees in 100% of the items, top-5 in 100%" in lines
    assert len([line for line in table(lines) if line.startswith("/")]) == 10
    of.pairs[1].agreement[3] = Agreement(name(155), 0.5, 1.0)
    facts = pair_facts.describe(of.pairs, False)
    assert [f for f in facts if "50%" in f] == [
        f"{name(155)} (ref ~ board): arg-max agrees in 50% of the items, top-5 in 100%"
    ]


def test_in_a_pipe_a_fact_is_one_line_and_nothing_is_coloured():
    of = report(bad={90: 12})
    text = terminal.render(of, [], TextView(80))
    assert "\x1b" not in text and f"blame: board at {name(90)}\n" in text
    assert max(map(cells, table(text.split("\n")))) <= 80
    coloured = terminal.render(of, [], TextView(80, coloured=True))
    assert COLOUR.sub("", coloured) == text
    last = coloured.split("\n")[-3:]
    assert last[0].startswith("\x1b[32mQuanti.onnx and Sim") and last[2].startswith("\x1b[31mSim and Arm")


def test_runs_that_were_the_same_are_said_to_be():
    of = report()
    of.repeat = {"runs": 5, "wanted": 5, "why": "", "unstable": []}
    assert "5 runs of the board, the same bytes" in screen(of)
    of.repeat["why"] = "the board failed in run 6 of 9"
    assert not [line for line in screen(of) if "the same bytes" in line and "runs" in line]


def test_how_far_a_folder_is():
    assert frame_lines.progress(["PASSED"] * 4 + ["NOT RUN"] * 3, 21) == "7 of 21, 3 left out"
    assert frame_lines.progress(["FAILED"], 0) == "1 frame, 1 FAILED"


def test_what_was_not_compared_with_a_board_is_not_called_equal():
    of = report()
    for pair in of.pairs[1:]:
        pair.verdict, pair.tensors, pair.cause, pair.why = "INCONCLUSIVE", [], "does_not_run", "the board did not run"
        pair.coverage.compared = 0
    lines = screen(of)
    assert "... 199 tensors, all equal where compared" in table(lines)
    assert "ref ~ board, sim ~ board: nothing compared: the board did not run" in lines


def test_the_last_lines_of_several_boards_say_what_no_board_was_given():
    of = report()
    of.frames = [
        {"frame": at, "verdict": verdict, "board": "local", "board_lost": False}
        for at, verdict in enumerate(["PASSED", "NOT RUN"])
    ]
    text = several_boards.render(of, 2)
    assert text.count("INCONCLUSIVE (2 boards; 1 frame could not be prepared") == 3 and "PASSED" not in text


def test_each_board_has_a_heading(digits, capsys, monkeypatch):
    monkeypatch.setenv("QVERIFY_CLOCK", "2026-01-31T12:00:00Z")
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["-m", f"{digits}/digits_quant.onnx", "-b", "local", "-b", "finals:local", "--repeat", "5"]) == 0
    lines = capsys.readouterr().out.split("\n")
    heads = [line for line in lines if line.startswith("==")]
    assert heads == ["== board 1 of 2: local ==", "== board 2 of 2: finals:local ==", "== all boards =="]
    assert "; 2026-01-31 12:00:00 UTC; model digits_quant.onnx; board finals:local" in "\n".join(lines)
    assert lines.count("5 runs of the board, the same bytes") == 2
    assert [STRICT in line for line in lines[-4:]] == [True, True, True, False] and lines[-1] == ""


@pytest.mark.parametrize("variables", [{"FORCE_COLOR": "1"}, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, {}])
def test_colours_follow_the_environment(variables, digits, capsys, monkeypatch):
    for variable in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    assert main(["-m", f"{digits}/digits_quant.onnx", "-q"]) == 0
    out = capsys.readouterr().out
    assert ("\x1b[32m" in out) == (list(variables) == ["FORCE_COLOR"]) and len(out.splitlines()) == 1


@pytest.mark.parametrize("words", [["-q", "-v"], ["-q", "--all"], ["--all", "--top", "3"], ["--top", "0"]])
def test_options_that_contradict_each_other(words, digits, capsys):
    assert main(["-m", f"{digits}/digits_quant.onnx", *words]) == 2
    assert capsys.readouterr().err.count("\n") == 1

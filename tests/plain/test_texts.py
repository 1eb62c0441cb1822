"""Sentences of the report: sides with their article, causes in words, numbers with their nouns."""

from __future__ import annotations

import pytest
from qverify.compare import decimals
from qverify.renderers import triage_text, verdict_lines
from qverify.renderers.text_view import TextView
from qverify.renderers.triage_text import conclusion
from qverify.report.document import Pair
from qverify.report.side_names import named, within
from qverify.report.triage_document import Rung, TriageDocument


@pytest.mark.parametrize(
    ("side", "sentence"),
    [
        ("board", "the board: missing on the board"),
        ("reference", "the reference: missing in the reference"),
        ("simulator", "the simulator: missing in the simulator"),
        ("A", "A: missing in A"),
    ],
)
def test_a_role_has_an_article_and_a_dump_its_own_name(side: str, sentence: str) -> None:
    assert f"{named(side)}: missing {within(side)}" == sentence


@pytest.mark.parametrize(
    ("cause", "why", "text"),
    [
        ("does_not_run", "the board did not run: no route", "cause: board not run)"),
        ("does_not_run", "the board ran only partly: reset", "cause: board not run to its end)"),
        ("does_not_run", "the reference did not run: memory", "cause: reference not run)"),
        ("does_not_run", "simulator and board ran different models", "cause: different models)"),
        ("unlocated", "y: the bytes differ", "cause: location unknown)"),
        ("coverage", "nothing was compared", "cause: coverage)"),
    ],
)
def test_a_cause_in_words(cause: str, why: str, text: str) -> None:
    line = verdict_lines.verdict_line(Pair("reference", "board", "INCONCLUSIVE", cause, why))
    assert line == f"Quanti.onnx and Arm result Strict check INCONCLUSIVE ({why}; {text}"


@pytest.mark.parametrize(
    ("rule", "digits", "text"),
    [
        ("half", 0, "0 decimals, rule half: |a-b| <= 0.5"),
        ("half", 1, "1 decimal, rule half: |a-b| <= 0.5e-1"),
        ("numpy", 0, "0 decimals, rule numpy: |a-b| < 1.5"),
        ("round", 1, "1 decimal, rule round: equal after rounding to 1 place"),
        ("truncate", 2, "2 decimals, rule truncate: equal after cutting at 2 places"),
    ],
)
def test_a_rule_in_words(rule: str, digits: int, text: str) -> None:
    assert decimals.describe(rule, digits) == text


@pytest.mark.parametrize(("rungs", "text"), [(1, "TRIAGE: the gate passes"), (3, "TRIAGE: all 3 gates pass")])
def test_how_many_gates_pass(rungs: int, text: str) -> None:
    triage = TriageDocument("PASSED", None, "", rungs=[Rung("reference", "board", "bit equality", "PASSED")] * rungs)
    assert triage_text.render(triage).splitlines()[-1] == text


def test_the_command_that_triage_recommends_is_a_line_to_copy():
    command = (
        f"qverify quantize float.onnx -i photos -o quant16.onnx --int16 {','.join(f'layer{n}' for n in range(20))}"
    )
    found = TriageDocument("FAILED", "float ~ reference", f"raise these layers to 16 bit: {command}")
    assert conclusion(found, TextView(60, wrapped=True)).splitlines()[1:] == [
        "next step: raise these layers to 16 bit:",
        command,
    ]
    assert conclusion(found, TextView(60)).splitlines()[1:] == [f"next step: {found.next_step}"]

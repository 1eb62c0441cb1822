"""Where nodes ran: nodes that fell back are said, and fail a pair by the gate no-fallback; what a driver states is bounded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from qverify.compare.gate_text import parse_gates
from qverify.compare.options import Options
from qverify.engines import split_engine
from qverify.errors import QVerifyError, UsageError
from qverify.sides.engine_answer import take_answer
from qverify.tensors.placement import Placement

from tests.plain.three_sides import record, report_of

ON_NPU, ON_CPU = Placement("n1", "Add", "NPU"), Placement("n2", "Add", "CPU", fallback=True)
GATE = Options(no_fallback=True, dump_all=True)


def board(*placement: Placement):
    return record("board", runtime="npu", placement=placement)


def pair_of(report):
    return next(p for p in report.pairs if (p.a, p.b) == ("reference", "board"))


def test_nodes_that_fell_back_are_named_in_the_line():
    pair = pair_of(report_of(record("reference"), board(ON_NPU, ON_CPU)))
    assert pair.verdict == "PASSED"
    assert pair.relaxed == ["the board: 1 of 2 nodes fell back to CPU, n2 (Add)"]


def test_the_gate_fails_a_pair_with_such_a_node():
    pair = pair_of(report_of(record("reference"), board(ON_NPU, ON_CPU), options=GATE))
    assert (pair.verdict, pair.cause) == ("FAILED", "fallback")
    assert pair.why == "the board: 1 of 2 nodes fell back to CPU, n2 (Add)"


def test_the_gate_passes_where_all_nodes_ran_as_asked():
    assert pair_of(report_of(record("reference"), board(ON_NPU), options=GATE)).verdict == "PASSED"


def test_the_gate_is_not_applied_where_nothing_is_stated():
    pair = pair_of(report_of(record("reference"), board(), options=GATE))
    assert (pair.verdict, pair.cause) == ("INCONCLUSIVE", "fallback")


def test_the_gate_leaves_qvrt_alone():
    assert pair_of(report_of(record("reference"), record("board"), options=GATE)).verdict == "PASSED"


def test_counted_nodes_are_added_up():
    counted = (Placement("", "", "NPU", nodes=9), Placement("", "", "CPU", fallback=True, nodes=3))
    pair = pair_of(report_of(record("reference"), board(*counted), options=GATE))
    assert pair.why == "the board: 3 of 12 nodes fell back to CPU"


def test_the_gate_is_an_option():
    assert parse_gates(["no-fallback", "lsb:1", "no-fallback"]) == {"no_fallback": True, "max_lsb": 1.0}


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("openvino", (("runtime", "openvino"),)),
        (
            "openvino,python=/a b/python -s,device=CPU",
            (("runtime", "openvino"), ("python", "/a b/python -s"), ("device", "CPU")),
        ),
        ("openvino,config=A=1,2,config=B=3", (("runtime", "openvino"), ("config", "A=1,2"), ("config", "B=3"))),
        ("onnxruntime,level=basic", (("runtime", "onnxruntime"), ("level", "basic"))),
        (
            "onnxruntime,ep=qnn,backend_type=htp",
            (("runtime", "onnxruntime_ep"), ("ep", "qnn"), ("backend_type", "htp")),
        ),
    ],
)
def test_an_engine_is_a_name_with_options(text: str, pairs: tuple[tuple[str, str], ...]):
    assert split_engine(text) == pairs


@pytest.mark.parametrize("text", ["", ",device=CPU", "device=CPU", "openvino,GPU"])
def test_another_form_is_refused_in_one_line(text: str):
    with pytest.raises(UsageError, match=r"wanted NAME or NAME,KEY=VALUE"):
        split_engine(text)


ANSWER = {"engine": "e", "version": "1", "ledger": {"driver": "2"}, "placement": [], "notes": []}


def taken(folder: Path, content: object):
    (folder / "answer.json").write_text(json.dumps(content))
    return take_answer("answer.json", str(folder))


def test_an_answer_is_read_and_removed(tmp_path: Path):
    placed = [{"node": "n\x1b[31m", "op": "Add", "on": "CPU", "kernel": "k", "fallback": True}]
    answer = taken(tmp_path, {**ANSWER, "placement": placed})
    assert answer is not None and answer.ledger == {"driver": "2"}
    assert "\x1b" not in answer.placement[0].node and answer.placement[0].fallback
    assert not (tmp_path / "answer.json").exists()


@pytest.mark.parametrize(
    "content",
    [
        [],
        {**ANSWER, "ledger": []},
        {**ANSWER, "placement": {}},
        {**ANSWER, "placement": ["n"]},
        {**ANSWER, "notes": "y"},
        {**ANSWER, "notes": [0] * 100_001},
    ],
)
def test_an_answer_of_another_form_is_refused(tmp_path: Path, content: object):
    with pytest.raises(QVerifyError, match=r"answer.json: "):
        taken(tmp_path, content)


def test_a_missing_answer_is_refused(tmp_path: Path):
    with pytest.raises(QVerifyError, match=r"answer.json"):
        take_answer("answer.json", str(tmp_path))

"""`qverify perf`: every node of the model with its times, over the runs that were asked for."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path

import jsonschema
import pytest
from qverify.cli.main import main
from qverify.inputs.sources import InputRequest
from qverify.report.schema import report_schema
from qverify.session.models import open_models
from qverify.session.other_jobs.perf import MAX_EVENTS_PER_REQUEST, PerfRequest, perf
from qverify_agents.errors import LinkError

from tests.ops.qdq import Qdq


def request(digits: Path, board: str = "local", **more: int) -> PerfRequest:
    return PerfRequest([str(digits / "digits_quant.onnx")], board, InputRequest(), **more)


def test_every_node_has_a_time_of_every_run(digits) -> None:
    seen: list[tuple[int, int]] = []
    found = perf(request(digits, runs=25, warm_up=3), lambda done, total: seen.append((done, total)))
    graph = open_models([str(digits / "digits_quant.onnx")]).graph
    assert [(n.name, n.op, n.covers) for n in found.nodes] == [(n.name, n.op, n.covers) for n in graph.nodes]
    assert {len(n.seconds) for n in found.nodes} == {len(found.totals)} == {25}
    assert all(t >= 0 for n in found.nodes for t in n.seconds) and min(found.totals) > 0
    assert found.totals[7] == pytest.approx(sum(n.seconds[7] for n in found.nodes))
    assert found.nodes[0].median_s == statistics.median(found.nodes[0].seconds)
    assert seen[-1] == (25, 25) and len(seen) > 5
    assert found.wall_s >= min(found.totals) and found.first_run_s > 0


def test_times_belong_to_their_nodes(tmp_path) -> None:
    """The first of two convolutions has 115,200 times the products of the other."""
    net = Qdq()
    x = net.input((1, 32, 40, 40))
    wide = net.quantize(net.op("Conv", [x, net.weight((64, 32, 3, 3))], pads=[1, 1, 1, 1]))
    small = net.quantize(net.op("GlobalAveragePool", [wide]))
    net.output(net.quantize(net.op("Conv", [small, net.weight((4, 64, 1, 1))])))
    path = tmp_path / "net.onnx"
    path.write_bytes(net.model().SerializeToString())
    found = perf(PerfRequest([str(path)], "local", runs=5))
    large, tiny = (n for n in found.nodes if n.op == "conv")
    assert large.median_s > tiny.median_s


def test_more_runs_than_one_answer_may_hold(digits, monkeypatch) -> None:
    monkeypatch.setattr("qverify.session.other_jobs.perf.MAX_EVENTS_PER_REQUEST", 16)  # two runs of eight nodes
    found = perf(request(digits, runs=31, warm_up=1))
    assert len(found.totals) == 31 < MAX_EVENTS_PER_REQUEST


def test_the_table_and_its_json(digits, tmp_path, capsys) -> None:
    path = tmp_path / "p.json"
    words = ["perf", "-m", str(digits / "digits_quant.onnx"), "-b", "local", "--runs", "3", "--json"]
    assert main([*words, str(path)]) == 0
    out = capsys.readouterr().out
    table = json.loads(path.read_text())
    assert [n["name"] for n in table["nodes"]] == [line.split()[0] for line in out.splitlines()[2:10]]
    assert all(n["lowest_s"] <= n["median_s"] <= n["highest_s"] for n in [*table["nodes"], table["total"]])
    assert (table["runs"], table["warm_up"]) == (3, 2) and table["facts"]["arch"]
    assert "over 3 runs after 2 to warm up" in out and "nothing was compared" in out
    assert main([*words, "-"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 3
    assert main([*words[:-1], "--top", "2"]) == 0
    assert "6 nodes not shown" in capsys.readouterr().out


def test_a_board_without_nodes_has_no_times(digits) -> None:
    with pytest.raises(LinkError, match="reports no times of nodes"):
        perf(request(digits, "finals:local"))


def test_more_nodes_than_a_board_takes_in_one_list_are_refused(digits, monkeypatch, capsys) -> None:
    monkeypatch.setattr("qverify.session.other_jobs.perf.MAX_NODES", 7)
    assert main(["perf", "-m", str(digits / "digits_quant.onnx"), "-b", "local"]) == 2
    assert "perf times 1 to 7 nodes; this model has 8" in capsys.readouterr().err


def test_the_main_job_shows_what_each_node_took(digits, tmp_path, capsys) -> None:
    path, words = tmp_path / "r.json", ["-m", str(digits / "digits_quant.onnx"), "-b", "local", "--all", "-r", "True"]
    assert main([*words, "-v", "--json", str(path)]) == 0
    printed, report = capsys.readouterr().out, json.loads(path.read_text())
    jsonschema.validate(report, report_schema())
    seconds = {s["name"]: s.get("node_seconds") for s in report["sides"]}
    nodes = [n.name for n in open_models([str(digits / "digits_quant.onnx")]).graph.nodes]
    assert [*seconds["board"]] == nodes and seconds["reference"] is seconds["simulator"] is None
    assert all(t > 0 for t in seconds["board"].values())
    head, _, *rows = printed.split("\n\n")[1].splitlines()
    assert head.endswith("  time") and len(rows) > len(nodes)
    assert all(re.search(r"[\d.]+ (us|ms|s)$", row) for row in rows if row.split()[0] in nodes)
    slowest = max(seconds["board"], key=seconds["board"].__getitem__)
    assert (
        f"this one run (qverify perf repeats it): {len(nodes)} nodes on the board" in printed
        and f"slowest {slowest}" in printed
    )
    assert main(words) == 0
    assert "  time" not in capsys.readouterr().out


def test_a_board_without_nodes_shows_no_times_of_them(digits, capsys) -> None:
    assert main(["-m", str(digits / "digits_quant.onnx"), "-b", "finals:local", "-v"]) == 0
    printed = capsys.readouterr().out
    assert "  time" not in printed and "this one run" not in printed

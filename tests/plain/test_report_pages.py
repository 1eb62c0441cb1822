"""The pages of a run and of triage: drawn from the report alone, closed in themselves, clicked in a browser."""

from __future__ import annotations

import csv
import io
import itertools
import json
import random
import re
import xml.etree.ElementTree as xml
from dataclasses import replace
from pathlib import Path

import pytest
from qverify import example
from qverify.cli.main import main
from qverify.options.parse import repeating_command
from qverify.printable import printable, visible
from qverify.renderers import formats
from qverify.renderers.html_page import around, layered
from qverify.renderers.html_page.page import render
from qverify.report.document import Blame, NetworkUnit, ReportDocument
from qverify.report.triage_document import Neighbour, Neighbourhood, OutputRow, Rung, Stage, TensorLoss, TriageDocument

from tests.plain.test_report_formats import NASTY, Page
from tests.plain.three_sides import three, wrong_at

SHAPES = {"polyline": "fill", "line": "stroke"}  # black, or nothing, where a viewer allows no styles
EXAMPLE = Path(example.__file__).parent
FAULTY = "relu2_QuantizeLinear_Output"


def failed() -> ReportDocument:
    return three(board=wrong_at("n2"))


def hostile() -> TriageDocument:
    """A triage whose every name would do something if it were not escaped."""
    rungs = [
        Rung(
            name,
            "board",
            name,
            "FAILED",
            why=name,
            outputs=[OutputRow(name, 4, False, 1.0, 0.5, 0.1, 3.0)],
            blame=Blame("board", name, name, [name]),
            neighbourhoods=[Neighbourhood(Neighbour(name, name, "differ"), [Neighbour(name, "", "given")], [])],
            evidence=[name],
            next_step=name,
        )
        for name in NASTY
    ]
    losses = [TensorLoss(n, n, n, n, "name", 9.0, 0.9, 0.1, 1.0, 0.0, 1.0, 0.0, 1.0, 0.1, 0.5, 0.1) for n in NASTY]
    found = TriageDocument(
        "FAILED", f"{NASTY[0]} ~ board", NASTY[0], [Stage(n, "float", n) for n in NASTY], rungs, losses
    )
    return replace(found, unknown=NASTY, notes=NASTY, unpaired={n: n for n in NASTY}, frames=NASTY, command=NASTY[0])


def written(found: ReportDocument | TriageDocument, name: str, folder: Path) -> str:
    page = formats.page(name)
    path = folder / f"r{page.SUFFIX}"
    getattr(page, "write_triage" if isinstance(found, TriageDocument) else "write")(found, str(path))
    return path.read_text(encoding="utf-8")


def check_links(page: Page) -> None:
    """Every link stays in the page and arrives; no id is there twice."""
    ids = [a["id"] for _, a in page.tags if "id" in a]
    links = [str(a["href"]) for tag, a in page.tags if tag == "a"]
    assert len(ids) == len(set(ids)) and links
    assert all(link.startswith("#") and link[1:] in ids for link in links)


def check_drawings(page: Page) -> None:
    """A drawing says itself how it is painted, for viewers that allow no styles."""
    shapes = [(tag, a) for tag, a in page.tags if tag in SHAPES]
    assert shapes and all(SHAPES[tag] in a for tag, a in shapes)


def test_the_page_of_a_run_is_closed_in_itself():
    page = Page(render(visible(failed())))
    check_links(page)
    check_drawings(page)
    shown = "".join(page.text)
    for heading in ("Around the blamed node", "The graph, node by node", "Coverage ledger", "How it was judged"):
        assert heading in shown
    assert "onnx_n2 of the original ONNX" in shown
    assert (
        sum(tag == "details" and "open" in a and a.get("class") == "curves" for tag, a in page.tags) == 2
    )  # one metric of each
    assert [a.get("class") for tag, a in page.tags if tag == "tr" and a.get("id") == "t0-0"] == ["passed"]


def test_a_cosine_near_1_is_not_shown_as_1():
    found = failed()
    row = next(r for p in found.pairs for r in p.tensors if r.bit_equal is False)
    row.metrics["cosine"] = 0.99999869
    assert "almost 1" in render(visible(found))


def test_the_curve_has_what_was_recomputed():
    pair = next(p for p in failed().pairs if (p.a, p.b) == ("simulator", "board"))
    forced = {row.name: row.forced for row in pair.tensors}
    assert forced["n2"].sqnr_db == pytest.approx(next(r for r in pair.tensors if r.name == "n2").metrics["sqnr_db"])
    assert forced["y"].mismatched == 0 and forced["y"].sqnr_db is None
    text = render(visible(failed()))
    assert "n2: add, FAILED, SQNR 43.77, recomputed 43.77" in text
    assert "y: add, FAILED, SQNR 44.08, recomputed equal" in text


def test_the_graph_says_where_the_sides_agree():
    report = failed()
    assert [(u.node, u.covers, u.inputs, u.outputs) for u in report.units][1] == ("n2", ["onnx_n2"], ["n1"], ["n2"])
    network = around.network_of(report, lambda pair, row: f"t{pair}-{row}")
    assert [network.state(n) for n in ("x", "n1", "n2", "y")] == [
        ["agrees"] * 3,
        ["agrees"] * 3,
        ["agrees", "fails", "fails"],
        ["agrees", "differs", "differs"],
    ]
    assert network.find("n2") == 1 and network.find("nothing") is None


def test_tensors_without_a_row_are_known_to_agree_or_not():
    from qverify.compare.options import Options

    report = three(board=wrong_at("n2"), options=Options())
    pair = next(p for p in report.pairs if (p.a, p.b) == ("reference", "board"))
    assert [r.name for r in pair.tensors] == ["y"]
    assert {n: same for n, same in pair.same_bytes.items() if n != "x"} == {"n1": True, "n2": False}


@pytest.mark.parametrize("seed", range(8))
def test_boxes_of_a_drawing_do_not_overlap(seed):
    rng = random.Random(seed)
    names = [f"n{at}" for at in range(rng.randint(1, 14))]
    edges = [(a, b) for a, b in itertools.combinations(names, 2) if rng.random() < 0.3]
    boxes = {name: layered.NodeBox(name, (name,)) for name in names}
    found = xml.fromstring(layered.draw(boxes, edges, "a graph"))
    places = [(float(r.get("x", "")), float(r.get("y", ""))) for r in found.iter("rect")]
    assert len(places) == len(names) and len(list(found.iter("path"))) >= len(edges)
    width, height = float(found.get("width", "")), float(found.get("height", ""))
    assert all(x >= 0 and x + layered.WIDTH <= width and y + layered.HEIGHT <= height for x, y in places)
    for (x, y), (p, q) in itertools.combinations(places, 2):
        assert abs(x - p) >= layered.WIDTH or abs(y - q) >= layered.HEIGHT
    tops = {name: y for name, (_, y) in zip(names, places, strict=True)}
    assert all(tops[a] < tops[b] for a, b in edges)


def test_of_many_nodes_those_that_differ_are_drawn():
    units = [NetworkUnit(f"n{at}", "add", [], [f"n{at - 1}"], [f"n{at}"]) for at in range(around.MAX_DRAWN + 40)]
    report = replace(failed(), units=units)
    report.pairs[1].same_bytes = {"n150": False}
    text = render(visible(report))
    assert text.count('class="graph"') == around.MAX_DRAWN + 1
    assert "120 nodes are drawn, those that do not agree before others, 40 are described" in text
    network = around.network_of(report, lambda pair, row: "")
    assert 150 in around.units_to_draw(network)


@pytest.mark.parametrize("name", ["html", "junit", "csv", "markdown", "model-explorer", "json"])
def test_names_of_any_bytes_in_triage_are_text(name, tmp_path):
    text = written(hostile(), name, tmp_path)
    assert "\x1b" not in text and "\u202e" not in text and "new\nline" not in text
    if name == "html":
        page = Page(text)
        check_links(page)
        check_drawings(page)
        assert sum(tag == "script" for tag, _ in page.tags) == 1
        assert all(printable(n) in "".join(page.text) for n in NASTY)
    if name == "junit":
        root = xml.fromstring(text)
        assert (root.get("tests"), root.get("failures")) == (str(len(NASTY) + 1),) * 2
    if name == "markdown":
        assert "<script>" not in text and "a|b" not in text and "@user" not in text
    if name == "csv":
        assert "\n=1+1" not in text and ",=1+1" not in text
    if name == "model-explorer":
        assert set(json.loads(text)["results"]) == set(NASTY)


def test_node_data_for_model_explorer(tmp_path):
    found = json.loads(written(failed(), "model-explorer", tmp_path))["results"]
    assert set(found) == {"n1", "n2", "y", "onnx_n1", "onnx_n2", "onnx_y"}
    assert found["n1"]["value"] == 200 and found["onnx_n2"] == found["n2"]
    assert found["n2"]["value"] == pytest.approx(43.77, abs=0.01)
    assert found["n2"]["bgColor"] != found["n1"]["bgColor"]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Triage of the packaged example on a faulty board, in every format; and a capture of the main job."""
    folder = tmp_path_factory.mktemp("drawn")
    with_faults = ["-b", f"faulty:local?fault=bitflip@{FAULTY}"]
    models = f"{EXAMPLE}/digits_float.onnx,{EXAMPLE}/digits_quant.onnx"
    into = [
        w for name in ("html", "junit", "csv", "markdown", "json") for w in (f"--{name}", str(folder / f"t.{name}"))
    ]
    assert main(["triage", "-m", models, *with_faults, "--loss", "always", "--explain", "300", "-q", *into]) == 1
    words = ["-m", f"{EXAMPLE}/digits_quant.onnx", *with_faults, "-r", "True", "-q"]
    into = ["--json", str(folder / "r.json"), "--html", str(folder / "r.html")]
    assert main([*words, "--capture", str(folder / "capture"), *into]) == 1
    return folder


def test_triage_has_the_same_numbers_in_all_formats(drawn):
    found = json.loads((drawn / "t.json").read_text())
    lines = [line for line in (drawn / "t.csv").read_text().splitlines() if not line.startswith("#")]
    rows = list(csv.DictReader(io.StringIO("\n".join(lines))))
    losses = [row for row in rows if row["row"] == "loss"]
    assert [row["tensor"] for row in losses] == [one["tensor"] for one in found["losses"]] != []
    for row, one in zip(losses, found["losses"], strict=True):
        assert [row[n] for n in ("sqnr_db", "cosine", "clipped")] == [
            str(one[n]) for n in ("sqnr_db", "cosine", "clipped")
        ]
    outputs = [(row["tensor"], row["max_abs"]) for row in rows if row["row"] == "output"]
    assert outputs == [(o["name"], str(o["max_abs"])) for rung in found["rungs"] for o in rung["outputs"]]
    cases = {c.get("name"): c for c in xml.parse(drawn / "t.junit").getroot().iter("testcase")}
    names = [f"{rung['a']} ~ {rung['b']}" for rung in found["rungs"]]
    assert [*cases] == ["verdict", *names]
    assert [n for n in names if cases[n].find("failure") is not None] == [found["broken"]] == ["simulator ~ board"]
    markdown = (drawn / "t.markdown").read_text()
    assert "is to blame at" in markdown and f"{found['losses'][0]['sqnr_db']:.1f}" in markdown
    page = Page((drawn / "t.html").read_text())
    check_links(page)
    check_drawings(page)
    shown = "".join(page.text)
    best = found["explained"][0]["explanation"]["exact"][0][0]["said"]
    assert shown.count(best) >= 2 and "experiments on the board" in shown and found["next_step"] in shown
    assert all(f"{one['sqnr_db']:.1f}" in shown for one in found["losses"])
    assert found["command"] in shown and found["command"].startswith("qverify triage -m ")
    drawings = [a for tag, a in page.tags if a.get("class") == "drawn"]
    assert [("open" in a) for a in drawings] == [True] + [False] * (len(drawings) - 1) != []
    for words in (
        "Density: simulator to the right",
        "Differences board - simulator in LSB",
        "Where they differ",
        "Inputs",
    ):
        assert words in shown, words
    assert "drawings" not in str(found["rungs"][-1].keys()) and "input_drawings" not in found
    assert "--html" not in found["command"] and found["units"] and found["sides"][-1]["name"] == "board"


def test_triage_draws_the_tensors_that_differ_as_files(drawn, capsys):
    pytest.importorskip("PIL.Image")
    out = drawn / "triage plots"
    assert main(["triage", str(drawn / "capture"), "--explain", "0", "-q", "--plots", str(out)]) == 1
    names = (out / "plots.txt").read_text().split("\n")[:-1]
    assert sorted(names) == sorted(p.name for p in out.iterdir() if p.name != "plots.txt")
    assert names[0] == f"000-simulator-board-{FAULTY}.svg" and "input-image.png" in names
    assert f"{FAULTY} conv, simulator ~ board: 1 of 256 elements differ" in (out / names[0]).read_text()
    capsys.readouterr()
    assert main(["triage", str(drawn / "capture"), "--plots", str(out / names[0])]) == 2
    assert "--plots: wanted a folder, got" in capsys.readouterr().err


def test_a_capture_is_drawn_again_as_it_was_judged(drawn, capsys):
    again = drawn / "again.json"
    assert (
        main(["report", str(drawn / "capture"), "-q", "--json", str(again), "--html", str(drawn / "again.html")]) == 1
    )
    one, two = (json.loads(path.read_text()) for path in (drawn / "r.json", again))
    assert (two["verdict"], two["blame"], two["units"]) == (one["verdict"], one["blame"], one["units"])
    assert [p["tensors"] for p in two["pairs"]] == [p["tensors"] for p in one["pairs"]]
    check_links(Page((drawn / "again.html").read_text()))
    capsys.readouterr()
    assert main(["report", str(drawn / "capture")]) == 2
    assert "where to?" in capsys.readouterr().err
    assert main(["report", str(drawn), "--json", str(again)]) == 2
    assert "not a capture" in capsys.readouterr().err


def test_the_command_that_repeats_a_report_has_no_reports():
    words = ["verify", "-m", "a b.onnx", "--html", "x", "--report", "json=-", "--csv=y", "-i", "--json"]
    assert repeating_command(words) == "qverify verify -m 'a b.onnx' -i"
    assert repeating_command([]) == ""


def large(frames: int = 1) -> ReportDocument:
    """A run of 200 nodes with long names, of which all fail on the board, in each of these frames."""
    report = failed()
    names = [f"model/backbone/stage{at // 20}/block{at}/Conv_output_0_QuantizeLinear_Output" for at in range(200)]
    report.units = [NetworkUnit(n, "conv", [f"{n}_node"], names[at - 1 : at], [n]) for at, n in enumerate(names)]
    pairs = list(report.pairs)
    for pair in pairs:
        bad = pair.tensors[1]
        pair.tensors = [replace(bad, name=name, node=name, covers=[f"{name}_node"]) for name in names]
    report.pairs = [replace(pair, frame=frame) for frame in range(frames) for pair in pairs]
    if frames > 1:
        row = {"verdict": "FAILED", "why": "", "failing": 200, "max_abs": 1.0, "board": None, "board_lost": False}
        report.frames = [{"frame": at, "source": f"{at}.png", **row} for at in range(frames)]
    return report


def test_the_page_of_200_nodes_leaves_room_for_drawings():
    text = render(visible(large()))
    assert len(text.encode()) < 1_800_000  # of 3 MB; the drawings take what is left
    check_links(Page(text))


def test_every_pair_of_one_board_has_its_tensors_when_all_pass():
    """The pair of reference and simulator, which has no board, then stands first."""
    report = large()
    for pair in report.pairs:
        pair.verdict, pair.board = "PASSED", "local" if "board" in (pair.a, pair.b) else None
    text = render(visible(report))
    assert "would make the page too large" not in text
    assert all(f'id="t{at}-199"' in text for at in range(3))


def test_the_node_that_every_frame_blames_is_drawn_once():
    report = failed()
    once = render(visible(report)).count('class="graph"')
    report.blamed *= 10
    assert render(visible(report)).count('class="graph"') == once > 1


def test_of_many_frames_the_first_pairs_have_their_tensors():
    text = render(visible(large(frames=10)))
    page = Page(text)
    check_links(page)
    rows = [a for tag, a in page.tags if tag == "tr" and str(a.get("id")).startswith("t")]
    assert len(rows) == 600 + 200 and text.count("would make the page too large") == 30 - 4
    assert len(text.encode()) < 3_000_000
    assert text.count('class="pair"') == 30 and "Other comparisons" in "".join(page.text)
    assert text.index('id="frames"') < text.index('id="p0"')
    lines = re.findall(r'<ul class="lines">(.*?)</ul>', text)[0]
    assert lines.count("<li>") == 3 and "10 of 10 frames" in lines

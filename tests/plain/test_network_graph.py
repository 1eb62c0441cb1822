"""The one graph of a page: what it holds, and how a person uses it in a browser, by pointer and by keyboard."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from qverify.printable import visible
from qverify.renderers import formats
from qverify.renderers.html_page import one_graph
from qverify.renderers.html_page.page import render
from qverify.report.document import Blame, NetworkUnit, ReportDocument
from qverify.report.facts import FusedRegion

from tests.plain.chromium import USABLE, WHY_NOT, Chromium
from tests.plain.test_report_formats import NASTY
from tests.plain.test_report_pages import failed

VENDORED = Path(one_graph.__file__).parent / "vendored"
CHOSEN = "document.querySelector('.net.chosen title').textContent"
IN_VIEW = (
    "(() => { const v = document.querySelector('.network-view').getBoundingClientRect(), b = "
    "document.querySelector('.net.chosen .card').getBoundingClientRect(); return b.left >= v.left - 1 && b.right <= v.right + 1 && "
    "b.top >= v.top - 1 && b.bottom <= v.bottom + 1 && b.width > 100; })()"
)
PAINTED = (
    "var painted = new Promise((done) => new MutationObserver((_, observer) => { if (!document.querySelector('.net.chosen')) return; "
    "observer.disconnect(); requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() / 1000))); })"
    ".observe(document, { childList: true, subtree: true }));"
)
needs_browser = pytest.mark.skipif(not USABLE, reason=WHY_NOT)
LAYERS, WRONG = 27, "l12gate"
MAX_SECONDS = 2.0


def data_of(report: ReportDocument) -> dict[str, object]:
    inside = re.findall(r'<template class="network-data">(.*?)</template>', render(visible(report)), re.S)
    return dict(json.loads(unescape(inside[0])))


def decoder(layers: int = LAYERS) -> ReportDocument:
    """A run of a decoder of 37 nodes a layer, whose mask and rotation tables every layer reads; the board is wrong at
    one node, and all behind it differ."""
    units = [NetworkUnit("mask", "lookup", [], ["ids"], ["mask"]), NetworkUnit("rope", "lookup", [], ["ids"], ["rope"])]
    units.append(NetworkUnit("x0", "gather", ["Gather"], ["ids"], ["x0"]))

    def add(name: str, op: str, *reads: str) -> str:
        units.append(NetworkUnit(name, op, [f"{name}_{op}"], list(reads), [name]))
        return name

    x = "x0"
    for at in range(layers):
        n = _norm(add, f"l{at}n1", x)
        q, k, v = (add(f"l{at}{c}t", "transpose", add(f"l{at}{c}", "matmul", n)) for c in "qkv")
        q, k = (add(f"{one}r", "add", one, "rope") for one in (q, k))
        s = add(f"l{at}s", "add", add(f"l{at}qk", "matmul", q, k), "mask")
        o = add(f"l{at}ov", "matmul", add(f"l{at}p", "softmax", add(f"l{at}sq", "lookup", s)), v)
        x = add(f"l{at}a1", "add", x, add(f"l{at}w", "matmul", add(f"l{at}or", "reshape", o)))
        n = _norm(add, f"l{at}n2", x)
        gate = add(f"l{at}gate", "lookup", add(f"l{at}g", "matmul", n))
        product = add(f"l{at}gu", "mul", gate, add(f"l{at}u", "matmul", n))
        down = add(f"l{at}d", "matmul", add(f"l{at}guq", "quantize", product))
        x = add(f"l{at}a2", "add", x, down)
    return _wrong_at(units, WRONG)


def _norm(add, name: str, x: str) -> str:
    parts = [f"{name}{part}" for part in ("p", "m", "e", "r", "n", "g", "q")]
    ops = ("elementwise_float", "reduce_mean", "elementwise_float", "elementwise_float", "mul", "mul", "quantize")
    last = x
    for part, op in zip(parts, ops, strict=True):
        last = add(part, op, last, x) if part.endswith("n") else add(part, op, last)
    return last


def _wrong_at(units: list[NetworkUnit], wrong: str) -> ReportDocument:
    report = failed()
    order = [unit.node for unit in units]
    good, bad, after = (replace(report.pairs[-1].tensors[n], covers=[]) for n in (0, 1, 2))
    row_of = {False: good, True: after}
    for pair in report.pairs:
        board = "board" in (pair.a, pair.b)
        kinds = [
            bad if name == wrong and board else row_of[board and n > order.index(wrong)] for n, name in enumerate(order)
        ]
        pair.tensors = [replace(row, name=n, node=n, op=u.op) for row, n, u in zip(kinds, order, units, strict=True)]
    blame = replace(report.blamed[0], node=wrong, also=[])
    return replace(report, units=units, blamed=[blame])


def test_the_scripts_of_others_are_those_of_their_packages():
    """With the licence of each, and the hash of what the package has."""
    rows = re.findall(r"^\| `(\S+)` \| `\S+` \| \S+ \| `\S+` \| MIT \(`(\S+)`\) \| `(\w{64})` \| `sha512-\S+` \|$", (VENDORED / "README.md").read_text(), re.M)  # fmt: skip
    files = {name for name, _, _ in rows} | {licence for _, licence, _ in rows} | {"README.md"}
    assert files == {path.name for path in VENDORED.iterdir()} and len(rows) == 2
    for name, licence, digest in rows:
        assert hashlib.sha256((VENDORED / name).read_bytes()).hexdigest() == digest
        assert "without restriction" in " ".join((VENDORED / licence).read_text().split())
        assert b"</script" not in (VENDORED / name).read_bytes()


def test_the_data_are_the_units_with_their_states():
    found = data_of(failed())
    assert [node[:2] for node in found["nodes"]] == [["n1", "add"], ["n2", "add"], ["y", "add"]]
    assert [node[3] for node in found["nodes"]] == ["aaa", "aff", "add"]
    assert [node[7] for node in found["nodes"]] == [["x"], [0], [1]]
    assert found["first"] == 1 and found["pairs"][0] == ["reference", "simulator"]
    assert found["nodes"][1][5] is not None and found["nodes"][0][5] is None and found["nodes"][2][9] == 1


def test_a_region_is_the_nodes_that_were_recomputed_as_one():
    report = failed()
    region = FusedRegion(["x"], ["n2"], ["leaky add n1", "add n2"], not_given=["n1"])
    row = report.pairs[-1].tensors[1]
    row.forced = replace(row.forced, region=region)
    assert data_of(report)["regions"] == [[region.place, [0, 1]]]


def test_of_a_large_network_the_part_around_the_first_wrong_node_is_drawn(monkeypatch):
    monkeypatch.setattr(one_graph, "MAX_UNITS", 100)
    report = decoder()
    found = data_of(report)
    assert len(found["nodes"]) == 100 and found["nodes"][found["first"]][0] == WRONG
    assert all(isinstance(read, str) or 0 <= read < 100 for node in found["nodes"] for read in node[7])
    assert f"{len(report.units) - 100} of {len(report.units)} nodes are not drawn" in render(visible(report))


def test_without_units_there_is_no_graph_and_no_script_of_others():
    text = render(visible(replace(failed(), units=[])))
    assert "network-data" not in text and "dagre" not in text and "Panzoom" not in text


def test_a_blamed_node_that_is_not_in_the_network_is_not_the_first():
    report = replace(failed(), blamed=[Blame("board", "another", "")])
    assert data_of(report)["first"] == 1  # the first that fails


@needs_browser
@pytest.mark.parametrize("width", [1280, 400])
def test_a_browser_goes_through_the_graph(width, tmp_path):
    path = tmp_path / "r.html"
    formats.page("html").write(decoder(4 + 9), str(path))
    with Chromium(tmp_path / "profile", width) as page:
        page.open(path.as_uri())
        page.settle()
        assert page.run(CHOSEN).startswith(f"{WRONG}:") and page.run(IN_VIEW) is True
        assert page.run("document.documentElement.scrollWidth") <= width
        side = "document.querySelector('.network-side').textContent"
        assert "fails when recomputed" in page.run(side) and "l12gu" in page.run(side)
        page.run("document.querySelector('.network-view').focus()")
        for key, node in (("ArrowDown", "l12gu"), ("ArrowUp", WRONG), ("ArrowUp", "l12g"), ("Escape", WRONG)):
            page.press(key)
            assert page.run(CHOSEN).startswith(f"{node}:") and page.run(IN_VIEW) is True, key
        scale = "new DOMMatrix(getComputedStyle(document.querySelector('.network-view .all')).transform).a"
        before = page.run(scale)
        page.press("+")
        assert page.run(scale) > before
        page.press("0")
        assert page.run(scale) < before and page.run("document.querySelectorAll('.pin').length") == 1
        page.press("/")
        assert page.run("document.activeElement.type") == "search"
        page.write("l3gate")
        assert page.run("document.querySelectorAll('.net.hit').length") == 1
        page.press("Enter")
        assert page.run(CHOSEN).startswith("l3gate:") and page.run(IN_VIEW) is True
        page.press("Escape")
        assert page.run("document.activeElement.className") == "network-view"
        assert page.run("document.querySelectorAll('.net.hit, .net.dim').length") == 0
        page.click("[title='Next wrong node']")
        assert page.run(CHOSEN).startswith(f"{WRONG}:")
        page.run("document.querySelector('.network-view').focus()")
        page.press("Enter")
        row = "document.querySelector(location.hash).querySelector('th').dataset.value"
        assert page.run(row) == WRONG
        assert (page.requests, page.logged) == ([], [])


@needs_browser
def test_the_colours_are_of_states_verdicts_and_errors(tmp_path):
    path = tmp_path / "r.html"
    formats.page("html").write(failed(), str(path))
    with Chromium(tmp_path / "profile") as page:
        page.open(path.as_uri())
        classes = "[...document.querySelectorAll('.net')].sort((a, b) => a.dataset.box - b.dataset.box).map((one) => [...one.classList].filter((c) => !['net', 'chosen', 'given', 'final'].includes(c))[0])"
        assert page.run(classes) == ["agrees", "agrees", "fails", "differs"]  # the input, n1, n2, y
        switch = "(() => {{ const s = document.querySelector('.network select'); s.value = '{}'; s.dispatchEvent(new Event('change')); }})()"
        page.run(switch.format("verdict"))
        assert page.run(classes) == ["agrees", "agrees", "fails", "fails"]
        page.run(switch.format("error"))
        assert page.run(classes)[1] == "e0" and page.run(classes)[2] in ("e1", "e2", "e3", "e4")
        numbers = page.run("[...document.querySelectorAll('.net .of')].map((one) => one.textContent)")
        assert sum(text.endswith(" dB") for text in numbers) == 2 and numbers.count("equal") == 1
        assert page.run("document.querySelectorAll('.net .chip').length") == 9  # a sign for each pair of each node


@needs_browser
def test_fused_nodes_have_a_frame_and_names_are_only_text(tmp_path):
    report = failed()
    row = report.pairs[-1].tensors[1]
    row.forced = replace(row.forced, region=FusedRegion(["x"], ["n2"], ["add n1", "add n2"], not_given=["n1"]))
    for name, hostile in zip(("n1", "n2"), (NASTY[0], NASTY[-1]), strict=True):
        unit = next(one for one in report.units if one.node == name)
        unit.covers.append(hostile)
        unit.op = hostile
    path = tmp_path / "r.html"
    formats.page("html").write(report, str(path))
    with Chromium(tmp_path / "profile") as page:
        page.open(path.as_uri())
        assert page.run("document.querySelectorAll('.region').length") == 1
        frame, boxes = (page.run(f"[...document.querySelectorAll('{which}')].map((e) => {{ const r = e.getBoundingClientRect(); return [r.top, r.bottom]; }})") for which in (".region", ".net .card"))  # fmt: skip
        inside = [frame[0][0] < top and bottom < frame[0][1] for top, bottom in boxes]
        assert sorted(inside) == [False, False, True, True]
        assert page.run("document.querySelectorAll('script').length") == 1
        assert (page.requests, page.logged) == ([], [])


@needs_browser
def test_a_decoder_of_1000_nodes_is_drawn_in_two_seconds(tmp_path):
    """From navigation to the frame with the graph, before the rest of the page is read; the best of three, since other
    tests run beside."""
    report = decoder()
    assert 990 <= len(report.units) <= 1100
    path = tmp_path / "r.html"
    formats.page("html").write(report, str(path))
    with Chromium(tmp_path / "profile") as page:
        page.call("Page.addScriptToEvaluateOnNewDocument", source=PAINTED)
        seconds = list[float]()
        for _ in range(3):
            page.open(path.as_uri())
            seconds.append(page.run("painted"))
        assert min(seconds) < MAX_SECONDS, seconds
        assert page.run("document.querySelectorAll('.net').length") == len(report.units) + 1
        assert page.run(CHOSEN).startswith(f"{WRONG}:") and page.run(IN_VIEW) is True
        assert (page.requests, page.logged) == ([], [])
        boxes = page.run(
            "[...document.querySelectorAll('.net')].map((e) => e.getAttribute('transform').match(/-?\\d+/g).map(Number))"
        )
        places = sorted(map(tuple, boxes))
        near = [
            (a, b)
            for n, a in enumerate(places)
            for b in places[n + 1 : n + 40]
            if b[0] - a[0] < 216 and abs(b[1] - a[1]) < 54
        ]
        assert near == []  # no box covers another

"""CSV, JUnit, Markdown and HTML: the same numbers as the JSON report, and names of any bytes as text."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as xml
from html.parser import HTMLParser
from pathlib import Path

import pytest
from qverify.printable import printable
from qverify.renderers import formats
from qverify.report.document import ReportDocument, plain

from tests.plain.three_sides import record, side, step, two, wrong_at

NASTY = [
    "<script>alert(1)</script>",
    "a\"b'c",
    "new\nline",
    "\x1b[2J",
    "\u202etxt",
    "=1+1",
    "a|b",
    "@user",
    "[x](y)",
    "x" * 10_000,
]
NAMES = ("csv", "html", "junit", "markdown")


def failed() -> ReportDocument:
    return two(record("reference"), record("board", wrong_at("n2")))


def written(report: ReportDocument, name: str, tmp_path: Path) -> str:
    path = tmp_path / f"r{formats.page(name).SUFFIX}"
    formats.page(name).write(report, str(path))
    return path.read_text(encoding="utf-8")


def nasty() -> ReportDocument:
    a = side("reference", **{name: [1.0, 2.0] for name in NASTY})
    return two(a, side("board", **{name: [1.0, 2.5] for name in NASTY}))


def test_csv_has_the_numbers_of_the_json(tmp_path):
    report = failed()
    lines = [line for line in written(report, "csv", tmp_path).splitlines() if not line.startswith("#")]
    rows = list(csv.DictReader(io.StringIO("\n".join(lines))))
    tensors = report.pairs[0].tensors
    assert [r["tensor"] for r in rows] == [t.name for t in tensors]
    for row, tensor in zip(rows, tensors, strict=True):
        assert row["verdict"] == tensor.verdict and int(row["elements"]) == tensor.elements
        for name, value in tensor.metrics.items():
            if isinstance(value, float):
                assert row[name] == str(plain(value)), name
        assert row["forced"] == (tensor.forced.verdict if tensor.forced else "")


def test_junit_counts_failures_and_what_is_missing(tmp_path):
    root = xml.fromstring(written(failed(), "junit", tmp_path))
    (suite,) = root.findall("testsuite")
    cases = {c.get("name"): c for c in suite.findall("testcase")}
    assert [n for n, c in cases.items() if c.find("failure") is not None] == ["verdict", "n2", "y"]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("4", "3", "0")
    assert root.get("failures") == "3" and "max_abs" in str(cases["n2"].find("failure").get("message"))
    board = record("board")
    board.missing["n2"] = "it was lost"
    del board.tensors["n2"], board.digests["n2"]
    root = xml.fromstring(written(two(record("reference"), board), "junit", tmp_path))
    assert {c.get("name") for c in root.iter("testcase") if c.find("error") is not None} == {"verdict", "n2"}


def test_junit_of_nothing_is_an_error(tmp_path):
    root = xml.fromstring(
        written(ReportDocument(verdict="INCONCLUSIVE", blame=None, decimals={}, pairs=[]), "junit", tmp_path)
    )
    assert root.get("errors") == "1" and root.get("tests") == "1"


def unprepared() -> ReportDocument:
    """A run of two frames: one PASSED, the other could not be prepared."""
    report = two(record("reference", step), record("board", step))
    row = {"why": "", "failing": 0, "max_abs": 0.0, "board": None, "board_lost": False}
    report.frames = [
        {"frame": 0, "source": "0.npy", "verdict": "PASSED", **row},
        {"frame": 1, "source": "=1.npy", "verdict": "NOT RUN", **row, "why": "no picture"},
    ]
    report.verdict = "INCONCLUSIVE"
    return report


def test_junit_and_gitlab_are_never_green_where_a_frame_did_not_run(tmp_path):
    report = unprepared()
    assert [pair.verdict for pair in report.pairs] == ["PASSED"]
    root = xml.fromstring(written(report, "junit", tmp_path))
    wrong = {
        c.get("name"): c.find("error").get("message") for c in root.iter("testcase") if c.find("error") is not None
    }
    assert wrong == {"=1.npy": "no picture"} and root.get("errors") == "1"
    (issue,) = json.loads(written(report, "codequality", tmp_path))
    assert "1 frame could not be prepared" in issue["description"]


@pytest.mark.parametrize(("verdict", "mark"), [("INCONCLUSIVE", "error"), ("FAILED", "failure")])
def test_junit_says_a_verdict_that_no_pair_has(verdict, mark, tmp_path):
    report = two(record("reference", step), record("board", step))
    report.verdict = verdict
    root = xml.fromstring(written(report, "junit", tmp_path))
    assert [case.get("name") for case in root.iter("testcase") if case.find(mark) is not None] == ["verdict"]
    assert root.get(f"{mark}s") == "1" and root.get("tests") == str(len([*root.iter("testcase")]))


def test_no_line_of_csv_begins_a_formula_within(tmp_path):
    """A spreadsheet splits the lines above the rows, too, at whatever it takes for a separator."""
    report = two(
        side("reference", **{"a,=1+1;-2": [1.0], "\uff1d3": [1.0]}),
        side("board", **{"a,=1+1;-2": [2.0], "\uff1d3": [2.0]}),
    )
    text = written(report, "csv", tmp_path)
    comments = [line for line in text.splitlines() if line.startswith("#")]
    assert any("a,'=1+1;'-2" in line for line in comments)
    assert not re.search("[,;\t][=+@\uff1d-]", "\n".join(comments))
    assert [r["tensor"] for r in csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))][
        1
    ] == "'\uff1d3"


def test_a_comment_fits_where_it_is_posted(tmp_path):
    """Long names and many notes are cut; the verdict stands above, and what is folded is closed."""
    report = nasty()
    report.notes = [f"note {at} of many" for at in range(9000)]
    text = written(report, "markdown", tmp_path)
    assert len(text) < 65_536 and text.startswith("## ") and text.count("<details>") == text.count("</details>") == 1
    assert re.search(r"\d+ more lines; the other formats have them", text) and "x" * 500 not in text


class Page(HTMLParser):
    """What a browser would see."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)


def test_html_has_a_row_for_each_tensor_and_asks_for_nothing(tmp_path):
    report = failed()
    text = written(report, "html", tmp_path)
    page = Page(text)
    rows = [a for tag, a in page.tags if tag == "tr" and "id" in a]
    links = [str(a["href"]) for tag, a in page.tags if tag == "a"]
    assert len(rows) == 3 and {n for n in links if n.startswith("#t0-")} == {f"#{a['id']}" for a in rows}
    values = {a["data-value"] for tag, a in page.tags if tag == "td" and "data-value" in a} | set(page.text)
    assert str(report.pairs[0].tensors[1].metrics["max_abs"]) in values
    assert not re.search(r"(src|href)=\"(?!#)|url\(|@import|https?://", text)
    assert next(a["content"] for tag, a in page.tags if a.get("http-equiv")).startswith("default-src 'none'")
    assert sum(tag == "h1" for tag, _ in page.tags) == 1 and "No node is to blame; location unknown" in "".join(
        page.text
    )


@pytest.mark.parametrize("name", NAMES)
def test_names_of_any_bytes_are_text(name, tmp_path):
    text = written(nasty(), name, tmp_path)
    assert "\x1b" not in text and "\u202e" not in text and "new\nline" not in text
    if name == "html":
        page = Page(text)
        assert sum(tag == "script" for tag, _ in page.tags) == 1
        shown = "".join(page.text)
        assert all(printable(n) in shown for n in NASTY)
    if name == "junit":
        assert {printable(n) for n in NASTY} <= {c.get("name") for c in xml.fromstring(text).iter("testcase")}
    if name == "csv":
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        assert [r["tensor"] for r in csv.DictReader(io.StringIO("\n".join(lines)))][5] == "'=1+1"
    if name == "markdown":
        assert "<script>" not in text and "a|b" not in text and "@user" not in text


def test_every_run_of_the_same_report_writes_the_same_bytes(tmp_path):
    report = two(record("reference", step), record("board"))
    for name in NAMES:
        assert written(report, name, tmp_path) == written(report, name, tmp_path)

"""Tests what CI systems read: JUnit by its schema, GitHub's commands and summary, GitLab's issues; the same numbers in every format."""

from __future__ import annotations

import csv
import json
import re
import xml.etree.ElementTree as xml
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import pytest
from qverify.cli.ci_annotations import MAX_SUMMARY_BYTES
from qverify.cli.main import main
from qverify.renderers import formats
from qverify.renderers.annotations import MAX_PER_LEVEL, Annotation, github_commands, list_annotations
from qverify.renderers.html_page.tensors import HEADS
from qverify.renderers.tensor_rows import BASIC_COLUMNS, FORCED_COLUMNS
from qverify.report.compare_reports import compare_reports
from qverify.report.document import ReportDocument
from qverify.report.read_report import read_report
from qverify.report.schema import METRICS, SCHEMAS

from tests.plain.test_report_formats import NASTY
from tests.plain.three_sides import record, side, three, two, wrong_at

ROOT = Path(__file__).resolve().parents[2]
SHOWN = {"max |a-b|": "max_abs", "LSB": "max_lsb", "SQNR dB": "sqnr_db", "cosine": "cosine"}  # columns of the page
RUNS = {
    "passing": three(),
    "failing": three(board=wrong_at("n2", 3)),
    "with NaN": two(side("reference", y=[1, float("nan"), 3]), side("board", y=[1, 2, 4])),
}
BYTES = [*NASTY, "half \udc80 \ud800", "\x00\x07", "a/b", "::error::x", "##[error]x", "%0A::error::y", "]]>", "-inf"]


def written(report: ReportDocument, name: str, tmp_path: Path) -> str:
    path = tmp_path / f"r{formats.page(name).SUFFIX}"
    formats.page(name).write(report, str(path))
    return path.read_text(encoding="utf-8")


def any_bytes() -> ReportDocument:
    names = {name: [1.0, 2.0] for name in BYTES}
    return two(side("reference", **names), side("board", **{name: [1.0, 2.5] for name in names}))


class Rows(HTMLParser):
    """The rows of the tables of tensors: the value that each cell is sorted by, which is its text where it has no other."""

    def __init__(self, text: str):
        super().__init__()
        self.every: list[tuple[str, list[str]]] = []  # pair, cells
        self._pair, self._open, self._stated = "", "", False
        self.feed(text)
        self.rows = [(pair, cells) for pair, cells in self.every if len(cells) == len(HEADS) and cells[0].isdigit()]

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "caption":
            self._open, self._pair = tag, ""
        elif tag == "tr":
            self.every.append((self._pair.partition(":")[0], []))
        elif tag in ("td", "th") and self.every:
            self._open, self._stated = tag, "data-value" in given
            self.every[-1][1].append(str(given.get("data-value", "")))

    def handle_endtag(self, tag):
        self._open = "" if tag == self._open else self._open

    def handle_data(self, data):
        if self._open == "caption":
            self._pair += data
        elif self._open and not self._stated:
            self.every[-1][1][-1] += data


def same(shown: str, value: object) -> bool:
    """Tells whether a cell has this number of the JSON report, which may be a text such as inf."""
    if value is None:
        return shown == ""
    return shown == str(value) or (shown not in ("", "nan") and float(shown) == float(str(value)))


@pytest.mark.parametrize("name", RUNS)
def test_the_numbers_are_equal_in_all_formats(name, tmp_path):
    report = RUNS[name]
    document = json.loads(written(report, "json", tmp_path))
    jsonschema.Draft202012Validator(SCHEMAS["report"]()).validate(document)
    lines = [line for line in written(report, "csv", tmp_path).splitlines() if not line.startswith("#")]
    of_csv = {(r["pair"], r["tensor"]): r for r in csv.DictReader(lines)}
    cases = {
        (str(c.get("classname")).split(",")[0], c.get("name")): c
        for c in xml.fromstring(written(report, "junit", tmp_path)).iter("testcase")
    }
    html = {
        (pair, cells[2]): dict(zip(HEADS, cells, strict=True))
        for pair, cells in Rows(written(report, "html", tmp_path)).rows
    }
    markdown = written(report, "markdown", tmp_path).replace("\\", "")
    at = 0
    for pair in document["pairs"]:
        for row in pair["tensors"]:
            cells, page, case = (
                of_csv[f"{pair['a']}~{pair['b']}", row["name"]],
                html[f"{pair['a']} ~ {pair['b']}", row["name"]],
                cases[f"{pair['a']} ~ {pair['b']}", row["name"]],
            )
            at += 1
            metrics = {m: row[m] for m in METRICS if m in row and not isinstance(row[m], dict)}
            assert {m: cells[m] for m in metrics} == {m: "" if v is None else str(v) for m, v in metrics.items()}
            assert (cells["verdict"], cells["elements"], cells["failing"]) == (
                row["verdict"],
                str(row["elements"]),
                str(row["failing"]),
            )
            assert page["verdict"].endswith(row["verdict"]) and page["type"] == str(row["elements"])
            for column, metric in SHOWN.items():
                assert same(page[column], row[metric]), metric
            failure = case.find("failure")
            assert (failure is not None) == (row["verdict"] == "FAILED")
            if failure is not None:
                assert all(f"{m} {v}" in str(failure.text) for m, v in metrics.items() if v is not None)
                most = f"{float(row['max_abs']):.4g}"
                assert (
                    f"| {row['name']} | {row['op']} | FAILED | {row['failing']} of {row['elements']} | {most} |"
                    in markdown
                )
    assert at == len(html) == len(of_csv) > 0
    back = read_report(str(tmp_path / "r.json"))
    assert compare_reports(report, back, "a", "b").tensors == []
    for text in (markdown, written(report, "html", tmp_path), written(report, "junit", tmp_path)):
        assert document["verdict"] in text


def test_the_columns_of_csv_are_documented(tmp_path):
    head = next(line for line in written(three(), "csv", tmp_path).splitlines() if not line.startswith("#"))
    assert head == ",".join([*BASIC_COLUMNS, *FORCED_COLUMNS, *sorted(RUNS["passing"].pairs[0].tensors[0].metrics)])
    page = (ROOT / "docs/reference/formats.md").read_text()
    assert all(f"`{name}`" in page for name in head.split(","))


@pytest.mark.parametrize("of", [*RUNS, "any bytes", "nothing", "diff"])
def test_junit_follows_its_schema(of, tmp_path):
    xmlschema = pytest.importorskip("xmlschema", reason="no xmlschema in this Python")
    schema = xmlschema.XMLSchema(str(ROOT / "docs/reference/schemas/junit.xsd"))
    empty = ReportDocument(verdict="INCONCLUSIVE", blame=None, decimals={}, pairs=[])
    if of == "diff":
        formats.page("junit").write_difference(
            compare_reports(three(), RUNS["failing"], "a", "b"), str(tmp_path / "r.xml")
        )
    else:
        written({**RUNS, "any bytes": any_bytes(), "nothing": empty}[of], "junit", tmp_path)
    schema.validate(str(tmp_path / "r.xml"))
    root = xml.parse(tmp_path / "r.xml").getroot()
    assert root.get("tests") == str(len([*root.iter("testcase")]))
    root[0].set("tests", "many")
    assert not schema.is_valid(root)


def test_every_format_holds_names_of_any_bytes(tmp_path):
    report = any_bytes()
    assert [
        t.name
        for t in read_report(str(Path(written(report, "json", tmp_path) and tmp_path / "r.json"))).pairs[0].tensors
    ] == BYTES
    lines = [line for line in written(report, "csv", tmp_path).splitlines() if not line.startswith("#")]
    assert len([*csv.DictReader(lines)]) == len(BYTES)
    assert len([*xml.fromstring(written(report, "junit", tmp_path)).iter("testcase")]) == len(BYTES) + 1
    assert len(Rows(written(report, "html", tmp_path)).rows) == len(BYTES)
    issues = json.loads(written(report, "codequality", tmp_path))
    assert len(issues) == len({i["fingerprint"] for i in issues}) == len(BYTES) + 1
    for name in ("csv", "junit", "html", "markdown", "codequality"):
        text = written(report, name, tmp_path)
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e]", text), name


def command(line: str) -> tuple[str, str, str]:
    """Level, title and text of a workflow command, as GitHub's runner reads it."""
    found = re.fullmatch(r"::(\w+) title=([^:,\n]*)::([^\r\n]*)", line)
    assert found is not None, line
    back = [found[2], found[3]]
    for code, character in (("%2C", ","), ("%3A", ":"), ("%0A", "\n"), ("%0D", "\r"), ("%25", "%")):
        back = [text.replace(code, character) for text in back]
    return found[1], back[0], back[1]


def test_github_commands_are_one_line_and_read_back():
    found = [command(line) for line in github_commands(list_annotations(RUNS["failing"]))]
    assert found[0][:2] == ("error", "qverify: board is to blame") and "board at n2" in found[0][2]
    assert {level for level, _, _ in found} == {"error"} and len(found) == 3
    assert list_annotations(three()) == []
    text = "a%0A::error::b\n::set-env name=x::y\r,:"
    assert command(github_commands([Annotation("warning", text, text)])[0])[1] == text
    assert all(command(line) for line in github_commands(list_annotations(any_bytes())))
    assert (
        len(github_commands([Annotation("error", "t", "x")] * 50 + [Annotation("warning", "t", "x")] * 50))
        == 2 * MAX_PER_LEVEL
    )


def test_inconclusive_is_a_warning():
    board = record("board")
    board.missing["n2"] = "it was lost"
    del board.tensors["n2"], board.digests["n2"]
    assert {a.level for a in list_annotations(two(record("reference"), board))} == {"warning"}
    assert [
        a.level for a in list_annotations(ReportDocument(verdict="INCONCLUSIVE", blame=None, decimals={}, pairs=[]))
    ] == ["warning"]


def saved(report: ReportDocument, path: Path) -> str:
    formats.page("json").write(report, str(path))
    return str(path)


def test_on_github_a_run_is_annotated_and_summed_up(digits, tmp_path, capsys, monkeypatch):
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    words = [
        "-m",
        f"{digits}/digits_quant.onnx",
        "-b",
        "faulty:local?fault=plus_one@relu2_QuantizeLinear_Output",
        "-r",
        "True",
    ]
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert main([*words, "--json", str(tmp_path / "a.json")]) == 1
    assert "::" not in capsys.readouterr().err and summary.read_text() == "before\n"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert main([*words, "--json", "-"]) == 1
    shown = capsys.readouterr()
    json.loads(shown.out)
    said = [command(line) for line in shown.err.splitlines() if line.startswith("::")]
    assert said and any("relu2" in text for _, _, text in said)
    assert summary.read_text().startswith("before\n## ❌ qverify: FAILED")
    assert main(["report", "diff", str(tmp_path / "a.json"), str(tmp_path / "a.json")]) == 0
    assert "qverify report diff: same" in summary.read_text()


def test_a_summary_that_cannot_be_written_changes_no_verdict(tmp_path, capsys, monkeypatch):
    a = saved(three(), tmp_path / "a.json")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    full = tmp_path / "full.md"
    full.write_bytes(b"x" * MAX_SUMMARY_BYTES)
    for place in (tmp_path / "no" / "s.md", full):
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(place))
        assert main(["report", "diff", a, a]) == 0
        (line,) = capsys.readouterr().err.splitlines()
        assert command(line)[0] == "warning" and "GITHUB_STEP_SUMMARY" in line
    assert full.stat().st_size == MAX_SUMMARY_BYTES


ISSUE = {
    "type": "object",
    "required": ["description", "check_name", "fingerprint", "severity", "location"],
    "properties": {
        "description": {"type": "string", "minLength": 1},
        "check_name": {"type": "string"},
        "fingerprint": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
        "location": {
            "type": "object",
            "required": ["path", "lines"],
            "properties": {
                "path": {"type": "string", "pattern": "^(?!/|\\./|\\.\\.)"},
                "lines": {"type": "object", "required": ["begin"], "properties": {"begin": {"type": "integer"}}},
            },
        },
    },
}


def test_gitlab_issues_are_the_same_from_run_to_run(tmp_path):
    report = three(board=wrong_at("n2", 3))
    report.models = [{"path": "/somewhere/else/quant.onnx"}]
    issues = json.loads(written(report, "codequality", tmp_path))
    jsonschema.validate(issues, {"type": "array", "items": ISSUE})
    assert len(issues) == 6 and {i["location"]["path"] for i in issues} == {"quant.onnx"}
    again = json.loads(written(three(board=wrong_at("n2", 1)), "codequality", tmp_path))
    assert [i["fingerprint"] for i in again] == [i["fingerprint"] for i in issues]
    assert json.loads(written(three(), "codequality", tmp_path)) == []
    nothing = ReportDocument(verdict="INCONCLUSIVE", blame=None, decimals={}, pairs=[])
    assert len(json.loads(written(nothing, "codequality", tmp_path))) == 1

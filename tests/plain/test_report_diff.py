"""qverify report diff: what changed between two runs, its exit status, and files that are no reports."""

from __future__ import annotations

import copy
import csv
import io
import json
import re
import xml.etree.ElementTree as xml
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import pytest
from qverify.cli.main import main
from qverify.errors import BadFileError
from qverify.renderers import formats
from qverify.renderers.difference_rows import difference_rows, shown
from qverify.renderers.difference_text import render
from qverify.renderers.text_view import TextView
from qverify.report.compare_reports import compare_reports, step
from qverify.report.difference import ReportDifference
from qverify.report.document import ReportDocument, plain
from qverify.report.read_report import read_report, report_of
from qverify.report.report_json import to_json
from qverify.report.schema import SCHEMAS, schema_text

from tests.plain.test_report_formats import NASTY
from tests.plain.three_sides import side, three, two, wrong_at

ROOT = Path(__file__).resolve().parents[2]


def saved(report: ReportDocument, path: Path) -> str:
    formats.page("json").write(report, str(path))
    return str(path)


def diff_of(a: ReportDocument, b: ReportDocument) -> ReportDifference:
    return compare_reports(a, b, "a.json", "b.json")


@pytest.mark.parametrize(
    "report",
    [three(), three(board=wrong_at("n2")), two(side("reference", y=[1, float("nan")]), side("board", y=[1, 2]))],
)
def test_a_report_is_read_back_as_it_was(report, tmp_path):
    back = read_report(saved(report, tmp_path / "r.json"))
    assert json.dumps(to_json(back)) == json.dumps(to_json(report))


def test_a_node_that_falls_back_now_is_worse():
    def placed(*fallen: str) -> ReportDocument:
        report = three()
        rows = [{"node": n, "op": "Conv", "on": "HTP", "kernel": "", "fallback": n in fallen} for n in ("n1", "n2")]
        next(s for s in report.sides if s["name"] == "board")["placement"] = rows
        return report

    assert diff_of(placed("n1"), placed("n1")).change == "same"
    found = diff_of(placed("n1"), placed("n1", "n2"))
    assert (found.change, found.why) == ("worse", "n2 of board fell back, and did not before")
    assert ("side board fell back", "n1", "n1, n2") in {(f.what, f.before, f.now) for f in found.facts}
    assert diff_of(placed("n2"), placed()).change == "same" and diff_of(three(), placed("n1")).change == "same"


def test_a_worse_run_names_verdicts_blame_and_numbers():
    found = diff_of(three(), three(board=wrong_at("n2")))
    assert (found.change, found.exit_status) == ("worse", 1)
    assert {(p.pair, p.before, p.now, p.change) for p in found.pairs} == {
        ("reference~simulator", "PASSED", "PASSED", "same"),
        ("reference~board", "PASSED", "FAILED", "worse"),
        ("simulator~board", "PASSED", "FAILED", "worse"),
    }
    assert [(b.side, b.before, b.now) for b in found.blame] == [("board", None, "n2")]
    changed = {(t.pair, t.tensor): t for t in found.tensors}
    assert set(changed) == {(p, t) for p in ("reference~board", "simulator~board") for t in ("n2", "y")}
    row = changed["reference~board", "n2"]
    numbers = {m.metric: (m.before, m.now, m.direction) for m in row.metrics}
    assert (
        row.direction == "worse" and numbers["max_lsb"] == (0, 1, "worse") and numbers["max_abs"] == (0.0, 0.5, "worse")
    )
    assert numbers["matching_digits"][2] == "worse"  # from null, which is: equal
    assert (found.compared, found.equal) == (9, 5)


def test_the_other_way_round_is_better_and_the_same_is_the_same():
    good, bad = three(), three(board=wrong_at("n2"))
    found = diff_of(bad, good)
    assert (found.change, found.exit_status) == ("better", 0) and {t.direction for t in found.tensors} == {"better"}
    for report in (good, bad):
        assert (diff_of(report, report).change, diff_of(report, report).tensors) == ("same", [])


def test_fewer_tensors_are_not_better() -> None:
    """The board that failed at n2 gives its final outputs only, which pass."""
    bad, good = three(board=wrong_at("n2", 0)), three()
    for pair in bad.pairs[1:]:
        pair.verdict, pair.why = "FAILED", "n2 fails when recomputed"
    bad.verdict = "FAILED"
    narrow = three(board_caps=frozenset({"finals", "digests"}))
    found = diff_of(bad, narrow)
    assert (found.change, found.exit_status) == ("not known", 3)
    assert found.why == "reference~board was FAILED, now PASSED (1 tensor compared, 3 before)"
    assert (diff_of(bad, good).change, diff_of(narrow, good).change) == ("better", "same")


def test_a_larger_difference_of_the_same_verdict_is_listed_and_does_not_change_the_status():
    found = diff_of(three(board=wrong_at("n2", 1)), three(board=wrong_at("n2", 3)))
    assert (found.change, found.exit_status) == ("same", 0)
    assert {t.direction for t in found.tensors} == {"worse"}


def test_what_is_not_known_is_no_success():
    good, silent = three(), three()
    silent.pairs = silent.pairs[:1]
    assert (diff_of(good, silent).change, diff_of(good, silent).exit_status) == ("not known", 3)
    empty = ReportDocument(verdict="PASSED", blame=None, decimals={}, pairs=[])
    assert diff_of(empty, empty).exit_status == 3
    assert diff_of(good, ReportDocument(verdict="INCONCLUSIVE", blame=None, decimals={}, pairs=[])).exit_status == 1
    steps = {
        (a, b): step(a, b)
        for a in ("PASSED", "FAILED", "INCONCLUSIVE", None)
        for b in ("PASSED", "FAILED", "INCONCLUSIVE", None)
        if a or b
    }
    assert [k for k, v in steps.items() if v == "better"] == [("FAILED", "PASSED"), ("INCONCLUSIVE", "PASSED")]
    assert steps["FAILED", "INCONCLUSIVE"] == steps["PASSED", None] == "not known" and steps[None, "FAILED"] == "worse"


def test_one_board_of_each_run_is_the_same_board_and_several_are_not():
    a, b = (replace(three(), pairs=[replace(p, board=uri) for p in three().pairs]) for uri in ("ssh:a", "ssh:b"))
    assert diff_of(a, b).change == "same" and diff_of(a, b).compared == 9
    both = replace(a, pairs=[*a.pairs, *b.pairs])
    assert diff_of(both, a).change == "not known" and diff_of(both, both).compared == 18
    twice = replace(a, pairs=[*a.pairs, *a.pairs])
    assert diff_of(twice, twice).compared == 18 and diff_of(twice, a).change == "not known"


def test_other_models_options_and_hashes_are_facts_and_caveats():
    a, b = three(), three()
    a.models, b.models = ([{"path": "m", "kind": "model.bin", "sha256": h}] for h in ("00", "11"))
    b.decimals = {**b.decimals, "digits": 2}
    found = diff_of(a, b)
    facts = {f.what: (f.before, f.now) for f in found.facts}
    assert facts["model model.bin sha256"] == ("00", "11") and facts["decimals digits"] == ("5", "2")
    last = render(found).splitlines()[-1]
    assert "other models" in last and "other decimals" in last


def test_tensors_of_one_run_only_and_times():
    a, b = three(), three()
    del b.pairs[1].tensors[0]
    a.sides, b.sides = ([{"name": "board", "node_seconds": {"n1": s}}] for s in (0.5, 0.25))
    found = diff_of(a, b)
    assert [(o.run, o.pair, o.tensor) for o in found.only] == [("a", "reference~board", "n1")]
    assert "1 tensor of a not compared in b" in found.caveats
    times = {(t.of, t.name): (t.before, t.now) for t in found.times}
    assert times["node", "n1"] == (0.5, 0.25) and "500.00 ms -> 250.00 ms" in render(found)


def written(found: ReportDifference, name: str, tmp_path: Path) -> str:
    path = tmp_path / f"d{formats.page(name).SUFFIX}"
    formats.page(name).write_difference(found, str(path))
    return path.read_text(encoding="utf-8")


class Cells(HTMLParser):
    """The rows of all tables, cell by cell as text."""

    def __init__(self, text: str):
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: list[str] = []
        self._inside = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self._inside = True

    def handle_endtag(self, tag):
        self._inside = self._inside and tag not in ("td", "th")

    def handle_data(self, data):
        if self._inside:
            self.rows[-1][-1] += data


def metrics_of(page: Cells) -> dict[tuple[str, str, str], tuple[str, str]]:
    """Returns before and now by pair, tensor and metric: a tensor's numbers stand below its heading."""
    found, place = dict[tuple[str, str, str], tuple[str, str]](), ("", "")
    for row in (cells for cells in page.rows if len(cells) == 4):
        _, what, before, now = row
        if before.split()[-1:] in (["PASSED"], ["FAILED"]):
            tensor, _, pair = what.partition(" ")
            place = pair, tensor
        else:
            found[(*place, what)] = before, now
    return found


@pytest.mark.parametrize(
    "pair", [(three(), three(board=wrong_at("n2"))), (three(board=wrong_at("n2")), three()), (three(), three())]
)
def test_all_formats_have_the_same_numbers(pair, tmp_path):
    found = diff_of(*pair)
    document = json.loads(written(found, "json", tmp_path))
    jsonschema.Draft202012Validator(SCHEMAS["diff"]()).validate(document)
    metrics = {
        (t["pair"], t["tensor"], m["metric"]): (m["before"], m["now"])
        for t in document["tensors"]
        for m in t["metrics"]
    }
    assert bool(metrics) == (document["change"] != "same")
    lines = [line for line in written(found, "csv", tmp_path).splitlines() if not line.startswith("#")]
    of_csv = {
        (r["pair"], r["tensor"], r["what"]): (r["before"], r["now"])
        for r in csv.DictReader(lines)
        if r["kind"] == "metric"
    }
    assert of_csv == {k: tuple("" if v is None else str(v) for v in values) for k, values in metrics.items()}
    html, markdown, junit = (written(found, name, tmp_path) for name in ("html", "markdown", "junit"))
    of_html = metrics_of(Cells(html))
    cases = {
        (c.get("classname"), c.get("name")): (c.find("failure") is not None, "".join(c.itertext()))
        for c in xml.fromstring(junit).iter("testcase")
    }
    for (name, tensor, metric), values in metrics.items():
        said = tuple("-" if v is None else str(v) for v in values)
        assert of_html[name, tensor, metric] == said
        bare = markdown.replace("\\", "")
        assert f"| {name} | {tensor} | {metric} | {said[0]} | {said[1]} |" in bare
        failed, text = cases[name, tensor]
        assert not failed or f"{metric} {said[0]} -> {said[1]}" in text


@pytest.mark.parametrize("name", [n for n in formats.names() if hasattr(formats.page(n), "write_difference")])
def test_names_of_any_bytes_are_text(name, tmp_path):
    names = [*NASTY, "half \udc80 \ud800", "\x00\x07"]
    a, b = (
        two(side("reference", **{n: [1.0, 2.0] for n in names}), side("board", **{n: [1.0, v] for n in names}))
        for v in (2.0, 2.5)
    )
    found = compare_reports(a, b, "a\n\x1b", "b")
    text = written(found, name, tmp_path)
    assert "\x1b" not in text and "new\nline" not in text
    if name == "json":
        assert {t["tensor"] for t in json.loads(text)["tensors"]} == set(names)
    if name == "csv":
        rows = [r for r in csv.DictReader(io.StringIO(text.partition("\n")[2])) if r["kind"] == "tensor"]
        assert len(rows) == len(names) and "'=1+1" in {r["tensor"] for r in rows}
    if name == "junit":
        assert sum(c.get("name") != "verdict" for c in xml.fromstring(text).iter("testcase")) == len(names) + 1
    if name == "html":
        assert Cells(text).tags.count("script") == 1 and "default-src &#x27;none&#x27;" in text
    if name == "markdown":
        assert not re.search(r"(?<!\\)<(?!/?(details|summary)>)", text) and "@user" not in text
    assert "\x1b" not in render(found)


def test_the_command(tmp_path, capsys):
    a, b = saved(three(), tmp_path / "a.json"), saved(three(board=wrong_at("n2")), tmp_path / "b.json")
    assert main(["report", "diff", a, b]) == 1
    printed = capsys.readouterr().out
    assert "blame of board: none -> n2" in printed and printed.splitlines()[-1].startswith(
        "report diff WORSE: PASSED -> FAILED"
    )
    assert main(["report", "diff", b, a, "-q"]) == 0
    assert capsys.readouterr().out.count("\n") == 1
    assert main(["report", "diff", a, b, "--json", "-"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "qverify.report_diff/1"
    assert document["command"] == f"qverify report diff {a} {b}"


def test_a_narrow_table_still_says_of_which_two_sides_a_row_is():
    def renamed(report):
        for pair in report.pairs:
            for row in pair.tensors:
                row.name = f"model_stage_three_block_{row.name}_QuantizeLinear_Output"
        return report

    found = diff_of(renamed(three()), renamed(three(board=wrong_at("n2"))))
    rows = [
        line
        for line in render(found, TextView(columns=80, every=True)).splitlines()
        if "n2_Quant" in line and "PASSED" in line
    ]
    assert len(rows) == len(set(rows)) == 2 and "ref~board" in rows[0] and "sim~board" in rows[1]


def test_captures_are_judged_again(digits, tmp_path, capsys):
    run = ["-m", f"{digits}/digits_quant.onnx", "-r", "True", "-q"]
    for name, board in (("good", "local"), ("bad", "faulty:local?fault=plus_one@relu2_QuantizeLinear_Output")):
        main([*run, "-b", board, "--capture", str(tmp_path / name), "--json", str(tmp_path / f"{name}.json")])
    capsys.readouterr()
    for good in ("good", "good.json"):
        for bad in ("bad", "bad.json"):
            assert main(["report", "diff", str(tmp_path / good), str(tmp_path / bad), "-q"]) == 1
            assert "16 equal" not in capsys.readouterr().out
    assert main(["report", "diff", str(tmp_path / "good"), str(tmp_path / "good.json"), "-q"]) == 0


DEEP = "[" * 200 + "]" * 200


@pytest.mark.parametrize(
    ("alter", "said"),
    [
        (lambda d: {}, "schema: got none"),
        (lambda d: {**d, "schema": "qverify.report/2"}, "wanted qverify.report/1"),
        (lambda d: {**d, "verdict": "GOOD"}, "verdict: got 'GOOD'"),
        (lambda d: {**d, "pairs": {}}, "pairs: got {}, wanted a list"),
        (lambda d: {k: v for k, v in d.items() if k != "pairs"}, "pairs: missing"),
        (lambda d: {**d, "decimals": json.loads(DEEP)}, "levels"),
        (lambda d: {**d, "pairs": [{**d["pairs"][0], "frame": 1 << 80}]}, "frame: got"),
        (lambda d: {**d, "pairs": [{**d["pairs"][0], "frame": True}]}, "frame: got True"),
        (lambda d: {**d, "pairs": [{**d["pairs"][0], "verdict": "FAILED"}]}, "the file was changed"),
        (lambda d: {**d, "sides": [{"node_seconds": {"n": "soon"}}]}, "node_seconds"),
        (
            lambda d: {**d, "pairs": [{**d["pairs"][0], "tensors": d["pairs"][0]["tensors"][:1] * 2}]},
            "two tensors of one name",
        ),
        (lambda d: {**d, "timings": {"total": "x\x1b"}}, "timings.total: got 'x\\x1b'"),
    ],
)
def test_what_is_no_report_is_one_line(alter, said):
    with pytest.raises(BadFileError) as error:
        report_of(alter(json.loads(json.dumps(to_json(three())))), "r.json")
    assert said in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "data", [b"", b"\x00\xff", b"{" * 100_000, b'{"a": NaN}', b'{"a":1,"a":2}', b'"x"', b"9" * 5000, b"[1e999]"]
)
def test_what_is_no_json_is_exit_2(data, tmp_path, capsys):
    bad, good = tmp_path / "bad.json", saved(three(), tmp_path / "a.json")
    bad.write_bytes(data)
    assert main(["report", "diff", good, str(bad)]) == 2
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1 and "bad.json" in printed and "internal" not in printed


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_committed_schemas_are_the_present_ones(name, capsys):
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name]())
    assert (ROOT / "docs/reference/schemas" / f"{name}.json").read_text() == schema_text(name) + "\n", (
        "run scripts/schemas"
    )
    assert main(["report", "schema", name]) == 0
    assert capsys.readouterr().out == schema_text(name) + "\n"


def test_rows_show_numbers_that_read_back():
    found = diff_of(three(), three(board=wrong_at("n2")))
    for row in difference_rows(found):
        for value in (row.before, row.now):
            if isinstance(value, float):
                assert str(plain(float(shown(value)))) == str(plain(value))


def test_a_report_that_contradicts_itself_is_refused(tmp_path, digits, capsys):
    """A pair that passed has no cause and no tensor that failed."""
    path = tmp_path / "a.json"
    words = ["-m", str(digits / "digits_quant.onnx"), "-b", "faulty:local?fault=bitflip@relu2_QuantizeLinear_Output"]
    assert main([*words, "-r", "True", "-q", "--json", str(path)]) == 1
    good = json.loads(path.read_text())
    changed = copy.deepcopy(good)
    changed["verdict"] = "PASSED"
    for pair in changed["pairs"]:
        pair["verdict"] = "PASSED"
    negative = copy.deepcopy(good)
    negative["pairs"][0]["coverage"]["elements"] = -1
    for wrong, said in ((changed, "not all of it is"), (negative, "a negative number of elements")):
        (tmp_path / "b.json").write_text(json.dumps(wrong))
        assert main(["report", "diff", str(path), str(tmp_path / "b.json")]) == 2
        assert said in capsys.readouterr().err


def test_a_board_that_was_named_twice_is_read(tmp_path, digits):
    path = str(tmp_path / "a.json")
    words = ["-m", str(digits / "digits_quant.onnx"), "-b", "local", "-b", "local", "-q", "--json", path]
    assert main(words) == 0
    assert main(["report", "diff", path, path]) == 0


def test_a_long_difference_is_folded_on_its_page(tmp_path: Path) -> None:
    """Some hundred tensors, each with its numbers, are a screen or two, not a page of 176,000 pixels."""
    names = [f"t{number:03}" for number in range(300)]
    before, now = (
        two(side("reference", **{n: [1.0, 2.0] for n in names}), side("board", **{n: [1.0, 2.0 + add] for n in names}))
        for add in (0.0, 0.5)
    )
    difference = diff_of(before, now)
    path = tmp_path / "d.html"
    formats.page("html").write_difference(difference, str(path))
    page = path.read_text()
    opened, _, folded = page.partition("<details>")
    shown = [n for n in names if f">{n}<" in opened]
    assert 0 < len(shown) <= 12 and "more tensors</summary>" in folded
    assert all(f">{n}<" in page for n in names)

"""What qverify report matrix reads: reports, captures, folders, facts of files, and files that are none."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest
import qverify
from qverify.cli.main import main
from qverify.errors import BadFileError, UsageError
from qverify.report.matrix.skim import Skimmer
from qverify.report.matrix.stored_runs import stored_runs
from qverify.report.report_json import to_json
from qverify.session.offline.open_runs import open_runs, read_labels, read_path_labels

from tests.plain.matrix_runs import report, saved

WORDS = ["report", "matrix"]


def test_a_report_of_two_boards_is_a_cell_for_each(tmp_path):
    files = example_files()
    path = tmp_path / "r.json"
    fault = "faulty:local?fault=round_floor@relu2_QuantizeLinear_Output"
    assert main(["-m", files, "-b", "local", "-b", fault, "--json", str(path), "-q"]) == 1
    found = qverify.report_matrix([path], columns=["board"]).document
    assert {column.name: cell.verdict for column, cell in zip(found.columns, found.cells, strict=True)} == {
        "local": "PASSED",
        fault: "FAILED",
    }


def example_files() -> str:
    from qverify import example

    folder = Path(example.__file__).parent
    return str(next(folder.glob("*quant*.onnx")))


def test_facts_of_the_command_line_of_boards_toml_and_of_the_environment_are_in_the_report(tmp_path, monkeypatch):
    (tmp_path / "boards.toml").write_text('[boards.desk]\nuri = "local"\ntags = { soc = "j5", firmware = "0.9" }\n')
    monkeypatch.setenv("QVERIFY_BOARDS", str(tmp_path / "boards.toml"))
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    out, capture = tmp_path / "r.json", tmp_path / "c"
    words = ["-m", example_files(), "-b", "desk", "-q", "--json", str(out), "--capture", str(capture)]
    assert main([*words, "--fact", "toolchain=2.3.0", "--fact", "firmware=1.2"]) == 0
    document = json.loads(out.read_text())
    board = next(side for side in document["sides"] if side["name"] == "board")
    assert (
        document["facts"] == {"toolchain": "2.3.0", "firmware": "1.2"}
        and document["environment"]["OMP_NUM_THREADS"] == "2"
    )
    assert (board["inventory"], board["tags"]) == ("desk", {"soc": "j5", "firmware": "0.9"})
    jsonschema.validate(
        document,
        json.loads(subprocess.run([sys.executable, "-m", "qverify", "schema"], capture_output=True, check=True).stdout),
    )
    runs = open_runs([str(out), str(capture)]).runs
    assert [(run.facts["board"], run.facts["firmware"], run.facts["soc"], run.verdict) for run in runs] == [
        ("desk", "1.2", "j5", "PASSED"),
        ("desk", "1.2", "j5", "PASSED"),
    ]


@pytest.mark.parametrize("word", ["firmware", "=1", "firmware=", "model=x", "a b=1", "firmware=a\nb", f"x={'v' * 300}"])
def test_a_fact_that_is_none_is_one_line(word, capsys):
    assert main(["-m", example_files(), "--fact", word]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_reformatted_report_gives_the_same_as_a_written_one(tmp_path):
    made = report(False, firmware="1")
    documents = [json.dumps(to_json(made), indent=1), json.dumps(to_json(made)), json.dumps(to_json(made), indent=3)]
    with Skimmer() as skimmer:
        runs = [next(iter(stored_runs(skimmer.read(text.encode(), "x"), "x"))) for text in documents]
    assert runs[0] == runs[1] == runs[2] and runs[0].worst is not None


def test_rows_that_failed_are_found_however_the_file_is_written(tmp_path):
    made = report(False, firmware="1")
    document = to_json(made)
    document["verdict"], document["blame"], document["blamed"] = "PASSED", None, []
    for pair in document["pairs"]:
        pair |= {"verdict": "PASSED", "cause": None, "why": ""}
    with Skimmer() as skimmer:
        for indent in (1, None, 2):
            with pytest.raises(BadFileError, match="not all of it is"):
                skimmer.read(json.dumps(document, indent=indent).encode(), "x.json")


def spoiled(text: str) -> list[str]:
    """The text of a report, damaged in ways that a reader of lines may overlook."""
    middle = text.index('"tensors"') + 400
    row = text.index("\n    },\n    {")
    return [
        text[:middle],
        text[:middle] + text[middle + 1 :].replace('"', "", 1),
        text.replace('"bit_equal": true', '"bit_equal": tru', 1),
        text[:row] + text[row:].replace("},", "}", 1),
        text.replace("\n   ],", "\n   ]\n   ],", 1),
        text + "}",
        text.replace("{", "[", 1),
        text.replace('"qverify.report/1"', '"qverify.report/2"', 1),
        text.replace('"verdict": ', '"verdict": "PASSED",\n "verdict": ', 1),
        text.replace("0.0", "NaN", 1) if "0.0" in text else "x",
    ]


@pytest.mark.parametrize("number", range(10))
def test_what_is_no_report_is_one_line_that_names_the_file(number, tmp_path, capsys):
    good = saved(report(firmware="1"), tmp_path / "good.json")
    bad = tmp_path / "bad.json"
    bad.write_text(spoiled(Path(saved(report(False, firmware="2"), tmp_path / "b.json")).read_text())[number])
    assert main([*WORDS, good, str(bad)]) == 2
    printed = capsys.readouterr()
    assert (
        printed.err.count("\n") == 1 and "bad.json" in printed.err and "internal" not in printed.err and not printed.out
    )
    assert main([*WORDS, good, str(bad), "--skip-unreadable", "--columns", "firmware"]) == 3
    shown = capsys.readouterr().out
    assert "not readable: " in shown and "1 file not readable" in shown and "NO VERDICT" not in shown


def test_folders_gzip_and_documents_of_other_kinds(tmp_path, capsys):
    saved(report(firmware="1"), tmp_path / "runs" / "a" / "1.json")
    (tmp_path / "runs" / "2.json.gz").write_bytes(gzip.compress(json.dumps(to_json(report(firmware="2"))).encode()))
    (tmp_path / "runs" / "triage.json").write_text('{"schema": "qverify.triage/1"}')
    (tmp_path / "runs" / "readme.txt").write_text("no report")
    found = qverify.report_matrix([tmp_path / "runs"], columns=["firmware"])
    assert found.document.runs == 2 and found.exit_status == 0 and "1 other document" in found.document.notes[0]
    assert main([*WORDS, str(tmp_path / "runs" / "triage.json")]) == 2  # it was named
    (tmp_path / "empty").mkdir()
    assert main([*WORDS, str(tmp_path / "empty")]) == 2 and "no report in this folder" in capsys.readouterr().err
    for data in (gzip.compress(b"{}")[:-4], b"\x1f\x8b", gzip.compress(b"{}") + b"more"):
        (tmp_path / "bad.json.gz").write_bytes(data)
        assert main([*WORDS, str(tmp_path / "bad.json.gz")]) == 2


def test_facts_of_files_and_of_their_names_never_contradict_a_report(tmp_path):
    a, b = (
        saved(report(), tmp_path / "fw-1.9_tc-2.3" / "a.json"),
        saved(report(False, firmware="2"), tmp_path / "b.json"),
    )
    labels = tmp_path / "labels.csv"
    labels.write_text("file,firmware\na.json,1.9\n")
    runs = open_runs([a, b], labels_of=read_labels(str(labels))).runs
    assert [run.facts["firmware"] for run in runs] == ["1.9", "2"]
    assert (
        open_runs([a], labels_of=read_path_labels("fw-{firmware}_tc-{toolchain}")).runs[0].facts["toolchain"] == "2.3"
    )
    labels.write_text("file,firmware\nb.json,3\n")
    with pytest.raises(UsageError, match="states firmware 2, and its label says 3"):
        open_runs([b], labels_of=read_labels(str(labels)))
    for text in (
        "",
        "file\n",
        "file,firmware\na.json,1,2\n",
        "file,model\na.json,x\n",
        'file,a\n"x\n',
        "file,a\nx,1\nx,2\n",
    ):
        labels.write_text(text)
        with pytest.raises(BadFileError):
            read_labels(str(labels))
    for template in ("fw", "{model}", "{a}{b}", "{a}-{a}", "x/{a}", "{}"):
        with pytest.raises(UsageError):
            read_path_labels(template)
    start = time.monotonic()
    assert read_path_labels("a{b}a{c}a{d}a{e}")("a" * 200_000 + "/x.json") is not None
    assert time.monotonic() - start < 2

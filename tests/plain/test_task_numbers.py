"""--labels and --task-metric: the sides beside each other at the network's task, in every format, without a word in the
verdict."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import qverify
from qverify import errors, example
from qverify.cli.main import main
from qverify.renderers import formats
from qverify.report.schema import report_schema

from tests.ops.qdq import Qdq

EXAMPLE = Path(example.__file__).parent
QUANT, FLOAT = str(EXAMPLE / "digits_quant.onnx"), str(EXAMPLE / "digits_float.onnx")
WRONG = "faulty:local?fault=channel_reverse@logits_QuantizeLinear_Output"  # right for no digit but by chance


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    folder = tmp_path / "digits"
    folder.mkdir()
    with np.load(EXAMPLE / "digits.npz") as arrays:
        for name, value in arrays.items():
            np.save(folder / f"{name}.npy", value)
    return folder


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    path = tmp_path / "labels.csv"
    path.write_text("file,label\n" + "".join(f"digit_{n}.npy,{n}\n" for n in range(10)))
    return path


def test_every_side_beside_the_others(digits, labels, tmp_path):
    """The shares are those that numpy finds in the tensors of the same run."""
    kept = tmp_path / "capture"
    report = qverify.verify([FLOAT, QUANT], board="local", inputs=digits, labels=labels, capture=kept)
    assert report.passed
    (task,) = report.document.tasks
    assert (task.metric, task.labels, task.output, task.frames) == ("classification", "labels.csv", "prob", 10)
    assert [side.side for side in task.sides] == ["float", "reference", "simulator", "board"]
    for side in task.sides[1:]:
        right = [int(report.tensor(side.side, "prob", n).argmax()) == n for n in range(10)]
        assert side.frames == 10 and side.values["top-1"] == pytest.approx(sum(right) / 10)
        assert side.values["top-1"] <= side.values["top-5"] <= 1
    import onnxruntime

    session = onnxruntime.InferenceSession(FLOAT)
    images = [np.load(digits / f"digit_{n}.npy") for n in range(10)]
    (name,) = [i.name for i in session.get_inputs()]
    found = [int(session.run(["prob"], {name: image})[0].argmax()) == n for n, image in enumerate(images)]
    assert task.sides[0].values["top-1"] == pytest.approx(sum(found) / 10)
    assert task.only_board_wrong == []


def test_frames_that_only_the_board_has_wrong_in_every_format(digits, labels, tmp_path, capsys):
    words = ["-m", f"{FLOAT},{QUANT}", "-b", WRONG, "-i", str(digits), "--labels", str(labels)]
    files = {name: tmp_path / f"r{formats.page(name).SUFFIX}" for name in ("json", "html", "junit", "csv", "markdown")}
    assert main([*words, *(w for n, p in files.items() for w in ("--report", f"{n}={p}"))]) == 1
    text = capsys.readouterr().out
    document = json.loads(files["json"].read_text())
    jsonschema.validate(document, report_schema())
    (task,) = document["tasks"]
    shares = {side["side"]: side["values"]["top-1"] for side in task["sides"]}
    wrong = task["only_board_wrong"]
    assert shares["board"] < 0.5 < shares["simulator"] and len(wrong) >= 5
    assert all(row["answers"]["board"] != row["label"] == row["answers"]["simulator"] for row in wrong)
    assert "Task numbers" in files["html"].read_text(encoding="utf-8")
    for shown in (text, *(p.read_text(encoding="utf-8").replace("\\", "") for n, p in files.items() if n != "json")):
        assert f"{round(shares['board'] * 10)} of 10" in shown
        assert f"{len(wrong)} frames that only the board has wrong" in shown
        assert all(row["source"] in shown for row in wrong)


def test_a_task_number_changes_no_verdict(digits, labels, tmp_path):
    """Wrong labels and right ones: the same report but for the numbers."""
    (tmp_path / "other.json").write_text(json.dumps({f"digit_{n}.npy": 0 for n in range(10)}))
    options = {"board": "local", "inputs": digits, "spot_seed": 1}
    none = qverify.verify(QUANT, **options).to_json()
    for path in (labels, tmp_path / "other.json"):
        with_labels = qverify.verify(QUANT, labels=path, **options).to_json()
        for key in ("verdict", "blame", "pairs", "caveats", "notes"):
            assert with_labels[key] == none[key], key


@pytest.mark.parametrize(
    "text",
    ["\n".join(map(str, range(10))), json.dumps(list(range(10))), json.dumps({f"digit_{n}.npy": n for n in range(10)})],
)
def test_forms_of_labels(digits, tmp_path, text):
    (tmp_path / "l").write_text(text)
    (task,) = qverify.verify(QUANT, inputs=digits, labels=tmp_path / "l").document.tasks
    assert task.sides[0].values["top-1"] >= 0.8


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("digit_0.npy,0\n", "no label for 'digit_1.npy' and 8 more"),
        ("file,label\ndigit_x.npy,0\n", "'digit_x.npy' is none of the 10 frames of -i; did you mean"),
        ("1\n2\n", "2 labels, wanted one for each of 10 frames"),
        ("\n".join(map(str, range(1, 11))), "label '10', wanted a class from 0 to 9"),
        ("\n".join("abcdefghij"), "label 'a', wanted a class from 0 to 9"),
        ("digit_0.npy,0\ndigit_0.npy,1\n", "two labels for 'digit_0.npy'"),
        ("digit_0.npy,0\n1\n", "wanted `file,label` on every line"),
        ("", "wanted `file,label` on every line"),
        ("[1, 2", "not JSON"),
        ("\xff", "UTF-8"),
    ],
)
def test_mistakes_in_labels_are_one_line(digits, tmp_path, capsys, text, said):
    path = tmp_path / "l.csv"
    path.write_bytes(text.encode("latin-1"))
    assert main(["-m", QUANT, "-i", str(digits), "--labels", str(path)]) == 2
    out = capsys.readouterr()
    assert said in out.err and out.err.count("\n") == 1 and out.out == ""


def test_mistakes_in_options(digits, labels, tmp_path, capsys):
    metric = tmp_path / "m.py"
    metric.write_text("word = 1\ndef broken(o, l, s):\n    return 1 / 0\ndef text(o, l, s):\n    return 'x'\n")
    for words, said in (
        (["--labels", labels], "give them with -i"),
        (["--labels", tmp_path / "no.csv", "-i", digits], "no.csv"),
        (["--task-metric", "m", "-i", digits], "wanted FILE.py:FUNCTION"),
        (["--task-metric", tmp_path / "no.py:f", "-i", digits], "there is no file"),
        (["--task-metric", "no_such_module:f", "-i", digits], "cannot be loaded: ModuleNotFoundError"),
        (["--task-metric", f"{metric}:absent", "-i", digits], "has no function absent"),
        (["--task-metric", f"{metric}:word", "-i", digits], "has no function word"),
        (["--task-metric", f"{metric}:broken", "-i", digits], "digit_0.npy, reference: ZeroDivisionError"),
        (["--task-metric", f"{metric}:text", "-i", digits], "wanted a finite number, True or False"),
    ):
        assert main(["-m", QUANT, *map(str, words)]) == 2
        err = capsys.readouterr().err
        assert said in err and err.count("\n") == 1, err


def test_no_class_axis(tmp_path):
    m = Qdq(seed=1)
    x = m.input((1, 3, 5, 5))
    m.output(m.quantize(m.op("Relu", [x])))
    (tmp_path / "q.onnx").write_bytes(m.model().SerializeToString())
    np.save(tmp_path / "x.npy", np.zeros((1, 3, 5, 5), "f4"))
    (tmp_path / "l.csv").write_text("1\n")
    with pytest.raises(errors.TaskError, match="no class axis"):
        qverify.verify(tmp_path / "q.onnx", inputs=tmp_path / "x.npy", labels=tmp_path / "l.csv")


def test_a_metric_of_the_users(digits, labels, tmp_path):
    path = tmp_path / "metric.py"
    path.write_text(
        "def right(outputs, label, file):\n"
        "    assert file == f'digit_{label}.npy' and outputs['prob'].dtype == 'float64'\n"
        "    return outputs['prob'].argmax() == int(label)\n"
        "def largest(outputs, label, file):\n"
        "    return outputs['prob'].max()\n"
    )
    options = {"board": WRONG, "inputs": digits, "labels": labels}
    (own,) = qverify.verify(QUANT, task_metric=f"{path}:right", **options).document.tasks
    (ours,) = qverify.verify(QUANT, **options).document.tasks
    assert [next(iter(s.values.values())) for s in own.sides] == [s.values["top-1"] for s in ours.sides]
    assert [f.source for f in own.only_board_wrong] == [f.source for f in ours.only_board_wrong] != []
    (mean,) = qverify.verify(QUANT, inputs=digits, task_metric=f"{path}:largest").document.tasks
    assert not mean.right_or_wrong and all(0 < next(iter(s.values.values())) <= 1 for s in mean.sides)


def test_frames_without_a_value_are_left_out_and_said(digits, labels):
    """The board is not reached: its numbers are of no frame, and the verdict is what it is without labels."""
    report = qverify.verify(QUANT, board="nohost.invalid", inputs=digits, labels=labels)
    assert report.verdict == "INCONCLUSIVE"
    (task,) = report.document.tasks
    board = task.sides[-1]
    assert (board.side, board.frames, board.values) == ("board", 0, {})
    assert "board has no outputs of 1 frame" in report.text() and "board     no frame" in report.text()


def test_a_float_model_without_labels_is_still_refused(digits, capsys):
    assert main(["-m", f"{FLOAT},{QUANT}", "-i", str(digits)]) == 2
    assert "qverify triage" in capsys.readouterr().err


def test_the_csv_still_has_its_columns(digits, labels, tmp_path):
    path = tmp_path / "r.csv"
    report = qverify.verify(QUANT, board="local", inputs=digits, labels=labels)
    report.save(path)
    lines = path.read_text().splitlines()
    assert any(line.startswith("# board") and "top-1" in line for line in lines)
    assert next(csv.reader([line for line in lines if not line.startswith("#")]))[0] == "pair"


@pytest.mark.parametrize("text", ["import sys\ndef f(o, l, n): sys.exit(0)\n", "import sys\nsys.exit(0)\n"])
def test_a_metric_that_exits_is_a_mistake(text, tmp_path, capsys):
    (tmp_path / "m.py").write_text(text)
    frames = tmp_path / "frames"
    frames.mkdir()
    x = np.load(EXAMPLE / "digits.npz")
    np.save(frames / "x.npy", x[x.files[0]])
    words = ["-m", QUANT, "-b", "local", "-i", str(frames), "--task-metric", f"{tmp_path / 'm.py'}:f"]
    assert main(words) == 2
    assert "SystemExit: 0" in capsys.readouterr().err

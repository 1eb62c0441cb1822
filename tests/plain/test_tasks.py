"""--task and the gates of its numbers: the COCO evaluator on the network's own boxes, verdicts that fail closed, and the role that is to
blame."""

from __future__ import annotations

import json
import math
import shlex
import sys
from pathlib import Path

import jsonschema
import numpy as np
import onnxruntime
import pytest
import qverify
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from qverify.cli.main import main
from qverify.errors import BadFileError, TaskError
from qverify.renderers.html_page.page import render
from qverify.report.document import Pair, ReportDocument, TaskNumbers, TaskSide
from qverify.report.read_report import read_report
from qverify.report.schema import report_schema
from qverify.session.task.coco import read_coco
from qverify.session.task.gates import hold_to_task_gates, judge_task_gates, parse_task_gates
from qverify.session.task.kinds import parse_task, task_pages
from qverify.session.task.metrics import Means

from tests.plain.chromium import USABLE, WHY_NOT, Chromium
from tests.plain.square_detector import CELLS, STRIDE, make

TOOL = Path(__file__).with_name("tool_of_tasks.py")
DECODER = "yolov8,strides=8,iou=0.45"
GATE = "task:map>=0.99*reference"


@pytest.fixture(scope="module")
def squares(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make(tmp_path_factory.mktemp("squares"))


def tool(change: str = "", missing: str = "") -> str:
    words = ["--model", "{model}", "--inputs", "{npys}", "--out", "{out}", "--change", change, "--missing", missing]
    return " ".join(
        [shlex.quote(sys.executable), shlex.quote(str(TOOL)), *(w if w[:1] == "{" else shlex.quote(w) for w in words)]
    )


def verify(squares: dict[str, Path], change: str = "", missing: str = "", **options) -> qverify.Report:
    common = {
        "board": "local",
        "runner": tool(change, missing),
        "run_sim": False,
        "min_cosine": 0.5,
        "task": "detection",
    }
    given = {
        **common,
        "inputs": squares["frames"],
        "labels": squares["labels"],
        "decoder": DECODER,
        "gate": GATE,
        **options,
    }
    return qverify.verify([squares["quantized"]], **given)


def own_map(outputs: list[np.ndarray], labels: dict) -> list[float]:
    """Boxes of the float network decoded here, in plain Python, and what the COCO evaluator says of them."""
    categories, found = sorted(c["id"] for c in labels["categories"]), []
    for image, values in zip(labels["images"], outputs, strict=True):
        rows = []
        for cell in range(CELLS * CELLS):
            cx, cy, wide, high, *scores = (float(v) for v in values[0, :, cell])
            corners = (cx - wide / 2, cy - high / 2, cx + wide / 2, cy + high / 2)
            rows += [(score, corners, kind) for kind, score in enumerate(scores) if score > 0.001]
        rows.sort(key=lambda row: -row[0])
        kept = []
        for score, box, kind in rows:
            if all(kind != other or iou(box, b) <= 0.45 for _, b, other in kept):
                kept.append((score, box, kind))
        for score, box, kind in kept[:300]:
            x1, y1, x2, y2 = (min(max(v, 0.0), float(CELLS * STRIDE)) for v in box)
            row = {"image_id": image["id"], "category_id": categories[kind], "bbox": [x1, y1, x2 - x1, y2 - y1]}
            found.append({**row, "score": score})
    truth = COCO()
    truth.dataset = labels
    truth.createIndex()
    evaluation = COCOeval(truth, truth.loadRes(found), "bbox")
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    return [float(v) for v in evaluation.stats]


def iou(a, b) -> float:
    wide, high = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    inside = max(wide, 0.0) * max(high, 0.0)
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - inside
    return inside / union if union > 0 else 0.0


def test_map_is_that_of_the_coco_evaluator_on_the_networks_own_boxes(squares):
    report = qverify.verify(
        [squares["float"], squares["quantized"]],
        inputs=squares["frames"], labels=squares["labels"], task="detection", decoder=DECODER,
    )  # fmt: skip
    labels = json.loads(squares["labels"].read_text())
    (task,) = report.document.tasks
    sides = {side.side: side.values for side in task.sides}
    for side, path in (("float", squares["float"]), ("reference", squares["quantized"])):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(str(path), options)
        outputs = [session.run(None, {"image": np.load(f)})[0] for f in sorted(squares["frames"].iterdir())]
        wanted = own_map(outputs, json.loads(json.dumps(labels)))
        assert 0.9 < wanted[0] < 1
        for name, value in zip(("map", "map50", "map75"), wanted, strict=False):
            assert sides[side][name] == pytest.approx(value, abs=1e-6 if side == "float" else 5e-3)
    assert report.passed and not task.gates and task.decoder == "yolov8"


def test_a_board_with_one_wrong_box_channel_is_failed_and_its_role_named(squares, tmp_path, capsys):
    """The width is 1.3 times too large: every tensor's cosine passes, the task does not."""
    report = verify(squares, "y[:, 2] *= np.float32(1.3)", capture=tmp_path / "kept")
    assert report.verdict == "FAILED"
    (task,) = report.document.tasks
    (row,) = task.gates
    assert (row.side, row.verdict) == ("board", "FAILED") and row.value < row.limit
    (blamed,) = task.blamed
    assert (blamed.output, blamed.role, blamed.side) == ("boxes", "box", "board")
    assert blamed.channels.startswith("channel 2 of 6") and blamed.restored == pytest.approx(blamed.reference)
    pairs = [p for p in report.document.pairs if p.cause == "task"]
    assert len(pairs) == 12 and all("role box of boxes is to blame" in p.why for p in pairs)
    assert all(r.verdict == "PASSED" for p in report.document.pairs for r in p.tensors)  # by the gate of tensors alone
    assert task.only_board_wrong and task.only_board_wrong[0].picture is not None
    assert {box.side for box in task.only_board_wrong[0].boxes} == {"label", "reference", "board"}
    document = report.to_json()
    jsonschema.validate(document, report_schema())
    assert "picture" not in json.dumps(document)
    again = qverify.replay(tmp_path / "kept")  # which has no labels
    assert again.verdict == "INCONCLUSIVE" and "a capture has no labels" in " ".join(again.document.caveats)
    path = tmp_path / "r.json"
    path.write_text(json.dumps(document))
    assert read_report(str(path)).tasks[0].blamed[0].role == "box"
    document["verdict"] = "PASSED"
    for pair in document["pairs"]:
        pair |= {"verdict": "PASSED", "cause": None}
    path.write_text(json.dumps(document))
    with pytest.raises(BadFileError, match="a gate of the task is not"):
        read_report(str(path))
    page = render(report.document)
    assert "gates of the task" in page and page.count("<image ") >= 1 and "role box of boxes is to blame" in page


def test_described_roles_are_blamed_by_their_names(squares, tmp_path):
    description = tmp_path / "d.toml"
    description.write_text('[outputs.boxes]\nroles = {place = "0:2", extent = "2:4", bright = "4", dark = "5"}\n')
    for change, role in (("y[:, 5] *= np.float32(0.001)", "dark"), ("y[:, 1] += np.float32(5)", "place")):
        report = verify(squares, change, description=description)
        assert report.verdict == "FAILED" and report.document.tasks[0].blamed[0].role == role, change


def test_roles_that_only_fail_together_are_said_so(squares, tmp_path):
    """A shift, and smaller boxes: each alone keeps an IoU above 0.5 with the labels, both together do not."""
    description = tmp_path / "d.toml"
    description.write_text('[outputs.boxes]\nroles = {place = "0:2", extent = "2:4", scores = "4:6"}\n')
    change = "y[:, 0] += np.float32(0.3) * y[:, 2]; y[:, 2:4] *= np.float32(0.75)"
    report = verify(squares, change, description=description, gate="task:map50>=0.99*reference")
    (blamed,) = report.document.tasks[0].blamed
    assert report.verdict == "FAILED" and (blamed.output, blamed.role) == ("", "")
    assert {"boxes.place", "boxes.extent"} <= set(blamed.shares) and max(blamed.shares.values()) < 0.5
    said = " ".join(pair.why for pair in report.document.pairs)
    assert "no role alone misses the gate, together they do" in said
    jsonschema.validate(report.to_json(), report_schema())


def test_what_was_not_judged_is_said(squares, tmp_path):
    """Labels of frames that did not run, boxes beyond the picture, and sides that find nothing."""
    for file in sorted(squares["frames"].iterdir())[:5]:
        (tmp_path / file.name).write_bytes(file.read_bytes())
    report = verify(squares, "y[:, 0] += np.float32(1000)", inputs=tmp_path)
    notes, caveats = " ".join(report.document.tasks[0].notes), " ".join(report.document.caveats)
    total = len(json.loads(squares["labels"].read_text())["images"])
    assert f"{total - 5} of {total} labelled frames were not run: the numbers are of 5 frames" in notes
    assert f"{total - 5} of {total} labelled frames were not run" in caveats and "--gate task" in caveats
    assert "of the board lie outside their picture, or have no area" in notes
    nothing = verify(squares, "y[:, 4:] *= np.float32(0)", inputs=tmp_path, task="detection,keep=0.9999999")
    notes = " ".join(nothing.document.tasks[0].notes)
    assert (
        "the reference finds nothing: no box of score 1 or more in any frame" in notes
        and "board finds nothing" in notes
    )
    whole = verify(squares)
    assert not whole.document.tasks[0].notes and not any("labelled" in c for c in whole.document.caveats)


def test_the_same_gate_passes_a_good_board_and_the_decoder_is_found(squares):
    report = verify(squares, gate=[GATE, "task:kept>=0.9", "task:map50>=reference-0.01"], decoder=None)
    assert report.verdict == "PASSED", report
    (task,) = report.document.tasks
    assert [row.verdict for row in task.gates] == ["PASSED"] * 3 and not task.blamed


@pytest.mark.parametrize(
    ("change", "missing", "said"),
    [
        ("y[0, 0, 3] = np.nan if brightness > 2000 else y[0, 0, 3]", "", "NaN"),
        ("", "frame 4", "has outputs of 11 of 12 frames"),
        ("y[:] = 0", "", "is 0, wanted"),
        ("y.resize((1, 6, 63), refcheck=False)", "", "has outputs of 0 of 12 frames"),
        ("y[:, 4:] = y[:, :3:-1].copy()", "", "wanted >="),
    ],
)
def test_a_board_that_lacks_something_is_never_passed(squares, change, missing, said):
    if missing:
        missing = str(float(np.load(squares["frames"] / "f004.npy").sum()))
    report = verify(squares, change, missing, gate=[GATE], min_cosine=-1)
    assert report.verdict != "PASSED"
    (row,) = report.document.tasks[0].gates
    assert row.verdict != "PASSED" and said in row.why, row


def test_without_a_gate_the_numbers_change_no_verdict(squares):
    report = verify(squares, "y[:, 2] *= np.float32(1.3)", gate=())
    (task,) = report.document.tasks
    assert report.passed and not task.gates
    values = {side.side: side.values["map"] for side in task.sides}
    assert values["board"] < 0.9 * values["reference"]


LABELS = {
    "images": [{"id": 1, "file_name": "f000.npy", "width": 64, "height": 64}],
    "annotations": [],
    "categories": [{"id": 1}],
}
BOX = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, "no annotation of any of 1 frame"),
        ({"annotations": [{**BOX, "category_id": 4}]}, "category_id 4 is none of the categories"),
        ({"annotations": [BOX, BOX]}, "an id more than once"),
        ({"annotations": [{**BOX, "bbox": [1, 2, -3, 4]}]}, "wanted bbox"),
        ({"annotations": [{**BOX, "bbox": [1, 2, 3, "4"]}]}, "wanted finite numbers"),
        ({"annotations": [{**BOX, "image_id": 9}]}, "no image 9"),
        ({"images": [{"id": 1, "file_name": "other.jpg"}]}, "no image has the name of f000.npy"),
        ({"images": [{"id": n, "file_name": f"{n}/f000.jpg"} for n in (1, 2)], "annotations": [BOX]}, "is 2 images"),
        ({"images": [{"id": 1, "file_name": "f000.npy", "width": 64}]}, "width and height"),
        ({"categories": []}, "no category"),
        ({"images": 3}, "wanted COCO JSON"),
    ],
)
def test_mistakes_in_coco_labels(tmp_path, change, said):
    path = tmp_path / "l.json"
    path.write_text(json.dumps({**LABELS, **change}))
    with pytest.raises((TaskError, BadFileError), match=said):
        read_coco(str(path), ["f000.npy"])


def test_more_classes_than_categories_are_refused(squares, tmp_path):
    """Other channels may be taken for scores: nothing is measured until the classes are stated."""
    labels = json.loads(squares["labels"].read_text())
    first = labels["categories"][0]
    labels["categories"] = [first]
    labels["annotations"] = [one for one in labels["annotations"] if one["category_id"] == first["id"]]
    path = tmp_path / "val.json"
    path.write_text(json.dumps(labels))
    with pytest.raises(TaskError, match=r"1 category, but the outputs \(.* 1x6x64\) are read by yolov8 with 2 classes"):
        verify(squares, labels=path)
    named = verify(squares, labels=path, task="detection,names=bright;dark")
    assert named.document.tasks[0].frames > 0


def test_mistakes_are_one_line(squares, tmp_path, capsys):
    common = ["-m", str(squares["quantized"]), "-i", str(squares["frames"]), "--labels", str(squares["labels"])]
    (tmp_path / "d.toml").write_text('[decoder]\nname = "evil.py:run"\n')
    for words, said in (
        (["--task", "detecting"], "did you mean detection"),
        (["--task", "detection,keeps=1"], "wanted keep=VALUE, least=VALUE"),
        (["--task", "detection", "--decoder", "yunet"], "yunet"),
        (["--task", "detection", "--decoder", "ctc"], "gives text; the task takes boxes"),
        (["--task", "detection", "--gate", "task:mapp>=0.5"], "did you mean map"),
        (["--task", "detection", "--gate", "task:map<=0.5"], "map is better if it is larger"),
        (["--task", "detection", "--gate", "task:map>=0*reference"], "holds nothing"),
        (["--task", "detection", "--gate", "task:map>=nan"], "wanted reference, float, simulator"),
        (["--task", "detection", "--gate", "task:map>=0.9*board"], "wanted reference, float, simulator"),
        (["--task", "detection", "--task-metric", "m.py:f"], "give one"),
        (["--decoder", "yolov8"], "--decoder reads outputs for --task"),
        (["--task", "detection", "--description", str(tmp_path / "d.toml")], "named with --decoder"),
        (["--task", "segmentation"], "wanted a folder"),
    ):
        assert main([*common, *words]) == 2, words
        out = capsys.readouterr()
        assert said in out.err and out.err.count("\n") == 1 and out.out == "", (words, out)
    for words, said in (
        (["-m", str(squares["quantized"]), "--gate", GATE], "with -i and --task"),
        (["compare", str(tmp_path), str(tmp_path), "--gate", GATE], "with -i and --task"),
        (["-m", str(squares["quantized"]), "--task", "detection", "-i", str(squares["frames"])], "wanted --labels"),
    ):
        assert main(words) == 2
        assert said in capsys.readouterr().err


class Numbers(Means):
    name, names, smaller = "text", ("accuracy", "wer"), frozenset({"wer"})


def judged(text: str, reference: dict, board: dict, frames: tuple[int, int] = (5, 5), broken: dict | None = None):
    sides = [TaskSide("reference", frames[0], reference), TaskSide("board", frames[1], board)]
    gates = parse_task_gates([text], Numbers(""))
    (row,) = judge_task_gates(gates, TaskNumbers("text", "", "", 5, sides), 5, broken or {})
    return row.verdict


def test_gates_fail_closed():
    for text, reference, board, verdict in (
        ("task:accuracy>=0.5", {}, {"accuracy": 0.5}, "PASSED"),
        ("task:accuracy>=0.5", {}, {"accuracy": 0.49}, "FAILED"),
        ("task:accuracy>=0.5", {}, {}, "INCONCLUSIVE"),
        ("task:accuracy>=0.5", {}, {"accuracy": math.nan}, "INCONCLUSIVE"),
        ("task:accuracy>=0.9*reference", {"accuracy": 0.5}, {"accuracy": 0.45}, "PASSED"),
        ("task:accuracy>=0.9*reference", {"accuracy": 0.0}, {"accuracy": 1.0}, "INCONCLUSIVE"),
        ("task:accuracy>=0.9*reference", {"accuracy": math.nan}, {"accuracy": 1.0}, "INCONCLUSIVE"),
        ("task:accuracy>=reference-0.1", {"accuracy": 0.5}, {"accuracy": 0.39}, "FAILED"),
        ("task:accuracy>=0.9*float", {"accuracy": 0.5}, {"accuracy": 1.0}, "INCONCLUSIVE"),  # it did not run
        ("task:wer<=1.1*reference", {"wer": 0.2}, {"wer": 0.22}, "PASSED"),
        ("task:wer<=1.1*reference", {"wer": 0.0}, {"wer": 0.01}, "FAILED"),
        ("task:wer<=reference+0.01", {"wer": 0.0}, {"wer": 0.01}, "PASSED"),
    ):
        assert judged(text, reference, board) == verdict, (text, reference, board)
    good = {"accuracy": 1.0}
    assert judged("task:accuracy>=0.5", good, good, (5, 4)) == "INCONCLUSIVE"
    assert judged("task:accuracy>=0.9*reference", good, good, (4, 5)) == "INCONCLUSIVE"
    assert judged("task:accuracy>=0.5", good, good, broken={"board": 1}) == "INCONCLUSIVE"
    assert judged("task:accuracy>=0.9*reference", good, good, broken={"reference": 1}) == "INCONCLUSIVE"
    only = TaskNumbers("text", "", "", 5, [TaskSide("reference", 5, good)])
    (row,) = judge_task_gates(parse_task_gates(["task:accuracy>=0.5"], Numbers("")), only, 5, {})
    assert row.verdict == "INCONCLUSIVE" and row.side == ""


def test_a_gate_never_makes_a_verdict_better():
    for before in ("PASSED", "FAILED", "INCONCLUSIVE"):
        for found in ("PASSED", "FAILED", "INCONCLUSIVE"):
            report = ReportDocument(verdict=before, blame=None, decimals={}, pairs=[Pair("reference", "board", before)])
            sides = [TaskSide("board", 5, {"accuracy": {"PASSED": 1.0, "FAILED": 0.0}.get(found, math.nan)})]
            numbers = TaskNumbers("text", "", "", 5, sides)
            numbers.gates = judge_task_gates(parse_task_gates(["task:accuracy>=0.5"], Numbers("")), numbers, 5, {})
            hold_to_task_gates(report, numbers)
            order = ("PASSED", "INCONCLUSIVE", "FAILED")
            assert report.verdict == report.pairs[0].verdict == max(before, found, key=order.index), (before, found)


def test_every_task_has_a_page_and_help_names_it(capsys):
    from qverify.options.inputs import KINDS

    assert sorted(task_pages()) == sorted(KINDS.split(", "))
    for name in task_pages():
        page, options = parse_task(name)
        assert options == dict(page.DEFAULTS) and page.SUMMARY and page.LABELS


@pytest.mark.skipif(not USABLE, reason=WHY_NOT)
@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_of_a_missed_gate_in_a_browser(squares, tmp_path, width):
    """The boxes lie on the picture, nothing is wider than the window, and the page asks for nothing."""
    path = tmp_path / "r.html"
    report = verify(squares, "y[:, 2] *= np.float32(1.5)")
    report.save(path)
    with Chromium(tmp_path / "profile", width) as page:
        page.open(path.as_uri())
        assert page.requests == [] and page.logged == []
        assert page.run("document.documentElement.scrollWidth") <= width
        inside = (
            "[...document.querySelectorAll('svg.boxes')].map((s) => { const o = s.getBoundingClientRect(); return "
            "[...s.querySelectorAll('rect')].filter((r) => { const b = r.getBoundingClientRect(); return b.left > o.left - 30 && "
            "b.right < o.right + 30 && b.width > 0; }).length })"
        )
        counts = page.run(inside)
        assert counts and all(n >= 4 for n in counts)
        colours = [
            f"getComputedStyle(document.querySelector('svg.boxes .box-{c}')).stroke" for c in ("s-bad", "s-mark")
        ]
        assert page.run(colours[0]) != page.run(colours[1])
        for dark in (False, True):
            page.shoot(tmp_path / f"page_{width}_{dark}.png", dark)


def test_classes_are_found_by_the_categories_names_where_names_are_given(squares, tmp_path):
    """The ids are in the other order than the network's classes."""
    labels = json.loads(squares["labels"].read_text())
    first, second = sorted(labels["categories"], key=lambda c: c["id"])
    swapped = {first["id"]: second["id"], second["id"]: first["id"]}
    for row in labels["annotations"]:
        row["category_id"] = swapped[row["category_id"]]
    first["name"], second["name"] = second["name"], first["name"]
    other = tmp_path / "swapped.json"
    other.write_text(json.dumps(labels))

    def measured(task: str, path: Path) -> float:
        options = {"inputs": squares["frames"], "labels": path, "task": task, "decoder": DECODER}
        (found,) = qverify.verify([squares["quantized"]], **options).document.tasks
        return float(found.sides[0].values["map"])

    names = f"detection,names={second['name']};{first['name']}"
    assert measured(names, other) == measured("detection", squares["labels"]) > 2 * measured("detection", other)
    with pytest.raises(TaskError, match="is none of them"):
        measured("detection,names=cat;dog", other)

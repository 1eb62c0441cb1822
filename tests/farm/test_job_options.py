"""The options that a job may have, and the requests made from tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_type_hints

import pytest
from qverify.api.options import VerifyOptions
from qverify.errors import UsageError
from qverify.options.as_click import as_click
from qverify.options.commands import keywords
from qverify_farm.work.job_options import FILES, REFUSED, VALUES, check_options
from qverify_farm.work.job_request import make_job_request
from qverify_farm.work.job_task import JobTask, StoredFile

SHA = "0" * 64


def asked(folder: Path, inputs: str = "", paths: tuple[str, ...] = (), **options: Any) -> Any:
    """Writes files, and returns the request of a job with them."""
    for path in ("m.onnx", *paths):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text('[inputs.image]\nformat = "gray"\n' if path.endswith(".toml") else "")
    files = tuple(StoredFile(path, SHA, 0) for path in ("m.onnx", *paths))
    return make_job_request(JobTask("j", 1, "local", "local", ("m.onnx",), files, inputs, options), folder)


def test_every_option_of_verify_is_allowed_or_refused() -> None:
    """The table says it of each; the types that editors see have the same options."""
    known = get_type_hints(VerifyOptions).keys() | {"models", "board", "inputs"}
    assert VALUES | FILES | REFUSED.keys() == known
    assert not VALUES & FILES and not (VALUES | FILES) & REFUSED.keys()


@pytest.mark.parametrize("keyword", sorted(REFUSED))
def test_refused_options_are_named(keyword: str) -> None:
    assert [line.partition(":")[0] for line in check_options({keyword: "x"}, ())] == [keyword]


def test_all_mistakes_are_reported_at_once() -> None:
    options = {"runner": "sh", "atoll": 1, "atol": "much", "rule": "near", "description": "/etc/passwd", "seed": 3}
    wrong = check_options(options, {"a.toml"})
    assert [line.partition(":")[0] for line in wrong] == ["atoll", "runner", "description", "atol", "rule"]
    assert "did you mean atol" in wrong[0]
    assert all("\n" not in line for line in wrong)


def test_values_that_exclude_each_other() -> None:
    assert check_options({"criteria": "horizon", "gate": ["cosine:0.9"]}, ()) == []
    assert "both given" in check_options({"gate": ["cosine:0.9"], "min_cosine": 0.8}, ())[0]


def test_good_options_have_no_mistakes() -> None:
    good = {
        "compare_digits": 3,
        "dump_all_nodes_results": True,
        "repeat": 2,
        "gate": ["cosine:0.99"],
        "labels": "l.csv",
    }
    assert check_options(good, {"l.csv"}) == []
    assert check_options({"labels": "l.csv"}, {"l.csv"}, inputs=False) == [
        "labels: wanted inputs, too, to which the labels belong"
    ]


def test_a_job_is_of_one_network() -> None:
    assert check_options({"check": "order", "shape": ["x=1x3"]}, ()) == []
    wrong = check_options({"check": ["order", "batch"], "shape": ["x=1x{3,4}"]}, ())
    assert [line.partition(":")[0] for line in wrong] == ["check", "shape"]
    assert check_options({"check": "twice"}, ())[0].startswith("check: ")


def test_paths_are_inside_the_folder(tmp_path: Path) -> None:
    job = asked(tmp_path, "image:a/x.npy", ("a/x.npy", "d.toml"), description="d.toml", seed=4)
    assert job.request.models == [str(tmp_path / "m.onnx")] and job.request.board == "local"
    assert job.request.inputs.files == f"image:{tmp_path}/a/x.npy" and job.request.inputs.seed == 4
    assert len(asked(tmp_path, "a", ("a/x.npy", "a/y.npy")).frames) == 2


@pytest.mark.parametrize("inputs", ["/etc/passwd", "../x.npy", "x.npy,y.npy", "image:/etc/passwd", "a/../m.onnx", ","])
def test_inputs_that_are_not_the_jobs(tmp_path: Path, inputs: str) -> None:
    with pytest.raises(UsageError, match="none of the job's files"):
        asked(tmp_path, inputs, ("x.npy",))


@pytest.mark.parametrize("line", ["/etc/passwd", "image:/etc/passwd", "../outside.npy", "x.npy,/etc/passwd"])
def test_lists_that_name_files_outside(tmp_path: Path, line: str) -> None:
    """A list of frames is a file of the job, but it may name any other file."""
    (tmp_path / "outside.npy").touch()
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "list.txt").write_text(f"x.npy\n{line}\n")
    (folder / "x.npy").touch()
    files = tuple(StoredFile(path, SHA, 0) for path in ("m.onnx", "x.npy", "list.txt"))
    with pytest.raises(UsageError, match="outside of the job's files"):
        make_job_request(JobTask("j", 1, "local", "local", ("m.onnx",), files, "list.txt"), folder)


def test_the_models_key_changes_with_models_and_opening_options(tmp_path: Path) -> None:
    """Other inputs do not change it; other models and opening options do."""
    paths = ("a.npy", "b.npy", "d.toml")
    key = asked(tmp_path, "a.npy", paths).models_key
    assert key != asked(tmp_path, "b.npy", paths).models_key  # a.npy could be a part of the model
    one, other = (asked(tmp_path, text, paths[:2]).models_key for text in ("a.npy,b.npy", "b.npy,a.npy"))
    assert one == other
    assert one != asked(tmp_path, "a.npy,b.npy", paths[:2], no_host=True).models_key
    assert one != asked(tmp_path, "a.npy,b.npy", paths[:2], shape={"x": [1, 2]}).models_key
    assert one == asked(tmp_path, "a.npy,b.npy", paths[:2], seed=3, repeat=2).models_key


WRONG: dict[str, tuple[Any, ...]] = {  # values of a wrong type, by the kind of an option
    "boolean": ([], {}, "", "1", 1, 0, 1.5, [True], None),
    "integer": ([], {}, "", "1", True, [1], 1.5, None),
    "float": ([], {}, "", "1", True, [1], {"a": 1}, None),
    "text": ([], {}, "", 1, 1.5, True, ["half"], {"a": "b"}, None),
    "texts": ({}, "", 1, 1.5, True, [""], [1], [None], [["a"]], {"a": "b"}, None),
    "mapping": ("", 1, 1.5, True, [""], [1], [["a"]], {"a": ""}, {"a": 1.5}, {"a": None}, {"a": {}}, None),
}


@pytest.mark.parametrize("keyword", sorted(VALUES))
def test_no_option_takes_a_value_of_another_type(keyword: str) -> None:
    option = as_click(keywords("verify")[keyword])
    kind = option.type.name.split()[0]
    if kind not in WRONG:
        kind = "text"
    if option.multiple:
        kind = "mapping" if keyword in ("shape", "roi", "fact") else "texts"
    for value in WRONG[kind]:
        mistakes = check_options({keyword: value}, ())
        assert len(mistakes) == 1 and mistakes[0].startswith(f"{keyword}: got "), (value, mistakes)


def test_every_wrong_text_of_a_list_is_reported() -> None:
    mistakes = check_options({"gate": ["cosin:0.9", "cosine:0.9", "rmze:1"]}, ())
    assert len(mistakes) == 2 and "cosin" in mistakes[0] and "rmze" in mistakes[1]


def test_quantization_names_files_of_the_job(tmp_path: Path) -> None:
    files = {"n.quantization.cfg", "w.npz"}
    assert check_options({"quantization": ["n.quantization.cfg", "w.npz"]}, files) == []
    assert check_options({"quantization": "n.quantization.cfg"}, files) == []
    assert check_options({"quantization": ["/etc/passwd"]}, files) == [
        "quantization: '/etc/passwd' is none of the job's files"
    ]
    for wrong in ([["w.npz"]], 3, {"a": "b"}, None):
        assert len(check_options({"quantization": wrong}, files)) == 1
    assert len(check_options({"description": ["w.npz"]}, files)) == 1
    request = asked(tmp_path, "", ("n.quantization.cfg", "w.npz"), quantization=["n.quantization.cfg", "w.npz"]).request
    assert request.quantization == (str(tmp_path / "n.quantization.cfg"), str(tmp_path / "w.npz"))
    one, other = (asked(tmp_path, "", (name,), quantization=[name]).models_key for name in ("a.cfg", "b.cfg"))
    assert one != other


def test_tasks_of_jobs() -> None:
    """A packaged decoder may be named; a function of the submitter's would run on the host of the board."""
    good = {
        "task": "detection",
        "labels": "l.json",
        "decoder": "yolov8,score=0.1",
        "gate": ["task:map>=0.99*reference"],
    }
    assert check_options(good, {"l.json"}) == []
    for decoder in ("evil.py:run", "os:system"):
        (line,) = check_options({**good, "decoder": decoder}, {"l.json"})
        assert line.startswith("decoder: ") and "loads code" in line
    roles = {"gate": ["y.box:cosine>=0.9"], "description": "d.toml"}
    assert check_options(roles, {"d.toml"}) == []
    assert "wanted OUTPUT.ROLE" in check_options({**roles, "gate": ["y.box:cosin>=0.9"]}, {"d.toml"})[0]
    folder = {"task": "segmentation", "labels": "masks"}
    assert check_options(folder, {"masks/a.png"}) == []
    assert "labels: 'masks' is none of the job's files" in check_options(folder, {"masks.png", "other/masks/a.png"})
    assert check_options({"description": "masks"}, {"masks/a.png"}) == [
        "description: 'masks' is none of the job's files"
    ]


def test_labels_may_be_a_folder_or_lie_among_the_inputs(tmp_path: Path) -> None:
    masks = ("frames/a.png", "frames/b.png", "masks/a.png", "masks/b.png")
    job = asked(tmp_path, "frames", masks, task="segmentation", labels="masks")
    assert job.request.task.labels == str(tmp_path / "masks") and [f.path for f in job.model_files] == ["m.onnx"]
    inside = asked(tmp_path, "val", ("val/a.png", "val/b.png", "val/l.csv"), labels="val/l.csv")
    assert [frame.source for frame in inside.frames] == ["a.png", "b.png"]
    assert inside.request.task.labels == str(tmp_path / "val/l.csv")

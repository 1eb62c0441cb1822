"""suite.toml: its meaning, and the report of all mistakes in it at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from qverify.errors import BadFileError
from qverify_farm.errors import SuiteError
from qverify_farm.store.artifacts import open_artifacts
from qverify_farm.suites.expand import definition_of, files_of, jobs_of, store_files
from qverify_farm.suites.suite import Suite
from qverify_farm.suites.suite_file import read_suite

KNOWN = {
    "desk": {"soc": "j5", "runner": "qvrt"},
    "j5-1": {"soc": "j5", "runner": "onnxruntime"},
    "j5-2": {"soc": "j5", "runner": "qvrt", "fw": "1.2"},
    "rv-1": {"soc": "rv1126", "runner": "qvrt"},
    "local": {},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (
        "nets/a_quant.onnx",
        "nets/b_quant.onnx",
        "a.bin",
        "cat.npy",
        "frames/1.npy",
        "frames/2.npy",
        "frames/3.npy",
        "labels.csv",
        "d.toml",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


def read(folder: Path, text: str) -> Suite:
    (folder / "nightly.toml").write_text(text)
    return read_suite(str(folder / "nightly.toml"), KNOWN)


def names(folder: Path, text: str) -> list[str]:
    return [job.name for job in jobs_of(read(folder, text), KNOWN)]


def mistakes(folder: Path, text: str) -> list[str]:
    with pytest.raises(SuiteError) as error:
        read(folder, text)
    return list(error.value.lines)


def test_models_times_inputs_times_boards(folder: Path) -> None:
    text = """
        models = ["nets/*_quant.onnx", {name = "both", files = "nets/a_quant.onnx,a.bin", boards = ["rv-1"], repeats = 2}]
        inputs = ["frames", {path = "cat.npy", name = "cat"}, "random"]
        boards = ["desk", "soc=j5"]
    """
    assert names(folder, text) == [
        *(
            f"{m} {i} {b}"
            for m in ("a_quant", "b_quant")
            for i in ("frames", "cat", "random")
            for b in ("desk", "soc=j5")
        ),
        *(f"both {i} rv-1 #{n}" for i in ("frames", "cat", "random") for n in (1, 2)),
    ]


def test_a_board_tags_and_each_board_of_tags(folder: Path) -> None:
    jobs = jobs_of(
        read(folder, 'models = ["nets/a_quant.onnx"]\nboards = ["desk", "soc=j5,fw=1.2", "all:soc=j5", "local"]'), KNOWN
    )
    assert [(job.name, job.wanted) for job in jobs] == [
        ("a_quant desk", ("desk",)),
        ("a_quant fw=1.2,soc=j5", ("fw=1.2,soc=j5",)),
        ("a_quant j5-1", ("j5-1",)),
        ("a_quant j5-2", ("j5-2",)),
        ("a_quant local", ("local",)),
    ]


def test_runners_choose_boards(folder: Path) -> None:
    text = 'models = ["nets/a_quant.onnx"]\nboards = ["soc=j5", "all:soc=j5"]\nrunners = ["qvrt", "onnxruntime"]'
    jobs = jobs_of(read(folder, text), KNOWN)
    assert [job.wanted[0] for job in jobs] == [
        "runner=qvrt,soc=j5",
        "runner=onnxruntime,soc=j5",
        "desk",
        "j5-2",
        "j5-1",
    ]


def test_settings_of_a_job(folder: Path) -> None:
    text = """
        models = ["nets/a_quant.onnx,a.bin"]
        boards = ["desk"]
        gates = ["cosine:0.99"]
        retries = 2
        timeout = 60
        keep_captures = true
        [options]
        run_sim = false
        [[inputs]]
        path = "frames"
        description = "d.toml"
        [inputs.options]
        seed = 3
    """
    (job,) = jobs_of(read(folder, text), KNOWN)
    content = job.settings.pop("content")
    assert job.settings == {
        "models": ["nets/a_quant.onnx", "a.bin"],
        "inputs": "frames",
        "options": {"run_sim": False, "gate": ["cosine:0.99"], "seed": 3, "description": "d.toml"},
        "files": ["nets/a_quant.onnx", "a.bin", "frames/", "d.toml"],
        "timeout_s": 60.0,
        "keep_capture": True,
        "own_engines": True,
    }
    assert job.retries == 2 and len(content) == 64


def test_files_are_stored_as_they_are_at_submission(folder: Path) -> None:
    suite = read(
        folder, 'models = ["nets/a_quant.onnx"]\ninputs = ["frames"]\nboards = ["desk"]\n[labels]\nfirmware = 1.2'
    )
    store = open_artifacts(str(folder / "store"))
    digests = store_files(suite, store)
    assert [*digests] == ["frames/1.npy", "frames/2.npy", "frames/3.npy", "nets/a_quant.onnx"] == [*files_of(suite)]
    (folder / "frames" / "1.npy").write_text("changed")
    assert store.read(digests["frames/1.npy"][0]) == b"frames/1.npy" and digests["frames/1.npy"][1] == 12
    first = jobs_of(suite, KNOWN, digests)[0].settings["content"]
    assert first != jobs_of(suite, KNOWN, store_files(suite, store))[0].settings["content"]
    definition = definition_of(suite, digests)
    assert definition["files"]["nets/a_quant.onnx"] == list(digests["nets/a_quant.onnx"]) and suite.labels == {
        "firmware": "1.2"
    }
    assert (definition["fail_fast"], definition["quarantine"], definition["timeout_s"]) == (False, 3, None)


def test_a_dataset_is_split_into_jobs(folder: Path) -> None:
    text = 'models = [{files = "nets/a_quant.onnx", inputs = ["night"]}]\nboards = ["desk"]\ndatasets = [{name = "night", path = "frames", split = 2}]'
    jobs = jobs_of(read(folder, text), KNOWN)
    assert [(job.name, job.settings["inputs"], job.settings["files"][1:]) for job in jobs] == [
        ("a_quant night.1 desk", "frames", ["frames/1.npy", "frames/2.npy"]),
        ("a_quant night.2 desk", "frames", ["frames/3.npy"]),
    ]


def test_labels_are_a_folder_or_lie_among_the_frames(folder: Path) -> None:
    for name in ("masks/1.png", "masks/2.png", "masks/3.png", "frames/labels.csv"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(name)
    text = """
        models = [{files = "nets/a_quant.onnx", inputs = ["night"], options = {task = "segmentation"}}]
        boards = ["desk"]
        datasets = [{name = "night", path = "frames", split = 2, labels = "LABELS"}]
    """
    masks = jobs_of(read(folder, text.replace("LABELS", "masks")), KNOWN)
    assert masks[0].settings["options"]["labels"] == "masks" and "masks/" in masks[0].settings["files"]
    jobs = jobs_of(
        read(folder, text.replace("LABELS", "frames/labels.csv").replace("segmentation", "classification")), KNOWN
    )
    assert [job.settings["files"][1:] for job in jobs] == [
        ["frames/1.npy", "frames/2.npy", "frames/labels.csv"],
        ["frames/3.npy", "frames/labels.csv"],
    ]


def test_inputs_of_several_kinds(folder: Path) -> None:
    (folder / "frames" / "list.txt").write_text("1.npy\nx:2.npy,y:3.npy\n# no\n")
    text = 'models = ["nets/a_quant.onnx"]\nboards = ["desk"]\ninputs = ["frames/list.txt", {path = "x:cat.npy,y:frames/1.npy", name = "two"}]'
    first, second = read(folder, text).inputs.values()
    assert (first.text, [*first.files]) == (
        "frames/list.txt",
        ["frames/list.txt", "frames/1.npy", "frames/2.npy", "frames/3.npy"],
    )
    assert (second.text, [*second.files]) == ("x:cat.npy,y:frames/1.npy", ["cat.npy", "frames/1.npy"])


def test_files_outside_of_the_suites_folder_have_paths_of_their_own(folder: Path) -> None:
    inner = folder / "suites"
    inner.mkdir()
    suite = read(inner, 'models = ["../nets/a_quant.onnx"]\ninputs = ["../frames"]\nboards = ["desk"]')
    assert [path.partition("/")[2].partition("/")[2] for path in files_of(suite)] == [
        "frames/1.npy",
        "frames/2.npy",
        "frames/3.npy",
        "a_quant.onnx",
    ]
    assert len({path.split("/")[1] for path in files_of(suite)}) == 2
    assert jobs_of(suite, KNOWN)[0].name == "a_quant frames desk"


def test_every_mistake_is_reported_at_once(folder: Path) -> None:
    text = """
        model = "x"
        models = ["nets/c_quant.onnx", {files = "nets/a_quant.onnx", repeats = 0, bords = ["desk"]}, "*.tflite", 3]
        inputs = ["frame", {path = "cat.npy", labels = "no.csv"}, {random = "yes"}]
        boards = ["dsk", "soc=j6", "all:fw=1.3", "all:desk", "soc=rv1126,fw=1.2"]
        retries = "two"
        gates = "cosin:0.9"
        suite_timeout = -1
        fail_fast = "no"
        [options]
        sed = 1
        capture = "x"
        runner = "x"
        [labels]
        firmware = [1]
    """
    found = "\n".join(mistakes(folder, text))
    for words in (
        "model: unknown key; did you mean models?",
        "models 1: files: nets/c_quant.onnx: no such file",
        "models 2: repeats = 0: wanted a whole number from 1",
        "models 2: bords: unknown key; did you mean boards?",
        "models 3: files: *.tflite: no file of",
        "models 4: 3: wanted a text, or a table",
        "inputs 1: path: frame: no such file or folder",
        "inputs 2: labels: no.csv: no such file",
        'inputs 3: random = "yes": wanted true or false',
        "boards: dsk: no board of this name; did you mean desk?",
        "boards: soc=j6: no board has the tag soc=j6; did you mean soc=j5",
        "boards: all:fw=1.3: no board has the tag fw=1.3; did you mean fw=1.2",
        "boards: all:desk: wanted all:KEY=VALUE, or all",
        "boards: soc=rv1126,fw=1.2: no board has all of fw=1.2,soc=rv1126",
        'retries = "two": wanted a whole number',
        "gates: ",
        "suite_timeout = -1: wanted seconds",
        'fail_fast = "no": wanted true or false',
        "options.sed: unknown option; did you mean seed",
        "options.capture: a job must not have this option",
        "options.runner: a job must not have this option",
        "labels.firmware = [1]: wanted a text",
    ):
        assert words in found
    assert len(found.splitlines()) == 22


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 'models: wanted a list, as ["quant.onnx,model.bin"]'),
        ('models = ["nets/a_quant.onnx"]', 'boards: wanted a list, as ["desk", "soc=j5", "all:soc=j5"]'),
        ('models = ["nets/a_quant.onnx", "nets/a_quant.onnx"]\nboards = ["desk"]', "models 2: two models are named a_quant"),
        ('models = [{files = "nets/a_quant.onnx", name = "a b"}]\nboards = ["desk"]', 'name = "a b": wanted a name without blanks'),
        ('models = ["nets/a_quant.onnx"]\nboards = ["desk"]\nrunners = ["onnxruntime"]', "it is run by qvrt, and runners asks for onnxruntime"),
        ('models = ["nets/a_quant.onnx"]\nboards = ["rv-1"]\nrunners = ["nnx"]', "it is run by qvrt, and runners asks for nnx"),
        ('models = ["nets/a_quant.onnx"]\nboards = ["soc=j5"]\nrunners = ["onxruntime"]', "no board has the tag runner=onxruntime; did you mean runner=onnxruntime"),
        ('models = ["nets/a_quant.onnx"]\nboards = ["desk"]\ninputs = ["up.txt"]', "is outside of the list's folder"),
        ('models = ["nets/a_quant.onnx"]\nboards = ["desk"]\ndatasets = [{path = "cat.npy", split = 2}]', "split = 2: wanted a folder of frames"),
        ('models = ["nets/a_quant.onnx"]\nboards = ["desk"]\ninputs = ["empty"]', "the folder contains no files"),
        ('models = ["nets/a_quant.onnx"]\nboards = ["desk"]\ninputs = ["od,d.npy"]', "od: no such file or folder"),
        ('models = ["nets/a_quant.onnx"]\nboards = ["desk"]\ninputs = ["frames", {path = "cat.npy", name = "frames"}]', "two inputs are named frames"),
    ],
)  # fmt: skip
def test_a_mistake_says_what_is_wanted(folder: Path, text: str, words: str) -> None:
    (folder / "up.txt").write_text("../secret.npy\n")
    (folder / "empty").mkdir()
    (line,) = [line for line in mistakes(folder, text) if words in line]
    assert "\n" not in line and len(mistakes(folder, text)) == 1


def test_a_suite_of_too_many_jobs_is_refused(folder: Path) -> None:
    suite = read(
        folder,
        'models = ["nets/*.onnx"]\nboards = ["desk", "rv-1", "j5-1", "j5-2", "local", "soc=j5"]\nrepeats = 10000',
    )
    with pytest.raises(SuiteError) as error:
        jobs_of(suite, KNOWN)
    assert error.value.lines == ("120000 jobs; a suite has at most 100000",)


@pytest.mark.parametrize("content", [b"models = [", b"\xff\xfe", b"a = 1\na = 2"])
def test_a_file_that_is_not_toml_is_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "s.toml").write_bytes(content)
    with pytest.raises(BadFileError, match=r"s\.toml: not TOML") as error:
        read_suite(str(tmp_path / "s.toml"), KNOWN)
    assert "\n" not in str(error.value)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match="No such file"):
        read_suite(str(tmp_path / "none.toml"), KNOWN)


def test_random_inputs_have_no_path_and_every_wrong_gate_is_named(folder: Path) -> None:
    lines = mistakes(
        folder,
        """
        models = ["nets/a_quant.onnx"]
        boards = ["desk", "all:"]
        gates = ["cosin:0.9", "rmze:1"]
        inputs = [{name = "a", random = true, path = "nosuchfile.npy"}]
        """,
    )
    for words in (
        "boards: all:: wanted",
        "gates: --gate cosin",
        "gates: --gate rmze",
        'inputs 1: path = "nosuchfile.npy": random',
    ):
        assert [words in line for line in lines].count(True) == 1, (words, lines)

"""Results of engines in children are read without Python's parser, which fails in two threads in Python 3.11."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import qverify
from qverify.sides import idle_engines
from qverify.sides.engine_child import EngineChild, EngineEnded
from qverify.sides.idle_engines import borrowed

ARRAYS = [
    np.array([["a", "longer"], ["", "x"]]),
    np.arange(6, dtype=np.float16).reshape(1, 2, 3),
    np.array(True),
    np.zeros((0, 4), np.int64),
    np.array([1.5, np.nan], np.float32),
]
ANSWER = {"arrays": [[a.dtype.str, list(a.shape)] for a in ARRAYS]}
CHILDREN = {f"onnx_model/run_{name}.py" for name in ("in_interpreter", "reference_engine", "sessions")}
ONE_THREAD = {
    *CHILDREN,
    "tflite_model/run_litert.py",
    "session/other_jobs/demo.py",
    "session/probing/probe_store.py",
    "decoders/parts/settings.py",  # a file that --decoder of this host names; jobs name none
}


def written(child: EngineChild, cut: int = 0) -> None:
    data = b"".join(a.tobytes() for a in ARRAYS)
    (child.folder / "result").write_bytes(data[: len(data) - cut])


def test_arrays_of_any_type_are_read_as_they_were_written() -> None:
    child = EngineChild(Path("never started"))
    written(child)
    found = child.read_arrays(ANSWER, "result")
    for array, value in zip(ARRAYS, found, strict=True):
        assert (array.dtype, array.shape, array.tobytes()) == (value.dtype, value.shape, value.tobytes())
        assert value.flags.writeable
    child.close()


def test_a_result_that_is_cut_short_is_refused() -> None:
    child = EngineChild(Path("never started"))
    written(child, cut=1)
    with pytest.raises(EngineEnded, match="its result is cut short"):
        child.read_arrays(ANSWER, "result")
    child.close()


def test_no_code_that_may_run_in_threads_lets_numpy_parse_a_header_without_the_lock() -> None:
    package = Path(qverify.__file__).parent
    texts = {path.relative_to(package).as_posix(): path.read_text() for path in package.rglob("*.py")}
    assert {name for name, text in texts.items() if "np.load(" in text} == ONE_THREAD
    parsing = {name for name, text in texts.items() if "np.lib.format.read_array_header" in text}
    assert parsing == {"inputs/arrays.py", "vendor_files/array_files.py"} and all(
        "with HEADER_LOCK:" in texts[name] for name in parsing
    )


ANSWERS = """
import json, os, sys
for line in sys.stdin:
    if 'die' in json.loads(line): sys.exit(3)
    print(json.dumps({'pid': os.getpid()}), flush=True)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "answers.py"
    path.write_text(ANSWERS)
    return path


def answered(program: Path) -> int:
    with borrowed(program) as child:
        return int(child.request({})["pid"])


def test_one_child_answers_one_request_after_another(program: Path) -> None:
    assert len({answered(program) for _ in range(3)}) == 1


def test_a_child_is_used_by_one_caller_at_a_time(program: Path) -> None:
    with borrowed(program) as one, borrowed(program) as other, borrowed(program) as third:
        processes = {child.request({})["pid"] for child in (one, other, third)}
    assert len(processes) == 3 and answered(program) in processes
    assert not one.folder.exists() and other.folder.exists()  # MOST_IDLE wait


def test_a_child_that_may_owe_an_answer_is_not_used_again(program: Path) -> None:
    before = answered(program)
    with pytest.raises(KeyboardInterrupt), borrowed(program) as child:
        raise KeyboardInterrupt
    assert not child.folder.exists() and answered(program) != before
    with pytest.raises(EngineEnded, match="status 3"), borrowed(program) as child:
        child.request({"die": 1})
    assert not child.folder.exists() and answered(program)


def test_a_child_is_not_used_in_another_environment_nor_for_ever(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = answered(program)
    with monkeypatch.context() as patched:
        patched.setenv("OMP_NUM_THREADS", "1")
        assert answered(program) != before
    assert answered(program) == before
    monkeypatch.setattr(idle_engines, "MOST_REQUESTS", 2)
    assert answered(program) == before and answered(program) != before


def test_a_child_that_was_ended_while_it_waited_is_started_again(program: Path) -> None:
    child = EngineChild(program)
    before = child.request({})["pid"]
    (process,) = child._processes
    process.kill()
    process.wait()
    assert child.request({})["pid"] != before
    child.close()

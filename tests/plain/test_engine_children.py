"""Results of engines in children are read without Python's parser, which fails in two threads in Python 3.11."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import qverify
from qverify.sides.engine_child import EngineChild, EngineEnded

ARRAYS = [
    np.array([["a", "longer"], ["", "x"]]),
    np.arange(6, dtype=np.float16).reshape(1, 2, 3),
    np.array(True),
    np.zeros((0, 4), np.int64),
    np.array([1.5, np.nan], np.float32),
]
ANSWER = {"arrays": [[a.dtype.str, list(a.shape)] for a in ARRAYS]}
CHILDREN = {f"onnx_model/run_{name}.py" for name in ("in_interpreter", "reference_engine", "sessions")}
ONE_THREAD = {*CHILDREN, "tflite_model/run_litert.py", "session/other_jobs/demo.py"}


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

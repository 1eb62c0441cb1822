"""The euclidean length is one function, of the same bytes everywhere."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import qverify
from qverify.arithmetic.norms import norm

WRITTEN_OUT = re.compile(r"sqrt\(\((\w+) \* \1\)\.sum\(\)\)")


def test_the_euclidean_length() -> None:
    assert norm(np.array([[3.0, 0.0], [0.0, -4.0]])) == 5.0 and norm(np.zeros((0, 3))) == 0.0
    assert np.isnan(norm(np.array([1.0, np.nan])))
    with pytest.warns(RuntimeWarning, match="overflow"):
        assert norm(np.array([1e200, 1.0])) == np.inf


def test_no_other_file_writes_it_out() -> None:
    root = Path(qverify.__file__).parent
    found = [p.relative_to(root).as_posix() for p in root.rglob("*.py") if WRITTEN_OUT.search(p.read_text("utf-8"))]
    assert found == ["arithmetic/norms.py"]

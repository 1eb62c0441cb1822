"""Arrays read by several threads, as by the jobs of a farm."""

from __future__ import annotations

import io
import threading
import time
from typing import Any

import numpy as np
import pytest
from qverify.inputs.arrays import parse_npy


def test_one_header_is_parsed_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """numpy parses it by Python's own parser, which Python 3.11 fails at (SystemError) where two threads are in it."""
    inside, most = [0], [0]
    read = np.lib.format.read_array_header_1_0

    def counted(file: Any) -> Any:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.01)
        inside[0] -= 1
        return read(file)

    monkeypatch.setattr(np.lib.format, "read_array_header_1_0", counted)
    file = io.BytesIO()
    np.save(file, np.arange(6, dtype=np.float32).reshape(2, 3))
    shapes: list[tuple[int, ...]] = []
    threads = [
        threading.Thread(target=lambda: shapes.append(parse_npy(file.getvalue(), "a.npy").shape)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shapes == [(2, 3)] * 4 and most == [1]

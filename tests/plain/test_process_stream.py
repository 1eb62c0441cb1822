"""A subprocess as a stream, whatever it writes to its stderr."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from qverify_agents.deadline import Deadline
from qverify_agents.one_command import run_to_end
from qverify_agents.process_stream import ProcessStream

FLOOD = "import os; os.write(2, b'first words\\n'); [os.write(2, b'x' * 65536) for _ in range({})]; {}"


def test_a_flood_of_stderr_is_held_by_no_file_and_by_no_more_than_its_ends(tmp_path: Path):
    before = {os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd") if _is_link(n)}
    stream = ProcessStream(
        [sys.executable, "-c", FLOOD.format(1000, "os.write(2, b'\\nlast words'); os.write(1, b'ok')")]
    )
    assert stream.read(Deadline(60)) == b"ok"  # after 65 MB, for which it waited for nobody
    assert stream.status(Deadline(60)) == 0
    opened = {os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd") if _is_link(n)} - before
    assert all(name.startswith(("pipe:", "anon_inode:")) for name in opened), opened
    first, last = stream.errors(), stream.errors(last=True)
    assert first.startswith(b"first words\nx") and last.endswith(b"x\nlast words")
    assert len(first) == len(last) == 2000
    stream.close()
    assert stream.errors() == b""


def _is_link(number: str) -> bool:
    return os.path.islink(f"/proc/self/fd/{number}")


def test_one_that_floods_for_ever_ends_with_its_stream():
    stream = ProcessStream([sys.executable, "-c", FLOOD.format("10**9", "0")])
    while not stream.errors(last=True).endswith(b"x" * 1000):
        pass
    stream.close()
    assert not [t for t in threading.enumerate() if t.name == "qverify-stderr"]


def test_what_a_command_said_at_its_end_is_there():
    done = run_to_end(
        ProcessStream([sys.executable, "-c", "import sys; print('no such thing', file=sys.stderr); sys.exit(4)"]),
        Deadline(60),
        b"",
    )
    assert (done.status, done.err) == (4, b"no such thing\n")

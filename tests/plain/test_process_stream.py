"""A subprocess as a stream, whatever it writes to its stderr."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest
from qverify_agents.deadline import Deadline, ThreadTimeLimit, apply_time_limit
from qverify_agents.errors import LinkClosed, LinkTimeout
from qverify_agents.one_command import run_to_end
from qverify_agents.process_stream import ProcessStream

BOTH = pytest.mark.parametrize("threads", [False, True], ids=["waited for", "by threads"])  # the second as on Windows
FLOOD = "import os; os.write(2, b'first words\\n'); [os.write(2, b'x' * 65536) for _ in range({})]; {}"


@BOTH
def test_a_flood_of_stderr_is_held_by_no_file_and_by_no_more_than_its_ends(tmp_path: Path, threads: bool):
    before = {os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd") if _is_link(n)}
    stream = ProcessStream(
        [sys.executable, "-c", FLOOD.format(1000, "os.write(2, b'\\nlast words'); os.write(1, b'ok')")], threads=threads
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


@BOTH
def test_one_that_floods_for_ever_ends_with_its_stream(threads: bool):
    before = set(threading.enumerate())
    stream = ProcessStream([sys.executable, "-c", FLOOD.format("10**9", "0")], threads=threads)
    while not stream.errors(last=True).endswith(b"x" * 1000):
        pass
    stream.close()
    started = [t for t in threading.enumerate() if t not in before]
    assert not [t for t in started if t.name in ("qverify-stderr", "qverify-pipe")]


@BOTH
def test_what_a_command_said_at_its_end_is_there(threads: bool):
    done = run_to_end(
        ProcessStream(
            [sys.executable, "-c", "import sys; print('no such thing', file=sys.stderr); sys.exit(4)"], threads=threads
        ),
        Deadline(60),
        b"",
    )
    assert (done.status, done.err) == (4, b"no such thing\n")


@BOTH
def test_a_wait_ends_when_another_thread_stops_it(threads: bool):
    """A command that says nothing is cancelled within seconds, not at the end of its deadline."""
    stream, limit = (
        ProcessStream([sys.executable, "-c", "import time; time.sleep(60)"], threads=threads),
        ThreadTimeLimit(60, ""),
    )
    stop, started = threading.Timer(0.2, limit.stop, ["cancelled"]), time.monotonic()
    stop.start()
    with apply_time_limit(limit), pytest.raises(LinkTimeout, match=r"^cancelled$"):
        stream.read(Deadline(60))
    assert time.monotonic() - started < 20
    stop.join()
    stream.close()


ECHO = "import os\nwhile data := os.read(0, 1 << 16): os.write(1, data)"


@BOTH
def test_two_full_pipes_do_not_wait_for_each_other(threads: bool):
    """What comes back while much is written is held, and read afterwards, to the end."""
    stream, data = ProcessStream([sys.executable, "-c", ECHO], threads=threads), os.urandom(20_000_000)
    stream.write(data, Deadline(60))
    stream.end_of_input()
    received = bytearray()
    while chunk := stream.read(Deadline(60)):
        received += chunk
    assert received == data and stream.read(Deadline(60)) == b""
    stream.close()
    with pytest.raises(LinkClosed):
        stream.read(Deadline(1))


@BOTH
def test_a_process_that_neither_reads_nor_writes_ends_the_deadline(threads: bool):
    stream = ProcessStream([sys.executable, "-c", "import time; time.sleep(60)"], threads=threads)
    with pytest.raises(LinkTimeout):
        stream.read(Deadline(0.3))
    with pytest.raises(LinkTimeout):
        stream.write(bytes(10_000_000), Deadline(0.3))
    stream.close()
    assert not [t for t in threading.enumerate() if t.name == "qverify-pipe"]


@BOTH
def test_writing_to_a_process_that_ended_says_how_it_ended(threads: bool):
    stream = ProcessStream([sys.executable, "-c", "import os; os.close(0); raise SystemExit('no')"], threads=threads)
    with pytest.raises(LinkClosed, match="the agent ended with status 1: no"):
        while True:
            stream.write(bytes(1_000_000), Deadline(60))
    stream.close()


def test_of_a_python_traceback_the_reason_is_told():
    stream = ProcessStream([sys.executable, "-c", "raise RuntimeError('no runtime here')"])
    while stream._process.poll() is None:
        time.sleep(0.01)
    assert stream.why_closed() == "the agent ended with status 1: RuntimeError: no runtime here"
    stream.close()

"""`--threads=N` of the runtime: memory for the threads that can take part and no more, no signals to them, a line where the system
starts fewer, and none started once a model has its memory."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.ops.random_nodes import RandomNodes
from tests.ops.runtime_library import COMPILER, binary, library
from tests.ops.test_instruction_sets import convolution, write

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler on this machine")
WINDOW = (3, 3, 1, 1, 1, 1, 1, 1, 1, 1)
MOST = 64


def perf(folder: Path, *options: str, limits: str = "") -> tuple[dict[str, str], str]:
    """Returns the lines `name: value` that `qvrt perf` printed, and its stderr. limits: words of a shell before it."""
    words = [str(binary()), "perf", f"--model_file={folder / 'model.bin'}", "--frame_count=1", *options]
    done = subprocess.run(
        ["/bin/sh", "-c", f'{limits}exec "$@"', "sh", *words], capture_output=True, text=True, timeout=60, check=True
    )
    return dict(re.findall(r"^(.*): (.*)$", done.stdout, re.MULTILINE)), done.stderr


def arena(folder: Path, threads: int) -> int:
    return int(perf(folder, f"--threads={threads}")[0]["arena bytes"])


def fully_connected(r: RandomNodes, depth: int, columns: int) -> None:
    x, w = r.input("uint8", (1, depth)), r.weights("int8", (columns, depth), 1)
    r.node("fully_connected", (x, w, None, r.rq(depth, 1)), r.output("uint8", (1, columns)), (0, 255))


@pytest.mark.parametrize("kind", ["conv", "matmul", "fully_connected"])
def test_a_node_that_one_thread_computes_takes_the_memory_of_one(kind: str, tmp_path: Path) -> None:
    r = RandomNodes("ref-exact", 5)
    if kind == "conv":  # few multiplications
        convolution(r, ("uint8", "int8"), (1, 16, 8, 8), 4, WINDOW)
    elif kind == "matmul":  # many, of one panel
        a, b = r.input("uint8", (50, 3000)), r.input("uint8", (3000, 60))
        r.node("matmul", (a, b, r.rq(3000, 1)), r.output("uint8", (50, 60)), (0, 255))
    else:
        fully_connected(r, 9000, 60)
    write(r, tmp_path)
    assert arena(tmp_path, MOST) == arena(tmp_path, 1)


def test_a_node_of_three_parts_takes_the_memory_of_three_threads(tmp_path: Path) -> None:
    r = RandomNodes("ref-exact", 5)
    a, b = r.input("uint8", (50, 3000)), r.input("uint8", (3000, 150))
    r.node("matmul", (a, b, r.rq(3000, 1)), r.output("uint8", (50, 150)), (0, 255))
    write(r, tmp_path)
    one, three, most = (arena(tmp_path, n) for n in (1, 3, MOST))
    blocks = perf(tmp_path)[0]["instructions"] in ("avx512_vnni", "avx_vnni", "i8mm", "dotprod")
    assert most == three and (three > one) == blocks


def test_fewer_threads_than_wanted_are_told(tmp_path: Path) -> None:
    r = RandomNodes("ref-exact", 5)
    convolution(r, ("uint8", "int8"), (1, 16, 20, 21), 19, WINDOW)
    write(r, tmp_path)
    shown, said = perf(tmp_path, f"--threads={MOST}", limits="ulimit -s 8192; ulimit -v 65536; ")
    there = int(shown["threads"])
    assert 1 <= there < MOST
    assert said == f"qvrt: --threads={MOST}: this system starts no more than {there}; going on with {there}\n"
    shown, said = perf(tmp_path, "--threads=2")
    assert (shown["threads"], said) == ("2", "")


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc to see the threads")
def test_the_threads_take_no_signals() -> None:
    agent = subprocess.Popen([binary(), "agent", "--threads=3"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        tasks: list[str] = []
        while len(tasks) < 3:  # the process ends, and this fails, if it starts none
            tasks = os.listdir(f"/proc/{agent.pid}/task")
            assert agent.poll() is None
        workers = [Path(f"/proc/{agent.pid}/task/{t}/status").read_text() for t in tasks if int(t) != agent.pid]
        blocked = [int(re.findall(r"^SigBlk:\s*(\w+)$", status, re.MULTILINE)[0], 16) for status in workers]
        wanted = sum(1 << (number - 1) for number in (1, 2, 10, 12, 13, 15))  # HUP, INT, USR1, USR2, PIPE, TERM
        assert len(blocked) == 2 and all(mask & wanted == wanted for mask in blocked)
    finally:
        assert agent.stdin is not None and agent.stdout is not None
        agent.stdin.close()
        agent.wait(20)
        agent.stdout.close()


def test_none_is_started_once_a_model_has_its_memory() -> None:
    runtime = library()
    runtime.qv_workers.argtypes = [ctypes.c_int64, ctypes.c_int64]
    assert runtime.qv_workers(100, 1 << 40) == 1
    assert runtime.qv_start_threads(2) == 1 and runtime.qv_threads() == 1

"""Bytes over SSH on loopback, ours beside OpenSSH's scp; and what a run sends and receives when every node agrees."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MEGABYTES, ROUNDS = 64, 3


def best(action: Callable[[int], None]) -> tuple[float, float]:
    """Wall and own CPU seconds (children too) of the fastest of some rounds."""
    found = []
    for i in range(ROUNDS):
        before, start = _cpu(), time.perf_counter()
        action(i)
        found.append((time.perf_counter() - start, _cpu() - before))
    return min(found)


def _cpu() -> float:
    return sum(
        u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def main(words: list[str]) -> int:
    import argparse

    parser = argparse.ArgumentParser(prog="scripts/bench links")
    parser.add_argument("--json", dest="path")
    options = parser.parse_args(words)
    sys.path[:0] = [str(ROOT)]
    from qverify_agents.connect import connect

    from tests.links.servers import Server

    with contextlib.ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="qverify-links-")))
        server = Server("openssh", work)
        stack.callback(server.close)
        server.trust()
        files = [work / f"file{i}" for i in range(ROUNDS)]
        for path in files:
            path.write_bytes(os.urandom(MEGABYTES << 20))
        scp = ["scp", "-q", "-F", str(server.config)]
        theirs = best(
            lambda i: subprocess.run([*scp, str(files[i]), f"testboard:{work}/there{i}"], check=True) and None
        )
        contents = [path.read_bytes() for path in files]

        def push(i: int) -> None:
            with connect(server.board, 120) as agent:
                agent.put(hashlib.sha256(contents[i]).hexdigest(), contents[i])

        connect(server.board, 60).close()  # the agent is there, as scp is
        ours = best(push)
        result = {
            "megabytes": MEGABYTES,
            "push_s": round(ours[0], 3),
            "push_cpu_s": round(ours[1], 3),
            "scp_s": round(theirs[0], 3),
            "scp_cpu_s": round(theirs[1], 3),
            "ratio": round(ours[0] / theirs[0], 2),
        }
    print(json.dumps(result, indent=1))
    if options.path:
        Path(options.path).write_text(json.dumps(result, indent=1) + "\n")
    return 0

"""docker:IMAGE, podman:IMAGE: a container as a board, its shell by `exec`; the container is made for the run and removed with it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable

from qverify_agents.address import Address
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BadAddress, BoardUnreachable
from qverify_agents.printable import last_line

OPTIONS: frozenset[str] = frozenset({"engine", "platform", "memory_limit"})
ENGINES = ("docker", "podman")
HOLD = "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait; done"


def up(address: Address, deadline: Deadline) -> tuple[Address, Callable[[], None]]:
    """engine: docker or podman (default: the scheme, else whichever is there). platform: as linux/arm64. memory_limit: as 256m."""
    if not re.fullmatch(r"[A-Za-z0-9][\w./:@-]*", address.rest):
        raise BadAddress(f"-b {address.scheme}:{address.rest}: wanted {address.scheme}:IMAGE")
    engine = _engine(address)
    name = f"qverify-{os.getpid()}-{os.urandom(4).hex()}"
    words = [engine, "run", "-d", "--rm", "--network", "none", "--name", name]
    words += ["--platform", address.options["platform"]] if "platform" in address.options else []
    words += ["--memory", address.options["memory_limit"]] if "memory_limit" in address.options else []
    words += ["--entrypoint", "/bin/sh", address.rest, "-c", HOLD]

    def down() -> None:
        at_once = ["-t", "0"] if engine == "podman" else []  # docker does not wait, and knows no -t
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run([engine, "rm", "-f", *at_once, name], capture_output=True, timeout=60, check=False)

    try:
        _asked(words, deadline, f"{address.scheme}:{address.rest}")
    except BaseException:  # it may be there all the same
        down()
        raise
    return Address("shell", name, argv=(engine, "exec", "-i", name, "/bin/sh", "-c")), down


def _engine(address: Address) -> str:
    asked = address.options.get("engine", "")
    order = [asked] if asked else [address.scheme, *ENGINES]
    found = next((e for e in order if e in ENGINES and shutil.which(e)), None)
    if found is None:
        raise BoardUnreachable(f"-b {address.scheme}:{address.rest}: no {' or '.join(order)} on this machine")
    return found


def _asked(words: list[str], deadline: Deadline, where: str) -> None:
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=deadline.left(), check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise BoardUnreachable(f"{where}: {words[0]} does not start it within the deadline") from None
    if done.returncode:
        raise BoardUnreachable(f"{where}: {words[0]} says: {last_line(done.stderr, f'status {done.returncode}')}")

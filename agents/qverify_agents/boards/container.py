"""docker:IMAGE, podman:IMAGE: a container as a board, with a shell by `exec`; made for the run and removed however that
ends."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable

from qverify_agents.address import Address
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BadAddress, BoardUnreachable, LinkTimeout
from qverify_agents.printable import last_line
from qverify_agents.process_stream import ProcessStream

OPTIONS: frozenset[str] = frozenset({"engine", "platform", "memory_limit"})
ENGINES = ("docker", "podman")
READY = b"qverify-container-up"
HOLD = f"trap 'exit 0' TERM INT; echo {READY.decode()}; read -r _"  # until its stdin ends, also when qverify is killed


def up(address: Address, deadline: Deadline) -> tuple[Address, Callable[[], None]]:
    """Starts the container; returns its address and a function that removes it. Options: engine, docker or podman
    (default: the scheme, else the one that is installed); platform, such as linux/arm64; memory_limit, such as 256m."""
    if not re.fullmatch(r"[A-Za-z0-9][\w./:@-]*", address.rest):
        raise BadAddress(f"-b {address.scheme}:{address.rest}: wanted {address.scheme}:IMAGE")
    engine = _engine(address)
    name = f"qverify-{os.getpid()}-{os.urandom(4).hex()}"
    words = [engine, "run", "-i", "--rm", "--network", "none", "--name", name]
    words += ["--platform", address.options["platform"]] if "platform" in address.options else []
    words += ["--memory", address.options["memory_limit"]] if "memory_limit" in address.options else []
    words += ["--entrypoint", "/bin/sh", address.rest, "-c", HOLD]

    resources = contextlib.ExitStack()

    def down() -> None:
        at_once = ["-t", "0"] if engine == "podman" else []  # docker does not wait, and knows no -t
        try:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run([engine, "rm", "-f", *at_once, name], capture_output=True, timeout=60, check=False)
        finally:
            resources.close()

    try:
        holder = ProcessStream(words)
        resources.callback(holder.close)
        _wait(holder, deadline, f"{address.scheme}:{address.rest}: {engine}")
    except BaseException:  # the container may exist nevertheless
        down()
        raise
    return Address("shell", name, argv=(engine, "exec", "-i", name, "/bin/sh", "-c")), down


def _engine(address: Address) -> str:
    wanted = address.options.get("engine", "")
    order = [wanted] if wanted else [address.scheme, *ENGINES]
    program = next((e for e in order if e in ENGINES and shutil.which(e)), None)
    if program is None:
        raise BoardUnreachable(f"-b {address.scheme}:{address.rest}: no {' or '.join(order)} on this machine")
    return program


def _wait(holder: ProcessStream, deadline: Deadline, who: str) -> None:
    """Waits until the container runs. Raises BoardUnreachable."""
    output = b""
    try:
        while READY not in output:
            chunk = holder.read(deadline)
            if not chunk:
                status = holder.status(deadline)
                raise BoardUnreachable(f"{who} says: {last_line(holder.errors(last=True), f'status {status}')}")
            output += chunk
    except LinkTimeout:
        raise BoardUnreachable(f"{who} does not start it in time; give --timeout to wait longer") from None

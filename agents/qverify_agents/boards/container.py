"""docker:IMAGE, podman:IMAGE: a container as a board, its shell by `exec`; made for the run, and removed however that ends."""

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
HOLD = f"trap 'exit 0' TERM INT; echo {READY.decode()}; read -r _"  # to the end of its stdin, which a killed qverify is, too


def up(address: Address, deadline: Deadline) -> tuple[Address, Callable[[], None]]:
    """engine: docker or podman (default: the scheme, else whichever is there). platform: as linux/arm64. memory_limit: as 256m."""
    if not re.fullmatch(r"[A-Za-z0-9][\w./:@-]*", address.rest):
        raise BadAddress(f"-b {address.scheme}:{address.rest}: wanted {address.scheme}:IMAGE")
    engine = _engine(address)
    name = f"qverify-{os.getpid()}-{os.urandom(4).hex()}"
    words = [engine, "run", "-i", "--rm", "--network", "none", "--name", name]
    words += ["--platform", address.options["platform"]] if "platform" in address.options else []
    words += ["--memory", address.options["memory_limit"]] if "memory_limit" in address.options else []
    words += ["--entrypoint", "/bin/sh", address.rest, "-c", HOLD]

    held = contextlib.ExitStack()

    def down() -> None:
        at_once = ["-t", "0"] if engine == "podman" else []  # docker does not wait, and knows no -t
        try:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run([engine, "rm", "-f", *at_once, name], capture_output=True, timeout=60, check=False)
        finally:
            held.close()

    try:
        holder = ProcessStream(words)
        held.callback(holder.close)
        _wait(holder, deadline, f"{address.scheme}:{address.rest}: {engine}")
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


def _wait(holder: ProcessStream, deadline: Deadline, who: str) -> None:
    """Until the container runs."""
    said = b""
    try:
        while READY not in said:
            came = holder.read(deadline)
            if not came:
                status = holder.status(deadline)
                raise BoardUnreachable(f"{who} says: {last_line(holder.errors(last=True), f'status {status}')}")
            said += came
    except LinkTimeout:
        raise BoardUnreachable(f"{who} does not start it within the deadline") from None

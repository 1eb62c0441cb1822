"""Seeded faults of links and boards: every run ends in the right verdict or INCONCLUSIVE, in time, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WIRE = ("truncate", "flip", "insert", "duplicate", "reorder", "stall", "disconnect")
KINDS = (*WIRE, "kill", "other-version")
DEADLINE_S, GRACE_S = 2.5, 8.0
OTHER = """
import sys
sys.path[:0] = {path!r}
from qverify_agents.protocol import frames, messages
reader = frames.FrameReader()
while True:
    data = sys.stdin.buffer.raw.read(65536)
    if not data: break
    reader.feed(data)
    while (f := reader.next()) is not None:
        sys.stdout.buffer.raw.write(frames.frame_bytes(f.type, f.sequence, messages.text('{{"version": "9.9", "protocol": 2}}')))
"""


def agents_under(folder: str) -> list[int]:
    found = []
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if (
                process.name.isdigit()
                and folder.encode() in (line := (process / "cmdline").read_bytes())
                and b"agent" in line
            ):
                found.append(int(process.name))
    return found


def own_agents() -> list[int]:
    """Of the board `local`: processes of this one."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    with contextlib.suppress(OSError):
        return [int(p) for p in children if b"agent" in Path(f"/proc/{p}/cmdline").read_bytes()]
    return []


def kill(folder: Path) -> None:
    for process in [*agents_under(str(folder)), *own_agents()]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def one(seed: int, number: int, links: list[str], servers: dict[str, str], work: Path) -> tuple[str, str]:
    """(kind over link, outcome)."""
    from qverify.sides.board import Board
    from qverify.sides.simulator import Simulator
    from qverify_agents.errors import LinkError

    from tests.conformance.tiny_model import graph, model_bytes, prepared

    rng = random.Random(f"{seed} {number}")
    link, kind = rng.choice(links), rng.choice(KINDS)
    address, name = servers[link], f"{kind} over {link}"
    if kind in WIRE:
        probability = rng.choice([0.02, 0.1, 0.3]) if kind not in ("stall", "disconnect") else rng.choice([0.02, 0.1])
        address += f"{'&' if '?' in address else '?'}link_fault={kind}&link_seed={rng.randrange(1 << 30)}&link_probability={probability}"
    wanted = Simulator(graph()).run(prepared()).digests
    start = time.monotonic()
    killer = None
    environment = dict(os.environ)
    try:
        if kind == "other-version":
            os.environ["QVERIFY_BIN_DIR"] = str(work / "other")
            address = "local"
        board = Board(address, model_bytes(), graph(), DEADLINE_S)
        try:
            if kind == "kill":
                killer = threading.Timer(
                    rng.random() * 0.05, lambda: [os.kill(p, signal.SIGKILL) for p in agents_under(str(work / "cache"))]
                )
                killer.start()
            recording = board.run(prepared())
            outcome = "inconclusive" if recording.state != "complete" else "right"
            if any(wanted.get(n) != d for n, d in recording.digests.items()):
                outcome = "wrong"
        finally:
            board.close()
    except LinkError:
        outcome = "inconclusive"
    finally:
        if killer is not None:
            killer.join()
        os.environ.clear()
        os.environ.update(environment)
    return name, "hung" if time.monotonic() - start > 3 * DEADLINE_S + GRACE_S else outcome


def main(words: list[str]) -> int:
    import argparse

    parser = argparse.ArgumentParser(prog="scripts/bench faults")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--json", dest="path")
    options = parser.parse_args(words)
    sys.path[:0] = [str(ROOT)]
    from tests.links.pty_board import PtyBoard
    from tests.links.servers import SSHD, Server

    found: Counter[str] = Counter()
    rows: dict[str, Counter[str]] = {}
    with contextlib.ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="qverify-faults-")))
        (work / "other").mkdir()
        from qverify_agents.binaries import host_architecture

        fake = work / "other" / f"qvrt-{host_architecture()}"
        fake.write_text(f"#!{sys.executable}\n" + OTHER.format(path=sys.path[:6]))
        fake.chmod(0o755)
        pty = stack.enter_context(PtyBoard(home=work))
        servers = {"local": "local", "serial": f"{pty.address}&cache={work}/cache"}
        links = ["local"] * 8 + ["serial"]
        if SSHD is not None:
            folder = work / "ssh"
            folder.mkdir()
            server = Server("openssh", folder)
            stack.callback(server.close)
            server.trust()
            servers["ssh"] = f"testboard?cache={work}/cache&ssh_config={server.config}&lock={work}/lock"
            links += ["ssh"] * 7
        begun = time.monotonic()
        for number in range(options.count):
            name, outcome = one(options.seed, number, links, servers, work)
            found[outcome] += 1
            rows.setdefault(name, Counter())[outcome] += 1
            if sys.stderr.isatty():
                print(f"\r{number + 1} of {options.count}", end="", file=sys.stderr)
        time.sleep(1.0)
        stray = agents_under(str(work / "cache"))
        left = [str(p) for p in Path("/tmp").glob(".qv-*")] + [
            str(p)
            for p in (work / "cache").rglob("*")
            if ".probe" in p.name or (p.parent.name == "bin" and ".part" in p.name)
        ]
    result = {
        "seed": options.seed,
        "runs": options.count,
        **{k: found[k] for k in ("right", "inconclusive", "wrong", "hung")},
        "stray_processes": len(stray),
        "left_files": len(left),
        "seconds": round(time.monotonic() - begun, 1),
        "by_fault": {k: dict(v) for k, v in sorted(rows.items())},
    }
    text = json.dumps(result, indent=1)
    print(text)
    if options.path:
        Path(options.path).write_text(text + "\n")
    return 1 if found["wrong"] or found["hung"] or stray or left else 0

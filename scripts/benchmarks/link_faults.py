"""Injects faults of links and boards, drawn by a seed. Every run must end in time with the right verdict or
INCONCLUSIVE, and leave nothing behind."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "conformance")]
from qverify.sides.board import Board  # noqa: E402
from qverify.sides.simulator import Simulator  # noqa: E402
from qverify_agents.binaries import host_architecture, runtime_path  # noqa: E402
from qverify_agents.errors import LinkError  # noqa: E402

from benchmarks.measure import show_figures  # noqa: E402
from tests.board_kinds import Place, Unavailable, kill_own_children, place  # noqa: E402
from tests.conformance.tiny_model import graph, model_bytes, prepared  # noqa: E402

WIRE = ("drop", "flip", "insert", "duplicate", "reorder", "stall", "half-close", "disconnect")
# link: how many of 100 runs use it, and the deadline of a reply in seconds
LINKS = {
    "local": (40, 2.5),
    "qemu-user:aarch64": (6, 2.5),
    "openssh": (20, 3.0),
    "openssh-backend": (4, 4.0),
    "dropbear": (10, 3.0),
    "pty": (6, 5.0),
    "noisy-pty": (3, 6.0),
    "qemu-ssh": (6, 6.0),
    "qemu-serial": (2, 12.0),
    "container": (3, 10.0),
    "docker": (2, 10.0),
}
GRACE_S, SMALL_KB = 10.0, 2048
# seconds of a run; kills and reboots happen at a random moment within them
RUN_S = {
    "local": 0.03,
    "pty": 1.0,
    "noisy-pty": 1.0,
    "qemu-ssh": 2.0,
    "qemu-serial": 5.0,
}
OTHER_AGENT = """#!{python}
import sys
sys.path[:0] = {path!r}
from qverify_agents.protocol import frames, messages
if "--version" in sys.argv: print("qvrt 9.9"); sys.exit(0)
reader = frames.FrameReader()
while True:
    data = sys.stdin.buffer.raw.read(65536)
    if not data: break
    reader.feed(data)
    while (f := reader.next()) is not None:
        if f.type == frames.BYE: sys.exit(0)
        sys.stdout.buffer.raw.write(frames.encode_frame(f.type, f.sequence, messages.encode_text('{{"version": "9.9", "protocol": 2}}')))
"""


@dataclass(slots=True)
class Campaign:
    """All runs of the bench.

    places: the boards that could be started. work: a temporary folder. expected: the right digests.
    """

    seed: int
    places: dict[str, Place]
    work: Path
    expected: dict[str, str] = field(default_factory=lambda: Simulator(graph()).run(prepared()).digests)

    def kinds(self, at: Place) -> list[str]:
        """Returns the kinds of faults that are possible at this place."""
        kinds = list(WIRE)
        if at.there is not None and at.name not in ("container", "docker"):
            kinds += ["kill", "kill"]
        if _small_folder(at) is not None:
            kinds.append("disk-full")
        if at.reboot is not None:
            kinds.append("reboot")
        return [*kinds, "other-version"] if _on_this_machine(at) else kinds

    def run(self, number: int) -> tuple[str, str]:
        """Makes the run of this number and returns ("KIND over LINK", outcome)."""
        rng = random.Random(f"{self.seed} {number}")
        names = [n for n in LINKS if n in self.places]
        name = rng.choices(names, [LINKS[n][0] for n in names])[0]
        at, deadline_s = self.places[name], LINKS[name][1]
        kind = rng.choice(self.kinds(at))
        start = time.monotonic()
        with contextlib.ExitStack() as stack:
            address = self._inject(at, kind, rng, stack)
            outcome = self._outcome(address, deadline_s, at, kind, rng)
        took = time.monotonic() - start
        # the client reconnects at most three times, each time with a new deadline
        limit = 5 * deadline_s + GRACE_S + (30 if kind == "reboot" else 0)
        return f"{kind} over {name}", "hung" if took > limit else outcome

    def _inject(self, at: Place, kind: str, rng: random.Random, stack: contextlib.ExitStack) -> str:
        """Prepares the fault and returns the address of the faulty board."""
        if kind in WIRE:
            probabilities = (0.02, 0.1) if at.slow else (0.05, 0.15, 0.3)
            return at.with_options(
                link_fault=kind, link_seed=rng.randrange(1 << 30), link_probability=rng.choice(probabilities)
            )
        if kind == "disk-full":
            return stack.enter_context(_filled(at, rng))
        if kind == "other-version":
            stack.enter_context(self._another_agent(at))
        return at.address

    @contextlib.contextmanager
    def _another_agent(self, at: Place) -> Iterator[None]:
        """Installs an agent under the right name that replies to HELLO with a future protocol version."""
        program_text = OTHER_AGENT.format(python=sys.executable, path=[p for p in sys.path if p][:8])
        if at.name == "local":
            folder = self.work / "other"
            folder.mkdir(exist_ok=True)
            program = folder / f"qvrt-{host_architecture()}"
            before = os.environ.get("QVERIFY_BIN_DIR")
            os.environ["QVERIFY_BIN_DIR"] = str(folder)
        else:
            real = runtime_path(host_architecture())
            program = Path(at.cache) / "bin" / f"{real.name}-{hashlib.sha256(real.read_bytes()).hexdigest()[:16]}"
            program.parent.mkdir(parents=True, exist_ok=True)
            program.unlink(missing_ok=True)
        program.write_text(program_text)
        program.chmod(0o755)
        try:
            yield
        finally:
            program.unlink()
            if at.name == "local":
                os.environ.pop("QVERIFY_BIN_DIR")
                os.environ.update({"QVERIFY_BIN_DIR": before} if before is not None else {})

    def _outcome(self, address: str, deadline_s: float, at: Place, kind: str, rng: random.Random) -> str:
        """Runs the board and returns right, inconclusive or wrong."""
        meddling = None
        if kind in ("kill", "reboot"):
            meddling = threading.Timer(rng.random() * RUN_S.get(at.name, 0.6), _meddle, (at, kind))
            meddling.start()
        try:
            board = Board(address, model_bytes(), graph(), deadline_s)
            try:
                recording = board.run(prepared())
            finally:
                board.close()
        except LinkError:
            return "inconclusive"
        finally:
            if meddling is not None:
                meddling.join()
        if any(self.expected.get(n) != d for n, d in recording.digests.items()):
            return "wrong"
        return "right" if recording.state == "complete" else "inconclusive"

    def stray(self) -> list[str]:
        """Returns agents that are still running."""
        return [line for at in self.places.values() for line in at.agents()]

    def left(self) -> list[str]:
        """Returns files left behind: half-written agents, probes, pieces of a console push. Partial contents in a store
        do not count, because they are kept to be resumed."""
        paths = [str(p) for p in Path("/tmp").glob(".qv-*")]
        for at in self.places.values():
            if at.there is not None and at.cache:
                inside = at.there(f"ls -A {at.cache}/bin /tmp 2>/dev/null").split()
                paths += [f"{at.name}: {n}" for n in inside if n.startswith((".qv-", ".probe")) or n.endswith(".part")]
        return paths


def _meddle(at: Place, kind: str) -> None:
    """Kills the agent or reboots the board."""
    with contextlib.suppress(LinkError):
        if kind == "reboot" and at.reboot is not None:
            at.reboot()
        elif at.name == "local":
            kill_own_children()
        else:
            at.kill_agents()


def _on_this_machine(at: Place) -> bool:
    return at.name == "local" or (at.there is not None and at.cache.startswith("/tmp"))


def _small_folder(at: Place) -> str | None:
    """Returns the folder of a file system of SMALL_KB on the board that may be filled, or None."""
    if at.name == "qemu-ssh":
        return "/small"
    folder = f"{at.cache}-small"
    return folder if _on_this_machine(at) and os.path.ismount(folder) else None


@contextlib.contextmanager
def _small_folders(places: dict[str, Place]) -> Iterator[None]:
    """Mounts small memory file systems next to the caches of boards on this machine, if that is permitted. Without one,
    the fault disk-full is not used."""
    mounted = []
    try:
        for at in places.values():
            folder = f"{at.cache}-small"
            if _on_this_machine(at) and os.geteuid() == 0:
                os.makedirs(folder, exist_ok=True)
                words = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_KB}k", "qverify", folder]
                if subprocess.run(words, capture_output=True, timeout=10, check=False).returncode == 0:
                    mounted.append(folder)
        yield
    finally:
        for folder in mounted:
            subprocess.run(["umount", "-l", folder], capture_output=True, timeout=10, check=False)


@contextlib.contextmanager
def _filled(at: Place, rng: random.Random) -> Iterator[str]:
    """Fills the board's small file system, so that there is no room for the agent, or for the agent but not for the
    model. Yields an address that uses it."""
    folder, agent_kb = _small_folder(at), runtime_path("aarch64").stat().st_size // 1024
    assert at.there is not None and folder is not None
    leave = rng.choice([0, 0, 4] if at.name == "local" else [0, agent_kb // 2, agent_kb + 8, agent_kb + 12])
    at.there(f"rm -rf {folder}/*; dd if=/dev/zero of={folder}/fill bs=1024 count={SMALL_KB - leave} 2>/dev/null")
    try:
        yield at.with_options(store=f"{folder}/store") if at.name == "local" else _with_cache(at, f"{folder}/cache")
    finally:
        at.there(f"rm -rf {folder}/*")


def _with_cache(at: Place, cache: str) -> str:
    """Returns the address with another folder for the agent."""
    plain = re.sub(r"cache=[^&]*&?", "", at.address).rstrip("&?")
    return f"{plain}{'&' if '?' in plain else '?'}cache={cache}"


def main(words: list[str]) -> int:
    import argparse

    parser = argparse.ArgumentParser(prog="scripts/bench faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the same number draws the same")
    parser.add_argument("--count", type=int, default=2000, help="faults to plant")
    parser.add_argument("--links", help=f"comma list of {', '.join(LINKS)}; by default all that can be started")
    parser.add_argument("--json", dest="path", metavar="F", help="the figures go to this file, too")
    options = parser.parse_args(words)
    names = options.links.split(",") if options.links else list(LINKS)
    if unknown := [name for name in names if name not in LINKS]:
        parser.error(f"--links {unknown[0]}: known are {', '.join(LINKS)}")
    outcomes: Counter[str] = Counter()
    rows: dict[str, Counter[str]] = {}
    places, missing = dict[str, Place](), dict[str, str]()
    with contextlib.ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="qverify-faults-")))
        for name in names:
            try:
                places[name] = stack.enter_context(place(name, work))
            except Unavailable as error:
                missing[name] = str(error)
        stack.enter_context(_small_folders(places))
        campaign, begun = Campaign(options.seed, places, work), time.monotonic()
        for number in range(options.count):
            name, outcome = campaign.run(number)
            outcomes[outcome] += 1
            rows.setdefault(name, Counter())[outcome] += 1
            if outcome in ("wrong", "hung"):
                print(f"run {number}: {name}: {outcome}", file=sys.stderr)
            if sys.stderr.isatty():
                print(f"\r{number + 1} of {options.count}", end="", file=sys.stderr)
        seconds = time.monotonic() - begun
        time.sleep(3.0)
        stray, left = campaign.stray(), campaign.left()
    result = {
        "seed": options.seed,
        "runs": options.count,
        **{k: outcomes[k] for k in ("right", "inconclusive", "wrong", "hung")},
        "stray_processes": len(stray),
        "left_files": len(left),
        "seconds": round(seconds, 1),
        "not_started": missing,
        "by_link": {n: sum(sum(c.values()) for k, c in rows.items() if k.endswith(f" over {n}")) for n in places},
        "by_fault": {k: dict(v) for k, v in sorted(rows.items())},
        "what_stayed": [*stray, *left],
    }
    show_figures(result, options.path)
    return 1 if outcomes["wrong"] or outcomes["hung"] or stray or left else 0

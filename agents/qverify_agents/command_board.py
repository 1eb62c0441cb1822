"""A board on which commands run: contents are pushed by hash through the agent, which holds the board's lock; each
command runs in a session and a folder of its own, and nothing of it is left behind (supervise.sh)."""

from __future__ import annotations

import contextlib
import hashlib
import re
import secrets
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from qverify_agents.address import parse
from qverify_agents.capabilities import Shell
from qverify_agents.command_shell import CommandShell
from qverify_agents.connect import Opened, connect
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BadAddress, LinkError
from qverify_agents.inventory import ANY, resolve
from qverify_agents.printable import last_line
from qverify_agents.supervised import RunningLine
from qverify_agents.this_user import cache_folder

SUPERVISE = Path(__file__).with_name("supervise.sh")
PLACE = re.compile(r"[A-Za-z0-9_][\w.+-]{0,199}")  # a file's name within a run's folder
STALE = r"""for d in @RUNS@/*/; do [ -d "$d" ] || continue; d=${d%/}; sh @SCRIPT@ clean "$d" "${d##*/}"; done"""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command line of the board's POSIX shell. placed: contents that it reads, by their file's name in the run's
    folder, as hash. folder: in which it runs, "" for the folder of its outputs. collect: where its outputs are, "" for
    the run's own `out`. setup, teardown: command lines before and after it."""

    line: str
    placed: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""
    collect: str = ""
    setup: str = ""
    teardown: str = ""


class CommandBoard:
    """A board on which commands run. deadline_s: for each answer, and for each command. Raises LinkError where it cannot
    be reached, BadAddress for a board that has no shell beside its agent."""

    def __init__(self, uri: str, deadline_s: float = 120.0, options: Mapping[str, str] | None = None):
        self.uri, self._deadline_s = uri, deadline_s
        self._opened = Opened(parse("local"))
        self._own: Shell | None = None
        self._hashes: dict[str, str] = {}  # of contents that were checked on this connection, with their path
        for one in resolve(uri, ANY):
            _refuse(uri, one)
        store = cache_folder() / "runners" / "store"
        given = parse(resolve(uri, ANY)[0]).options.get("store")
        more = {**(options or {}), **({} if given else {"store": str(store)})}
        self.agent = connect(uri, deadline_s, more, self._open, runs=ANY)
        try:
            self._remove_stale()
        except BaseException:
            self.agent.close()
            raise

    def _open(self, opened: Opened) -> None:
        self._opened = opened
        self._hashes.clear()

    @property
    def shell(self) -> Shell:
        """The board's shell: that of this machine for boards that are its processes."""
        if self._opened.shell is not None:
            return self._opened.shell
        self._own = self._own or CommandShell(["/bin/sh", "-c"])
        return self._own

    @property
    def emulator(self) -> str:
        """The program that runs the board's programs, "" where the board itself does."""
        argv = self._opened.address.argv
        return argv[0] if self._opened.shell is None and len(argv) > 1 else ""

    @property
    def _folders(self) -> tuple[str, str]:
        """The folders of the contents and of the runs."""
        if self._opened.shell is not None:
            return f"{self._opened.folder}/store", f"{self._opened.folder}/runs"
        store = Path(self._opened.address.options["store"]).absolute()
        return str(store), str(store.with_name("runs"))

    def put(self, data: bytes) -> str:
        """Sends a content that the board lacks. What it has already is checked there once per connection, as a command
        of an earlier run may have changed it, and sent anew if it is wrong. Returns its hash."""
        sha256 = hashlib.sha256(data).hexdigest()
        if sha256 not in self._hashes:
            path = f"{self._folders[0]}/{sha256}"
            if self.agent.have([sha256])[sha256] and not self._is_whole(path, sha256):
                self.shell.run(f"rm -f {shlex.quote(path)}", self._deadline())  # what is sent in parts has another name
            self.agent.put(sha256, data)
            self._hashes[sha256] = path
        return sha256

    def _is_whole(self, path: str, sha256: str) -> bool:
        """Returns whether the board computes this hash of the file."""
        done = self.shell.run(f"{self._runtime} sha256 {shlex.quote(path)}", self._deadline())
        return done.status == 0 and done.out.decode(errors="replace").strip()[:64] == sha256

    @property
    def _runtime(self) -> str:
        opened = self._opened
        words = [f"{opened.folder}/bin/{opened.binary}"] if opened.shell is not None else list(opened.address.argv)
        return shlex.join(words)

    def start(self, wanted: CommandLine, run: str = "") -> RunningLine:
        """Starts the command line. run: the run's folder, of new_run(). The caller must close what is returned."""
        run = run or self.new_run()
        script = self._hashes[self.put(SUPERVISE.read_bytes())]
        self._place(run, wanted.placed)
        out = f"{run}/out"
        limit = f"{max(1, round(self._deadline_s) + 5)}"
        words = ["sh", script, "run", run, run.rpartition("/")[2], limit, wanted.folder or out, wanted.collect or out]
        words += [wanted.setup, wanted.line, wanted.teardown]
        words += [f"{name}={value}" for name, value in wanted.environment.items()]
        stream = self.shell.start(f"exec {shlex.join(words)}", self._deadline())
        return RunningLine(stream, run.rpartition("/")[2], self._deadline(), lambda: self._clean(script, run))

    def new_run(self) -> str:
        """Returns the path of a run's folder that does not exist yet; its outputs will be in `out` there."""
        return f"{self._folders[1]}/{secrets.token_hex(8)}"

    def placed(self, run: str, name: str) -> str:
        """Returns the path of a placed content in a run's folder."""
        return f"{run}/in/{name}"

    def _place(self, run: str, placed: Mapping[str, str]) -> None:
        """Makes the run's folder with a link to each content. Raises LinkError where the board cannot."""
        assert all(PLACE.fullmatch(name) for name in placed), placed
        runs = shlex.quote(run.rpartition("/")[0])
        at = shlex.quote(run)
        parts = [f"umask 077; mkdir -p {runs} && mkdir {at} {at}/in {at}/out"]
        parts += [f"ln -s {shlex.quote(self._hashes[h])} {at}/in/{shlex.quote(n)}" for n, h in placed.items()]
        done = self.shell.run(f"sh -c {shlex.quote(' && '.join(parts))}", self._deadline())
        if done.status != 0:
            raise LinkError(f"{self.uri}: {run} cannot be made: {last_line(done.err, f'status {done.status}')}")

    def _clean(self, script: str, run: str) -> None:
        """Ends what a run left whose own shell cannot do it any more; what cannot be reached is ended when the board is
        used next."""
        with contextlib.suppress(LinkError):
            words: Sequence[str] = ("sh", script, "clean", run, run.rpartition("/")[2])
            self.shell.run(shlex.join(words), self._deadline().part(10.0))

    def _remove_stale(self) -> None:
        """Ends runs of earlier hosts, which the lock says are over. Processes of this machine have no lock: theirs end
        by themselves."""
        if self._opened.shell is None:
            return
        script = self._hashes[self.put(SUPERVISE.read_bytes())]
        line = STALE.replace("@RUNS@", shlex.quote(self._folders[1])).replace("@SCRIPT@", shlex.quote(script))
        self.shell.run(f"sh -c {shlex.quote(line)}", self._deadline())

    def _deadline(self) -> Deadline:
        return Deadline(self._deadline_s, self.uri)

    def close(self) -> None:
        """Disconnects."""
        try:
            if self._own is not None:
                self._own.close()
        finally:
            self.agent.close()


def _refuse(uri: str, one: str) -> None:
    """Raises BadAddress for an address over which no files can be fetched, or that plants a fault."""
    address = parse(one)
    console = address.scheme == "serial" or (address.scheme == "qemu" and address.options.get("link") == "serial")
    if console:
        raise BadAddress(
            f"-b {uri}: a serial console carries one program at a time, so a runner cannot be driven over it. "
            "Next: reach the board by ssh, or carry its files by hand (qverify compare)"
        )
    if address.scheme == "faulty" or "fault" in address.options:
        raise BadAddress(f"-b {uri}: faults are planted in qvrt; a runner runs something else")

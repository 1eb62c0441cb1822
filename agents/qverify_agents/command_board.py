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
from qverify_agents.supervised import RunningLine
from qverify_agents.this_user import cache_folder

SUPERVISE = Path(__file__).with_name("supervise.sh")
PLACE = re.compile(r"[A-Za-z0-9_][\w.+-]{0,199}")  # a file's name within a run's folder
READ = 'script=$(head -c @SIZE@) && eval "$script"'
TRIES = 3


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
        self._hashes, self._unchecked = set[str](), set[str]()  # of contents sent; of those that were there before
        self._contents: dict[str, bytes] = {}
        for one in resolve(uri, ANY):
            _refuse(uri, one)
        store = cache_folder() / "runners" / "store"
        given = parse(resolve(uri, ANY)[0]).options.get("store")
        more = {**(options or {}), **({} if given else {"store": str(store)})}
        self.agent = connect(uri, deadline_s, more, self._open, runs=ANY)

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
        """Sends a content that the board lacks. Returns its hash."""
        sha256 = hashlib.sha256(data).hexdigest()
        self._contents[sha256] = data
        if sha256 not in self._hashes:
            present = self.agent.have([sha256])[sha256]
            self._unchecked |= {sha256} if present >= len(data) else set()
            self.agent.put(sha256, data)
            self._hashes.add(sha256)
        return sha256

    @property
    def _runtime(self) -> str:
        opened = self._opened
        words = [f"{opened.folder}/bin/{opened.binary}"] if opened.shell is not None else list(opened.address.argv)
        return shlex.join(words)

    def start(self, wanted: CommandLine, run: str = "") -> RunningLine:
        """Starts the command line. run: the run's folder, of new_run(). The caller must close what is returned. What the
        board had before this connection is checked there first, as an earlier command may have changed it, and sent
        anew if it is wrong."""
        run = run or self.new_run()
        for _ in range(TRIES):
            running = self._start(wanted, run)
            try:
                changed = running.begin()
            except BaseException:
                running.close()
                raise
            if not changed:
                self._unchecked.difference_update(wanted.placed.values())
                self._contents.clear()
                return running
            running.close()
            self._hashes.discard(changed)
            self.put(self._contents[changed])
        raise LinkError(f"{self.uri}: a content changes on the board as soon as it was sent")

    def _start(self, wanted: CommandLine, run: str) -> RunningLine:
        assert all(PLACE.fullmatch(name) for name in wanted.placed), wanted.placed
        out, token, limit = f"{run}/out", run.rpartition("/")[2], f"{max(1, round(self._deadline_s) + 5)}"
        links = [f"{'?' if h in self._unchecked else ''}{name}={h}" for name, h in wanted.placed.items()]
        words = ["run", run, token, limit, wanted.folder or out, wanted.collect or out]
        words += [wanted.setup, wanted.line, wanted.teardown]
        words += ["1" if self._opened.shell is not None else "0", self._folders[0], self._runtime, str(len(links))]
        words += [*links, *(f"{name}={value}" for name, value in wanted.environment.items())]
        stream = self.shell.start(self._script(words), self._deadline())
        running = RunningLine(stream, token, self._deadline(), lambda: self._clean(run))
        try:
            stream.write(SUPERVISE.read_bytes(), self._deadline())
        except BaseException:
            running.close()
            raise
        return running

    def _script(self, words: Sequence[str]) -> str:
        """Returns the command line that reads supervise.sh from its input and runs it with these words."""
        size = SUPERVISE.stat().st_size
        return f"exec sh -c {shlex.quote(READ.replace('@SIZE@', str(size)))} sh {shlex.join(words)}"

    def new_run(self) -> str:
        """Returns the path of a run's folder that does not exist yet; its outputs will be in `out` there."""
        return f"{self._folders[1]}/{secrets.token_hex(8)}"

    def placed(self, run: str, name: str) -> str:
        """Returns the path of a placed content in a run's folder."""
        return f"{run}/in/{name}"

    def _clean(self, run: str) -> None:
        """Ends what a run left whose own shell cannot do it any more; what cannot be reached is ended when the board is
        used next."""
        with contextlib.suppress(LinkError):
            words = self._script(("clean", run, run.rpartition("/")[2]))
            self.shell.run(words, self._deadline().part(10.0), SUPERVISE.read_bytes())

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

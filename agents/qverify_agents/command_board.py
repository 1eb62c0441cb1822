"""A board on which commands run. Contents are sent by hash through the agent, which holds the board's lock. Each
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
from qverify_agents.command_shell import CommandShell
from qverify_agents.connect import OpenedConnection, connect
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BadAddress, LinkError
from qverify_agents.interfaces import Shell
from qverify_agents.inventory import ANY_RUNTIME, resolve
from qverify_agents.supervised_command import RunningCommandLine
from qverify_agents.this_user import cache_folder

SUPERVISE = Path(__file__).with_name("supervise.sh")
FILE_NAME = re.compile(r"[A-Za-z0-9_][\w.+-]{0,199}")  # permitted name of a file in a run's folder
READ_SCRIPT = 'script=$(head -c @SIZE@) && eval "$script"'
MAX_STARTS = 3


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command line for the board's POSIX shell.

    Attributes:
        line: the command line.
        placed: contents that the command reads: hash by file name in the run's folder.
        environment: variables that are set for the command.
        folder: the folder in which it runs, or "" for the folder of its outputs.
        collect: the folder from which its outputs are fetched, or "" for `out` in the run's folder.
        setup: command line that runs before it, or "".
        teardown: command line that runs after it, or "".
    """

    line: str
    placed: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""
    collect: str = ""
    setup: str = ""
    teardown: str = ""


class CommandBoard:
    """A board on which commands run. deadline_s: seconds for each answer and for each command. Raises LinkError if the
    board cannot be reached, BadAddress for a board that has no shell beside its agent."""

    def __init__(self, uri: str, deadline_s: float = 120.0, options: Mapping[str, str] | None = None):
        self.uri, self._deadline_s = uri, deadline_s
        self._opened = OpenedConnection(parse("local"))
        self._local_shell: Shell | None = None
        self._sent_hashes = set[str]()
        self._unverified = set[str]()  # hashes of contents that were on the board before this connection
        self._contents: dict[str, bytes] = {}
        for address in resolve(uri, ANY_RUNTIME):
            _refuse_unusable(uri, address)
        store = cache_folder() / "runners" / "store"
        store_option = parse(resolve(uri, ANY_RUNTIME)[0]).options.get("store")
        all_options = {**(options or {}), **({} if store_option else {"store": str(store)})}
        self.agent = connect(uri, deadline_s, all_options, self._open, runs=ANY_RUNTIME)

    def _open(self, opened: OpenedConnection) -> None:
        self._opened = opened
        self._sent_hashes.clear()

    @property
    def shell(self) -> Shell:
        """The board's shell; this machine's own shell if the board is a process of this machine."""
        if self._opened.shell is not None:
            return self._opened.shell
        self._local_shell = self._local_shell or CommandShell(["/bin/sh", "-c"])
        return self._local_shell

    @property
    def emulator(self) -> str:
        """Path of the emulator under which the board's programs run, or "" if they run without one."""
        argv = self._opened.address.argv
        return argv[0] if self._opened.shell is None and len(argv) > 1 else ""

    @property
    def _folders(self) -> tuple[str, str]:
        """The folder of the contents, and the parent folder of all runs."""
        if self._opened.shell is not None:
            return f"{self._opened.folder}/store", f"{self._opened.folder}/runs"
        store = Path(self._opened.address.options["store"]).absolute()
        return str(store), str(store.with_name("runs"))

    def put(self, data: bytes) -> str:
        """Sends a content, unless the board has it, and returns its hash."""
        sha256 = hashlib.sha256(data).hexdigest()
        self._contents[sha256] = data
        if sha256 not in self._sent_hashes:
            present = self.agent.have([sha256])[sha256]
            self._unverified |= {sha256} if present >= len(data) else set()
            self.agent.put(sha256, data)
            self._sent_hashes.add(sha256)
        return sha256

    @property
    def _runtime(self) -> str:
        opened = self._opened
        words = [f"{opened.folder}/bin/{opened.binary}"] if opened.shell is not None else list(opened.address.argv)
        return shlex.join(words)

    def start(self, command: CommandLine, run: str = "") -> RunningCommandLine:
        """Starts the command line and returns it; the caller must close it. run: path of the run's folder, from
        new_run_folder(). Contents that were on the board before this connection are checked first, because an earlier
        command may have changed them; a changed one is sent again."""
        run = run or self.new_run_folder()
        for _ in range(MAX_STARTS):
            running = self._start_once(command, run)
            try:
                changed = running.begin()
            except BaseException:
                running.close()
                raise
            if not changed:
                self._unverified.difference_update(command.placed.values())
                self._contents.clear()
                return running
            running.close()
            self._sent_hashes.discard(changed)
            self.put(self._contents[changed])
        raise LinkError(f"{self.uri}: a content changes on the board as soon as it was sent")

    def _start_once(self, command: CommandLine, run: str) -> RunningCommandLine:
        assert all(FILE_NAME.fullmatch(name) for name in command.placed), command.placed
        out, token, limit = f"{run}/out", run.rpartition("/")[2], f"{max(1, round(self._deadline_s) + 5)}"
        links = [f"{'?' if h in self._unverified else ''}{name}={h}" for name, h in command.placed.items()]
        words = ["run", run, token, limit, command.folder or out, command.collect or out]
        words += [command.setup, command.line, command.teardown]
        words += ["1" if self._opened.shell is not None else "0", self._folders[0], self._runtime, str(len(links))]
        words += [*links, *(f"{name}={value}" for name, value in command.environment.items())]
        stream = self.shell.start(self._script(words), self._deadline())
        running = RunningCommandLine(stream, token, self._deadline(), lambda: self._clean_up(run))
        try:
            stream.write(SUPERVISE.read_bytes(), self._deadline())
        except BaseException:
            running.close()
            raise
        return running

    def _script(self, words: Sequence[str]) -> str:
        """Returns the command line that reads supervise.sh from its standard input and runs it with these arguments."""
        size = SUPERVISE.stat().st_size
        return f"exec sh -c {shlex.quote(READ_SCRIPT.replace('@SIZE@', str(size)))} sh {shlex.join(words)}"

    def new_run_folder(self) -> str:
        """Returns the path for a new run's folder, which does not exist yet; the outputs will be in `out` there."""
        return f"{self._folders[1]}/{secrets.token_hex(8)}"

    def placed_path(self, run: str, name: str) -> str:
        """Returns the path that a placed content has in a run's folder."""
        return f"{run}/in/{name}"

    def _clean_up(self, run: str) -> None:
        """Ends the processes of a run whose own shell no longer can, and removes its folder. Does nothing if the board
        cannot be reached; the next run on it then cleans up."""
        with contextlib.suppress(LinkError):
            words = self._script(("clean", run, run.rpartition("/")[2]))
            self.shell.run(words, self._deadline().part(10.0), SUPERVISE.read_bytes())

    def _deadline(self) -> Deadline:
        return Deadline(self._deadline_s, self.uri)

    def close(self) -> None:
        """Disconnects."""
        try:
            if self._local_shell is not None:
                self._local_shell.close()
        finally:
            self.agent.close()


def _refuse_unusable(uri: str, resolved: str) -> None:
    """Raises BadAddress for an address through which no files can be fetched, or that plants a fault."""
    address = parse(resolved)
    console = address.scheme == "serial" or (address.scheme == "qemu" and address.options.get("link") == "serial")
    if console:
        raise BadAddress(
            f"-b {uri}: a serial console carries one program at a time, so a runner cannot be driven over it. "
            "Next: reach the board by ssh, or carry its files by hand (qverify compare)"
        )
    if address.scheme == "faulty" or "fault" in address.options:
        raise BadAddress(f"-b {uri}: faults are planted in qvrt; a runner runs something else")

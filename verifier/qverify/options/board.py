"""The board: how it is reached, how long it may take, and what is asked of it."""

from __future__ import annotations

from qverify.options.option import OF_THE_JOB, REACHES, Number, Option, Whole
from qverify.report.checks import CHECKS

_SENT = "a job runs where it was sent"

BOARDS = Option(
    "-b --board",
    "local, qemu-user:aarch64, HOST, serial:///dev/ttyUSB0, qemu:arm64, podman:IMAGE, a name in boards.toml; may be repeated",
    name="boards",
    many=True,
    job=OF_THE_JOB,
)
BOARD = Option("-b --board", "one board, addressed as in the main job", "board")
NO_BOARD = Option(
    "--no-board",
    "verify the host's sides alone; where CI=true, a run without -b is refused without it",
    "flag",
    only_cli=True,
)
TIMEOUT = Option(
    "--timeout", "seconds for each answer of the board", Number(0.1, 1e6), 120.0, name="deadline_s", shown=True
)
WAIT = Option("--wait", "how long to wait for a board that is in use", Number(0, 1e6), metavar="SECONDS", job=REACHES)
USER = Option("--user", "ssh: user name to log in with", job=REACHES)
SSH_CONFIG = Option(
    "--ssh-config",
    "ssh: configuration used instead of ~/.ssh/config (or QVERIFY_SSH_CONFIG)",
    metavar="FILE",
    job=REACHES,
)
SSH_BACKEND = Option("--ssh-backend", "ssh: openssh for certificates, FIDO keys", ("paramiko", "openssh"), job=REACHES)
ACCEPT_NEW_HOST_KEY = Option(
    "--accept-new-host-key", "ssh: accept and store the key of an unknown host", "flag", job=REACHES
)
REPEAT = Option(
    "--repeat",
    "runs of the board on the same inputs; tensors that change are reported",
    Whole(1, 1_000_000),
    1,
    shown=True,
    form="Runs on the same inputs",
)
CHECK = Option(
    "--check",
    "further runs of the board that must give the same bytes: each item of a batch alone, or the frames in the reverse order; may be repeated",
    CHECKS,
    name="checks",
    many=True,
)
PARANOID = Option(
    "--paranoid",
    "pull every tensor, and also compare the board with the simulator on other, random inputs",
    "flag",
    form="Paranoid",
)
PULL = Option(
    "--pull",
    "tensors whose bytes cross the link: those whose digests differ, or all",
    ("differ", "all"),
    "differ",
    shown=True,
)
SPOT_SEED = Option(
    "--spot-seed",
    "seed that chooses the tensor of the spot check, and --paranoid's inputs; when not given, a new one is drawn for each run and reported",
    Whole(0, 2**32 - 1),
)
SERVER = Option(
    "--server",
    "run the job on the farm of `qverify serve` there; -b is a name or a tag (soc=j5) of its boards",
    metavar="URL",
    job=_SENT,
)
TOKEN = Option(
    "--token", "of --server  [default: QVERIFY_TOKEN, or that of qverify login URL]", metavar="TOKEN", job=_SENT
)

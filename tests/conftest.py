"""Where the real models, emulators and binaries are; every skip has its reason."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from qverify_agents import this_user
from qverify_agents.emulation.image import KINDS, RECIPE

from tests.needs import QUICK, arrange, file_of, has_no_quick_test, leave_out_repeats, units_of_work
from tests.seconds import UNKNOWN, Durations, changed_files, choose_files, concerned, read_record
from tests.share import is_whole_run, leave_out_others

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling

    from tests.board_kinds import Place

ROOT = Path(__file__).resolve().parents[1]
MODELS = ROOT.parent / "shared" / "models"
CHOSEN, CONCERNED = pytest.StashKey[set[str]](), pytest.StashKey[set[str]]()


def real_models() -> list[Path]:
    return sorted(p for p in MODELS.glob("*/*_q*.onnx") if p.parent.name != "bad")


def with_images(own: Path) -> Path:
    """Returns `own`, made a cache folder whose images, ARM reference and labgrid are those of the present one."""
    present = this_user.cache_folder()
    for name in ("arm_reference", "labgrid", "engines", *(f"boards/{kind}-{RECIPE}" for kind in KINDS)):
        (present / name).mkdir(parents=True, exist_ok=True)
        (own / "qverify" / name).parent.mkdir(parents=True, exist_ok=True)
        (own / "qverify" / name).symlink_to(present / name)
    return own


@pytest.fixture(scope="session", autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Each worker has a cache and a configuration folder of its own: it meets no other's locks, stores, machines and boards.
    What takes long to make and is only read, the images of emulated boards, the ARM reference and labgrid, is the user's."""
    own = with_images(tmp_path_factory.mktemp("own"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CACHE_HOME", str(own))
        patched.setenv("XDG_CONFIG_HOME", str(own / "config"))
        for name in ("CI", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):  # of the CI that runs the tests
            patched.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session")
def digits() -> Path:
    """Folder of the packaged example."""
    return ROOT / "verifier" / "qverify" / "example"


def need_models() -> pytest.MarkDecorator:
    return pytest.mark.skipif(not real_models(), reason="the real models (../shared/models) are not beside the project")


def need_qemu(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        shutil.which(f"qemu-{name}-static") is None and shutil.which(f"qemu-{name}") is None,
        reason=f"qemu-{name} is not on this machine",
    )


def pytest_configure(config: pytest.Config) -> None:
    """A shell that starts pytest in the background has it ignore Ctrl-C, and so would every program the tests press it on."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("--record-seconds") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations())


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Returns the workers of `-n auto`: none for named files and tests, otherwise two more than processors, as many tests wait."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    whole = any(Path(word).is_dir() for word in config.args)
    return len(os.sched_getaffinity(0)) + 2 if whole else 0


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    """Hands out the tests of a shared place together, others by units_of_work."""
    from xdist.scheduler import LoadGroupScheduling

    class UnitScheduling(LoadGroupScheduling):
        units: dict[str, str] | None = None

        def _split_scope(self, nodeid: str) -> str:
            if self.units is None:
                assert self.collection is not None
                self.units = units_of_work(self.collection)
            group = super()._split_scope(nodeid)
            return self.units[nodeid] if group == nodeid else group

    return UnitScheduling(config, log)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files of which QUICK would leave nothing are not read: a third of what every worker collects; nor are those that
    --seconds does not choose."""
    if config.option.markexpr != QUICK:
        return None
    if has_no_quick_test(collection_path):
        return True
    if not config.getoption("--seconds") or not collection_path.match("test_*.py"):
        return None
    return None if file_of(collection_path) in _chosen(config) else True


def _chosen(config: pytest.Config) -> set[str]:
    """Returns the files of a run of --seconds, relative to tests/."""
    if CHOSEN not in config.stash:
        here = ROOT / "tests"
        texts = {file_of(p): p.read_text() for p in here.rglob("test_*.py") if not has_no_quick_test(p)}
        record = read_record()
        costs = {name: record.get(name, (UNKNOWN, UNKNOWN))[1] for name in texts}
        first = config.stash[CONCERNED] = concerned(changed_files(ROOT), texts)
        config.stash[CHOSEN] = choose_files(
            config.getoption("--seconds"), config.getoption("randomly_seed", 0), first, costs
        )
    return config.stash[CHOSEN]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--op"):
        _keep_tests_of(config.getoption("--op"), config, items)
    if repeats := leave_out_repeats(items):
        config.hook.pytest_deselected(items=repeats)
    arrange(items)
    share: int = config.getoption("--share")
    if share > 1 and is_whole_run(config):
        config.hook.pytest_deselected(items=leave_out_others(items, share, config.getoption("randomly_seed", 0)))


def pytest_report_header(config: pytest.Config) -> str | None:
    if config.getoption("--seconds"):
        chosen = _chosen(config)
        left_out = sorted(config.stash[CONCERNED] - chosen)
        more = f"; NOT RUN though the change concerns them: {', '.join(left_out)}" if left_out else ""
        return f"{len(chosen)} files, as many as fit in {config.getoption('--seconds'):g} s of all workers{more}"
    share: int = config.getoption("--share")
    if share == 1 or not is_whole_run(config):
        return None
    return f"one in {share} cases of each slow test, chosen by --randomly-seed (every case: scripts/test --all)"


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fails where tests of one place would meet: pytest 9.2 and pytest-xdist 3.8 together forget the groups without a word."""
    gc.freeze()  # what is here now stays to the end: no later collection of garbage goes through it
    grouped = [item for item in session.items if item.get_closest_marker("xdist_group")]
    if hasattr(session.config, "workerinput") and not all("@" in item.nodeid for item in grouped):
        raise pytest.UsageError(
            "pytest-xdist makes no groups with this pytest. Next: scripts/setup test, or pytest -n 0"
        )


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--board",
        action="append",
        default=[],
        metavar="URI",
        help="run tests/conformance/test_every_place.py over this board too (may be repeated)",
    )
    parser.addoption(
        "--share",
        type=int,
        default=1,
        metavar="N",
        help="of a slow test with several cases, run one in N, chosen by --randomly-seed (tests/share.py)",
    )
    parser.addoption(
        "--seconds",
        type=float,
        metavar="N",
        help="of quick tests, run files that take so many seconds in all workers: those that a change concerns, then any (tests/seconds.py)",
    )
    parser.addoption("--record-seconds", action="store_true", help="write what each file takes to tests/seconds.txt")
    parser.addoption(
        "--op", metavar="STEM", help="run only what tests this op: its own cases, and random nodes of every op"
    )


def _keep_tests_of(stem: str, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps, for --op STEM, tests with a parameter `stem` of this op, tests over one of its reference cases, and test_random_nodes."""
    from tests.ops.case_files import CASES, FILES

    if stem not in FILES:
        raise pytest.UsageError(f"--op {stem}: no tests/ops/cases/{stem}.py; scripts/new_op {stem} writes it")
    cases = {name for name, (_, op, _) in CASES.items() if op == stem}
    config.hook.pytest_deselected(items=[item for item in items if not _tests(item, stem, cases)])
    items[:] = [item for item in items if _tests(item, stem, cases)]


def _tests(item: pytest.Item, stem: str, cases: set[str]) -> bool:
    given = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return given.get("stem") == stem or str(given.get("name")) in cases or item.name.startswith("test_random_nodes")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`where` runs over every kind of board and the ones the tester names, or over the PLACES of its module."""
    if "where" in metafunc.fixturenames:
        from tests.board_kinds import NAMES

        named = getattr(metafunc.module, "PLACES", [*NAMES, *metafunc.config.getoption("--board")])
        metafunc.parametrize("where", named, indirect=True, scope="session")


@pytest.fixture(scope="session")
def where(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A Place (board_kinds.py), started once for all tests over it; skipped where this machine lacks what it needs. In a folder
    of a short name: of a store that lies deeper podman removes no container by itself."""
    from tests.board_kinds import Unavailable, place

    with contextlib.ExitStack() as open_places:
        work = open_places.enter_context(tempfile.TemporaryDirectory(prefix="qv", ignore_cleanup_errors=True))
        try:
            found = open_places.enter_context(place(request.param, Path(work)))
        except Unavailable as error:
            pytest.skip(str(error))
        yield found

"""Marks each test with what it needs and with the shared place where it runs, by its file and its board. A slow test in
a quick file is marked there: `@pytest.mark.slow`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

NEEDS = {  # marks: `pytest -m "not emulator"`
    "emulator": re.compile(r"^emulated/|qemu"),
    "engine": re.compile(r"container|docker|podman"),
    "fuzz": re.compile(r"fuzz|frame_corpus"),
    "slow": re.compile(  # they start many processes, run real networks, compile every op or search many faults: 0.1 s a test
        r"^(models|links|engines)/| postgresql$|/test_(every_place|hostile_models|interrupts|sanitized_runtime|runner(_\w+)?|other_hosts"
        r"|light_model|pytest_plugin|extras|streams|process_stream|frames|soak|live_progress|screens_of_commands|task_numbers"
        r"|documents_shown|report_pages?(_clicked)?|dump_files|inputs_diff(_of_files)?|outputs_diff(_of_results)?|ci_recipes|one_row|probe_models"
        r"|reference_(python|engine(_of_commands)?|spread)|onnxruntime_board|captures(_of_other_\w+|_altered|_extracted)?"
        r"|triage_(captures|by_builds|of_boards|of_float_models)|experiments_(on_boards|and_records)|detection_\w+|reduce|linear"
        r"|forensics(_of_(ops|memory|order|bits))?|recorded_hypotheses|one_cause|faults_(are_blamed|of_depthwise)|hypotheses_of_inputs"
        r"|kernel_hypotheses_of_\w+|attributes_of_schemas|onnx_node_cases|guarded_divisions|hostile_words|unrolled_loops|loops_among_others"
        r"|decompositions_of_regions|channels_last|max_pools|attention_(past|masks)|grouped_attention|supervise_functions|instruction_sets"
        r"|runtime_equals_simulator|units_equal_onnxruntime|error_bounds(_of_recurrences)?|random_graphs|verdict_properties"
        r"|identify_board|tasks|tflite_(operators|int16|alone|floats)|outputs_diff_tables|recorded_causes"
        r"|profiles_(axera|sigmastar|stm32)|wheel|labgrid|custom_operators"
        r"|(dask|beside|in_process)_engine|engine_group|run_job|dispatcher(_resumes)?|service_\w+|forged_bad_cases)\.py"
    ),
}
QUICK = "not emulator and not engine and not fuzz and not slow"  # -m of scripts/test --quick
SHARED = {  # the tests of one place run one after another, in one worker; the groups that take longest come first
    "emulated console": re.compile(r"qemu-serial$"),
    "noisy line": re.compile(r"noisy-pty$"),
    "containers": re.compile(r"container$|docker$|systems/test_container\.py$"),  # each sees the other's processes
    "line": re.compile(r" pty$"),
    "labgrid": re.compile(r"systems/test_labgrid\.py$"),  # one coordinator, one exporter, one sshd
    "emulated board": re.compile(r"qemu-ssh$"),
    "ARM reference": re.compile(r"test_arm_(reference|results)\.py$"),
    "ARM board with Python": re.compile(r"systems/test_qemu_python\.py$"),  # 1.5 GB of memory each
    "farm workers": re.compile(r"farm/test_dask_engine\.py$"),  # one scheduler, one worker
    "wheel": re.compile(r"systems/test_wheel\.py$"),  # built and installed once
    "PostgreSQL": re.compile(r" postgresql$"),  # one server
}
# These have tests of 10 s and more.
LONG = re.compile(r"^models/|test_(fuzzers|runtime_equals_simulator|forensics_of_ops|documents_shown)\.py")
AT_ONCE = {  # tests of one file that a worker is given together, by the first that fits
    re.compile(r"^models/|test_attributes_of_schemas\.py"): 1000,  # what one compiles the others of its file need, too
    LONG: 1,
    re.compile("|".join(pattern.pattern for pattern in NEEDS.values())): 4,
    re.compile(""): 16,
}
BOARDS = ("where", "uri", "database_url")  # parameters that name a board, or a kind of database


def place_of(item: pytest.Item) -> str:
    """Returns the test's file relative to tests/ and, after a space, the board that it is parametrized with, if any."""
    given = item.callspec.params if hasattr(item, "callspec") else {}
    board = next((str(given[name]) for name in BOARDS if name in given), "")
    return f"{file_of(item.path)} {board}".strip()


def file_of(path: Path) -> str:
    return path.as_posix().rpartition("/tests/")[2]


def needs_of(place: str) -> list[str]:
    return [name for name, pattern in NEEDS.items() if pattern.search(place)]


def has_no_quick_test(path: Path) -> bool:
    """Returns whether every test of this file has a mark that QUICK leaves out."""
    return path.suffix == ".py" and bool(needs_of(file_of(path)))


def leave_out_repeats(items: list[pytest.Item]) -> list[pytest.Item]:
    """Removes, and returns, the tests that the mark `thorough_at(PLACE, ..., elsewhere=PARAMETER)` leaves out: at other kinds
    of board than these (not at boards that the tester names), a test runs with one of its parameters only."""
    from tests.board_kinds import NAMES

    kept, repeats = dict[tuple[str, str], list[pytest.Item]](), list[pytest.Item]()
    for item in items:
        mark = item.get_closest_marker("thorough_at")
        if mark is not None and isinstance(item, pytest.Function):
            where, parameters = item.callspec.params["where"], item.callspec.params.values()
            same = kept.setdefault((item.originalname, where), [])
            is_repeat = where in NAMES and where not in mark.args and mark.kwargs["elsewhere"] not in parameters
            (repeats if is_repeat else same).append(item)
    if lost := [key for key, tests in kept.items() if not tests]:
        raise pytest.UsageError(
            f"{lost[0][0]}: thorough_at leaves no test at {lost[0][1]}; `elsewhere` is no parameter"
        )
    left_out = set(repeats)
    items[:] = [item for item in items if item not in left_out]
    return repeats


def arrange(items: list[pytest.Item]) -> None:
    """Marks each test with its needs and its shared place; puts shared places first, then emulators, then what is
    long, so that no worker begins with that when the others are done."""
    ranks = {name: rank for rank, name in enumerate([*SHARED, "emulator", "long", ""])}
    rank_of = {}
    for item in items:
        place = place_of(item)
        needs = needs_of(place)
        shared = next((name for name, pattern in SHARED.items() if pattern.search(place)), "")
        for name in needs:
            item.add_marker(name)
        if shared:
            item.add_marker(pytest.mark.xdist_group(shared))
        rank_of[item] = ranks[shared or ("emulator" if "emulator" in needs else "long" if LONG.search(place) else "")]
    items.sort(key=rank_of.__getitem__)


def units_of_work(nodeids: Iterable[str]) -> dict[str, str]:
    """Returns, by node id, the name of the unit of work that the test is in: a few tests of one file that stand together, so
    that what they share is made in one worker, not in all, and that a worker is not asked for each."""
    units = {}
    for file, tests in itertools.groupby(nodeids, lambda nodeid: nodeid.partition("::")[0]):
        place = file.partition("tests/")[2]
        most = next(number for pattern, number in AT_ONCE.items() if pattern.search(place))
        for at, nodeid in enumerate(tests):
            if at % most == 0:
                first = nodeid
            units[nodeid] = first
    return units

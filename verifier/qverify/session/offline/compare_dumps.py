"""Two dumps already on disk judged: folders of .npy, .npz, captures, run.sh's dumps, vendors' dumps."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from qverify import profiles
from qverify.capture.layouts import side_of
from qverify.capture.reader import is_capture
from qverify.compare.options import Options
from qverify.compare.verdict import judge_all
from qverify.errors import BadFileError, UsageError
from qverify.model_bin.graph import Graph
from qverify.printable import printable
from qverify.report.document import Pair, Report
from qverify.session.models import Models, open_models
from qverify.session.offline.rejudge import mark_inconclusive
from qverify.sides.dumps.array_dump import find_arrays, open_array_dump
from qverify.sides.dumps.board_dump import read_board_dump
from qverify.sides.dumps.vendor_side import OtherSide, align_profiles, declared_specs, record_dump
from qverify.tensors.recording import Recording
from qverify.tensors.spec import TensorSpec
from qverify.vendor_files.untrusted_files import UntrustedFolder
from qverify.vendor_files.vendor_dump import ITEM, ReadingOptions, VendorDump


@dataclass(frozen=True, slots=True)
class Dumps:
    """a, b: paths; profile_a, profile_b: "" to be told by content. model: path for -m. asked: the rest, for both.
    outputs_only: the final outputs alone are wanted of both."""

    a: str
    b: str
    model: str | None = None
    profile_a: str = ""
    profile_b: str = ""
    asked: ReadingOptions = field(default_factory=ReadingOptions)
    outputs_only: bool = False


def compare_dumps(dumps: Dumps, options: Options) -> Report:
    """A tensor that only one of them has is missing: never PASSED."""
    opened = open_models([dumps.model]) if dumps.model is not None else None
    sides = [
        _side(dumps, p, profile, opened) for p, profile in ((dumps.a, dumps.profile_a), (dumps.b, dumps.profile_b))
    ]
    first, second = _recordings(dumps, sides, opened)
    outputs = _outputs(first, second, opened) if dumps.outputs_only else ()
    first.side, second.side = "A", "B"
    if (given := _inputs(first)) and _inputs(second) and given != _inputs(second):
        raise UsageError(f"{dumps.a} and {dumps.b} were computed from other inputs; nothing can be compared")
    _within_precision((first, second), options)
    told = opened.graph.tensors if opened is not None else {}
    borrowed: list[str] = []
    for one, other in ((first, second), (second, first)):
        for name in other.specs.keys() - one.specs.keys():
            one.specs[name] = other.specs[name]
            why = other.missing.get(name)
            one.missing[name] = "not in the dump" + (f"; on the other side: {why}" if why else "")
        for name, spec in one.specs.items():  # stored values are told by the side that knows their scale
            known = other.specs.get(name, spec)
            if known.quantized and not spec.quantized and (known.dtype, known.shape) == (spec.dtype, spec.shape):
                one.specs[name] = known
                borrowed += [name] if name not in told else []
    first.finals = second.finals = outputs or tuple(first.specs)
    for one in (first, second):
        one.capabilities |= {"per_node"}  # both list every tensor they have
    options = replace(options, dump_all=not dumps.outputs_only)
    report = judge_all({"A": first, "B": second}, None, [], options, {}, None)
    for pair in report.pairs:
        if borrowed and not pair.bit_equal:
            pair.relaxed.append(
                f"{len(borrowed)} tensors are read by a scale that one dump alone gives, first {borrowed[0]}"
            )
        pair.relaxed += dict.fromkeys(str(part) for side in (first, second) for part in side.settings.get("part", []))
        _say_scope(pair, dumps.outputs_only, _absent(first, opened))
    report.notes += [f"A is {printable(dumps.a)}, B is {printable(dumps.b)}", *_of_models(first, second)]
    doubts = [(k, s.settings[k]) for s in (first, second) for k in ("incomplete", "unsteady") if s.settings.get(k)]
    for key, why in dict.fromkeys(doubts):
        mark_inconclusive(report, f"the capture is incomplete: {why}" if key == "incomplete" else str(why))
    report.notes += dict.fromkeys(note for side in (first, second) for note in side.notes)
    _claim_no_more(report, (first, second))
    return report


def _outputs(first: Recording, second: Recording, opened: Models | None) -> tuple[str, ...]:
    """Names of the final outputs: of -m, else as the dumps themselves tell. UsageError where that is nobody, or contradictory."""
    told = [tuple(s.settings.get("outputs", ())) for s in (first, second)] if opened is None else [opened.graph.outputs]
    known = {names for names in told if names}
    if not known:
        raise UsageError(
            "--outputs-only: neither dump tells which of its tensors are final outputs (a capture and `qverify infer` do); give -m MODEL"
        )
    if len(known) > 1:
        raise UsageError(f"--outputs-only: the dumps name other final outputs: {' and '.join(map(str, sorted(known)))}")
    return known.pop()


def _absent(first: Recording, opened: Models | None) -> list[str]:
    """Tensors of -m that neither dump speaks of."""
    return [] if opened is None else [n for n in opened.graph.observable() if n not in first.specs]


def _say_scope(pair: Pair, outputs_only: bool, absent: list[str]) -> None:
    """In the verdict line: what was asked to be left out, or how to ask for it; what the model has and neither dump."""
    if outputs_only:
        pair.scope = "final outputs only, as asked"
    elif absent:
        pair.relaxed.append(f"{len(absent)} tensors of the model are in neither dump, first {absent[0]}")
    if not outputs_only and pair.cause == "coverage":
        pair.why += "; where one side has the final outputs alone, --outputs-only compares those"


def _of_models(first: Recording, second: Recording) -> list[str]:
    """A note where captures are known to be of two models."""
    told = [str(s.settings.get("models", "")) for s in (first, second)]
    return ["WARNING: A and B are captures of different models"] if all(told) and told[0] != told[1] else []


def dtypes(values: Iterable[str]) -> dict[str, str]:
    """DTYPE or NAME=DTYPE options, "" for the former. UsageError for any other dtype."""
    found = {}
    for value in values:
        name, _, dtype = value.rpartition("=")
        if dtype not in ITEM:
            raise UsageError(f"--dtype {value}: wanted one of {', '.join(ITEM)}, or NAME=DTYPE")
        found[name] = dtype
    return found


def _side(dumps: Dumps, path: str, profile: str, opened: Models | None) -> Recording | VendorDump:
    """The profile that was named; else what the content says."""
    if not profile and is_capture(path):
        return side_of(path, dumps.asked.side, dumps.asked.frame, "dump")
    if not profile and opened is not None and (raw := _raw(path)):
        return read_board_dump(raw, opened.graph, hashlib.sha256(opened.binary).hexdigest())
    plain = path.endswith(".npz") or (os.path.isdir(path) and bool(find_arrays(path)))
    name = profile or profiles.recognised(path)
    if plain and name and not profile:
        raise UsageError(f"{path}: .npy files beside a dump of {name}; --profile {name} takes the latter")
    if name:
        page = profiles.page(name)
        found = page.read(UntrustedFolder(path), dumps.asked)
        if not found.tensors and not found.missing:
            raise BadFileError(f"{path}: no tensor in it; profile {name} wants {page.WANTED}")
        found.notes += [f"{name}: {page.CHECKED} (verifier/PROFILES.md)"] if page.CHECKED else []
        return found
    if plain or os.path.lexists(os.path.join(path, "manifest.json")):
        return (
            open_array_dump(path, "dump") if opened is None else add_scales(open_array_dump(path, "dump"), opened.graph)
        )
    if opened is not None and os.path.isfile(path):
        return read_board_dump(path, opened.graph, hashlib.sha256(opened.binary).hexdigest())
    raise BadFileError(f"{path}: {_held(path)}; {_WANTED.format(names=', '.join(profiles.names()))}")


_WANTED = (
    "wanted a folder of .npy files, an .npz, a capture, with -m model.bin a dump of run.sh, or a vendor's dump: "
    "say which with --profile NAME ({names})"
)


def _held(path: str) -> str:
    """What is there, in few words."""
    if not os.path.isdir(path):
        return f"a file of {os.path.getsize(path)} bytes that none of the formats begins with"
    names = sorted(os.listdir(path))
    return (
        f"{len(names)} files ({', '.join(names[:3])}{' ...' if len(names) > 3 else ''})" if names else "an empty folder"
    )


def _recordings(
    dumps: Dumps, sides: list[Recording | VendorDump], opened: Models | None
) -> tuple[Recording, Recording]:
    """Vendors' dumps read against the other side, which is settled first."""
    a, b = sides
    model = opened.graph.tensors if opened is not None else {}
    outputs = opened.graph.outputs if opened is not None else ()
    given = dumps.asked.dtypes
    if isinstance(a, Recording) and isinstance(b, Recording):
        return a, b
    if isinstance(a, VendorDump) and isinstance(b, Recording):
        return record_dump(a, dumps.a, "reference", OtherSide(_plain(b), None, model, outputs), given), b
    if isinstance(a, Recording) and isinstance(b, VendorDump):
        return a, record_dump(b, dumps.b, "dump", OtherSide(_plain(a), None, model, outputs), given)
    assert isinstance(a, VendorDump) and isinstance(b, VendorDump)
    if a.profile == b.profile:
        align_profiles(a, b)
    if b.written is None:  # names of b are true: a takes them
        one = record_dump(a, dumps.a, "reference", OtherSide(declared_specs(b), b, model), given)
        return one, record_dump(b, dumps.b, "dump", OtherSide(_plain(one), None, model), given)
    two = record_dump(b, dumps.b, "dump", OtherSide(declared_specs(a), a, model), given)
    return record_dump(a, dumps.a, "reference", OtherSide(_plain(two), None, model), given), two


def _plain(recording: Recording) -> dict[str, TensorSpec]:
    """What the other side can be held against."""
    return {n: s for n, s in recording.specs.items() if not s.interior and n not in recording.missing}


def add_scales(recording: Recording, graph: Graph) -> Recording:
    """Stored values told apart from real ones: what has a tensor's dtype and shape has its scale, too."""
    for name, spec in recording.specs.items():
        known = graph.tensors.get(name)
        if known is not None and (known.dtype, known.shape) == (spec.dtype, spec.shape):
            recording.specs[name] = known
    recording.capabilities |= {"per_node"}
    return recording


def _inputs(recording: Recording) -> list[str]:
    return list(recording.settings.get("inputs", []))


def _raw(path: str) -> str:
    """The path, where it holds run.sh's dump."""
    inside = any(os.path.isfile(os.path.join(path, *n)) for n in (("about.txt",), ("dump", "about.txt")))
    return path if inside else ""


def _precision(sides: tuple[Recording, Recording]) -> int | None:
    known = [p for s in sides if isinstance(p := s.settings.get("precision"), int)]
    return min(known) if known else None


def _within_precision(sides: tuple[Recording, Recording], options: Options) -> None:
    """UsageError for a gate finer than what the values are known to."""
    known = _precision(sides)
    if known is None:
        return
    fine = 10.0**-known
    gates = {n: options.gates[n] for n in ("atol", "rmse") if n in options.gates}
    asked = [f"-c {options.digits}"] if options.decimals and options.digits > known else []
    asked += ["--rule exact"] if options.rule == "exact" else []
    asked += [f"--{'max-rmse' if n == 'rmse' else n} {limit:g}" for n, limit in gates.items() if limit < fine]
    asked += ["--rtol without --atol"] if "rtol" in options.gates and "atol" not in gates else []
    if known < 0:
        raise UsageError(
            "the dump's values have so few printed digits that not even whole numbers are known; dump more of them"
        )
    if asked:
        raise UsageError(
            f"{asked[0]}: the dump's values are known to {known} decimals only, and nothing finer is judged; "
            f"give -c {known} or less" + (", or -m, which has the exact scales" if known < 6 else "")
        )


def _claim_no_more(report: Report, sides: tuple[Recording, Recording]) -> None:
    """Equal text is not equal bytes, and says nothing of the decimals it does not have."""
    known = _precision(sides)
    if known is None:
        return
    report.notes.append(f"values known to {known} decimals: whether the bytes are equal is not known")
    for pair in report.pairs:
        pair.bit_equal = False
        for row in pair.tensors:
            row.bit_equal = False
            digits = row.metrics.get("matching_digits")
            row.metrics["matching_digits"] = min(digits, known) if isinstance(digits, int) else digits

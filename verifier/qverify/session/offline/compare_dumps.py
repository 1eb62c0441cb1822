"""Compares two dumps on disk: folders of .npy or raw files, .npz files, captures, dumps of run.sh, of qvrt, of vendors."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import permutations

from qverify.capture.reader import is_capture
from qverify.compare.options import Options
from qverify.compare.verdict import judge_all
from qverify.errors import UsageError
from qverify.plural import count
from qverify.printable import printable
from qverify.report.document import Pair, Report
from qverify.session.models import Models, open_models
from qverify.session.offline.dump_reservations import describe_same_files, read_by_model
from qverify.session.offline.rejudge import mark_inconclusive
from qverify.sides.dumps.open_dump import open_dump
from qverify.sides.dumps.vendor_names import common_spelling
from qverify.sides.dumps.vendor_side import OtherSide, align_profiles, declared_specs, record_dump
from qverify.tensors.recording import Recording
from qverify.tensors.spec import TensorSpec
from qverify.vendor_files.vendor_dump import ITEM, ReadingOptions, VendorDump


@dataclass(frozen=True, slots=True)
class Dumps:
    """Two dumps and how to read them. a, b: paths. profile_a, profile_b: "" to recognise the format by its content.
    model: path for -m. asked: further options, for both. outputs_only: compare only the final outputs. side_a, side_b:
    which side of each, where a dump has several."""

    a: str
    b: str
    model: str | None = None
    profile_a: str = ""
    profile_b: str = ""
    asked: ReadingOptions = field(default_factory=ReadingOptions)
    outputs_only: bool = False
    side_a: str = ""
    side_b: str = ""

    def reading(self, b: bool) -> ReadingOptions:
        """Returns the options for reading one of them."""
        return replace(self.asked, side=(self.side_b if b else self.side_a) or self.asked.side)


def compare_dumps(dumps: Dumps, options: Options) -> Report:
    """Returns the report of A against B. A tensor that only one of them has is missing there, so the verdict is never
    PASSED. Raises UsageError where the two cannot be compared, BadFileError for a dump that cannot be read."""
    opened = open_models([dumps.model]) if dumps.model is not None else None
    sides = [
        _side(p, profile, dumps.reading(b), opened)
        for p, profile, b in ((dumps.a, dumps.profile_a, False), (dumps.b, dumps.profile_b, True))
    ]
    itself = _describe_one(dumps, sides) or describe_same_files(dumps.a, dumps.b)
    first, second = _recordings(dumps, sides, opened)
    outputs = _outputs(first, second, opened) if dumps.outputs_only else ()
    first.side, second.side = "A", "B"
    if (digests := _inputs(first)) and _inputs(second) and digests != _inputs(second):
        raise UsageError(f"{dumps.a} and {dumps.b} were computed from different inputs; they cannot be compared")
    _within_precision((first, second), options)
    model_tensors = opened.graph.tensors if opened is not None else {}
    borrowed: list[str] = []
    for one, other in ((first, second), (second, first)):
        for name in other.specs.keys() - one.specs.keys():
            one.specs[name] = other.specs[name]
            why = other.missing.get(name)
            one.missing[name] = "not in the dump" + (f"; on the other side: {why}" if why else "")
        for name, spec in one.specs.items():  # the side that knows the scale says that these are stored values
            theirs = other.specs.get(name, spec)
            if theirs.quantized and not spec.quantized and (theirs.dtype, theirs.shape) == (spec.dtype, spec.shape):
                one.specs[name] = theirs
                borrowed += [name] if name not in model_tensors else []
    by_model, contradicted = read_by_model(first, second, model_tensors, _spelling(sides))
    first.finals = second.finals = outputs or tuple(first.specs)
    for one in (first, second):
        one.capabilities |= {"per_node"}  # both list every tensor they have
    options = replace(options, dump_all=not dumps.outputs_only)
    report = judge_all({"A": first, "B": second}, None, [], options, {}, None)
    _name_outputs(report.pairs, first, second, opened)
    report.models = list(opened.rows) if opened is not None else []
    for pair in report.pairs:
        pair.relaxed += [itself] if itself else []
        if borrowed and not pair.bit_equal:
            pair.relaxed.append(
                f"{count(len(borrowed), 'tensor', 'is', 'are')} read by a scale that only one dump gives, first {borrowed[0]}"
            )
        if contradicted and not pair.bit_equal:
            pair.relaxed.append(
                f"{count(len(contradicted), 'tensor', 'is', 'are')} read by a dump's scale, which -m contradicts, first {contradicted[0]}"
            )
        pair.relaxed += dict.fromkeys(str(part) for side in (first, second) for part in side.settings.get("part", []))
        _say_scope(pair, dumps.outputs_only, _absent(first, opened))
    report.notes += [f"A is {printable(dumps.a)}, B is {printable(dumps.b)}", *_model_notes(first, second)]
    report.notes += _scale_notes(first, second)
    if by_model:
        report.notes.append(
            f"{count(len(by_model), 'tensor', 'is', 'are')} read by the scale of -m, which contradicts both dumps, first {by_model[0]}"
        )
    doubts = [(k, s.settings[k]) for s in (first, second) for k in ("incomplete", "unsteady") if s.settings.get(k)]
    for key, why in dict.fromkeys(doubts):
        mark_inconclusive(report, f"the capture is incomplete: {why}" if key == "incomplete" else str(why))
    report.notes += dict.fromkeys(note for side in (first, second) for note in side.notes)
    _claim_no_more(report, (first, second))
    return report


def _spelling(sides: list[Recording | VendorDump]) -> Callable[[str], str]:
    """Returns a function that spells the model's names and those of both dumps alike."""
    first, second = (side.written if isinstance(side, VendorDump) else None for side in sides)
    return common_spelling(first, second)


def _name_outputs(pairs: list[Pair], first: Recording, second: Recording, opened: Models | None) -> None:
    """Marks as final, where it is known, only the model's outputs; the largest values of others tell nothing."""
    stated = [side.settings.get("outputs", ()) for side in (first, second)]
    known = frozenset(opened.graph.outputs if opened is not None else [n for names in stated for n in names])
    for pair in pairs:
        if any(row.name in known for row in pair.tensors):
            pair.agreement = [one for one in pair.agreement if one.output in known]
            for row in pair.tensors:
                row.final = row.name in known


def _describe_one(dumps: Dumps, sides: list[Recording | VendorDump]) -> str:
    """Returns what the verdict says where A and B are one folder or file, also by a link; "" where they are two, or two
    sides of one."""
    read = [{t.where for t in side.tensors} for side in sides if isinstance(side, VendorDump)]
    two_sides = is_capture(dumps.a) and dumps.reading(False).side != dumps.reading(True).side
    if not os.path.samefile(dumps.a, dumps.b) or two_sides or (len(read) == 2 and not read[0] & read[1]):
        return ""
    return f"A and B are one {'folder' if os.path.isdir(dumps.a) else 'file'}, compared with itself"


def _outputs(first: Recording, second: Recording, opened: Models | None) -> tuple[str, ...]:
    """Returns the names of the final outputs: those of -m, else those that the dumps state. Raises UsageError where
    none of them states any, or the dumps contradict each other."""
    stated = (
        [tuple(s.settings.get("outputs", ())) for s in (first, second)] if opened is None else [opened.graph.outputs]
    )
    known = {names for names in stated if names}
    if not known:
        raise UsageError(
            "--outputs-only: neither dump says which of its tensors are final outputs (a capture and `qverify infer` do); give -m MODEL"
        )
    if len(known) > 1:
        raise UsageError(
            f"--outputs-only: the dumps name different final outputs: {' and '.join(map(str, sorted(known)))}"
        )
    return known.pop()


def _absent(first: Recording, opened: Models | None) -> list[str]:
    """Returns the tensors of -m that neither dump lists."""
    return [] if opened is None else [n for n in opened.graph.observable() if n not in first.specs]


def _say_scope(pair: Pair, outputs_only: bool, absent: list[str]) -> None:
    """Adds to the pair what the verdict line says of its scope: --outputs-only, or tensors of the model in neither
    dump."""
    if outputs_only:
        pair.scope = "final outputs only, as asked"
    elif absent:
        pair.relaxed.append(
            f"{count(len(absent), 'tensor')} of the model {'is' if len(absent) == 1 else 'are'} in neither dump, first {absent[0]}"
        )
    if not outputs_only and pair.cause == "coverage":
        pair.why += "; if one side has only the final outputs, --outputs-only compares those"


def _model_notes(first: Recording, second: Recording) -> list[str]:
    """Returns a warning where both are captures, of different models."""
    digests = [str(s.settings.get("models", "")) for s in (first, second)]
    return ["WARNING: A and B are captures of different models"] if all(digests) and digests[0] != digests[1] else []


def _scale_notes(first: Recording, second: Recording) -> list[str]:
    """Returns a note on the tensors that are integers without a scale in one dump and floats in the other: the integers
    were compared as if they were real values."""
    common = [n for n in first.specs if n in first.tensors and n in second.tensors]
    mixed = [
        name
        for name in common
        for stored, real in permutations((first.specs[name], second.specs[name]))
        if stored.dtype.startswith(("int", "uint")) and not stored.quantized and real.dtype.startswith("float")
    ]
    if not mixed:
        return []
    return [
        f"{count(len(mixed), 'tensor')}, first {mixed[0]}: integers without a scale in one dump, floats in the other, compared as they "
        "are; -m model.bin has the scales"
    ]


def dtypes(values: Iterable[str]) -> dict[str, str]:
    """Returns the dtypes of DTYPE and NAME=DTYPE options by tensor name, "" for the former. Raises UsageError for an
    unknown dtype."""
    dtypes_by_name = {}
    for value in values:
        name, _, dtype = value.rpartition("=")
        if dtype not in ITEM:
            raise UsageError(f"--dtype {value}: wanted one of {', '.join(ITEM)}, or NAME=DTYPE")
        dtypes_by_name[name] = dtype
    return dtypes_by_name


def _side(path: str, profile: str, asked: ReadingOptions, opened: Models | None) -> Recording | VendorDump:
    """Opens a dump by the profile that the user named, else by what its content is."""
    graph, sha256 = (opened.graph, hashlib.sha256(opened.binary).hexdigest()) if opened is not None else (None, "")
    return open_dump(path, profile, asked, graph, sha256)


def _recordings(
    dumps: Dumps, sides: list[Recording | VendorDump], opened: Models | None
) -> tuple[Recording, Recording]:
    """Returns both dumps as recordings. A vendor's dump is read with the other side's specs, so the other side comes
    first."""
    a, b = sides
    model = opened.graph.tensors if opened is not None else {}
    outputs = opened.graph.outputs if opened is not None else ()
    asked_types = dumps.asked.dtypes
    if isinstance(a, Recording) and isinstance(b, Recording):
        return a, b
    if isinstance(a, VendorDump) and isinstance(b, Recording):
        return record_dump(a, dumps.a, "reference", OtherSide(_plain(b), None, model, outputs), asked_types), b
    if isinstance(a, Recording) and isinstance(b, VendorDump):
        return a, record_dump(b, dumps.b, "dump", OtherSide(_plain(a), None, model, outputs), asked_types)
    assert isinstance(a, VendorDump) and isinstance(b, VendorDump)
    if a.profile == b.profile:
        align_profiles(a, b)
    if b.written is None:  # b has the original names: a takes them
        one = record_dump(a, dumps.a, "reference", OtherSide(declared_specs(b), b, model), asked_types)
        return one, record_dump(b, dumps.b, "dump", OtherSide(_plain(one), None, model), asked_types)
    two = record_dump(b, dumps.b, "dump", OtherSide(declared_specs(a), a, model), asked_types)
    return record_dump(a, dumps.a, "reference", OtherSide(_plain(two), None, model), asked_types), two


def _plain(recording: Recording) -> dict[str, TensorSpec]:
    """Returns the specs that the other side can be compared with."""
    return {n: s for n, s in recording.specs.items() if not s.interior and n not in recording.missing}


def _inputs(recording: Recording) -> list[str]:
    return list(recording.settings.get("inputs", []))


def _precision(sides: tuple[Recording, Recording]) -> int | None:
    known = [p for s in sides if isinstance(p := s.settings.get("precision"), int)]
    return min(known) if known else None


def _within_precision(sides: tuple[Recording, Recording], options: Options) -> None:
    """Raises UsageError for a gate finer than the precision of the dumps' printed values."""
    decimals = _precision(sides)
    if decimals is None:
        return
    fine = 10.0**-decimals
    gates = {n: options.gates[n] for n in ("atol", "rmse") if n in options.gates}
    too_fine = [f"-c {options.digits}"] if options.decimals and options.digits > decimals else []
    too_fine += ["--rule exact"] if options.rule == "exact" else []
    too_fine += [f"--{'max-rmse' if n == 'rmse' else n} {limit:g}" for n, limit in gates.items() if limit < fine]
    too_fine += ["--rtol without --atol"] if "rtol" in options.gates and "atol" not in gates else []
    if decimals < 0:
        raise UsageError(
            "the dump's values have so few printed digits that not even whole numbers are known; dump more of them"
        )
    if too_fine:
        raise UsageError(
            f"{too_fine[0]}: the dump's values are known only to {count(decimals, 'decimal')}, and nothing finer can be judged; "
            f"give -c {decimals} or less" + (", or -m, which has the exact scales" if decimals < 6 else "")
        )


def _claim_no_more(report: Report, sides: tuple[Recording, Recording]) -> None:
    """Removes bit equality and limits matching digits for printed values: equal text does not prove equal bytes."""
    decimals = _precision(sides)
    if decimals is None:
        return
    report.notes.append(f"values known to {count(decimals, 'decimal')}: whether the bytes are equal is not known")
    for pair in report.pairs:
        pair.bit_equal = False
        for row in pair.tensors:
            row.bit_equal = False
            digits = row.metrics.get("matching_digits")
            row.metrics["matching_digits"] = min(digits, decimals) if isinstance(digits, int) else digits

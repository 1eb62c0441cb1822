"""Reads two dumps as recordings that can be compared: under the same names, in the same axes, by the same scales."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from qverify.capture.reader import is_capture
from qverify.compare.containers import unwrap_differing
from qverify.compare.judge_roles import check_roles_of
from qverify.compare.options import Options
from qverify.errors import UsageError
from qverify.files import write_text
from qverify.inputs.sources import prepared_inputs
from qverify.model_bin.layouts import infer_layouts
from qverify.plural import count
from qverify.printable import printable
from qverify.report.facts import Finding
from qverify.session.models import Models
from qverify.session.offline.dequantized_outputs import complete_outputs
from qverify.session.offline.dump_inputs import compare_inputs
from qverify.session.offline.dump_pair import DumpPair
from qverify.session.offline.dump_reservations import describe_same_files, read_by_model, refuse_unscaled, share_specs
from qverify.session.offline.locate_dumps import leave_out_inner, use_names_of_model
from qverify.session.offline.partial_dump import find_not_offered, leave_out_foreign
from qverify.session.printed_values import check_precision
from qverify.session.request import BoardDump
from qverify.sides.dumps.array_axes import move_axes
from qverify.sides.dumps.open_dump import open_dump
from qverify.sides.dumps.other_spellings import refuse_contradicting
from qverify.sides.dumps.rewritten_names import apply_map, draft_map, pair_rewritten, read_map, without_partner
from qverify.sides.dumps.run_npz import read_index
from qverify.sides.dumps.twin_files import is_undescribed, refuse_twins
from qverify.sides.dumps.vendor_names import common_spelling
from qverify.sides.dumps.vendor_side import OtherSide, align_profiles, declared_specs, record_dump
from qverify.tensors.axis_moves import find_move
from qverify.tensors.recording import Array, Recording
from qverify.tensors.spec import TensorSpec
from qverify.vendor_files.vendor_dump import ReadingOptions, VendorDump

Opened = Recording | VendorDump


@dataclass(slots=True)
class ReadPair:
    """Two dumps as recordings that can be compared, and what the report states of how they were read.

    Attributes:
        first, second: the recordings of A and B.
        outputs: the final outputs; () unless they alone are compared.
        has_input_digests: whether both state of which inputs they were computed, which are the same.
        given: the inputs that B was given, by name; {} if they are not known.
        same_inputs: inputs that B holds and that are those of `given`.
        other_inputs: findings on inputs that B holds and that are not.
        same_source: what the verdict line says if both are the same files; "" if they are not.
        paired: notes on names that were paired.
        followed: outputs that were computed of a tensor that a dump has in their place.
        not_offered: tensors that B, which stands in a board's place, does not give.
        inner: what the verdict line says of tensors inside the model's nodes that only one dump has.
        borrowed: tensors that are read by a scale that only one dump gives.
        by_model: tensors that are read by the model's scale, which contradicts both dumps.
        contradicted: tensors that are read by a dump's scale or zero point, which the model contradicts, with what it states.
    """

    first: Recording
    second: Recording
    outputs: tuple[str, ...] = ()
    has_input_digests: bool = False
    given: dict[str, Array] = field(default_factory=dict)
    same_inputs: list[str] = field(default_factory=list)
    other_inputs: list[Finding] = field(default_factory=list)
    same_source: str = ""
    paired: list[str] = field(default_factory=list)
    followed: list[str] = field(default_factory=list)
    not_offered: set[str] = field(default_factory=set)
    inner: list[str] = field(default_factory=list)
    borrowed: list[str] = field(default_factory=list)
    by_model: list[str] = field(default_factory=list)
    contradicted: dict[str, str] = field(default_factory=dict)


def read_pair(dumps: DumpPair, options: Options, models: Models | None) -> ReadPair:
    """Returns both dumps. Raises UsageError if they cannot be compared, BadFileError for one that cannot be read."""
    opened = [
        _open_side(p, profile, dumps.reading_of(b), models)
        for p, profile, b in ((dumps.a, dumps.profile_a, False), (dumps.b, dumps.profile_b, True))
    ]
    read = _name_alike(dumps, opened, models, options.decimals and options.rule == "exact")
    _settle_inputs(read, dumps, opened, models)
    _settle_layout(read, dumps, opened, models)
    for path, side, recording in zip((dumps.a, dumps.b), opened, (read.first, read.second), strict=True):
        if isinstance(side, VendorDump) and side.profile == "raw" and os.path.isdir(path):
            refuse_twins(path, recording, ".bin")
    read.outputs = _find_outputs(read.first, read.second, models) if dumps.outputs_only else ()
    read.first.side, read.second.side = "A", "B"
    read.has_input_digests = _compare_input_digests(dumps, read)
    check_precision((read.first, read.second), options, models is not None)
    check_roles_of(options, {name: spec.shape for name, spec in read.first.specs.items()})
    _settle_scope(read, dumps, opened, models)
    read.first.finals = read.second.finals = read.outputs or tuple(
        n for n in read.first.specs if n not in read.not_offered
    )
    for recording in (read.first, read.second):
        recording.capabilities |= {"per_node"}  # both list every tensor they have
    return read


def read_in_place(dump: BoardDump, models: Models, first: Recording) -> Recording:
    """Returns a dump in the board's place as the main job reads it, under the names of `first`, a side of the same models. Raises
    UsageError or BadFileError for one that cannot be read."""
    side_b = dump.reading.side or ("board" if not dump.profile and read_index(dump.path) is not None else "")
    dumps = DumpPair("", dump.path, profile_b=dump.profile, reading=dump.reading, side_b=side_b, names=dump.names)
    side = _open_side(dump.path, dump.profile, dumps.reading_of(True), models)
    names = read_map(dump.names) if dump.names and os.path.exists(dump.names) else {}
    use_names_of_model(side, models, names)
    first = replace(first, specs=dict(first.specs), missing=dict(first.missing))
    _, second = _make_recordings(dumps, [first, side], models, names, False)
    notes = _pair_names(dumps, names, first, second)
    if dump.reading.layout and isinstance(side, Recording):
        second = move_axes(second, dump.reading.layout, infer_layouts(models.graph), dump.path)
    second.notes += notes
    return second


def _name_alike(dumps: DumpPair, opened: list[Opened], models: Models | None, exact: bool) -> ReadPair:
    """Returns both dumps as recordings under the model's names, those of --map or those of A."""
    names = read_map(dumps.names) if dumps.names and os.path.exists(dumps.names) else {}
    if models is not None:
        for side in opened:
            use_names_of_model(side, models, names)
    same_source = _describe_same_source(dumps, opened) or describe_same_files(dumps.a, dumps.b)
    first, second = _make_recordings(dumps, opened, models, names, exact)
    if models is not None:
        for path, recording in zip((dumps.a, dumps.b), (first, second), strict=True):
            mapped = {*names, *names.values()}
            refuse_contradicting(path, recording, models.graph, models.onnx_names.quantized, mapped)
    paired = _pair_names(dumps, names, first, second)
    return ReadPair(first, second, same_source=same_source, paired=paired)


def _settle_inputs(read: ReadPair, dumps: DumpPair, opened: list[Opened], models: Models | None) -> None:
    """Compares the inputs that B holds with those that the user gives."""
    if models is not None and dumps.inputs is not None:
        read.given = prepared_inputs(models.graph, dumps.inputs).arrays()
        read.same_inputs, read.other_inputs = compare_inputs(opened[1], models.graph, read.given)


def _settle_layout(read: ReadPair, dumps: DumpPair, opened: list[Opened], models: Models | None) -> None:
    """Moves the axes of B as --layout says, and computes outputs that a dump gives before their last float nodes."""
    if dumps.reading.layout and isinstance(opened[1], Recording):
        known = infer_layouts(models.graph) if models is not None else read.first.specs
        read.second = move_axes(read.second, dumps.reading.layout, known, dumps.b)
    if models is not None:
        completed = (complete_outputs(s, models.graph, not dumps.partial) for s in (read.first, read.second))
        read.followed = [*dict.fromkeys(name for names in completed for name in names)]


def _settle_scope(read: ReadPair, dumps: DumpPair, opened: list[Opened], models: Models | None) -> None:
    """Settles which tensors are compared and by which scales, and refuses dumps of which that cannot be known."""
    model_tensors = models.graph.tensors if models is not None else {}
    why = dict[str, str]()
    if dumps.partial and models is not None:
        read.not_offered, why = find_not_offered(read.first, read.second, models)
        read.paired += leave_out_foreign(read.first, read.second)
    read.inner = leave_out_inner(read.first, read.second, models) if models is not None else []
    shared = share_specs(read.first, read.second, read.not_offered)
    read.borrowed = [name for name in shared if name not in model_tensors]
    read.second.missing |= why
    refuse_unscaled(read.first, read.second, model_tensors)
    spelling = common_spelling(*(side.respell if isinstance(side, VendorDump) else None for side in opened))
    read.by_model, read.contradicted = read_by_model(read.first, read.second, model_tensors, spelling)
    if models is not None:
        _refuse_another_network(dumps, (read.first, read.second), models)
    read.first, read.second = unwrap_differing(read.first, read.second, model_tensors)


def _compare_input_digests(dumps: DumpPair, read: ReadPair) -> bool:
    """Returns whether both dumps state the hashes of their inputs. Raises UsageError if those differ."""
    digests, digests_b = _input_digests(read.first), _input_digests(read.second)
    if digests and digests_b and digests != digests_b:
        raise UsageError(f"{dumps.a} and {dumps.b} were computed from different inputs; they cannot be compared")
    return bool(digests and digests_b)


def _describe_same_source(dumps: DumpPair, sides: list[Opened]) -> str:
    """Returns the note for the verdict if A and B are the same folder or file, also by a link; "" if they are not, or
    are two sides of it."""
    files_read = [{t.where for t in side.tensors} for side in sides if isinstance(side, VendorDump)]
    two_sides = (is_capture(dumps.a) or read_index(dumps.a) is not None) and dumps.reading_of(
        False
    ).side != dumps.reading_of(True).side
    disjoint = len(files_read) == 2 and not files_read[0] & files_read[1]
    if not os.path.samefile(dumps.a, dumps.b) or two_sides or disjoint:
        return ""
    return f"A and B are one {'folder' if os.path.isdir(dumps.a) else 'file'}, compared with itself"


def _find_outputs(first: Recording, second: Recording, models: Models | None) -> tuple[str, ...]:
    """Returns the names of the final outputs: those of -m, or else those that the dumps state. Raises UsageError if
    neither dump states them, or the dumps contradict each other."""
    stated = (
        [tuple(s.settings.get("outputs", ())) for s in (first, second)] if models is None else [models.graph.outputs]
    )
    distinct = {names for names in stated if names}
    if not distinct:
        raise UsageError(
            "--outputs-only: neither dump says which of its tensors are final outputs (a capture and `qverify infer` do); give -m MODEL"
        )
    if len(distinct) > 1:
        raise UsageError(
            f"--outputs-only: the dumps name different final outputs: {' and '.join(map(str, sorted(distinct)))}"
        )
    return distinct.pop()


def _refuse_another_network(dumps: DumpPair, sides: tuple[Recording, Recording], models: Models) -> None:
    """Raises UsageError if no tensor of -m is in either dump: nothing is read or recomputed by it."""
    names, known = {*sides[0].specs}, (*models.graph.inputs, *models.graph.observable())
    if names and not names & {*known, *models.onnx_names.inner}:
        given, wanted = (", ".join(map(printable, list(n)[:2])) for n in (sides[0].specs, known))
        raise UsageError(
            f"-m {printable(str(dumps.model))}: none of its {count(len(known), 'tensor')} is in {printable(dumps.a)} or "
            f"{printable(dumps.b)}: got {given} ..., wanted {wanted} ...; give the network that the dumps are of, or no -m"
        )


def _open_side(path: str, profile: str, reading: ReadingOptions, models: Models | None) -> Opened:
    """Opens a dump with the profile that the user named, or else with the one that recognises its content."""
    graph, sha256 = (models.graph, hashlib.sha256(models.binary).hexdigest()) if models is not None else (None, "")
    side = open_dump(path, profile, reading, graph, sha256)
    if isinstance(side, Recording) and is_undescribed(path):
        refuse_twins(path, side)
    return side


def _make_recordings(
    dumps: DumpPair,
    sides: list[Opened],
    models: Models | None,
    names: Mapping[str, str],
    exact: bool,
) -> tuple[Recording, Recording]:
    """Returns both dumps as recordings. A vendor's dump is interpreted with the specs of the other side, which is
    therefore read first. names: those of --map. exact: as for align_profiles()."""
    a, b = sides
    names_of_b = {name_a: name_b for name_b, name_a in names.items()}
    model = infer_layouts(models.graph) if models is not None else {}
    outputs = models.graph.outputs if models is not None else ()
    stored = models.graph.stored() if models is not None else {}
    dtype_options = dumps.reading.dtypes
    if isinstance(a, Recording) and isinstance(b, Recording):
        return a, b
    if isinstance(a, VendorDump) and isinstance(b, Recording):
        return record_dump(
            a,
            dumps.a,
            "reference",
            OtherSide(_usable(b, a, model), None, model, outputs, stored, names_of_b),
            dtype_options,
        ), b
    if isinstance(a, Recording) and isinstance(b, VendorDump):
        other = OtherSide(_usable(a, b, model), None, model, outputs, stored, names)
        return a, record_dump(b, dumps.b, "dump", other, dtype_options)
    assert isinstance(a, VendorDump) and isinstance(b, VendorDump)
    if a.profile == b.profile:
        align_profiles(a, b, exact, models is None)
    if b.respell is None:  # b has the original names, which a gets as well
        other = OtherSide(declared_specs(b), b, model, (), stored, names_of_b)
        first = record_dump(a, dumps.a, "reference", other, dtype_options)
        other = OtherSide(_usable(first), None, model, (), stored, names)
        return first, record_dump(b, dumps.b, "dump", other, dtype_options)
    second = record_dump(b, dumps.b, "dump", OtherSide(declared_specs(a), a, model, (), stored, names), dtype_options)
    other = OtherSide(_usable(second), None, model, (), stored, names_of_b)
    return record_dump(a, dumps.a, "reference", other, dtype_options), second


def _pair_names(dumps: DumpPair, names: Mapping[str, str], first: Recording, second: Recording) -> list[str]:
    """Gives the second dump the first one's names by the map of the user and by known rewritings, and returns notes.
    names: those of the map. If its file does not exist, it is written as a draft, and UsageError says so."""
    notes = list[str]()
    if names:
        notes.append(apply_map(dumps.names, names, first, second))
    notes += pair_rewritten(first, second)
    if not without_partner(first, second):
        if dumps.names and not os.path.exists(dumps.names):
            raise UsageError(f"--map {dumps.names}: no such file, and every tensor has a partner; leave it out")
        return notes
    if dumps.names and not os.path.exists(dumps.names):
        write_text(draft_map(first, second), dumps.names)
        raise UsageError(f"--map {dumps.names}: no such file; a draft is there now: correct it, and run again")
    if not dumps.names:
        notes.append("names of both dumps have no partner; --map names.toml writes a draft that pairs them")
    return notes


def _usable(
    recording: Recording, read: VendorDump | None = None, model: Mapping[str, TensorSpec] | None = None
) -> dict[str, TensorSpec]:
    """Returns the specs of the tensors with which the other side can be compared, in the model's dims where `read`, the dump that
    is read by them, states those and the recording has them in another order."""
    specs = {n: s for n, s in recording.specs.items() if not s.interior and n not in recording.missing}
    stated = {t.name: t.shape for t in read.tensors} if read is not None else {}
    for name, wanted in (model or {}).items():
        if name in specs and stated.get(name) == wanted.shape and find_move(specs[name].shape, wanted.shape):
            specs[name] = replace(specs[name], shape=wanted.shape, aligned_shape=(), layout=wanted.layout)
    return specs


def _input_digests(recording: Recording) -> list[str]:
    """Returns the hashes of the inputs that a dump states; [] if it states none."""
    return list(recording.settings.get("inputs", []))

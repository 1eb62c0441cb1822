"""Records a vendor's dump as a side, with the names and axes of the other side. Ambiguous tensors are missing."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from qverify_agents.printable import one_line

from qverify.plural import count
from qverify.sides.dumps.vendor_axes import BLOCKED, Unsettled
from qverify.sides.dumps.vendor_forms import check_forms_agree
from qverify.sides.dumps.vendor_names import NamedTensor, PairedNames, common_spelling, pair_by_index, pair_names
from qverify.sides.dumps.vendor_tensor import SettledTensor, loader, settle_tensor
from qverify.tensors.recording import Recording, Tensors
from qverify.tensors.spec import TensorSpec
from qverify.vendor_files.vendor_dump import LayerFacts, VendorDump, VendorTensor

MAX_SHOWN = 3  # names in a note
ADVICE = {  # to give -m, and what is said instead if it was given and has no such tensor
    "(give -m)": "(-m has no tensor of this name)",
    "give -m quant.onnx or model.bin, which states it": "-m has no tensor of this name",
    "give -m quant.onnx or model.bin": "-m has no tensor of this name",
    "give -m quant.onnx, which states it": "-m has no tensor of this name",
    "give -m quant.onnx, which states the order of its axes": "-m has no tensor of this name",
    "give --dtype, or -m": "give --dtype; -m has no tensor of this name",
    "give -m, or the tensor without padding": "give the tensor without padding; -m has no tensor of this name",
}


@dataclass(slots=True)
class OtherSide:
    """The side that a dump is compared with.

    Attributes:
        specs: specs of its tensors, by its names.
        dump: the side itself if it is also a vendor's dump; specs is then incomplete.
        model: specs of the model of -m.
        outputs: names of the model's final outputs, in order.
    """

    specs: Mapping[str, TensorSpec]
    dump: VendorDump | None = None
    model: Mapping[str, TensorSpec] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()


def record_dump(dump: VendorDump, path: str, side: str, other_side: OtherSide, dtypes: Mapping[str, str]) -> Recording:
    """Returns the dump as a side. A tensor that cannot be read for certain, or has an ambiguous name, is missing, with
    the reason. The notes state how values were converted. dtypes: values of --dtype, by tensor name."""
    dump.tensors = [
        replace(
            t,
            name=one_line(t.name),
            other_names=tuple(map(one_line, t.other_names)),
            aliases=tuple(map(one_line, t.aliases)),
        )
        for t in dump.tensors
    ]
    dump.missing = {one_line(name): why for name, why in dump.missing.items()}
    counts = Counter((t.name, t.form) for t in dump.tensors)
    dump.missing |= {name: "the dump contains it twice" for (name, _), times in counts.items() if times > 1}
    dump.tensors = [t for t in dump.tensors if t.name not in dump.missing]
    reading = _Reading(dump, path, other_side, dtypes)
    groups = _group_by_name(dump)
    pairs = _pair_with_other_side(groups, other_side, dump)
    reading.missing = {**dump.missing, **pairs.doubtful}
    for name, tensors in groups.items():
        if tensors[0].is_input and name not in pairs.b_of_a:
            reading.add_note("inputs of the network that the other side does not have: not compared", name)
        elif tensors[0].is_inserted and name not in pairs.b_of_a:
            reading.add_note("inserted by the toolkit, and not on the other side: not compared", name)
        elif name not in pairs.doubtful:
            reading.settle(pairs.b_of_a.get(name) or name, tensors, other_side.specs.get(pairs.b_of_a.get(name, "")))
    renamed = [f"{n} is {t}" for n, t in pairs.b_of_a.items() if n != t]
    if renamed:
        reading.add_note("names in the vendor's spelling", *renamed)
    return reading.recording(side)


class _Reading:
    """The tensors read so far, the missing ones, and notes on them."""

    def __init__(self, dump: VendorDump, path: str, other_side: OtherSide, dtypes: Mapping[str, str]):
        self.dump, self.path, self.other_side, self.dtypes = dump, path, other_side, dtypes
        self.settled: dict[str, SettledTensor] = {}
        self.specs: dict[str, TensorSpec] = {}
        self.missing: dict[str, str] = {}
        self.note_names: dict[str, list[str]] = {}
        self.layers: dict[str, LayerFacts] = {}

    def add_note(self, text: str, *names: str) -> None:
        text = self._advise(text)
        self.note_names.setdefault(text, []).extend(names)

    def _advise(self, text: str) -> str:
        """Returns the text without the advice to give -m if it was given."""
        if not self.other_side.model:
            return text
        advice = next((advice for advice in ADVICE if advice in text), None)
        return text if advice is None else text.replace(advice, ADVICE[advice])

    def settle(self, name: str, tensors: list[VendorTensor], other: TensorSpec | None) -> None:
        """Records the first of the tensor's files that can be read for certain, and compares the other files with it.
        If there is none, the tensor is missing, with the reason for the first file. Raises BadFileError if its files
        contradict each other."""
        model, why = _model_spec(name, self.dump, self.other_side), ""
        for tensor in _sort_by_similarity(tensors, other):
            dtype = self.dtypes.get(name) or self.dtypes.get(tensor.name) or self.dtypes.get("", "")
            try:
                settled = settle_tensor(name, tensor, other, model, dtype if len(tensor.dtypes) > 1 else "")
                known = [spec for spec in (model, other) if spec is not None]
                settled.notes += [check_forms_agree(settled, twin, known) for twin in tensors if twin is not tensor]
            except Unsettled as reason:
                why = why or f"{tensor.where.removeprefix(os.path.join(os.path.realpath(self.path), ''))}: {reason}"
                continue
            self.settled[name], self.specs[name] = settled, settled.spec
            if tensor.name in self.dump.layers:
                self.layers[name] = self.dump.layers[tensor.name]
            for text in settled.notes:
                self.add_note(text, name)
            return
        self.missing[name] = self._advise(why)
        self.specs[name] = other or TensorSpec(name, _numpy_dtype(tensors[0].dtypes[0]), tensors[0].shape or ())

    def recording(self, side: str) -> Recording:
        engine = f"{self.dump.profile} dump {os.path.basename(os.path.normpath(self.path))}"
        result = Recording(side, engine, specs=self.specs, missing=self.missing)
        result.settings["profile"] = self.dump.profile
        result.settings |= {"layers": self.layers} if self.layers else {}
        result.tensors = Tensors({name: loader(s) for name, s in self.settled.items()})
        for name in self.missing:
            self.specs.setdefault(name, self.other_side.specs.get(name) or TensorSpec(name, "float32", ()))
        decimals = [s.decimals for s in self.settled.values() if s.decimals is not None]
        if decimals:
            result.settings["precision"] = min(decimals)
        notes = [f"{self.dump.profile}: {t}: {len(n)}: {_some(n)}" for t, n in self.note_names.items()]
        result.notes = [one_line(note) for note in (*self.dump.notes, *notes)]
        result.missing = {name: one_line(why) for name, why in self.missing.items()}
        return result


def _numpy_dtype(dtype: str) -> str:
    return "float32" if dtype == "bfloat16" else dtype


def _some(names: list[str]) -> str:
    return ", ".join(names[:MAX_SHOWN]) + (" ..." if len(names) > MAX_SHOWN else "")


def _group_by_name(dump: VendorDump) -> dict[str, list[VendorTensor]]:
    """Returns the files of each tensor, by name."""
    groups: dict[str, list[VendorTensor]] = {}
    for tensor in dump.tensors:
        groups.setdefault(tensor.name, []).append(tensor)
    return groups


def _named_tensors(groups: Mapping[str, list[VendorTensor]], others: Collection[str] = ()) -> list[NamedTensor]:
    """Returns the tensors with their possible names. others: names of the other side; the first alias among them counts, that
    of an inserted tensor only if no other tensor has it."""
    names = {n: (n, *g[0].other_names) for n, g in groups.items()}
    taken = {each for found in names.values() for each in found if each in others}
    for inserted in (False, True):
        for name, files in groups.items():
            if files[0].is_inserted != inserted or any(each in others for each in names[name]):
                continue
            free = (a for a in files[0].aliases if a in others and not (inserted and a in taken))
            if alias := next(free, ""):
                names[name] = (*names[name], alias)
                taken.add(alias)
    return [NamedTensor(found, groups[n][0].index) for n, found in names.items()]


def _pair_with_other_side(
    groups: Mapping[str, list[VendorTensor]], other_side: OtherSide, dump: VendorDump
) -> PairedNames:
    if other_side.dump is not None:
        others = _named_tensors(_group_by_name(other_side.dump), groups.keys())
        spelled = common_spelling(dump.respell, other_side.dump.respell)
    else:
        others = [NamedTensor((name,)) for name in other_side.specs]
        spelled = common_spelling(dump.respell, None)
    known = {name for other in others for name in other.names}
    own = _named_tensors(groups, known)
    pairs = pair_names(own, others, spelled, other_side.model)
    if other_side.outputs and other_side.dump is None:
        pair_by_index(pairs, own, other_side.outputs, set(other_side.specs))
    return pairs


def _model_spec(name: str, dump: VendorDump, other_side: OtherSide) -> TensorSpec | None:
    """Returns the spec of the model's tensor with this name in the vendor's spelling, or None if there is none or
    several."""
    if name in other_side.model:
        return other_side.model[name]
    spelled = common_spelling(dump.respell, None)
    matches = [spec for model_name, spec in other_side.model.items() if spelled(model_name) == spelled(name)]
    return matches[0] if len(matches) == 1 else None


def _sort_by_similarity(tensors: list[VendorTensor], other: TensorSpec | None) -> list[VendorTensor]:
    """Sorts the files of one tensor by similarity to the other side: first files of its dtype, then real values if it
    has real values, or files that may have its dtype if it has integers."""
    real = other is None or other.numpy_dtype.kind == "f"

    def rank(tensor: VendorTensor) -> int:
        stated, same = len(tensor.dtypes) == 1, other is not None and other.dtype in tensor.dtypes
        if stated and same:
            return 0
        return (1 if stated and tensor.dtypes[0].startswith("float") else 2) if real else (1 if same else 2)

    return sorted(tensors, key=rank)


def declared_specs(dump: VendorDump) -> dict[str, TensorSpec]:
    """Returns the specs that a dump states itself, for comparison with the other side. One in blocks of channels is
    left out: the other side states how many channels are valid."""
    specs = {}
    for name, tensors in _group_by_name(dump).items():
        tensor = _sort_by_similarity(tensors, None)[0]
        if len(tensor.dtypes) == 1 and tensor.shape is not None and tensor.layout != BLOCKED:
            spec = TensorSpec(name, _numpy_dtype(tensor.dtypes[0]), tensor.shape, layout=tensor.layout)
            single = len(tensor.scale) == 1
            specs[name] = replace(spec, scale=tensor.scale, zero_point=tensor.zero_point) if single else spec
    return specs


def align_profiles(a: VendorDump, b: VendorDump, exact: bool = False) -> None:
    """Prepares two dumps of one profile for comparison: each form of a tensor that both have becomes a separate tensor.
    If neither dump states the dtype, equal bytes count as equal values. exact: whether only equal values pass, so that
    other bytes of integers fail, whatever their type."""
    forms = [{n: {t.form for t in g} for n, g in _group_by_name(dump).items()} for dump in (a, b)]
    for dump in (a, b):
        kept = []
        for tensor in dump.tensors:
            both_have = set.intersection(*(f.get(tensor.name, set()) for f in forms))
            if tensor.form in both_have:
                label = f"{tensor.name} {tensor.form}" if len(both_have) > 1 else tensor.name
                tensor = replace(tensor, name=label, form="")
            kept.append(tensor)  # a form that the other side lacks is compared with the one it has
        dump.tensors = kept
    tensors_b = {(t.name, t.form): t for t in b.tensors}
    pairs = [
        (tensor_a, tensors_b[tensor_a.name, tensor_a.form])
        for tensor_a in a.tensors
        if (tensor_a.name, tensor_a.form) in tensors_b
    ]
    equal, other = set[tuple[str, str]](), set[tuple[str, str]]()
    for tensor_a, tensor_b in pairs:
        if _same_unknown_type(tensor_a, tensor_b):
            if tensor_a.read() == tensor_b.read():
                equal.add((tensor_a.name, tensor_a.form))
            elif exact and all("int" in dtype for dtype in tensor_a.dtypes):
                other.add((tensor_a.name, tensor_a.form))
    known = equal | other
    for dump in (a, b) if known else ():
        dump.tensors = [replace(t, dtypes=t.dtypes[:1]) if (t.name, t.form) in known else t for t in dump.tensors]
    for found, text in ((equal, "equal bytes, of any type"), (other, "other bytes, equal in no type; read as signed")):
        if found:
            names = _some(sorted(name for name, _ in found))
            a.notes.append(f"{a.profile}: {count(len(found), 'tensor', 'has', 'have')} {text}: {names}")


def _same_unknown_type(a: VendorTensor, b: VendorTensor) -> bool:
    """Returns True if both have the same shape and neither states its dtype."""
    same = (a.dtypes, a.shape, a.size_bytes) == (b.dtypes, b.shape, b.size_bytes)
    return same and len(a.dtypes) > 1 and a.shape is not None

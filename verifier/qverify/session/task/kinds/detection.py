"""Detection: mAP by the COCO evaluator, boxes kept above a threshold, and their IoU with the reference's boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qverify.decoders import Boxes, Decoder, Settings, pages
from qverify.errors import TaskError
from qverify.printable import printable
from qverify.report.side_names import named
from qverify.session.task.blame_roles import Heads
from qverify.session.task.boxes import iou_table, pair_boxes
from qverify.session.task.coco import CocoLabels, LabelledImage, evaluate, read_coco
from qverify.session.task.kinds import Outputs, TaskContext
from qverify.session.task.metrics import Means, Score

NAME = "detection"
LABELS = (
    "COCO JSON (images, annotations, categories); an image has its frame's name, with or without the ending; class k is the "
    "k-th category by id, or the one called names=A;B;... says"
)
SUMMARY = "mAP, mAP50, mAP75 (COCO), boxes above keep=SCORE, the share of the reference's that are kept and the IoU with them, F1 at IoU 0.5"
DEFAULTS = {"keep": "", "least": "0.001", "names": ""}
SAME = 0.5  # IoU from which two boxes are of one object


@dataclass(slots=True)
class KeptBoxes:
    """The detections of one frame, in pixels of the picture. categories: of the labels; -1 of a class that has none. above: which
    are above the threshold."""

    image: LabelledImage
    boxes: Boxes
    categories: Any
    above: Any

    def results(self) -> list[dict[str, Any]]:
        """Returns the detections as results of COCO."""
        corners = self.boxes.boxes
        sizes = np.concatenate([corners[:, :2], corners[:, 2:] - corners[:, :2]], axis=1)
        return [
            {"image_id": self.image.number, "category_id": int(c), "bbox": box.tolist(), "score": float(score)}
            for box, score, c in zip(sizes, self.boxes.scores, self.categories, strict=True)
            if c >= 0
        ]


class Evaluator(Means):
    step = 0.02
    name, names = NAME, ("map", "map50", "map75", "boxes", "kept", "iou", "f1")

    def __init__(self, context: TaskContext):
        super().__init__(context.labels)
        if not context.labels:
            raise TaskError(f"--task {NAME}: wanted --labels FILE, {LABELS}")
        self._context, self._least = context, context.number("least", 0, 1)
        self._coco = CocoLabels([], {})
        self._numbers: list[int] = []  # the category of each class, -1 for a class that the labels do not have
        self._decoder: Decoder | None = None
        self._keep = 0.0

    def labels(self, frames: list[str]) -> list[Any]:
        self._coco = read_coco(self._path, frames)
        self.labelled = self._coco.labelled
        self._numbers = self._find_numbers()
        self._decoder = self._choose_decoder()
        self.decoder = self._decoder.name
        return list(self._coco.images)

    def _find_numbers(self) -> list[int]:
        """Returns the category of each class. Raises TaskError for names of which one is there twice, or is lacking."""
        names = [name for name in self._context.options["names"].split(";") if name]
        if not names:
            return self._coco.numbers
        by_name = {name: number for number, name in self._coco.categories.items()}
        lacking = next((name for name in by_name if name not in names), "")
        if lacking or len({*names}) < len(names) or len(by_name) < len(self._coco.categories):
            what = f"category {printable(lacking)!r} is none of them" if lacking else "a name is there twice"
            raise TaskError(
                f"--task {NAME},names={printable(';'.join(names))[:200]}: {what}; wanted the name of each class, in order"
            )
        return [by_name.get(name, -1) for name in names]

    def _choose_decoder(self) -> Decoder:
        """Returns the decoder that was named, or the only one that takes outputs of these shapes."""
        context, classes = self._context, len(self._numbers)
        more: dict[str, Any] = {"score": self._least, "multi_label": True}
        more |= {"size": list(context.input_size)} if context.input_size != (0, 0) else {}
        more |= {"fit": context.fit} if context.fit else {}
        usual = ""
        if not context.decoder and "name" not in context.table:
            fitting = context.fitting_decoders(("boxes",), **more)
            if len(fitting) > 1:
                fitting = context.fitting_decoders(("boxes",), **more, classes=classes)
            if len(fitting) > 1:
                raise TaskError(
                    f"--task {NAME}: outputs of these shapes ({context.say_shapes()}) are those of {', '.join(fitting)}; "
                    "give --decoder NAME"
                )
            usual = fitting[0] if fitting else ""
        more |= context.find_strides(usual, ("boxes",), **more)
        decoder = context.find_decoder(usual, ("boxes",), **more)
        usual_score = next((page.DEFAULTS.score for page in pages() if decoder.name == page.NAME), Settings().score)
        keep = context.number("keep", 0, 1) if context.options["keep"] else usual_score
        self._keep = max(keep, decoder.settings.score)
        context.check_decoder(decoder)
        self._check_classes(decoder)
        if decoder.settings.background >= 0 or not decoder.settings.classes:
            return decoder
        if decoder.settings.classes != classes:
            raise TaskError(
                f"--labels {self._path}: {classes} classes, the decoder {decoder.name} has {decoder.settings.classes} classes"
            )
        return decoder

    def _check_classes(self, decoder: Decoder) -> None:
        """Raises TaskError if nothing states the classes, and the outputs are read with twice as many or more as the labels
        have categories: other channels are taken for scores."""
        classes, settings = len(self._numbers), decoder.settings
        page = next((page for page in pages() if decoder.name == page.NAME), None)
        if settings.classes or not classes or page is None or decoder.candidates is None:
            return
        read = self._context.count_classes(decoder) - (settings.background >= 0)
        if read >= 2 * classes:
            raise TaskError(
                f"--labels {self._path}: {classes} {'category' if classes == 1 else 'categories'}, but the outputs "
                f"({self._context.say_shapes()}) are read by {decoder.name} with {read} classes; give "
                f"--decoder {decoder.name},classes=N, or the names of all classes with --task detection,names=A;B;..."
            )

    @property
    def heads(self) -> Heads:
        """What is known of the rows of the outputs."""
        assert self._decoder is not None
        settings = self._decoder.settings
        return Heads(self._decoder.name, settings.classes or len(self._numbers), 4 * settings.reg_max)

    @property
    def fit(self) -> str:
        """How pictures are fitted into the input."""
        assert self._decoder is not None
        return self._decoder.settings.fit

    @property
    def categories(self) -> dict[int, str]:
        """The names of the categories by number."""
        return self._coco.categories

    def score(self, outputs: Outputs, label: LabelledImage, frame: str, side: str) -> Score:
        assert self._decoder is not None
        size = label.size if label.size != (0, 0) else self._context.input_size
        found = self._context.decode(self._decoder, outputs, frame, side, size)
        if not isinstance(found, Boxes):
            raise TaskError(f"--decoder {self.decoder}: gives {type(found).__name__}, wanted Boxes")
        finite = np.isfinite(found.boxes).all(axis=1) & np.isfinite(found.scores)
        found = found.take(np.flatnonzero(finite))
        kept = KeptBoxes(label, found, self._categories(found.classes), found.scores >= self._keep)
        right, level = self._f1(kept)
        values = {"boxes": float(kept.above.sum()), "f1": right}
        return Score(values, None, f"boxes {int(kept.above.sum())}, F1 {right:.2f}, with IoU {level:.2f}", level, kept)

    def _categories(self, classes: Any) -> Any:
        """Returns the category of each class, -1 for one that the labels do not have; a background class is none."""
        assert self._decoder is not None
        background, numbers = self._decoder.settings.background, np.array(self._numbers, np.int64)
        at = classes - ((classes > background) & (background >= 0))
        known = (at >= 0) & (at < len(numbers)) & (classes != background)
        return np.where(known, numbers[np.clip(at, 0, len(numbers) - 1)], -1)

    def _f1(self, kept: KeptBoxes) -> tuple[float, float]:
        """Returns the F1 of the boxes above the threshold at IoU 0.5, and the same with the IoU of each right box in place of 1;
        boxes in crowds do not count."""
        label = kept.image
        boxes, categories = kept.boxes.boxes[kept.above], kept.categories[kept.above]
        pairs = pair_boxes(label.boxes(), boxes, label.classes(), categories, SAME)
        crowds = label.boxes(crowds=True)
        wrong = np.ones(len(boxes), bool)
        wrong[[j for _, j, _ in pairs]] = False
        if len(crowds) and len(boxes):
            wrong &= iou_table(boxes, crowds).max(axis=1) < 1e-12
        total = len(pairs) + int(wrong.sum()) + len(label.boxes())
        iou = sum(iou for _, _, iou in pairs)
        return (2 * len(pairs) / total, 2 * iou / total) if total else (1.0, 1.0)

    def summarize(self, scores: Sequence[Score], base: Sequence[Score | None]) -> dict[str, float]:
        results = [row for score in scores for row in score.kept.results()]
        stats = evaluate([s.kept.image for s in scores], self._coco.numbers, results, "bbox")
        share, iou = self._beside(scores, base)
        means = super().summarize(scores, base)
        boxes = sum(score.values["boxes"] for score in scores)
        return {
            "map": stats[0],
            "map50": stats[1],
            "map75": stats[2],
            "boxes": boxes,
            "kept": share,
            "iou": iou,
            "f1": means.get("f1", float("nan")),
        }

    def list_notes(self, side: str, scores: Sequence[Score]) -> list[str]:
        """Returns whether the side finds nothing, and how many of its boxes, and of the labels', lie outside their picture."""
        kept = [score.kept for score in scores if isinstance(score.kept, KeptBoxes)]
        total, outside = (
            sum(int(k.above.sum()) for k in kept),
            sum(self._outside(k, k.boxes.boxes[k.above]) for k in kept),
        )
        notes = [] if total else [f"{named(side)} finds nothing: no box of score {self._keep:g} or more in any frame"]
        if outside:
            notes.append(f"{outside} of {total} boxes of {named(side)} lie outside their picture, or have no area")
        if side == "reference" and (wrong := sum(self._outside(k, k.image.boxes()) for k in kept)):
            notes.append(f"{wrong} boxes of the labels lie outside their picture, or have no area")
        return notes

    def _outside(self, kept: KeptBoxes, boxes: Any) -> int:
        """Returns how many boxes have no area within their picture."""
        size = kept.image.size if kept.image.size != (0, 0) else self._context.input_size
        if size == (0, 0) or not len(boxes):
            return 0
        inside = np.clip(boxes.reshape(-1, 2, 2), 0.0, np.array(size, np.float64))
        return int((inside[:, 1] <= inside[:, 0]).any(axis=1).sum())

    def _beside(self, scores: Sequence[Score], base: Sequence[Score | None]) -> tuple[float, float]:
        """Returns the share of the reference's kept boxes that the side keeps, too, and the mean IoU of both, 0 for those that it
        does not keep; NaN without a box of the reference."""
        of_reference, kept, total = 0, 0, 0.0
        for score, other in zip(scores, base, strict=True):
            if other is None:
                return float("nan"), float("nan")
            a, b = other.kept, score.kept
            boxes = [k.boxes.boxes[k.above] for k in (a, b)]
            pairs = pair_boxes(boxes[0], boxes[1], a.boxes.classes[a.above], b.boxes.classes[b.above], SAME)
            of_reference, kept = of_reference + len(boxes[0]), kept + len(pairs)
            total += sum(iou for _, _, iou in pairs)
        nothing = float("nan")
        return (kept / of_reference, total / of_reference) if of_reference else (nothing, nothing)

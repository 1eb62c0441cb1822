"""Inputs, and what the network's task makes of them."""

from __future__ import annotations

from qverify.options.option import OF_THE_JOB, RUNS_CODE, Option, Whole

KINDS = "detection, segmentation, keypoints, super-resolution, classification, keyword, speech, ocr, embedding"

FILES = Option(
    "-i --input-img",
    "a.jpg,b.bin or name1:a.npy,name2:b.wav or one .npz; the main job, quantize and triage also take a folder or a list (.txt); random when not given, but quantize needs it",
    name="files",
    keyword="inputs",
    mapping=True,
    listed=True,
    job=OF_THE_JOB,
)
SEED = Option("--seed", "seed of random inputs", Whole(0), 0, shown=True, form="Seed of random inputs")
DESCRIPTION = Option(
    "--description",
    "TOML or JSON with [inputs.NAME]: how pictures and sound become inputs, where model.bin does not describe it; [outputs.NAME]: roles of its channels; [decoder]; of a sequence [state] and [steps]",
    metavar="FILE",
    job="file",
)
ROI = Option(
    "--roi",
    "the part of each picture that is used, in its pixels; may be repeated",
    name="rois",
    many=True,
    metavar="[NAME:]X,Y,W,H",
    mapping=True,
    hint="Mapping[str, Sequence[int]] | Some",
)
TASK = Option(
    "--task",
    f"the network's task, measured on every side: {KINDS}; needs -i and --labels. With --gate task:METRIC>=LIMIT part of the verdict, else not",
    name="task_kind",
    metavar="KIND[,KEY=VALUE]",
)
LABELS = Option(
    "--labels",
    "labels of the frames of -i: lines `file,label`, one label per line, or JSON; COCO JSON of detection and keypoints; a folder of .png or .npy of "
    "segmentation and super-resolution. Without --task top-1 and top-5 of every side, also of a float ONNX in -m",
    metavar="FILE",
    job="file",
)
DECODER = Option(
    "--decoder",
    "how --task reads the final outputs: yolov8, ssd, yunet, ... (or MODULE:FUNCTION, FILE.py:FUNCTION)  [default: the one that fits]",
    metavar="NAME[,KEY=VALUE]",
)
TASK_METRIC = Option(
    "--task-metric",
    "instead of top-1 and top-5: function(outputs, label, file) returns a number, or True or False (or MODULE:FUNCTION)",
    metavar="FILE.py:FUNCTION",
    hint="str | None",
    job=RUNS_CODE,
)
APP_INPUT = Option("--app-input", "bytes the application fed, compared with those prepared from -i", metavar="FILE")
APP_OUTPUT = Option(
    "--app-output", "the application's outputs (.npz or folder of .npy), by output name", metavar="FILE"
)

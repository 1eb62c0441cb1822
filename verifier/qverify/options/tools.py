"""Options of the commands beside the main job, and the arguments of all. They have no group in a help."""

from __future__ import annotations

from qverify.options.option import FilePath, Number, Option, Whole

_WRITTEN = FilePath(folder=False)

# arguments

MODEL_FILE = Option("model", kind=_WRITTEN, required=True)
A_DUMP = Option("a", kind=FilePath(exists=True), required=True)
B_DUMP = Option("b", kind=FilePath(exists=True))
A_INPUTS = Option("a", required=True)
B_INPUTS = Option("b", required=True)
CAPTURE_FOLDER = Option("capture")
FOLDER = Option("folder", kind=FilePath(exists=True, file=False), required=True)
OUTPUTS_REFERENCE = Option("reference", required=True)
DEVICE = Option("device", required=True)
BASELINE_FILE = Option("file", kind=_WRITTEN, required=True)
BASELINE_CAPTURE = Option("capture", kind=FilePath(exists=True, file=False), required=True)

# compile

OUTPUT = Option("-o --output", "model.bin to write", _WRITTEN)
LIST = Option(
    "--list",
    "print all that keeps the model from being compiled, write nothing",
    "flag",
    name="only_list",
    only_cli=True,
)
INTEGER_ONNX = Option("--integer-onnx", "also write the integer ONNX", _WRITTEN)
ROUNDING = Option(
    "--rounding",
    "ref-exact tflite-single gemmlowp cmsis pow2-half-up pow2-half-away pow2-floor mul8 mul15 mul16 mul24 mul31",
    default="ref-exact",
    shown=True,
)
ALIGN = Option("--align", "pad the innermost dimension to a multiple of N elements", Whole(), 1, shown=True)
NO_FUSE = Option("--no-fuse", "keep Relu and Clip as separate nodes with their own dumps", "flag")
STRIP_IO_QUANT = Option("--strip-io-quant", "integer inputs and outputs: no quantize or dequantize at the ends", "flag")
INPUT = Option(
    "--input",
    "what the board is fed for this input, which model.bin converts to the network's: data=nv12,train=rgb,mean=128,scale=0.0078125; keys as in `qverify inputs prepare`; featuremap: quantized on the host",
    name="inputs",
    many=True,
    metavar="NAME=FORMAT[,KEY=VALUE...]",
    mapping=True,
)
COMPILE_CHECK = Option("--check/--no-check", "check every node against the original ONNX", "flag", True, shown=True)

# quantize

FROM = Option(
    "--from",
    "what a vendor's toolkit wrote of its quantization, in place of inputs (rknn: NAME.quantization.cfg; sophgo: NAME_tpu.mlir); may be repeated",
    FilePath(exists=True, folder=False),
    name="stated",
    many=True,
    metavar="FILE",
    keyword="stated",
)
WITH = Option(
    "--with",
    "let a vendor's toolkit quantize, as rknn,python=/opt/rknn/bin/python,calibration=FOLDER: its engine builds the network once with the input of -i",
    default="",
    name="engine",
    metavar="ENGINE",
    keyword="engine",
)
SCHEME = Option("--scheme", "types of activations and weights", ("u8s8", "s8s8", "u8u8", "s16s8"), "u8s8", shown=True)
METHOD = Option(
    "--method",
    "how ranges follow from the calibration inputs",
    ("minmax", "entropy", "percentile"),
    "minmax",
    shown=True,
)
PER_TENSOR = Option("--per-tensor", "one scale for each weight tensor, not one for each output channel", "flag")
FLOAT = Option(
    "--float", "nodes that stay float, a comma list; may be repeated", name="keep_float", many=True, metavar="NODES"
)
INT16 = Option("--int16", "nodes whose outputs get 16 bits, a comma list; may be repeated", many=True, metavar="NODES")

# replay

DUMP = Option("--dump", "bundle: the folder or tar that run.sh wrote  [default: FOLDER/dump]", FilePath(exists=True))
RERUN = Option(
    "--rerun", "capture: run the reference, the simulator or both (comma list) again on its inputs", listed=True
)

# inputs diff and outputs diff

SECONDS = Option("--seconds", "how long to search", Number(0, 1e6), 60.0, shown=True)
DESCRIBED = {  # the keys that describe the bytes of an input, each an option
    "format": "format of the bytes: nv12 nv21 i420 yuv444 yuv444_128 rgb bgr rgba bgra rgb_128 bgr_128 gray gray_128 featuremap raw_s16 raw_f32",
    "size": "WIDTHxHEIGHT",
    "train": "what the network was trained on: rgb bgr gray yuv444 featuremap",
    "mode": "colour: opencv, sigmastar, horizon, bt601, bt709",
    "range": "full or limited (bt601, bt709)",
    "siting": "chroma: top-left or mean (bt601, bt709)",
    "colour-rounding": "half-even, half-away, truncate (bt601, bt709)",
    "library": "library of the resize: cv2 or pillow",
    "interpolation": "of the resize: nearest, linear, cubic, area",
    "resize-dtype": "type in which to resize: uint8 or float32",
    "fit": "stretch, crop, letterbox, letterbox-top-left",
    "roi": "X,Y,W,H: the part of the picture that is used",
    "source": "WIDTHxHEIGHT of the camera's frames, for a resizer input",
    "fill": "value of a letterbox's border, 0 to 255",
    "mean": "one number, or one per channel: 123.7,116.3,103.5",
    "scale": "one number, or one per channel; (x - mean) * scale",
    "std": "one number, or one per channel; 1 / scale",
    "resize-order": "before-normalize or after-normalize",
    "quantize": "SCALE,ZERO of an integer featuremap or raw_s16",
    "quantize-dtype": "type of a quantized featuremap: int8, uint8, int16",
    "rounding": "rounding when quantizing: half-even, half-away, truncate",
    "layout": "NHWC or NCHW",
    "stride": "bytes of a stored row of the first plane, instead of width-align",
    "width-align": "pad rows to a multiple of this many elements",
    "height-align": "pad planes to a multiple of this many rows",
    "innermost-align": "pad the last dimension to a multiple of this many elements",
    "buffer-align": "pad the whole to a multiple of this many bytes",
    "profile": "a vendor's defaults and legal formats: horizon-x5, horizon-j6, sigmastar, axera",
}
DESCRIPTION = (
    Option(
        "--description",
        "TOML or JSON with [inputs.NAME]; options override it",
        name="toml",
        metavar="FILE",
        hint="Path | None",
    ),
    Option("-m --model", "a model.bin that describes its inputs; options override it", hint="Path | None"),
    Option("--name", "name of the model input"),
    *(Option(f"--{key}", text, mapping=key == "roi") for key, text in DESCRIBED.items()),
)
OUTPUTS_DECODER = Option(
    "--decoder",
    "how outputs become results: yolov8,frame=1280x720,score=0.25,iou=0.45 ..., or FILE.py:FUNCTION or MODULE:FUNCTION; without it, arrays of outputs are compared",
    metavar="NAME,KEY=VALUE,...",
)
QUANTIZED_OUTPUT = Option(
    "--output", "quantization of a stored output; may be repeated", many=True, metavar="NAME=SCALE,ZERO", mapping=True
)
OUTPUTS = Option(
    "--outputs", "the final outputs, where REFERENCE has other tensors, too", metavar="NAME,...", listed=True
)
WRITTEN = Option(
    "--written",
    "how DEVICE is written: boxes=xyxy|xywh|cxcywh|yxyx|xxyy|yxhw, normalized=true, first_class=1, digits=2, cut=true, columns=class:score:b0:b1:b2:b3, names=FILE, as=rows|outputs|decoded|mask",
    metavar="KEY=VALUE,...",
)
DOCUMENT = Option("--json", "", name="path", metavar="FILE", only_cli=True)  # a document that is no report

# soak and baseline

FOR = Option("--for", "", Number(0.1, 1e7), name="seconds", metavar="SECONDS", required=True)
EVERY = Option(
    "--every",
    "start a run this often, instead of right after the last",
    Number(0, 1e6),
    0.0,
    name="every_s",
    metavar="SECONDS",
)
LOG = Option("--log", "append one JSON object per run, after one that describes the soak", name="path", metavar="FILE")
FIRMWARE = Option("--firmware", "your name for the board's firmware  [default: its system]", default="")
TOOLCHAIN = Option("--toolchain", "your name for the toolchain that made the model", default="")

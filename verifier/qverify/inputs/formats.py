"""Formats of input bytes: their names, which training formats a chip converts them to, and limits of sizes."""

from __future__ import annotations

YUV420 = ("nv12", "nv21", "i420")
BYTES = ("yuv444", "rgb", "bgr", "rgba", "bgra", "gray")
SIGNED = ("yuv444_128", "rgb_128", "bgr_128", "gray_128")  # the byte less 128, as int8
REAL = ("featuremap", "raw_f32", "raw_s16")
FORMATS = (*YUV420, *BYTES, *SIGNED, *REAL)
TRAINING = ("rgb", "bgr", "gray", "yuv444", "featuremap")
# Which formats a chip converts to which training format (VENDORS: input_type_rt, input_type_train).
WHOLE = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767)}
LEGAL = {
    "yuv444": ("nv12", "nv21", "i420", "yuv444", "yuv444_128"),
    **dict.fromkeys(
        ("rgb", "bgr"),
        (*YUV420, "yuv444", "yuv444_128", "rgb", "bgr", "rgba", "bgra", "rgb_128", "bgr_128", *REAL),
    ),
    "gray": ("gray", "gray_128", *REAL),
    "featuremap": REAL,
}
FITS = ("stretch", "crop", "letterbox", "letterbox-top-left")
LIBRARIES = ("cv2", "pillow")
INTERPOLATIONS = ("nearest", "linear", "cubic", "area")
LAYOUTS = ("NHWC", "NCHW")
LARGEST_NUMBER = 2.0**60
LARGEST = 1 << 15  # pixels a side
LONGEST = 1 << 26  # samples of a sound
MOST_BYTES = (1 << 31) - 1  # of a buffer

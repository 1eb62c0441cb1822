"""Networks over time: speech, keywords, recurrent ones, audio in one dimension, video in three."""

from __future__ import annotations

import math

import numpy as np
import onnx

from .builder import Net


def recurrent(
    net: Net, kind: str, x: str, size: tuple[int, int], directions: int = 1, state: tuple[str, ...] = ()
) -> list[str]:
    """An LSTM, GRU or RNN over [time, batch, size[0]]; returns all its outputs."""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    std = math.sqrt(1 / size[1])
    weights = [net.normal(directions, gates * size[1], width, std=std) for width in size]
    bias = net.normal(directions, 2 * gates * size[1], std=0.1)
    extra = {"GRU": {"linear_before_reset": 1}}.get(kind, {})
    return net.ops(
        kind, 3 if kind == "LSTM" else 2, x, *weights, bias, *(["", *state] if state else []), hidden_size=size[1],
        direction="bidirectional" if directions == 2 else "forward", **extra,
    )  # fmt: skip


def keyword_spotting() -> onnx.ModelProto:
    """DS-CNN over a spectrogram: a 10x4 kernel, depthwise blocks, a pool of the whole map."""
    net = Net("keyword_spotting", opset=21)
    x = net.input("mfcc", [1, 1, 49, 10])
    x = net.op("Relu", net.batch_norm(net.conv(x, (1, 32), (10, 4), 2, pads=[4, 1, 5, 1]), 32))
    for _ in range(3):
        x = net.op("Relu", net.conv_bn(x, (32, 32), 3, group=32))
        x = net.op("Relu", net.conv_bn(x, (32, 32), 1))
    x = net.op("AveragePool", x, kernel_shape=[25, 5], strides=[25, 5])
    return net.finish(probabilities=net.op("Softmax", net.gemm(net.reshape(x, 1, 32), (32, 12)), axis=1))


def speech_encoder() -> onnx.ModelProto:
    """Whisper's front end: strided 1-D convolutions with GELU, positions, one attention block."""
    net = Net("speech_encoder", opset=17)
    x = net.gelu(net.conv(net.input("mel", [1, 20, 48]), (20, 32), 3, dims=1))
    x = net.gelu(net.conv(x, (32, 32), 3, 2, dims=1))
    x = net.op("Add", net.transpose(x, 0, 2, 1), net.normal(24, 32, std=0.3))
    x = net.op("Add", x, net.attention(net.layer_norm(x, 32), 24, 32, 4))
    y = net.gelu(net.linear(net.layer_norm(x, 32), (32, 64)))
    return net.finish(hidden=net.layer_norm(net.op("Add", x, net.linear(y, (64, 32))), 32))


def conformer() -> onnx.ModelProto:
    """Half steps, attention, gated 1-D convolution with BatchNormalization, log-probabilities for CTC."""
    net = Net("conformer", opset=17)
    x = net.op("Relu", net.conv(net.input("features", [1, 1, 40, 20]), (1, 8), 3, 2))
    x = net.linear(net.reshape(net.transpose(x, 0, 2, 1, 3), 1, 20, 80), (80, 24))
    x = net.op("Add", x, net.op("Mul", net.linear(net.swish(net.linear(x, (24, 48))), (48, 24)), net.const(0.5)))
    x = net.op("Add", x, net.attention(net.layer_norm(x, 24), 20, 24, 2))
    y = net.transpose(net.layer_norm(x, 24), 0, 2, 1)
    value, gate = net.ops("Split", 2, net.conv(y, (24, 48), 1, dims=1), net.ints(24, 24), axis=1)
    y = net.op("Mul", value, net.op("Sigmoid", gate))
    y = net.swish(net.batch_norm(net.conv(y, (24, 24), 7, dims=1, group=24), 24))
    x = net.op("Add", x, net.transpose(net.conv(y, (24, 24), 1, dims=1), 0, 2, 1))
    return net.finish(log_probabilities=net.op("LogSoftmax", net.linear(net.layer_norm(x, 24), (24, 30)), axis=2))


def lstm() -> onnx.ModelProto:
    """Two stacked LSTMs whose states come in and go out, as a streaming voice detector has them."""
    net = Net("lstm", opset=17)
    x = net.input("frames", [1, 12, 16])
    hidden, cell = net.input("h", [1, 1, 32]), net.input("c", [1, 1, 32])
    x = net.op("Relu", net.conv(net.transpose(x, 0, 2, 1), (16, 24), 3, dims=1))
    x, next_hidden, next_cell = recurrent(net, "LSTM", net.transpose(x, 2, 0, 1), (24, 32), state=(hidden, cell))
    x = recurrent(net, "LSTM", net.op("Squeeze", x, net.ints(1)), (32, 24))[0]
    x = net.transpose(net.op("Squeeze", x, net.ints(1)), 1, 0, 2)
    speech = net.op("Sigmoid", net.linear(x, (24, 1)))
    return net.finish(speech=speech, hn=next_hidden, cn=next_cell)


def bidirectional_gru() -> onnx.ModelProto:
    """A bidirectional GRU over embedded characters, both directions joined by Transpose and Reshape."""
    net = Net("bidirectional_gru", opset=17)
    x = net.linear(net.input("features", [1, 14, 20]), (20, 24))
    x = net.transpose(net.op("Tanh", x), 1, 0, 2)
    x = recurrent(net, "GRU", x, (24, 24), 2)[0]
    x = net.reshape(net.transpose(x, 0, 2, 1, 3), 14, 1, 48)
    x = net.transpose(x, 1, 0, 2)
    scores = net.op("Softmax", net.linear(net.op("Tanh", net.linear(x, (48, 16))), (16, 1), bias=False), axis=1)
    pooled = net.op("ReduceSum", net.op("Mul", x, scores), net.ints(1), keepdims=0)
    return net.finish(logits=net.gemm(pooled, (48, 6)))


def rnn() -> onnx.ModelProto:
    """A plain RNN with tanh that predicts the next values of several sensors."""
    net = Net("rnn", opset=17)
    x = net.transpose(net.input("sensors", [1, 24, 6]), 1, 0, 2)
    last = recurrent(net, "RNN", x, (6, 32))[1]
    x = net.op("Squeeze", last, net.ints(0))
    return net.finish(forecast=net.gemm(net.op("Relu", net.gemm(x, (32, 24))), (24, 6)))


def ocr_lstm() -> onnx.ModelProto:
    """CRNN: convolutions, columns as time, a bidirectional LSTM, log-probabilities per column."""
    net = Net("ocr_lstm", opset=18)
    x = net.pool("MaxPool", net.op("Relu", net.conv(net.input("line", [1, 1, 16, 64]), (1, 12))), 2, 2)
    x = net.pool("MaxPool", net.op("Relu", net.conv_bn(x, (12, 24))), 2, 2)
    x = net.op("Relu", net.conv(x, (24, 32), (4, 1), pads=[0] * 4))
    x = net.transpose(net.op("Squeeze", x, net.ints(2)), 2, 0, 1)
    x = recurrent(net, "LSTM", x, (32, 20), 2)[0]
    x = net.reshape(net.transpose(x, 0, 2, 1, 3), 16, 1, 40)
    return net.finish(log_probabilities=net.op("LogSoftmax", net.linear(x, (40, 30)), axis=2))


def conv3d() -> onnx.ModelProto:
    """A video classifier: 3-D convolutions, pools and BatchNormalization."""
    net = Net("conv3d", opset=17)
    x = net.op("Relu", net.batch_norm(net.conv(net.input("clip", [1, 3, 8, 24, 24]), (3, 8), dims=3), 8))
    x = net.op("MaxPool", x, kernel_shape=[1, 2, 2], strides=[1, 2, 2])
    x = net.op("Relu", net.conv(x, (8, 16), dims=3))
    x = net.pool("MaxPool", x, 2, 2, dims=3)
    x = net.op("Relu", net.conv(x, (16, 24), dims=3, group=2))
    x = net.op("GlobalAveragePool", net.pool("AveragePool", x, 2, 2, dims=3))
    return net.finish(logits=net.gemm(net.op("Flatten", x, axis=1), (24, 8)))


def volume_segmentation() -> onnx.ModelProto:
    """Factored 3-D kernels (1x3x3, 3x1x1), InstanceNormalization, a 3-D ConvTranspose and Resize."""
    net = Net("volume_segmentation", opset=17)
    x = net.input("volume", [1, 1, 12, 16, 16])
    x = skip = net.op("Relu", net.conv(net.conv(x, (1, 8), (1, 3, 3), dims=3), (8, 8), (3, 1, 1), dims=3))
    scale, bias = net.normal(12, std=0.1, mean=1.0), net.normal(12, std=0.1)
    x = net.op("InstanceNormalization", net.conv(x, (8, 12), 3, 2, dims=3), scale, bias)
    x = net.op("LeakyRelu", x, alpha=0.01)
    x = net.op("Concat", net.conv_transpose(x, (12, 8), 2, 2, dims=3), skip, axis=1)
    x = net.pool("MaxPool", net.op("Relu", net.conv(x, (16, 8), dims=3)), 2, 2, dims=3)
    x = net.op("Resize", net.conv(x, (8, 3), 1, dims=3), "", net.const([1, 1, 2, 2, 2]), mode="linear")
    return net.finish(probabilities=net.op("Softmax", x, axis=1))


def audio_autoencoder() -> onnx.ModelProto:
    """Strided 1-D convolutions down, ConvTranspose up, Elu between, Tanh at the end."""
    net = Net("audio_autoencoder", opset=17)
    x = net.input("audio", [1, 1, 256])
    for channels in [(1, 8), (8, 16), (16, 24)]:
        x = net.op("Elu", net.conv(x, channels, 8, 4, dims=1, pads=[2, 2]), alpha=1.0)
    for channels in [(24, 16), (16, 8)]:
        x = net.op("Elu", net.conv_transpose(x, channels, 8, 4, dims=1), alpha=1.0)
    return net.finish(audio_out=net.op("Tanh", net.conv_transpose(x, (8, 1), 8, 4, dims=1)))


def speech_enhancement() -> onnx.ModelProto:
    """A spectrum by convolution with fixed waves, magnitude by Pow and Sqrt, a mask applied in logarithms."""
    net = Net("speech_enhancement", opset=17)
    x = net.op("Unsqueeze", net.input("audio", [1, 320]), net.ints(1))
    x = net.op("Pad", x, net.ints(0, 0, 16, 0, 0, 16), mode="reflect")
    angles = 2 * np.pi * np.outer(np.arange(16), np.arange(32)) / 32
    waves = np.concatenate([np.cos(angles), np.sin(angles)])[:, None] * np.hanning(32)
    spectrum = net.op("Conv", x, net.const(waves, stem="waves"), kernel_shape=[32], strides=[16])
    real, imaginary = net.slice(spectrum, 0, 16, 1), net.slice(spectrum, 16, 2**31, 1)
    power = net.op("Add", *[net.op("Pow", part, net.const(2.0)) for part in (real, imaginary)])
    magnitude = net.op("Sqrt", net.op("Add", power, net.const(1e-6)))
    y = net.op("Log", net.op("Add", magnitude, net.const(1e-2)))
    for channels in [(16, 24), (24, 24)]:
        y = net.op("Softplus", net.conv(y, channels, 3, dims=1))
    mask = net.op("Sigmoid", net.conv(y, (24, 16), 1, dims=1))
    return net.finish(enhanced=net.op("Mul", magnitude, mask), energy=net.op("ReduceL2", power, axes=[1], keepdims=0))


def temporal_conv() -> onnx.ModelProto:
    """Causal 1-D convolutions with growing dilation, Pad on the left, PRelu with one slope for each channel."""
    net = Net("temporal_conv", opset=17)
    x, channels = net.input("series", [1, 8, 64]), 8
    for dilation in (1, 2, 4, 8):
        y = net.op("Pad", x, net.ints(0, 0, 2 * dilation, 0, 0, 0), net.const(0.0))
        y = net.conv(y, (channels, 24), 3, dims=1, dilation=dilation, pads=[0, 0])
        y = net.op("PRelu", y, net.const(net.rng.uniform(0.1, 0.3, (24, 1)), stem="slope"))
        x = net.op("Add", y, net.conv(x, (channels, 24), 1, dims=1) if channels != 24 else x)
        channels = 24
    last = net.op("Gather", x, net.const(-1, np.int64), axis=2)
    return net.finish(forecast=net.gemm(last, (24, 4)))

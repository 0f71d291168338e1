#!/usr/bin/env python3
"""Times norms, softmaxes and sums at shapes that fit badly, each beside a copy kernel of the same bytes.

usage: benchmarks/uneven_shapes.py [--only PATTERN] [--json FILE] [--repetitions N] [--write DIR]

Batch norms of so many channels that turns of CTAs are not full, channels in front and last, larger than the cache; layer
and RMS norms backward of short rows of any length, with dropout too; softmaxes backward over an axis before others whose
pieces begin anywhere in a line of memory; sums and variances down columns. A line a case: the fraction of the copy
kernel's speed, microseconds, the number of kernels. --write only writes the graphs to a folder. The tool is
build/tools/seam, or what SEAM names.
"""
import sys

from odd_norms import norm
from transposed import graph, time_cases

ELEMENTS = 1 << 25       # Of a tensor of rows in 16 bits; half as many in f32.
MANY_ELEMENTS = 1 << 26  # Of images with the channels in front, and of columns.
MORE_ELEMENTS = 1 << 27  # Of images with the channels last.


def norm_backward(rms, dropout, dtype, columns):
    """Inputs, statements, outputs and sizes of a layer or RMS norm's backward pass."""
    inputs = ['g: T[M, N]', 'x: T[M, N]', 'w: f32[N]', 'rstd: f32[M]']
    wide = 'cast(g, dtype=f32), cast(x, dtype=f32)'
    if rms:
        body, outputs = f'dxf, dw = rms_norm_backward({wide}, rstd, w, axes=[1])', ['dx', 'dw']
    else:
        inputs.append('mean: f32[M]')
        body, outputs = f'dxf, dw, db = layer_norm_backward({wide}, mean, rstd, w, axes=[1])', ['dx', 'dw', 'db']
    if dropout:
        inputs += ['seed: i64[]', 'offset: i64[]']
        body += '\nkeep = random_uniform(seed, offset, sizes=[M, N], dtype=f32) >= 0.1\nd = where(keep, dxf / 0.9, 0.0)'
    body += f'\ndx = cast({"d" if dropout else "dxf"}, dtype={dtype})'
    elements = ELEMENTS // (2 if dtype == 'f32' else 1)
    return inputs, body, outputs, dict(M=elements // columns // 8 * 8, N=columns)


def cases():
    """Name, type, inputs, statements, outputs, sizes."""
    for backward in (False, True):
        direction = 'backward' if backward else 'forward'
        for channels, side in ((24, 112), (48, 56), (64, 56), (72, 56), (116, 28), (160, 28), (192, 28), (200, 14),
                               (232, 28), (256, 56), (288, 28), (336, 14), (464, 14)):
            yield (f'batch_{direction}_{channels}x{side}x{side}', 'f16',
                   *norm('batch', backward, False, 'f16', channels, side, MANY_ELEMENTS))
        for channels, side in ((144, 28), (256, 56), (512, 28), (672, 14), (1024, 14)):
            yield (f'batch_{direction}_last_{channels}x{side}x{side}', 'f16',
                   *norm('batch', backward, True, 'f16', channels, side, MORE_ELEMENTS))
    for dtype in ('f16', 'f32'):
        for columns in (12, 36, 60, 77, 100, 101, 130, 201, 257, 300, 301, 514, 750, 1001):
            yield f'layer_norm_backward_{columns}_{dtype}', dtype, *norm_backward(False, False, dtype, columns)
    for columns in (60, 100, 300, 301, 750):
        yield f'rms_norm_backward_{columns}_f16', 'f16', *norm_backward(True, False, 'f16', columns)
    for columns in (132, 196, 300, 396, 500):
        yield f'layer_norm_dropout_backward_{columns}_f16', 'f16', *norm_backward(False, True, 'f16', columns)
    for n, beside in ((400, 1500), (600, 1500), (800, 750), (1000, 1500), (1000, 1502), (2000, 1500), (3500, 1500)):
        yield (f'softmax_backward_{n}x{beside}_bf16', 'bf16', ['g: T[M, N, P]', 'x: T[M, N, P]'],
               'dx = softmax_backward(g, x, axis=1)', ['dx'], dict(M=max(1, MANY_ELEMENTS // (n * beside)), N=n, P=beside))
    for rows, columns in ((300, 200000), (1000, 50000), (4096, 40000), (8192, 8192), (16384, 1024), (65536, 768)):
        for op in ('sum', 'variance'):
            yield (f'{op}_{rows}x{columns}_bf16', 'bf16', ['x: T[M, N]'], f's = {op}(cast(x, dtype=f32), axes=[0])', ['s'],
                   dict(M=rows, N=columns))
    for length in (50, 100, 197, 400):
        yield (f'mean_{length}_bf16', 'bf16', ['x: T[B, S, C]'],
               'p = mean(cast(x, dtype=f32), axes=[1])\no = cast(p, dtype=bf16)', ['o'],
               dict(B=MANY_ELEMENTS // (length * 1024), S=length, C=1024))


def graphs():
    for name, dtype, inputs, body, outputs, sizes in cases():
        yield name, graph(name, dtype, inputs, body, outputs, sizes, ' in [1, 4194304]'), sizes


if __name__ == '__main__':
    sys.exit(time_cases(__doc__, graphs()))

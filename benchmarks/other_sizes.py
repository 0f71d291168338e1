#!/usr/bin/env python3
"""Times pieces of models at other sizes and in f32, and what reads tables, windows or softmaxes beside each row.

usage: benchmarks/other_sizes.py [--only PATTERN] [--json FILE] [--repetitions N] [--write DIR]

Pieces of benchmarks/pieces with other columns or heads; softmaxes backward of short rows that vectors of 16 bytes do not
divide; windows of attention beside a table; depthwise convolutions with a norm behind them; group norms of odd numbers of
channels, channels last; means over rows that lie apart; differences of two softmaxes of long rows. Each beside a copy kernel
of the same bytes. A line a case: the fraction of the copy kernel's speed, microseconds, the number of kernels. --write only
writes the graphs to a folder. The tool is build/tools/seam, or what SEAM names.
"""
import re
import sys

from pieces import FOLDER, sizes_of
from transposed import graph, time_cases

ELEMENTS = 1 << 27         # Of short rows and windows.
LONG_ELEMENTS = 102924288  # Of rows of vocabularies.
# Of which piece, in f32 or as it is, with which sizes instead of its own.
OTHERS = (
    [('rope_qk_norm_backward', False, dict(D=d, H=h)) for d, h in ((32, 32), (64, 8), (128, 16), (256, 8))] +
    [('ln_96_swin_backward_windows', wide, dict(C=c)) for wide, c in
     ((False, 192), (False, 384), (True, 96), (True, 192))] +
    [('mean_pool_ln_backward', False, dict(B=b, C=c)) for b, c in ((256, 768), (128, 2048))] +
    [('mean_pool_ln_backward', True, dict(B=131072 // c, C=c)) for c in (512, 1024, 2048)] +
    [('bert_embedding_ln_backward', False, dict(B=51, C=960)), ('deberta_disentangled_scores', False, dict(B=5, S=768)),
     ('deberta_disentangled_scores', True, dict(B=5, S=384)), ('transformer_xl_rel_shift_softmax', False, dict(B=5, Q=768)),
     ('patchify_norm', False, dict(N=128, H=28)), ('mamba2_gated_rms_backward', True, dict(M=3276, G=10, K=640))] +
    [('vq_perplexity', False, dict(M=m, H=h, K=k)) for m, h, k in
     ((262144, 2, 80), (262144, 4, 128), (262144, 2, 256), (65536, 4, 512), (65536, 2, 1024))] +
    [('vq_perplexity', True, dict(M=65536, H=2, K=256)),
     ('group_norm_nhwc_silu_backward', True, dict(N=2, H=48, W=48, G=128, K=15))] +
    [('kl_distillation_grad', False, dict(M=m, V=v)) for m, v in ((4188, 24576), (2731, 37688), (2047, 50264))] +
    [('kl_both_gradients_50257', False, dict(M=1024, V=100512))])


def other(piece, wide, sizes):
    """The piece in f32 or as it is: name, text and sizes."""
    file = FOLDER / f'{piece}.seam'
    text = file.read_text()
    name = '_'.join([piece] + (['f32'] if wide else []) + [f'{k}{v}' for k, v in sizes.items()])
    text = re.sub(r'\bb?f16\b', 'f32', text) if wide else text
    return name, re.sub(r'^fusion \w+', f'fusion {name}', text, flags=re.M), {**sizes_of(file, 'sizes'), **sizes}


def group_norm(backward):
    """Inputs, statements and outputs, channels last, a group K neighbouring ones."""
    inputs = ['x: T[N, P, G*K]', 'w: T[G*K]']
    grouped = 'g = reshape(cast(x, dtype=f32), sizes=[N, P, G, K])\n'
    if not backward:
        return (inputs + ['b: T[G*K]'],
                grouped + 'mean, m2, count = welford(g, axes=[1, 3])\n'
                'n = (g - mean[:, None, :, None]) * rsqrt(m2 / count + 1e-5)[:, None, :, None]\n'
                'y = reshape(n, sizes=[N, P, G*K]) * cast(w, dtype=f32) + cast(b, dtype=f32)\n'
                'o = cast(y * sigmoid(y), dtype=T)', ['o'])
    return (inputs + ['dy: T[N, P, G*K]', 'mean: f32[N, G]', 'rstd: f32[N, G]'],
            grouped + 'xh = (g - mean[:, None, :, None]) * rstd[:, None, :, None]\nd = cast(dy, dtype=f32)\n'
            'gw = reshape(d * cast(w, dtype=f32), sizes=[N, P, G, K])\nn = size(sizes=[P*K], dtype=f32)\n'
            'a = sum(gw, axes=[1, 3])[:, None, :, None] / n\nc = sum(gw * xh, axes=[1, 3])[:, None, :, None] / n\n'
            'dx = cast(reshape((gw - a - xh * c) * rstd[:, None, :, None], sizes=[N, P, G*K]), dtype=T)\n'
            'dw = sum(d * reshape(xh, sizes=[N, P, G*K]), axes=[0, 1])\ndb = sum(d, axes=[0, 1])', ['dx', 'dw', 'db'])


def convolution(side):
    """Inputs, statements and outputs of a depthwise convolution and a layer norm of each pixel, channels last."""
    taps = ' + '.join(f'p[:, {y}:H+{y}, {x}:W+{x}] * squeeze(k[{y}:{y + 1}, {x}:{x + 1}], axes=[0, 1])'
                      for y in range(side) for x in range(side))
    pad = f'[0, {side // 2}, {side // 2}, 0]'
    return (['x: T[N, H, W, C]', 's: f32[C]', 'b: f32[C]', f'k: f32[{side}, {side}, C]'],
            f'p = pad(cast(x, dtype=f32), before={pad}, after={pad})\ny = {taps}\n'
            'm = mean(y, axes=[3], keepdims=true)\nv = variance(y, axes=[3], keepdims=true)\n'
            'o = cast((y - m) * rsqrt(v + 1e-6) * s + b, dtype=T)', ['o'])


def cases():
    """Name, type, inputs, statements, outputs, sizes."""
    for columns in (60, 84, 100):
        yield (f'softmax_backward_{columns}', 'bf16', ['d: T[M, N]', 'p: T[M, N]'],
               'g = cast(d, dtype=f32)\nq = cast(p, dtype=f32)\n'
               'o = cast(q * (g - sum(q * g, axes=[1], keepdims=true)), dtype=T)', ['o'],
               dict(M=ELEMENTS // columns // 2 * 2, N=columns))
    yield ('softmax_of_sum_100', 'bf16', ['a: T[M, N]', 'b: T[M, N]'],
           'o = cast(softmax(cast(a, dtype=f32) + cast(b, dtype=f32), axis=1), dtype=T)', ['o'],
           dict(M=ELEMENTS // 200 * 2, N=100))
    for tokens, heads in ((49, 6), (77, 12)):
        yield (f'window_softmax_{tokens}', 'f16', ['s: T[I, H, N, N]', 'b: f32[H, N, N]'],
               'o = cast(softmax(cast(s, dtype=f32) + b, axis=-1), dtype=T)', ['o'],
               dict(I=ELEMENTS // (tokens * tokens * heads), H=heads, N=tokens))
    for side, images, pixels, channels in ((5, 64, 56, 96), (7, 64, 56, 96), (7, 64, 56, 192), (7, 64, 28, 384)):
        yield (f'depthwise_{side}x{side}_layer_norm_{channels}', 'bf16', *convolution(side),
               dict(N=images, H=pixels, W=pixels, C=channels))
    for dtype in ('bf16', 'f32'):
        for backward in (False, True):
            for images, pixels, groups, channels in ((32, 784, 32, 7), (8, 2304, 128, 15)):
                yield (f'group_norm_{"backward" if backward else "silu"}_{groups}x{channels}_{dtype}', dtype,
                       *group_norm(backward), dict(N=images, P=pixels, G=groups, K=channels))
    for columns in (24576, 37688, 50264, 98304):
        yield (f'softmax_difference_{columns}', 'bf16', ['a: T[M, N]', 'b: T[M, N]'],
               'o = cast(softmax(cast(a, dtype=f32), axis=1) - softmax(cast(b, dtype=f32), axis=1), dtype=T)', ['o'],
               dict(M=LONG_ELEMENTS // columns, N=columns))


def graphs():
    for name, dtype, inputs, body, outputs, sizes in cases():
        body = body.replace('dtype=T)', f'dtype={dtype})')
        yield name, graph(name, dtype, inputs, body, outputs, sizes, ' in [1, 4194304]'), sizes
    for piece in OTHERS:
        yield other(*piece)


if __name__ == '__main__':
    sys.exit(time_cases(__doc__, graphs()))

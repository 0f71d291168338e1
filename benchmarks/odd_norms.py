#!/usr/bin/env python3
"""Times norms at shapes that vectors do not divide, each beside a copy kernel of the same bytes.

usage: benchmarks/odd_norms.py [--only PATTERN] [--json FILE] [--repetitions N] [--write DIR]

Batch, instance and group norms of images with odd sides, channels in front, as Inception's, and with odd channels, which
lie last; softmaxes over an axis with a few neighbours behind it. Cases that begin with any_ have symbols of any value, as
a graph has them that says nothing of them. A line a case: the fraction of the copy kernel's speed, microseconds, the
number of kernels. --write only writes the graphs to a folder. The tool is build/tools/seam, or what SEAM names.
"""
import sys

from transposed import graph, time_cases

IMAGES = 1 << 25  # Elements of a tensor of images in f16; half as many in f32.
ROWS = 1 << 24    # Elements of a tensor of softmaxes.
GROUPS = 32
LAST = ' order [0, 2, 3, 1]'
SIDES = ((64, 147), (192, 71), (288, 35), (768, 17), (256, 13), (2048, 7), (96, 55), (160, 9), (64, 55), (64, 35), (64, 71))


def norm(op, backward, last, dtype, channels, side, elements=IMAGES):
    """Inputs, statements, outputs and sizes of one; `elements` in 16 bits, half as many in f32."""
    order = LAST if last else ''
    c = f'{GROUPS}*C' if op == 'group' else 'C'
    state = {'batch': c, 'instance': f'N, {c}', 'group': f'N, {GROUPS}'}[op]
    more = f', groups={GROUPS}' if op == 'group' else ''
    image = f'T[N, {c}, H, W]{order}'
    elements //= 1 if dtype == 'f16' else 2
    sizes = dict(N=max(1, elements // (channels * side * side)), C=channels // GROUPS if op == 'group' else channels,
                 H=side, W=side)
    if backward:
        return ([f'g: {image}', f'x: {image}', f'mean: f32[{state}]', f'rstd: f32[{state}]', f'w: T[{c}]'],
                f'dx, dw, db = {op}_norm_backward(g, x, mean, rstd, w{more})', [f'dx{order}', 'dw', 'db'], sizes)
    return ([f'x: {image}', f'w: T[{c}]', f'b: T[{c}]'], f'y, mean, rstd = {op}_norm(x, w, b{more}, eps=1e-5)',
            [f'y{order}', 'mean', 'rstd'], sizes)


def cases():
    """Name, type, inputs, statements, outputs, sizes."""
    def direction(backward):
        return 'backward' if backward else 'forward'
    for backward in (False, True):
        for op in ('batch', 'instance', 'group'):
            for channels, side in SIDES:
                yield (f'{op}_{direction(backward)}_{channels}x{side}x{side}_f16', 'f16',
                       *norm(op, backward, False, 'f16', channels, side))
        for channels, side in ((288, 35), (96, 55)):
            yield (f'batch_{direction(backward)}_{channels}x{side}x{side}_f32', 'f32',
                   *norm('batch', backward, False, 'f32', channels, side))
        for channels in (19, 35, 66, 435, 1003, 1445):
            for op in ('batch', 'instance'):
                yield (f'{op}_{direction(backward)}_last_{channels}_f16', 'f16',
                       *norm(op, backward, True, 'f16', channels, 32))
        for op, channels in (('batch', 512), ('instance', 512), ('group', 288), ('group', 160)):
            yield (f'any_{op}_{direction(backward)}_last_{channels}_f16', 'f16',
                   *norm(op, backward, True, 'f16', channels, 32))
    for dtype, beside in (('bf16', (2, 3, 4, 5, 6, 7, 8, 12, 15)), ('f32', (2, 3, 5, 7))):
        for p in beside:
            for n in (20, 64, 1000, 16000):
                sizes = dict(M=max(1, ROWS // (n * p)), N=n, P=p)
                yield (f'softmax_{n}x{p}_{dtype}', dtype, ['x: T[M, N, P]'], 'y = softmax(x, axis=1)', ['y'], sizes)
                if n > 20:
                    yield (f'softmax_backward_{n}x{p}_{dtype}', dtype, ['g: T[M, N, P]', 'x: T[M, N, P]'],
                           'dx = softmax_backward(g, x, axis=1)', ['dx'], sizes)


def graphs():
    for name, dtype, inputs, body, outputs, sizes in cases():
        values = '' if name.startswith('any_') else ' in [1, 4194304]'
        yield name, graph(name, dtype, inputs, body, outputs, sizes, values), sizes


if __name__ == '__main__':
    sys.exit(time_cases(__doc__, graphs()))

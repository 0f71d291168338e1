#!/usr/bin/env python3
"""Times what goes over many tensors that share nothing: norms of gradients, optimizers, norms of several tensors.

usage: benchmarks/many_tensors.py [--only PATTERN] [--json FILE] [--repetitions N] [--write DIR]

Norms of 8 to 120 gradients, of unlike ones as models have them, and clipping by them; LAMB, LARS and standardised gradients,
each tensor by its own norms; statistics for a log; group norms of a pyramid's levels, norms of queries and keys. Each beside
a copy kernel of the same bytes. A line a case: the fraction of the copy kernel's speed, microseconds, the number of kernels.
--write only writes the graphs to a folder. The tool is build/tools/seam, or what SEAM names.
"""
import sys

from transposed import time_cases


def block(width, inner):
    """The parameters of a transformer's block."""
    return [(3 * width, width), (3 * width,), (width, width), (width,), (inner, width), (inner,), (width, inner),
            (width,), (width,), (width,), (width,), (width,)]


def small():
    return [(64 * (i % 5 + 1), 32 * (i % 3 + 1)) if i % 2 else (100 + 37 * i,) for i in range(60)]


def mixed():
    return [(1024, 1024), (1024,), (256, 1024), (256,), (1024, 256), (1024,), (1000, 77), (1,)]


def fusion(name, inputs, body):
    """Inputs: name, type, shape."""
    lines = [f'  input {v}: {dtype}[{", ".join(map(str, shape))}]' for v, dtype, shape in inputs]
    return '\n'.join([f'fusion {name} {{'] + lines + ['  ' + line for line in body] + ['}', ''])


def norm(name, shapes, dtype='f32', clip=False):
    inputs = [(f'g{i}', dtype, shape) for i, shape in enumerate(shapes)]
    body = [f'f{i} = cast(g{i}, dtype=f32)' for i in range(len(shapes))]
    body += [f's{i} = sum(f{i} * f{i})' for i in range(len(shapes))]
    body += ['total = sqrt(' + ' + '.join(f's{i}' for i in range(len(shapes))) + ')', 'output total']
    if clip:
        body += ['scale = minimum(1.0 / (total + 1e-6), 1.0)']
        for i in range(len(shapes)):
            body += [f'o{i} = cast(f{i} * scale, dtype={dtype})', f'output o{i}']
    return fusion(name, inputs, body)


def lamb(name, shapes):
    inputs = [('step', 'f32', ())] + [(f'{v}{i}', 'f32', shape) for i, shape in enumerate(shapes) for v in 'wgmv']
    body = []
    for i in range(len(shapes)):
        body += [f'nm{i} = m{i} * 0.9 + g{i} * 0.1', f'nv{i} = v{i} * 0.999 + g{i} * g{i} * 0.001',
                 f'u{i} = nm{i} / (sqrt(nv{i}) + 1e-6) + w{i} * 0.01',
                 f'wn{i} = sqrt(sum(w{i} * w{i}))', f'un{i} = sqrt(sum(u{i} * u{i}))',
                 f'r{i} = where(wn{i} > 0.0, where(un{i} > 0.0, wn{i} / un{i}, 1.0), 1.0)',
                 f'nw{i} = w{i} - step * r{i} * u{i}', f'output nw{i}', f'output nm{i}', f'output nv{i}']
    return fusion(name, inputs, body)


def lars(name, shapes):
    inputs = [('rate', 'f32', ())] + [(f'{v}{i}', 'f32', shape) for i, shape in enumerate(shapes) for v in 'wgm']
    body = []
    for i in range(len(shapes)):
        body += [f'wn{i} = sqrt(sum(w{i} * w{i}))', f'gn{i} = sqrt(sum(g{i} * g{i}))',
                 f'r{i} = wn{i} * 0.001 / (gn{i} + wn{i} * 0.0001 + 1e-9)',
                 f'nm{i} = m{i} * 0.9 + (g{i} + w{i} * 0.0001) * r{i} * rate', f'nw{i} = w{i} - nm{i}',
                 f'output nm{i}', f'output nw{i}']
    return fusion(name, inputs, body)


def standardised(name, shapes, dtype):
    inputs = [(f'g{i}', dtype, shape) for i, shape in enumerate(shapes)]
    body = []
    for i, shape in enumerate(shapes):
        axes = list(range(len(shape)))
        body += [f'f{i} = cast(g{i}, dtype=f32)', f'a{i}, v{i} = moments(f{i}, axes={axes}, keepdims=true)',
                 f'o{i} = cast((f{i} - a{i}) * rsqrt(v{i} + 1e-8), dtype={dtype})', f'output o{i}']
    return fusion(name, inputs, body)


def log(name, shapes):
    inputs = [(f'x{i}', 'bf16', shape) for i, shape in enumerate(shapes)]
    body = []
    for i, shape in enumerate(shapes):
        axes = list(range(len(shape)))
        body += [f'f{i} = cast(x{i}, dtype=f32)', f'a{i}, v{i} = moments(f{i}, axes={axes})', f'd{i} = sqrt(v{i})',
                 f'most{i} = amax(abs(f{i}))', f'output a{i}', f'output d{i}', f'output most{i}']
    return fusion(name, inputs, body)


def pyramid(name, sides, channels, groups, images):
    inputs = [x for i, side in enumerate(sides)
              for x in ((f'x{i}', 'bf16', (images, channels, side, side)), (f'w{i}', 'f32', (channels,)),
                        (f'b{i}', 'f32', (channels,)))]
    body = []
    for i, side in enumerate(sides):
        body += [f'r{i} = reshape(cast(x{i}, dtype=f32), sizes=[{images}, {groups}, {channels // groups}, {side}, {side}])',
                 f'a{i}, v{i} = moments(r{i}, axes=[2, 3, 4], keepdims=true)',
                 f'n{i} = reshape((r{i} - a{i}) * rsqrt(v{i} + 1e-5), sizes=[{images}, {channels}, {side}, {side}])',
                 f'y{i} = n{i} * broadcast(w{i}, axes=[0, 2, 3]) + broadcast(b{i}, axes=[0, 2, 3])',
                 f'o{i} = cast(relu(y{i}), dtype=bf16)', f'output o{i}']
    return fusion(name, inputs, body)


def rows(name, tensors):
    """RMS norms of the rows of several tensors, each with its weights."""
    inputs = [x for i, shape in enumerate(tensors) for x in ((f'x{i}', 'bf16', shape), (f'w{i}', 'bf16', shape[-1:]))]
    body = []
    for i, shape in enumerate(tensors):
        last = len(shape) - 1
        body += [f'f{i} = cast(x{i}, dtype=f32)', f'm{i} = mean(f{i} * f{i}, axes=[{last}], keepdims=true)',
                 f'o{i} = cast(f{i} * rsqrt(m{i} + 1e-6) * cast(w{i}, dtype=f32), dtype=bf16)', f'output o{i}']
    return fusion(name, inputs, body)


def graphs():
    for tensors in (8, 24, 60, 120):
        for elements in (65536, 1 << 20):
            name = f'norm_{tensors}_of_{elements}'
            yield name, norm(name, [(elements,)] * tensors), {}
    yield 'norm_120_of_1000', norm('norm_120_of_1000', [(1000,)] * 120), {}
    vit, llm = block(768, 3072) * 4, [(4096, 4096)] * 2 + [(11008, 2048)] * 2 + [(4096,)] * 4 + [(4096, 1024)] * 2
    yield 'norm_vit_bf16', norm('norm_vit_bf16', vit, 'bf16'), {}
    yield 'norm_llm', norm('norm_llm', llm), {}
    yield 'clip_small', norm('clip_small', small(), clip=True), {}
    yield 'clip_two_blocks_384_bf16', norm('clip_two_blocks_384_bf16', block(384, 1536) * 2, 'bf16', clip=True), {}
    yield 'clip_block_768', norm('clip_block_768', block(768, 3072), clip=True), {}
    yield 'lamb_mixed', lamb('lamb_mixed', mixed()), {}
    yield 'lamb_block_512', lamb('lamb_block_512', block(512, 2048)), {}
    yield 'lars_block_512', lars('lars_block_512', block(512, 2048)), {}
    yield 'standardised_small', standardised('standardised_small', small(), 'f32'), {}
    yield 'standardised_block_384_bf16', standardised('standardised_block_384_bf16', block(384, 1536), 'bf16'), {}
    yield 'log_small', log('log_small', small()[:40]), {}
    yield 'pyramid_group_norm', pyramid('pyramid_group_norm', (50, 25, 13, 7, 4), 256, 32, 2), {}
    yield 'pyramid_group_norm_large', pyramid('pyramid_group_norm_large', (100, 50, 25, 13, 7), 256, 32, 2), {}
    yield 'q_and_k_norm', rows('q_and_k_norm', [(512, 32, 128), (512, 8, 128)]), {}
    yield 'q_and_k_norm_one_token', rows('q_and_k_norm_one_token', [(16, 32, 128), (16, 8, 128)]), {}
    yield 'norms_of_four_towers', rows('norms_of_four_towers', [(256, 1024), (77, 768), (196, 1152), (50, 640)]), {}


if __name__ == '__main__':
    sys.exit(time_cases(__doc__, graphs()))

#!/usr/bin/env python3
"""Times kernels whose tensors lie across each other in memory, each beside a copy kernel of the same bytes.

usage: benchmarks/transposed.py [--only PATTERN] [--json FILE] [--repetitions N] [--write DIR]

Transposes with something computed beside them, and norms that read images with the channels in front and write them
last, or the other way around, as ConvNeXt and attention over images have them. A line a case: the fraction of the copy
kernel's speed, microseconds, the number of kernels. --write only writes the graphs to a folder. The tool is
build/tools/seam, or what SEAM names.
"""
import argparse
import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

NORM = 'y, mean, rstd = layer_norm({x}, w, b, axes=[3])'
TO_LAST, TO_FRONT = 'axes=[0, 2, 3, 1]', 'axes=[0, 3, 1, 2]'
IMAGE, LAST = 'x: T[B, C, H, W]', 'x: T[B, H, W, C]'
WEIGHTS = ['w: f32[C]', 'b: f32[C]']


def cases():
    """Name, inputs, statements, outputs, sizes; T is the element type of most."""
    def images(c, side, b=32):
        return dict(B=b, C=c, H=side, W=side)
    yield ('product', ['x: T[N, M]', 'y: T[M, N]'], 'z = permute(x + 1.0, axes=[1, 0]) * y', ['z'],
           dict(N=8192, M=8192))
    yield ('product_odd', ['x: T[N, M]', 'y: T[M, N]'], 'z = permute(x + 1.0, axes=[1, 0]) * y', ['z'],
           dict(N=4099, M=5003))
    yield 'sum_with_own', ['x: T[N, N]'], 'y = x + permute(x, axes=[1, 0])', ['y'], dict(N=8192)
    yield ('to_channels_last', [IMAGE, 's: T[C]'], f'z = permute(x, {TO_LAST}) * s', ['z'], images(256, 56, 64))
    yield 'to_channels_front', [LAST], f'z = relu(permute(x, {TO_FRONT}))', ['z'], images(256, 56, 64)
    yield '7x7_to_channels_last', [IMAGE], f'z = relu(permute(x, {TO_LAST}))', ['z'], images(2048, 7, 256)
    yield '7x7_to_channels_front', [LAST], f'z = relu(permute(x, {TO_FRONT}))', ['z'], images(2048, 7, 256)
    yield ('keys', ['x: T[B, S, H, D]'], 'z = permute(x, axes=[0, 2, 3, 1]) * 0.125', ['z'],
           dict(B=8, S=4096, H=16, D=128))
    yield ('position_added', [IMAGE, 'p: T[H, W, C]'], f'y = permute(x, {TO_LAST}) + p', ['y'], images(192, 56, 64))
    yield ('pixel_shuffle', [IMAGE], 'r = reshape(x, sizes=[B, 64, 2, 2, H, W])\n'
           'p = permute(r, axes=[0, 1, 4, 2, 5, 3])\ny = relu(reshape(p, sizes=[B, 64, 2*H, 2*W]))', ['y'],
           images(256, 64, 16))
    for c, side in ((96, 56), (192, 56), (384, 28), (1024, 28), (768, 14), (2048, 14), (768, 7)):
        size = images(c, side, {56: 32, 28: 64, 14: 64, 7: 256}[side])
        yield (f'layer_norm_to_last_{c}x{side}x{side}', [IMAGE, *WEIGHTS],
               f'p = permute(x, {TO_LAST})\n' + NORM.format(x='p'), ['y'], size)
        yield (f'layer_norm_to_front_{c}x{side}x{side}', [LAST, *WEIGHTS],
               NORM.format(x='x') + f'\nz = permute(y, {TO_FRONT})', ['z'], size)
    yield ('layer_norm_backward_to_front', ['grad: T[B, H, W, C]', IMAGE, 'mean: f32[B, H, W]', 'rstd: f32[B, H, W]',
                                            'w: f32[C]'],
           f'p = permute(x, {TO_LAST})\ndp, dw, db = layer_norm_backward(grad, p, mean, rstd, w, axes=[3])\n'
           f'dx = permute(dp, {TO_FRONT})', ['dx'], images(192, 56))
    yield ('softmax_transposed', ['x: T[M, N]'], 'y = softmax(x, axis=1)\nz = permute(y, axes=[1, 0])', ['z'],
           dict(M=32768, N=1024))
    yield ('softmax_backward_transposed', ['g: T[B, N, M]', 'y: T[B, M, N]'],
           'dx = softmax_backward(permute(g, axes=[0, 2, 1]), y, axis=2)', ['dx'], dict(B=16, M=1024, N=1024))
    yield ('instance_norm_to_last', [IMAGE], f'y, m, r = instance_norm(x)\nz = permute(y, {TO_LAST})', ['z'],
           images(128, 32))
    yield ('batch_norm_to_last', [IMAGE, *WEIGHTS], f'y, m, r = batch_norm(x, w, b)\nz = permute(y, {TO_LAST})',
           ['z', 'm', 'r'], images(256, 56))
    yield ('group_norm_to_last', [IMAGE, *WEIGHTS],
           f'y, m, r = group_norm(x, w, b, groups=32)\nz = permute(y, {TO_LAST})', ['z'], images(512, 32, 16))
    yield ('bias_gradient', ['grad: T[B, C, S]'],
           'p = permute(grad, axes=[0, 2, 1])\nq = p * 2.0\ndb = sum(cast(q, dtype=f32), axes=[0, 1])', ['q', 'db'],
           dict(B=32, C=768, S=1024))


def graph(name, dtype, inputs, body, outputs, sizes, values=' in [1, 65536]'):
    """Its text; `values` is what follows each symbol."""
    lines = [f'symbol {s}{values}' for s in sizes]
    lines += ['input ' + re.sub(r'\bT\b', dtype, i) for i in inputs]
    lines += body.split('\n') + [f'output {o}' for o in outputs]
    return f'fusion t_{name} {{\n  ' + '\n  '.join(lines) + '\n}\n'


def bench(file, sizes, repetitions):
    """The row of a case, or what the tool said."""
    result = file.with_suffix('.json')
    setting = ','.join(f'{s}={n}' for s, n in sizes.items())
    command = [os.environ.get('SEAM', 'build/tools/seam'), 'bench', str(file), '--repetitions', str(repetitions)]
    done = subprocess.run(command + ['--json', str(result)] + (['--set', setting] if setting else []),
                          capture_output=True, text=True)
    said = (done.stdout + done.stderr).strip().splitlines()
    found = re.search(r'([\d.]+)% of the copy.*; (\d+) kernel', done.stdout)
    time = re.search(r'graph +median +([\d.]+) us', done.stdout)
    if done.returncode != 0 or not found or not time:
        return dict(case=file.stem, sizes=setting, error=said[-1] if said else f'exit code {done.returncode}')
    return dict(case=file.stem, sizes=setting, fraction=float(found[1]) / 100, us=float(time[1]), kernels=int(found[2]))


def bench_all(timed, repetitions, json_file):
    """Times graphs in files, each with its sizes, prints a line each, and writes their rows. The exit code."""
    rows = []
    for file, sizes in timed:
        row = bench(file, sizes, repetitions)
        rows.append(row)
        print(f'{row["case"]:40} {row["sizes"]:40}',
              row.get('error') or f'{row["fraction"]:.2f} {row["us"]:9.2f} us, {row["kernels"]} kernels', flush=True)
    if json_file:
        pathlib.Path(json_file).write_text(json.dumps(rows, indent=1) + '\n')
    return 1 if any('error' in row for row in rows) else 0


def time_cases(description, graphs):
    """The command line of a file of graphs, each (name, text, sizes): times them, or writes them. The exit code."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--only', metavar='PATTERN', default='*', help='cases whose name matches')
    parser.add_argument('--json', metavar='FILE', help='write the rows to this file as well')
    parser.add_argument('--repetitions', type=int, default=3, metavar='N', help='timed repetitions of many calls each')
    parser.add_argument('--write', metavar='DIR', help='write the graphs to this folder, and time nothing')
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        into = pathlib.Path(options.write or folder)
        into.mkdir(parents=True, exist_ok=True)
        timed = []
        for name, text, sizes in graphs:
            if fnmatch.fnmatch(name, options.only):
                file = into / f'{name}.seam'
                file.write_text(text)
                timed.append((file, sizes))
        return 0 if options.write else bench_all(timed, options.repetitions, options.json)


def main():
    return time_cases(__doc__, ((f'{name}_{dtype}', graph(name, dtype, inputs, body, outputs, sizes), sizes)
                                for dtype in ('bf16', 'f32') for name, inputs, body, outputs, sizes in cases()))


if __name__ == '__main__':
    sys.exit(main())

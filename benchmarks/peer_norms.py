#!/usr/bin/env python3
"""Times PyTorch on the normalizations of norm_bench, eager and compiled, and adds the figures to a file of norm_bench's.

usage: benchmarks/peer_norms.py FILE.json [--seconds 240] [--columns 1024,4096] [--ops softmax] [--dtypes bf16] [--impls torch]

FILE is what `norm_bench --json` wrote on the same machine just before; operations, types, sizes and least bytes are its
own, and so is the memcpy that fractions refer to. Each of its rows is timed as `torch` (eager), `torch_compile` and
`torch_compile_max` (max-autotune, without CUDA graphs, which would hide what kernels cost); what does not fit into the
seconds is left out and said. What the file has of PyTorch already stays but where it is timed again, and each figure is
written when it is there. Needs PyTorch with CUDA.
"""
import argparse
import json
import sys
import time

import torch
import torch.nn.functional as F

DTYPES = {'bf16': torch.bfloat16, 'f16': torch.float16, 'f32': torch.float32}
FORWARD = {
    'layer_norm': lambda x, w, b: F.layer_norm(x, (x.shape[-1],), w, b, 1e-5),
    'rms_norm': lambda x, w, b: F.rms_norm(x, (x.shape[-1],), w, 1e-6),
    'softmax': lambda x, w, b: torch.softmax(x, -1),
}
WEIGHTS = {'layer_norm': 2, 'rms_norm': 1, 'softmax': 0}
COMPILED = {'torch': None, 'torch_compile': 'default', 'torch_compile_max': 'max-autotune-no-cudagraphs'}


def milliseconds(call, calls=8, repetitions=7):
    """Median of `repetitions` times of `calls` back-to-back calls, as norm_bench takes it."""
    for _ in range(calls):
        call()
    times = []
    for _ in range(repetitions):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(calls):
            call()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop) / calls)
    return sorted(times)[repetitions // 2]


def call_of(op, dtype, rows, columns, mode):
    """What is timed: the operation's forward or backward pass at this size."""
    name = op.removesuffix('_backward')
    function = FORWARD[name] if mode is None else torch.compile(FORWARD[name], dynamic=False, mode=mode)
    x = torch.randn(rows, columns, device='cuda', dtype=dtype)
    w, b = (torch.randn(columns, device='cuda', dtype=dtype) for _ in range(2))
    if op == name:
        def forward():
            with torch.no_grad():
                function(x, w, b)
        return forward
    gradient = torch.randn_like(x)
    wanted = [x] + [w, b][:WEIGHTS[name]]
    for tensor in wanted:
        tensor.requires_grad_(True)
    y = function(x, w, b)
    return lambda: torch.autograd.grad(y, wanted, gradient, retain_graph=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('file')
    parser.add_argument('--seconds', type=float, default=240)
    for name in ('columns', 'ops', 'dtypes', 'impls'):
        parser.add_argument(f'--{name}', type=lambda text: text.split(','))
    options = parser.parse_args()
    with open(options.file, encoding='utf-8') as file:
        figures = json.load(file)
    ours = [row for row in figures['rows'] if row.get('impl', 'seam') == 'seam']
    figures['torch'] = torch.__version__
    begin, left_out = time.time(), 0
    for row in ours:
        columns, op, dtype = row['columns'], row['op'], row['dtype']
        if (options.columns and str(columns) not in options.columns) or (options.ops and op not in options.ops) \
                or (options.dtypes and dtype not in options.dtypes):
            continue
        if op.removesuffix('_backward') not in FORWARD or dtype not in DTYPES:
            continue
        least_bytes = row['gb_per_s'] * row['ms'] * 1e6
        for impl, mode in COMPILED.items():
            if options.impls and impl not in options.impls:
                continue
            if time.time() - begin > options.seconds:
                left_out += 1
                continue
            torch._dynamo.reset()
            try:
                ms = milliseconds(call_of(op, DTYPES[dtype], figures['elements'] // columns, columns, mode))
            except Exception as error:  # A peer that cannot run is a finding, not a failure of the benchmark.
                print(f'{op} {dtype} {columns} {impl}: {str(error).splitlines()[0][:160]}', file=sys.stderr)
                continue
            finally:
                torch.cuda.empty_cache()
            rate = least_bytes / ms * 1e-6
            fraction = rate / figures['memcpy_gb_per_s']
            case = {'impl': impl, 'op': op, 'dtype': dtype, 'columns': columns}
            figures['rows'] = [row for row in figures['rows'] if not case.items() <= row.items()]
            figures['rows'].append(case | {'ms': round(ms, 5), 'gb_per_s': round(rate), 'fraction': round(fraction, 4)})
            print(f'{op:20} {dtype:5} {columns:7} {impl:18} {ms:9.4f} ms {fraction:6.3f}', flush=True)
            with open(options.file, 'w', encoding='utf-8') as file:
                json.dump(figures, file, indent=0)
    if left_out:
        print(f'{left_out} figures left out: {options.seconds:g} s are over', file=sys.stderr)


main()

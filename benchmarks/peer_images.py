#!/usr/bin/env python3
"""Times PyTorch on the normalizations of image_norms.py, eager and compiled, and adds the figures to a file of its.

usage: benchmarks/peer_images.py FILE.json [--only PATTERN] [--seconds 240] [--impls torch,torch_compile]

FILE is what `image_norms.py --json` wrote on the same machine just before; cases, least bytes and the copy kernel's time are
its own. Calls run in a CUDA graph, so that what the host takes is not counted, each on other memory than the one before, in
turn through more than the L2 cache holds. PyTorch is timed with f32 weights where it takes them beside bf16 images, else
with bf16 ones; what does not fit into the seconds is left out and said. Needs PyTorch with CUDA.
"""
import argparse
import fnmatch
import json
import sys
import time

import torch
import torch.nn.functional as F

from image_norms import GROUPS, all_cases

DTYPES = {'bf16': torch.bfloat16, 'f32': torch.float32}
FORWARD = {
    'batch_norm': lambda x, w, b, mean, var: F.batch_norm(x, mean, var, w, b, True),
    'instance_norm': lambda x, w, b, mean, var: F.instance_norm(x, None, None, w, b),
    'group_norm': lambda x, w, b, mean, var: F.group_norm(x, GROUPS, w, b),
}
SET_BYTES = 256 << 20  # Of the tensors that calls take in turn: several times an L2 cache.


def microseconds(calls, stream, repetitions=7):
    """Median time of one of `calls`, all of them in a graph. They were made on that stream, where a backward pass runs."""
    for call in calls:
        call()
    torch.cuda.synchronize()
    graph, held = torch.cuda.CUDAGraph(), []
    with torch.cuda.graph(graph, stream=stream):
        for call in calls:
            held.append(call())  # Results stay, so that each call writes memory of its own.
    times = []
    for _ in range(repetitions + 1):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop) * 1000 / len(calls))
    return sorted(times[1:])[repetitions // 2]


def calls_of(case, mode, weight_dtype):
    """As many calls as have SET_BYTES of tensors, at least four."""
    function = FORWARD[case.op] if mode is None else torch.compile(FORWARD[case.op], dynamic=False, mode=mode)
    n, c, h, w = (case.size[symbol] for symbol in 'NCHW')
    dtype = DTYPES[case.dtype]
    layout = torch.channels_last if case.layout == 'nhwc' else torch.contiguous_format
    generator = torch.Generator('cuda')  # Not the default one, which captures concern.
    weight, bias = (torch.ones(c, device='cuda', dtype=weight_dtype).requires_grad_(case.backward) for _ in range(2))
    mean, var = torch.zeros(c, device='cuda'), torch.ones(c, device='cuda')
    calls = []
    for _ in range(max(4, -(-SET_BYTES // case.least_bytes()))):
        x = torch.empty(n, c, h, w, device='cuda', dtype=dtype, memory_format=layout).normal_(generator=generator)
        if not case.backward:
            calls.append(lambda x=x: function(x, weight, bias, mean, var))
            continue
        grad = torch.empty_like(x).normal_(generator=generator)
        y = function(x.requires_grad_(True), weight, bias, mean, var)
        calls.append(lambda x=x, y=y, grad=grad: torch.autograd.grad(y, (x, weight, bias), grad, retain_graph=True))
    return calls


def time_case(case, impl):
    mode = {'torch': None, 'torch_compile': 'default', 'torch_compile_max': 'max-autotune-no-cudagraphs'}[impl]
    for weight_dtype in dict.fromkeys((torch.float32, DTYPES[case.dtype])):
        torch._dynamo.reset()
        stream = torch.cuda.Stream()
        try:
            with torch.cuda.stream(stream), torch.set_grad_enabled(case.backward):
                return microseconds(calls_of(case, mode, weight_dtype), stream)
        except Exception as error:  # A peer that cannot run is a finding, not a failure of the benchmark.
            said = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        finally:
            torch.cuda.empty_cache()
    print(f'{case.name:46} {impl}: {said}', file=sys.stderr)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('file')
    parser.add_argument('--only', metavar='PATTERN', default='*', help='cases whose name has this in it')
    parser.add_argument('--seconds', type=float, default=240)
    parser.add_argument('--impls', type=lambda text: text.split(','), default=['torch', 'torch_compile'])
    options = parser.parse_args()
    with open(options.file, encoding='utf-8') as file:
        rows = json.load(file)
    cases = {case.name: case for case in all_cases()}
    begin, left_out, behind = time.time(), 0, 0
    for impl in options.impls:
        for row in rows:
            if 'error' in row or not fnmatch.fnmatch(row['case'], f'*{options.only}*'):
                continue
            if time.time() - begin > options.seconds:
                left_out += 1
                continue
            us = time_case(cases[row['case']], impl)
            if us is None:
                continue
            row[impl] = {'us': round(us, 2), 'fraction': round(row['copy_us'] / us, 4)}
            behind += row['us'] > us
            print(f'{row["case"]:46} {impl:18} {us:9.1f} us  {row[impl]["fraction"]:6.3f}   seam {row["us"]:9.1f} us'
                  f'{"  BEHIND" if row["us"] > us else ""}', flush=True)
    if left_out:
        print(f'{left_out} figures left out: {options.seconds:g} s are over', file=sys.stderr)
    print(f'behind in {behind}')
    with open(options.file, 'w', encoding='utf-8') as file:
        json.dump(rows, file, indent=1)
        file.write('\n')


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
"""Times batch, instance and group norm over images beside the least memory traffic that their sizes allow.

usage: benchmarks/image_norms.py [--only PATTERN] [--json FILE] [--repetitions N] [--dry-run]

Batch and instance norm at ResNet-50's shapes, group norm at those of a diffusion U-Net; forward and backward, NCHW and
NHWC, bf16 and f32. A line a case:

  passes    how often the big tensors must cross the memory's bus at the least, each read or write of one is one:
            forward 2 or 3, backward 3 or 5; see `home`
  home      where the data of one reduction stay between its statistics and what is computed with them: in a `cta`,
            in a `cluster` of 16, on the `chip` together with all others, or nowhere (`memory`: they are read twice).
            With the channels last a reduction shares 32-byte sectors with its neighbours, and these stay together.
  fraction  the copy kernel's time for that traffic, from the same run, over the time of the graph
  kernels   of which one that finishes what its CTAs left in parts may be launched once more for each further phase

--dry-run needs no GPU. It compiles, and prints of each kernel its schedule, registers, spills and CTAs, how many
statements of it read and write each big tensor, and how many bytes an SM has under way while it loads.
The tool is build/tools/seam, or what SEAM names. A case that fails says so, and the others go on.
"""
import argparse
import concurrent.futures
import fnmatch
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

RESNET = [dict(N=64, C=c, H=s, W=s) for c, s in ((64, 112), (256, 56), (512, 28), (1024, 14), (2048, 7))]
UNET = [dict(N=16, C=c, H=s, W=s) for c, s in ((320, 64), (640, 32), (1280, 16), (1280, 8))]
OPS = {'batch_norm': RESNET, 'instance_norm': RESNET, 'group_norm': UNET}
GROUPS = 32
BYTES = {'bf16': 2, 'f32': 4}

# Of an H200: SMs, and the bytes that each can keep in its shared memory. A row that registers alone hold fits it too.
SMS, SM_BYTES, CLUSTER, SECTOR = 132, 224 * 1024, 16, 32


class Case:
    """An operation, direction, layout, dtype and size."""

    def __init__(self, op, backward, layout, dtype, size):
        self.op, self.backward, self.layout, self.dtype, self.size = op, backward, layout, dtype, size
        shape = '{C}x{H}x{W}'.format(**size)
        self.name = f'{op}{"_backward" if backward else ""}/{layout}/{dtype}/{shape}'

    def settings(self):
        size = dict(self.size)
        if self.op == 'group_norm':
            size['K'] = size.pop('C') // GROUPS
        return ','.join(f'{symbol}={value}' for symbol, value in size.items())

    def text(self):
        """The graph. Parameters and statistics are f32, as in mixed-precision training."""
        groups = self.op == 'group_norm'
        channels, symbol = (f'{GROUPS}*K', 'K') if groups else ('C', 'C')
        order = ' order [0, 2, 3, 1]' if self.layout == 'nhwc' else ''
        image = f'{self.dtype}[N, {channels}, H, W]{order}'
        statistics = {'batch_norm': 'C', 'instance_norm': 'N, C', 'group_norm': f'N, {GROUPS}'}[self.op]
        of_group = f', groups={GROUPS}' if groups else ''
        lines = [f'symbol {s} in [1, 8192]' for s in ('N', symbol, 'H', 'W')] + [f'input x: {image}']
        if self.backward:
            lines += [f'input grad: {image}', f'input mean: f32[{statistics}]', f'input rstd: f32[{statistics}]',
                      f'input weight: f32[{channels}]',
                      f'dx, dweight, dbias = {self.op}_backward(grad, x, mean, rstd, weight{of_group})',
                      f'output dx{order}', 'output dweight', 'output dbias']
        else:
            lines += [f'input weight: f32[{channels}]', f'input bias: f32[{channels}]']
            running = ''
            if self.op == 'batch_norm':
                lines += ['input running_mean: f32[C]', 'input running_var: f32[C]']
                running = ', running_mean, running_var'
            more = ', new_mean, new_var' if running else ''
            lines += [f'y, mean, rstd{more} = {self.op}(x, weight, bias{running}{of_group})', f'output y{order}']
            lines += [f'output {name}' for name in ('mean, rstd' + more).split(', ')]
        name = re.sub(r'\W', '_', self.name)
        return f'fusion {name} {{\n  ' + '\n  '.join(lines) + '\n}\n'

    def elements(self):
        return math.prod(self.size.values())

    def home(self):
        """Where the data of a reduction can stay, all tensors that are read twice together."""
        n, c, h, w = (self.size[symbol] for symbol in 'NCHW')
        width = BYTES[self.dtype]
        images = n if self.op == 'batch_norm' else 1
        channels = c // GROUPS if self.op == 'group_norm' else 1
        if self.layout == 'nhwc':  # Whole sectors of whole groups.
            channels = min(c, math.lcm(channels, SECTOR // width))
        tensors = 2 if self.backward else 1
        together = tensors * width * images * channels * h * w
        if together <= SM_BYTES:
            return 'cta'
        if together <= CLUSTER * SM_BYTES:
            return 'cluster'
        return 'chip' if tensors * width * self.elements() <= SMS * SM_BYTES else 'memory'

    def passes(self):
        read = 2 if self.backward else 1
        return read * (2 if self.home() == 'memory' else 1) + 1

    def least_bytes(self):
        return self.passes() * self.elements() * BYTES[self.dtype]


def all_cases():
    for op, sizes in OPS.items():
        for backward in (False, True):
            for layout in ('nchw', 'nhwc'):
                for dtype in BYTES:
                    for size in sizes:
                        yield Case(op, backward, layout, dtype, size)


def seam(arguments):
    """Runs the tool; returns an error message, or None."""
    done = subprocess.run([os.environ.get('SEAM', 'build/tools/seam'), *arguments], capture_output=True, text=True)
    if done.returncode == 0:
        return None
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return said[-1] if said else f'the tool ended with {done.returncode}'


def compile_case(case, folder):
    """Compiles into a folder of the case's own; returns the folder and an error message or None."""
    into = pathlib.Path(folder) / re.sub(r'\W', '_', case.name)
    into.mkdir()
    graph = into / 'graph.seam'
    graph.write_text(case.text())
    return into, seam(['compile', str(graph), '--set', case.settings(), '--arch', 'sm_90a', '-o', str(into)])


def kernel_line(case, folder, group, kernel):
    """What a kernel does to the big tensors, read off its text."""
    text = (folder / kernel['kernel_ir']).read_text()
    known = dict(case.size, K=case.size['C'] // GROUPS)

    def value(expression):
        names = {name: known[name.split('_by')[0]] // int(name.split('_by')[1]) if '_by' in name else known[name]
                 for name in set(re.findall(r'[A-Za-z]\w*', expression)) - {'max', 'min'}}
        return eval(expression, {'max': max, 'min': min}, names)

    ctas = value(re.search(r'grid (.*) \(block\)', text)[1])
    big = [name for name, extent in re.findall(r'buffer (\w+): \w+\[(.*)\] align', text)
           if value(extent) >= case.elements()]
    accesses = []
    for name in big:
        # Copies and threads that bring rows start with the first ones, then with the next ones, each once.
        reads = (len(re.findall(rf'= load {name}\[', text)) +
                 bool(re.search(rf'(copy|begin load) .* = {name}\[', text)))
        writes = len(re.findall(rf'store {name}\[', text))
        accesses.append(f'{name} {f"{reads}r" if reads else ""}{f"{writes}w" if writes else ""}')
    spills = kernel['spill_store_bytes'] + kernel['spill_load_bytes']
    per_sm = min(65536 // (max(24, kernel['registers']) * kernel['threads']), 2048 // kernel['threads'],
                 233472 // (kernel['smem_bytes'] + 1024), -(-ctas // SMS))
    vectors = [int(n) for n in re.findall(r'threads a row x (\d+) vectors', group['schedule'])]
    vector = [int(n) for n in re.findall(r'vector (\d+)', group['schedule'])]
    inputs = max(1, sum('r' in a.split()[-1] for a in accesses))
    in_flight = per_sm * kernel['threads'] * BYTES[case.dtype] * (vectors or [1])[0] * (vector or [1])[0] * inputs
    return {'schedule': group['schedule'], 'registers': kernel['registers'], 'spill_bytes': spills, 'ctas': ctas,
            'ctas_per_sm': per_sm, 'kib_under_way': in_flight / 1024, 'accesses': ', '.join(accesses)}


def dry_row(case, folder, error):
    row = {'case': case.name, 'passes': case.passes(), 'home': case.home()}
    print(f'{case.name}: least {row["passes"]} passes, {row["home"]}')
    if error:
        print('  failed:', error)
        return dict(row, error=error)
    report = json.loads((folder / 'report.json').read_text())
    row['kernels'] = [kernel_line(case, folder, group, kernel)
                      for group in report['groups'] for kernel in group['kernels']]
    for k in row['kernels']:
        print(f'  {k["schedule"]}\n    {k["registers"]} registers, {k["spill_bytes"]} bytes spilled, {k["ctas"]} CTAs, '
              f'{k["ctas_per_sm"]} an SM, {k["kib_under_way"]:.0f} KiB under way; {k["accesses"]}')
    return row


def timed_row(case, folder, error, repetitions):
    row = {'case': case.name, 'passes': case.passes(), 'home': case.home(), 'least_bytes': case.least_bytes()}
    figures = folder / 'bench.json'
    error = error or seam(['bench', str(folder / 'graph.seam'), '--set', case.settings(), '--repetitions',
                           str(repetitions), '--json', str(figures)])
    if error:
        print(f'{case.name:46} failed: {error}', flush=True)
        return dict(row, error=error)
    bench = json.loads(figures.read_text())
    copy_us = bench['copy']['median_us'] * case.least_bytes() / bench['bytes']
    row.update(us=bench['median_us'], copy_us=copy_us, fraction=copy_us / bench['median_us'], kernels=bench['kernels'])
    print(f'{case.name:46} {row["us"]:9.1f} {row["least_bytes"] / 1e6:9.1f} {row["passes"]:6} {row["home"]:>8} '
          f'{row["fraction"]:8.2f} {row["kernels"]:7}', flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--only', metavar='PATTERN', default='*',
                        help='cases whose name has this in it; * stands for anything')
    parser.add_argument('--json', metavar='FILE', help='write the rows to this file as well')
    parser.add_argument('--repetitions', type=int, default=3, metavar='N', help='timed repetitions of many calls each')
    parser.add_argument('--dry-run', action='store_true', help='compile and report; no GPU')
    options = parser.parse_args()
    cases = [case for case in all_cases() if fnmatch.fnmatch(case.name, f'*{options.only}*')]
    if not cases:
        sys.exit(f'no case has {options.only} in its name')
    if not options.dry_run:
        print(f'{"case":46} {"us":>9} {"MB":>9} {"passes":>6} {"home":>8} {"fraction":>8} {"kernels":>7}')
    rows = []
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        # All kernels first, on all cores: the timed runs find them in the cache.
        compiled = [pool.submit(compile_case, case, folder) for case in cases]
        if not options.dry_run:
            concurrent.futures.wait(compiled)
        for case, made in zip(cases, compiled):
            row = (dry_row(case, *made.result()) if options.dry_run else
                   timed_row(case, *made.result(), options.repetitions))
            rows.append(row)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + '\n')
    failed = sum('error' in row for row in rows)
    print(f'{len(rows)} cases, {failed} failed')
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()

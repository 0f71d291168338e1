#!/usr/bin/env python3
"""Holds Seam's normalizations, run by the `seam` command, against PyTorch in double precision.

usage: benchmarks/norm_accuracy.py [--parts accuracy,repeat,spills,sanitizers] [--backend cuda] [--json FILE]

accuracy    forward and backward passes of six normalizations in three types, on rows of 1 to 1,000,000 elements:
            random ones, with a mean of 10,000 and a deviation of 1, with NaN and infinities in single rows, and with
            every tensor one element behind an aligned address
repeat      the same kernels 100 times more: the same bits every time
spills      which kernels spill registers; needs NVRTC and no GPU
sanitizers  small cases under compute-sanitizer's memcheck, racecheck, synccheck and initcheck

docs/testing.md says what counts as right. Exits with 1 if anything does not. Needs Python 3.9; accuracy needs PyTorch,
which also says how far its own kernels are off on the same device. `--backend simulator` (or reference) is for a
machine without a GPU, with fewer and smaller cases. `--only REGEX` picks cases by name, `--keep FOLDER` leaves their
graphs and inputs there and prints the commands.
"""
import argparse
import collections
import concurrent.futures
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zlib

EPS = 1e-5
FLOATS = {'f32': 24, 'f16': 11, 'bf16': 8}  # Bits of the significand.
LOWEST = {'f32': -149, 'f16': -24, 'bf16': -133}  # Exponent of the smallest number.
ROW_OPS = ('layer_norm', 'rms_norm', 'softmax')
CHANNEL_OPS = ('batch_norm', 'instance_norm', 'group_norm')
LENGTHS = (1, 7, 256, 1000, 1002, 1024, 1064, 4096, 4098, 4099, 5003, 6200, 6381, 8192, 10007, 12888, 16384, 20001, 32768,
           50257, 65536, 131072, 151643, 262144, 1000000)
IMAGES = ((2, 6, 5, 7), (1, 64, 128, 128), (8, 32, 31, 33), (4, 64, 28, 28), (32, 128, 7, 7), (64, 16, 16, 16))
LONG_CHANNELS = (64, 10, 112, 112)  # Of a batch norm: only a cluster of 16 holds one, with room for little else.
GROUPS = {6: 3, 10: 5, 16: 4, 32: 8, 64: 8, 128: 32}
STATE = ('mean', 'rstd')  # f32, whatever the type of the data.

Case = collections.namedtuple('Case', 'op dtype shape layout data offset')


def name_of(case):
    parts = [case.op, case.dtype, 'x'.join(map(str, case.shape)), case.data]
    return '/'.join(parts + ([case.layout] if case.layout != 'rows' else []) + (['offset'] if case.offset else []))


# --- Cases ---

def many_rows(length, elements):
    """Rows enough for CTAs that take several in turn."""
    return min(16384, max(40, elements // length))


def all_cases(backend):
    gpu = backend == 'cuda'
    cases = []
    for base in ROW_OPS:
        for op in (base, base + '_backward'):
            for dtype in FLOATS:
                for length in LENGTHS if gpu else (1, 7, 256, 1000, 1024, 4099):
                    def add(rows, data, offset=0):
                        cases.append(Case(op, dtype, (rows, length), 'rows', data, offset))
                    add(1, 'normal')
                    add(3, 'shifted')
                    if not gpu:
                        add(9, 'special')
                        add(13, 'normal', 1)
                        continue
                    if length == 1000000:
                        continue
                    if length <= 16384:
                        add(133, 'special')
                        add(133, 'normal', 1)
                    elif length <= 65536:
                        add(21, 'special')
                    add(many_rows(length, 1 << 22), 'normal')
    for base in CHANNEL_OPS:
        for op in (base, base + '_backward'):
            for dtype in FLOATS:
                for i, shape in enumerate(IMAGES if gpu else IMAGES[:1]):
                    for layout in ('nchw', 'nhwc'):
                        cases.append(Case(op, dtype, shape, layout, 'normal', 0))
                    if i == 0:
                        cases.append(Case(op, dtype, shape, 'nchw', 'special', 0))
                        cases.append(Case(op, dtype, shape, 'nchw', 'normal', 1))
                    if i in (0, 3):
                        cases.append(Case(op, dtype, shape, 'nchw', 'shifted', 0))
                if gpu and base == 'batch_norm':
                    for data in ('normal', 'shifted'):
                        cases.append(Case(op, dtype, LONG_CHANNELS, 'nchw', data, 0))
    return cases


def small_cases():
    """For compute-sanitizer, which takes a hundred times as long."""
    cases = []
    for dtype in FLOATS:
        for base in ROW_OPS:
            for op in (base, base + '_backward'):
                cases += [Case(op, dtype, shape, 'rows', 'normal', 0)
                          for shape in ((3, 1), (9, 7), (300, 256), (300, 1064), (5, 1000), (3, 4099), (1, 16384),
                                        (2, 32768), (40, 20001))]
        for base in CHANNEL_OPS:
            for op in (base, base + '_backward'):
                cases += [Case(op, dtype, IMAGES[0], layout, 'normal', 0) for layout in ('nchw', 'nhwc')]
    # Rows in slices, in several turns.
    cases += [Case(f'{base}_norm_backward', 'f32', (9, 262144), 'rows', 'normal', 0) for base in ('layer', 'rms')]
    return cases


# --- Graphs: the cases of a batch side by side, independent of each other ---

def statements(case, k):
    """The lines of case number k, the names of its inputs and outputs, and its sizes."""
    base, backward = case.op.removesuffix('_backward'), case.op.endswith('_backward')
    sizes = {}
    if base in ROW_OPS:
        extents, last = [f'M_{k}', f'N_{k}'], f'N_{k}'
        parameter, statistic, order = f'[{last}]', f'[M_{k}]', ''
        attributes = 'axis=1' if base == 'softmax' else f'axes=[1], eps={EPS}'
    else:
        channels = case.shape[1]
        extents = [f'B_{k}', str(channels), f'H_{k}', f'W_{k}']
        parameter = f'[{channels}]'
        groups = GROUPS[channels]
        statistic = {'batch_norm': parameter, 'instance_norm': f'[B_{k}, {channels}]',
                     'group_norm': f'[B_{k}, {groups}]'}[base]
        order = ' order [0, 2, 3, 1]' if case.layout == 'nhwc' else ''
        attributes = f'eps={EPS}' if base != 'group_norm' else f'groups={groups}, eps={EPS}'
    if backward:
        attributes = re.sub(r',? ?eps=\S+', '', attributes)
    for extent, size in zip(extents, case.shape):
        if not extent.isdigit():
            sizes[extent] = size
    full = f'[{", ".join(extents)}]'
    lines = [f'  symbol {symbol} in [1, 16777216]' for symbol in sizes]

    def declare(name):
        kind = 'f32' + statistic if name in STATE else case.dtype + (parameter if name in ('w', 'b') else full)
        lines.append(f'  input {name}_{k}: {kind}' + (order if name in ('x', 'g') else ''))

    inputs, outputs = {
        'softmax': (['x'], ['y']),
        'softmax_backward': (['g', 'y'], ['dx']),
        'rms_norm': (['x', 'w'], ['y', 'rstd']),
        'rms_norm_backward': (['g', 'x', 'rstd', 'w'], ['dx', 'dw']),
    }.get(case.op, (['g', 'x', 'mean', 'rstd', 'w'], ['dx', 'dw', 'db']) if backward else
          (['x', 'w', 'b'], ['y', 'mean', 'rstd']))
    for name in inputs:
        declare(name)
    arguments = ', '.join([f'{name}_{k}' for name in inputs] + ([attributes] if attributes else []))
    lines.append(f'  {", ".join(f"{name}_{k}" for name in outputs)} = {case.op}({arguments})')
    lines += [f'  output {name}_{k}' + (order if name in ('y', 'dx') else '') for name in outputs]
    return lines, inputs, outputs, sizes


def write_graph(cases, path):
    lines, sizes = ['fusion normalizations {'], {}
    for k, case in enumerate(cases):
        more, _, _, its_sizes = statements(case, k)
        lines += more
        sizes.update(its_sizes)
    path.write_text('\n'.join(lines + ['}']) + '\n')
    return ','.join(f'{name}={value}' for name, value in sizes.items())


def batches_of(cases, elements, count):
    """Cases of one operation, type and offset together, up to so many elements and cases; the largest batches first."""
    groups = collections.defaultdict(list)
    for case in cases:
        groups[case.op, case.dtype, case.offset].append(case)
    batches = []
    for members in groups.values():
        batch, held = [], 0
        for case in sorted(members, key=size_of):
            if batch and (len(batch) == count or held + size_of(case) > elements):
                batches.append(batch)
                batch, held = [], 0
            batch.append(case)
            held += size_of(case)
        batches.append(batch)
    return sorted(batches, key=lambda batch: -sum(map(size_of, batch)))


def size_of(case):
    size = 1
    for extent in case.shape:
        size *= extent
    return size


class Work:
    """Runs batches in parallel; a batch that fails is cut in two until the case that fails is alone."""

    def __init__(self, options):
        self.options = options
        if options.scratch:
            os.makedirs(options.scratch, exist_ok=True)
        self.failures = []  # (case, message)
        self.lock = threading.Lock()

    def run(self, batches, do):
        """`do(cases, folder)` raises RuntimeError where the command or PyTorch fails."""
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            for future in [pool.submit(self.attempt, batch, do) for batch in batches]:
                future.result()

    def attempt(self, cases, do):
        with tempfile.TemporaryDirectory(dir=self.options.scratch) as folder:
            try:
                do(cases, pathlib.Path(folder))
                return
            except RuntimeError as error:
                message = str(error)
            if len(cases) == 1:
                self.fail(cases[0], message)
        if len(cases) > 1:
            self.attempt(cases[:len(cases) // 2], do)
            self.attempt(cases[len(cases) // 2:], do)

    def fail(self, case, message):
        with self.lock:
            self.failures.append((name_of(case), message))
            print(f'FAIL  {name_of(case)}: {message}', flush=True)

    def seam(self, *arguments, before=()):
        command = [*before, self.options.seam, *map(str, arguments)]
        try:
            result = subprocess.run(command, capture_output=True, text=True, errors='replace', timeout=600)
        except subprocess.TimeoutExpired:
            raise RuntimeError('no end after 600 s') from None
        if result.returncode != 0:
            lines = (result.stderr.strip() or result.stdout.strip()).splitlines() or ['']
            details = [line for line in result.stdout.splitlines() if line.startswith(('=========', '  '))]
            raise RuntimeError('\n'.join([f'exit code {result.returncode}: {lines[-1][:500]}', *details[:12]]))
        return result.stdout


# --- Accuracy ---
#
# The error of an element is counted in units of 2^-23 of its largest term: of f32's last place where the term is a
# power of two, of up to two last places else, as relative errors go on. The largest term is the largest magnitude among
# the addends of the sum that the result comes from, its partial sums, and the result:
#
#   y = (x-mean)*rstd*w + b     xhat*w, b; xhat is itself a sum, of x*rstd and -mean*rstd, whose rounding is one of
#                               theirs: x*rstd*w, mean*rstd*w
#   rstd                        rstd, and rstd * rms(x)*rstd: the deviations that it sums are such differences
#   sum of n terms t_i          its partial sums, in a balanced tree. Those of a level have together the 2-norm of t, or
#                               |sum| if that is larger, whatever the order; the roundings of log2(n) levels are as
#                               independent: sqrt(log2 n) times the 2-norm of t, or |sum|. A mean has 1/n of that
#   dx = rstd*(g*w - mean(g*w) - xhat*mean(g*w*xhat))
#                               the three and the first two together, each times rstd; xhat counts as the largest of
#                               xhat, x*rstd and mean*rstd, be it a factor or in a sum
#   softmax y = exp(x-max)/sum  y, and y * |x-max|: the exponent's rounding is a relative error of the exponential
#   softmax dx = y*(g - sum(g*y))   y*g and y times the sum's largest term
#
# So a variance as the mean of squares less the square of the mean fails on data with a mean of 10,000 by thousands of
# units, and no error counts that rounding the inputs' differences makes unavoidable.

class Numerics:
    """The same operations by PyTorch, in any float type, and what is compared."""

    def __init__(self, backend):
        import numpy
        import torch
        self.np, self.torch = numpy, torch
        self.device = 'cuda' if backend == 'cuda' and torch.cuda.is_available() else 'cpu'
        self.eps = float(numpy.float32(EPS))  # As kernels that compute in f32 have it.
        self.types = {'f32': torch.float32, 'f16': torch.float16, 'bf16': torch.bfloat16}
        self.lock = threading.Lock()  # One case's doubles at a time in memory.

    def device_name(self):
        return self.torch.cuda.get_device_name() if self.device == 'cuda' else 'CPU'

    # Inputs.

    def inputs(self, case):
        torch = self.torch
        base, backward = case.op.removesuffix('_backward'), case.op.endswith('_backward')
        generator = torch.Generator(self.device).manual_seed(zlib.crc32(name_of(case._replace(offset=0)).encode()))

        def normal(*shape):
            return torch.randn(shape, generator=generator, device=self.device)

        dtype = self.types[case.dtype]
        x = normal(*case.shape)
        if case.data == 'shifted':
            x += 10000
        if case.data == 'special':
            # Rows, or the first channel of the second image.
            if len(case.shape) == 2:
                column = case.shape[1] // 3
                for row, value in ((3, float('nan')), (6, float('inf')), (8, -float('inf'))):
                    x[row::10, column] = value
            else:
                x[1 if case.shape[0] > 1 else 0, 0, 1, 2] = float('nan')
        inputs = {'x': x.to(dtype)}
        if base != 'softmax':
            parameters = case.shape[1]
            inputs['w'] = normal(parameters).to(dtype)
            if base != 'rms_norm':
                inputs['b'] = normal(parameters).to(dtype)
        if not backward:
            return {name: tensor.cpu() for name, tensor in inputs.items()}
        forward = self.run(case._replace(op=base), self.wide(inputs, torch.float64))
        inputs.pop('b', None)
        if base == 'softmax':
            inputs = {'y': forward['y'].to(dtype)}
        for name in STATE:
            if name in forward:
                inputs[name] = forward[name].float()
        inputs['g'] = normal(*case.shape).to(dtype)
        return {name: tensor.cpu() for name, tensor in inputs.items()}

    def wide(self, inputs, dtype):
        return {name: tensor.to(self.device).to(dtype) for name, tensor in inputs.items()}

    # Operations.

    def run(self, case, t):
        """Outputs by PyTorch's own operations, in the type of `t`; where it has none (RMS norm), by the formula."""
        torch, aten = self.torch, self.torch.ops.aten
        base, backward = case.op.removesuffix('_backward'), case.op.endswith('_backward')
        every = [True, True, True]
        if base == 'softmax':
            if backward:
                return {'dx': aten._softmax_backward_data(t['g'], t['y'], 1, t['y'].dtype)}
            return {'y': torch.softmax(t['x'], 1)}
        x, w = t['x'], t['w']
        if base == 'rms_norm':
            if backward:
                rstd = t['rstd'][:, None]
                xhat, gw = x * rstd, t['g'] * w
                along = (gw * xhat).mean(1, keepdim=True)
                return {'dx': rstd * (gw - xhat * along), 'dw': (t['g'] * xhat).sum(0)}
            rstd = torch.rsqrt((x * x).mean(1, keepdim=True) + self.eps)
            own = getattr(torch.nn.functional, 'rms_norm', None)
            y = own(x, (x.shape[1],), w, self.eps) if own and x.dtype == torch.float32 else x * rstd * w
            return {'y': y, 'rstd': rstd[:, 0]}
        if base == 'layer_norm':
            columns = (x.shape[1],)
            if backward:
                results = aten.native_layer_norm_backward(t['g'], x, columns, t['mean'][:, None], t['rstd'][:, None], w,
                                                          w, every)
            else:
                y, mean, rstd = torch.native_layer_norm(x, columns, w, t['b'], self.eps)
                results = y, mean.flatten(), rstd.flatten()
        elif base == 'batch_norm':
            if backward:
                results = aten.native_batch_norm_backward(t['g'], x, w, None, None, t['mean'], t['rstd'], True,
                                                          self.eps, every)
            else:
                results = torch.native_batch_norm(x, w, t['b'], None, None, True, 0.1, self.eps)
        else:
            images, channels = x.shape[:2]
            sizes = images, channels, x.shape[2] * x.shape[3], channels if base == 'instance_norm' else GROUPS[channels]
            if backward:
                results = aten.native_group_norm_backward(t['g'], x, t['mean'], t['rstd'], w, *sizes, every)
            else:
                results = torch.native_group_norm(x, w, t['b'], *sizes, self.eps)
        return dict(zip(('dx', 'dw', 'db') if backward else ('y', 'mean', 'rstd'), results))

    def largest_terms(self, case, t, exact):
        """Of every output, in double, shaped as the output."""
        torch = self.torch
        base, backward = case.op.removesuffix('_backward'), case.op.endswith('_backward')

        def largest(*terms):
            result = terms[0].abs()
            for term in terms[1:]:
                result = torch.maximum(result, term.abs())
            return result

        def of_sum(terms, axes, rounded=None):
            """Of the sum of `terms`, each with an error of its own that goes with `rounded`."""
            total = terms.sum(axes, keepdim=True)
            count = terms.numel() // max(1, total.numel())
            norm = (terms if rounded is None else rounded).square().sum(axes, keepdim=True).sqrt()
            return largest(total, norm * max(1, math.log2(count)) ** 0.5)

        if base == 'softmax':
            if backward:
                return {'dx': largest(t['y'] * t['g'], t['y'] * of_sum(t['g'] * t['y'], (1,)))}
            away = t['x'] - t['x'].max(1, keepdim=True).values
            return {'y': exact['y'] * away.abs().clamp(1, 1000)}
        # Axes of statistics, the parameters' shape beside x, and the axes over which their gradients are sums.
        if base in ROW_OPS:
            shape, along, beside, across = case.shape, (1,), (1, case.shape[1]), (0,)
        else:
            images, channels = case.shape[:2]
            if base == 'batch_norm':
                shape, along, beside, across = (images, channels, -1), (0, 2), (1, channels, 1), (0, 2)
            else:
                groups = channels if base == 'instance_norm' else GROUPS[channels]
                shape, along = (images, groups, channels // groups, -1), (2, 3)
                beside, across = (1, groups, channels // groups, 1), (0, 3)
        x = t['x'].reshape(shape)
        w = t['w'].reshape(beside)
        count = x.numel() // max(1, (t if backward else exact)['rstd'].numel())
        kept = tuple(1 if axis in along else extent for axis, extent in enumerate(x.shape))
        rstd = (t if backward else exact)['rstd'].reshape(kept)
        if base == 'rms_norm':
            mean = torch.zeros_like(rstd)
        else:
            mean = (t if backward else exact)['mean'].reshape(kept)
        if not backward:
            rms = x.square().mean(along, keepdim=True).sqrt()
            of_mean = of_sum(x, along) / count if base != 'rms_norm' else mean
            addends = [(x - mean) * rstd * w, x * rstd * w, of_mean * rstd * w]
            addends += [t['b'].reshape(beside)] if 'b' in t else []
            terms = {'y': largest(*addends), 'mean': of_mean,
                     'rstd': rstd if base == 'rms_norm' else largest(rstd, rstd * rms * rstd)}
        else:
            g = t['g'].reshape(shape)
            gw, xhat = g * w, (x - mean) * rstd
            of_xhat = largest(xhat, x * rstd, mean * rstd)
            mean_gw = gw.mean(along, keepdim=True) if base != 'rms_norm' else mean
            of_mean_gw = of_sum(gw, along) / count if base != 'rms_norm' else mean
            product = (gw * xhat).mean(along, keepdim=True)
            of_product = of_sum(gw * xhat, along, gw * of_xhat) / count
            terms = {'dx': rstd * largest(gw, of_mean_gw, gw - mean_gw, of_xhat * product, xhat * of_product),
                     'dw': of_sum(g * xhat, across, g * of_xhat),
                     'db': of_sum(g, across)}
        return {name: terms[name].reshape(exact[name].shape) for name in exact}

    # Comparison.

    def rounded(self, exact, dtype):
        """Doubles rounded to nearest, ties to even, once: by way of f32, whose last bit says that it is inexact."""
        torch = self.torch
        if dtype == 'f32':
            return exact.float().double()
        near = exact.float()
        bits = near.view(torch.int32)
        toward_zero = torch.where(near.double().abs() > exact.abs(), bits - 1, bits)
        odd = torch.where((near.double() != exact) & torch.isfinite(near), toward_zero | 1, bits)
        return odd.view(torch.float32).to(self.types[dtype]).double()

    def last_place(self, term, dtype):
        torch = self.torch
        exponent = torch.frexp(term)[1].double() - FLOATS[dtype]
        exponent[term == 0] = LOWEST[dtype]
        return torch.pow(torch.full_like(exponent, 2), exponent.clamp(min=LOWEST[dtype]))

    def compare(self, case, inputs, outputs):
        """A row of figures for every output."""
        torch = self.torch
        with self.lock:
            t = self.wide(inputs, torch.float64)
            exact = self.run(case, t)
            own = self.run(case, self.wide(inputs, torch.float32))
            terms = self.largest_terms(case, t, exact)
            rows = []
            for name, got in outputs.items():
                dtype = 'f32' if name in STATE else case.dtype
                got = got.to(self.device).double()
                want = self.rounded(exact[name], dtype)
                finite = torch.isfinite(want)
                row = {'case': name_of(case), 'output': name, 'dtype': dtype, 'elements': got.numel(),
                       'finite': int(finite.sum()),
                       'other_finite': int((torch.isfinite(got) != finite).sum()), 'units': 0.0, 'torch_units': 0.0,
                       'clear': 0, 'unequal': 0, 'torch_unequal': 0, 'worst': []}
                both = finite & torch.isfinite(got)
                if bool(both.any()):
                    term = torch.maximum(terms[name], exact[name].abs())
                    unit = (term * 2.0 ** -23).clamp(min=2.0 ** LOWEST['f32'])
                    peer = self.rounded(own[name].double(), dtype)
                    if dtype != 'f32':
                        # Where f32's units reach a 256th of the result's last place, its rounding is open; and numbers
                        # around 10,000 are so few that results close to a tie are the rule.
                        clear = both & (4 * unit <= self.last_place(exact[name].abs(), dtype) / 256)
                        clear &= case.data != 'shifted'
                        row['clear'] = int(clear.sum())
                        row['unequal'] = int(((got != want) & clear).sum())
                        row['torch_unequal'] = int(((peer != want) & clear).sum())
                        unit = torch.where(clear, self.last_place(term, dtype),
                                           self.last_place(exact[name].abs(), dtype) / 2 + 4 * unit)
                    zero = torch.zeros_like(want)
                    for who, result in (('', got), ('torch_', peer)):
                        units = torch.where(both, (result - exact[name]).abs() / unit, zero).nan_to_num(0.0)
                        row[who + 'units'] = float(units.max())
                        if not who:
                            row['worst'] = list(map(int, self.np.unravel_index(int(units.argmax()), units.shape)))
                row['failure'] = self.failure(row)
                rows.append(row)
            return rows

    def failure(self, row):
        """Why the row is not right; empty if it is."""
        if row['other_finite']:
            return f'{row["other_finite"]} elements are finite where the exact result is not, or the other way round'
        if row['dtype'] == 'f32':
            if row['units'] > 4:
                return f'off by {row["units"]:.2f} units at {row["worst"]}, PyTorch by {row["torch_units"]:.2f}'
            return ''
        if row['units'] > 1:
            return f'off by {row["units"]:.2f} times what rounding once explains at {row["worst"]}'
        # One in a thousand, and three standard deviations of chance for small tensors.
        if row['unequal'] > 0.001 * row['clear'] + 3 * (0.001 * row['clear']) ** 0.5 + 1:
            return (f'{row["unequal"]} of {row["clear"]} elements are not the exact result rounded, '
                    f'PyTorch in f32 and rounded: {row["torch_unequal"]}')
        return ''

    # Files. NumPy has no bf16: two bytes without a type.

    def save(self, path, tensor):
        if tensor.dtype == self.torch.bfloat16:
            self.np.save(path, tensor.contiguous().view(self.torch.int16).numpy().view('V2'))
        else:
            self.np.save(path, tensor.contiguous().numpy())

    def load(self, path):
        array = self.np.load(path)
        if array.dtype.kind == 'V':
            return self.torch.from_numpy(array.view('i2')).view(self.torch.bfloat16)
        return self.torch.from_numpy(array)


def run_arguments(cases, folder, backend, numerics):
    """Writes the graph and, unless random ones will do, the inputs. Returns the command's arguments and the inputs."""
    sizes = write_graph(cases, folder / 'graph.seam')
    arguments = ['run', folder / 'graph.seam', '--backend', backend, '--set', sizes, '--no-reference']
    if cases[0].offset:
        arguments += ['--offset', cases[0].offset]
    inputs = []
    for k, case in enumerate(cases if numerics else []):
        with numerics.lock:
            inputs.append(numerics.inputs(case))
        for name in statements(case, k)[1]:
            numerics.save(folder / f'{name}_{k}.npy', inputs[k][name])
            arguments += ['--input', f'{name}_{k}={folder}/{name}_{k}.npy']
    return arguments, inputs


def accuracy_part(work, cases):
    options = work.options
    numerics = Numerics(options.backend)
    rows = []

    def check_batch(batch, folder):
        if options.keep:
            folder = pathlib.Path(options.keep) / re.sub(r'\W+', '_', name_of(batch[0]))
            folder.mkdir(parents=True, exist_ok=True)
        arguments, inputs = run_arguments(batch, folder, options.backend, numerics)
        arguments += ['--output-dir', folder / 'out']
        if options.keep:
            print(' '.join(map(str, [options.seam, *arguments])), flush=True)
        work.seam(*arguments)
        found = []
        for k, case in enumerate(batch):
            outputs = {name: numerics.load(folder / 'out' / f'{name}_{k}.npy') for name in statements(case, k)[2]}
            found += [(case, row) for row in numerics.compare(case, inputs[k], outputs)]
        # Only now: PyTorch's errors, of memory above all, cut the batch in two as the command's do.
        for case, row in found:
            with work.lock:
                rows.append(row)
            if row['failure']:
                work.fail(case, f'{row["output"]}: {row["failure"]}')

    before = len(work.failures)
    elements = 1 << 24 if options.backend == 'cuda' else 1 << 15
    work.run(batches_of(cases, elements, 1 if options.keep else 24), check_batch)
    for line in print_table(rows):
        work.failures.append(line)
    failed = len(work.failures) - before
    print(f'accuracy: {len(rows)} results of {len(cases)} cases on {options.backend} against PyTorch '
          f'{numerics.torch.__version__} in double on {numerics.device_name()}, {failed} failed')
    return {'torch': numerics.torch.__version__, 'device': numerics.device_name(), 'rows': rows}, failed == 0


def print_table(rows):
    """A line for every operation, type and kind of data: the largest errors of f32 results, and how many narrower ones
    are not the exact result rounded. Returns the lines of 100,000 elements and more in which PyTorch's f32 results are
    nearer by more than a unit: of few elements the worst is luck, so cases are not compared one by one."""
    groups = collections.defaultdict(list)
    for row in rows:
        op, dtype, _, data = row['case'].split('/')[:4]
        groups[op, dtype, data].append(row)
    print(f'{"":40} {"":8} {"":11} | {"f32: units":>15} | {"narrower: per million":>21} |')
    print(f'{"operation":24} {"type":6} {"data":8} {"results":>8} {"elements":>11} | {"Seam":>6} {"PyTorch":>8} '
          f'| {"Seam":>12} {"PyTorch":>8} | failed')
    worse = []
    for (op, dtype, data), members in sorted(groups.items()):
        f32 = [row for row in members if row['dtype'] == 'f32']
        clear = sum(row['clear'] for row in members)
        cells = []
        if f32:
            units, own = (max(row[key] for row in f32) for key in ('units', 'torch_units'))
            cells += [f'{units:.2f}', f'{own:.2f}']
            if units > own + 1 and sum(row['elements'] for row in f32) >= 100000:
                worse.append((f'{op}/{dtype}/*/{data}', f'off by {units:.2f} units, PyTorch by {own:.2f} only'))
        else:
            cells += ['', '']
        for key in ('unequal', 'torch_unequal'):
            cells.append(f'{1e6 * sum(row[key] for row in members) / clear:.0f}' if clear else '')
        print(f'{op:24} {dtype:6} {data:8} {len(members):8} {sum(row["elements"] for row in members):11} '
              f'| {cells[0]:>6} {cells[1]:>8} | {cells[2]:>12} {cells[3]:>8} | '
              f'{sum(bool(row["failure"]) for row in members)}')
    for name, message in worse:
        print(f'FAIL  {name}: {message}')
    return worse


# --- The same bits every time ---

def repeat_part(work, cases):
    """Random inputs serve: seam makes them itself."""
    options, runs = work.options, 100
    fewer = 1 << 19 if options.backend == 'cuda' else 1 << 12
    kept = set()
    for case in cases:
        if len(case.shape) == 2 and case.shape[0] > 3:
            case = case._replace(shape=(min(case.shape[0], many_rows(case.shape[1], fewer)), case.shape[1]))
        kept.add(case._replace(data='normal'))

    def run_batch(batch, folder):
        arguments, _ = run_arguments(batch, folder, options.backend, None)
        work.seam(*arguments, '--repeat', runs)

    before = len(work.failures)
    work.run(batches_of(kept, 1 << 23, 24), run_batch)
    failed = len(work.failures) - before
    print(f'repeat: {len(kept)} cases run {runs} times more, {failed} failed')
    return {'cases': len(kept), 'runs': runs}, failed == 0


# --- Spills ---

def spills_part(work, cases):
    options = work.options
    # Neither data nor offsets change what is compiled here.
    cases = sorted({case._replace(data='normal', offset=0) for case in cases})
    spilling, count = {}, [0]

    def compile_batch(batch, folder):
        sizes = write_graph(batch, folder / 'graph.seam')
        work.seam('compile', folder / 'graph.seam', '--arch', options.arch, '--set', sizes, '-o', folder / 'out')
        report = json.loads((folder / 'out' / 'report.json').read_text())
        for group in report['groups']:
            text = (folder / 'out' / group['file']).read_text()
            owner = batch[int(re.findall(r'^  output \w+?_(\d+)', text, re.MULTILINE)[0])]
            for kernel in group['kernels']:
                spilled = kernel['spill_store_bytes'] + kernel['spill_load_bytes']
                with work.lock:
                    count[0] += 1
                    if spilled:
                        spilling[name_of(owner)] = {'kernel': kernel['name'], 'schedule': group['schedule'],
                                                    'registers': kernel['registers'],
                                                    'stored_bytes': kernel['spill_store_bytes'],
                                                    'loaded_bytes': kernel['spill_load_bytes']}

    work.run(batches_of(cases, 1 << 60, 8), compile_batch)
    for name, spill in sorted(spilling.items()):
        print(f'SPILLS  {name}: {spill["stored_bytes"]} bytes stored, {spill["loaded_bytes"]} loaded, '
              f'{spill["registers"]} registers, {spill["schedule"]}')
    print(f'spills: {count[0]} kernels of {len(cases)} cases for {options.arch}, {len(spilling)} spill')
    return {'kernels': count[0], 'cases': len(cases), 'spilling': spilling}, not spilling


# --- compute-sanitizer ---

SANITIZERS = ('memcheck', 'racecheck', 'synccheck', 'initcheck')


def sanitizers_part(work, cases):
    options = work.options
    sanitizer = shutil.which('compute-sanitizer') or shutil.which('compute-sanitizer', path='/usr/local/cuda/bin')
    if sanitizer is None or options.backend != 'cuda':
        reason = 'compute-sanitizer is not installed' if sanitizer is None else 'it needs --backend cuda'
        print(f'sanitizers: NOT RUN: {reason}')
        return {'not_run': reason}, True
    before = len(work.failures)
    for tool in SANITIZERS:
        def run_batch(batch, folder, tool=tool):
            arguments, _ = run_arguments(batch, folder, options.backend, None)
            # The driver says how many parameters a kernel has by refusing the one behind the last.
            quiet = ('--report-api-errors', 'no') if tool == 'memcheck' else ()
            work.seam(*arguments, before=(sanitizer, '--tool', tool, *quiet, '--error-exitcode', '86'))
        start = time.time()
        work.run(batches_of(cases, 1 << 60, 24), run_batch)
        print(f'sanitizers: {tool}: {len(cases)} cases, {time.time() - start:.0f} s', flush=True)
    failed = len(work.failures) - before
    print(f'sanitizers: {failed} failed')
    return {'cases': len(cases), 'tools': SANITIZERS}, failed == 0


def memory_folder():
    """Where files stay in memory, if there is room for what is under way at once."""
    folder = '/dev/shm'
    return folder if os.path.isdir(folder) and shutil.disk_usage(folder).free > 16 << 30 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--parts', default='accuracy,repeat,spills,sanitizers')
    parser.add_argument('--backend', default='cuda', choices=('cuda', 'simulator', 'reference'))
    parser.add_argument('--arch', default='sm_90a', help='of the spills')
    parser.add_argument('--seam', default=str(pathlib.Path(__file__).resolve().parents[1] / 'build/tools/seam'))
    parser.add_argument('--jobs', type=int, default=len(os.sched_getaffinity(0)), help='processes at a time')
    parser.add_argument('--only', default='', metavar='REGEX', help='cases whose name has this')
    parser.add_argument('--json', metavar='FILE')
    parser.add_argument('--keep', metavar='FOLDER', help='leave graphs, inputs and outputs there, one case a process')
    parser.add_argument('--scratch', default=memory_folder(), metavar='FOLDER', help='for graphs, inputs and outputs')
    options = parser.parse_args()

    def chosen(cases):
        return [case for case in cases if re.search(options.only, name_of(case))]

    parts = {'accuracy': lambda: accuracy_part(work, chosen(all_cases(options.backend))),
             'repeat': lambda: repeat_part(work, chosen(all_cases(options.backend))),
             'spills': lambda: spills_part(work, chosen(all_cases('cuda'))),
             'sanitizers': lambda: sanitizers_part(work, chosen(small_cases()))}
    asked = options.parts.split(',')
    if unknown := set(asked) - set(parts):
        parser.error(f'no part {", ".join(unknown)}; there are {", ".join(parts)}')
    work = Work(options)
    report, good = {'backend': options.backend}, True
    for part in asked:
        start = time.time()
        report[part], right = parts[part]()
        good &= right
        print(f'{part}: {"ok" if right else "FAILED"}, {time.time() - start:.0f} s\n', flush=True)
    report['failures'] = work.failures
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(report) + '\n')
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main())

#!/usr/bin/env python3
"""Shows where the time of a generated kernel goes: time stamps at its barriers.

usage: benchmarks/kernel_timeline.py FOLDER --set N=64,C=1024,... [--loops] [--no-pdl] [--dry-run]

FOLDER is what `seam compile --arch sm_90a --set N=64,C=1024,... -o FOLDER` wrote; its .cu files may have been changed by
hand. Needs PyTorch and an H100 or H200.

Thread 0 of each CTA stamps %globaltimer and clock64(). A stamp in a loop is taken in the first iteration only. A time
is that at which thread 0 got there: its loads may still be under way, other warps may be ahead or behind. Launches go
out as runtime/cuda_backend.cc sends them, back to back behind a sleep, on a stream of their own, each with the next of
several sets of buffers, so that what one call left in the cache is not what the next one reads.
  --loops    also before and after loops that are not unrolled (holds memory accesses on their side of the stamp)
  --no-pdl   without programmatic dependent launch: a grid begins only when the one before has ended
  --dry-run  no GPU: instruments, compiles and prints the stamps
"""
import argparse
import collections
import ctypes
import glob
import json
import math
import pathlib
import re
import statistics
import sys
import tempfile

CALL_ELEMENTS = 300_000_000  # Of all sets of buffers together, about.

WAITS = re.compile(r'__syncthreads\w*\(|__cluster_barrier|barrier\.sync|bar\.sync|seam_(?!await_loaded)'
                   r'\w*(barrier|await|wait)\w*\(|seam_open_barriers\(')
HELPER = r'''
__device__ __forceinline__ void tl_stamp(ulonglong2* to) {
  unsigned long long now, clock;
  asm volatile("mov.u64 %0, %%globaltimer;\n mov.u64 %1, %%clock64;" : "=l"(now), "=l"(clock) :: "memory");
  *to = ulonglong2{now, clock};
}
__device__ __forceinline__ unsigned tl_smid() { unsigned i; asm volatile("mov.u32 %0, %%smid;" : "=r"(i)); return i; }
'''


def instrument(text, name, loops):
    """The text with stamps, and a label of each."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(name + '(') and line.rstrip().endswith('{'))
    end = next(i for i in range(start, len(lines)) if lines[i] == '}')
    head = max(i for i in range(start) if '__global__' in lines[i])
    labels, out, stack = ['entry'], [], []  # Of each open brace: its line, and whether it is a loop to stamp.

    def stamp(number, what):
        """A line of code, or none where the first iteration cannot be told."""
        condition = ['threadIdx.x == 0']
        for opener, _ in stack:
            first = re.match(r'for \((?:const )?\w[\w ]* (\w+) = ([^;]+);', opener)
            if first:
                condition.append(f'{first[1]} == ({first[2]})')
            elif re.match(r'(for|while|do)\b', opener):
                return []
        labels.append(f'{number:5} {what}')
        return [f'  if ({" && ".join(condition)}) tl_stamp(tl_at + {len(labels) - 1});']

    for i in range(start + 1, end):
        line, code = lines[i], lines[i].strip()
        whole = out[-1].rstrip()[-1:] in ';}{' if out else True  # Not the statement of an if or loop without braces.
        short = code if len(code) < 52 else code[:49] + '...'
        if whole and WAITS.search(code) and code.endswith(';') and not code.startswith(('for', 'return')):
            known = 'await_predecessor' in code or out and 'tl_stamp' in out[-1]
            out += [] if known else stamp(i + 1, f'before {short}')
            out += [line, *stamp(i + 1, f'after  {short}')]
            continue
        loop = loops and re.match(r'for \(.*\{$', code) and 'unroll' not in lines[i - 1]
        out += stamp(i + 1, f'before {short}') if loop and whole else []
        out.append(re.sub(r'\breturn;', '{ if (threadIdx.x == 0) tl_stamp(tl_at + TL_END); return; }', line))
        for c in re.sub(r'"[^"]*"', '', code):
            if c == '{':
                stack.append((code.lstrip('} '), bool(loop and whole)))
            elif c == '}':
                opener, stamped = stack.pop()
                out += stamp(i + 1, f'after  loop {opener}'[:58]) if stamped else []
    labels.append(f'{end + 1:5} end')
    last = len(labels) - 1
    signature = re.sub(r'\)\s*\{\s*$', ', ulonglong2* tl_stamps) {', lines[start])
    begin = [f'  ulonglong2* const tl_at = tl_stamps + (size_t)blockIdx.x * {last + 2};',
             f'  if (threadIdx.x == 0) tl_stamp(tl_at), tl_at[{last + 1}] = ulonglong2{{tl_smid(), 1}};']
    out = [s.replace('TL_END', str(last)) for s in [*begin, *out, '  if (threadIdx.x == 0) tl_stamp(tl_at + TL_END);']]
    return '\n'.join([*lines[:head], HELPER, *lines[head:start], signature, *out, *lines[end:], '']), labels


def compile_text(text, name):
    """A cubin; by NVRTC with the options of runtime/cuda/nvrtc.cc."""
    folders = [p + '/nvidia/*/lib' for p in sys.path] + ['/usr/local/cuda/lib64']
    found = [f for p in folders for f in sorted(glob.glob(p + '/libnvrtc.so.*'))]
    lib, program, size = ctypes.CDLL((found or ['libnvrtc.so'])[0]), ctypes.c_void_p(), ctypes.c_size_t()
    options = [b'--gpu-architecture=sm_90a', b'-default-device', b'--std=c++17', b'--fmad=false']
    lib.nvrtcCreateProgram(ctypes.byref(program), text.encode(), name.encode(), 0, None, None)
    rc = lib.nvrtcCompileProgram(program, 4, (ctypes.c_char_p * 4)(*options))
    kind = 'ProgramLog' if rc else 'CUBIN'
    getattr(lib, f'nvrtcGet{kind}Size')(program, ctypes.byref(size))
    result = ctypes.create_string_buffer(max(1, size.value))
    getattr(lib, f'nvrtcGet{kind}')(program, result)
    assert rc == 0, f'NVRTC says {rc}: ' + result.value.decode(errors='replace')[:3000]
    return result.raw


def evaluate(expression, sizes):
    names = {}  # C_by8 is C // 8.
    for name in set(re.findall(r'[A-Za-z]\w*', expression)) - {'max', 'min'}:
        base, _, divisor = name.partition('_by')
        names[name] = sizes[base] // int(divisor or 1)
    return int(eval(expression, {'max': max, 'min': min}, names))


class Attribute(ctypes.Structure):  # CUlaunchAttribute, and below CUlaunchConfig.
    _fields_ = [('id', ctypes.c_int), ('pad', ctypes.c_int), ('value', ctypes.c_uint * 16)]


class Config(ctypes.Structure):
    _fields_ = [('grid', ctypes.c_uint * 3), ('block', ctypes.c_uint * 3), ('smem', ctypes.c_uint),
                ('stream', ctypes.c_void_p), ('attrs', ctypes.POINTER(Attribute)), ('count', ctypes.c_uint)]


class Loaded:
    """A kernel on the GPU with its arguments. `launch` sends all its phases."""

    def __init__(self, cu, cubin, k, arguments, stream, pdl, stamped):
        self.cu, self.phase, self.stamps = cu, ctypes.c_int(0), ctypes.c_void_p(0)
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(cu.cuModuleLoadData(ctypes.byref(module), cubin))
        self.check(cu.cuModuleGetFunction(ctypes.byref(self.function), module, k['name'].encode()))
        self.check(cu.cuFuncSetAttribute(self.function, 8, k['smem']))  # MAX_DYNAMIC_SHARED_SIZE_BYTES
        if k['cluster'] > 8:
            self.check(cu.cuFuncSetAttribute(self.function, 14, 1))  # NON_PORTABLE_CLUSTER_SIZE_ALLOWED
        value = ctypes.c_int()
        ask = lambda function, *rest: self.check(function(ctypes.byref(value), *rest)) or value.value
        smem = ctypes.c_size_t(k['smem'])
        ctas = ask(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor, self.function, k['threads'], smem)
        sms = ask(cu.cuDeviceGetAttribute, 16, 0)  # MULTIPROCESSOR_COUNT; below NUM_REGS and LOCAL_SIZE_BYTES.
        self.info = (f'{ask(cu.cuFuncGetAttribute, 4, self.function)} registers, '
                     f'{ask(cu.cuFuncGetAttribute, 3, self.function)} bytes spilled, {ctas} CTAs an SM')
        together = k['phases'] > 1 and k['grid'] <= ctas * sms and (k['together'] or not pdl)
        self.phases = [-1] if together else list(range(k['phases']))
        wanted = ((k['cluster'] > 1, 4, (k['cluster'], 1, 1)), (together, 2, (1,)), (pdl and not together, 6, (1,)))
        attributes = [Attribute(number, 0, (ctypes.c_uint * 16)(*words)) for on, number, words in wanted if on]
        self.attributes = (Attribute * max(1, len(attributes)))(*attributes)
        self.config = Config((ctypes.c_uint * 3)(k['grid'], 1, 1), (ctypes.c_uint * 3)(k['threads'], 1, 1), k['smem'],
                             stream, self.attributes, len(attributes))
        self.sets, self.next = arguments, 0
        self.values = list(arguments[0]) + ([self.phase] if k['phases'] > 1 else []) + ([self.stamps] if stamped else [])
        self.parameters = (ctypes.c_void_p * len(self.values))(*(ctypes.addressof(v) for v in self.values))

    def check(self, rc):
        assert rc == 0, f'the CUDA driver says {rc}'

    def launch(self, regions):
        self.next = (self.next + 1) % len(self.sets)
        for i, v in enumerate(self.sets[self.next]):
            self.parameters[i] = ctypes.addressof(v)
        for i, self.phase.value in enumerate(self.phases):
            self.stamps.value = regions[i]
            self.check(self.cu.cuLaunchKernelEx(ctypes.byref(self.config), self.function, self.parameters, None))


def describe(folder, kernel, sizes):
    """The kernel as launched: what its texts say."""
    name = kernel['entry']
    ir = (folder / kernel['kernel_ir']).read_text()
    text = (folder / kernel['cuda']).read_text()
    cluster = re.search(r'grid .* cluster (\d+)', ir)
    arguments = re.search(r'^' + name + r'\((.*)\) \{', text, re.M)[1].split(', ')
    phases = [int(n) for n in re.findall(r'\bphase == (\d+)', text)] if arguments[-1].startswith('int ') else []
    return {'name': name, 'text': text, 'threads': kernel['threads'],
            'smem': kernel['smem_bytes'], 'grid': evaluate(re.search(r'grid (.*) \(block\)', ir)[1], sizes),
            'cluster': int(cluster[1]) if cluster else 1, 'together': ' one launch (' in ir,
            'phases': max(phases) + 1 if phases else 1, 'arguments': arguments,
            'buffers': [(n, t, evaluate(e, sizes)) for n, t, e in
                        re.findall(r'^  buffer (\w+): (\w+)\[(.*)\] align', ir, re.M)],
            'parameters': [evaluate(p, sizes) for p in re.findall(r'^  parameter (\w+)', ir, re.M)]}


def print_stamps(grids, labels):
    """grids: of each launch, of each CTA, of each stamp [globaltimer, clock]; last of a CTA its SM."""
    mhz = [(c[-2][1] - c[0][1]) * 1000 / (c[-2][0] - c[0][0]) for c in sum(grids, []) if c[-2][0] - c[0][0] > 2000]
    mhz = statistics.median(mhz) if mhz else 1980  # A guess, where all CTAs are short.
    triple = lambda v: ' '.join(f'{n:10.2f}' for n in (min(v), statistics.median(v), max(v)))
    base = min(c[0][0] for c in grids[0])
    step = math.gcd(*(s[0] - base for grid in grids for c in grid for s in c[:-1] if s[0]))
    print(f'  SM clock {mhz:.0f} MHz by the stamps; globaltimer steps of {step} ns')
    for number, grid in enumerate(grids):
        sms = collections.Counter(c[-1][0] for c in grid).values()
        print(f'  launch {number + 1} of {len(grids)}: {len(grid)} CTAs, {min(sms)} to {max(sms)} on each of {len(sms)} SMs')
        print(f'    {"CTAs":>6} | {"us since first: min median max":32} | {"cycles since the stamp before it":32} | '
              f'{"median us":>9} | line')
        for s, label in enumerate(labels):
            here = [c for c in grid if c[s][0]]
            since = [c[s][1] - next(c[p][1] for p in range(max(s - 1, 0), -1, -1) if c[p][0]) for c in here]
            if here:
                print(f'    {len(here):6} | {triple([(c[s][0] - base) / 1000 for c in here])} | {triple(since)} | '
                      f'{statistics.median(since) / mhz:9.3f} | {label}')


def run_kernel(folder, k, options, buffers):
    text, labels = instrument(k['text'], k['name'], options.loops)
    print(f'{folder} {k["name"]}: grid {k["grid"]} x {k["threads"]}, cluster {k["cluster"]}, {k["smem"]} bytes shared, '
          f'{k["phases"]} phases, {len(labels)} stamps')
    cubins = compile_text(k['text'], k['name']), compile_text(text, k['name'])
    if options.dry_run:
        pathlib.Path(tempfile.gettempdir(), 'timeline_dry.cu').write_text(text)
        return print('\n'.join(labels), k['buffers'], k['parameters'], k['together'])
    import torch
    types = {'bf16': torch.bfloat16, 'f16': torch.float16, 'f32': torch.float32, 'f64': torch.float64,
             'i32': torch.int32, 'i64': torch.int64, 'i8': torch.int8, 'u8': torch.uint8, 'bool': torch.uint8}
    sets = []
    counters = torch.zeros(256, device='cuda', dtype=torch.uint8)
    elements = sum(count for _, _, count in k['buffers'])
    for nth in range(max(2, min(16, CALL_ELEMENTS // elements))):
        arguments = []
        for name, dtype, count in k['buffers']:
            key = name, count, types.get(dtype, torch.int64), nth
            if key not in buffers:
                fill = torch.randn if key[2].is_floating_point else torch.zeros
                buffers[key] = fill(count, device='cuda', dtype=key[2])
            if re.search('var|rstd', name):
                buffers[key].abs_()
            arguments.append(ctypes.c_void_p(buffers[key].data_ptr()))
        arguments += [ctypes.c_longlong(p) for p in k['parameters']]
        arguments += [ctypes.c_void_p(counters.data_ptr() + (128 if 'tickets' in argument else 0))
                      for argument in k['arguments'][len(arguments):] if 'unsigned*' in argument]
        sets.append(arguments)
    assert len(arguments) + (k['phases'] > 1) == len(k['arguments']), k['arguments']
    cu, stream = ctypes.CDLL('libcuda.so.1'), torch.cuda.Stream()
    loaded = [Loaded(cu, cubin, k, sets, stream.cuda_stream, not options.no_pdl, stamped)
              for cubin, stamped in zip(cubins, (False, True))]
    phases = len(loaded[1].phases)  # A region of stamps each, and one for launches whose stamps nobody reads.
    regions = torch.zeros(phases + 1, k['grid'], len(labels) + 1, 2, device='cuda', dtype=torch.int64)
    at = [region.data_ptr() for region in regions]
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(10_000_000)
        for i in range(20):
            loaded[1].launch(at[:phases] if i == 19 else at[-1:] * phases)
        stream.synchronize()
        grids = regions[:phases].tolist()
        for kernel, what in 2 * list(zip(loaded, ('as it is', 'with stamps'))):  # Twice, to show the noise.
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(20_000_000)
            begin.record()
            for _ in range(200):
                kernel.launch(at[-1:] * len(kernel.phases))
            end.record()
            stream.synchronize()
            print(f'  {begin.elapsed_time(end) * 5:8.2f} us a call {what:12} {kernel.info}, phases '
                  f'{"together" if kernel.phases == [-1] else kernel.phases}')
    print_stamps(grids, labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folder', type=pathlib.Path)
    parser.add_argument('--set', required=True, metavar='N=64,C=1024,...')
    [parser.add_argument(flag, action='store_true') for flag in ('--loops', '--no-pdl', '--dry-run')]
    options = parser.parse_args()
    sizes = {n.strip(): int(v) for n, v in (pair.split('=') for pair in options.set.strip().split(','))}
    groups, buffers, failed = json.loads((options.folder / 'report.json').read_text())['groups'], {}, False
    for kernel in sum((group['kernels'] for group in groups), []):
        try:
            run_kernel(options.folder, describe(options.folder, kernel, sizes), options, buffers)
        except Exception as error:
            failed = True
            print(f'{options.folder} {kernel["name"]}: ERROR {type(error).__name__}: {error}', flush=True)
    sys.exit(failed)


if __name__ == '__main__':
    main()

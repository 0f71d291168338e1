#!/usr/bin/env python3
"""What limits a normalization's kernels: the profiler's counters, a line a kernel.

usage: benchmarks/norm_counters.py [--only PATTERN | --missed FILE] [--rows OP/DTYPE/[ROWSx]COLUMNS,...] [--json FILE]

The cases of image_norms.py whose name has PATTERN in it, or those below 0.9 in a file that it wrote, the lowest first;
and with --rows those of norm_bench, of 2^28 elements where no number of rows is given. All that under NVIDIA's `ncu`,
which replays each kernel with cold caches until it has read all counters:

  us        the kernel's time there; the clock is what it is, and caches are cold
  memory    how much of the time the memory's bus was busy, in percent
  traffic   bytes that crossed it, over the least that the kernel's tensors allow
  issue     of the cycles that an SM was active, those in which a scheduler issued an instruction, in percent
  inst      instructions a warp's lane executes for each element
  warps     active warps, of 64 an SM
  skew      least and most active cycles of an SM, over their mean
  waits     what warps waited for where they were seen waiting, in percent: the four most frequent

SEAM and NORM_BENCH name the programs where they are not in build.
"""
import argparse
import concurrent.futures
import csv
import fnmatch
import io
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import image_norms

ELEMENTS = 1 << 28
MISSED = 0.9
STALL = 'smsp__pcsamp_warps_issue_stalled_'
METRICS = {
    'us': 'gpu__time_duration.sum',
    'memory': 'dram__cycles_active.avg.pct_of_peak_sustained_elapsed',
    'read': 'dram__bytes_read.sum',
    'write': 'dram__bytes_write.sum',
    'issue': 'smsp__issue_active.avg.pct_of_peak_sustained_active',
    'inst': 'smsp__inst_executed.sum',
    'warps': 'sm__warps_active.avg.per_cycle_active',
    'cycles_least': 'sm__cycles_active.min',
    'cycles': 'sm__cycles_active.avg',
    'cycles_most': 'sm__cycles_active.max',
}


def number(text):
    try:
        return float(text.replace(',', ''))
    except ValueError:
        return None


def profile(command, kernels, elements, least_bytes):
    """The counters of one call's kernels, after one call that warms up; a list, or an error message."""
    ncu = ['ncu', '--csv', '--page', 'raw', '--print-units', 'base', '--clock-control', 'none', '--kill', 'yes',
           '--kernel-name', 'regex:^g[0-9]+_', '--launch-skip', str(kernels), '--launch-count', str(kernels),
           '--metrics', ','.join(METRICS.values()) + ',group:smsp__pcsamp_warp_stall_reasons']
    done = subprocess.run(ncu + command, capture_output=True, text=True)
    table = done.stdout[done.stdout.find('"ID"'):]
    if not table.startswith('"ID"'):
        return (done.stderr + done.stdout).strip().splitlines()[-1]
    rows = []
    for line in list(csv.DictReader(io.StringIO(table)))[1:]:  # The first one has the units.
        row = {name: number(line[metric]) for name, metric in METRICS.items()}
        stalls = {name[len(STALL):]: number(value) or 0 for name, value in line.items()
                  if name.startswith(STALL) and not name.endswith('_not_issued')}
        seen = sum(stalls.values()) or 1
        waits = sorted(((100 * n / seen, name) for name, n in stalls.items() if name != 'selected'), reverse=True)
        row.update(kernel=line['Kernel Name'], us=row['us'] / 1000, inst=32 * row['inst'] / elements,
                   traffic=(row.pop('read') + row.pop('write')) / least_bytes,
                   skew=[row.pop('cycles_least') / row['cycles'], row.pop('cycles_most') / row['cycles']],
                   waits={name: round(share, 1) for share, name in waits[:4]})
        rows.append(row)
    return rows


def image_cases(pattern, missed):
    if not missed:
        return [case for case in image_norms.all_cases() if fnmatch.fnmatch(case.name, f'*{pattern or "*"}*')]
    rows = json.loads(pathlib.Path(missed).read_text())
    fractions = {row['case']: row['fraction'] for row in (rows['rows'] if isinstance(rows, dict) else rows)}
    cases = [case for case in image_norms.all_cases() if fractions.get(case.name, 1) < MISSED]
    return sorted(cases, key=lambda case: fractions[case.name])


def image_jobs(cases, folder):
    """Name, command, kernels, elements and least bytes of each image case, compiled in parallel."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        made = list(pool.map(lambda case: image_norms.compile_case(case, folder), cases))
    for case, (into, error) in zip(cases, made):
        if error:
            print(f'{case.name}: {error}')
            continue
        report = json.loads((into / 'report.json').read_text())
        command = [os.environ.get('SEAM', 'build/tools/seam'), 'bench', str(into / 'graph.seam'), '--set',
                   case.settings(), '--repetitions', '1']
        yield (case.name, command, sum(len(group['kernels']) for group in report['groups']), case.elements(),
               case.least_bytes())


def row_jobs(names):
    for name in names:
        op, dtype, columns = name.split('/')
        passes = 3 if op.endswith('_backward') else 2
        parameters = op.endswith('_backward') and not op.startswith('softmax')
        elements = math.prod(map(int, columns.split('x'))) if 'x' in columns else ELEMENTS
        command = [os.environ.get('NORM_BENCH', 'build/benchmarks/norm_bench'), '--ops', op, '--dtypes', dtype,
                   '--shapes' if 'x' in columns else '--columns', columns]
        yield name, command, 2 if parameters else 1, elements, passes * elements * image_norms.BYTES[dtype]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--only', metavar='PATTERN', help='image cases whose name has this in it; * stands for anything')
    parser.add_argument('--missed', metavar='FILE', help='image cases below 0.9 in this file of image_norms.py')
    parser.add_argument('--rows', metavar='LIST', default='', help='such as layer_norm/bf16/4096,softmax/f32/1024x12288')
    parser.add_argument('--json', metavar='FILE', help='write the counters to this file as well')
    options = parser.parse_args()
    failed, found = 0, []
    print(f'{"kernel":58} {"us":>7} {"memory":>6} {"traffic":>7} {"issue":>5} {"inst":>5} {"warps":>5} {"skew":>9}  waits')
    with tempfile.TemporaryDirectory() as folder:
        jobs = list(row_jobs(filter(None, options.rows.split(','))))
        if options.only or options.missed or not jobs:
            jobs += image_jobs(image_cases(options.only, options.missed), folder)
        for name, *job in jobs:
            rows = profile(*job)
            if isinstance(rows, str):
                failed += 1
                print(f'{name}: {rows}', flush=True)
                continue
            for row in rows:
                waits = ', '.join(f'{what} {share:.0f}' for what, share in row['waits'].items())
                least, most = row['skew']
                print(f'{name if row is rows[0] else "  " + row["kernel"]:58} {row["us"]:7.1f} {row["memory"]:6.0f} '
                      f'{row["traffic"]:7.2f} {row["issue"]:5.0f} {row["inst"]:5.1f} {row["warps"]:5.1f} '
                      f'{least:4.2f} {most:4.2f}  {waits}', flush=True)
            found.append({'case': name, 'kernels': rows})
            if options.json:
                pathlib.Path(options.json).write_text(json.dumps(found, indent=1) + '\n')
    print(f'{len(found)} cases, {failed} failed')
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()

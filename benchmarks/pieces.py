#!/usr/bin/env python3
"""Times pieces of real models and of their training, each beside a copy kernel of the same bytes.

usage: benchmarks/pieces.py [--only PATTERN] [--json FILE] [--repetitions N] [--small]

The graphs of benchmarks/pieces, at the sizes that each names in its first line: norms of every layout and what
surrounds them, losses, quantisation, attention's softmaxes, rotary embeddings, pooling, optimizers. A line a piece: the
fraction of the copy kernel's speed, of the least bytes of the group's inputs and outputs, microseconds, the number of
kernels. A piece that must go over its data twice cannot reach 1. With --small, each is run at its small sizes instead,
on the simulator, and compared with the reference. The tool is build/tools/seam, or what SEAM names.
"""
import argparse
import fnmatch
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from transposed import bench_all

FOLDER = pathlib.Path(__file__).parent / 'pieces'


def sizes_of(file, which):
    line = re.search(rf'^# {which}: (\S+)$', file.read_text(), re.M)[1]
    return dict(size.split('=') for size in line.split(','))


def check(file):
    """Nothing, or what the tool said."""
    setting = ','.join(f'{s}={n}' for s, n in sizes_of(file, 'small').items())
    done = subprocess.run([os.environ.get('SEAM', 'build/tools/seam'), 'run', str(file), '--set', setting,
                           '--backend', 'simulator', '--check'], capture_output=True, text=True)
    return None if done.returncode == 0 else (done.stdout + done.stderr).strip().splitlines()[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--only', metavar='PATTERN', default='*', help='pieces whose name matches')
    parser.add_argument('--json', metavar='FILE', help='write the rows to this file as well')
    parser.add_argument('--repetitions', type=int, default=3, metavar='N', help='timed repetitions of many calls each')
    parser.add_argument('--small', action='store_true', help='check small sizes on the simulator, and time nothing')
    options = parser.parse_args()
    files = [f for f in sorted(FOLDER.glob('*.seam')) if fnmatch.fnmatch(f.stem, options.only)]
    if options.small:
        wrong = [(f.stem, said) for f in files if (said := check(f)) is not None]
        for name, said in wrong:
            print(f'{name}: {said}')
        print(f'{len(files) - len(wrong)} of {len(files)} right')
        return 1 if wrong else 0
    with tempfile.TemporaryDirectory() as folder:  # Where their reports go as well.
        timed = [(pathlib.Path(shutil.copy(file, folder)), sizes_of(file, 'sizes')) for file in files]
        return bench_all(timed, options.repetitions, options.json)


if __name__ == '__main__':
    sys.exit(main())

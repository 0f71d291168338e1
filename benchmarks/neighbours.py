#!/usr/bin/env python3
"""Times group norms with the channels last, whose groups are few channels each: 3 to 80 neighbours in memory.

usage: benchmarks/neighbours.py [--only PATTERN] [--json FILE] [--repetitions N] [--write DIR]

Norms with weights and silu, and their backward passes with the weights' gradients, bf16 and f32: 32 groups of images of 1024
pixels, 2^26 elements, backward passes of other numbers as well, and a U-Net's 16 images. Each beside a copy kernel of the
same bytes. A line a case: the fraction of the copy kernel's speed, microseconds, the number of kernels. --write only writes the
graphs to a folder. The tool is build/tools/seam, or what SEAM names.
"""
import sys

from other_sizes import group_norm
from transposed import graph, time_cases

ELEMENTS = 1 << 26
GROUPS = 32


def case(backward, dtype, pixels, channels, images=None):
    sizes = dict(N=images or max(2, ELEMENTS // (pixels * GROUPS * channels)), P=pixels, G=GROUPS, K=channels)
    name = f'group_norm_{"backward" if backward else "silu"}_{channels}_of_{pixels}_{dtype}'
    name += f'_{images}_images' if images else ''
    inputs, body, outputs = group_norm(backward)
    return name, graph(name, dtype, inputs, body.replace('dtype=T)', f'dtype={dtype})'), outputs, sizes,
                       ' in [1, 4194304]'), sizes


def graphs():
    for dtype in ('bf16', 'f32'):
        for backward in (False, True):
            for channels in (3, 5, 6, 9, 10, 11, 12, 13, 14, 15, 18, 20, 22, 24, 28, 30, 36, 40, 52, 60, 80):
                yield case(backward, dtype, 1024, channels)
            # 320x64x64, 640x64x64, 640x32x32, 960x32x32, 1280x16x16, 1920x16x16, 1280x8x8.
            for channels, pixels in ((10, 4096), (20, 4096), (20, 1024), (30, 1024), (40, 256), (60, 256), (40, 64)):
                yield case(backward, dtype, pixels, channels, 16)
        for pixels in (3136, 1024, 256, 144, 64):
            for channels in (4, 8, 16, 32) + ((20, 40) if pixels < 1024 else ()):
                yield case(True, dtype, pixels, channels)


if __name__ == '__main__':
    sys.exit(time_cases(__doc__, graphs()))

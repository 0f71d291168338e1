#!/usr/bin/env python3
"""Draws a file of norm_bench's, with peer_norms.py's figures in it: fraction of a memcpy over the length of a row, one
picture an operation and direction, one line an implementation and type.

usage: benchmarks/norm_plot.py FILE.json FOLDER
"""
import collections
import json
import os
import sys

import matplotlib

matplotlib.use('svg')
matplotlib.rcParams['svg.hashsalt'] = 'seam'  # The same bytes for the same figures.
from matplotlib import pyplot  # noqa: E402

LINES = {'seam': ('#c0392b', 'Seam'), 'seam_any_order': ('#e59866', 'Seam, sums in any order'),
         'torch': ('#7b7d7d', 'PyTorch eager'), 'torch_compile': ('#1b6ca8', 'torch.compile'),
         'torch_compile_max': ('#1e8449', 'torch.compile max-autotune')}


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip().splitlines()[-1])
    with open(sys.argv[1], encoding='utf-8') as file:
        figures = json.load(file)
    pictures = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in figures['rows']:
        pictures[row['op'], row['dtype']][row.get('impl', 'seam')].append((row['columns'], row['fraction']))
    os.makedirs(sys.argv[2], exist_ok=True)
    for (op, dtype), implementations in pictures.items():
        plot, axes = pyplot.subplots(figsize=(7.2, 3.8))
        for impl, (colour, label) in LINES.items():
            points = sorted(implementations.get(impl, []))
            if points:
                axes.plot(*zip(*points), marker='o', markersize=3.5, color=colour, label=label,
                          linewidth=2 if impl == 'seam' else 1.2)
        ticks = sorted({columns for points in implementations.values() for columns, _ in points})
        axes.set_xscale('log', base=2)
        shown = [n for n in ticks if n & (n - 1) == 0]  # Others where there is room.
        for n in ticks:
            if all(not 0.85 < n / other < 1.18 for other in shown):
                shown.append(n)
        axes.set_xticks(ticks, [str(n) if n in shown else '' for n in ticks], rotation=60, fontsize=7)
        axes.minorticks_off()
        axes.set_ylim(0, 1.1)
        axes.axhline(1, color='#bbbbbb', linewidth=0.8)
        axes.grid(axis='y', color='#eeeeee')
        axes.set_xlabel('columns of a row')
        axes.set_ylabel('fraction of a memcpy')
        axes.set_title(f"{op.replace('_', ' ')}, {dtype}, {figures['elements']:,} elements, {figures['device']}", fontsize=9)
        axes.legend(fontsize=8, loc='lower center', ncols=5)
        plot.tight_layout()
        plot.savefig(os.path.join(sys.argv[2], f'{op}_{dtype}.svg'), metadata={'Date': None})
        pyplot.close(plot)


main()

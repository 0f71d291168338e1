#!/usr/bin/env python3
"""Draws what segment_scale_bench wrote with --json: time over size, both logarithmic, as SVG.

usage: benchmarks/segment_scale_plot.py FILE.json OUT.svg
"""
import collections
import json
import math
import sys

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 760, 460, 64, 24, 190, 48
COLOURS = ['#1b6ca8', '#c0392b', '#1e8449', '#8e44ad', '#b9770e', '#117a65', '#7b7d7d']


def exponent(points):
    """The slope of log time over log size from 10000 expressions on."""
    logs = [(math.log(x), math.log(y)) for x, y in points if x >= 10000]
    n = len(logs)
    sx, sy = sum(x for x, _ in logs), sum(y for _, y in logs)
    return (n * sum(x * y for x, y in logs) - sx * sy) / (n * sum(x * x for x, _ in logs) - sx * sx)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip().splitlines()[-1])
    families = collections.defaultdict(list)
    with open(sys.argv[1], encoding='utf-8') as file:
        for row in json.load(file)['rows']:
            families[row['family']].append((row['exprs'], max(row['seconds'], 1e-4)))
    every = [point for points in families.values() for point in points]
    low_x, high_x = (f(math.log10(x) for x, _ in every) for f in (min, max))
    low_y, high_y = math.floor(min(math.log10(y) for _, y in every)), math.ceil(max(math.log10(y) for _, y in every))
    low_x, high_x = math.floor(low_x), math.ceil(high_x - 0.01)

    def at(x, y):
        return (LEFT + (math.log10(x) - low_x) / (high_x - low_x) * (WIDTH - LEFT - RIGHT),
                HEIGHT - BOTTOM - (math.log10(y) - low_y) / (high_y - low_y) * (HEIGHT - TOP - BOTTOM))

    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" '
           f'font-size="12"><rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for decade in range(low_x, high_x + 1):
        x, _ = at(10 ** decade, 10 ** low_y)
        svg.append(f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#ddd"/>'
                   f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{10 ** decade:,}</text>')
    for decade in range(low_y, high_y + 1):
        _, y = at(10 ** low_x, 10 ** decade)
        svg.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
                   f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{10 ** decade:g} s</text>')
    svg.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">expressions</text>')
    for i, (family, points) in enumerate(families.items()):
        colour = COLOURS[i % len(COLOURS)]
        line = ' '.join(f'{x:.1f},{y:.1f}' for x, y in (at(*point) for point in points))
        svg.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        svg += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in (at(*p) for p in points)]
        svg.append(f'<text x="{WIDTH - RIGHT + 12}" y="{TOP + 16 + 20 * i}" fill="{colour}">{family}: exponent '
                   f'{exponent(points):.2f}</text>')
    with open(sys.argv[2], 'w', encoding='utf-8') as file:
        file.write('\n'.join(svg) + '\n</svg>\n')


main()

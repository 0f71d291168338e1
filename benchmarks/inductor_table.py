#!/usr/bin/env python3
"""Prints kernels and bytes of the graphs of tests/graphs/inductor beside what Inductor makes of the same.

Inductor's figures stand in the headers of the graphs (docs/inductor.md says where they are from), Seam's
come from the test program, which counts the kernels that run. Parts of a case are added up.
"""
import argparse
import collections
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
FIGURES = re.compile(r'(\d+) kernels?(?:, (\d+) calls?)?, (\d+) bytes')


def order(path):
    return path.stem.split('_')[0], 'backward' in path.stem, path.stem


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('program', nargs='?', type=pathlib.Path, default=ROOT / 'build/tests/seam_graphs_test')
    program = parser.parse_args().program
    if not program.is_file():
        parser.error(f'there is no {program}: build the tests first')
    output = subprocess.run([program, '--gtest_filter=NamedGraphs.*'], check=False, text=True, stdout=subprocess.PIPE,
                            env={**os.environ, 'SEAM_GRAPH_TABLE': '1'}).stdout
    found = {}
    for line in output.splitlines():
        columns = line.split(' | ')  # Name, possible, by the rule alone, found, reasons.
        figures = [[int(number or 0) for number in match] for match in FIGURES.findall(line)]
        if len(figures) == 3:
            found.setdefault(columns[0].strip(), (figures[0], figures[2]))

    titles, inductor, sums = {}, {}, collections.defaultdict(lambda: [[0] * 3, [0] * 3])
    for path in sorted((ROOT / 'tests/graphs/inductor').glob('*.seam'), key=order):
        text = path.read_text(encoding='utf-8')
        case = path.stem
        figures = re.search(r'^# inductor: (.*)$', text, re.M).group(1)
        if figures.startswith('part of '):
            case = figures.removeprefix('part of ')
        else:
            titles[case] = case.removeprefix('c').replace('_', ' ').removesuffix(' 1')
            kernels, megabytes = re.fullmatch(r'([\d+]+) kernels?(?:, \d+ calls?)?, (\d+) MB', figures).groups()
            inductor[case] = (kernels, int(megabytes))
        for total, part in zip(sums[case], found[path.stem]):
            for i, number in enumerate(part):
                total[i] += number

    print('| case | Inductor: kernels | MB | possible: kernels | MB | Seam: kernels | MB | |')
    print('|---|---|---|---|---|---|---|---|')
    fewer = more = 0
    for case, title in titles.items():
        possible, today = sums[case]
        kernels, megabytes = inductor[case]
        count = sum(map(int, kernels.split('+')))
        # Inductor's bytes are known to a megabyte.
        behind = today[0] > count or today[2] > (megabytes + 1) * 1e6
        ahead = not behind and (today[0] < count or today[2] < (megabytes - 1) * 1e6)
        fewer += ahead
        more += behind
        print(f'| {title} | {kernels} | {megabytes} | {possible[0]} | {possible[2] / 1e6:.0f} |'
              f' {today[0]} | {today[2] / 1e6:.0f} | {"fewer" if ahead else "more" if behind else "same"} |')
    print(f'\n{len(titles)} cases: fewer kernels or bytes than Inductor in {fewer}, more of either in {more}.')


main()

#!/usr/bin/env python3
"""Prints what norm_bench wrote with --json as the table of the README.

usage: benchmarks/norm_table.py FILE
"""
import json
import sys

if len(sys.argv) != 2:
    sys.exit(__doc__.strip().splitlines()[-1])
with open(sys.argv[1], encoding='utf-8') as file:
    figures = json.load(file)
kernels = list(dict.fromkeys((row['op'], row['dtype']) for row in figures['rows']))
fractions = {(row['op'], row['dtype'], row['columns']): row['fraction'] for row in figures['rows']
             if row.get('impl', 'seam') == 'seam'}
print('| N |', ' | '.join(f'{op} {dtype}' for op, dtype in kernels), '|')
print('|---' * (len(kernels) + 1) + '|')
for columns in sorted({row['columns'] for row in figures['rows']}):
    cells = [fractions.get((*kernel, columns)) for kernel in kernels]
    print(f'| {columns} |', ' | '.join('' if cell is None else f'{cell:.2f}' for cell in cells), '|')

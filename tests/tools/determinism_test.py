#!/usr/bin/env python3
"""The same graph gives the same bytes in every process, and the same groups in whatever order its lines are written.

Every process has other addresses, so what is ordered by pointers or by a seeded hash would show. ctest runs it with
SEAM_BINARY set to the tool; without that, every test is skipped.
"""
import hashlib
import json
import os
import pathlib
import random
import re
import subprocess
import tempfile
import unittest

SEAM = os.environ.get('SEAM_BINARY')
ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / 'examples').glob('*.seam'))
NAMED = sorted((ROOT / 'tests' / 'graphs').glob('**/*.seam'))
RUNS = 50

# Several groups, equal parts and ties: two norms of one input, a product, reductions of everything.
TIES = '''fusion ties {
  symbol M in [1, 4096]
  input x: f16[M, 64]
  input w: f16[64, 64]
  xf = cast(x, dtype=f32)
  a = exp(xf)
  b = sin(xf)
  sa = sum(a)
  sb = sum(b)
  pa = a / sa
  pb = b / sb
  ra = amax(pa, axes=[1])
  rb = amax(pb, axes=[1])
  ca = amax(pa, axes=[0])
  cb = amax(pb, axes=[0])
  va = pa - ra[:, None]
  vb = pb - rb[:, None]
  h = matmul(cast(va + vb, dtype=f16), w)
  ha = tanh(h)
  hb = abs(h)
  sh = sum(cast(ha, dtype=f32))
  out = cast(hb, dtype=f32) / sh
  output out
  output ca
  output cb
}
'''


def seam(*arguments, stdin=b'', cores=None):
    return subprocess.run([SEAM, *map(str, arguments)], input=stdin, stdout=subprocess.PIPE, check=True, timeout=300,
                          preexec_fn=(lambda: os.sched_setaffinity(0, cores)) if cores else None).stdout


def shuffled(text, dice):
    """The canonical text with its expressions in another order in which all operands are defined before."""
    lines = text.splitlines()
    is_expression = [' = ' in line for line in lines]
    expressions = [line for line, found in zip(lines, is_expression) if found]
    results = [re.findall(r'(\w+):', line.split(' = ')[0]) for line in expressions]
    defined_by = {name: i for i, names in enumerate(results) for name in names}
    waits_for = []
    for line, names in zip(expressions, results):
        words = set(re.findall(r'\w+', line.split(' = ', 1)[1]))
        waits_for.append({defined_by[word] for word in words if word in defined_by} - {defined_by[names[0]]})
    order, placed = [], set()
    while len(order) < len(expressions):
        ready = [i for i in range(len(expressions)) if i not in placed and waits_for[i] <= placed]
        chosen = dice.choice(ready)
        order.append(expressions[chosen])
        placed.add(chosen)
    head = [line for line, found in zip(lines, is_expression) if not found]
    at = is_expression.index(True)
    return '\n'.join(head[:at] + order + head[at:]) + '\n'


def segmentation_of(text):
    """All that the JSON says, with lists in which only the order of the lines decides sorted."""
    cut = json.loads(seam('segment', '-', '--format', 'json', stdin=text.encode()))
    for group in cut['groups']:
        for field in ['exprs', 'copies', 'text', 'inputs', 'outputs']:
            group[field].sort()
    cut['edges'].sort(key=json.dumps)
    return cut


@unittest.skipUnless(SEAM, 'SEAM_BINARY names no seam command')
class DeterminismTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.ties = pathlib.Path(self.folder.name) / 'ties.seam'
        self.ties.write_text(TIES)

    def test_the_same_bytes_in_every_process(self):
        for graph in [*EXAMPLES, self.ties]:
            with self.subTest(graph=graph.stem):
                forms = {hashlib.sha256(seam('segment', graph, '--format', 'json')).hexdigest() for _ in range(RUNS)}
                self.assertEqual(len(forms), 1)

    def test_the_same_kernels_and_merges_in_every_process(self):
        # The page has the story of the merges, the schedules and the kernels' texts.
        for graph in [*EXAMPLES, self.ties]:
            with self.subTest(graph=graph.stem):
                pages = {hashlib.sha256(seam('segment', graph, '--format', 'html', '--no-compile')).hexdigest()
                         for _ in range(RUNS)}
                self.assertEqual(len(pages), 1)

    def test_the_same_code_for_any_number_of_threads(self):
        # Kernels are the only thing that several threads work on: NVRTC compiles one on each core that there is.
        graph = pathlib.Path(self.folder.name) / 'kernels.seam'
        graph.write_text(TIES.replace('matmul(cast(va + vb, dtype=f16), w)', 'cast(va + vb, dtype=f16)'))
        cores = sorted(os.sched_getaffinity(0))
        files = []
        for use in [cores[:1], cores[:2], cores]:
            folder = pathlib.Path(self.folder.name) / f'{len(files)}'
            try:
                seam('compile', graph, '-o', folder, '--no-cache', cores=use)
            except subprocess.CalledProcessError as error:
                if error.returncode != 4:
                    raise
                self.skipTest('there is no NVRTC')
            files.append({file.name: file.read_bytes() for file in sorted(folder.iterdir())
                          if file.suffix in ['.seam', '.kir', '.cu', '.cubin']})
        self.assertGreater(sum(name.endswith('.cubin') for name in files[0]), 2)
        for other in files[1:]:
            self.assertEqual(other, files[0])

    def test_independent_lines_may_change_places(self):
        dice = random.Random(1)
        for graph in [*EXAMPLES, *NAMED, self.ties]:
            text = seam('print', graph).decode()
            cut = segmentation_of(text)
            for _ in range(8 if graph == self.ties else 3):
                other = shuffled(text, dice)
                with self.subTest(graph=graph.stem, text=other):
                    self.assertEqual(segmentation_of(other), cut)


if __name__ == '__main__':
    unittest.main()

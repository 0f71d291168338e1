#!/usr/bin/env python3
"""benchmarks/norm_accuracy.py on the simulator: good normalizations pass, spoilt ones do not.

ctest runs it with SEAM_BINARY set to the tool; without that, every test is skipped, and those that need PyTorch where
there is none.
"""
import contextlib
import importlib.util
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

SEAM = os.environ.get('SEAM_BINARY')
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'benchmarks'))
sys.dont_write_bytecode = True
import norm_accuracy

HAS_TORCH = importlib.util.find_spec('torch') is not None


@unittest.skipUnless(SEAM, 'SEAM_BINARY names no seam command')
class NormAccuracyTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def run_script(self, *arguments):
        """Its exit code and its report."""
        report = self.path / 'report.json'
        argv = ['norm_accuracy.py', '--seam', SEAM, '--backend', 'simulator', '--jobs', '2', '--json', report]
        argv += arguments
        with unittest.mock.patch.object(sys, 'argv', list(map(str, argv))):
            with contextlib.redirect_stdout(io.StringIO()):
                code = norm_accuracy.main()
        return code, json.loads(report.read_text())

    def test_every_graph_is_well_formed(self):
        cases = norm_accuracy.all_cases('cuda') + norm_accuracy.small_cases()
        for batch in norm_accuracy.batches_of(cases, 1 << 60, 1000):
            norm_accuracy.write_graph(batch, self.path / 'graph.seam')
            done = subprocess.run([SEAM, 'verify', self.path / 'graph.seam'], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_repeats(self):
        code, report = self.run_script('--parts', 'repeat,sanitizers',
                                       '--only', '^(layer_norm|softmax)/bf16/(3x7|13x256)/')
        self.assertEqual((code, report['failures']), (0, []))
        self.assertEqual(report['repeat']['cases'], 4)
        self.assertIn('not_run', report['sanitizers'])

    def test_a_batch_is_cut_until_the_bad_case_is_alone(self):
        broken = self.path / 'seam'
        broken.write_text(f'#!/bin/sh\ncase "$*" in *=1000*) echo broken >&2; exit 1;; esac\nexec {SEAM} "$@"\n')
        broken.chmod(0o755)
        code, report = self.run_script('--parts', 'repeat', '--only', '^softmax/f32/(1|3)x', '--seam', broken)
        self.assertEqual(code, 1)
        self.assertEqual(sorted(name for name, _ in report['failures']),
                         ['softmax/f32/1x1000/normal', 'softmax/f32/3x1000/normal'])

    @unittest.skipUnless(HAS_TORCH, 'there is no PyTorch')
    def test_good_ones_pass(self):
        code, report = self.run_script('--parts', 'accuracy', '--only', r'/(1x1|3x7|9x256|13x256|2x6x5x7)/')
        self.assertEqual((code, report['failures']), (0, []))
        names = {row['case'].split('/')[0] for row in report['accuracy']['rows']}
        self.assertEqual(len(names), 2 * len(norm_accuracy.ROW_OPS + norm_accuracy.CHANNEL_OPS))

    @unittest.skipUnless(HAS_TORCH, 'there is no PyTorch')
    def test_bad_ones_do_not(self):
        right = norm_accuracy.statements
        spoilt = {
            # A variance as the mean of squares less the square of the mean.
            'layer_norm/f32/3x256/shifted': lambda k: [
                f'  mean_{k} = mean(x_{k}, axes=[1])',
                f'  variance_{k} = mean(x_{k} * x_{k}, axes=[1]) - mean_{k} * mean_{k}',
                f'  rstd_{k} = rsqrt(maximum(variance_{k}, 0) + 1e-5)',
                f'  y_{k} = (x_{k} - mean_{k}[:, None]) * rstd_{k}[:, None] * w_{k} + b_{k}'],
            # An exponential off by four parts in a million.
            'softmax/f32/1x256/normal': lambda k: [
                f'  e_{k} = exp(x_{k} * 1.000004)', f'  y_{k} = e_{k} / sum(e_{k}, axes=[1], keepdims=true)'],
            # Rounded twice: to bf16 on the way to f16.
            'softmax_backward/f16/9x256/special': lambda k: [
                f'  exact_{k} = softmax_backward(g_{k}, y_{k}, axis=1)',
                f'  dx_{k} = cast(cast(exact_{k}, dtype=bf16), dtype=f16)'],
            # Zero where it should be NaN.
            'rms_norm/f32/9x256/special': lambda k: [
                f'  z_{k}, rstd_{k} = rms_norm(x_{k}, w_{k}, axes=[1], eps=1e-5)',
                f'  y_{k} = where(z_{k} == z_{k}, z_{k}, 0)'],
        }
        for name, lines_of in spoilt.items():
            def statements(case, k):
                lines, *rest = right(case, k)
                place = next(i for i, line in enumerate(lines) if f' = {case.op}(' in line)
                return [lines[:place] + lines_of(k) + lines[place + 1:], *rest]
            with self.subTest(name), unittest.mock.patch.object(norm_accuracy, 'statements', statements):
                code, report = self.run_script('--parts', 'accuracy', '--only', f'^{re.escape(name)}$')
                self.assertEqual(code, 1)
                self.assertEqual({failed for failed, _ in report['failures']}, {name})
                self.assertNotIn('exit code', str(report['failures']))


if __name__ == '__main__':
    unittest.main()

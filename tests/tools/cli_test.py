#!/usr/bin/env python3
"""The seam command from outside: exit codes, messages, files, JSON.

ctest runs it with SEAM_BINARY set to the tool; without that, every test is skipped.
"""
import json
import os
import pathlib
import re
import resource
import struct
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

SEAM = os.environ.get('SEAM_BINARY')
ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = sorted(path.stem for path in (ROOT / 'examples').glob('*.seam'))
COMMANDS = ['verify', 'ops', 'print', 'segment', 'explain', 'diff', 'compile', 'run', 'bench']
GOOD, CHECK_FAILED, WRONG_USAGE, BAD_GRAPH, ENVIRONMENT = 0, 1, 2, 3, 4

SUM = '''fusion total {
  symbol M in [2, 64]
  input x: f32[M, 8]
  y = sum(x, axes=[0, 1])
  output y
}
'''


# Two kernels whatever the passes do: every element of `part` needs the sum of all.
SHARE = '''fusion share {
  symbol M in [1, 4096]
  input x: f16[M, 64]
  input scale: f32[64]
  e = exp(cast(x, dtype=f32) * scale)
  total = sum(e)
  part = e / total
  entropy = sum(-part * log(part), axes=[1])
  out = cast(part, dtype=f16)
  output out
  output entropy
}
'''


def npy(description, shape, elements):
    header = f"{{'descr': '{description}', 'fortran_order': False, 'shape': {tuple(shape)}, }}\n".encode()
    return b'\x93NUMPY\x01\x00' + struct.pack('<H', len(header)) + header + elements


def seam(*arguments, stdin=None, env=None, stdout=subprocess.PIPE):
    if isinstance(stdin, str):
        stdin = stdin.encode()
    return subprocess.run(
        [SEAM, *map(str, arguments)], input=stdin if stdin is not None else b'', stdout=stdout,
        stderr=subprocess.PIPE, timeout=300, env={**os.environ, **(env or {})})


@unittest.skipUnless(SEAM, 'SEAM_BINARY names no seam command')
class CliTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def good(self, *arguments, **options):
        result = seam(*arguments, **options)
        self.assertEqual(result.returncode, GOOD, (arguments, result.stderr))
        self.assertNotIn(b'\x1b', (result.stdout or b'') + result.stderr, 'colour or progress without a terminal')
        return (result.stdout or b'').decode()

    def bad(self, code, *arguments, says='', **options):
        result = seam(*arguments, **options)
        message = result.stderr.decode(errors='replace')
        self.assertEqual(result.returncode, code, (arguments, message))
        self.assertTrue(message.startswith('seam: '), message)
        self.assertIn(says, message)
        return message

    def write(self, text):
        path = self.path / 'graph.seam'
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path


class Usage(CliTest):
    def test_help_of_everything(self):
        text = self.good('--help')
        for command in COMMANDS:
            self.assertIn(command, text)
            page = self.good(command, '--help')
            self.assertIn('Examples:', page)
            self.assertIn(f'seam {command}', page)

    def test_wrong_usage(self):
        self.bad(WRONG_USAGE, says='subcommand')
        self.bad(WRONG_USAGE, 'compress', says="no subcommand 'compress'")
        self.bad(WRONG_USAGE, '--fast', says="Run 'seam --help'")
        for command in COMMANDS:
            if command != 'ops':
                self.bad(WRONG_USAGE, command, says='graph is required')
        self.bad(WRONG_USAGE, 'verify', 'softmax', 'rope')
        self.bad(WRONG_USAGE, 'print', 'softmax', '--colour')
        self.bad(WRONG_USAGE, 'segment', 'softmax', '--format', 'pdf')
        self.bad(WRONG_USAGE, 'run', 'softmax', '--backend', 'tpu')
        self.bad(WRONG_USAGE, 'run', 'softmax', '--seed', 'x')
        self.bad(WRONG_USAGE, 'bench', 'softmax', '--tune', '--no-tuned', says='excludes')
        self.bad(WRONG_USAGE, 'bench', 'softmax', '--tune', '--tune-seconds', '-1')
        self.good('run', 'softmax', '--no-tuned', '--backend', 'simulator', '--check')
        self.bad(WRONG_USAGE, 'segment', 'softmax', '--device', 'h300', says='known: h200')
        self.bad(WRONG_USAGE, 'compile', 'softmax', '--arch', 'sm_1', '-o', self.path, says='known: h200')
        self.bad(WRONG_USAGE, 'run', 'softmax', '--device', 'h300', says='--device: no device')
        self.bad(WRONG_USAGE, 'ops', 'no such operation', says='no operation')
        for command in COMMANDS:
            self.bad(WRONG_USAGE, command, '--colour', says='not expected: --colour')
        for option in ['segment -o', 'explain -o', 'diff -o', 'print -o', 'compile -o', 'bench --json', 'segment --load',
                       'run --segmentation', 'run --output-dir', 'segment --times']:
            command, name = option.split()
            self.bad(WRONG_USAGE, command, 'softmax', name, '', says='expected the name of a file or folder')

    def test_version(self):
        version = re.search(r'project\(seam VERSION ([\d.]+)', (ROOT / 'CMakeLists.txt').read_text())[1]
        self.assertEqual(self.good('--version'), f'seam {version}\n')

    def test_sizes(self):
        for command in ['segment', 'explain', 'diff', 'compile', 'run', 'bench']:
            self.bad(WRONG_USAGE, command, 'layer_norm', '--set', 'M', says='expected NAME=INTEGER')
            self.bad(WRONG_USAGE, command, 'layer_norm', '--set', 'M=4k', says='expected NAME=INTEGER')
            self.bad(WRONG_USAGE, command, 'layer_norm', '--set', 'M=4', 'x', says='goes in front of --set')
            self.bad(WRONG_USAGE, command, 'layer_norm', '--set', 'Q=4', says='its symbols are M, N')
            self.bad(WRONG_USAGE, command, 'layer_norm', '--set', 'M=4,M=5', says='M is set twice')
            self.bad(WRONG_USAGE, command, 'layer_norm', '--set', 'M=0', says='M = 0 is outside its range [1, 1048576]')
            self.bad(WRONG_USAGE, command, 'layer_norm', '--set', 'M=-9223372036854775808', says='outside its range')
        self.good('run', 'layer_norm', '--set', 'M=4', '--set', 'N=9', '--backend', 'reference')


class BadGraphs(CliTest):
    def test_files(self):
        self.bad(BAD_GRAPH, 'verify', 'no_such_example', says='layer_norm')
        self.bad(BAD_GRAPH, 'verify', './no_such_file.seam', says='No such file')
        self.bad(BAD_GRAPH, 'verify', self.path, says='directory')
        self.bad(BAD_GRAPH, 'verify', '-', says='<stdin>:1:1')

    def test_every_command_says_where(self):
        path = self.write(SUM.replace('sum(', 'som('))
        for command in ['verify', 'print', 'segment', 'explain', 'diff', 'compile', 'run', 'bench']:
            self.bad(BAD_GRAPH, command, path, says='graph.seam:4:7')

    def test_text_that_is_not_a_graph(self):
        texts = {
            'not UTF-8': b'fusion f {\n  \xff\xfe\n}',
            'zeros': bytes(1000),
            'unknown symbol': SUM.replace('f32[M', 'f32[K'),
            'duplicate name': SUM.replace('y =', 'x ='),
            'use before definition': SUM.replace('sum(x', 'sum(z'),
            'wrong arity': SUM.replace('sum(x,', 'sum(x, x,'),
            'dtype mismatch': SUM.replace('sum(x, axes=[0, 1])', 'x + cast(x, dtype=f16)'),
            'shape mismatch': SUM.replace('sum(x, axes=[0, 1])', 'x + sum(x, axes=[0])[None, 0:3]'),
            'negative extent': SUM.replace('f32[M', 'f32[M - 100'),
            'overflow': SUM.replace('f32[M', 'f32[9223372036854775807 * M * M'),
            'deep nesting': SUM.replace('sum(x', 'sum(' + '(' * 100000 + 'x'),
            'a long line': 'fusion ' + 'a' * 1000000,
        }
        for what, text in texts.items():
            with self.subTest(what):
                self.assertLess(len(self.bad(BAD_GRAPH, 'verify', self.write(text), says='graph.seam:')), 2000)

    def test_cut_off_anywhere(self):
        text = (ROOT / 'examples/softmax.seam').read_bytes()
        end = text.rindex(b'}')
        for length in range(0, end, 37):
            self.bad(BAD_GRAPH, 'verify', '-', stdin=text[:length])

    def test_large_text(self):
        self.good('verify', '-', stdin='#' + ' ' * (30 << 20) + '\n' + SUM)


class Graphs(CliTest):
    def test_verify_and_print(self):
        for name in EXAMPLES:
            self.assertIn(name, self.good('verify', name))
            text = self.good('print', name)
            self.assertEqual(self.good('print', '-', stdin=text), text)
        self.good('print', 'rope', '-o', self.path / 'rope.seam')
        self.assertEqual((self.path / 'rope.seam').read_text(), self.good('print', 'rope'))

    def test_ops(self):
        text = self.good('ops')
        for name in ['welford', 'rsqrt', 'index_select', 'random_normal', 'matmul']:
            self.assertIn(f'  {name} ', text)
        self.assertGreater(len(text.splitlines()), 100)
        self.assertNotIn('welford', self.good('ops', 'bitwise'))

    def test_segment_json(self):
        for name in EXAMPLES:
            result = json.loads(self.good('segment', name, '--format', 'json'))
            self.assertGreater(result['bytes'], 0)
            self.assertGreaterEqual(result['kernels'], 1)
            ids = [group['id'] for group in result['groups']]
            self.assertEqual(len(ids), len(set(ids)))
            for group in result['groups']:
                for key in ['scheduler', 'exprs', 'inputs', 'outputs']:
                    self.assertTrue(group[key], (name, key))
            for edge in result['edges']:
                self.assertTrue(edge['val'])
                self.assertIn(edge['to'], ids)
        one = json.loads(self.good('segment', 'instance_norm', '--format', 'json'))
        self.assertEqual(len(one['groups']), 1)
        self.assertNotIn('average', one['groups'][0]['inputs'])

    def test_segment_forms(self):
        self.assertIn('reduction', self.good('segment', 'layer_norm'))
        self.assertTrue(self.good('segment', 'layer_norm', '--format', 'dot').startswith('digraph'))
        path = self.path / 'cut.svg'
        self.good('segment', 'layer_norm_backward', '--format', 'svg', '-o', path)
        self.assertTrue(xml.etree.ElementTree.parse(path).getroot().tag.endswith('svg'))
        self.assertIn('schedules for a100', self.good('segment', 'softmax', '--device', 'a100'))
        result = json.loads(self.good('segment', 'softmax', '--device', 'a100', '--format', 'json'))
        self.assertIn('reduction', result['groups'][0]['schedule'])
        larger = json.loads(self.good('segment', 'adamw', '--format', 'json', '--set', 'N=2048'))
        smaller = json.loads(self.good('segment', 'adamw', '--format', 'json', '--set', 'N=1024'))
        self.assertGreater(larger['bytes'], smaller['bytes'])

    def test_html_page(self):
        page = self.path / 'cut.html'
        times = self.path / 'times.json'
        self.good('segment', 'softmax', '--format', 'html', '--no-compile', '-o', page)
        text = page.read_text()
        self.assertTrue(text.startswith('<!DOCTYPE html>'))
        data = json.loads(text.split('id="data">')[1].split('</script>')[0])
        self.assertEqual([group['id'] for group in data['groups']], [0])
        self.assertIn('kernel g0_reduction', data['groups'][0]['kernels'][0]['ir'])
        self.assertGreater(data['groups'][0]['estimated_us'], 0)
        self.good('segment', 'softmax', '--format', 'html', '--no-compile', '-o', self.path / 'again.html')
        self.assertEqual((self.path / 'again.html').read_text(), text)
        html = ['segment', 'softmax', '--format', 'html', '--no-compile', '--times', times]
        self.bad(BAD_GRAPH, *html, says='No such file')
        for content, says in [('[]', 'expected microseconds by group'), ('{"g0": "fast"}', 'g0: found "fast", expected a number'),
                              ('{"g0": -1}', 'g0: found -1, expected a number of microseconds, 0 or more'), ('{"g7": 1}', 'there is no group g7'),
                              ('{"g0": 1, "g0": 2}', 'the key "g0" twice'), ('{"g0": 1', 'ends in the middle'),
                              ('{"g0": %s}' % ('[' * 100000 + ']' * 100000), 'lies in more than 64')]:
            times.write_text(content)
            self.bad(BAD_GRAPH, *html, says=says)
        self.bad(WRONG_USAGE, 'segment', 'softmax', '--times', times, says='only --format html shows')

    def test_explain(self):
        text = self.good('explain', 'quantised_layer_norm')
        self.assertIn('merged', text)
        self.assertIn('reduction refuses: grid-barrier', text)
        self.assertIn('line 11', text)

    def test_explain_two_values(self):
        share = self.write(SHARE)
        text = self.good('explain', share, 'total', 'out').replace('\n', ' ')
        self.assertIn('`total` is computed in g0', text)
        self.assertIn('the reduction scheduler refuses it: grid-barrier', text)
        self.assertIn('are computed in one kernel, g1', self.good('explain', share, 'part', 'out'))
        self.assertIn('is an input of the graph', self.good('explain', share, 'x', 'out'))
        self.bad(WRONG_USAGE, 'explain', share, 'totl', 'out', says='it has `total`')
        self.bad(WRONG_USAGE, 'explain', share, 'out', says='two')


class LoadedCuts(CliTest):
    def test_what_was_dumped_is_loaded(self):
        for name in EXAMPLES:
            for form in ['json', 'text']:
                path = self.path / f'{name}.{form}'
                self.good('segment', name, '--format', form, '-o', path)
                self.assertEqual(self.good('segment', name, '--load', path, '--format', form), path.read_text())
        self.good('segment', 'rope', '--load', '-', stdin=(self.path / 'rope.json').read_bytes())
        self.assertIn('schedules for a100',
                      self.good('segment', 'rope', '--load', self.path / 'rope.json', '--device', 'a100'))

    def test_sizes_are_those_of_the_file(self):
        path = self.path / 'cut.json'
        self.good('segment', 'adamw', '--set', 'N=2048', '--format', 'json', '-o', path)
        self.assertIn('at N = 2048', self.good('segment', 'adamw', '--load', path))
        self.assertIn('at N = 4096', self.good('segment', 'adamw', '--load', path, '--set', 'N=4096'))

    def test_run_and_compile(self):
        path = self.path / 'cut.json'
        self.good('segment', 'softmax', '--without', 'vertical,siblings,closures,split,borders', '--format', 'json', '-o', path)
        kernels = json.loads(path.read_text())['kernels']
        self.assertGreater(kernels, 1)
        run = ['run', 'softmax', '--backend', 'simulator', '--check']
        self.assertIn(f'{kernels} kernels', self.good(*run, '--segmentation', path))
        self.assertIn('1 kernel', self.good(*run))
        result = seam('compile', 'softmax', '--segmentation', path, '-o', self.path / 'out')
        if result.returncode != ENVIRONMENT:
            report = json.loads((self.path / 'out' / 'report.json').read_text())
            self.assertEqual(len([k for group in report['groups'] for k in group['kernels']]), kernels)

    def test_files_that_do_not_fit(self):
        path = self.path / 'cut.json'
        text = self.good('segment', 'softmax', '--format', 'json', '-o', path) or path.read_text()
        for command in [['segment', '--load'], ['explain', '--load'], ['run', '--segmentation'],
                        ['compile', '--segmentation']]:
            refused = [command[0], 'rope', command[1], path]
            self.bad(BAD_GRAPH, *refused, says='segmentation of `softmax`, the graph is `rope`')
            self.bad(BAD_GRAPH, command[0], 'softmax', command[1], self.path / 'none', says='No such file')
        self.bad(BAD_GRAPH, 'diff', 'rope', path, says='segmentation of `softmax`')
        path.write_text(text[:200])
        self.bad(BAD_GRAPH, 'segment', 'softmax', '--load', path, says='the file ends in the middle')
        path.write_text(text.replace('"reduction"', '"pointwise"'))
        message = 'group 0 is no plan of the scheduler pointwise: the scheduler reduction takes it'
        self.bad(BAD_GRAPH, 'segment', 'softmax', '--load', path, says=message)
        self.bad(BAD_GRAPH, 'run', 'softmax', '--segmentation', path, '--backend', 'simulator', says=message)

    def test_diff(self):
        share = self.write(SHARE)
        left, right = self.path / 'left.json', self.path / 'right.txt'
        self.good('segment', share, '--format', 'json', '-o', left)
        self.good('segment', share, '--without', 'vertical,siblings,closures,split,borders,late', '-o', right)
        text = self.good('diff', share, left, right)
        self.assertEqual(text, self.good('diff', share, '--without', 'vertical,siblings,closures,split,borders,late'))
        self.assertIn('split      g0 -> g0', text)
        result = json.loads(self.good('diff', share, left, right, '--format', 'json'))
        self.assertFalse(result['same'])
        self.assertGreater(result['right']['kernels'], result['left']['kernels'])
        self.bad(CHECK_FAILED, 'diff', share, left, right, '--check', says='two ways')
        self.good('diff', share, left, '--check')
        self.bad(WRONG_USAGE, 'diff', share, '--without', 'everything')
        self.assertEqual(self.good('segment', share, '--without', 'narrow'), self.good('segment', share, '--narrow-edges', 'off'))
        self.bad(WRONG_USAGE, 'segment', share, '--narrow-edges', 'none')
        self.bad(WRONG_USAGE, 'segment', share, '--load', right, '--without', 'dead')
        self.bad(WRONG_USAGE, 'diff', share, right, right, '--without', 'dead')


class Running(CliTest):
    def test_check(self):
        for name in EXAMPLES:
            text = self.good('run', name, '--backend', 'simulator', '--check')
            self.assertIn('  ok', text)
        self.good('run', 'softmax', '--backend', 'reference', '--check', '--set', 'K=100')

    def test_seeds(self):
        run = ['run', 'layer_norm', '--backend', 'simulator', '--set', 'M=7,N=33', '--seed']
        self.assertEqual(self.good(*run, 1), self.good(*run, 1))
        self.good(*run, (1 << 64) - 1)
        for seed in [-1, 1 << 64, '1.5']:
            self.bad(WRONG_USAGE, *run, seed, says='expected an integer from 0 to 2^64 - 1')

    def test_inputs_and_outputs_in_files(self):
        graph = self.write('fusion f {\n symbol M in [1, 64]\n symbol N in [1, 64]\n input x: f32[M, N] order [1, 0]\n'
                           ' input z: bf16[N]\n y = x * cast(z, dtype=f32)\n output y order [1, 0]\n'
                           ' r = z + 1\n output r\n}')
        x, z, out = self.path / 'x.npy', self.path / 'z.npy', self.path / 'new' / 'out'
        x.write_bytes(npy('<f4', [2, 3], struct.pack('<6f', 1, 2, 3, 4, 5, 6)))
        z.write_bytes(npy('<V2', [3], struct.pack('<3H', 0x3f80, 0x4000, 0xc000)))  # 1, 2, -2
        for backend in ['reference', 'simulator']:
            for more in [['--offset', 1], ['--repeat', 3]]:
                text = self.good('run', graph, '--input', f'x={x}', '--input', f'z={z}', '--output-dir', out,
                                 '--backend', backend, '--check', *more)
                self.assertIn('with M = 2, N = 3', text)
                elements = (out / 'y.npy').read_bytes()[-24:]
                self.assertEqual(struct.unpack('<6f', elements), (1, 4, -6, 4, 10, -12))
                self.assertEqual(struct.unpack('<3H', (out / 'r.npy').read_bytes()[-6:]), (0x4000, 0x4040, 0xbf80))
                self.assertIn(b"'<V2'", (out / 'r.npy').read_bytes())
        run = ['run', graph, '--backend', 'simulator']
        self.bad(WRONG_USAGE, *run, '--input', 'x', says='expected NAME=FILE')
        self.bad(WRONG_USAGE, *run, '--input', f'q={x}', says="no input 'q'; its inputs are x, z")
        self.bad(WRONG_USAGE, *run, '--input', f'x={x}', '--input', f'x={x}', says='given twice')
        self.bad(BAD_GRAPH, *run, '--input', f'x={self.path}/none.npy', says='No such file')
        self.bad(BAD_GRAPH, *run, '--input', f'z={x}', says="are '<f4', expected bf16")
        self.bad(BAD_GRAPH, *run, '--input', f'x={x}', '--set', 'M=3', says='has f32[2, 3], expected f32[3, 3]')
        x.write_bytes(npy('<f4', [6], bytes(24)))
        self.bad(BAD_GRAPH, *run, '--input', f'x={x}', says='has f32[6], expected')
        x.write_bytes(x.read_bytes()[:-1])
        self.bad(BAD_GRAPH, *run, '--input', f'x={x}', says='has 23 bytes of elements')
        x.write_bytes(npy('<f4', [65, 1], bytes(260)))
        self.bad(BAD_GRAPH, *run, '--input', f'x={x}', says='M is 65')
        self.bad(ENVIRONMENT, *run, '--output-dir', graph, says='cannot make the folder')

    def test_no_more_of_a_file_is_read_than_it_promises(self):
        graph = self.write(SUM)
        run = ['run', graph, '--backend', 'reference', '--input']
        self.bad(BAD_GRAPH, *run, 'x=/dev/zero', says='no .npy file')
        self.bad(BAD_GRAPH, 'segment', graph, '--load', '/dev/zero', says='/dev/zero is longer than')
        self.bad(BAD_GRAPH, *run, f'x={self.path}', says='Is a directory')
        file = npy('<f4', [2, 8], bytes(64))
        self.bad(BAD_GRAPH, *run, 'x=-', stdin=file + b'x', says='goes on behind the elements of f32[2, 8]')
        self.good(*run, 'x=-', stdin=file)
        huge = self.path / 'huge.npy'
        with open(huge, 'wb') as out:
            out.write(file)
            out.truncate(1 << 40)  # Without blocks on the disk.
        self.bad(BAD_GRAPH, *run, f'x={huge}', says='goes on behind')

    def test_sizes_that_nobody_gave_are_not_expected(self):
        graph = self.write(SUM)
        x = self.path / 'x.npy'
        x.write_bytes(npy('<f4', [16], bytes(64)))
        message = self.bad(BAD_GRAPH, 'run', graph, '--input', f'x={x}', says='has f32[16], expected f32[M, 8]')
        self.assertNotIn('M = ', message)

    def test_strides_by_default_and_from_files(self):
        x, out = self.path / 'x.npy', self.path / 'out'
        x.write_bytes(npy('<f4', [6, 4], struct.pack('<24f', *range(24))))
        for strides in ['[?, ?]', '[?, 1]', '[1, ?]', '[2, ?]']:
            graph = self.write(f'fusion f {{\n input x: f32[6, 4] strides {strides}\n y = copy(x)\n output y\n}}')
            run = ['run', graph, '--input', f'x={x}', '--output-dir', out, '--check', '--backend']
            for backend in ['reference', 'simulator']:
                self.good(*run, backend)
                self.assertEqual((out / 'y.npy').read_bytes()[-96:], x.read_bytes()[-96:], (strides, backend))
        run = ['run', self.write(graph.read_text().replace(strides, '[?, ?]')), '--backend', 'simulator']
        self.assertIn('x_stride0 = 4, x_stride1 = 1', self.good(*run))
        overlap = [*run, '--set', 'x_stride0=0,x_stride1=1']
        self.good(*overlap, '--check')
        self.bad(BAD_GRAPH, *overlap, '--input', f'x={x}', says='strides [0, 1] elements overlap')
        x.write_bytes(npy('<f4', [6, 4], struct.pack('<4f', 1, 2, 3, float('nan')) * 6))
        self.good(*overlap, '--input', f'x={x}', '--check')

    def test_strides_of_outputs_by_default(self):
        for strides, chosen in [('[?, 1]', 'y_stride0 = 8'), ('[1, ?]', 'y_stride1 = 4'),
                                ('[?, ?]', 'y_stride0 = 8, y_stride1 = 1'), ('[?, 2]', 'y_stride0 = 15')]:
            graph = self.write(f'fusion f {{\n input x: f32[4, 8]\n y = x * 2.0\n output y strides {strides}\n}}')
            for backend in ['reference', 'simulator']:
                self.assertIn(chosen, self.good('run', graph, '--check', '--backend', backend))

    def test_outputs_have_the_names_that_are_written(self):
        graph = self.write('fusion f {\n input x: f32[3]\n y = x[0:3]\n z = x * 2.0\n w = z[:]\n'
                           ' output y\n output z\n output w\n}')
        for backend in ['reference', 'simulator']:
            out = self.path / backend
            self.good('run', graph, '--backend', backend, '--check', '--output-dir', out)
            self.assertEqual(sorted(path.name for path in out.iterdir()), ['w.npy', 'y.npy', 'z.npy'])
            self.assertEqual((out / 'w.npy').read_bytes(), (out / 'z.npy').read_bytes())

    def test_repeat(self):
        self.assertIn('5 more runs: the same bits',
                      self.good('run', 'softmax', '--backend', 'simulator', '--repeat', 5, '--no-reference'))
        self.bad(WRONG_USAGE, 'run', 'softmax', '--no-reference', '--check', says='excludes')
        self.bad(WRONG_USAGE, 'run', 'softmax', '--repeat', -1)
        self.bad(WRONG_USAGE, 'run', 'softmax', '--offset', -1)

    def test_sizes_zero_and_one(self):
        graph = self.write(SUM.replace('[2, 64]', '[0, 64]'))
        for m in [0, 1, 64]:
            self.good('run', graph, '--backend', 'simulator', '--check', '--set', f'M={m}')

    def test_numbers(self):
        for value in ['abc', '-1', '1.5', '', '1000001']:
            self.bad(WRONG_USAGE, 'run', 'softmax', '--repeat', value, says=f"found '{value}', expected an integer from 0 to 1000000")
        for value in ['0', '-1', 'nan', 'inf', 'soon']:
            self.bad(WRONG_USAGE, 'bench', 'softmax', '--tune', '--tune-seconds', value, says=f'found {value}, expected seconds')

    def test_options_that_do_not_go_together(self):
        segment = ['segment', 'softmax']
        self.bad(WRONG_USAGE, *segment, '--no-compile', says='only --format html compiles')
        self.bad(WRONG_USAGE, *segment, '--format', 'svg', '--device', 'h200', says='text, json and html show schedules')
        self.bad(WRONG_USAGE, *segment, '--device', '', says='expected the name of a device')
        self.bad(WRONG_USAGE, *segment, '--narrow-edges', 'bf16', '--without', 'narrow', says='leaves no value narrow')
        self.bad(WRONG_USAGE, 'bench', 'softmax', '--tune-seconds', '5', says='requires --tune')

    def test_a_page_of_what_has_no_gpu_code(self):
        graph = self.write('fusion f {\n input a: f32[8, 8]\n y = exp(a) @ a\n output y\n}')
        page = self.path / 'x.html'
        self.good('segment', graph, '--format', 'html', '-o', page)
        self.assertTrue(page.read_text().startswith('<!DOCTYPE html>'))

    def test_symbols_that_nothing_mentions(self):
        graph = self.write('fusion f {\n symbol M in [1, 100]\n input x: f32[3]\n y = x + 1.0\n output y\n}')
        for command in [['segment', graph, '--device', 'h200'], ['segment', graph, '--format', 'json', '--device', 'h200'],
                        ['segment', graph, '--format', 'html', '--no-compile', '-o', self.path / 'x.html'],
                        ['run', graph, '--backend', 'simulator', '--check']]:
            self.good(*command)
            self.good(*command, '--set', 'M=3')

    def test_nothing_to_check(self):
        graph = self.write('fusion f {\n input x: f32[3]\n}')
        self.good('verify', graph)
        self.bad(BAD_GRAPH, 'run', graph, '--check', says='has no output')

    def test_extents_that_are_negative_at_these_sizes(self):
        graph = self.write(SUM.replace('f32[M', 'f32[M - 5'))
        self.good('run', graph, '--set', 'M=5', '--backend', 'simulator', '--check')
        self.bad(BAD_GRAPH, 'run', graph, '--set', 'M=4', says='M - 5')

    def test_constraints(self):
        graph = self.write('fusion f {\n symbol M in [1, 64]\n symbol N in [1, 64]\n input x: f32[M]\n input z: f32[N]\n'
                           ' y = reshape(x, sizes=[N, 2])\n output y\n w = exp(z)\n output w\n}')
        self.bad(BAD_GRAPH, 'run', graph, '--set', 'M=9,N=4', says='M = 9')
        self.good('run', graph, '--set', 'M=8,N=4', '--backend', 'simulator', '--check')


class Environment(CliTest):
    def test_no_gpu(self):
        if seam('run', 'layer_norm', '--backend', 'cuda').returncode == GOOD:
            self.skipTest('there is a GPU')
        self.bad(ENVIRONMENT, 'run', 'layer_norm', '--backend', 'cuda', says='CUDA driver')
        self.bad(ENVIRONMENT, 'bench', 'layer_norm', says='CUDA driver')
        self.bad(ENVIRONMENT, 'bench', 'layer_norm', '--tune', says='CUDA driver')

    def test_no_nvrtc(self):
        env = {'SEAM_NVRTC': str(self.path / 'libnvrtc.so')}
        self.bad(ENVIRONMENT, 'compile', 'layer_norm', '-o', self.path, env=env, says='SEAM_NVRTC')
        for name in ['libnvrtc.so.13', 'libnvrtc.so.12']:
            (self.path / name).write_text('no library')
        # Where another one is found, that serves.
        result = seam('compile', 'layer_norm', '-o', self.path, env={'LD_LIBRARY_PATH': str(self.path), 'SEAM_NVRTC': ''})
        if result.returncode != GOOD:
            self.assertEqual(result.returncode, ENVIRONMENT)
            self.assertIn(f'NVRTC could not be opened: {self.path}/libnvrtc.so.13', result.stderr.decode())

    def test_no_space(self):
        self.bad(ENVIRONMENT, 'print', 'softmax', '-o', '/dev/full', says='No space left')
        self.bad(ENVIRONMENT, 'print', 'softmax', '-o', self.path / 'no' / 'such' / 'folder', says='cannot write')
        with open('/dev/full', 'wb') as full:
            self.bad(ENVIRONMENT, 'ops', stdout=full, says='standard output')
            self.bad(ENVIRONMENT, '--help', stdout=full, says='standard output')

    def test_what_cannot_be_written_leaves_the_old_file(self):
        def limited(*arguments, **options):
            result = subprocess.run([SEAM, *map(str, arguments)], capture_output=True, timeout=300, **options,
                                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)))
            self.assertEqual(result.returncode, ENVIRONMENT, result.stderr)
            self.assertIn(b'cannot write', result.stderr)
            self.assertIn(b'File too large', result.stderr)
        cut, out = self.path / 'cut.html', self.path / 'out'
        cut.write_text('old')
        limited('segment', 'softmax', '--format', 'svg', '-o', cut)
        limited('run', 'softmax', '--backend', 'reference', '--set', 'Q=100', '--output-dir', out)
        self.assertEqual(cut.read_text(), 'old')
        self.assertEqual(sorted(path.name for path in self.path.rglob('*')), ['cut.html', 'out'])

    def test_files_are_replaced_as_they_were(self):
        graph = self.write(SUM)
        graph.chmod(0o640)
        self.good('print', graph, '-o', graph)
        self.assertEqual(graph.stat().st_mode & 0o777, 0o640)
        printed = graph.read_text()
        self.assertNotEqual(printed, SUM)
        new, link, fifo = self.path / 'new', self.path / 'link', self.path / 'fifo'
        mask = os.umask(0o027)
        self.good('print', graph, '-o', new)
        os.umask(mask)
        self.assertEqual(new.stat().st_mode & 0o777, 0o640)
        new.write_text('old')
        link.symlink_to('new')
        self.good('print', graph, '-o', link)
        self.assertTrue(link.is_symlink())
        self.assertEqual(new.read_text(), printed)
        os.mkfifo(fifo)
        reader = subprocess.Popen(['cat', fifo], stdout=subprocess.PIPE)
        self.good('print', graph, '-o', fifo)
        self.assertEqual(reader.communicate(timeout=60)[0].decode(), printed)
        self.assertEqual(self.good('print', graph, '-o', '/dev/stdout'), printed)
        self.good('print', graph, '-o', '/dev/null')

    def test_what_is_wrong_with_the_cache_is_said_once(self):
        def warning(*arguments, **env):
            result = seam(*arguments, env=env)
            if result.returncode == ENVIRONMENT:
                self.skipTest(result.stderr.decode())
            self.assertEqual(result.returncode, GOOD, result.stderr)
            return result.stderr.decode()
        (self.path / 'file').write_text('')
        run = ['run', 'softmax', '--backend', 'simulator', '--no-reference']
        unread = 'seam: warning: Tuned schedules cannot be read from '
        self.assertEqual(warning(*run, SEAM_CACHE_DIR=f'{self.path}/file'), f'{unread}{self.path}/file: Not a directory.\n')
        number = 'seam: warning: SEAM_CACHE_MB is no number of megabytes ("x"): the cache on disk keeps to 512.\n'
        self.assertEqual(warning(*run, SEAM_CACHE_MB='x'), number)
        nowhere = dict(SEAM_CACHE_DIR='', XDG_CACHE_HOME='', HOME='')
        self.assertIn('warning: Tuned schedules are not kept: set SEAM_CACHE_DIR', warning(*run, **nowhere))
        self.assertEqual(warning(*run, '--no-tuned', **nowhere), '')
        self.assertEqual(warning('run', 'softmax', '--backend', 'reference', **nowhere), '')
        self.assertEqual(warning(*run, SEAM_CACHE_DIR='off', HOME=''), '')
        self.assertEqual(warning(*run, SEAM_CACHE_DIR=f'{self.path}/new'), '')
        compile = ['compile', 'softmax', '-o', self.path / 'out']
        self.assertEqual(warning(*compile, SEAM_CACHE_DIR=f'{self.path}/new', SEAM_CACHE_MB='x'), number)
        self.assertEqual(warning(*compile, SEAM_CACHE_DIR=f'{self.path}/new'), '')
        self.assertIn('warning: Compiled kernels are not kept in /proc/seam', warning(*compile, SEAM_CACHE_DIR='/proc/seam'))

    def test_compile(self):
        env = {'SEAM_CACHE_DIR': str(self.path / 'cache')}
        folder = self.path / 'new' / 'out'
        result = seam('compile', 'quantised_layer_norm', '--arch', 'sm_90a', '-o', folder, env=env)
        if result.returncode == ENVIRONMENT:
            self.skipTest(result.stderr.decode())
        self.assertEqual(result.returncode, GOOD, result.stderr)
        report = json.loads((folder / 'report.json').read_text())
        self.assertEqual(report['arch'], 'sm_90a')
        kernels = [kernel for group in report['groups'] for kernel in group['kernels']]
        self.assertGreaterEqual(len(kernels), 2)
        for kernel in kernels:
            self.assertIn('__global__', (folder / kernel['cuda']).read_text())
            self.assertTrue((folder / kernel['cubin']).read_bytes().startswith(b'\x7fELF'))
            self.assertIn(kernel['name'], (folder / kernel['kernel_ir']).read_text())
            self.assertGreater(kernel['registers'], 0)
            self.assertGreater(kernel['compile_ms'], 0)
            self.assertFalse(kernel['from_cache'])
            for key in ['smem_bytes', 'spill_store_bytes', 'spill_load_bytes']:
                self.assertGreaterEqual(kernel[key], 0)
        self.assertIn('registers', (folder / 'report.txt').read_text())
        self.good('compile', 'quantised_layer_norm', '--arch', 'sm_90a', '-o', folder, env=env)
        report = json.loads((folder / 'report.json').read_text())
        self.assertTrue(all(kernel['from_cache'] for group in report['groups'] for kernel in group['kernels']))
        for group in report['groups']:
            self.good('verify', folder / group['file'])
        (self.path / 'file').write_text('')
        self.bad(ENVIRONMENT, 'compile', 'layer_norm', '-o', self.path / 'file', env=env, says='cannot make the folder')


if __name__ == '__main__':
    unittest.main()

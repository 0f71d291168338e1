#!/usr/bin/env python3
"""What the documentation says is true: links lead somewhere, quoted commands print what is quoted, figures are the newest.

In the pages, a block marked `console` holds command lines, after `$ `, and what they print; a line `...` stands for any
lines. A block marked `seam` is a graph, which the commands find under the graph's name. A block marked `cpp` in the
README is part of a program in examples/. Comments in C++ name pages, and sections of them behind, in quotes. ctest sets
SEAM_BINARY to the tool; without it the commands are not run.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SEAM = os.environ.get('SEAM_BINARY')
ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / 'README.md', *sorted((ROOT / 'docs').rglob('*.md'))]
FOLDERS = ['ir', 'segmenter', 'scheduler', 'runtime', 'tools', 'benchmarks', 'tests']  # With comments that name pages.
TOOL = 'build/tools/seam'  # As the pages write it.


def blocks(text):
    """(language, content) of every fenced block."""
    return re.findall(r'^```(\w*)\n(.*?)^```$', text, re.MULTILINE | re.DOTALL)


def without_blocks(text):
    return re.sub(r'^```.*?^```$', '', text, flags=re.MULTILINE | re.DOTALL)


def anchor(heading):
    """As it is made from the words on the usual sites."""
    return re.sub(r'[^\w\- ]', '', heading.lower()).replace(' ', '-')


def anchors(text):
    return {anchor(heading) for heading in re.findall(r'^#+ +(.*?) *$', without_blocks(text), re.MULTILINE)}


def sessions(block):
    """(command, output lines) of every command of a console block."""
    result = []
    for line in block.splitlines():
        if line.startswith('$ '):
            result.append((line[2:], []))
        else:
            result[-1][1].append(line)
    return result


def matches(quoted, printed):
    pattern = ''.join('(?:.*\n)*' if line == '...' else re.escape(line) + '\n' for line in quoted)
    return re.fullmatch(pattern, printed) is not None


class DocsTest(unittest.TestCase):
    def test_links(self):
        for page in PAGES:
            for target in re.findall(r'\]\(([^)\s]+)\)', without_blocks(page.read_text())):
                if re.match(r'https?://', target):
                    continue
                with self.subTest(page=page.name, target=target):
                    name, _, place = target.partition('#')
                    file = page.parent / name if name else page
                    self.assertTrue(file.exists(), 'no such file')
                    if place:
                        self.assertIn(place, anchors(file.read_text()))

    def test_every_page_is_linked(self):
        """From the README; those of a folder from the page of the folder's name, beside it."""
        for page in PAGES[1:]:
            with self.subTest(page=page.name):
                index = ROOT / 'README.md' if page.parent == ROOT / 'docs' else page.parent.with_suffix('.md')
                self.assertIn(f'({page.relative_to(index.parent)})', index.read_text())

    def test_comments(self):
        """Pages that comments name are there, and so are the sections that they name behind them, in quotes."""
        count = 0
        for folder in FOLDERS:
            for file in sorted([*(ROOT / folder).rglob('*.cc'), *(ROOT / folder).rglob('*.h')]):
                text = re.sub(r'\n *// ?', ' ', file.read_text())
                for name, sections in re.findall(r'\b(docs/[\w/-]+\.md)((?:(?:,| and) "[^"]+")*)', text):
                    with self.subTest(file=str(file.relative_to(ROOT)), name=name, sections=sections):
                        self.assertTrue((ROOT / name).exists(), 'no such page')
                        page = (ROOT / name).read_text()
                        for section in re.findall('"(.*?)"', sections):
                            # A heading, or the words in italics that a paragraph begins with.
                            self.assertTrue(anchor(section) in anchors(page) or f'*{section}' in page, 'no such section')
                        count += 1
        self.assertGreater(count, 0)

    def test_programs(self):
        programs = [path.read_text() for path in (ROOT / 'examples').glob('*.cc')]
        for language, content in blocks((ROOT / 'README.md').read_text()):
            if language == 'cpp':
                self.assertTrue(any(content in program for program in programs), content)

    def test_figures(self):
        newest = max((ROOT / 'benchmarks' / 'results').glob('*_norms_*.json'),
                     key=lambda path: (json.loads(path.read_text())['date'], path.name))
        table = subprocess.run([sys.executable, ROOT / 'benchmarks' / 'norm_table.py', newest], check=True,
                               stdout=subprocess.PIPE, text=True).stdout
        readme = (ROOT / 'README.md').read_text()
        self.assertIn(table, readme)
        self.assertIn(f'`benchmarks/results/{newest.name}`', readme)

    def test_tuned_schedules(self):
        code = (ROOT / 'runtime' / 'tuned_schedules.h').read_text()
        number = re.search(r'kTunedFormat = (\d+);', code)[1]
        self.assertIn(f'"seam_tuned_schedule": {number},', (ROOT / 'docs' / 'runtime.md').read_text())

    @unittest.skipUnless(SEAM, 'SEAM_BINARY names no seam command')
    def test_commands(self):
        count = 0
        for page in PAGES:
            with tempfile.TemporaryDirectory() as folder:
                scratch = pathlib.Path(folder)
                (scratch / 'examples').symlink_to(ROOT / 'examples')
                (scratch / TOOL).parent.mkdir(parents=True)
                (scratch / TOOL).symlink_to(SEAM)
                for language, content in blocks(page.read_text()):
                    if language == 'seam':
                        name = re.search(r'^fusion (\w+)', content, re.MULTILINE).group(1)
                        (scratch / f'{name}.seam').write_text(content)
                    if language != 'console':
                        continue
                    for command, quoted in sessions(content):
                        with self.subTest(page=page.name, command=command):
                            done = subprocess.run(command, shell=True, cwd=scratch, text=True, timeout=300,
                                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                            self.assertTrue(matches(quoted, done.stdout), done.stdout)
                            count += 1
        self.assertGreater(count, 0)


if __name__ == '__main__':
    unittest.main()

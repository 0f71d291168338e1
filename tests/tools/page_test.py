#!/usr/bin/env python3
"""The HTML page of a segmentation in a real browser, headless: what is shown, what a click does, how fast it is drawn.

Needs Selenium and Chromium (on Debian chromium-driver and python3-selenium); exits with 77, which ctest counts as
skipped, where they are not installed. ctest sets SEAM_BINARY to the tool. SEAM_SCREENSHOTS names a folder for pictures.
"""
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    webdriver = None

SEAM = os.environ.get('SEAM_BINARY')
BROWSER = next(filter(None, map(shutil.which, ['chromium', 'chromium-browser', 'google-chrome'])), None)
DRIVER = shutil.which('chromedriver')
SCREENSHOTS = os.environ.get('SEAM_SCREENSHOTS')

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

# Names and text that would end the page's script, were they not written with care.
AWKWARD = '''fusion awkward {
  input a: f32[64]
  b = exp(a)  # </script><img src=x onerror=alert(1)>
  s = sum(b)
  c = b / s
  output c
}
'''


def large_graph(num_exprs):
    """Groups of some elementwise operations between matmuls, with edges that skip some of them."""
    dice = random.Random(1)
    lines, value, ends = ['fusion large {', '  input x: f32[1024, 64]', '  input w: f32[64, 64]'], 'x', ['x']
    count = 0

    def add(text):
        nonlocal value, count
        lines.append(f'  a{count} = {text}')
        value = f'a{count}'
        count += 1

    while count < num_exprs:
        for _ in range(dice.randint(2, 6)):
            add(f'{dice.choice(["exp", "sin", "tanh", "abs"])}({value})')
        add(f'{value} + {dice.choice(ends[-8:])}')
        add(f'matmul({value}, w)')
        ends.append(value)
    return '\n'.join([*lines, f'  output {value}', '}', ''])


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.folder.name)
        cls.share = cls.path / 'share.seam'
        cls.share.write_text(SHARE)
        options = Options()
        options.binary_location = BROWSER
        for argument in ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage',
                         '--window-size=1500,950', f'--user-data-dir={cls.path}/profile',
                         # A request to anywhere would fail and be in the log.
                         '--host-resolver-rules=MAP * ~NOTFOUND']:
            options.add_argument(argument)
        options.set_capability('goog:loggingPrefs', {'browser': 'ALL'})
        cls.browser = webdriver.Chrome(service=Service(DRIVER), options=options)
        cls.browser.set_page_load_timeout(120)

    @classmethod
    def tearDownClass(cls):
        cls.browser.quit()
        cls.folder.cleanup()

    def tearDown(self):
        if SCREENSHOTS:
            self.browser.save_screenshot(str(pathlib.Path(SCREENSHOTS) / f'{self.id().split(".")[-1]}.png'))
        messages = [entry for entry in self.browser.get_log('browser') if entry['level'] in ('WARNING', 'SEVERE')]
        self.assertEqual(messages, [])

    def open(self, graph, *arguments, hash=''):
        page = self.path / 'page.html'
        subprocess.run([SEAM, 'segment', graph, '--format', 'html', '-o', page, *arguments], check=True, timeout=120)
        text = page.read_text()
        for outside in ['http://', 'https://', '@import', 'src=']:
            self.assertNotIn(outside, text.replace('http://www.w3.org/2000/svg', '').split('id="data"')[0])
        self.browser.get('about:blank')
        self.browser.get(f'file://{page}{hash}')
        self.settle()
        return text

    def settle(self):
        """Waits until what is asked for is drawn."""
        self.browser.execute_async_script(
            'const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()));')

    def one(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def click(self, selector):
        self.one(selector).click()
        self.settle()

    def side(self):
        return self.one('#side').text

    def data(self, expression):
        return self.browser.execute_script(f'return {expression}')

    def test_the_graph_is_drawn(self):
        self.open(self.share)
        self.assertEqual(self.one('h1').text, 'share')
        self.assertIn('2 kernels', self.one('.facts').text)
        self.assertEqual([node.get_attribute('id') for node in self.all('.node.group')], ['g0', 'g1'])
        self.assertGreaterEqual(len(self.all('.node.pill')), 2 + 2)
        self.assertIn('total: f32[], 4 B', self.one('.edge.border').text)
        self.assertIn('g0', self.side())
        box, canvas = self.one('#g0').rect, self.one('#graph').rect
        self.assertGreater(box['x'], canvas['x'])
        self.assertLess(box['y'] + box['height'], canvas['y'] + canvas['height'])

    def test_a_click_on_a_group(self):
        times = self.path / 'times.json'
        times.write_text('{"g1": 12.5}')
        self.open(self.share, '--times', times, '--device', 'a100')
        self.click('#g1')
        text = self.side()
        for part in ['g1', 'reduction', 'Schedule for a100', 'out = cast(part, dtype=f16)', 'Estimated time',
                     'Measured time\n12.5 \u00b5s', 'total: f32[]', 'from g0', 'to the caller', 'Borders',
                     'Kernels', 'g1_reduction']:
            self.assertIn(part, text)
        self.assertIn('selected', self.one('#g1').get_attribute('class'))
        sources = {summary.text: summary for summary in self.all('#side summary')}
        sources['Kernel IR'].click()
        self.settle()
        self.assertIn('kernel g1_reduction', self.one('#side pre').text)
        if 'CUDA C++' in sources:
            self.assertIn('Registers a thread', text)
            sources['CUDA C++'].click()
            self.settle()
            self.assertIn('__global__', self.one('#side pre').text)
        self.click('#back')
        self.assertNotIn('Expressions\n', self.side())
        self.assertEqual(self.all('.selected'), [])

    def test_a_click_on_a_border(self):
        self.open(self.share, '--no-compile')
        edge = self.one('.edge.border')
        ActionChains(self.browser).move_to_element(edge.find_element(By.CSS_SELECTOR, 'text')).click().perform()
        self.settle()
        self.assertEqual(self.one('.badge.reason').text, 'grid-barrier')
        why = self.one('#why').text
        self.assertIn('the reduction scheduler refuses it', why)
        self.assertIn('total = sum(e)', why)
        self.assertNotIn('`', why)
        self.assertIn('About\ntotal: f32[]', self.side())
        self.assertEqual(len(self.all('.node.selected')), 2)
        self.assertRegex(self.side(), r'Merge \d+, pass \w+')

    def assert_merges_lead_to_the_groups(self):
        """All steps together give the groups that are drawn."""
        after = self.data('[...parts_after(D.merges.length).values()]')
        drawn = self.data('D.groups.map(g => g.exprs.filter(x => !x.copy).map(x => x.id))')
        self.assertEqual(sorted(map(sorted, after)), sorted(map(sorted, drawn)))

    def test_merges_step_by_step(self):
        self.open(self.share, '--no-compile')
        oks = self.data('D.merges.map(m => m.ok)')
        self.assertIn(f'{sum(oks)} merges made, {len(oks) - sum(oks)} refused', self.one('#said').text)
        self.click('#first')
        self.assertIn(f'0 of {len(oks)}', self.one('#said').text)
        self.assertEqual(self.all('.mark.merged, .mark.refused'), [])

        def groups():
            return int(self.side().split('Groups now\n')[1].split('\n')[0])

        expected = groups()
        for step, ok in enumerate(oks, 1):
            self.click('#next')
            members, made = self.data(f'[D.merges[{step - 1}].members.length, (D.merges[{step - 1}].made || [0]).length]')
            expected -= members - made if ok else 0
            self.assertEqual(groups(), expected)
            said = ' '.join(self.one('#said').text.split())
            self.assertRegex(said, f'^{step} of {len(oks)} {"(merged|cut anew)" if ok else "refused"}, ')
            self.assertGreater(len(self.all('.mark.merged' if ok else '.mark.refused')), 0)
            self.assertEqual(len(self.all('#why')), 0 if ok else 1)
        self.assertEqual(expected, 2)
        self.assertFalse(self.one('#next').is_enabled())
        self.click('#previous')
        self.assertIn(f'{len(oks) - 1} of {len(oks)}', self.one('#said').text)
        self.one('body').send_keys('.')
        self.settle()
        self.assertIn(f'{len(oks)} of {len(oks)}', self.one('#said').text)
        self.assert_merges_lead_to_the_groups()
        self.click('#last')
        self.assertEqual(self.all('.node.merged, .node.refused, .mark.merged, .mark.refused'), [])

    def test_search(self):
        self.open(self.share, '--no-compile')
        self.one('body').send_keys('/')
        field = self.one('#find')
        field.send_keys('out')
        self.assertEqual(self.all('#hits button')[0].text, 'g1\nout = cast(part, dtype=f16)')
        field.send_keys(Keys.ENTER)
        self.settle()
        self.assertIn('g1', self.one('#side h2').text)
        self.assertEqual(self.one('#side .hit').text.split('\n')[-1], 'out = cast(part, dtype=f16)')
        self.assertEqual(len(self.all('#g1 .mark.found')), 1)
        field.clear()
        field.send_keys('no such thing')
        self.assertEqual(self.one('#hits').text, 'Nothing of that name')
        field.send_keys(Keys.ESCAPE)
        self.assertEqual(self.one('#hits').text, '')

    def test_values_and_moving_about(self):
        self.open(self.share, '--no-compile')
        self.click('.node.pill[data-value=x]')
        for part in ['f16[M, 64]', 'an input of the graph', 'g0']:
            self.assertIn(part, self.side())
        before = self.one('#g0').rect
        ActionChains(self.browser).drag_and_drop_by_offset(self.one('.node.pill[data-value=x]'), 60, 40).perform()
        self.settle()
        after = self.one('#g0').rect
        self.assertAlmostEqual(after['x'] - before['x'], 60, delta=2)
        self.assertEqual('x', self.one('#side h2').text)
        self.one('body').send_keys('+')
        self.settle()
        self.assertGreater(self.one('#g0').rect['width'], after['width'])
        self.click('#fit')
        self.assertAlmostEqual(self.one('#g0').rect['x'], before['x'], delta=2)

    def test_light_and_dark(self):
        self.open('softmax', '--no-compile')
        colours = set()
        for _ in range(2):
            colours.add(self.one('body').value_of_css_property('background-color'))
            self.click('#theme')
        self.assertEqual(len(colours), 2)

    def test_places_by_their_address(self):
        for hash, shown in [('#g1', 'g1'), ('#g0-g1', 'grid-barrier'), ('#step-1', 'Merge 1'), ('#v-total', 'total'),
                            ('#g77', 'share')]:
            self.open(self.share, '--no-compile', hash=hash)
            self.assertIn(shown, self.one('#side h2').text)

    def test_loaded_cuts_and_small_graphs(self):
        cut = self.path / 'cut.json'
        subprocess.run([SEAM, 'segment', 'softmax', '--format', 'json', '-o', cut], check=True)
        self.open('softmax', '--load', cut, '--no-compile')
        self.assertEqual(self.all('footer'), [], 'the merges are not in the file')
        graph = self.path / 'none.seam'
        graph.write_text('fusion none {\n  input x: f32[8]\n  output x\n}\n')
        self.open(graph)
        self.assertEqual(len(self.all('.node.pill')), 2)

    def test_awkward_text(self):
        graph = self.path / 'awkward.seam'
        graph.write_text(AWKWARD)
        self.open(graph, '--no-compile')
        self.assertEqual(self.one('h1').text, 'awkward')
        self.assertEqual(self.all('img'), [])

    def test_five_thousand_expressions(self):
        graph = self.path / 'large.seam'
        graph.write_text(large_graph(5000))
        self.open(graph, '--no-compile')
        groups, drawn = self.browser.execute_script('return [D.groups.length, drawn_nodes.size]')
        self.assertGreater(groups, 1000)
        self.assert_merges_lead_to_the_groups()
        self.assertLess(drawn, 100, 'what is out of view is not drawn')
        self.one('#find').send_keys('a2500 ', Keys.ENTER)
        self.settle()
        self.assertIn('a2500 = ', self.one('#side .hit').text)
        self.assertGreater(len(self.all('.mark.found')), 0)
        self.browser.execute_script('go_to_step(D.merges.length >> 1)')
        self.settle()
        self.assertGreater(len(self.all('.node.merged, .node.refused')), 0)
        self.click('#fit')
        self.assertGreater(self.browser.execute_script('return drawn_nodes.size'), groups)


if __name__ == '__main__':
    lacking = [name for name, found in [('Selenium (python3-selenium)', webdriver), ('Chromium', BROWSER),
                                        ('chromedriver (chromium-driver)', DRIVER),
                                        ('SEAM_BINARY', SEAM)] if not found]
    if lacking:
        print('Skipped: there is no', ', no '.join(lacking))
        sys.exit(77)
    unittest.main()

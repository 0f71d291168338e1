"""tools/check_layering must find what it is for: each case plants one violation, or none."""
import importlib.machinery
import importlib.util
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools" / "check_layering"
loader = importlib.machinery.SourceFileLoader("check_layering", str(SCRIPT))
check = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_layering", loader))
loader.exec_module(check)

# One header in every folder, for the planted lines to include.
HEADERS = [
    "ir/status.h", "ir/dtype.h", "ir/fusion.h", "ir/symbolic/sym_int.h", "ir/text/parser.h",
    "ir/reference/interpreter.h", "segmenter/segmenter.h", "segmenter/boost_graph.h",
    "scheduler/schedule.h", "scheduler/kernel/kernel.h", "runtime/executable.h", "runtime/codegen/emitter.h",
    "runtime/simulator/simulator.h", "runtime/cuda/nvrtc.h", "tests/support/graphs.h",
    "benchmarks/timing.h", "tools/flags.h",
]


def sentences(path, line):
    files = dict.fromkeys(HEADERS, "#pragma once\n")
    files[path] = "// First line.\n" + line + "\n"
    found = check.violations(files)
    for place, number, _ in found:
        assert (place, number) == (path, 2), found
    return [sentence for _, _, sentence in found]


class CheckLayeringTest(unittest.TestCase):
    def check_include(self, path, header, allowed, brackets=('""', "<>")):
        for left, right in brackets:
            line = f"  #  include {left}{header}{right}  // Why."
            with self.subTest(path=path, line=line):
                self.assertEqual(len(sentences(path, line)), 0 if allowed else 1)

    def test_every_pair_of_folders(self):
        order = {
            "ir/symbolic": "",
            "ir": "ir/symbolic",
            "ir/text": "ir ir/symbolic",
            "ir/reference": "ir ir/symbolic",
            "segmenter": "ir ir/symbolic ir/text ir/reference",
            "scheduler/kernel": "ir ir/symbolic ir/text ir/reference",
            "scheduler": "ir ir/symbolic ir/text ir/reference segmenter scheduler/kernel",
            "runtime/codegen": "ir ir/symbolic ir/text ir/reference scheduler/kernel",
            "runtime/simulator": "ir ir/symbolic ir/text ir/reference scheduler/kernel",
            "runtime/cuda": "",
            "runtime": "ir ir/symbolic ir/text ir/reference segmenter scheduler/kernel scheduler "
                       "runtime/codegen runtime/simulator runtime/cuda",
        }
        libraries = " ".join(order)
        order.update({"tests/ir": libraries + " tests/support tools", "benchmarks": libraries,
                      "tools": libraries})
        for folder, allowed in order.items():
            for header in HEADERS:
                target = header.rpartition("/")[0]
                if header == "ir/status.h" or (header == "ir/dtype.h" and folder == "ir/symbolic"):
                    continue
                self.check_include(f"{folder}/new.cc", header,
                                   target == folder or target in allowed.split())

    def test_status_is_open_to_all(self):
        for folder in ("ir/symbolic", "runtime/cuda"):
            self.check_include(f"{folder}/new.h", "ir/status.h", True)
        self.check_include("ir/symbolic/new.h", "ir/dtype.h", True)
        self.check_include("runtime/cuda/new.h", "ir/dtype.h", False)

    def test_headers_that_do_not_exist_and_new_folders(self):
        self.check_include("ir/new.h", "runtime/gone.h", False)
        self.check_include("ir/passes/new.h", "ir/fusion.h", False)
        self.check_include("ir/new.cc", "fusion.h", False, ['""'])
        self.check_include("ir/new.cc", "../ir/fusion.h", False)
        self.check_include("runtime/cuda/new.cc", "nvrtc.h", False, ['""'])

    def test_cuda_headers(self):
        for header in ("cuda.h", "nvrtc.h", "cuda_runtime.h", "cuda_fp16.h", "cuda/atomic"):
            self.check_include("runtime/cuda/new.cc", header, True, ["<>"])
            self.check_include("runtime/cuda/new.h", header, False)
            self.check_include("runtime/new.cc", header, False)
            self.check_include("tests/runtime/new.cc", header, False)

    def test_boost_and_json(self):
        self.check_include("segmenter/boost_graph.h", "boost/graph/graph_traits.hpp", True)
        self.check_include("segmenter/new.h", "boost/graph/graph_traits.hpp", False)
        self.check_include("segmenter/new.cc", "boost/graph/graph_traits.hpp", True)
        self.check_include("tests/support/new.h", "boost/graph/graph_traits.hpp", True)
        self.check_include("segmenter/new.h", "nlohmann/json.hpp", False)
        self.check_include("segmenter/new.cc", "nlohmann/json.hpp", True)
        self.check_include("ir/new.h", "absl/status/status.h", True)
        self.check_include("ir/new.h", "vector", True)

    def test_text_that_no_file_may_hold(self):
        for line in ("// TO" "DO: later", "# FIX" "ME", "XX" "X", "see /wo" "rk/notes", "cd '/t" "mp'",
                     "(/ho" "me/someone/x)", "/ro" "ot"):
            for path in ("ir/new.cc", "docs/new.md", "CMakeLists.txt"):
                self.assertEqual(len(sentences(path, line)), 1, line)
            self.assertEqual(sentences("tests/fuzz/corpus/new", line), [])

    def test_text_that_is_fine(self):
        for line in ("char name[] = \"a.XXXXXX\";", "mastodon TODOS", "../tmp/x", "out/home/x", "b/root",
                     "/usr/local/cuda/include", "$dir/tmp", "homework/rooted", "/* work */"):
            self.assertEqual(sentences("ir/new.cc", line), [], line)


if __name__ == "__main__":
    unittest.main()

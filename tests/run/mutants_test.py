#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The check of breakages, over trees, patches and outputs made up here; and the patches that there are."""

import contextlib
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.dont_write_bytecode = True
import mutants  # noqa: E402
import suites  # noqa: E402

PATCH = """# one is two
# suites: weir_unit_tests:A.*:B.* weir_python_tests
diff --git a/a.cpp b/a.cpp
--- a/a.cpp
+++ b/a.cpp
@@ -1 +1 @@
-int one = 1;
+int one = 2;
"""
PASSED = "[ RUN      ] A.B\n[==========] 2 tests from 1 test suite ran. (0 ms total)\n[  PASSED  ] 2 tests.\n"
SKIPPED = "x.cpp:1: Skipped\nno GPU\n[==========] 1 test from 1 test suite ran. (0 ms total)\n[  PASSED  ] 0 tests.\n"
FAILED = "[ RUN      ] A.B/x\nx.cpp:1: Failure\n[  FAILED  ] A.B/x, where GetParam() = 1 (2 ms)\n"


def mutant(name, text=PATCH, folder=None):
    path = pathlib.Path(folder or tempfile.gettempdir()) / f"{name}.patch"
    with unittest.mock.patch.object(pathlib.Path, "read_text", lambda self: text):
        return mutants.read_mutant(path)


class Names(unittest.TestCase):
    def test_the_first_two_lines_say_what_is_broken_and_who_sees_it(self):
        read = mutant("core-a")
        self.assertEqual((read.subject, read.group), ("one is two", "core"))
        self.assertEqual(read.suites, [("weir_unit_tests", "A.*:B.*"), ("weir_python_tests", "")])
        for text in ("", "subject\n# suites: a\n", "# subject\n", "# subject\n# suites:\n", "# subject\n# suites: a --b\n"):
            with self.assertRaises(ValueError):
                mutant("core-a", text)

    def test_names_and_shards(self):
        all_of_them = [mutant(name) for name in ("core-a", "core-b", "ipc-a", "ipc-b", "pool-a")]
        chosen = [read.name for read in mutants.choose(all_of_them, ["core", "pool-a"], "1/1")]
        self.assertEqual(chosen, ["core-a", "core-b", "pool-a"])
        shards = [mutants.choose(all_of_them, [], f"{index}/3") for index in (1, 2, 3)]
        self.assertEqual(sorted(read.name for shard in shards for read in shard), [read.name for read in all_of_them])
        for names, shard in ((["nothing"], "1/1"), ([], "0/3"), ([], "4/3")):
            with self.assertRaises(ValueError):
                mutants.choose(all_of_them, names, shard)

    def test_every_patch_can_be_read(self):
        for path in mutants.PATCHES.glob("*.patch"):
            self.assertNotEqual(mutants.read_mutant(path).files, ())

    # So that whoever changes the code hears at once of a patch that it leaves behind, and no breakage stays in it.
    @unittest.skipUnless(shutil.which("git"), "git is not installed")
    def test_every_patch_applies(self):
        environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(mutants.ROOT.parent)}
        stale = [path.name for path in sorted(mutants.PATCHES.glob("*.patch"))
                 if subprocess.run(["git", "apply", "--check", path], cwd=mutants.ROOT, env=environment,
                                   stderr=subprocess.DEVNULL).returncode]
        self.assertEqual(stale, [])


@unittest.skipUnless(shutil.which("git"), "git is not installed")
class Copies(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)
        self.tree = self.home / "tree"
        self.tree.mkdir()
        subprocess.run(["git", "init", "-q", self.tree], check=True)
        (self.tree / ".gitignore").write_text("build\n")
        (self.tree / "a.cpp").write_text("int one = 1;\n")
        (self.tree / "b.cpp").write_text("int two = 2;\n")
        (self.tree / "build").mkdir()
        (self.tree / "build" / "ignored").write_text("")
        self.copy = mutants.Copy(self.tree / "build" / "mutants" / "source", self.tree)
        self.copy.refresh()

    def patch(self, text):
        path = self.home / "core-a.patch"
        path.write_text(text)
        return mutants.read_mutant(path)

    def text(self, name="a.cpp"):
        return (self.copy.folder / name).read_text()

    def test_a_patch_is_applied_and_taken_back(self):
        with self.copy.broken(self.patch(PATCH)) as refused:
            self.assertEqual((refused, self.text()), ("", "int one = 2;\n"))
        self.assertEqual(self.text(), "int one = 1;\n")
        self.assertEqual((self.tree / "a.cpp").read_text(), "int one = 1;\n")

    def test_a_patch_that_does_not_apply_says_so(self):
        with self.copy.broken(self.patch(PATCH.replace("-int one = 1;", "-int one = 3;"))) as refused:
            self.assertIn("does not apply", refused)
        self.assertEqual(self.text(), "int one = 1;\n")

    def build_with(self, kept):
        """Builds without and with a patch, and takes back the latter. Returns what there is then, and its time."""
        build = suites.Build(self.home / "out")
        outputs = ["old.o", "new.o", "same.o", "gone.o", "lib.so", "lib.so.1", "build.ninja", "all"]
        build.folder.mkdir()
        os.utime(self.copy.folder / "a.cpp", ns=(10**18, 10**18))

        def write(name, text, time=None):
            (build.folder / name).write_text(text)
            if time:
                os.utime(build.folder / name, ns=(time, time))

        for name in ("old.o", "same.o", "gone.o", "lib.so.1", "build.ninja"):
            write(name, "without", 10**18 + 1)
        (build.folder / "lib.so").symlink_to("lib.so.1")
        build.keep(outputs, self.home / "kept")
        with self.copy.broken(self.patch(PATCH),
                              lambda time: build.take_back(outputs, time, self.home / "kept" if kept else None)) as refused:
            self.assertEqual(refused, "")
            self.assertGreater((self.copy.folder / "a.cpp").stat().st_mtime_ns, 10**18)
            for name in ("old.o", "new.o", "lib.so.1", "build.ninja"):
                write(name, "with")
            (build.folder / "gone.o").unlink()
            (build.folder / "lib.so").unlink()
            (build.folder / "lib.so").symlink_to("new.o")
        self.assertEqual((self.text(), (self.copy.folder / "a.cpp").stat().st_mtime_ns), ("int one = 1;\n", 10**18))
        return {path.name: (os.readlink(path) if path.is_symlink() else path.read_text(), path.stat().st_mtime_ns)
                for path in build.folder.iterdir()}

    def test_nothing_is_built_again_for_a_patch_that_was_taken_back(self):
        found = self.build_with(kept=True)
        self.assertEqual(found.pop("build.ninja")[0], "with")
        without = ("without", 10**18 + 1)
        self.assertEqual(found, {"old.o": without, "same.o": without, "gone.o": without, "lib.so.1": without,
                                 "lib.so": ("lib.so.1", 10**18 + 1)})

    def test_only_what_was_built_with_a_patch_of_includes_is_built_again(self):
        self.assertEqual(set(self.build_with(kept=False)), {"same.o", "build.ninja"})
        patch = PATCH.replace("-int one = 1;", '-#include "b.hpp"')
        self.assertEqual([self.patch(text).includes for text in (PATCH, patch)], [False, True])

    def test_what_is_built_anew_is_kept_anew(self):
        build = suites.Build(self.home / "out")
        build.folder.mkdir()
        for text in ("one", "two"):
            (build.folder / "a.o").write_text(text)
            build.keep(["a.o", "all"], self.home / "kept")
            self.assertEqual((self.home / "kept" / "a.o").read_text(), text)

    def test_what_cmake_reads_is_newer_than_before(self):
        (self.tree / "a.cmake").write_text("int one = 1;\n")
        self.copy.refresh()
        os.utime(self.copy.folder / "a.cmake", ns=(10**18, 10**18))
        with self.copy.broken(self.patch(PATCH.replace("a.cpp", "a.cmake")), self.fail) as refused:
            self.assertEqual(refused, "")
        self.assertGreater((self.copy.folder / "a.cmake").stat().st_mtime_ns, 10**18)

    def test_a_copy_follows_its_tree(self):
        self.assertEqual(sorted(os.listdir(self.copy.folder)), [".gitignore", "a.cpp", "b.cpp"])
        before = (self.copy.folder / "b.cpp").stat().st_mtime_ns
        (self.copy.folder / "a.cpp").write_text("left broken\n")
        (self.tree / "c.cpp").write_text("int three = 3;\n")
        self.copy.refresh()
        self.assertEqual((self.text(), self.text("c.cpp")), ("int one = 1;\n", "int three = 3;\n"))
        self.assertEqual((self.copy.folder / "b.cpp").stat().st_mtime_ns, before)
        (self.tree / "c.cpp").unlink()
        self.copy.refresh()
        self.assertFalse((self.copy.folder / "c.cpp").exists())


class Verdicts(unittest.TestCase):
    def test_googletest(self):
        for code, text, outcome in ((0, PASSED, "passed"), (0, SKIPPED, "skipped"), (77, "", "skipped"),
                                    (0, "[==========] 0 tests from 0 test suites ran. (0 ms total)\n", "nothing"),
                                    (1, FAILED, "failed"), (-6, FAILED, "crashed"), (3, "[ RUN      ] A.B", "crashed")):
            self.assertEqual(suites.read("gtest", code, text).outcome, outcome, text)
        self.assertEqual(suites.read("gtest", 0, SKIPPED).note, "no GPU")
        self.assertEqual(suites.read("gtest", 1, FAILED).test, "A.B/x")
        crashed = suites.read("gtest", -11, PASSED)
        self.assertEqual((crashed.test, crashed.note, crashed.caught), ("A.B", "SIGSEGV", True))

    def test_pytest(self):
        failed = "FAILED python/tests/test_a.py::test_b - assert 1\n==== 1 failed, 2 passed in 0.1s ====\n"
        for code, text, outcome in ((0, "=== 2 passed, 1 skipped in 0.1s ===\n", "passed"),
                                    (0, "SKIPPED [1] a.py:1: no torch\n=== 1 skipped in 0.1s ===\n", "skipped"),
                                    (5, "", "nothing"), (1, failed, "failed"), (-11, "a.py::b\n", "crashed")):
            self.assertEqual(suites.read("pytest", code, text).outcome, outcome, text)
        self.assertEqual(suites.read("pytest", 1, failed).test, "test_a.py::test_b")

    def test_filters(self):
        gtest = suites.Suite("a", ["program", "--gtest_output=xml:x"], {}, ".", 1)
        self.assertEqual(gtest.with_filter("A.*:B.*")[-1], "--gtest_filter=A.*:B.*")
        pytest = suites.Suite("a", ["python", "-m", "pytest", "tests"], {}, ".", 1)
        self.assertEqual(pytest.with_filter("one:two")[-2:], ["-k", "one or two"])

    def test_a_suite_of_which_ctest_runs_parts_is_whole(self):
        environment = {"name": "ENVIRONMENT", "value": ["A=1", "GTEST_TOTAL_SHARDS=3", "GTEST_SHARD_INDEX=0"]}
        with tempfile.TemporaryDirectory() as folder:
            build = suites.Build(folder)
            build.ask_ctest = lambda: [{"name": "a", "command": ["program"], "properties": [environment]}]
            self.assertEqual(build.suites()["a"].environment, {"A": "1"})

    def test_a_run_ends_in_time_with_all_that_it_started(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "log"
            slow = suites.Suite("a", ["sh", "-c", "echo '[ RUN      ] A.B'; sleep 600 & wait"], {}, folder, 1)
            verdict = suites.run(slow, "", 5, log)
            self.assertEqual((verdict.outcome, verdict.test, verdict.caught), ("timeout", "A.B", True))
            told = suites.Suite("a", ["sh", "-c", "exit $CODE"], {"CODE": "77"}, folder, 1)
            self.assertEqual(suites.run(told, "", 60, log).outcome, "skipped")

    def test_each_test_has_a_limit_of_its_own(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "log"
            says = suites.Suite("a", ["sh", "-c", "echo \"[       OK ] A.B/1 (${WEIR_TEST_SECONDS}00 ms)\"; "
                                      "echo '[       OK ] A.C (20 ms)'"], {"WEIR_TEST_SECONDS": "7"}, folder, 1)
            self.assertEqual(suites.run(says, "", 60, log).longest, 0.7)
            self.assertEqual(suites.run(says, "", 60, log, 22.6).longest, 2.3)


class Judging(unittest.TestCase):
    """Which suites are asked, and what their answers make of a mutant."""

    def judge(self, without, answers, compiles=True):
        check = mutants.Check(pathlib.Path(tempfile.gettempdir()))
        check.log = lambda name: name
        check.make = lambda targets, log: compiles
        check.needs = lambda name: []
        check.suites = {"weir_unit_tests": None, "weir_python_tests": None}
        check.without = {("weir_unit_tests", "A.*:B.*"): suites.Verdict(without[0], note="why"),
                         ("weir_python_tests", ""): suites.Verdict(without[1], note="why")}
        verdicts = iter(suites.Verdict(answer, "A.B", "SIGSEGV") for answer in answers)
        with unittest.mock.patch.object(suites, "run", lambda *arguments: next(verdicts)):
            return check.run_suites(mutant("core-a"))

    def test_outcomes(self):
        both = ("passed", "passed")
        self.assertEqual(self.judge(both, ["failed"]), ("caught", "by weir_unit_tests (A.B)"))
        self.assertEqual(self.judge(both, ["passed", "crashed"]),
                         ("caught", "by weir_python_tests (A.B: crashed, SIGSEGV)"))
        self.assertEqual(self.judge(both, ["passed", "passed"]), ("missed", "one is two"))
        self.assertEqual(self.judge(both, [], compiles=False)[0], "stale")
        self.assertEqual(self.judge(("skipped", "passed"), ["timeout"])[0], "caught")
        self.assertEqual(self.judge(("skipped", "passed"), ["passed"]), ("not judged", "weir_unit_tests: why"))

    def close(self, outcomes, known=(), wrong=()):
        results = [mutants.Result(mutant(f"core-{index}"), outcome, "what", 2) for index, outcome in enumerate(outcomes)]
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            code = mutants.close(results, dict.fromkeys(known, "because"), wrong)
        return code, output.getvalue()

    def test_the_end(self):
        code, text = self.close(["caught"] * 19 + ["missed", "not judged"], ["core-19"])
        self.assertEqual(code, 0, text)
        total = next(line.split() for line in text.splitlines() if line.startswith("total"))
        self.assertEqual(total, ["total", "19", "1", "1", "0", "95%", "2"])
        self.assertIn("core-19: because", text)
        for outcomes, known, wrong in ((["caught"] * 19 + ["missed"], [], []),  # nobody says why
                                       (["caught"] * 18 + ["missed"], ["core-18"], []),  # too few
                                       (["caught"] * 19 + ["stale"], [], []),
                                       (["caught"], [], ["no test matches"])):
            self.assertEqual(self.close(outcomes, known, wrong)[0], 1)

    def test_reasons_are_rows_of_a_table(self):
        text = f"x\n{mutants.MARK}\n\n| mutant | why |\n|---|---|\n| `core-a` | because |\n\n| `core-b` | no |\n"
        self.assertEqual(mutants.reasons(text)["core-a"], "because")
        self.assertNotIn("core-b", mutants.reasons(text))


if __name__ == "__main__":
    unittest.main()

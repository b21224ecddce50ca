#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The report of a test run, over results made up here: what counts, what is summed, what fails."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.dont_write_bytecode = True
import report  # noqa: E402

CONFORMANCE = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="3" excluded="4 × permanent: no address&#x0A;1 × this machine: no driver&#x0A;">
  <testsuite name="Every/Fill" tests="3" injected_failures="7">
    <testcase name="Whole/host_0_pageable" status="run" classname="Every/Fill">
      <properties><property name="injected_failures" value="10"/><property name="other" value="x"/></properties>
    </testcase>
    <testcase name="Whole/vulkan_0_device" status="run" classname="Every/Fill">
      <skipped message="this machine: no driver"/>
    </testcase>
    <testcase name="Other" status="notrun" classname="Every/Fill"/>
    <testcase name="Last/cuda_0_vmm" status="run" classname="Every/Fill">%s</testcase>
  </testsuite>
</testsuites>"""
PROGRAMS = """<testsuites excluded="3 × permanent: no address&#x0A;"><testsuite name="Programs" tests="1">
  <testcase name="Run" status="run" classname="Programs">
    <properties><property name="random_programs" value="2000"/></properties>
  </testcase></testsuite></testsuites>"""


class Report(unittest.TestCase):
    def run_report(self, failure="", codes=("0", "0"), parts=1):
        with tempfile.TemporaryDirectory() as folder:
            build = pathlib.Path(folder)
            results = build / "results"
            results.mkdir()
            lines = []
            for part in range(1, parts + 1):
                name = "conformance" if parts == 1 else f"conformance.{part}of{parts}"
                (results / f"{name}.xml").write_text(CONFORMANCE % failure)
                lines.append(f"{name}\t{codes[0]}\t{1.5 / part}")
            (results / "programs.xml").write_text(PROGRAMS)
            (results / "programs.tsv").write_text("\n".join([*lines, f"programs\t{codes[1]}\t2.5\n"]))
            output = io.StringIO()
            arguments = ["report.py", "--json", str(build / "out.json"), "--fact", "gpu=none", str(build)]
            with unittest.mock.patch.object(sys, "argv", arguments), contextlib.redirect_stdout(output):
                code = report.main()
            return code, output.getvalue(), json.loads((build / "out.json").read_text())

    def row(self, text, name):
        return next(line.split() for line in text.splitlines() if line.startswith(name + " "))

    def test_counts_and_sums(self):
        code, text, summary = self.run_report()
        self.assertEqual(code, 0)
        conformance, programs = summary["suites"]
        self.assertEqual(conformance, {"name": "conformance", "cases": 3, "passed": 2, "failed": 0, "skipped": 1,
                                       "excluded": 5, "reasons": 2, "injected_failures": 17, "seconds": 1.5})
        self.assertEqual(programs["random_programs"], 2000)
        self.assertEqual((programs["excluded"], programs["reasons"]), (3, 1))
        self.assertNotIn("injected_failures", programs)
        self.assertEqual(summary["total"], {"cases": 4, "passed": 3, "failed": 0, "skipped": 1, "excluded": 8, "reasons": 2,
                                            "injected_failures": 17, "random_programs": 2000})
        self.assertEqual(summary["excluded"], [
            {"reason": "permanent: no address", "cases": 7, "suites": ["conformance", "programs"]},
            {"reason": "this machine: no driver", "cases": 1, "suites": ["conformance"]}])
        self.assertEqual(summary["gpu"], "none")

    def test_processes_that_share_a_suite(self):
        _, _, whole = self.run_report()
        _, text, summary = self.run_report(parts=2)
        self.assertEqual([suite["name"] for suite in summary["suites"]], ["conformance", "programs"])
        shared, alone = summary["suites"][0], whole["suites"][0]
        for key in ("cases", "passed", "skipped", "injected_failures"):
            self.assertEqual(shared[key], 2 * alone[key], key)
        for key in ("excluded", "reasons", "seconds"):
            self.assertEqual(shared[key], alone[key], key)
        self.assertEqual(self.row(text, "conformance")[1], "6")

    def test_a_failure_of_one_process_that_shares(self):
        code, text, summary = self.run_report('<failure message="it broke"/>', codes=("1", "0"), parts=2)
        self.assertEqual(code, 1)
        self.assertEqual(summary["suites"][0]["failed"], 2)
        self.assertIn("conformance: Every/Fill.Last/cuda_0_vmm: it broke", text)

    def test_closing_table(self):
        _, text, _ = self.run_report()
        self.assertEqual(self.row(text, "suite"), "suite cases passed failed skipped excluded reasons injected failures "
                                                  "random programs seconds".split())
        self.assertEqual(self.row(text, "conformance"), ["conformance", "3", "2", "0", "1", "5", "2", "17", "0", "1.5"])
        self.assertEqual(self.row(text, "total"), ["total", "4", "3", "0", "1", "8", "2", "17", "2000", "4.0"])
        self.assertIn("  conformance: 1 × this machine: no driver\n", text)
        self.assertIn("\nExcluded:\n  permanent: no address: 7 cases of conformance, programs\n"
                      "  this machine: no driver: 1 case of conformance\n", text)
        self.assertNotIn("fuzz runs", text)

    def test_a_failure_is_the_exit_status(self):
        code, text, summary = self.run_report(failure='<failure message="a.cpp:1&#x0A;wrong bytes"/>', codes=("1", "0"))
        self.assertEqual(code, 1)
        self.assertEqual(summary["failures"], ["conformance: Every/Fill.Last/cuda_0_vmm: wrong bytes"])
        self.assertEqual(text.splitlines()[-4:], ["Failed:", f"  {summary['failures'][0]}", "",
                                                  "2 passed, 1 failed, 1 skipped"])

    def test_a_program_that_died_is_a_failure(self):
        code, _, summary = self.run_report(codes=("0", "139"))
        self.assertEqual(code, 1)
        self.assertEqual(summary["suites"][1]["failed"], 1)
        self.assertIn("ended abnormally after 1 cases", summary["failures"][0])

    def test_the_case_in_which_a_program_died(self):
        output = ("[ RUN      ] Pool.Grows\n[       OK ] Pool.Grows (3 ms)\n[ RUN      ] Pool.Shrinks\n"
                  "[  FAILED  ] Pool.Shrinks (0 ms)\n[ RUN      ] Pool.Waits\na line of it\n")
        with tempfile.TemporaryDirectory() as folder:
            results = pathlib.Path(folder)
            (results / "ctest.xml").write_text(
                '<testsuite><testcase name="unit" status="fail" time="300"><failure message="Subprocess aborted"/>'
                f"<system-out>{output}</system-out></testcase></testsuite>")
            [program] = report.read_programs(results)
        self.assertEqual(program, ("unit", "failed", 300.0, "Subprocess aborted in Pool.Waits"))
        self.assertEqual(report.test_at_the_end(output[:output.index("[ RUN      ] Pool.Waits")]), "")


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of the benchmarks, over results made up here and in bench_sample.json: names, medians, peers, goals."""

import json
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent / "benchmarks"))
sys.dont_write_bytecode = True
import table  # noqa: E402

SAMPLE = HERE / "bench_sample.json"
GOALS = {"machine": "H200", "quotients": [
    {"row": "cuda/streams/cold ÷ warm", "over": "cuda/streams/cold", "under": "cuda/streams/warm"}],
    "goals": [
    {"row": "cuda/pair/*", "most": 22, "unit": "ns"},
    {"row": "*/pair/*", "most": 0.03, "unit": "µs"},
    {"row": "*/threads/own/16", "least": 600e6, "unit": "/s"},
    {"row": "*/elsewhere/pending", "most": 120, "unit": "ns"},
    {"row": "cuda/streams/cold ÷ warm", "most": 1.03, "unit": "ratio", "anywhere": True},
    {"row": "*/bookkeeping/per buffer", "most": 128, "unit": "bytes", "anywhere": True},
    {"row": "*/trace/*/*p99", "most": 1, "unit": "µs"},
    {"row": "*/trace/*/reserved ÷ live", "most": 1.02, "unit": "ratio", "anywhere": True}]}
SAMPLE_TEXT = """\
row                                 weir  best peer                           ratio         goal
cuda/pair/4KiB                   19.0 ns     640 ns  cuMemAllocAsync tuned   33.7 ×      ≤ 22 ns  met
cuda/threads/own/16              610 M/s   2.10 M/s  cuMemAllocAsync tuned    290 ×    ≥ 600 M/s  met
cuda/elsewhere/pending            130 ns          –                               –     ≤ 120 ns  NOT met
cuda/random/10000                 900 µs    23.2 ms  cuMemAllocAsync tuned   25.8 ×            –  –
cuda/tails/allocate p99          41.0 ns          –                               –            –  –
cuda/tails/free p99.9             150 ns          –                               –            –  –
cuda/streams/warm                 510 µs          –                               –            –  –
cuda/streams/cold                 540 µs          –                               –            –  –
cuda/streams/cold ÷ warm           1.059          –                               –      ≤ 1.030  NOT met
host/pair/4KiB                   28.0 ns    14.0 ns  malloc                 0.500 ×      ≤ 30 ns  met
host/bookkeeping/per buffer  129.2 bytes          –                               –  ≤ 128 bytes  NOT met

3 goals met, 3 NOT met
  not run: vulkan/*: no Vulkan loader
  not run: cuMemAllocAsync tuned in cuda/streams/warm: this CUDA driver runs no kernels
  cuda/streams/warm, cuda/streams/cold: kernels of a million clocks
"""


def replay(p99, reserved, failures=0):
    operation = {"p50_ns": 30, "p99_ns": p99, "max_ns": 70000}
    return {"passes": [{"ratio": reserved, "failures": failures, "operations": [
        {"operation": "allocate", "part": "first half", **operation, "p99_ns": 9999},
        {"operation": "allocate", "part": "second half", **operation},
        {"operation": "allocate", "part": "all", **operation, "max_ns": 5_000_000},
        {"operation": "use", "part": "all", **operation}]}]}


class Tables(unittest.TestCase):
    def table(self, *results, goals=GOALS):
        with tempfile.TemporaryDirectory() as folder:
            paths = [pathlib.Path(folder) / str(index) for index in range(len(results))]
            for path, result in zip(paths, results):
                path.write_text(result if isinstance(result, str) else json.dumps(result))
            (pathlib.Path(folder) / "goals").write_text(json.dumps(goals))
            return table.read(paths, pathlib.Path(folder) / "goals")

    def sample(self, **context):
        result = json.loads(SAMPLE.read_text())
        result["context"].update(context)
        return result

    def verdicts(self, made):
        return {row.name: row.verdict(made.on_the_machine(), "H200") for row in made.rows.values()}

    def test_text(self):
        self.assertEqual(table.text_of(self.table(self.sample())), SAMPLE_TEXT)

    def test_goals_of_a_machine_are_not_judged_on_another(self):
        made = self.table(self.sample(**{"cuda device": "NVIDIA L4"}))
        self.assertEqual(self.verdicts(made)["cuda/pair/4KiB"], "(H200 goal)")
        self.assertEqual(self.verdicts(made)["cuda/elsewhere/pending"], "(H200 goal)")
        self.assertEqual(self.verdicts(made)["host/bookkeeping/per buffer"], "NOT met")
        self.assertIn("\n0 goals met, 2 NOT met, 4 are for an H200: here the ratio counts\n", table.text_of(made))

    def test_data(self):
        rows = {row["row"]: row for row in table.summary_of(self.table(self.sample()))["rows"]}
        pair = rows["cuda/pair/4KiB"]
        self.assertEqual(sorted(pair["weir_all"]), [18.0, 19.0, 40.0])  # the mean of them is left out
        self.assertEqual((pair["weir"], pair["best_peer"], pair["verdict"]), (19.0, "cuMemAllocAsync tuned", "met"))
        self.assertEqual(pair["peers"], {"cuMemAllocAsync tuned": 640.0, "cuMemAllocAsync default": 1100.0})
        self.assertEqual(rows["cuda/random/10000"]["weir"], 900_000)
        self.assertEqual(rows["cuda/streams/warm"]["not_run"],
                         {"cuMemAllocAsync tuned": "this CUDA driver runs no kernels"})

    def test_a_row_that_only_others_ran(self):
        result = self.sample()
        result["benchmarks"] = [run for run in result["benchmarks"] if "/pair/4KiB/weir" not in run["run_name"]]
        made = self.table(result)
        self.assertEqual(self.verdicts(made)["host/pair/4KiB"], "not run")
        self.assertIsNone(made.rows["host/pair/4KiB"].ratio())

    def test_names_of_newer_versions(self):
        run = {"run_name": "host/pair/4KiB/weir/min_time:0.050s/min_warmup_time:1/repeats:3/process_time/threads:2",
               "run_type": "iteration", "real_time": 1, "time_unit": "us"}
        skipped = {"run_name": "host/churn/1000/malloc", "run_type": "iteration", "skipped": "error",
                   "skip_message": "std::bad_alloc"}
        made = self.table({"benchmarks": [run, skipped]})
        self.assertEqual(made.rows["host/pair/4KiB"].values, {"weir": [1000]})
        self.assertEqual(made.rows["host/churn/1000"].missing, {"malloc": "std::bad_alloc"})

    def test_nothing_to_run_leaves_an_empty_file(self):
        self.assertEqual(len(self.table("", self.sample()).rows), 11)

    def test_traces(self):
        made = self.table(
            {"row": "cuda/trace/gpt", "who": "weir", "replay": [replay(900, 1.01), replay(1200, 1.03), replay(950, 1.015)]},
            {"row": "cuda/trace/gpt", "who": "cuda.async", "replay": [replay(4000, 1.5)]})
        self.assertEqual(made.rows["cuda/trace/gpt/allocate p99"].values, {"weir": [900, 1200, 950], "cuda.async": [4000]})
        self.assertEqual(made.rows["cuda/trace/gpt/allocate longest"].value(), 5_000_000)
        self.assertEqual(made.rows["cuda/trace/gpt/reserved ÷ live"].values, {"weir": [1.01, 1.03, 1.015]})
        self.assertNotIn("cuda/trace/gpt/use longest", made.rows)
        self.assertEqual(self.verdicts(made)["cuda/trace/gpt/reserved ÷ live"], "met")

    def test_a_trace_in_which_something_failed_has_no_figures(self):
        made = self.table({"row": "cuda/trace/gpt", "who": "weir", "replay": [replay(900, 0.1, failures=7)]})
        self.assertEqual(list(made.rows), ["cuda/trace/gpt/reserved ÷ live"])
        self.assertEqual(self.verdicts(made), {"cuda/trace/gpt/reserved ÷ live": "not run"})
        self.assertIn("not run: weir in cuda/trace/gpt/reserved ÷ live: 7 operations of the trace failed",
                      table.text_of(made))

    def test_amounts(self):
        for value, unit, text in ((0.44, "ns", "0.440 ns"), (999.4, "ns", "999 ns"), (999.6, "ns", "1.00 µs"),
                                  (1.5e9, "ns", "1.50 s"), (9e12, "ns", "9.00e+03 s"), (1.05e9, "/s", "1.05 G/s"),
                                  (128, "bytes", "128.0 bytes"), (1.0044, "ratio", "1.004"), (None, "ns", "–")):
            self.assertEqual(table.amount(value, unit), text)

    def test_a_goal_beside_the_best_peer(self):
        goals = {**GOALS, "goals": [{"row": "*/pair/*", "least": 1, "unit": "×", "anywhere": True},
                                    {"row": "*/threads/*", "least": 291, "unit": "×"},
                                    {"row": "*/elsewhere/*", "least": 1, "unit": "×"}]}
        made = self.table(self.sample(), goals=goals)
        verdicts = self.verdicts(made)
        self.assertEqual(verdicts["cuda/pair/4KiB"], "met")
        self.assertEqual(verdicts["host/pair/4KiB"], "NOT met")  # half as good as malloc
        self.assertEqual(verdicts["cuda/threads/own/16"], "NOT met")
        self.assertEqual(verdicts["cuda/elsewhere/pending"], "no peer")
        self.assertEqual(table.goal_text(made.rows["cuda/pair/4KiB"]), "≥ 1 ×")

    def test_a_goal_in_another_unit_than_its_row_is_refused(self):
        goals = {**GOALS, "goals": [{"row": "cuda/pair/*", "most": 22, "unit": "bytes"}]}
        with self.assertRaisesRegex(ValueError, "the goal of cuda/pair/4KiB is in bytes, the row in ns"):
            table.text_of(self.table(self.sample(), goals=goals))

    def test_the_goals_that_there_are(self):
        goals = json.loads(table.GOALS.read_text())
        for goal in goals["goals"]:
            self.assertEqual(("most" in goal) + ("least" in goal), 1, goal)
            self.assertIn(goal["unit"], table.SCALES, goal)
            self.assertEqual("least" in goal, goal["unit"] in ("/s", "×"), goal)
        for quotient in goals["quotients"]:
            self.assertTrue(any(goal["row"] == quotient["row"] for goal in goals["goals"]), quotient)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare the tables of docs/benchmarks.md with the measured run and the goals, and keep times out of other documents.

Each table stands below a line "<!-- NAME -->". A test that fails prints the lines that should be there; what a cell says
in words is the author's."""

import fnmatch
import json
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
sys.dont_write_bytecode = True
import table  # noqa: E402

DOCUMENT = ROOT / "docs" / "benchmarks.md"
RESULTS = ROOT / "benchmarks" / "results" / "bench-h200.json"
SHOWN = {"figures": RESULTS.name}  # a table, and the run whose figures it has
# What a user reads. Traces, decisions and internals have times of their own; backends, tests and examples have none.
WITHOUT_TIMES = ["README.md", "docs/tutorial.md", "docs/resources.md", "docs/interop.md", "docs/coming-from.md", "docs/contract.md"]
A_TIME = re.compile(r"\d\s?(ns|µs|M/s|GB/s)(?![\w/])")


def rows_of(results, goals):
    """name → Row, as benchmarks/table.py makes them, of a file that `./dev bench --json` wrote."""
    rows = {}
    for one in results["rows"]:
        row = rows[one["row"]] = table.Row(one["row"], one["unit"])
        row.values = {"weir": one["weir_all"], **{who: [value] for who, value in one["peers"].items()}}
        row.goal = next((goal for goal in goals["goals"] if fnmatch.fnmatchcase(row.name, goal["row"])), None)
    return rows


def met(row):
    return row.verdict(True, "") == "met"


def measured(row):
    return table.amount(row.value(), row.unit)


def range_of(row):
    """The median, and the least and the most of the repetitions where they read differently."""
    least, most = (table.amount(value, row.unit) for value in (min(row.values["weir"]), max(row.values["weir"])))
    return measured(row) + (f" ({least} … {most})" if least != most else "")


def figures(rows, names):
    for name in names:
        row = rows[name]
        peer = row.best_peer()
        yield f"| `{name}` | {measured(row)} | " + (f"{table.amount(peer[0], row.unit)}, {peer[1]} |" if peer else "– |")


def goals_lines(rows, goals):
    """A line for each goal: how many of its rows reach it, and the worst of them."""
    for goal in goals["goals"]:
        mine = [row for row in rows.values() if row.goal is goal and row.judged() is not None]
        if not mine:
            yield f"| `{goal['row']}` | was not measured | | |"
            continue
        worst = (min if "least" in goal else max)(mine, key=lambda row: row.judged())
        count = sum(map(met, mine))
        shown = table.times(worst.ratio()) if goal["unit"] == "×" else measured(worst)
        yield f"| `{goal['row']}` | {table.goal_text(worst)} | {count} of {len(mine)} | {shown} |"


def missed(rows):
    for row in rows.values():
        if row.goal and not met(row):
            yield f"| `{row.name}` | {range_of(row)} | {table.goal_text(row)} |"


def not_each_time(rows):
    """Rows whose median reaches the goal although a repetition does not."""
    for row in rows.values():
        bad = min if row.unit == "/s" else max
        if row.goal and met(row):
            worst = table.Row(row.name, row.unit, values={**row.values, "weir": [bad(row.values["weir"])]}, goal=row.goal)
            if not met(worst):
                yield f"| `{row.name}` | {range_of(row)} | {table.goal_text(row)} |"


def slower(rows):
    for row in rows.values():
        ratio = row.ratio()
        if ratio is not None and ratio < 1:
            peer, name = row.best_peer()
            yield f"| `{row.name}` | {measured(row)} | {table.amount(peer, row.unit)}, {name} |"


def lines_below(text, mark):
    """The lines of the table below "<!-- mark -->", without its heading."""
    lines = text.split(f"<!-- {mark} -->", 1)[1].strip().splitlines()
    end = next((i for i, line in enumerate(lines) if not line.startswith("|")), len(lines))
    return lines[2:end]


def cells(line, count):
    """The first `count` cells, as the start of the line."""
    return "|".join(line.split("|")[:count + 1]) + "|"


class Figures(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.text = DOCUMENT.read_text()
        self.results = json.loads(RESULTS.read_text())
        self.goals = json.loads(table.GOALS.read_text())
        self.rows = rows_of(self.results, self.goals)

    def compare(self, mark, wanted, count):
        there = [cells(line, count) for line in lines_below(self.text, mark)]
        self.assertEqual("\n".join(there), "\n".join(wanted), f"the table below <!-- {mark} --> of {DOCUMENT.name}")

    def test_verdicts_are_those_of_the_run(self):
        for one in self.results["rows"]:
            if one["goal"] or self.rows[one["row"]].goal:
                self.assertEqual(one["goal"], self.rows[one["row"]].goal, f"{one['row']}: measure again: ./dev bench")
                self.assertEqual(one["verdict"], self.rows[one["row"]].verdict(True, ""), one["row"])

    def test_figures(self):
        for mark, file in SHOWN.items():
            rows = rows_of(json.loads(RESULTS.with_name(file).read_text()), self.goals)
            names = [re.match(r"\| `([^`]+)`", line)[1] for line in lines_below(self.text, mark)]
            self.assertGreater(len(names), 0)
            self.compare(mark, list(figures(rows, names)), 3)

    def test_goals(self):
        self.compare("goals", list(goals_lines(self.rows, self.goals)), 4)

    def test_goals_that_are_missed(self):
        self.compare("goals missed", list(missed(self.rows)), 3)
        for line in lines_below(self.text, "goals missed"):
            self.assertTrue(line.split("|")[4].strip(), f"no reason: {line}")

    def test_goals_that_are_met_by_the_median_alone(self):
        self.compare("met by the median", list(not_each_time(self.rows)), 3)

    def test_rows_in_which_a_peer_is_faster(self):
        self.compare("a peer is faster", list(slower(self.rows)), 3)

    def test_the_run(self):
        self.assertIn(f"`{self.results['commit']}`", self.text)
        self.assertIn(self.results["date"][:10], self.text)

    def test_every_row_is_described(self):
        """Each measured row has a line in the table of rows, by its beginning."""
        described = {word for line in self.text.splitlines() if line.startswith("| `")
                     for word in re.findall(r"`([a-z-]+)/", line.split("|")[1])}
        for name in self.rows:
            self.assertIn(name.split("/")[1], described, f"{name}: no line below \"## Rows\" says what it does")

    def test_times_stand_in_one_place(self):
        for name in WITHOUT_TIMES:
            for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
                self.assertIsNone(A_TIME.search(line), f"{name}:{number}: measured times are in docs/benchmarks.md: {line}")

    # The rules themselves.

    def test_what_a_line_says(self):
        goals = {"goals": [{"row": "a/x/*", "most": 22, "unit": "ns"}, {"row": "a/y", "least": 5, "unit": "/s"},
                           {"row": "a/z", "least": 1, "unit": "×"}]}
        one = {"unit": "ns", "peers": {}}
        rows = rows_of({"rows": [{**one, "row": "a/x/1", "weir_all": [20.0, 21.0, 30.0], "peers": {"malloc": 10.0}},
                                 {**one, "row": "a/x/2", "weir_all": [23.0]},
                                 {**one, "row": "a/y", "weir_all": [6.0], "unit": "/s"},
                                 {**one, "row": "a/z", "weir_all": [4.0, 9.0], "peers": {"RMM pool": 8.0}}]}, goals)
        self.assertEqual(list(goals_lines(rows, goals)), ["| `a/x/*` | ≤ 22 ns | 1 of 2 | 23.0 ns |",
                                                          "| `a/y` | ≥ 5 /s | 1 of 1 | 6.00 /s |",
                                                          "| `a/z` | ≥ 1 × | 1 of 1 | 1.23 × |"])
        self.assertEqual(list(missed(rows)), ["| `a/x/2` | 23.0 ns | ≤ 22 ns |"])
        self.assertEqual(list(not_each_time(rows)), ["| `a/x/1` | 21.0 ns (20.0 ns … 30.0 ns) | ≤ 22 ns |",
                                                      "| `a/z` | 6.50 ns (4.00 ns … 9.00 ns) | ≥ 1 × |"])
        self.assertEqual(list(slower(rows)), ["| `a/x/1` | 21.0 ns | 10.0 ns, malloc |"])
        self.assertEqual(list(figures(rows, ["a/y"])), ["| `a/y` | 6.00 /s | – |"])
        self.assertTrue(A_TIME.search("takes 14 ns, and") and A_TIME.search("33 µs."))
        self.assertIsNone(A_TIME.search("at most 16 a second, 2 MiB, 1 s, 100 ms"))


if __name__ == "__main__":
    unittest.main()

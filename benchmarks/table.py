#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The benchmarks as one table: row, weir, best peer, ratio, goal, met or not.

    table.py RESULT.json...

RESULT is what a benchmark program wrote (--benchmark_out), or a replay of a trace as run.py keeps it. How a
program names its rows and says what they mean stands in support/row.hpp. Goals are in goals.json.
"""

import dataclasses
import fnmatch
import json
import pathlib
import re
import statistics
import sys

GOALS = pathlib.Path(__file__).with_name("goals.json")
BACKENDS = ("cuda", "vulkan", "host")
SCALES = {"ns": ("ns", 1.0), "us": ("ns", 1e3), "µs": ("ns", 1e3), "ms": ("ns", 1e6), "s": ("ns", 1e9),
          "/s": ("/s", 1.0), "bytes": ("bytes", 1.0), "ratio": ("ratio", 1.0), "×": ("×", 1.0)}
# What Google Benchmark adds behind the name that a benchmark was registered with.
ADDED = re.compile(r"(/(min_time|min_warmup_time|iterations|repeats|threads):[^/]*|/(real|manual|process)_time)+$")


@dataclasses.dataclass
class Row:
    name: str
    unit: str = "ns"  # ns, /s, bytes, ratio
    place: tuple = ()  # rows are listed in this order
    values: dict = dataclasses.field(default_factory=dict)  # by allocator, one for each repetition
    missing: dict = dataclasses.field(default_factory=dict)  # by allocator: why it was not run
    notes: list = dataclasses.field(default_factory=list)
    goal: dict | None = None

    def value(self, who="weir"):
        return statistics.median(self.values[who]) if self.values.get(who) else None

    def best_peer(self):
        """(value, name), or None when nobody else did it."""
        peers = [(self.value(who), who) for who in self.values if who != "weir"]
        if not peers:
            return None
        return max(peers) if self.unit == "/s" else min(peers)

    def ratio(self):
        """How many times better than the best peer weir is; below 1: worse."""
        weir, peer = self.value(), self.best_peer()
        if not weir or not peer or not peer[0]:
            return None
        return weir / peer[0] if self.unit == "/s" else peer[0] / weir

    def verdict(self, on_the_machine, machine):
        """met, NOT met, or why that is not said."""
        if self.value() is None:
            return "not run"
        if not self.goal:
            return "–"
        if not on_the_machine and not self.goal.get("anywhere"):
            return f"({machine} goal)"
        measured, limit = self.judged(), self.goal_value()
        if measured is None:
            return "no peer"
        good = measured >= limit if "least" in self.goal else measured <= limit
        return "met" if good else "NOT met"

    def judged(self):
        """What the goal is about: the value, or for a goal in × how many times better than the best peer it is."""
        return self.ratio() if self.goal["unit"] == "×" else self.value()

    def goal_value(self):
        unit, scale = SCALES[self.goal["unit"]]
        if unit not in (self.unit, "×"):
            raise ValueError(f"the goal of {self.name} is in {self.goal['unit']}, the row in {self.unit}")
        return self.goal.get("most", self.goal.get("least")) * scale


class Table:
    """Rows of any number of results, with the goals that they have."""

    def __init__(self, goals):
        self.rows = {}
        self.context = {}
        self.goals = goals

    def row(self, name, unit, place):
        row = self.rows.get(name)
        if row is None:
            row = self.rows[name] = Row(name, unit, place)
            goals = self.goals["goals"]
            row.goal = next((goal for goal in goals if fnmatch.fnmatchcase(name, goal["row"])), None)
        return row

    def add(self, result, program=0):
        """One result file's content."""
        if "replay" in result:
            self.add_replay(result, program)
            return
        self.context.update(result.get("context", {}))
        for run in result.get("benchmarks", []):
            if run.get("run_type") != "aggregate":
                self.add_run(run, program)

    def add_run(self, run, program):
        name, _, who = ADDED.sub("", run["run_name"]).rpartition("/")
        place = (program, run.get("family_index", 0))
        if run.get("error_occurred") or run.get("skipped"):
            why = run.get("error_message") or run.get("skip_message") or "no reason"
            self.row(name, "ns", place).missing[who] = why
            return
        for part, value, unit in measured(run):
            row = self.row(name + part, unit, place)
            row.unit, row.place = unit, min(row.place, place)
            row.values.setdefault(who, []).append(value)
            if run.get("label") and run["label"] not in row.notes:
                row.notes.append(run["label"])

    def add_replay(self, result, program):
        """Times of the second half, which is warm; the longest of all; what weir reserved for a live byte."""
        for replay in result["replay"]:
            first = replay["passes"][0]
            if first["failures"]:  # its figures are not those of the trace
                row = self.row(f"{result['row']}/reserved ÷ live", "ratio", (program, 0))
                row.missing[result["who"]] = f"{first['failures']} operations of the trace failed"
                continue
            for operation in first["operations"]:
                if operation["operation"] not in ("allocate", "close"):
                    continue
                name = f"{result['row']}/{operation['operation']} "
                if operation["part"] == "second half":
                    self.put(result, name + "p50", "ns", operation["p50_ns"], program)
                    self.put(result, name + "p99", "ns", operation["p99_ns"], program)
                if operation["part"] == "all":
                    self.put(result, name + "longest", "ns", operation["max_ns"], program)
            if result["who"] == "weir":
                self.put(result, f"{result['row']}/reserved ÷ live", "ratio", first["ratio"], program)

    def put(self, result, name, unit, value, program):
        self.row(name, unit, (program, 0)).values.setdefault(result["who"], []).append(value)

    def finish(self):
        """Once everything is added: rows that follow from others; what was not run of rows that have values is said."""
        for quotient in self.goals.get("quotients", []):
            over, under = (self.rows.get(quotient[key]) for key in ("over", "under"))
            if over and under and over.value() and under.value():
                row = self.row(quotient["row"], "ratio", max(over.place, under.place))
                row.values["weir"] = [over.value() / under.value()]
        backends = {name: index for index, name in enumerate(BACKENDS)}
        order = lambda row: (backends.get(row.name.split("/")[0], len(backends)), row.place)  # noqa: E731
        self.rows = {row.name: row for row in sorted(self.rows.values(), key=order)}

    def on_the_machine(self):
        return self.goals["machine"] in self.context.get("cuda device", "")


def measured(run):
    """(what follows the row's name, value, unit) of each thing that a run measured."""
    parts = []
    for key, value in run.items():
        what, _, unit = key.rpartition("_")
        if what and unit in ("ns", "bytes", "ratio") and isinstance(value, (int, float)):
            parts.append(("/" + what, value, unit))
    if parts:
        return parts
    if "seconds_each" in run:
        return [("", run["seconds_each"] * 1e9, "ns")]
    if "items_per_second" in run:
        return [("", run["items_per_second"], "/s")]
    return [("", run["real_time"] * SCALES[run["time_unit"]][1], "ns")]


def amount(value, unit):
    """Three digits and the unit in which a person would say it: 18.9 ns, 1.35 ms, 612 M/s, 96.0 bytes, 1.004."""
    if value is None:
        return "–"
    if unit == "ratio":
        return f"{value:.3f}"
    if unit == "bytes":
        return f"{value:.1f} bytes"
    steps = ("/s", "k/s", "M/s", "G/s") if unit == "/s" else ("ns", "µs", "ms", "s")
    step = 0
    while abs(value) >= 999.5 and step + 1 < len(steps):
        value, step = value / 1000, step + 1
    return f"{value:#.3g}".rstrip(".") + " " + steps[step]


def times(ratio):
    if not ratio:
        return "–"
    return (f"{ratio:.0f}" if ratio >= 100 else f"{ratio:#.3g}") + " ×"


def goal_text(row):
    if not row.goal:
        return "–"
    limit = row.goal_value()
    limit = f"{limit:g} ×" if row.goal["unit"] == "×" else re.sub(r"\.0+(?= )", "", amount(limit, row.unit))
    return ("≥ " if "least" in row.goal else "≤ ") + limit


def text_of(table):
    machine = table.goals["machine"]
    here = table.on_the_machine()
    lines = [("row", "weir", "best peer", "", "ratio", "goal", "")]
    for row in table.rows.values():
        if not row.values:
            continue
        peer = row.best_peer() or (None, "")
        lines.append((row.name, amount(row.value(), row.unit), amount(peer[0], row.unit), peer[1],
                      times(row.ratio()), goal_text(row), row.verdict(here, machine)))
    text = aligned(lines)
    verdicts = [row.verdict(here, machine) for row in table.rows.values()]
    text += f"\n{verdicts.count('met')} goals met, {verdicts.count('NOT met')} NOT met"
    elsewhere = verdicts.count(f"({machine} goal)")
    text += f", {elsewhere} are for an {machine}: here the ratio counts\n" if elsewhere else "\n"
    return text + "".join(f"  {line}\n" for line in remarks(table))


def aligned(lines):
    """Columns as wide as they must be; the first and the peers' names to the left, the rest to the right."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    text = ""
    for line in lines:
        cells = (cell.ljust(widths[i]) if i in (0, 3, 6) else cell.rjust(widths[i]) for i, cell in enumerate(line))
        text += "  ".join(cells).rstrip() + "\n"
    return text


def remarks(table):
    """What was not run, and why; what must be known of a row."""
    reasons, notes = {}, {}
    for row in table.rows.values():
        for who, why in row.missing.items():
            reasons.setdefault((who, why), []).append(row.name)
        for note in row.notes:
            notes.setdefault(note, []).append(row.name)
    for backend in BACKENDS:
        if f"{backend} missing" in table.context:
            yield f"not run: {backend}/*: {table.context[f'{backend} missing']}"
    for (who, why), names in reasons.items():
        yield f"not run: {who} in {', '.join(names)}: {why}"
    for note, names in notes.items():
        yield f"{', '.join(names)}: {note}"
    if table.context.get("assertions") == "on":
        yield "built with assertions: these times say nothing"


def summary_of(table):
    """The same as data."""
    machine = table.goals["machine"]
    rows = []
    for row in table.rows.values():
        peer = row.best_peer()
        rows.append({"row": row.name, "unit": row.unit, "weir": row.value(), "weir_all": row.values.get("weir", []),
                     "peers": {who: row.value(who) for who in row.values if who != "weir"},
                     "best_peer": peer[1] if peer else None, "ratio": row.ratio(), "goal": row.goal,
                     "verdict": row.verdict(table.on_the_machine(), machine), "not_run": row.missing,
                     "notes": row.notes})
    return {"rows": rows, "remarks": list(remarks(table))}


def read(paths, goals=GOALS):
    table = Table(json.loads(pathlib.Path(goals).read_text()))
    for program, path in enumerate(paths):
        text = pathlib.Path(path).read_text()
        if text.strip():  # empty where a filter left nothing to run
            table.add(json.loads(text), program)
    table.finish()
    return table


if __name__ == "__main__":
    print(text_of(read(sys.argv[1:])), end="")

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Read the results of test runs, print one closing table, exit 1 when something failed or nothing ran.

    report.py [--json FILE] [--fact KEY=VALUE]... [LABEL=]BUILD_DIR...

A build directory holds results/ (GoogleTest and pytest XML, one file per suite), what started the suites
(results/ctest.xml, or results/programs.tsv: name, exit code, seconds) and backends.txt (what was built). Processes that
share the cases of a suite, NAME.1of3 to NAME.3of3 or NAME to NAME.3of3, are one suite here.

A test that tries many things counts them: RecordProperty of a name in COUNTERS, in a test, a suite or the whole program,
becomes a column, summed per suite. What is excluded, by tests/support/exclusions.hpp, counts twice: the cases that are
left out, and the distinct reasons, of which one may leave out cases of many suites, memories and stacks.
"""

import argparse
import collections
import dataclasses
import datetime
import html
import json
import os
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

BACKENDS = ("host", "vulkan", "cuda")
COUNTERS = ("injected_failures", "random_programs", "schedules", "fuzz_runs")  # properties in the XML
MAX_REASONS = 8  # shown per suite


@dataclasses.dataclass
class Case:
    name: str
    outcome: str  # passed, failed, skipped
    message: str = ""


@dataclasses.dataclass
class Suite:
    name: str
    seconds: float
    cases: list = dataclasses.field(default_factory=list)
    counters: dict = dataclasses.field(default_factory=dict)  # of COUNTERS
    excluded: collections.Counter = dataclasses.field(default_factory=collections.Counter)  # cases by reason

    def count(self, outcome):
        return sum(case.outcome == outcome for case in self.cases)

    def numbers(self):
        counts = {key: self.count(key) for key in ("passed", "failed", "skipped")}
        return {"cases": len(self.cases), **counts, "excluded": self.excluded.total(), "reasons": len(self.excluded),
                **{key: self.counters[key] for key in COUNTERS if self.counters.get(key)}}


def shorten(text, most=200):
    """What a person needs of a message, on one line: without source positions and GoogleTest's "Failed"."""
    lines = [line.strip() for line in (text or "").splitlines()]
    lines = [line for line in lines if line and line != "Failed" and not re.fullmatch(r"\S+:\d+:?", line)]
    line = " ".join(lines)
    return line if len(line) <= most else line[:most - 1] + "…"


def last_words(text):
    """The line that says why a program died: a sanitizer's summary, an abort's reason, else the last one."""
    lines = (text or "").strip().splitlines()
    telling = [line for line in lines if re.search(r"SUMMARY: |runtime error: |what\(\): |Assertion ", line)]
    return (telling or lines or [""])[-1]


def test_at_the_end(text):
    """The GoogleTest case that a program's output begins and does not end, or an empty string."""
    begun = ""
    for line in (text or "").splitlines():
        if found := re.match(r"\[ RUN      \] (\S+)", line):
            begun = found[1]
        elif re.match(r"\[ +(OK|FAILED|SKIPPED) +\] ", line):
            begun = ""
    return begun


def read_case(element):
    name = ".".join(filter(None, (element.get("classname"), element.get("name"))))
    for tag in ("failure", "error"):
        found = element.find(tag)
        if found is not None:
            return Case(name, "failed", shorten(found.get("message") or found.text, 1000))
    skipped = element.find("skipped")
    if skipped is not None:
        return Case(name, "skipped", shorten(skipped.get("message") or skipped.text))
    if element.get("status") == "notrun":  # GoogleTest: disabled or filtered out
        return None
    return Case(name, "passed")


def read_cases(path):
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return []
    return [case for case in map(read_case, root.iter("testcase")) if case is not None]


def read_properties(path):
    """(name, value) of everything recorded: attributes of suites, and property elements anywhere."""
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return
    for element in root.iter():
        if element.tag in ("testsuites", "testsuite"):
            yield from element.attrib.items()
        elif element.tag == "property":
            yield element.get("name"), element.get("value") or ""


def read_programs(results):
    """(name, outcome, seconds, message) of everything that was started."""
    ctest = results / "ctest.xml"
    if ctest.exists():
        for element in ElementTree.parse(ctest).getroot().iter("testcase"):
            skipped = element.get("status") in ("notrun", "disabled") and element.find("failure") is None
            outcome = "passed" if element.get("status") == "run" else "skipped" if skipped else "failed"
            found = element.find("failure" if outcome == "failed" else "skipped")
            message = (found.get("message") or "") if found is not None else ""
            if outcome == "failed":
                output = element.findtext("system-out")
                message = message or last_words(output)
                if running := test_at_the_end(output):
                    message += f" in {running}"
            yield element.get("name"), outcome, float(element.get("time") or 0), shorten(message)
    table = results / "programs.tsv"
    if table.exists():
        for line in table.read_text().splitlines():
            name, code, seconds, *reason = line.split("\t")
            outcome = {"0": "passed", "77": "skipped"}.get(code, "failed")
            message = reason[0] if reason else ("" if code == "0" else f"exit code {code}")
            yield name, outcome, float(seconds), message


def read_suite(label, results, program):
    name, outcome, seconds, message = program
    suite = Suite(label + name, seconds, read_cases(results / f"{name}.xml"))
    for key, value in read_properties(results / f"{name}.xml"):
        if key in COUNTERS:
            suite.counters[key] = suite.counters.get(key, 0) + int(value)
        elif key == "excluded":
            for line in value.splitlines():  # "12 × permanent: reason"
                cases, _, reason = line.partition(" × ")
                suite.excluded[reason] += int(cases)
    if outcome == "failed" and suite.count("failed") == 0:
        reached = f" after {len(suite.cases)} cases" if suite.cases else ""
        suite.cases.append(Case(name, "failed", f"ended abnormally{reached}: {message or 'no result'}"))
    elif not suite.cases:
        suite.cases.append(Case(name, outcome, message))
    return suite


def of_parts(suites):
    """With those made one that have the cases of a suite together. Each of them says all that is excluded."""
    whole = {}
    for suite in suites:
        name = re.sub(r"\.\d+of\d+$", "", suite.name)
        if name not in whole:
            whole[name] = dataclasses.replace(suite, name=name)
            continue
        known = whole[name]
        known.seconds = max(known.seconds, suite.seconds)
        known.cases = known.cases + suite.cases
        known.excluded = known.excluded | suite.excluded
        known.counters = {key: known.counters.get(key, 0) + suite.counters.get(key, 0)
                          for key in known.counters.keys() | suite.counters.keys()}
    return list(whole.values())


def backend_of(text):
    text = text.lower()
    return {backend for backend in BACKENDS if backend in text}


def why_not_built(build_dirs):
    reasons = {}
    for _, build in build_dirs:
        path = build / "backends.txt"
        for line in path.read_text().splitlines() if path.exists() else ():
            name, state, *reason = line.split(" ", 2)
            if state == "skipped":
                reasons[name] = "not built: " + " ".join(reason)
    return reasons


def why_no_devices(build_dirs):
    """From what the test programs print first: "cuda: no devices: <reason>"."""
    reasons = {}
    for _, build in build_dirs:
        path = build / "results" / "ctest.xml"
        text = path.read_text(errors="replace") if path.exists() else ""
        for name, reason in re.findall(r"^(?:.*>)?(\w+): no devices: (.*)$", text, re.MULTILINE):
            reasons.setdefault(name, "no devices: " + html.unescape(reason))
    return reasons


def backend_summary(suites, absent):
    """Per backend, from the names of cases and suites: {ran, passed, failed, skipped, because}."""
    table = {backend: collections.Counter() for backend in BACKENDS}
    reasons = {backend: collections.Counter() for backend in BACKENDS}
    for suite in suites:
        for case in suite.cases:
            for backend in backend_of(suite.name) or backend_of(case.name):
                table[backend][case.outcome] += 1
                if case.outcome == "skipped" and case.message:
                    reasons[backend][case.message] += 1
    summary = {}
    for backend in BACKENDS:
        counts = table[backend]
        ran = counts["passed"] + counts["failed"] > 0 and backend not in absent
        common = reasons[backend].most_common(1)
        because = absent.get(backend) or (common[0][0] if common else "" if ran else "no test names it")
        summary[backend] = {"ran": ran, **{key: counts[key] for key in ("passed", "failed", "skipped")},
                            "because": because}
    return summary


def print_details(suites):
    if any(suite.count("skipped") for suite in suites):
        print("\nSkipped:")
    for suite in suites:
        reasons = collections.Counter(case.message or "no reason given"
                                      for case in suite.cases if case.outcome == "skipped")
        for message, count in reasons.most_common(MAX_REASONS):
            print(f"  {suite.name}: {count} × {message}")
        if len(reasons) > MAX_REASONS:
            print(f"  {suite.name}: … and {len(reasons) - MAX_REASONS} more reasons")

    excluded = distinct_reasons(suites)
    if excluded:
        print("\nExcluded:")
    for entry in excluded:
        cases = "1 case" if entry["cases"] == 1 else f"{entry['cases']} cases"
        print(f"  {entry['reason']}: {cases} of {', '.join(entry['suites'])}")


def print_failures(suites):
    """They stand last, where whoever reads the end of a log finds them."""
    failures = [(suite, case) for suite in suites for case in suite.cases if case.outcome == "failed"]
    if failures:
        print("\nFailed:")
        for suite, case in failures:
            print(f"  {suite.name}: {case.name}: {case.message}")


def distinct_reasons(suites):
    """Each reason once, the one that covers most cases first: [{reason, cases, suites}]."""
    cases, names = collections.Counter(), collections.defaultdict(list)
    for suite in suites:
        cases.update(suite.excluded)
        for reason in suite.excluded:
            names[reason].append(suite.name)
    return [{"reason": reason, "cases": count, "suites": names[reason]} for reason, count in cases.most_common()]


def sum_up(suites):
    total = collections.Counter()
    for suite in suites:
        total.update(suite.numbers())
    return {**total, "reasons": len(distinct_reasons(suites))}


def print_tables(suites, backends, total):
    width = max([len(suite.name) for suite in suites] + [24])
    columns = ["cases", "passed", "failed", "skipped", "excluded", "reasons", *(key for key in COUNTERS if total.get(key))]
    titles = [key.replace("_", " ") for key in columns]

    def row(name, numbers, seconds):
        cells = (f"{numbers.get(key, 0):{max(8, len(title))}}" for key, title in zip(columns, titles))
        return f"{name:{width}} {' '.join(cells)} {seconds:8.1f}"

    print(f"\n{'suite':{width}} {' '.join(f'{title:>8}' for title in titles)} {'seconds':>8}")
    for suite in suites:
        print(row(suite.name, suite.numbers(), suite.seconds))
    print(row("total", total, sum(suite.seconds for suite in suites)))
    print(f"\n{'backend':{width}} {'passed':>8} {'failed':>8} {'skipped':>8}")
    for name, counts in backends.items():
        note = "" if counts["ran"] and not counts["skipped"] else f"  {counts['because']}"
        state = name if counts["ran"] else f"{name} (did not run)"
        print(f"{state:{width}} {counts['passed']:8} {counts['failed']:8} {counts['skipped']:8}{note}")


def write_json(path, facts, suites, backends, total):
    summary = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        **facts,
        "total": total,
        "seconds": round(sum(suite.seconds for suite in suites), 1),
        "backends": backends,
        "suites": [{"name": suite.name, **suite.numbers(), "seconds": round(suite.seconds, 1)} for suite in suites],
        "excluded": distinct_reasons(suites),
        "failures": [f"{suite.name}: {case.name}: {case.message}"
                     for suite in suites for case in suite.cases if case.outcome == "failed"],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(summary, indent=2, ensure_ascii=False) + "\n")


def build_dir(text):
    label, _, path = text.rpartition("=")
    return (label + ":" if label else "", pathlib.Path(path))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--fact", action="append", default=[])
    parser.add_argument("build_dirs", nargs="+", type=build_dir)
    arguments = parser.parse_args()

    suites = of_parts(read_suite(label, build / "results", program)
                      for label, build in arguments.build_dirs for program in read_programs(build / "results"))
    absent = why_no_devices(arguments.build_dirs) | why_not_built(arguments.build_dirs)
    backends = backend_summary(suites, absent)
    total = {"passed": 0, "failed": 0, "skipped": 0, **sum_up(suites)}
    if arguments.json:
        facts = dict(fact.split("=", 1) for fact in arguments.fact)
        write_json(arguments.json, {"cores": os.cpu_count(), **facts}, suites, backends, total)
    print_details(suites)
    print_tables(suites, backends, total)
    print_failures(suites)
    print(f"\n{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 1 if total["failed"] or not total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every row of every benchmark program runs, for as short as it can, and every goal finds rows.

    bench_programs_test.py FOLDER BACKENDS [REGEX]

FOLDER holds the programs. On each of the BACKENDS, separated by commas, weir runs all rows, and its peers do, or
those that match. A backend without devices is skipped, unless WEIR_REQUIRE names it. Times are not looked at.
"""

import fnmatch
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent.parent / "benchmarks"))
sys.dont_write_bytecode = True
import table  # noqa: E402

NO_KERNELS = "this CUDA driver runs no kernels"
# Why a peer may be missing as well: the modelled CUDA driver has 1 GiB, and frees only when its streams get there.
NO_MEMORY = re.compile(r"cuMemAlloc\w*Async failed with error 2")
# Goals of rows that a machine may not have.
NEEDS = {
    "threads/own/16": "16 cores",
    "allocator/threads/16": "16 cores",
    "trace": "recorded traces",
    "cuda/streams": "kernels",
    "cuda/rmm": "RMM",
}


def run(folder, backends, regex):
    chosen = f"^({'|'.join(backends)})/.*(/weir(/|$)|{regex})"
    files = []
    with tempfile.TemporaryDirectory() as results:
        for program in sorted(path for path in folder.glob("bench_*") if path.is_file()):
            files.append(pathlib.Path(results) / program.name)
            done = subprocess.run([program, f"--benchmark_filter={chosen}", "--benchmark_min_time=0.000001",
                                   f"--benchmark_out={files[-1]}", "--benchmark_out_format=json"],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode != 0:
                sys.exit(f"{done.stdout}{program.name} ended with {done.returncode}")
        return table.read(files)


def complaints(made, backends):
    for backend in backends:
        rows = [row for row in made.rows.values() if row.name.startswith(backend + "/")]
        because = made.context.get(backend + " missing")
        if because and backend not in os.environ.get("WEIR_REQUIRE", "").split(","):
            continue  # a remark says so
        if not any(row.value() for row in rows):
            yield f"weir ran no row of {backend}: {because}"
        for row in rows:
            for who, why in row.missing.items():
                if why != NO_KERNELS and (who == "weir" or not NO_MEMORY.fullmatch(why)):
                    yield f"{row.name} was not run by {who}: {why}"
            for who in row.values:
                if not row.value(who) > 0 and row.unit != "ns":  # a time may be less than looking at the clock takes
                    yield f"{row.name} of {who} is {row.value(who)}"
    for goal in made.goals["goals"]:
        backend = goal["row"].split("/")[0]
        if backend not in (*backends, "*") or any(what in goal["row"] for what in NEEDS):
            continue
        if f"{backend} missing" not in made.context and not any(fnmatch.fnmatchcase(name, goal["row"]) for name in made.rows):
            yield f"the goal of {goal['row']} fits no row"


def main():
    folder, backends = pathlib.Path(sys.argv[1]), sys.argv[2].split(",")
    regex = sys.argv[3] if len(sys.argv) > 3 else "."
    made = run(folder, backends, regex)
    found = list(complaints(made, backends))
    print(f"{len(made.rows)} rows of {', '.join(backends)}")
    for remark in table.remarks(made):
        print(remark)
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()

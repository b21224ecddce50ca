#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the benchmarks of a build and print their table.

    run.py [--json FILE] [--repetitions N] BUILD_DIR [REGEX]

REGEX chooses rows by "row/allocator". FILE gets the table as data, with the machine and the commit. The folder
that WEIR_BENCH_TRACES names holds recorded traces (*.csv, *.csv.gz) to be replayed. WEIR_COMMIT says what was
built where there is no git.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import table  # noqa: E402

LIMIT = 900  # seconds, of one program
# Row, who, resource in words. The plain resources say what the same operations cost without a pool.
REPLAYS = (
    ("cuda/trace", "weir", "pool(cuda.vmm)"),
    ("cuda/trace", "cuMemAllocAsync tuned, through weir", "cuda.async"),
    ("cuda/trace-unpaged", "weir", "pool(cuda.device)"),
    ("vulkan/trace-unpaged", "weir", "pool(vulkan.device)"),
    ("host/trace-unpaged", "weir", "pool(host)"),
    ("host/trace-unpaged", "malloc, through weir", "host"),
)


class Failed(Exception):
    pass


def run_program(program, results, regex, repetitions):
    """Its result file; what it prints goes to a log beside that."""
    result, log = results / f"{program.name}.json", results / f"{program.name}.log"
    command = [program, f"--benchmark_filter={regex}", f"--benchmark_repetitions={repetitions}",
               "--benchmark_enable_random_interleaving=true",
               f"--benchmark_out={result}", "--benchmark_out_format=json"]
    print(f"running {program.name}", flush=True)
    with log.open("w") as output:
        code = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, timeout=LIMIT).returncode
    if code != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
        raise Failed(f"{program.name} ended with {code}; log: {log}\n{tail}")
    return result


def devices_of(weir):
    """Backends that replays can run on: the first device of each; a Vulkan CPU driver has too little memory."""
    run = subprocess.run([weir, "devices", "--json"], check=True, capture_output=True, timeout=LIMIT)
    devices = [backend["devices"][0] for backend in json.loads(run.stdout)["backends"] if backend["devices"]]
    return {device["backend"] for device in devices if device["backend"] != "vulkan" or device["is_gpu"]}


def replay(weir, trace, spec, repetitions):
    done = []
    for _ in range(repetitions):
        run = subprocess.run([weir, "replay", trace, "--resource", spec, "--json"],
                             capture_output=True, timeout=LIMIT)
        if run.returncode not in (0, 1) or not run.stdout:  # 1: operations failed, which the table says
            raise Failed(f"weir replay {trace} on {spec} ended with {run.returncode}: {run.stderr.decode().strip()}")
        done.append(json.loads(run.stdout))
    return done


def run_replays(build, results, regex, repetitions):
    """Result files of the traces, and why some were not played."""
    folder, weir = os.environ.get("WEIR_BENCH_TRACES"), build / "tools" / "weir"
    if not folder:
        return [], ["not run: traces: WEIR_BENCH_TRACES names no folder of recorded ones"]
    if not weir.exists():
        return [], [f"not run: traces: {weir} was not built"]
    traces = sorted(path for path in pathlib.Path(folder).iterdir() if path.name.endswith((".csv", ".csv.gz")))
    if not traces:
        return [], [f"not run: traces: there is no .csv and no .csv.gz in {folder}"]
    devices, files, remarks = devices_of(weir), [], []
    for row, who, spec in REPLAYS:
        for trace in traces:
            name = f"{row}/{trace.name.split('.csv')[0]}"
            if not re.search(regex, f"{name}/{who}"):
                continue
            if row.split("/")[0] not in devices:
                remarks.append(f"not run: {name}: no device of this backend with enough memory")
                continue
            print(f"replaying {trace.name} on {spec}", flush=True)
            played = {"row": name, "who": who, "replay": replay(weir, trace, spec, repetitions)}
            files.append(results / f"{name}.{who}.json".replace("/", "_").replace(" ", "_"))
            files[-1].write_text(json.dumps(played))
    return files, list(dict.fromkeys(remarks))


def first_line(path, pattern):
    try:
        found = re.search(pattern, pathlib.Path(path).read_text(), re.MULTILINE)
    except OSError:
        return "unknown"
    return found.group(1).strip('"') if found else "unknown"


def git(*arguments):
    here = pathlib.Path(__file__).resolve().parent
    run = subprocess.run(["git", "-C", here, *arguments], capture_output=True, text=True)
    return run.stdout.strip() if run.returncode == 0 else None


def commit():
    """What was built, as far as anybody knows; with a + when the tree has changes of its own."""
    given = os.environ.get("WEIR_COMMIT")
    if given:
        return given
    try:
        head = git("rev-parse", "HEAD")
        return f"{head}+" if head and git("status", "--porcelain", "--untracked-files=no") else head or "unknown"
    except OSError:
        return "unknown"


def machine(context):
    kib = first_line("/proc/meminfo", r"^MemTotal:\s*(\d+)")
    facts = {"cpu": first_line("/proc/cpuinfo", r"^model name\s*:\s*(.*)$"), "cores": os.cpu_count(),
             "memory_gib": round(int(kib) / 2**20, 1) if kib.isdigit() else None,
             "system": first_line("/etc/os-release", r"^PRETTY_NAME=(.*)$"), "kernel": platform.release()}
    for key in ("compiler", "assertions", *(f"{backend} {what}" for backend in table.BACKENDS
                                             for what in ("device", "driver", "missing"))):
        if key in context:
            facts[key.replace(" ", "_")] = context[key]
    return facts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("regex", nargs="?", default=".")
    arguments = parser.parse_args()
    begin = time.monotonic()
    folder = arguments.build / "benchmarks"
    programs = sorted(path for path in folder.glob("bench_*") if path.is_file() and os.access(path, os.X_OK))
    if not programs:
        raise Failed(f"{folder} has no benchmark programs: configure with -DWEIR_BUILD_BENCHMARKS=ON")
    results = folder / "results"
    results.mkdir(exist_ok=True)
    files = [run_program(program, results, arguments.regex, arguments.repetitions)
             for program in sorted(programs, key=lambda path: path.name != "bench_pool")]
    replays, remarks = run_replays(arguments.build, results, arguments.regex, arguments.repetitions)
    measured = table.read(files + replays)
    if not measured.rows:
        raise Failed(f"no row matches '{arguments.regex}'")
    facts = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "commit": commit(),
             "machine": machine(measured.context), "repetitions": arguments.repetitions,
             "seconds": round(time.monotonic() - begin)}
    where = facts["machine"]
    print(f"\n{where['cpu']}, {where['cores']} cores; {where.get('cuda_device', 'no CUDA device')}; "
          f"{where.get('compiler')}; commit {facts['commit'][:12]}; {facts['seconds']} s\n\n{table.text_of(measured)}"
          + "".join(f"  {line}\n" for line in remarks), end="")
    if arguments.json:
        summary = table.summary_of(measured)
        summary["remarks"] += remarks
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps({**facts, **summary}, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    try:
        main()
    except (Failed, subprocess.SubprocessError) as error:
        sys.exit(f"bench: {error}")

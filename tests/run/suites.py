# SPDX-License-Identifier: Apache-2.0
"""The suites that ctest knows of a build: what each needs to be built, and what one run of it, with a filter, says."""

import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

NOT_HERE = 77  # the exit status of a suite that cannot run on this machine, as CMake's SKIP_RETURN_CODE


@dataclasses.dataclass
class Suite:
    name: str
    command: list
    environment: dict
    folder: str
    seconds: float  # ctest's limit

    @property
    def kind(self):
        if "pytest" in self.command:
            return "pytest"
        return "gtest" if any(word.startswith("--gtest_") for word in self.command) else "other"

    def with_filter(self, pattern):
        """The command that stops at the first failure of the tests that match. A filter replaces the suite's own."""
        if self.kind == "gtest":
            return [*self.command, "--gtest_fail_fast", *([f"--gtest_filter={pattern}"] if pattern else [])]
        if self.kind == "pytest":
            names = ["-k", " or ".join(pattern.split(":"))] if pattern else []
            return [*self.command, "-x", "-vv", "-rfEs", *names]
        return self.command


@dataclasses.dataclass
class Verdict:
    outcome: str  # passed, failed, crashed, timeout, skipped, nothing
    test: str = ""  # that failed
    note: str = ""  # how it crashed; why it was skipped
    seconds: float = 0
    longest: float = 0  # seconds of its longest test, where the suite says so

    @property
    def caught(self):
        return self.outcome in ("failed", "crashed", "timeout")


# ---- what there is --------------------------------------------------------------------------------------------------


def written_at(path):
    """In ns; nothing if there is no such file."""
    return path.lstat().st_mtime_ns if path.is_symlink() or path.is_file() else None


def remove(path):
    if written_at(path):
        path.unlink()


def copy_file(source, target):
    if written_at(source):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target, follow_symlinks=False)


class Build:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def ask_ctest(self):
        output = subprocess.run(["ctest", "--test-dir", self.folder, "--show-only=json-v1"], check=True, text=True,
                                stdout=subprocess.PIPE).stdout
        return json.loads(output)["tests"]

    def programs(self):
        """suite → its program. ctest says no command as long as the program is not built."""
        pattern = re.compile(r'^add_test\((?:\[=*\[)?([\w.-]+)(?:\]=*\])? "([^"]*)"', re.MULTILINE)
        return {name: program for file in self.folder.rglob("CTestTestfile.cmake")
                for name, program in pattern.findall(file.read_text())}

    def suites(self):
        programs = self.programs()
        found = {}
        for test in self.ask_ctest():
            values = {value["name"]: value["value"] for value in test["properties"]}
            environment = dict(line.split("=", 1) for line in values.get("ENVIRONMENT", []))
            for part in ("GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX"):  # ctest runs it in parts; here it runs whole
                environment.pop(part, None)
            command = test.get("command") or [programs.get(test["name"], "")]
            found[test["name"]] = Suite(test["name"], command, environment, values.get("WORKING_DIRECTORY", "."),
                                        float(values.get("TIMEOUT", 300)))
        return found

    def outputs(self):
        text = subprocess.run(["ninja", "-C", self.folder, "-t", "targets", "all"], check=True, text=True,
                              stdout=subprocess.PIPE).stdout
        return {line.rsplit(": ", 1)[0] for line in text.splitlines() if ": " in line}

    def keep(self, outputs, kept):
        """Copy those of `outputs` that are files, with their times, to the folder `kept`."""
        for output in outputs:
            path, copy = self.folder / output, kept / output
            if written_at(path) != written_at(copy):
                remove(copy)
                copy_file(path, copy)

    def take_back(self, outputs, time, kept=None):
        """Those of `outputs` that were written at `time` (in ns) or later, or are gone, become what `kept` has of them,
        or are removed. What configures the build stays."""
        for output in outputs:
            path = self.folder / output
            written = written_at(path)
            if path.suffix in (".ninja", ".cmake") or written and written < time:
                continue
            remove(path)
            if kept:
                copy_file(kept / output, path)

    def needs(self, suite, outputs):
        """What has to be built for a suite: its program, and files that its environment names or has a folder of."""
        needed = []
        for word in [suite.command[0], *(path for value in suite.environment.values() for path in value.split(":"))]:
            if not word.startswith(f"{self.folder}/"):
                continue
            path = os.path.relpath(word, self.folder)
            needed += [path] if path in outputs else sorted(
                output for output in outputs if output.startswith(path + "/") and output.endswith(".so"))
        return needed


# ---- what a run says ------------------------------------------------------------------------------------------------


def last(pattern, text):
    found = re.findall(pattern, text, re.MULTILINE)
    return found[-1] if found else ""


def read_gtest(code, text):
    ran = int(last(r"^\[={10}\] (\d+) tests? from .* ran\.", text) or 0)
    if code == 0 and ran == 0:
        return Verdict("nothing")
    if code == NOT_HERE or code == 0 and last(r"^\[  PASSED  \] (\d+) test", text) == "0":
        return Verdict("skipped", note=last(r": Skipped\n(.*)", text) or last(r"^(.*skip.*)$", text))
    if code == 0:
        return Verdict("passed")
    failed = last(r"^\[  FAILED  \] ([^\s,]+\.[^\s,]+)", text)  # before it there may be those of child processes
    return Verdict("failed", failed) if failed else None


def read_pytest(code, text):
    if code == 5:  # pytest's own status for that
        return Verdict("nothing")
    if code == 0 and not re.search(r"\b\d+ passed\b", last(r"^(=+ .* in [\d.]+s.*)$", text)):
        return Verdict("skipped", note=last(r"^SKIPPED \[\d+\] (.*)$", text))
    if code == 0:
        return Verdict("passed")
    failed = re.search(r"^(?:FAILED|ERROR) (?:\S*/)?(\S+)", text, re.MULTILINE)
    return Verdict("failed", failed[1]) if failed else None


def read_other(code, text):
    if code == NOT_HERE:
        return Verdict("skipped", note=last(r"^(.+)$", text))
    return Verdict("passed") if code == 0 else Verdict("failed", last(r"^(.*(?:error|FAIL).*)$", text)[:80])


def running(text):
    """The test that had begun when its program died."""
    return last(r"^\[ RUN      \] (\S+)", text) or last(r"^(?:\S*/)?(\S+\.py::\S+)", text)


def read(kind, code, text):
    """The verdict of a program that ended; code is negative where a signal ended it."""
    if code >= 0:
        verdict = {"gtest": read_gtest, "pytest": read_pytest, "other": read_other}[kind](code, text)
        return verdict or Verdict("crashed", running(text), f"exit status {code}")
    return Verdict("crashed", running(text), signal.Signals(-code).name)


def longest(text):
    return max((int(ms) / 1000 for ms in re.findall(r"^\[       OK \] .* \((\d+) ms\)$", text, re.MULTILINE)), default=0)


def run(suite, pattern, limit, log, limit_of_each=None):
    """One run, in a session of its own, that ends with all that it started. Its output goes to the file `log`. Both
    limits are in seconds; a test that takes longer than its own ends its program, where the program has a watchdog."""
    begin = time.monotonic()
    code = None
    environment = {**os.environ, **suite.environment}
    if limit_of_each:
        environment["WEIR_TEST_SECONDS"] = str(round(limit_of_each))
    with open(log, "wb") as output:
        process = subprocess.Popen(suite.with_filter(pattern), cwd=suite.folder, env=environment,
                                   stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            pass
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
    text = pathlib.Path(log).read_text(errors="replace")
    verdict = Verdict("timeout", running(text), f"after {limit:.0f} s") if code is None else read(suite.kind, code, text)
    verdict.seconds, verdict.longest = time.monotonic() - begin, longest(text)
    return verdict

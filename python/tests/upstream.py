# SPDX-License-Identifier: Apache-2.0
"""Runs a framework's own tests of exchange as they were written, in a process in which the object under test goes
through weir. Their files are not ours: WEIR_UPSTREAM_TESTS names the folder that has them. docs/testing.md says how
they come there.

A suite is a module (upstream_torch.py) that imports its framework only when `exchange` is called:

    NEEDS      the framework's package, and others that its tests import
    NEEDS_CUDA if nothing can be tested without a GPU
    FILES      the tests, below the folder
    WAYS       ways to go through weir
    APART      for each way, the tests that it does not touch; or
    ONLY       for each way, those that it does
    BY_DESIGN  for each way, what cannot hold: the exception that says so, and why it is meant so
    exchange   starts one way, and calls upstream_crossings.crossed() whenever a tensor goes through weir
"""

import ast
import collections
import fnmatch
import functools
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import pytest

VARIABLE = "WEIR_UPSTREAM_TESTS"
HERE = pathlib.Path(__file__).parent
ENDS = {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED}
LIMIT = 300  # seconds, for a run that hangs


def base_of(name, names):
    """The function that a test was made of: frameworks add devices, types and numbers to its name."""
    return max((base for base in names if name.startswith(base)), key=len, default=name)


def by_design(name, base, entries):
    """The entry for a test. Keys are functions, or patterns of the names made of them."""
    return next((entry for key, entry in entries.items() if key == base or fnmatch.fnmatchcase(name, key)), None)


def written_in(files):
    """The names of the tests in these files, in their order."""
    names = {}
    for file in files:
        for node in ast.parse(file.read_text()).body:
            for function in node.body if isinstance(node, ast.ClassDef) else [node]:
                if isinstance(function, ast.FunctionDef) and function.name.startswith("test"):
                    names[function.name] = None
    return list(names)


def installed(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # what it is a part of
        return False


class Suite:
    def __init__(self, module, folder=None):
        self.module = module
        self.folder = pathlib.Path(folder or os.environ.get(VARIABLE, ""))
        self.files = [self.folder / file for file in module.FILES]

    def missing(self):
        """Why it cannot run, or nothing."""
        if not os.environ.get(VARIABLE) and self.folder == pathlib.Path():
            return f"set {VARIABLE} to a folder that has {' and '.join(self.module.FILES)}: docs/testing.md"
        for file in self.files:
            if not file.exists():
                return f"{VARIABLE} has no {file.relative_to(self.folder)}: docs/testing.md"
        return next((f"{name} is not installed" for name in self.module.NEEDS if not installed(name)), None)

    def names(self, way):
        """The tests that go through weir in this way."""
        apart, only = self.module.APART.get(way, ()), getattr(self.module, "ONLY", {}).get(way)
        return tuple(n for n in written_in(self.files) if n not in apart and (only is None or n in only))

    @functools.cache
    def run(self, way, names, **environment):
        """The outcomes of these tests, by function: a list for each of what upstream_rules.py has written."""
        with tempfile.TemporaryDirectory() as folder:
            results = pathlib.Path(folder, "results")
            path = [str(HERE), str(pathlib.Path(self.module.__file__).parent), os.environ.get("PYTHONPATH", "")]
            told = {
                "PYTHONPATH": os.pathsep.join(filter(None, path)),
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                "PYTEST_ADDOPTS": "",
                "WEIR_UPSTREAM": json.dumps([self.module.__name__, way, names, written_in(self.files), str(results)]),
                **getattr(self.module, "ENVIRONMENT", {}),
                **environment,
            }
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "upstream_rules"]
            command += ["-c", os.devnull, "--rootdir", str(self.folder), "--confcutdir", str(self.folder)]
            try:
                done = subprocess.run(
                    [*command, *map(str, self.files)], env={**os.environ, **told}, cwd=folder, timeout=LIMIT,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                )
                died = "" if done.returncode in ENDS else done.stdout[-8000:] or f"exit status {done.returncode}"
            except subprocess.TimeoutExpired:
                died = f"stopped after {LIMIT} s"
            lines = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
        outcomes = collections.defaultdict(list)
        for line in lines:
            outcomes[line["base"]].append(line)
        if died:
            outcomes[None].append({"outcome": "failed", "test": "the run", "why": died})
        return dict(outcomes)


def judge(outcomes, name):
    """End the test that stands for an upstream function as the tests made of it ended."""
    mine = outcomes.get(name, [])
    failed = [each for each in mine + outcomes.get(None, []) if each["outcome"] == "failed"]
    if failed:
        pytest.fail("\n\n".join(f"{each['test']}\n{each['why']}" for each in failed[:5]), pytrace=False)
    reasons = "; ".join(dict.fromkeys(each["why"] for each in mine if each["why"]))
    if any(each["outcome"] == "passed" for each in mine):
        return
    if any(each["outcome"] == "xfailed" for each in mine):
        pytest.xfail(reasons)
    pytest.skip(reasons or "nothing was made of it on this machine")

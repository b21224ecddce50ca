#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Break a copy of the code in small ways, one at a time, and see whether the suites that should notice do.

    mutants.py [--shard I/N] [--json FILE] [--cmake=ARGUMENT]... [NAME]...

A breakage is a file tests/mutants/<group>-<name>.patch: a line "# subject", a line "# suites: SUITE[:FILTER] …", a diff.
SUITE is a name of ctest; FILTER is GoogleTest's, or for pytest names with ":" between them. NAME is a part of a file's
name. The copy is build/mutants/source, which has its own build; logs are in build/mutants/logs.

Exit 1 when fewer than 95 % are caught, when a patch no longer applies or compiles, when a suite does not pass without any
or has no test that a filter matches, or when a miss has no row in the table of docs/testing.md below "<!-- missed mutants -->".
"""

import argparse
import collections
import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
import re
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import suites as suites_of  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATCHES = ROOT / "tests" / "mutants"
DOCUMENT = ROOT / "docs" / "testing.md"
MARK = "<!-- missed mutants -->"
WANTED = 0.95
OUTCOMES = ("caught", "missed", "not judged", "stale")


@dataclasses.dataclass
class Mutant:
    name: str
    subject: str
    suites: list  # (suite, filter)
    path: pathlib.Path
    files: tuple  # that it changes
    includes: bool = False  # whether it changes what they include

    @property
    def group(self):
        return self.name.split("-")[0]

    @property
    def of_sources(self):
        return all(file.endswith((".cpp", ".hpp")) for file in self.files)


@dataclasses.dataclass
class Result:
    mutant: Mutant
    outcome: str
    what: str = ""
    seconds: float = 0

    def line(self):
        return f"{self.outcome:10}  {self.mutant.name}  {self.what}  {self.seconds:.0f} s"


def stop(message):
    sys.exit(f"mutants: {message}")


def read_mutant(path):
    lines = path.read_text().splitlines()
    subject = re.fullmatch(r"# (\S.*)", lines[0]) if lines else None
    named = re.fullmatch(r"# suites:((?: +[A-Za-z]\w*(?::\S+)?)+) *", lines[1]) if len(lines) > 1 else None
    if not subject or not named:
        raise ValueError(f"{path.name} does not begin with the lines \"# subject\" and \"# suites: SUITE[:FILTER] …\"")
    files = dict.fromkeys(line[6:] for line in lines if re.match(r"(---|\+\+\+) [ab]/", line))
    includes = any(re.match(r"[+-] *#include", line) for line in lines)
    selections = [word.partition(":")[::2] for word in named[1].split()]
    return Mutant(path.stem, subject[1], selections, path, tuple(files), includes)


def choose(mutants, names, shard):
    """Those whose name contains one of `names`; of these every N-th, from the I-th on."""
    for name in names:
        if not any(name in mutant.name for mutant in mutants):
            raise ValueError(f"no patch in tests/mutants is called *{name}*")
    index, count = (int(number) for number in shard.split("/"))
    if not 1 <= index <= count:
        raise ValueError(f"--shard takes 1/N to N/N, not {shard}")
    chosen = [mutant for mutant in mutants if not names or any(name in mutant.name for name in names)]
    return chosen[index - 1::count]


def reasons(text):
    """mutant → why it is missed, of the document's table."""
    rows = {}
    for line in text.split(MARK, 1)[1].strip().splitlines() if MARK in text else []:
        if not line.startswith("|"):
            break
        cells = [cell.strip().strip("`") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        rows[cells[0]] = cells[-1]
    return rows


# ---- the copy -------------------------------------------------------------------------------------------------------


class Copy:
    """The files of a working tree that git does not ignore, as they are now."""

    def __init__(self, folder, tree=ROOT):
        self.folder = folder
        self.tree = tree
        self.list = folder.parent / "files"  # of the last refresh; kept outside of what is built

    def refresh(self):
        """What did not change keeps its time, so that it is not built again."""
        names = subprocess.run(["git", "-C", self.tree, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                               check=True, stdout=subprocess.PIPE).stdout.decode().split("\0")
        names = {name for name in names if name and os.path.lexists(self.tree / name)}
        before = set(self.list.read_text().split("\0")) if self.list.exists() else set()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.list.write_text("\0".join(sorted(names)))
        for name in before - names:
            with contextlib.suppress(FileNotFoundError):
                (self.folder / name).unlink()
        for name in names:
            self.refresh_file(self.tree / name, self.folder / name)

    @staticmethod
    def refresh_file(source, target):
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            if not target.is_symlink() or os.readlink(target) != os.readlink(source):
                target.unlink(missing_ok=True)
                target.symlink_to(os.readlink(source))
        elif not target.exists() or target.read_bytes() != source.read_bytes():
            target.write_bytes(source.read_bytes())
            target.chmod(source.stat().st_mode)

    def git_apply(self, *arguments):
        # Without a ceiling git finds the repository around the copy, and skips all files outside of its index.
        environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(self.folder.parent)}
        return subprocess.run(["git", "apply", *arguments], cwd=self.folder, env=environment, text=True,
                              stderr=subprocess.PIPE)

    @contextlib.contextmanager
    def broken(self, mutant, take_back=None):
        """Yields why the patch does not apply, or nothing; takes it back.

        With take_back(time), which undoes what was built since then, a source gets its old time back. So nothing is
        built again for its sake; if it was a header, that would be most of the copy.
        """
        files = [self.folder / name for name in mutant.files]
        before = [file.stat() for file in files if file.exists()]
        done = self.git_apply(mutant.path)
        yield done.stderr.strip()
        if done.returncode:
            return
        begin = min((file.stat().st_mtime_ns for file in files if file.exists()), default=0)
        if self.git_apply("-R", mutant.path).returncode:
            stop(f"{mutant.name} cannot be taken back; the next run makes the copy good again")
        if take_back and mutant.of_sources and len(before) == len(files):
            take_back(begin)
            for file, status in zip(files, before):
                os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


# ---- the check ------------------------------------------------------------------------------------------------------


class Check:
    def __init__(self, home, cmake=(), jobs=None):
        self.copy = Copy(home / "source")
        self.build = suites_of.Build(self.copy.folder / "build" / "test")
        self.kept = home / "kept"  # what was built without any patch
        self.logs = home / "logs"
        self.cmake = list(cmake)
        self.jobs = jobs or os.cpu_count()
        self.suites = {}
        self.outputs = set()
        self.targets = []
        self.without = {}  # (suite, filter) → verdict without any patch
        self.wrong = {}  # (suite, filter) → why it proves nothing

    def log(self, name):
        self.logs.mkdir(parents=True, exist_ok=True)
        return self.logs / f"{name}.log"

    def make(self, targets, log):
        if not targets:  # a suite that compiles by itself
            return True
        with open(log, "wb") as output:
            return subprocess.run(["cmake", "--build", self.build.folder, "-j", str(self.jobs), "--target", *targets],
                                  stdout=output, stderr=subprocess.STDOUT).returncode == 0

    def needs(self, name):
        return self.build.needs(self.suites[name], self.outputs)

    def prepare(self, mutants):
        """The copy, built without any patch."""
        self.copy.refresh()
        log = self.log("configure")
        with open(log, "wb") as output:
            if subprocess.run(["cmake", "--preset", "test", *self.cmake], cwd=self.copy.folder, stdout=output,
                              stderr=subprocess.STDOUT).returncode:
                stop(f"the copy could not be configured, see {log}")
        self.suites, self.outputs = self.build.suites(), self.build.outputs()
        named = sorted({suite for mutant in mutants for suite, _ in mutant.suites})
        for name in named:
            if name not in self.suites and not self.mentioned(name):
                stop(f"ctest knows no suite {name}")
        self.targets = sorted({target for name in named if name in self.suites for target in self.needs(name)})
        print(f"mutants: {len(mutants)} breakages, {len(named)} suites; building what they need", flush=True)
        self.make_all()
        self.suites = self.build.suites()  # now with their commands

    def make_all(self):
        log = self.log("build")
        if not self.make(self.targets, log):
            stop(f"the copy does not compile without any patch, see {log}")
        self.build.keep(self.outputs, self.kept)

    def mentioned(self, name):
        """A suite that this machine lacks what it takes to build."""
        files = [*self.copy.folder.glob("tests/**/*.txt"), *self.copy.folder.glob("tests/**/*.cmake")]
        return any(re.search(rf"\b{re.escape(name)}\b", file.read_text()) for file in files if "build" not in file.parts)

    def run_without(self, mutants):
        """Each suite with each filter must pass first, or it proves nothing."""
        begin = time.monotonic()
        for suite, pattern in sorted({named for mutant in mutants for named in mutant.suites}):
            if suite not in self.suites:
                self.without[suite, pattern] = suites_of.Verdict("skipped", note="not built on this machine")
                continue
            log = self.log(f"without.{suite}.{len(self.without)}")
            verdict = suites_of.run(self.suites[suite], pattern, 2 * self.suites[suite].seconds, log)
            self.without[suite, pattern] = verdict
            if verdict.outcome == "nothing":
                self.wrong[suite, pattern] = f"no test of {suite} matches {pattern}"
            elif verdict.caught:
                self.wrong[suite, pattern] = f"{suite} fails without any patch: {verdict.outcome} {verdict.test}, see {log}"
        passed = sum(verdict.outcome == "passed" for verdict in self.without.values())
        print(f"mutants: {passed} of {len(self.without)} selections of tests pass without any patch, "
              f"{time.monotonic() - begin:.0f} s", flush=True)
        for why in self.wrong.values():
            print(f"mutants: {why}", flush=True)

    def judge(self, mutant):
        begin = time.monotonic()
        # The build remembers what an output included last, which would be wrong for one that is given back.
        kept = None if mutant.includes else self.kept
        with self.copy.broken(mutant, lambda time: self.build.take_back(self.outputs, time, kept)) as refused:
            outcome, what = ("stale", f"does not apply: {refused}") if refused else self.run_suites(mutant)
        if not mutant.of_sources:  # CMake has followed the patch, and follows again
            self.make_all()
        return Result(mutant, outcome, what, time.monotonic() - begin)

    def run_suites(self, mutant):
        log = self.log(mutant.name)
        skipped = []
        for suite, pattern in mutant.suites:
            without = self.without[suite, pattern]
            if (suite, pattern) in self.wrong:
                skipped.append(self.wrong[suite, pattern])
                continue
            if without.outcome == "skipped":
                skipped.append(f"{suite}: {without.note}")
                continue
            if not self.make(self.needs(suite), log):
                return "stale", f"does not compile, see {log}"
            # Five times as long, because others may use the machine, too.
            verdict = suites_of.run(self.suites[suite], pattern, 60 + 5 * without.seconds, log, 20 + 5 * without.longest)
            if verdict.caught:
                how = "" if verdict.outcome == "failed" else f": {verdict.outcome}, {verdict.note}"
                return "caught", f"by {suite} ({verdict.test or 'no test'}{how})"
        if skipped:
            return "not judged", "; ".join(skipped)
        return "missed", mutant.subject


# ---- the end --------------------------------------------------------------------------------------------------------


def share(counts):
    judged = counts["caught"] + counts["missed"]
    return counts["caught"] / judged if judged else 1


def table(results):
    groups = collections.defaultdict(collections.Counter)
    for result in results:
        groups[result.mutant.group][result.outcome] += 1
        groups["total"][result.outcome] += 1
    total = groups.pop("total", collections.Counter())
    lines = [f"{'group':12}" + "".join(f"{title:>12}" for title in (*OUTCOMES, "share", "s each"))]
    for name, counts in [*sorted(groups.items()), ("total", total)]:
        times = [result.seconds for result in results if name in (result.mutant.group, "total")]
        each = sum(times) / len(times) if times else 0
        lines.append(f"{name:12}" + "".join(f"{counts[outcome]:12}" for outcome in OUTCOMES) +
                     f"{share(counts):12.0%}{each:12.0f}")
    return "\n".join(lines), total


def close(results, known, wrong=()):
    """Prints the table and what is wrong; the exit status."""
    text, total = table(results)
    print("\n" + text)
    wrong = [*wrong]
    wrong += [f"{result.mutant.name} is stale: {result.what}" for result in results if result.outcome == "stale"]
    for result in results:
        if result.outcome == "missed" and result.mutant.name in known:
            print(f"  missed for a reason: {result.mutant.name}: {known[result.mutant.name]}")
        elif result.outcome == "missed":
            wrong.append(f"{result.mutant.name} is missed, and docs/testing.md does not say why: {result.what}")
        elif result.outcome == "not judged":
            print(f"  not judged: {result.mutant.name}: {result.what}")
    if share(total) < WANTED:
        wrong.append(f"{share(total):.1%} are caught; {WANTED:.0%} have to be")
    for line in wrong:
        print(f"mutants: {line}")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shard", default="1/1", help="I/N: every N-th, from the I-th on")
    parser.add_argument("--json", type=pathlib.Path, help="keep the results in this file")
    parser.add_argument("--cmake", action="append", default=[], help="an argument for configuring the copy")
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    try:
        mutants = choose([read_mutant(path) for path in sorted(PATCHES.glob("*.patch"))], arguments.names,
                         arguments.shard)
    except ValueError as error:
        stop(error)
    home = ROOT / "build" / "mutants"
    home.mkdir(parents=True, exist_ok=True)
    with open(home / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            stop("another run works in build/mutants")
        check = Check(home, arguments.cmake)
        check.prepare(mutants)
        check.run_without(mutants)
        results = []
        for mutant in mutants:
            results.append(check.judge(mutant))
            print(results[-1].line(), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps([{"name": result.mutant.name, "outcome": result.outcome,
                                               "what": result.what, "seconds": round(result.seconds, 1)}
                                              for result in results], indent=1) + "\n")
    return close(results, reasons(DOCUMENT.read_text()), check.wrong.values())


if __name__ == "__main__":
    sys.exit(main())

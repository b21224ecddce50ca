#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""dlpack.h is fetched where it is asked for, from a mirror on this machine, and only as it is expected.

fetch_test.py CMAKE GENERATOR CXX HEADER: HEADER is a dlpack.h of this machine.
"""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXPECTED = re.search(r"_dlpack_sha256 ([0-9a-f]{64})", (ROOT / "cmake" / "FindDLPack.cmake").read_text())[1]
CMAKE, GENERATOR, CXX, HEADER = sys.argv[1:5] if len(sys.argv) > 4 else ("",) * 4


def git(folder, *arguments):
    identity = {f"GIT_{role}_{what}": "test@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = subprocess.run(["git", *arguments], cwd=folder, env={**os.environ, **identity}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@unittest.skipIf(HEADER and hashlib.sha256(pathlib.Path(HEADER).read_bytes()).hexdigest() != EXPECTED,
                 "the dlpack.h of this machine is not the one that is fetched")
@unittest.skipUnless(shutil.which("git"), "git is not installed")
class Fetching(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.mirror = self.folder / "mirror"
        (self.mirror / "include" / "dlpack").mkdir(parents=True)
        git(self.mirror, "init", "-q")
        self.header = self.mirror / "include" / "dlpack" / "dlpack.h"
        shutil.copy(HEADER, self.header)
        self.commit = self.commit_all()

    def commit_all(self):
        git(self.mirror, "add", "-A")
        git(self.mirror, "commit", "-qm", "a version")
        return git(self.mirror, "rev-parse", "HEAD")

    def configure(self, *arguments):
        return subprocess.run(
            [CMAKE, "-G", GENERATOR, "-S", ROOT, "-B", self.folder / "build", f"-DCMAKE_CXX_COMPILER={CXX}",
             "-DWEIR_BACKENDS=host", "-DWEIR_BUILD_TOOLS=OFF", "-DWEIR_BUILD_EXAMPLES=OFF", *arguments],
            capture_output=True, text=True)

    def fetch(self, commit, **options):
        repository = options.get("repository", self.mirror)
        return self.configure("-DWEIR_FETCH_DEPS=ALWAYS", f"-DWEIR_DLPACK_REPOSITORY={repository}",
                              f"-DWEIR_DLPACK_COMMIT={commit}")

    def test_from_a_mirror(self):
        done = self.fetch(self.commit)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"fetching dlpack.h from {self.mirror}", done.stdout)
        again = self.fetch(self.commit, repository=self.folder / "gone")
        self.assertEqual(again.returncode, 0, "what was fetched once stays")

    def test_another_header_is_refused(self):
        self.header.write_text(self.header.read_text() + "\n")
        done = self.fetch(self.commit_all())
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("has another dlpack.h than expected", " ".join(done.stderr.split()))
        self.assertFalse(list((self.folder / "build").glob("dlpack-*")))

    def test_a_missing_mirror_is_named_with_the_cure(self):
        done = self.fetch(self.commit, repository=self.folder / "gone")
        self.assertNotEqual(done.returncode, 0)
        said = " ".join(done.stderr.split())
        self.assertIn("gone could not be fetched", said)
        self.assertIn("Set WEIR_DLPACK_INCLUDE_DIR", said)

    def test_nothing_is_fetched_when_that_is_forbidden(self):
        empty = self.folder / "empty"
        empty.mkdir()
        done = self.configure("-DWEIR_FETCH_DEPS=OFF", f"-DWEIR_DLPACK_INCLUDE_DIR={empty}",
                              f"-DWEIR_DLPACK_REPOSITORY={self.mirror}", f"-DWEIR_DLPACK_COMMIT={self.commit}")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("was not found", done.stderr)
        self.assertNotIn("fetching", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

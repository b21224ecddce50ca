# SPDX-License-Identifier: Apache-2.0
"""A type checker finds the types of a program right, and what is wrong in it."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import weir

if importlib.util.find_spec("mypy") is None:
    pytest.skip("mypy is not installed", allow_module_level=True)


def checked(folder, *arguments):
    environment = os.environ | {"MYPYPATH": str(Path(weir.__file__).parents[1]), "MYPY_CACHE_DIR": str(folder)}
    return subprocess.run(
        [sys.executable, "-m", "mypy", *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )


def test_a_program_in_strict_mode(tmp_path):
    done = checked(tmp_path, "--strict", str(Path(__file__).parent / "typed_program.py"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_wrong_types_are_found(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import weir\nx: str = weir.padded_shape([])\nweir.Stream(1)\n")
    done = checked(tmp_path, "--strict", str(wrong))
    assert done.returncode == 1 and "wrong.py:2" in done.stdout and "wrong.py:3" in done.stdout, done.stdout

# SPDX-License-Identifier: Apache-2.0
"""The NumPy part of the demo runs and finds everything right."""

import subprocess
import sys
from pathlib import Path


def test_demo():
    demo = Path(__file__).parents[1] / "demo.py"
    done = subprocess.run([sys.executable, str(demo)], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert "the same address" in done.stdout and "WRONG" not in done.stdout

# SPDX-License-Identifier: Apache-2.0
"""Run a program on every device there is: run.py FILE."""

import os
import pathlib
import sys

import weir

program = compile(pathlib.Path(sys.argv[1]).read_text(), sys.argv[1], "exec")
for device in weir.devices():
    os.environ["WEIR_DEVICE"] = device.id
    exec(program, {})
    print(f"{device.id}: ran")

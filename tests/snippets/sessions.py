# SPDX-License-Identifier: Apache-2.0
"""Run the sessions that a document shows: sessions.py DOCUMENT FOLDER-OF-PROGRAMS.

A session is a ```console block. A line `1$ command` is typed in terminal 1; what follows, up to the next such line, is
what the command prints. A command that is still running when its lines have come goes on, and gets Ctrl-C at the end."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

LIMIT = 60  # seconds


def sessions(text):
    """Yield lists of (command, lines)."""
    for block in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        steps = []
        for line in block.splitlines():
            typed = re.fullmatch(r"\d\$ (.*)", line)
            if typed:
                steps.append((typed[1], []))
            else:
                steps[-1][1].append(line)
        yield steps


def run(steps, environment):
    """Return what differs."""
    running = []
    try:
        for command, wanted in steps:
            process = subprocess.Popen(["sh", "-c", f"exec {command}"], stdout=subprocess.PIPE, text=True, env=environment)
            running.append(process)
            said = []
            for _ in wanted:
                line = process.stdout.readline()
                if not line:
                    break
                said.append(line.rstrip())
            if command != steps[0][0]:
                said += [line.rstrip() for line in process.stdout]
                if process.wait(LIMIT) != 0:
                    return f"{command}: exit status {process.returncode}"
            if said != wanted:
                return "\n".join([f"{command} printed", *said, "and not", *wanted])
        first = running[0]
        if first.poll() is not None:
            return f"{steps[0][0]}: ended by itself"
        first.send_signal(signal.SIGINT)
        return None if first.wait(LIMIT) == 0 else f"{steps[0][0]}: exit status {first.returncode}"
    finally:
        for process in running:
            process.kill()
            process.wait()
            process.stdout.close()


def main():
    document, programs = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    found = list(sessions(document.read_text().replace(" 1000 ", f" {os.getuid():<4} ")))
    if not found:
        sys.exit(f"{document}: shows no session")
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    for steps in found:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }".ljust(117) + b"\n"
            numbers = bytes.fromhex("00000000 0000803f 00000040 00004040 00008040 0000a040")
            pathlib.Path("weights.npy").write_bytes(b"\x93NUMPY\x01\x00\x76\x00" + header + numbers)
            wrong = run(steps, environment)
            os.chdir("/")
        if wrong:
            sys.exit(wrong)
    print(f"{document.name}: {len(found)} sessions ran as shown")


main()

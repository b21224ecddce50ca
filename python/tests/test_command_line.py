# SPDX-License-Identifier: Apache-2.0
"""The weir command line of the same build, if there is one."""

import json
import subprocess
from pathlib import Path

import pytest

import weir

PROGRAM = Path(weir._weir.__file__).parents[2] / "tools" / "weir"

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"not built: {PROGRAM}")


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=300)


def test_devices():
    done = run("devices")
    assert done.returncode == 0 and done.stderr == ""
    for device in weir.devices():
        assert f"{device.id}  {device.name}" in done.stdout and device.uuid in done.stdout
    for backend in weir.backends():
        if not backend.devices:
            assert f"{backend.name}  not available: {backend.unavailable_because}" in done.stdout


def test_devices_as_json():
    done = run("devices", "--json")
    assert done.returncode == 0 and done.stderr == ""
    document = json.loads(done.stdout)
    assert document["version"] == weir.__version__
    backends = {b["name"]: b for b in document["backends"]}
    for backend in weir.backends():
        entry = backends[backend.name]
        assert entry["unavailable_because"] == (None if backend.devices else backend.unavailable_because)
        for device, written in zip(backend.devices, entry["devices"], strict=True):
            for field in ("id", "name", "driver", "uuid", "is_gpu", "ordinal"):
                assert written[field] == getattr(device, field)
            for kind, info in zip(device.kinds, written["kinds"], strict=True):
                assert info["host_accessible"] == kind.host_accessible
                assert info["exportable"] == kind.exportable
                assert info["dlpack_device"] == kind.dlpack_device


def test_demo():
    done = run("demo")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every byte was right" in done.stdout and "WRONG" not in done.stdout
    for device in weir.devices():
        for kind in device.kinds:
            assert f"{device.id} {str(kind.kind).split('.')[-1].rstrip('_')}" in done.stdout


def test_version_and_help():
    assert run("--version").stdout == f"weir {weir.__version__}\n"
    assert run("help").stdout.startswith("usage: weir <command>")


@pytest.mark.parametrize(
    "arguments",
    [(), ("nothing",), ("--json",), ("devices", "--xml"), ("devices", "--json", "more"), ("demo", "x"), ("",)],
)
def test_unknown_arguments(arguments):
    done = run(*arguments)
    assert done.returncode == 2 and done.stdout == ""
    assert "usage: weir <command>" in done.stderr
    if arguments:
        assert "do not understand" in done.stderr

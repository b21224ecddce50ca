# SPDX-License-Identifier: Apache-2.0
"""The weir command line of the same build, as a program and by `python -m weir`."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import weir

PROGRAM = Path(weir._weir.__file__).parents[2] / "tools" / "weir"

COMMANDS = {
    "program": pytest.param([PROGRAM], marks=pytest.mark.skipif(not PROGRAM.exists(), reason=f"not built: {PROGRAM}")),
    "module": pytest.param(
        [sys.executable, "-m", "weir"],
        marks=pytest.mark.skipif(not hasattr(weir._weir, "_run_command_line"), reason="not in this build"),
    ),
}


@pytest.fixture(params=COMMANDS.values(), ids=COMMANDS.keys())
def run(request):
    def run(*arguments, stdout=subprocess.PIPE):
        command = [*request.param, *arguments]
        return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, errors="surrogateescape", timeout=900)

    return run


def test_devices(run):
    done = run("devices")
    assert done.returncode == 0 and done.stderr == ""
    for device in weir.devices():
        assert f"{device.id}  {device.name}" in done.stdout and device.uuid in done.stdout
    for backend in weir.backends():
        if not backend.devices:
            assert f"{backend.name}  not available: {backend.unavailable_because}" in done.stdout


def name_of(kind):
    return str(kind).split(".")[-1].rstrip("_")


def test_devices_as_json(run):
    done = run("devices", "--json")
    assert done.returncode == 0 and done.stderr == ""
    document = json.loads(done.stdout)
    assert document["version"] == weir.__version__
    backends = {b["name"]: b for b in document["backends"]}
    for backend in weir.backends():
        entry = backends[backend.name]
        assert entry["unavailable_because"] == (None if backend.devices else backend.unavailable_because)
        for device, written in zip(backend.devices, entry["devices"], strict=True):
            for field in ("id", "name", "driver", "uuid", "is_gpu", "ordinal", "total_memory"):
                assert written[field] == getattr(device, field)
            assert written["default_kind"] == name_of(device.default_kind)
            for kind, info in zip(device.kinds, written["kinds"], strict=True):
                assert info["kind"] == name_of(kind.kind)
                for field in ("host_accessible", "device_accessible", "exportable"):
                    assert info[field] == getattr(kind, field)
                for field in ("alignment", "granularity", "dlpack_device"):
                    assert info[field] == getattr(kind, field)


def test_demo(run):
    done = run("demo")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every byte was right" in done.stdout and "WRONG" not in done.stdout
    if any(kind.exportable for device in weir.devices() for kind in device.kinds):
        assert all(f"by {way}" in done.stdout for way in ("name", "ring", "set"))
    for device in weir.devices():
        for kind in device.kinds:
            assert f"{device.id} {name_of(kind.kind)}" in done.stdout


def test_version_and_help(run):
    assert run("--version").stdout == f"weir {weir.__version__}\n"
    assert run("help").stdout.startswith("usage: weir <command>")


@pytest.mark.parametrize(
    "arguments",
    [(), ("nothing",), ("--json",), ("devices", "--xml"), ("devices", "--json", "more"), ("demo", "x"), ("",)],
)
def test_unknown_arguments(run, arguments):
    done = run(*arguments)
    assert done.returncode == 2 and done.stdout == ""
    assert "usage: weir <command>" in done.stderr
    if arguments:
        assert "do not understand" in done.stderr


def test_traces_are_replayed(run, pageable, tmp_path):
    logged = weir.make_logging(pageable.resource, tmp_path / "run.trace")
    logged.allocate(1000, stream=pageable.stream).close()
    logged.flush()
    done = run("replay", str(tmp_path / "run.trace"), "--resource", "pool(host.pageable)")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert "pool(host.pageable)" in done.stdout
    assert run("replay", str(tmp_path / "nothing"), "--resource", "host.pageable").returncode != 0


@pytest.mark.parametrize("arguments", [["devices"], ["devices", "--json"], ["--version"]])
def test_output_that_cannot_be_written_is_an_error(run, arguments):
    with open("/dev/full", "w") as full:
        done = run(*arguments, stdout=full)
    assert done.returncode == 1 and done.stderr == "weir: the output could not be written\n"


def test_the_module_ends_as_programs_do():
    """By Ctrl-C and by a pipe that nobody reads."""
    program = "import signal, sys; sys.argv = ['weir', '--version']\nfrom weir.__main__ import main\nmain()\n"
    for ending in (signal.SIGINT, signal.SIGPIPE):
        done = subprocess.run(
            [sys.executable, "-c", f"{program}import os; os.kill(os.getpid(), {int(ending)}); print('went on')"],
            capture_output=True, text=True, timeout=60,
        )
        assert done.returncode == -ending and "went on" not in done.stdout


def test_words_are_those_of_the_system(run, tmp_path):
    """Which need not be text."""
    missing = tmp_path / "\udcff"
    done = run("replay", os.fsencode(missing), "--resource", "host")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert os.fsdecode(os.fsencode(missing)) in done.stderr

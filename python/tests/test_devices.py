# SPDX-License-Identifier: Apache-2.0
"""Devices, backends, kinds of memory."""

import os
import re
import subprocess
import sys

import pytest

import weir


def test_host_is_always_there():
    host = weir.host_device()
    assert (host.backend, host.ordinal, host.id) == ("host", 0, "host:0")
    assert not host.is_gpu
    assert host in weir.devices()


def test_every_device_is_found_by_its_id():
    for device in weir.devices():
        assert weir.device(device.id) == device
        assert hash(weir.device(device.id)) == hash(device)
        assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", device.uuid)
        assert device.name and device.driver
        assert device.find(device.default_kind).kind == device.default_kind
        assert device.id in repr(device)


def test_devices_compare_with_anything():
    assert weir.host_device() != "host:0"
    assert weir.host_device() is not None


def test_backends_say_why_they_have_no_device():
    for backend in weir.backends():
        assert bool(backend.devices) != bool(backend.unavailable_because)
        assert "\n" not in backend.unavailable_because


@pytest.mark.parametrize("name", ["", "nothing", "host:1", "host:x", "host:-1", "vulkan:99"])
def test_unknown_device_names_those_there_are(name):
    with pytest.raises(weir.Error, match="host:0") as raised:
        weir.device(name)
    assert raised.value.condition == weir.Errc.invalid_argument


@pytest.mark.parametrize("wanted, ends", [("host", 0), ("nonsense:3", 1)])
def test_weir_device_names_the_best_one(wanted, ends):
    code = "import weir; print(weir.best_device().id)"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "WEIR_DEVICE": wanted}, capture_output=True, text=True
    )
    assert done.returncode == ends, done.stderr
    assert "host:0" in done.stdout + done.stderr


def test_kinds_describe_themselves(memory):
    assert repr(memory.info).startswith("<weir.KindInfo ")
    assert memory.info.alignment >= 256
    assert memory.resource.is_host_accessible == memory.info.host_accessible
    assert memory.resource.is_device_accessible == memory.info.device_accessible
    assert memory.resource.device == memory.device
    assert memory.resource.kind == memory.info.kind

# SPDX-License-Identifier: Apache-2.0
"""The resource that a process agreed on for each device."""

import subprocess
import sys

import pytest

import weir


@pytest.fixture(params=[device.id for device in weir.devices()])
def device(request):
    device = weir.device(request.param)
    yield device
    weir.set_current_resource(device, None)


def test_a_pool_until_somebody_sets_another(device):
    pool = weir.current_resource(device)
    assert pool.name.startswith("pool(")
    assert pool.device == device
    stream = weir.Stream(device)
    buffer = weir.current_resource(device).allocate(1000, stream=stream)
    assert pool.stats()["live_buffers"] == 1
    buffer.close()
    mine = weir.make_resource(device)
    assert weir.set_current_resource(device, mine).name == pool.name
    assert weir.current_resource(device) is mine
    assert weir.set_current_resource(device, None) is mine
    assert weir.current_resource(device).stats()["allocations"] == 1, "the same pool"


def test_without_a_device_that_of_the_best():
    assert weir.current_resource().device == weir.best_device()


def test_a_resource_of_another_device_is_refused(device):
    for other in weir.devices():
        if other == device:
            continue
        with pytest.raises(weir.Error, match=other.id) as raised:
            weir.set_current_resource(device, weir.make_resource(other))
        assert raised.value.condition == weir.Errc.incompatible


def test_it_may_be_set_when_the_interpreter_ends():
    program = """
import weir
for device in weir.devices():
    weir.set_current_resource(device, weir.make_resource(device))
    kept = weir.current_resource(device).allocate(64, stream=weir.Stream(device))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")

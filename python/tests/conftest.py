# SPDX-License-Identifier: Apache-2.0
"""Every kind of memory of this machine, as parameters."""

import ctypes
import os
import signal

import pytest

import weir

# A shell has what it starts in the background ignore Ctrl-C, which some tests press.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _all_memories():
    for device in weir.devices():
        for info in device.kinds:
            yield pytest.param((device, info), id=f"{device.id}-{str(info.kind).split('.')[-1]}")


class Memory:
    """A resource, a stream of its device, and what the device says about the kind."""

    def __init__(self, device, info, exportable=False):
        self.device = device
        self.info = info
        self.stream = weir.Stream(device)
        self.resource = weir.make_resource(device, info.kind, exportable=exportable)

    def allocate(self, size):
        return self.resource.allocate(size, stream=self.stream)

    def filled(self, size, value):
        buffer = self.allocate(size)
        buffer.fill(value, stream=self.stream)
        return buffer

    def bytes_of(self, buffer):
        out = bytearray(buffer.size)
        buffer.copy_to(out, stream=self.stream)
        self.stream.synchronize()
        return bytes(out)


_take_violations = getattr(ctypes.CDLL(os.environ.get("WEIR_CUDA_LIBRARY")), "fake_cuda_violations", None)


@pytest.fixture(autouse=True)
def _rules_of_cuda():
    """What the modelled driver, if it is here, saw of calls that a real one does not forgive."""
    yield
    if _take_violations:
        text = ctypes.create_string_buffer(4096)
        _take_violations(text, ctypes.c_size_t(len(text)))
        assert text.value.decode() == ""


ALL = list(_all_memories())
HOST_ACCESSIBLE = [p for p in ALL if p.values[0][1].host_accessible]
CPU_LABELLED = [p for p in ALL if p.values[0][1].dlpack_device == 1]
DEVICE_ONLY = [p for p in ALL if not p.values[0][1].host_accessible]
EXPORTABLE = [p for p in ALL if p.values[0][1].exportable]


def pytest_collection_modifyitems(config, items):
    """WEIR_PYTHON_SHARD=I/N leaves every N-th test, from the I-th on: several processes share them."""
    part, _, parts = os.environ.get("WEIR_PYTHON_SHARD", "1/1").partition("/")
    mine = items[int(part) - 1::int(parts)]
    if len(mine) != len(items):
        config.hook.pytest_deselected(items=[item for index, item in enumerate(items) if index % int(parts) != int(part) - 1])
        items[:] = mine


def _fixture(params, why):
    return params or [pytest.param(None, marks=pytest.mark.skip(reason=why), id="none")]


@pytest.fixture(params=ALL)
def memory(request):
    return Memory(*request.param)


@pytest.fixture(params=HOST_ACCESSIBLE)
def host_memory(request):
    return Memory(*request.param)


@pytest.fixture(params=_fixture(DEVICE_ONLY, "no memory here that the host cannot reach"))
def device_memory(request):
    return Memory(*request.param)


@pytest.fixture(params=_fixture(EXPORTABLE, "no memory here that can be shared"))
def shared_memory(request):
    return Memory(*request.param, exportable=True)


@pytest.fixture
def pageable():
    host = weir.host_device()
    return Memory(host, host.find(weir.MemoryKind.pageable))


@pytest.fixture
def cuda():
    devices = [d for d in weir.devices() if d.backend == "cuda"]
    if not devices:
        because = [b.unavailable_because for b in weir.backends() if b.name == "cuda"]
        because = because[0] if because else "not in this build"
        if "cuda" in os.environ.get("WEIR_REQUIRE", ""):
            pytest.fail(f"WEIR_REQUIRE asks for CUDA: {because}")
        pytest.skip(f"no CUDA device: {because}")
    return Memory(devices[0], devices[0].find(weir.MemoryKind.device))

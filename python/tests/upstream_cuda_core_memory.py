# SPDX-License-Identifier: Apache-2.0
"""cuda.core's tests of buffers whose memory is of a resource of the test's own, which is weir's here: a suite of
upstream.py. In the tests as they were written, the driver's plain calls are behind these resources."""

from upstream_crossings import crossed

import weir

NEEDS = ("cuda.core",)
NEEDS_CUDA = True
FILES = ("cuda_core/tests/test_memory.py",)
WAYS = ("ThroughResources",)
ONLY = {
    "ThroughResources": {
        "test_buffer_close", "test_buffer_copy_from", "test_buffer_copy_to", "test_buffer_dunder_dlpack",
        "test_buffer_dunder_dlpack_device_success", "test_buffer_external_pinned_alloc", "test_buffer_fill",
        "test_buffer_initialization", "test_managed_buffer_dlpack_roundtrip_device_type",
        "test_mr_deallocate_called_on_close", "test_mr_deallocate_called_on_gc", "test_mr_deallocate_receives_stream",
    },
}
APART = {}
BY_DESIGN = {}
_KINDS = {
    "DummyDeviceMemoryResource": "device",
    "DummyHostMemoryResource": "pageable",
    "DummyPinnedMemoryResource": "pinned",
    "DummyUnifiedMemoryResource": "managed",
    "TrackingMR": "device",
}


def resource_class(name, kind):
    """A class as the test has it, of cuda.core's resources, whose memory is of weir."""
    from cuda.core import Buffer, MemoryResource

    class Weirs(MemoryResource):
        def __init__(self, device=None):
            owner = weir.host_device() if kind == "pageable" else weir.device("cuda:0")
            self.resource = weir.make_resource(owner, kind)
            self.stream = weir.Stream(owner)
            self.active = {}

        def allocate(self, size, *, stream=None):
            buffer = self.resource.allocate(size, stream=self.stream)
            self.stream.synchronize()  # it may be used anywhere at once, as the driver's plain memory may
            address = buffer.device_address or buffer.host_data
            self.active[address] = crossed(buffer)
            return Buffer.from_handle(ptr=address, size=size, mr=self)

        def deallocate(self, ptr, size, *, stream=None):
            self.active.pop(int(ptr)).close()

        @property
        def is_device_accessible(self):
            return self.resource.is_device_accessible

        @property
        def is_host_accessible(self):
            return self.resource.is_host_accessible

        @property
        def device_id(self):
            return self.resource.device.ordinal

    Weirs.__name__ = name
    return Weirs


_classes = {}


def exchange(way):
    _classes.update({name: resource_class(name, kind) for name, kind in _KINDS.items()})


def pytest_collection_modifyitems(items):
    for item in items:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        for name, value in parameters.items():  # before the names that they stand for are replaced
            parameters[name] = _classes.get(getattr(value, "__name__", None), value)
        vars(item.module).update(_classes)

# SPDX-License-Identifier: Apache-2.0
"""CuPy's tests/cupy_tests/core_tests/test_dlpack.py: a suite of upstream.py."""

import pytest
from upstream_crossings import crossed, plain

import weir

NEEDS = ("cupy",)
NEEDS_CUDA = True
FILES = ("cupy/test_dlpack.py",)
WAYS = ("ThroughFromDlpack", "ThroughDlpack")
_COPIES = {"test_from_dlpack_and_conv_errors": (pytest.fail.Exception, "copy=True copies on the device, too")}
APART = {
    "ThroughFromDlpack": {  # they call __dlpack__, and take the capsule
        "test_conversion_bad_device", "test_conversion_device", "test_conversion_device_to_cpu",
        "test_conversion_max_version", "test_deleter", "test_deleter2", "test_stream", "test_stream_zero_legacy_compat",
    },
    # CuPy's pool has its memory back as soon as no work on the device can use it. The tests want it before.
    "ThroughDlpack": {"test_deleter", "test_deleter2"},
}
BY_DESIGN = {
    "ThroughFromDlpack": _COPIES,
    "ThroughDlpack": {
        **_COPIES,
        "test_conversion_device_to_cpu?device?": (BufferError, "what may not copy and must is no ValueError"),
        "test_stream_zero_legacy_compat": (pytest.fail.Exception, "0 means two streams, and is a wrong value, not a warning"),
    },
}


def exchange(way):
    import cupy

    take, own = cupy.from_dlpack, plain(cupy.ndarray.__dlpack__, cupy.ndarray.__dlpack_device__)

    def tensor(array):
        return weir.from_dlpack(crossed(own(array)))

    def from_dlpack(array, **arguments):
        return take(tensor(array) if isinstance(array, cupy.ndarray) else array, **arguments)

    cupy.ndarray.toDlpack = lambda self: tensor(self).__dlpack__()
    if way == "ThroughFromDlpack":
        cupy.from_dlpack = from_dlpack
    else:
        cupy.ndarray.__dlpack__ = lambda self, **arguments: tensor(self).__dlpack__(**arguments)
        cupy.ndarray.__dlpack_device__ = lambda self: tensor(self).__dlpack_device__()

# SPDX-License-Identifier: Apache-2.0
"""JAX's tests/array_interoperability_test.py: a suite of upstream.py. JAX uses the GPU, where it has one."""

import re

import numpy as np
import pytest
from upstream_crossings import crossed, plain

import weir

NEEDS = ("jax", "absl")
FILES = ("jax/array_interoperability_test.py",)
WAYS = ("ThroughFromDlpack", "ThroughCopies", "ThroughDlpack")
ENVIRONMENT = {
    "JAX_NUM_GENERATED_CASES": "40",  # of shapes and types, for each test; many are skipped
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # other tests need the GPU's memory, too
}
_NOT_BY_DLPACK = {
    "test_ensure_alignment", "testCaiToJax", "testCudaArrayInterfaceBfloat16Fails",
    "testCudaArrayInterfaceOnNonCudaFails", "testCudaArrayInterfaceOnShardedArrayFails", "testCudaArrayInterfaceWorks",
    "testJaxAndTfHaveTheSameBfloat16Type", "testJaxToCuPy",
}
APART = {
    "ThroughFromDlpack": _NOT_BY_DLPACK | {"testCuPyToJax", "testJaxToNumpy", "testJaxToTensorFlow"},
    "ThroughCopies": _NOT_BY_DLPACK | {
        "testCuPyToJax", "testJaxToNumpy", "testJaxToTensorFlow",
        "testJaxPinnedHostRoundTrip", "testNumpyToJax",  # about the kind and the alignment of the array's own memory
    },
    "ThroughDlpack": _NOT_BY_DLPACK | {
        "testCuPyToJax",  # JAX takes CuPy's arrays by __cuda_array_interface__
        "testNumpyToJax", "testNumpyToJaxNondefaultLayout", "testTensorFlowToJax", "testTensorFlowToJaxInt64",
        "testTensorFlowToJaxNondefaultLayout", "testTpuHostBufferDmaMap",
    },
}
BY_DESIGN = {}  # but what is met below: it depends on the array


def exchange(way):
    if way == "ThroughDlpack":
        _through_dlpack()
    else:
        _through_from_dlpack({"ThroughFromDlpack": weir.from_dlpack, "ThroughCopies": copied}[way])


def whole_bytes(array, tensor_of):
    """What `tensor_of` returns. It refuses types whose elements begin inside of bytes."""
    if not re.match(r"(u?int|float)[1-7](_|$)", str(array.dtype)):
        return tensor_of(array)
    with pytest.raises(weir.Error, match="are not whole bytes"):
        tensor_of(array)
    pytest.xfail("elements that are not whole bytes are refused")


def copied(array):
    """A tensor in memory of weir that is equal to the array."""
    given = weir.from_dlpack(array)
    stream = weir.Stream(given.device)
    taken = weir.make_resource(given.device).allocate_tensor(given.shape, given.dtype, stream=stream)
    taken.copy_from(given, stream=stream)
    return taken


def cannot_be_told(tensor, ask):
    """What `ask` returns. JAX's arrays are read-only in weir, and JAX cannot be told so: it asks for no max_version."""
    if not tensor.is_read_only:
        return ask()
    with pytest.raises(BufferError, match="read-only; a consumer of DLPack 1.0 asks with max_version"):
        ask()
    pytest.xfail("JAX's arrays are read-only in weir, and JAX takes capsules of DLPack before 1.0 only")


def _through_from_dlpack(tensor_of):
    """What JAX takes is weir's tensor over it, or weir's copy of it."""
    import jax
    import jax.numpy

    take = jax.dlpack.from_dlpack

    def from_dlpack(array, *arguments, **options):
        tensor = whole_bytes(crossed(array), tensor_of)
        taken = cannot_be_told(tensor, lambda: take(tensor, *arguments, **options))
        empty = isinstance(array, np.ndarray) and array.size == 0
        if empty and array.ctypes.data % 64 and options.get("copy") is False:
            pytest.xfail("memory of no bytes has no address in weir, and JAX cannot refuse it")
        return taken

    jax.dlpack.from_dlpack = jax.numpy.from_dlpack = from_dlpack


def _through_dlpack():
    """Arrays of JAX show themselves as weir's tensors over them do."""
    from jax._src.array import ArrayImpl

    own = plain(ArrayImpl.__dlpack__, ArrayImpl.__dlpack_device__)

    def dlpack(self, **arguments):
        tensor = weir.from_dlpack(crossed(own(self)))
        if arguments.get("max_version"):
            return tensor.__dlpack__(**arguments)
        return cannot_be_told(tensor, lambda: tensor.__dlpack__(**arguments))

    ArrayImpl.__dlpack__ = dlpack
    ArrayImpl.__dlpack_device__ = lambda self: weir.from_dlpack(crossed(own(self))).__dlpack_device__()

# SPDX-License-Identifier: Apache-2.0
"""PyTorch's test/test_dlpack.py: a suite of upstream.py."""

from upstream_crossings import crossed, plain

import weir

NEEDS = ("torch", "expecttest")
FILES = ("torch/test_dlpack.py",)
WAYS = ("ThroughFromDlpack", "ThroughDlpack")
APART = {
    "ThroughFromDlpack": {  # they call __dlpack__, and take the capsule
        "test_dlpack_conversion_with_diff_streams", "test_dlpack_conversion_with_diff_streams_narrow_precision",
        "test_dlpack_convert_default_stream", "test_dlpack_cuda_per_thread_stream", "test_dlpack_exchange_api",
        "test_dlpack_export_is_conj", "test_dlpack_export_non_strided", "test_dlpack_export_requires_grad",
        "test_dlpack_invalid_cpu_stream", "test_dlpack_invalid_cuda_streams", "test_dlpack_invalid_rocm_streams",
        "test_dlpack_tensor_invalid_stream", "test_dlpack_tensor_on_different_device", "test_max_version",
        "test_unsupported_device_error",
    },
    "ThroughDlpack": {  # they give no tensor by __dlpack__
        "test_dlpack_capsule_conversion", "test_dlpack_copy_fallback", "test_dlpack_exchange_api",
        "test_dlpack_invalid_rocm_streams", "test_dlpack_shared_storage", "test_numpy_cross_device_multi_gpu",
        "test_numpy_cross_device_transfer",
    },
}
BY_DESIGN = {
    "ThroughDlpack": {
        "test_dlpack_cuda_per_thread_stream": (AssertionError, "weir orders work before this stream, too"),
        "test_dlpack_invalid_cpu_stream": (ValueError, "a stream that this memory cannot have is a wrong value"),
        "test_dlpack_invalid_cuda_streams": (ValueError, "0 means two streams, and is a wrong value"),
        "test_unsupported_device_error": (AssertionError, "it is a BufferError, but not in PyTorch's words"),
    },
}


def exchange(way):
    {"ThroughFromDlpack": _through_from_dlpack, "ThroughDlpack": _through_dlpack}[way]()


def _through_from_dlpack():
    """What torch.from_dlpack takes is weir's tensor over it. What is a capsule already was made by weir."""
    import torch

    take = torch.from_dlpack

    def from_dlpack(tensor, **arguments):
        return take(weir.from_dlpack(crossed(tensor)) if hasattr(tensor, "__dlpack__") else tensor, **arguments)

    def to_dlpack(tensor):
        return weir.from_dlpack(crossed(tensor)).__dlpack__()

    torch.from_dlpack = torch.utils.dlpack.from_dlpack = from_dlpack
    torch.to_dlpack = torch.utils.dlpack.to_dlpack = to_dlpack


def _through_dlpack():
    """Tensors of PyTorch show themselves as weir's tensors over them do."""
    import torch

    own = plain(torch.Tensor.__dlpack__, torch.Tensor.__dlpack_device__)
    if torch.cuda.is_available():  # the first time takes longer than the 2**20 cycles that a test gives it
        weir.from_dlpack(own(torch.zeros(1, device="cuda"))).__dlpack__(stream=1)
    torch.Tensor.__dlpack__ = lambda self, **arguments: weir.from_dlpack(crossed(own(self))).__dlpack__(**arguments)
    torch.Tensor.__dlpack_device__ = lambda self: weir.from_dlpack(crossed(own(self))).__dlpack_device__()

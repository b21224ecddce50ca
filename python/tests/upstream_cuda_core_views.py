# SPDX-License-Identifier: Apache-2.0
"""cuda.core's tests of StridedMemoryView over arrays of NumPy and CuPy: a suite of upstream.py. Views of PyTorch's
tensors go by a way of their own there, not by DLPack."""

import types

import numpy as np
from upstream_crossings import crossed

import weir

NEEDS = ("cuda.core",)
NEEDS_CUDA = True
FILES = ("cuda_core/tests/test_utils.py", "cuda_core/tests/test_utils_dlpack.py")
WAYS = ("ThroughFromDlpack", "ThroughDlpack")
_BOTH = {
    "test_dlpack_export_roundtrip_dtypes", "test_dlpack_export_roundtrip_special_shapes",
    "test_from_dlpack_typeerror_fallback_unversioned_import", "test_strided_memory_view_dlpack_export_cupy_roundtrip",
    "test_strided_memory_view_dlpack_export_numpy_roundtrip",
}
ONLY = {
    "ThroughFromDlpack": _BOTH,  # views are given to weir
    "ThroughDlpack": _BOTH | {  # views are made of what weir gives
        "test_args_viewable_as_strided_memory_cpu", "test_args_viewable_as_strided_memory_gpu",
        "test_dlpack_export_unversioned_capsule_and_deleter", "test_dlpack_export_versioned_capsule_and_deleter",
        "test_from_dlpack_cpu_stream_none_ambiguous", "test_ml_dtypes_bfloat16_dlpack", "test_strided_memory_view_cpu",
        "test_strided_memory_view_cpu_init", "test_strided_memory_view_init", "test_view_sliced_external",
        "test_view_sliced_external_negative_offset", "test_view_zero_size_array",
    },
}
APART = {}
BY_DESIGN = {
    "ThroughDlpack": {
        "test_*_cpu*[[]in_arr4]": (AssertionError, "memory of no bytes has no address, and is not read-only"),
    },
}


class Shown(np.ndarray):
    """An array that shows itself as weir's tensor over it does."""

    def __dlpack__(self, **arguments):
        return self._tensor().__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self._tensor().__dlpack_device__()

    def _tensor(self):
        return weir.from_dlpack(crossed(self).view(np.ndarray))


def _shown(function):
    return lambda *arguments, **options: function(*arguments, **options).view(Shown)


def _from_dlpack(view, **arguments):
    return np.from_dlpack(weir.from_dlpack(crossed(view)), **arguments)


_NUMPY = {}


def exchange(way):
    """CuPy is exchanged as it is; NumPy in the modules of the tests, because its arrays' class cannot be changed."""
    if way == "ThroughFromDlpack":
        _NUMPY["from_dlpack"] = _from_dlpack
    else:
        _NUMPY.update({name: _shown(getattr(np, name)) for name in ("arange", "array", "empty", "ones", "zeros")})
    try:
        import cupy
        import upstream_cupy
    except ImportError:
        return  # what is about CuPy is skipped then
    if way == "ThroughDlpack":
        upstream_cupy.exchange(way)
    else:
        take = cupy.from_dlpack
        cupy.from_dlpack = lambda view: take(weir.from_dlpack(crossed(view)))


def _is_about_dlpack(item):
    """Whether a test of many is made with what goes by DLPack: no tensor of PyTorch, no array of Numba, no view by the
    interfaces of CUDA's or NumPy's arrays."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    array = parameters.get("in_arr")
    by_another = parameters.get("view_as") == "cai" or "interface" in getattr(parameters.get("api"), "__name__", "")
    return not by_another and (array is None or type(array).__module__.split(".")[0] in ("numpy", "cupy"))


def pytest_collection_modifyitems(config, items):
    apart = [item for item in items if not _is_about_dlpack(item)]
    config.hook.pytest_deselected(items=apart)
    items[:] = [item for item in items if item not in apart]
    for item in items:
        item.module.np = types.SimpleNamespace(**{**vars(np), **_NUMPY})
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        if "arange" in _NUMPY and isinstance(parameters.get("in_arr"), np.ndarray):
            parameters["in_arr"] = parameters["in_arr"].view(Shown)

# SPDX-License-Identifier: Apache-2.0
"""NumPy's own tests of DLPack, as they are installed, over tensors of weir.

They run as NumPy wrote them. Only the name `np` in their module means something else: either its `from_dlpack` goes
through weir, or its arrays show themselves as tensors of weir do.
"""

import importlib.util
import types

import numpy as np
import pytest

import weir

# What cannot hold, and why it is meant so. A test that passes all the same fails here.
BY_DESIGN = {
    "ThroughFromDlpack": {},
    "ThroughDlpack": {
        "test_dunder_dlpack_stream": "a stream that this memory cannot have is a wrong value: ValueError, as CuPy has it",
        "test_dunder_dlpack_copy": "what is no bool is a wrong type: TypeError. NumPy's test says that it should be so",
    },
}


class Shown(np.ndarray):
    """An array that shows itself as weir's tensor over it does."""

    def __dlpack__(self, **arguments):
        return self.tensor().__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self.tensor().__dlpack_device__()

    def tensor(self):
        return weir.from_dlpack(np.ndarray.__dlpack__(self, max_version=(1, 3)))


def shown(function):
    return lambda *args, **kwargs: function(*args, **kwargs).view(Shown)


def through_from_dlpack(obj, /, **arguments):
    return np.from_dlpack(weir.from_dlpack(obj), **arguments)


def upstream(**changes):
    """NumPy's class of tests, from a module of its own in which `np` has these changes."""
    spec = importlib.util.find_spec("numpy._core.tests.test_dlpack")
    if spec is None:
        pytest.skip("this NumPy was installed without its tests", allow_module_level=True)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.np = types.SimpleNamespace(**{**vars(np), **changes})
    for test in vars(module.TestDLPack).values():  # pytest wants lists, and NumPy has generators
        for mark in getattr(test, "pytestmark", []):
            if mark.name == "parametrize" and isinstance(mark.args[1], types.GeneratorType):
                test.pytestmark[test.pytestmark.index(mark)] = pytest.mark.parametrize(mark.args[0], list(mark.args[1])).mark
    return module.TestDLPack


class MeantSo:
    @pytest.fixture(autouse=True)
    def not_by_design(self, request):
        reason = BY_DESIGN[type(self).__name__.removeprefix("Test")].get(request.node.originalname)
        if reason:
            request.applymarker(pytest.mark.xfail(strict=True, reason=reason))


class TestThroughFromDlpack(MeantSo, upstream(from_dlpack=through_from_dlpack)):
    pass


class TestThroughDlpack(
    MeantSo,
    upstream(ndarray=Shown, **{name: shown(getattr(np, name)) for name in ("arange", "array", "asarray", "zeros")}),
):
    pass


def test_what_is_left_out_is_there():
    for name, reasons in BY_DESIGN.items():
        for test in reasons:
            assert hasattr(globals()["Test" + name], test)


def test_arrays_go_through_weir():
    array = TestThroughDlpack.test_copy.__globals__["np"].arange(3)
    assert type(array) is Shown
    assert np.from_dlpack(array).ctypes.data == array.ctypes.data
    with pytest.raises(ValueError, match="not CUDA's"):
        array.__dlpack__(stream=1)
    with pytest.raises(TypeError, match="from_dlpack needs an object with __dlpack__"):
        TestThroughFromDlpack.test_copy.__globals__["np"].from_dlpack(3)

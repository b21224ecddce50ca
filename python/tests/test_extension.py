# SPDX-License-Identifier: Apache-2.0
"""weir/interop/python.hpp, as the extension module of examples/python/03_extension.cpp uses it."""

import gc
import importlib.util
import os
import weakref
from pathlib import Path

import capsules
import numpy as np
import pytest

import weir

FOLDER = Path(weir.__file__).parents[2] / "examples" / "python"
BUILT = list(Path(os.environ.get("WEIR_EXTENSION_DIR", FOLDER)).glob("extension*.so"))
pytestmark = pytest.mark.skipif(not BUILT, reason="the extension module of the examples was not built")


@pytest.fixture(scope="module")
def scaled():
    spec = importlib.util.spec_from_file_location("extension", BUILT[0])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.scaled


def test_a_tensor_goes_in_and_one_comes_out(scaled):
    array = np.arange(24, dtype="float32").reshape(2, 3, 4)
    capsule = scaled(array, 2.0)
    assert capsules.name(capsule) == "dltensor_versioned"
    product = np.from_dlpack(weir.from_dlpack(capsule))
    assert product.shape == (2, 3, 4) and (product == 2 * array).all()
    assert capsules.name(capsule) == "used_dltensor_versioned"
    product[:] = 1  # it may be written
    for empty in (np.empty((0, 3), "float32"), np.empty(0, "float32")):
        assert np.from_dlpack(weir.from_dlpack(scaled(empty, 2.0))).shape == empty.shape


def test_everything_is_given_back(scaled):
    array = np.ones(1000, "float32")
    alive = weakref.ref(array)
    capsules_left = [scaled(array, 1.0) for _ in range(10)]
    del array
    gc.collect()
    assert alive() is None, "the tensor that went in is over"
    struct = capsules.managed(capsules_left[0])
    assert struct.tensor.shape[0] == 1000
    del capsules_left  # nobody took them


def test_a_capsule_that_nobody_takes_ends_quietly_while_an_exception_is_in_flight(scaled):
    def fail():
        capsule = scaled(np.ones(4, "float32"), 1.0)
        raise KeyError(capsule is not None)

    with pytest.raises(KeyError):
        fail()


def test_read_only_tensors_may_be_read(scaled):
    array = np.ones(4, "float32")
    array.flags.writeable = False
    assert (np.from_dlpack(weir.from_dlpack(scaled(array, 5.0))) == 5).all()


class Producer:
    def __init__(self, answer):
        self.answer, self.asked = answer, []

    def __dlpack__(self, **arguments):
        self.asked.append(arguments)
        return self.answer(**arguments)


def test_producers_are_asked_by_the_protocol(scaled):
    array = np.ones(4, "float32")
    newer = Producer(array.__dlpack__)
    scaled(newer, 1.0)
    assert newer.asked == [{"stream": None, "max_version": (1, 3)}]
    older = Producer(lambda stream: array.__dlpack__())
    assert (np.from_dlpack(weir.from_dlpack(scaled(older, 3.0))) == 3).all()
    assert older.asked[1:] == [{"stream": None}]


def test_errors_are_exceptions_of_python(scaled):
    array = np.ones((4, 4), "float32")

    def refuses(**_):
        raise BufferError("not this one")

    used = array.__dlpack__(max_version=(1, 0))
    scaled(Producer(lambda **_: used), 1.0)
    forged = array.__dlpack__(max_version=(1, 0))
    capsules.managed(forged).tensor.device_type = 10
    newer = array.__dlpack__(max_version=(1, 0))
    capsules.managed(newer).major = 2
    for wrong, kind, words in (
        ("text", AttributeError, "__dlpack__"),
        (Producer(refuses), BufferError, "not this one"),
        (Producer(lambda **_: 3), TypeError, "did not return a DLPack capsule"),
        (Producer(lambda **_: used), ValueError, "consumed already"),
        (array.astype("float64"), ValueError, "the elements are float64"),
        (array[:, ::2], ValueError, "without gaps"),
        (Producer(lambda **_: forged), BufferError, "device type 10"),
        (Producer(lambda **_: newer), BufferError, "version 2"),
    ):
        with pytest.raises(kind, match=words):
            scaled(wrong, 1.0)
    with pytest.raises(TypeError):
        scaled(array)

# SPDX-License-Identifier: Apache-2.0
"""weir.from_dlpack by the C functions of a producer, which ctypes makes here."""

import ctypes
import gc
import os
import sys
import time
import types
import weakref

import capsules
import numpy as np
import pytest
from gates import Gate

import weir

FromObject = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))
WorkStream = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
pointer_in = ctypes.pythonapi.PyCapsule_GetPointer
pointer_in.restype, pointer_in.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


class Table(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p), ("from_object", FromObject), ("to_object", ctypes.c_void_p),
        ("lend", ctypes.c_void_p), ("current_work_stream", WorkStream),
    ]


KEPT = []  # tables live as long as the process, as the specification has it


def export(self, out):
    """What a library does: own the object's array, by the struct that NumPy makes."""
    self.asked.append("c")
    capsule = self.array.__dlpack__(max_version=(1, 3))
    out[0] = pointer_in(capsule, b"dltensor_versioned")
    KEPT.append(capsule)  # it would call the deleter that is ours now
    ctypes.pythonapi.PyCapsule_SetName(ctypes.py_object(capsule), b"used_dltensor_versioned")
    return 0


def no_stream(device, number, out):
    out[0] = None
    return 0


def producer(from_object=export, current_work_stream=no_stream, major=1, previous=None, name=b"dlpack_exchange_api"):
    """A class with a table, whose objects note how they are asked."""
    table = Table(major, 3, previous, None, FromObject(from_object) if from_object else FromObject(), None, None,
                  WorkStream(current_work_stream) if current_work_stream else WorkStream())
    KEPT.append(table)

    class Array:
        __dlpack_c_exchange_api__ = new_capsule(ctypes.addressof(table), name, None)

        def __init__(self, array):
            self.array, self.asked = array, []

        def __dlpack__(self, **options):
            self.asked.append("python")
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    Array.table = table
    return Array


def test_the_c_functions_are_called():
    array = producer()(np.arange(6, dtype="int16").reshape(2, 3))
    for _ in range(3):
        tensor = weir.from_dlpack(array)
        assert (tensor.shape, tensor.dtype, tensor.device) == ((2, 3), "int16", weir.host_device())
        assert tensor.buffer.host_data == array.array.ctypes.data
    assert array.asked == ["c"] * 3


def test_the_memory_lives_as_long_as_the_tensor():
    memory = np.arange(10)
    alive = weakref.ref(memory)
    tensor = weir.from_dlpack(producer()(memory))
    del memory
    gc.collect()
    assert alive() is not None and np.from_dlpack(tensor).tolist() == list(range(10))
    del tensor
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("lacking", [
    {"from_object": None}, {"current_work_stream": None}, {"major": 2}, {"major": 0}, {"name": b"other"},
])
def test_what_cannot_be_used_is_asked_by_dlpack(lacking):
    array = producer(**lacking)(np.arange(3))
    assert weir.from_dlpack(array).shape == (3,) and array.asked == ["python"]


@pytest.mark.parametrize("attribute", [None, 7, "table"])
def test_what_is_no_table_is_asked_by_dlpack(attribute):
    kind = producer()
    kind.__dlpack_c_exchange_api__ = attribute
    array = kind(np.arange(3))
    assert weir.from_dlpack(array).shape == (3,) and array.asked == ["python"]


def test_a_newer_version_names_the_one_before():
    old = producer().table
    array = producer(from_object=None, major=2, previous=ctypes.addressof(old))(np.arange(3))
    assert weir.from_dlpack(array).shape == (3,) and array.asked == ["c"]


def test_versions_that_go_in_a_circle_end():
    kind = producer(major=2)
    kind.table.previous = ctypes.addressof(kind.table)
    array = kind(np.arange(3))
    assert weir.from_dlpack(array).shape == (3,) and array.asked == ["python"]


def test_a_class_is_known_exactly():
    """A subclass may have a table of its own, or none."""
    base = producer()

    class Without(base):
        __dlpack_c_exchange_api__ = None

    class Inherits(base):
        pass

    for kind, asked in [(base, "c"), (Without, "python"), (Inherits, "c"), (base, "c"), (Without, "python")]:
        array = kind(np.arange(3))
        assert weir.from_dlpack(array).shape == (3,) and array.asked == [asked]


def test_many_classes():
    kinds = [producer() if i % 2 else producer(major=2) for i in range(20)]
    alive = [weakref.ref(kind) for kind in kinds]
    for _ in range(3):
        for i, kind in enumerate(kinds):
            array = kind(np.arange(3))
            assert weir.from_dlpack(array).shape == (3,) and array.asked == ["c" if i % 2 else "python"]
    del kinds, kind, array
    gc.collect()
    assert sum(one() is not None for one in alive) <= 8, "few classes are remembered"


def test_its_errors_are_raised():
    kind = producer()
    # Not a function of ctypes, which would not leave an exception set. This one wants no tensor, and has no answer.
    kind.table.from_object = FromObject(ctypes.cast(ctypes.pythonapi.PyObject_Size, ctypes.c_void_p).value)
    with pytest.raises(TypeError, match="object of type 'Array' has no len"):
        weir.from_dlpack(kind(np.arange(3)))
    with pytest.raises(BufferError, match="managed_tensor_from_py_object_no_sync gave neither"):
        weir.from_dlpack(producer(lambda self, out: -1)(np.arange(3)))
    with pytest.raises(BufferError, match="managed_tensor_from_py_object_no_sync gave neither"):
        weir.from_dlpack(producer(lambda self, out: 0)(np.arange(3)))


def garbage(change):
    """A tensor like NumPy's with a change, and the count of its deletions."""
    deleted = []

    def from_object(self, out):
        export(self, out)
        struct = capsules.Versioned.from_address(out[0])
        theirs = struct.deleter
        KEPT.append(theirs)
        original = ctypes.cast(theirs, ctypes.c_void_p).value

        def delete(pointer):
            deleted.append(pointer)
            ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(original)(out_address)

        out_address = out[0]
        mine = type(theirs)(delete)
        KEPT.append(mine)
        struct.deleter = mine
        change(struct)
        return 0

    return from_object, deleted


@pytest.mark.parametrize("change", [
    lambda s: setattr(s.tensor, "ndim", -1),
    lambda s: setattr(s.tensor, "ndim", 3) or setattr(s.tensor, "shape", None),
    lambda s: setattr(s.tensor, "lanes", 0),
    lambda s: setattr(s.tensor, "device_type", 77),
    lambda s: setattr(s, "major", 2),
])
def test_garbage_is_refused_and_given_back(change):
    from_object, deleted = garbage(change)
    with pytest.raises((weir.Error, BufferError)):
        weir.from_dlpack(producer(from_object)(np.arange(3)))
    assert len(deleted) == 1


class LikeTorch(producer()):
    requires_grad = conjugate = negative = False

    def is_conj(self):
        return self.conjugate

    def is_neg(self):
        return self.negative


def test_tensors_of_torch_that_its_c_function_does_not_refuse(monkeypatch):
    class Tensor(LikeTorch):
        pass

    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(Tensor=Tensor))
    for name in (None, "requires_grad", "conjugate", "negative"):
        tensor = Tensor(np.arange(3))
        if name:
            setattr(tensor, name, True)
        assert weir.from_dlpack(tensor).shape == (3,)
        assert tensor.asked == (["python"] if name else ["c"])


def test_tvm_ffi():
    tvm_ffi = pytest.importorskip("tvm_ffi", reason="apache-tvm-ffi is not there")
    array = np.arange(5, dtype="float32")
    tensor = weir.from_dlpack(tvm_ffi.from_dlpack(array))
    assert tensor.buffer.host_data == array.ctypes.data and np.from_dlpack(tensor).tolist() == [0, 1, 2, 3, 4]


class Driver:
    """Streams of CUDA that are somebody else's."""

    def __init__(self):
        self.library = ctypes.CDLL(os.environ.get("WEIR_CUDA_LIBRARY", "libcuda.so.1"))
        self.context = ctypes.c_void_p()
        assert self.library.cuDevicePrimaryCtxRetain(ctypes.byref(self.context), 0) == 0

    def __enter__(self):
        assert self.library.cuCtxPushCurrent_v2(self.context) == 0
        return self

    def __exit__(self, *_):
        assert self.library.cuCtxPopCurrent_v2(ctypes.byref(self.context)) == 0

    def stream(self):
        made = ctypes.c_void_p()
        with self:
            assert self.library.cuStreamCreate(ctypes.byref(made), 1) == 0
        return made


def on_cuda(memory, work_stream, asked):
    """A class whose objects are memory of weir, as a library gives them whose work is on a stream of its own."""
    ours = Table.from_address(pointer_in(weir.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api"))

    def from_object(self, out):
        asked.append("tensor")
        return ours.from_object(self.tensor, out)

    def current(device, number, out):
        asked.append((device, number))
        out[0] = work_stream
        return 0

    kind = producer(from_object, current)

    class Array(kind):
        def __init__(self, tensor):
            self.tensor = tensor

    return Array


@pytest.mark.parametrize("consumer", ["legacy", "stream", "host"])
def test_cuda_tensors_are_in_order_of_the_work_stream(cuda, consumer):
    driver, asked = Driver(), []
    theirs = driver.stream()
    target = {
        "legacy": None, "stream": weir.Stream(cuda.device), "host": weir.Stream(weir.host_device()),
    }[consumer]
    for size in (1 << 20, 4096):
        buffer = cuda.allocate(size)
        buffer.fill(0, stream=cuda.stream)
        buffer.copy_to(bytearray(size), stream=cuda.stream)  # what stages it is there before a stream stands still
        cuda.stream.synchronize()
        kind = on_cuda(buffer, theirs.value, asked)
        with Gate(weir.borrow_cuda_stream(cuda.device, theirs.value)):
            with driver:
                assert driver.library.cuMemsetD8Async(
                    ctypes.c_uint64(buffer.device_address), ctypes.c_ubyte(8), ctypes.c_size_t(size), theirs
                ) == 0
            tensor = weir.from_dlpack(kind(buffer.view()), stream=target)
            reader = target if consumer == "stream" else weir.borrow_cuda_stream(cuda.device, 1)
            if consumer == "host":
                reader.wait(target.record())
            out = tensor.copy_to(np.zeros(size, "uint8"), stream=reader)
            assert reader.synchronize(timeout=0.05) is False
        reader.synchronize()
        assert (out == 8).all()
        del tensor
        buffer.close()
        end = time.monotonic() + 30
        while cuda.resource.stats()["reserved"] != 0 and time.monotonic() < end:  # freed by another thread
            time.sleep(0.001)
        assert cuda.resource.stats()["reserved"] == 0  # a free during the next gate would wait, and everybody for it
    assert asked == ["tensor", (2, 0)] * 2
    with driver:  # nothing of weir's uses it any more
        assert driver.library.cuStreamDestroy_v2(theirs) == 0


def test_a_cuda_stream_that_cannot_be_told(cuda):
    buffer = cuda.allocate(64)
    kind = on_cuda(buffer, None, [])
    kind.table.current_work_stream = failing = WorkStream(lambda device, number, out: -1)
    KEPT.append(failing)
    with pytest.raises(BufferError, match="current_work_stream gave neither"):
        weir.from_dlpack(kind(buffer.view()))
    buffer.close()
    cuda.stream.synchronize()
    assert cuda.resource.stats()["live_buffers"] == 0

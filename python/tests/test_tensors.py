# SPDX-License-Identifier: Apache-2.0
"""Tensors as arrays: indexing, shapes and element types are NumPy's."""

import random

import numpy as np
import pytest

import weir


def both(shape, dtype="int32", offset=0):
    """A tensor and NumPy's array over the same memory, all elements different."""
    item = np.dtype(dtype).itemsize
    elements = int(np.prod(shape))
    device = weir.host_device()
    stream = weir.Stream(device)
    buffer = weir.make_resource(device).allocate(offset + elements * item, stream=stream)
    tensor = buffer.view(dtype, shape, byte_offset=offset)
    array = np.asarray(tensor)
    array[...] = np.arange(elements).reshape(shape)
    return tensor, array


def same(tensor, array):
    if isinstance(array, np.generic):  # NumPy has no array of one element there
        assert tensor.shape == () and np.asarray(tensor) == array
        return
    assert tensor.shape == array.shape
    assert tensor.ndim == array.ndim and tensor.size == array.size and tensor.nbytes == array.nbytes
    view = np.asarray(tensor)
    assert view.dtype == array.dtype and (view == array).all()
    if array.size:
        assert view.ctypes.data == array.ctypes.data
        steps = [(a, b) for a, b, extent in zip(view.strides, array.strides, array.shape) if extent > 1]
        assert all(a == b for a, b in steps)


KEYS = [
    0,
    -1,
    np.int64(1),
    slice(None),
    slice(1, None),
    slice(None, None, -1),
    slice(3, 0, -2),
    slice(0, 0),
    slice(-100, 100, 3),
    ...,
    None,
    (),
    (1, 2),
    (slice(None), 1),
    (..., 1),
    (1, ..., slice(None, None, 2)),
    (None, slice(2), None, ..., None),
    (0, 0, 0),
    (..., slice(1, 3), slice(4, 1, -1)),
]


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_basic_indexing(key):
    tensor, array = both((4, 3, 5), offset=8)
    same(tensor[key], array[key])


def test_random_views():
    rng = random.Random(7)
    reshaped = 0
    for _ in range(300):
        tensor, array = both([rng.randint(1, 4) for _ in range(rng.randint(0, 4))], "uint16")
        for _ in range(4):
            what = rng.randrange(4)
            if what == 0:
                key = []
                for _ in range(rng.randint(0, array.ndim)):
                    bounds = [rng.choice([None, rng.randint(-6, 6)]) for _ in range(2)]
                    key.append(slice(*bounds, rng.choice([None, -2, -1, 1, 2, 3])))
                key.insert(rng.randint(0, len(key)), rng.choice([..., None]))
                tensor, array = tensor[tuple(key)], array[tuple(key)]
                assert isinstance(array, np.ndarray)
            elif what == 1:
                axes = rng.sample(range(array.ndim), array.ndim)
                tensor, array = tensor.transpose(*axes) if axes else tensor.T, array.transpose(axes)
            elif what == 2 and array.ndim and array.shape[0]:
                index = rng.randrange(-array.shape[0], array.shape[0])
                tensor, array = tensor[index], array[index, ...]
            elif what == 3 and array.size:
                divisors = [n for n in range(1, array.size + 1) if array.size % n == 0]
                shape = (rng.choice(divisors), -1, 1)
                copied = array.reshape(shape)
                if np.shares_memory(copied, array):
                    tensor, array = tensor.reshape(shape), copied
                    reshaped += 1
                else:
                    with pytest.raises(weir.Error, match="have to be copied"):
                        tensor.reshape(shape)
            same(tensor, array)
    assert reshaped > 100


def a_view(rng, shape, dtype, device):
    """A tensor of this shape somewhere in a larger one, with the dimensions in any order, forward or backward."""
    axes = rng.sample(range(len(shape)), len(shape))
    steps = [rng.choice([-2, -1, 1, 1, 2]) for _ in shape]
    whole = [extent * abs(step) + rng.randint(0, 2) for extent, step in zip(shape, steps)]
    stream = weir.Stream(device)
    elements = int(np.prod(whole))
    tensor = weir.make_resource(device).allocate(elements * np.dtype(dtype).itemsize, stream=stream).view(
        dtype, [whole[axis] for axis in axes]
    )
    array = np.random.default_rng(elements).integers(0, 100, elements).astype(dtype).reshape(tensor.shape)
    tensor.buffer.copy_from(array, stream=stream)
    stream.synchronize()
    back = [axes.index(axis) for axis in range(len(shape))]
    key = tuple(
        slice(None, step * extent, step) if step > 0 else slice(extent * -step - 1, None, step)
        for extent, step in zip(shape, steps)
    )
    if not shape:
        return tensor, array, tensor, array
    return tensor, array, tensor.transpose(back)[key], array.transpose(back)[key]


def contents(tensor):
    stream = weir.Stream(tensor.device)
    array = np.empty(tensor.shape, tensor.dtype)
    tensor.buffer.copy_to(array, stream=stream)
    stream.synchronize()
    return array


def test_copies_of_random_layouts():
    rng = random.Random(9)
    for _ in range(150):
        shape = [rng.randint(1, 5) for _ in range(rng.randint(0, 4))]
        dtype = rng.choice(["uint8", "int16", "float32", "float64", "complex128"])
        whole, model, dst, dst_model = a_view(rng, shape, dtype, rng.choice(weir.devices()))
        _, _, src, src_model = a_view(rng, shape, dtype, rng.choice(weir.devices()))
        assert dst.shape == dst_model.shape == src.shape == tuple(shape)
        stream = weir.Stream(rng.choice([dst.device, src.device]))
        if rng.randrange(2):
            assert src.copy_to(dst, stream=stream) is dst
        else:
            dst.copy_from(src, stream=stream)
        copy = src.copy_to(stream=stream)
        stream.synchronize()
        if shape:
            dst_model[...] = src_model
        else:
            model[...] = src_model
        assert (contents(whole) == model).all()
        assert copy.is_contiguous and (contents(copy) == src_model).all()


@pytest.mark.parametrize("device", weir.devices(), ids=lambda device: device.id)
def test_regions_of_numpy_arrays(device):
    stream = weir.Stream(device)
    padded = weir.make_resource(device).allocate(6 * 8 * 4, stream=stream).view("float32", (6, 8))
    padded.buffer.fill(0, stream=stream)
    array = np.arange(30, dtype="float32").reshape(5, 6)
    padded[1:6, 2:8].copy_from(weir.from_dlpack(array), stream=stream)
    back = np.zeros((6, 5), "float32")
    padded[1:6, 2:8].T.copy_to(weir.from_dlpack(back), stream=stream)
    stream.synchronize()
    assert (back == array.T).all()
    assert contents(padded)[0].sum() == 0 and contents(padded)[:, :2].sum() == 0


def test_copies_that_do_not_fit():
    tensor, array = both((4, 4))
    stream = weir.Stream(weir.host_device())
    with pytest.raises(weir.Error, match=r"int32 of shape \(4, 4\), the destination int32 of shape \(3, 4\)"):
        tensor.copy_to(tensor[:3], stream=stream)
    with pytest.raises(weir.Error, match="overlap"):
        tensor.T.copy_to(tensor, stream=stream)
    for wrong in [1, "a", None]:
        with pytest.raises(TypeError, match="src must be a Tensor, a Buffer, or an array .*, not "):
            tensor.copy_from(wrong, stream=stream)
    for wrong in [1, "a"]:
        with pytest.raises(TypeError, match="dst must be a Tensor, a Buffer, or an array .*, not "):
            tensor.copy_to(wrong, stream=stream)
    with pytest.raises(TypeError):
        tensor.copy_to(tensor)


def test_shapes():
    tensor, array = both((4, 6))
    same(tensor.reshape(2, 12), array.reshape(2, 12))
    same(tensor.reshape((3, -1)), array.reshape(3, -1))
    same(tensor.reshape(-1), array.reshape(-1))
    same(tensor.reshape(np.int32(24)), array.reshape(24))
    same(tensor.T, array.T)
    same(tensor.transpose(-1, 0), array.transpose(-1, 0))
    same(tensor.transpose((0, 1)), array)
    for axes in [(0,), (0, 0), (0, 2), (0, -3)]:
        with pytest.raises(weir.Error, match="named once"):
            tensor.transpose(axes)
    with pytest.raises(weir.Error, match="no shape"):
        tensor.reshape(5, 5)


def test_sequences():
    tensor, array = both((3, 2))
    assert len(tensor) == 3
    assert [row.shape for row in tensor] == [(2,)] * 3
    assert np.asarray(list(tensor)[2]).tolist() == array[2].tolist()
    with pytest.raises(TypeError, match="no dimensions"):
        len(tensor[0, 0])
    with pytest.raises(IndexError, match="index 3 is out of bounds for dimension 0 of 3 elements"):
        tensor[3]
    with pytest.raises(IndexError, match="index -3 is out of bounds for dimension 1"):
        tensor[0, -3]
    with pytest.raises(IndexError, match="3 indices for 2 dimensions"):
        tensor[0, 0, 0]
    with pytest.raises(IndexError, match="one ellipsis"):
        tensor[..., ...]
    for key in [1.0, "a", True, [0, 1], (0, "a"), np.arange(2)]:
        with pytest.raises((TypeError, IndexError)):
            tensor[key]
    with pytest.raises(TypeError):
        tensor[slice("a")]
    with pytest.raises(ValueError, match="zero"):
        tensor[::0]


def test_iteration_and_truth(pageable):
    tensor = pageable.filled(24, 3).view("int32", (3, 2))
    assert [part.shape for part in tensor] == [(2,)] * 3
    assert [np.asarray(part).tolist() for part in tensor] == np.asarray(tensor).tolist()
    assert list(tensor[0:0]) == []
    first, *others = tensor
    assert first.byte_offset == 0 and len(others) == 2
    for there in (tensor, tensor[0:0], tensor[0, 0], pageable.allocate(0).view("float32")):
        assert bool(there), "it is not None"
    with pytest.raises(TypeError, match="a tensor of no dimensions has no parts to iterate over"):
        iter(tensor[0, 0])


def test_parts_are_owners():
    tensor, _ = both((8,))
    part = tensor[2:4]
    tensor.buffer.close()
    del tensor
    assert np.asarray(part).tolist() == [2, 3]


@pytest.mark.parametrize(
    "given, name",
    [
        ("f4", "float32"),
        ("<f8", "float64"),
        ("=i2", "int16"),
        ("|u1", "uint8"),
        ("u8", "uint64"),
        ("c16", "complex128"),
        ("?", "bool"),
        ("b1", "bool"),
        (float, "float64"),
        (int, "int64"),
        (bool, "bool"),
        (complex, "complex128"),
        (np.dtype("f4"), "float32"),
        (np.float16, "float16"),
    ],
    ids=str,
)
def test_element_types(given, name):
    tensor, _ = both((2,), "complex128")
    assert tensor.buffer.view(given, 1).dtype == name


@pytest.mark.parametrize("wrong", [">f4", "f3", "f", "x4", "i16", "u", "", "f4f4", "<", "f-4", object(), np.dtype(">i4")])
def test_what_is_no_element_type(wrong):
    tensor, _ = both((2,), "complex128")
    with pytest.raises(ValueError, match="there are uint8"):
        tensor.buffer.view(wrong, 1)


def test_extents_are_integers():
    tensor, _ = both((4,), "uint8")
    assert tensor.buffer.view("uint8", np.int64(3)).shape == (3,)
    assert tensor.buffer.view("uint8", (np.int8(2), 2)).shape == (2, 2)
    assert tensor.buffer.view("uint8", np.array([2, 2])).shape == (2, 2)
    for wrong in [2.0, (1.5,), "22", True, (True,), {2}, object()]:
        with pytest.raises(TypeError, match="extent"):
            tensor.buffer.view("uint8", wrong)
    with pytest.raises(OverflowError):
        tensor.buffer.view("uint8", 1 << 70)
    with pytest.raises(TypeError):
        tensor.buffer.view(None)

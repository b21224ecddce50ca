# SPDX-License-Identifier: Apache-2.0
"""JAX on the CPU, along the lines of its own array_interoperability_test.py. JAX takes capsules of DLPack before 1.0 only,
and its arrays are immutable."""

import contextlib
import gc

import numpy as np
import pytest

import weir

jax = pytest.importorskip("jax", reason="JAX is not there")
jnp = pytest.importorskip("jax.numpy")
jax.config.update("jax_platforms", "cpu")  # also where it could use a GPU

DTYPES = (
    "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128 "
    "float8_e4m3fn float8_e5m2"
).split()
SHAPES = [(), (4,), (0,), (3, 0), (2, 3, 4), (1, 5, 1), (2,) * 6]


@contextlib.contextmanager
def wide_types():
    """JAX makes 32 bits of 64 without this."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", before)


def filled(memory, dtype, shape):
    """A tensor of ones and zeros, and the array of NumPy that is equal to it."""
    array = (np.arange(int(np.prod(shape))) % 2).reshape(shape).astype(jnp.dtype(dtype))
    buffer = memory.allocate(array.nbytes)
    buffer.copy_from(array.reshape(-1).view("uint8"), stream=memory.stream)
    return buffer.view(dtype, shape), array


@pytest.mark.parametrize("take", [jax.dlpack.from_dlpack, jnp.from_dlpack, jnp.asarray])
@pytest.mark.parametrize("dtype", DTYPES)
def test_jax_takes_tensors(pageable, dtype, take):
    with wide_types():
        for shape in SHAPES:
            tensor, array = filled(pageable, dtype, shape)
            taken = take(tensor)
            assert taken.shape == shape and taken.dtype == array.dtype
            assert (np.asarray(taken) == array).all()
            if array.size:
                assert taken.unsafe_buffer_pointer() == tensor.buffer.host_data


@pytest.mark.parametrize("dtype", DTYPES)
def test_jax_gives_tensors(dtype):
    with wide_types():
        for shape in SHAPES:
            array = (np.arange(int(np.prod(shape))) % 2).reshape(shape)
            given = jnp.asarray(array).astype(dtype)
            tensor = weir.from_dlpack(given)
            assert tensor.shape == shape and tensor.dtype == dtype and tensor.dtype == given.dtype
            assert (np.asarray(tensor) == np.asarray(given)).all()
            if array.size:
                assert tensor.buffer.host_data == given.unsafe_buffer_pointer()


def test_what_jax_gives_stays_as_it_is():
    given = jnp.arange(16, dtype="int32")
    tensor = weir.from_dlpack(given)
    assert tensor.is_read_only and not np.asarray(tensor).flags.writeable
    with pytest.raises(weir.Error, match="read-only"):
        tensor.buffer.fill(0, stream=weir.Stream(weir.host_device()))
    del given
    gc.collect()
    assert np.asarray(tensor).tolist() == list(range(16))
    again = jnp.asarray(tensor)  # by way of NumPy, if JAX does not ask for what says that it is read-only
    assert again.tolist() == list(range(16))
    try:
        taken = jax.dlpack.from_dlpack(tensor)
    except BufferError as refused:  # a JAX that has capsules of DLPack before 1.0 only
        assert "read-only; a consumer of DLPack 1.0 asks with max_version" in str(refused)
    else:
        assert taken.tolist() == list(range(16))


def test_jax_keeps_the_memory(pageable):
    tensor, _ = filled(pageable, "int32", (8,))
    taken = jnp.asarray(tensor)
    tensor.buffer.close()
    del tensor
    gc.collect()
    assert pageable.resource.stats()["live_buffers"] == 1
    assert taken.tolist() == [0, 1] * 4
    del taken
    gc.collect()
    assert pageable.resource.stats()["live_buffers"] == 0


def test_work_is_complete_when_jax_takes_a_tensor(pageable):
    buffer = pageable.allocate(8 << 20)
    for value in range(5):
        buffer.fill(value, stream=pageable.stream)
        assert int((jnp.array(buffer) != value).sum()) == 0


def test_jax_shares_what_begins_at_64_bytes_and_copies_the_rest(pageable):
    buffer = pageable.filled(4096, 1)
    assert buffer.host_data % 64 == 0
    for offset in (0, 64, 4, 32, 68):
        tensor = buffer.view("float32", (16,), byte_offset=offset)
        for taken in (jax.dlpack.from_dlpack(tensor), jnp.asarray(tensor)):
            assert (taken.unsafe_buffer_pointer() == buffer.host_data + offset) == (offset % 64 == 0)
            assert np.asarray(taken).tobytes() == b"\1" * 64
        if offset % 64:
            with pytest.raises(ValueError, match="not aligned to 64 bytes"):
                jax.dlpack.from_dlpack(tensor, copy=False)
    buffer.fill(2, stream=pageable.stream)


def test_copies_are_apart(pageable):
    tensor, array = filled(pageable, "int32", (8,))
    copy = jax.block_until_ready(jnp.array(tensor))  # from_dlpack(copy=True) of JAX 0.10 shares NumPy's arrays, too
    shared = jnp.asarray(tensor)
    tensor.buffer.fill(0, stream=pageable.stream)
    pageable.stream.synchronize()
    assert shared.tolist() == [0] * 8
    assert (np.asarray(copy) == array).all()


def test_arrays_with_gaps_go_by_way_of_numpy(pageable):
    tensor, array = filled(pageable, "float32", (6, 4))
    for change in (lambda a: a[::2], lambda a: a[::-1], lambda a: a[:, 1:3], lambda a: a.T, lambda a: a[2, None]):
        assert (np.asarray(jnp.asarray(change(tensor))) == change(array)).all()
    with pytest.raises(Exception, match="striding"):
        jax.dlpack.from_dlpack(tensor[::2])
    with pytest.raises(Exception, match="lanes != 1"):
        jax.dlpack.from_dlpack(tensor.buffer.view("uint8x4"))
    assert jnp.asarray(tensor.buffer).tolist() == list(array.tobytes())


def test_what_jax_cannot_take(device_memory):
    with pytest.raises((TypeError, RuntimeError), match="unsupported device type|Unknown backend cuda"):
        jnp.asarray(device_memory.allocate(64))


def test_small_floats_that_lie_inside_bytes():
    with pytest.raises(weir.Error, match="float4_e2m1fn are not whole bytes"):
        weir.from_dlpack(jnp.zeros(8, "float4_e2m1fn"))


def test_vectors(pageable):
    vector = weir.DeviceVector(pageable.resource, "int32", 3, stream=pageable.stream)
    vector.copy_from(np.arange(3, dtype="int32"), stream=pageable.stream)
    assert jnp.asarray(vector).tolist() == [0, 1, 2]


def test_closed_memory(pageable):
    buffer = pageable.allocate(64)
    buffer.close()
    with pytest.raises(weir.Error, match="__jax_array__: the buffer is closed"):
        jnp.asarray(buffer)


def test_jax_shares_every_memory_of_the_cpu(host_memory):
    if host_memory.info.dlpack_device != 1:
        pytest.skip("JAX takes no memory labelled CUDAHost or CUDAManaged")
    buffer = host_memory.filled(4096, 1)
    taken = jnp.asarray(buffer.view("int32"))
    assert taken.unsafe_buffer_pointer() == buffer.host_data and int(taken[-1]) == 0x01010101

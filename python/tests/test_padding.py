# SPDX-License-Identifier: Apache-2.0
"""Padded arrays: their shapes, what users of a dimension agree on, and that the padding is left alone."""

import random

import numpy as np
import pytest

import weir
from weir import PaddingNeeds

SEED = random.randrange(1 << 30)


def whole(tensor, padded, stream):
    """All of the padded array, as NumPy has it."""
    array = np.empty(padded, tensor.dtype)
    tensor.buffer.copy_to(array, stream=stream)
    stream.synchronize()
    return array


def test_a_corner_of_a_larger_array(memory):
    stream, padded = memory.stream, (4, 3, 8)
    tensor = memory.resource.allocate_tensor((3, 2, 5), "int32", stream=stream, padded_shape=padded)
    assert (tensor.shape, tensor.strides, tensor.dtype) == ((3, 2, 5), (24, 8, 1), "int32")
    assert tensor.padded_shape == (3, 3, 8), "no stride tells the rows that follow the last one"
    assert tensor.buffer.size == 4 * 3 * 8 * 4 and not tensor.is_contiguous
    tensor.buffer.fill(7, stream=stream, dtype="int32")
    tensor.fill(-1, stream=stream)
    model = np.full(padded, 7, "int32")
    model[:3, :2, :5] = -1
    assert (whole(tensor, padded, stream) == model).all()


def test_without_padding(memory):
    tensor = memory.resource.allocate_tensor((3, 4), np.float64, stream=memory.stream, alignment=512)
    assert tensor.is_contiguous and tensor.padded_shape == (3, 4) and tensor.buffer.size == 96
    assert memory.resource.allocate_tensor(5, "u1", stream=memory.stream).shape == (5,)
    assert memory.resource.allocate_tensor((), "u1", stream=memory.stream).buffer.size == 1
    assert memory.resource.allocate_tensor((0, 3), "u1", stream=memory.stream).size == 0


def test_padded_views(pageable):
    buffer = pageable.allocate(256)
    view = buffer.view("int16", (3, 5), padded_shape=(4, 8), byte_offset=32)
    assert (view.strides, view.byte_offset, view.padded_shape) == ((8, 1), 32, (3, 8))
    assert buffer.view("int16", (3, 5), padded_shape=view.padded_shape).strides == view.strides
    assert buffer.view("uint8", 9, padded_shape=16).shape == (9,)
    assert view[1:, :4].padded_shape == (2, 8) and view.T.padded_shape is None and view[:, ::2].padded_shape is None


def test_what_is_no_padded_shape(pageable):
    buffer, stream = pageable.allocate(256), pageable.stream
    for make in (lambda *a, **k: buffer.view(a[1], a[0], **k),
                 lambda *a, **k: pageable.resource.allocate_tensor(*a, stream=stream, **k)):
        for shape, padded in [((3, 5), (3, 4)), ((3, 5), (8,)), ((-1, 5), (3, 5)), ((1, 1), (1 << 40, 1 << 40))]:
            with pytest.raises(weir.Error) as caught:
                make(shape, "int16", padded_shape=padded)
            assert caught.value.condition is weir.Errc.invalid_argument
        with pytest.raises(TypeError, match="an extent of padded_shape must be an integer, not float"):
            make((3, 5), "int16", padded_shape=(3.0, 8))
        with pytest.raises(TypeError, match="an extent must be an integer or a sequence of them, not str"):
            make("35", "int16")
        with pytest.raises(ValueError, match="no element type 'int17'"):
            make((3, 5), "int17")
    with pytest.raises(weir.Error, match="the padded array ends at byte 258 of a buffer of 256"):
        buffer.view("int16", (3, 5), padded_shape=(16, 8), byte_offset=2)
    with pytest.raises(TypeError, match="padded_shape needs a shape"):
        buffer.view("int16", padded_shape=(16, 8))
    with pytest.raises(TypeError):
        pageable.resource.allocate_tensor((3, 5), "int16")
    with pytest.raises(weir.OutOfMemory):
        pageable.resource.allocate_tensor((1 << 50,), "int16", stream=stream)


def test_needs_of_several_users():
    warps, tiles = PaddingNeeds(100, multiple_of=32), PaddingNeeds(100, at_least=130, multiple_of=12, aligned_to=64)
    both = warps.unite(tiles)
    assert both == tiles.unite(warps) == PaddingNeeds(100, at_least=130, multiple_of=96, aligned_to=both.aligned_to)
    assert both.extent() == 192 and both.allows(192) and not both.allows(130) and both.allows(np.int64(288))
    assert (warps.size, warps.at_least, warps.multiple_of, warps.aligned_to, warps.exact) == (100, 0, 32, 1, False)
    assert hash(warps) == hash(PaddingNeeds(100, multiple_of=32)) and warps != tiles and warps != 100
    assert repr(tiles) == "weir.PaddingNeeds(100, at_least=130, multiple_of=12, aligned_to=64)"
    assert eval(repr(both)) == both and eval(repr(PaddingNeeds(8, exact=True))) == PaddingNeeds(8, exact=True)
    assert weir.padded_shape([PaddingNeeds(7), both]) == (7, 192) and weir.padded_shape(()) == ()
    assert PaddingNeeds(8, exact=True).unite(PaddingNeeds(8, multiple_of=4)).extent() == 8
    assert weir.elements_per_line("float32") == 32 and weir.elements_per_line(np.complex128, bytes=np.int32(64)) == 4


def test_needs_that_do_not_fit():
    for wrong in [
        lambda: PaddingNeeds(8).unite(PaddingNeeds(9)),
        lambda: PaddingNeeds(9, exact=True).unite(PaddingNeeds(9, multiple_of=2)),
        lambda: PaddingNeeds(-1).extent(),
        lambda: PaddingNeeds(1, multiple_of=0).extent(),
        lambda: weir.padded_shape([PaddingNeeds(9, multiple_of=2, exact=True)]),
        lambda: weir.elements_per_line("u1", 0),
    ]:
        with pytest.raises(weir.Error) as caught:
            wrong()
        assert caught.value.condition is weir.Errc.invalid_argument
    with pytest.raises(TypeError, match="multiple_of must be an integer, not float"):
        PaddingNeeds(1, multiple_of=2.0)
    with pytest.raises(TypeError, match=r"dimensions\[1\] must be a weir.PaddingNeeds, not int"):
        weir.padded_shape([PaddingNeeds(1), 2])
    with pytest.raises(TypeError, match="dimensions must be a sequence of weir.PaddingNeeds, not "):
        weir.padded_shape(PaddingNeeds(1))
    with pytest.raises(ValueError, match="bytes must not be negative"):
        weir.elements_per_line("u1", -1)


def test_twins_have_the_padding(memory):
    stream = memory.stream
    tensor = memory.resource.allocate_tensor((3, 5), "int16", stream=stream, padded_shape=(3, 8))
    tensor.copy_from(np.arange(15, dtype="int16").reshape(3, 5), stream=stream)
    for twin in (tensor.empty_like(stream=stream), tensor.empty_like_host(stream=stream),
                 tensor.empty_like(weir.make_pool(memory.resource), stream=stream)):
        assert (twin.shape, twin.strides, twin.padded_shape, twin.dtype) == ((3, 5), (8, 1), (3, 8), "int16")
        assert twin.buffer.size == 48
        tensor.copy_to(twin, stream=stream)
        back = np.empty((3, 5), "int16")
        twin.copy_to(back, stream=stream)
        stream.synchronize()
        assert (back == np.arange(15).reshape(3, 5)).all()
    assert tensor.empty_like_host(stream=stream).buffer.is_host_accessible
    assert tensor.T.empty_like(stream=stream).is_contiguous, "no padding tells its strides"


def test_a_twin_of_a_closed_tensor(pageable):
    tensor = pageable.resource.allocate_tensor((3,), "u1", stream=pageable.stream)
    with pytest.raises(TypeError):
        tensor.empty_like("pinned", stream=pageable.stream)
    adopted = weir.from_dlpack(np.zeros(3))
    assert adopted.empty_like(stream=pageable.stream).shape == (3,)


def random_region(rng, padded_shapes):
    """A slice for each dimension, of the same number of positions in all arrays of these shapes."""
    keys = [[] for _ in padded_shapes]
    for extents in zip(*padded_shapes):
        length = rng.randint(1, min(extents))
        for key, extent in zip(keys, extents):
            step = rng.randint(1, max(1, (extent - 1) // max(1, length - 1)))
            first = rng.randint(0, extent - 1 - (length - 1) * step)
            key.append(slice(first, first + (length - 1) * step + 1, step))
    return [tuple(key) for key in keys]


@pytest.mark.parametrize("device", weir.devices(), ids=lambda device: device.id)
def test_random_regions_against_numpy(device):
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    stream, resource = weir.Stream(device), weir.make_resource(device)
    for _ in range(40):
        dtype = rng.choice(["uint8", "int16", "float32", "complex64", "complex128"])
        dimensions = rng.randint(1, 3)
        tensors, shapes, paddings, models = [], [], [], []
        for _ in range(2):
            shape = [rng.randint(1, 7) for _ in range(dimensions)]
            padding = [extent + rng.randint(0, 3) for extent in shape]
            tensor = resource.allocate_tensor(shape, dtype, stream=stream, padded_shape=padding)
            model = np.array([rng.randrange(100) for _ in range(int(np.prod(padding)))]).astype(dtype).reshape(padding)
            tensor.buffer.copy_from(model, stream=stream)
            tensors.append(tensor), shapes.append(shape), paddings.append(padding), models.append(model)
        corners = [model[tuple(map(slice, shape))] for model, shape in zip(models, shapes)]
        to, of = random_region(rng, shapes)
        what = rng.randrange(4)
        if what == 0:
            value = rng.randrange(100)
            tensors[0][to].fill(value, stream=stream)
            corners[0][to] = value
        elif what == 1:
            tensors[1][of].copy_to(tensors[0][to], stream=stream)
            corners[0][to] = corners[1][of]
        elif what == 2:
            array = corners[1][of].copy(order=rng.choice("CF"))
            tensors[0][to].copy_from(array, stream=stream)
            array[...] = 0  # it has been read
            corners[0][to] = corners[1][of]
        else:
            target = models[0].copy()
            tensors[1][of].copy_to(target[tuple(map(slice, shapes[0]))][to], stream=stream)
            corners[0][to] = corners[1][of]
            stream.synchronize()
            assert (target == models[0]).all(), (SEED, dtype, to, of)
            continue
        for tensor, padding, model in zip(tensors, paddings, models):
            assert (whole(tensor, padding, stream) == model).all(), (SEED, what, dtype, to, of)


def test_every_second_of_five_is_three(memory):
    tensor = memory.resource.allocate_tensor((5,), "u1", stream=memory.stream)
    tensor.copy_from(bytes(range(5)), stream=memory.stream)
    assert tensor[0:5:2].shape == (3,)
    out = bytearray(3)
    tensor[0:5:2].copy_to(out, stream=memory.stream)
    memory.stream.synchronize()
    assert out == b"\0\2\4"

# SPDX-License-Identifier: Apache-2.0
"""A program for a type checker (test_types.py). It is checked, and not run."""

import numpy as np

import weir

device: weir.Device = weir.best_device()
stream = weir.Stream(device)
pool: weir.Pool = weir.make_pool(device)
buffer: weir.Buffer = pool.allocate(np.int64(1 << 10), stream=stream)
buffer.fill(1.5, stream=stream, dtype="float32")
copied: weir.Buffer = buffer.copy_to(stream=stream)
read: bytearray = buffer.copy_to(bytearray(1 << 10), stream=stream)
own: weir.MemoryResource = weir.make_callback_resource(
    device, lambda size, stream: pool.allocate(size, stream=stream).device_address, lambda address, size: None
)

with weir.DeviceVector(pool, "float32", stream=stream) as vector:
    vector.push(np.zeros(3, np.float32), stream=stream)
    vector.append(1.5, stream=stream)
    grown: weir.Tensor = vector.tensor
    out: np.ndarray[tuple[int], np.dtype[np.float32]] = vector.copy_to(np.zeros(2, np.float32), stream=stream, first=1)

needs = weir.PaddingNeeds(100, aligned_to=weir.elements_per_line("float32"))
padded: tuple[int, ...] = weir.padded_shape([weir.PaddingNeeds(3), needs.unite(weir.PaddingNeeds(100, multiple_of=8))])
tensor: weir.Tensor = pool.allocate_tensor((3, 100), np.float32, stream=stream, padded_shape=padded)
tensor.fill(2 + 0j, stream=stream)
tensor.zero(stream=stream, over_gaps=True)
array = np.zeros((3, 100), np.float32)
tensor[:, ::2].copy_from(array[:, ::2], stream=stream)
back: np.ndarray[tuple[int, int], np.dtype[np.float32]] = tensor.copy_to(array, stream=stream)
twin: weir.Tensor = tensor.empty_like(pool, stream=stream).copy_to(stream=stream)
shape: tuple[int, ...] | None = twin.padded_shape
view: weir.Tensor = buffer.view("float32", (3, 5), padded_shape=(3, 8)).T

with weir.HostMirror(buffer, stream=stream) as mirror:
    mirror.sync_to_host(stream=stream)
    one_memory: bool = mirror.is_one_memory
with weir.MirroredBuffer(16, [stream, stream]) as mirrored:
    mirrored.write(b"0123456789abcdef", mirrored.any())
    one: bytes = mirrored.read(0)
    all_of_them: list[bytes] = mirrored.read()
    into: bytearray = mirrored.read_into(bytearray(16), 1)

pool.allocate(8)  # type: ignore[call-arg]
buffer.fill("a", stream=stream)  # type: ignore[arg-type]
tensor.copy_from(1, stream=stream)  # type: ignore[arg-type]
weir.HostMirror(buffer)  # type: ignore[call-overload]

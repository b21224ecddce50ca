# SPDX-License-Identifier: Apache-2.0
"""NumPy and weir share memory in both directions; what the host cannot reach is copied where that is asked for."""

import numpy as np

import weir

device = weir.best_device()
stream = weir.Stream(device)

# An array of NumPy as a tensor: the same memory, which the tensor keeps alive.
array = np.arange(12, dtype="float32").reshape(3, 4)
tensor = weir.from_dlpack(array, stream=stream)
assert tensor.buffer.host_data == array.ctypes.data

# To memory of the device. The copy is enqueued, and NumPy waits for it.
there = weir.make_resource(device).allocate(array.nbytes, stream=stream).view(array.dtype, array.shape)
there.copy_from(tensor, stream=stream)
back = np.from_dlpack(there, device="cpu")  # shares memory that the host reaches, and copies other memory
assert (back == array).all()
assert (np.from_dlpack(there[1:, ::2], device="cpu") == array[1:, ::2]).all()

# Where the host cannot reach the memory, an array would have to be a copy. asarray makes none without being told.
try:
    np.asarray(there)
    print(f"{device.id}: the host reaches the memory")
except TypeError as refused:
    print(f"{device.id}: {refused}")

# Memory of weir as an array of NumPy, which keeps it alive.
shared = weir.make_resource(weir.host_device()).allocate(array.nbytes, stream=stream).view("float32", (3, 4))
view = np.asarray(shared)
view[:] = 2 * array
shared.copy_to(there, stream=stream)
assert (np.from_dlpack(there, device="cpu") == 2 * array).all()
shared.buffer.close()
del shared
assert view[2, 3] == 22
print("NumPy's arrays and weir's tensors are the same memory")

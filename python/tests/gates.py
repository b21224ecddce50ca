# SPDX-License-Identifier: Apache-2.0
"""CUDA streams that stand still until a test lets them go on."""

import ctypes
import gc
import os

import weir


class Gate:
    """A CUDA stream stands still inside. No Python runs on the driver's thread: it waits for a semaphore of C."""

    def __init__(self, stream):
        # While the driver frees memory of earlier tests it waits for the device, and everybody waits for it. The trim of
        # a callback resource waits for all that is given back on the device, of whatever resource.
        gc.collect()
        weir.make_callback_resource(stream.device, lambda size, stream: None, lambda address, size: None).trim(0)
        self.c = ctypes.CDLL(None)
        self.semaphore = ctypes.create_string_buffer(64)
        assert self.c.sem_init(self.semaphore, 0, 0) == 0
        driver = ctypes.CDLL(os.environ.get("WEIR_CUDA_LIBRARY", "libcuda.so.1"))
        context = ctypes.c_void_p()
        assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
        assert driver.cuCtxSetCurrent(context) == 0
        _, handle = stream.__cuda_stream__()
        assert driver.cuLaunchHostFunc(ctypes.c_void_p(handle), self.c.sem_wait, self.semaphore) == 0
        self.stream = stream

    def __enter__(self):
        return self

    def __exit__(self, *_):
        assert self.c.sem_post(self.semaphore) == 0
        self.stream.synchronize()

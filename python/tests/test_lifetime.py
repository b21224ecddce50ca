# SPDX-License-Identifier: Apache-2.0
"""Who keeps whom alive, to the end of the interpreter."""

import gc
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import weir


def run(code: str, **environment: str) -> subprocess.CompletedProcess:
    """Run `code` in an interpreter of its own, which says on stderr what the module leaks."""
    return subprocess.run(
        [sys.executable, "-X", "dev", "-c", textwrap.dedent(code)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_arrays_survive_the_buffer(host_memory):
    before = host_memory.resource.stats()["live_buffers"]
    with host_memory.filled(1 << 16, 8) as buffer:
        array = np.from_dlpack(buffer.view("uint64"))
    others = [host_memory.filled(1 << 16, 1) for _ in range(8)]  # must not get the same memory
    host_memory.stream.synchronize()
    assert (array == 0x0808080808080808).all()
    del others, array, buffer
    gc.collect()
    assert host_memory.resource.stats()["live_buffers"] == before


def test_arrays_survive_resource_stream_and_device(host_memory):
    array = np.from_dlpack(host_memory.filled(4096, 8))
    host_memory.resource = host_memory.stream = host_memory.device = None
    gc.collect()
    assert (array == 8).all()
    array[:] = 9
    assert array.sum() == 9 * 4096


def test_tensors_survive_the_buffer(host_memory):
    buffer = host_memory.filled(64, 4)
    tensor = buffer.view("uint32")
    again = tensor.buffer
    buffer.close()
    assert np.from_dlpack(tensor).tolist() == [0x04040404] * 16
    del tensor
    assert bytes(again) == b"\4" * 64


def test_closing_in_stream_order_waits_for_the_copy(memory):
    stream = memory.stream
    source, target = memory.filled(4 << 20, 6), memory.allocate(4 << 20)
    target.copy_from(source, stream=stream)
    source.close(stream)
    other = memory.filled(4 << 20, 1)
    assert memory.bytes_of(target) == b"\6" * target.size
    assert memory.bytes_of(other) == b"\1" * other.size


@pytest.mark.parametrize("device", [d.id for d in weir.devices()])
def test_the_interpreter_ends_with_everything_alive(device):
    done = run(
        f"""
        import numpy, weir
        device = weir.device("{device}")
        stream = weir.Stream(device)
        kept = []
        for info in device.kinds:
            buffer = weir.make_resource(device, info.kind).allocate(1 << 20, stream=stream)
            buffer.fill(1, stream=stream)
            kept += [buffer, buffer.view("int32"), stream.record()]
            if info.host_accessible:
                array = numpy.from_dlpack(buffer, device="cpu")
                kept += [array, memoryview(buffer), buffer.__dlpack__(dl_device=(1, 0))]
                kept.append(weir.from_dlpack(numpy.arange(100)))
                kept.append(weir.from_dlpack(array))
                buffer.close()
        class Cycle: pass
        cycle = Cycle(); cycle.me = cycle; cycle.kept = kept
        """
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_capsule_deleted_after_the_interpreter_is_harmless():
    done = run(
        """
        import ctypes, weir
        stream = weir.Stream(weir.host_device())
        capsule = weir.make_resource(weir.host_device()).allocate(64, stream=stream).__dlpack__(max_version=(1, 0))
        name = ctypes.pythonapi.PyCapsule_SetName
        name.restype, name.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        pointer = get(capsule, b"dltensor_versioned")
        used = b"used_dltensor_versioned"
        assert name(capsule, used) == 0
        deleter = ctypes.cast(pointer + 16, ctypes.POINTER(ctypes.c_void_p))[0]
        # what exit() runs after main, and so after Py_Finalize
        libc = ctypes.CDLL(None)
        libc.__cxa_atexit.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        assert libc.__cxa_atexit(deleter, pointer, None) == 0
        """
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_foreign_owners_are_left_alone_after_the_interpreter():
    done = run(
        """
        import ctypes, weir
        memory = ctypes.create_string_buffer(64)
        stream = weir.Stream(weir.host_device())
        kept = weir.Buffer.from_handle(
            weir.host_device(), ctypes.addressof(memory), 64, memory, stream=stream)
        kept.fill(1, stream=stream)
        weir.kept = kept
        """
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_importing_weir_touches_no_driver():
    done = run("import weir; maps = open('/proc/self/maps').read(); print('libcuda' in maps or 'libvulkan' in maps)")
    assert done.stdout == "False\n", done.stderr
    done = run(
        """
        import numpy, weir
        host = weir.host_device()
        buffer = weir.make_resource(host).allocate(64, stream=weir.Stream(host))
        numpy.from_dlpack(buffer)
        weir.from_dlpack(numpy.arange(3))
        maps = open('/proc/self/maps').read()
        print('libcuda' in maps or 'libvulkan' in maps)
        """
    )
    assert done.stdout == "False\n", done.stderr

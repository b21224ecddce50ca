# SPDX-License-Identifier: Apache-2.0
"""Many threads on the same objects. Nothing here may crash, deadlock or mix up bytes."""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import weir

THREADS = 4


def in_threads(function):
    with ThreadPoolExecutor(THREADS) as pool:
        return [f.result(timeout=120) for f in [pool.submit(function, i) for i in range(THREADS)]]


def test_one_resource_many_threads(memory):
    def work(index):
        stream = weir.Stream(memory.device)
        for round_ in range(20):
            value = index * 20 + round_
            buffer = memory.resource.allocate(10_000, stream=stream)
            buffer.fill(value, stream=stream)
            out = bytearray(10_000)
            buffer.copy_to(out, stream=stream)
            stream.synchronize()
            assert out == bytes([value]) * 10_000
            buffer.close(stream)

    in_threads(work)


def test_one_stream_many_threads(memory):
    def work(index):
        for _ in range(20):
            buffer = memory.filled(10_000, index)
            assert memory.bytes_of(buffer) == bytes([index]) * 10_000

    in_threads(work)


def test_one_buffer_exported_by_many_threads(host_memory):
    before = host_memory.resource.stats()["live_buffers"]
    buffer = host_memory.filled(4096, 3)

    def work(_):
        for _ in range(200):
            array = np.from_dlpack(buffer)
            assert array[17] == 3
            assert memoryview(buffer)[18] == 3

    in_threads(work)
    buffer.close()
    assert host_memory.resource.stats()["live_buffers"] == before


def test_closing_while_others_use_it(host_memory):
    for _ in range(50):
        buffer = host_memory.filled(100_000, 3)

        def work(index, buffer=buffer):
            try:
                if index == 0:
                    buffer.close()
                elif index == 1:
                    buffer.fill(4, stream=host_memory.stream)
                elif index == 2:
                    buffer.copy_to(bytearray(buffer.size), stream=host_memory.stream)
                else:
                    np.from_dlpack(buffer)[0] = 1
            except weir.Error as error:
                assert error.condition in (weir.Errc.closed, weir.Errc.invalid_argument)

        in_threads(work)
    host_memory.stream.synchronize()


def test_waiting_lets_other_threads_run(memory):
    source, target = memory.filled(128 << 20, 1), memory.allocate(128 << 20)
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.0005)

    thread = threading.Thread(target=tick)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # it runs only while this thread lets it
    thread.start()
    try:
        for _ in range(200):  # a busy machine may not run it during the first
            before = len(ticks)
            target.copy_from(source, stream=memory.stream)  # between host memories this is the wait
            memory.stream.synchronize()
            if len(ticks) > before:
                break
        else:
            pytest.fail("nothing ran while this thread waited")
    finally:
        stop.set()
        sys.setswitchinterval(interval)
        thread.join()

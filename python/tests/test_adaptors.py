# SPDX-License-Identifier: Apache-2.0
"""Resources over resources: limiting, aligned, prefetch, debug, logging. C++ tests prove what they do to memory."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import weir

MADE_OVER_A_RESOURCE = {
    "limit": lambda r: weir.make_limiting(r, 1 << 20),
    "statistics": weir.make_statistics,
    "tracking": weir.make_tracking,
    "failure_callback": lambda r: weir.make_failure_callback(r, lambda failure: False),
    "aligned": lambda r: weir.make_aligned(r, 4096),
    "debug": weir.make_debug,
    "log": lambda r: weir.make_logging(r, "/dev/null"),
}


@pytest.fixture(params=MADE_OVER_A_RESOURCE)
def made(request, memory):
    return request.param, MADE_OVER_A_RESOURCE[request.param](memory.resource)


def test_adaptors_are_resources(memory, made):
    kind, adaptor = made
    assert isinstance(adaptor, weir.MemoryResource)
    assert adaptor.name == f"{kind}({memory.resource.name})" and adaptor.upstream is memory.resource
    assert (adaptor.kind, adaptor.device) == (memory.info.kind, memory.device)
    buffer = adaptor.allocate(1000, stream=memory.stream)
    buffer.fill(6, stream=memory.stream)
    assert memory.bytes_of(buffer) == b"\6" * 1000
    assert buffer.memory_resource is adaptor
    assert adaptor.stats()["in_use"] == 1000
    buffer.close()
    memory.stream.synchronize()
    adaptor.trim()
    assert adaptor.stats()["live_buffers"] == 0


@pytest.mark.parametrize("make", [*MADE_OVER_A_RESOURCE.values(), weir.make_prefetch])
def test_adaptors_need_a_resource(make):
    for wrong in (None, weir.host_device(), "host"):
        with pytest.raises(TypeError, match="upstream: "):
            make(wrong)


def test_limits(memory):
    limited = weir.make_limiting(memory.resource, np.int64(1000))
    assert isinstance(limited, weir.LimitingResource) and limited.limit == 1000
    kept = limited.allocate(600, stream=memory.stream)
    with pytest.raises(weir.OutOfMemory) as raised:
        limited.allocate(401, stream=memory.stream)
    error = raised.value
    assert (error.limit, error.in_use, error.resource) == (1000, 600, limited.name)
    assert limited.allocate(400, stream=memory.stream).size == 400
    limited.set_limit(100)
    assert limited.limit == 100 and limited.try_allocate(1, stream=memory.stream) is None
    kept.close()
    assert limited.allocate(100, stream=memory.stream).size == 100
    for wrong, error, words in (
        (-1, ValueError, "must not be negative: -1"),
        (2.5, TypeError, "must be an integer, not float"),
        (1 << 64, OverflowError, "does not fit into 64 bits"),
    ):
        with pytest.raises(error, match=f"bytes {words}"):
            limited.set_limit(wrong)
        with pytest.raises(error, match=f"limit {words}"):
            weir.make_limiting(memory.resource, wrong)


def test_alignment_of_large_buffers(memory):
    aligned = weir.make_aligned(memory.resource, 1 << 16, threshold=1000)

    def place(*args, **options):
        buffer = aligned.allocate(*args, stream=memory.stream, **options)
        return buffer.device_address or buffer.host_data

    assert place(1000) % (1 << 16) == 0
    assert place(10, alignment=1 << 17) % (1 << 17) == 0
    with pytest.raises(weir.Error, match="alignment 100 is not a power of two") as raised:
        weir.make_aligned(memory.resource, 100)
    assert raised.value.condition == weir.Errc.invalid_argument
    with pytest.raises(TypeError, match="threshold must be an integer, not str"):
        weir.make_aligned(memory.resource, 4096, "10")


def test_prefetch_is_for_memory_that_moves(memory):
    if memory.info.kind == weir.MemoryKind.managed:
        for target in (None, memory.device, weir.host_device()):
            moved = weir.make_prefetch(memory.resource, target)
            assert moved.name == f"prefetch({memory.resource.name})"
            buffer = moved.allocate(1000, stream=memory.stream)
            buffer.fill(9, stream=memory.stream)
            assert memory.bytes_of(buffer) == b"\11" * 1000
        return
    with pytest.raises(weir.Error, match="prefetch") as raised:
        weir.make_prefetch(memory.resource)
    assert raised.value.condition == weir.Errc.unsupported
    with pytest.raises(TypeError, match="target"):
        weir.make_prefetch(memory.resource, "cuda:0")


def until_told(happens, capfd):
    """What is on stderr behind it: weir writes no more than sixteen lines in a second."""
    for _ in range(300):
        happens()
        told = capfd.readouterr().err
        if told:
            return told
        time.sleep(0.1)
    return ""


def test_debug_finds_what_was_overwritten(pageable, capfd):
    debug = weir.make_debug(pageable.resource, guard_bytes=64)
    assert isinstance(debug, weir.DebugResource) and debug.violations == 0

    def damage():
        before = debug.violations
        buffer = debug.allocate(1000, stream=pageable.stream)
        assert bytes(buffer) == b"\xcd" * 1000, "poison"
        ctypes.memset(buffer.host_data + 1000, 7, 4)
        buffer.close()
        debug.trim()
        assert debug.violations == before + 1

    assert "4 bytes after its end were overwritten, the first at offset 1000" in until_told(damage, capfd)


def test_debug_finds_late_writes_while_memory_is_kept(pageable, capfd):
    def write_late(quarantine_bytes, found):
        debug = weir.make_debug(weir.make_pool(pageable.resource), quarantine_bytes=quarantine_bytes)
        buffer = debug.allocate(1000, stream=pageable.stream)
        address = buffer.host_data
        buffer.close()
        pageable.stream.synchronize()
        ctypes.memset(address + 10, 7, 1)
        debug.trim()
        assert debug.violations == found

    write_late(0, 0)
    told = until_told(lambda: write_late(1 << 20, 1), capfd)
    assert "1 bytes were written after it was closed, the first at offset 10" in told


def test_debug_without_poison(pageable):
    for poison, found in ((False, b"\7"), (True, b"\xcd")):
        debug = weir.make_debug(weir.make_pool(pageable.resource), poison=poison, quarantine_bytes=0)
        with debug.allocate(100, stream=pageable.stream) as buffer:
            buffer.fill(7, stream=pageable.stream)
            address = buffer.host_data
        debug.trim(1 << 30)  # checks what was closed
        again = debug.allocate(100, stream=pageable.stream)
        assert again.host_data == address and bytes(again) == found * 100
    for name in ("guard_bytes", "quarantine_bytes"):
        with pytest.raises(ValueError, match=f"{name} must not be negative: -1"):
            weir.make_debug(pageable.resource, **{name: -1})


def operations(path):
    """The fields of each line, without the head of the trace."""
    return [line.split("\t") for line in Path(path).read_text().splitlines() if "\t" in line and not line.startswith("#")]


def test_logging_writes_a_line_for_each_operation(memory, tmp_path):
    path = tmp_path / "run.trace"
    logged = weir.make_logging(memory.resource, path, buffer_bytes=1 << 16)
    assert isinstance(logged, weir.LoggingResource)
    logged.flush()
    head = len(operations(path))
    logged.allocate(1234, stream=memory.stream).close()
    logged.allocate(99, stream=memory.stream).close()
    logged.trim()
    assert len(operations(path)) == head, "collected"
    logged.flush()
    written = operations(path)[head:]
    assert len(written) == 5 and "1234" in written[0] and "99" in written[2]
    at_once = weir.make_logging(memory.resource, str(path), buffer_bytes=0)
    with at_once.allocate(777, stream=memory.stream):
        lines = operations(path)
        assert any("777" in line for line in lines) and not any("1234" in line for line in lines)


@pytest.mark.parametrize("raises", [False, True])
def test_a_signal_while_a_trace_is_opened(pageable, tmp_path, raises):
    """A fifo opens when somebody reads it. What a signal ends begins again, unless its handler raises."""
    path = tmp_path / "run.trace"
    os.mkfifo(path)
    reader = threading.Thread(target=path.read_text)

    def handler(number, frame):
        if raises:
            raise ZeroDivisionError
        reader.start()

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with pytest.raises(ZeroDivisionError) if raises else contextlib.nullcontext():
            signal.setitimer(signal.ITIMER_REAL, 0.05)  # it may pass before the call
            weir.make_logging(pageable.resource, path)
    finally:
        signal.signal(signal.SIGALRM, before)
    if not raises:
        reader.join()


def test_logging_to_nowhere(pageable, tmp_path):
    with pytest.raises(FileNotFoundError) as raised:
        weir.make_logging(pageable.resource, tmp_path / "none" / "run.trace")
    assert raised.value.filename == tmp_path / "none" / "run.trace"
    with pytest.raises(IsADirectoryError):
        weir.make_logging(pageable.resource, str(tmp_path))
    with pytest.raises(TypeError, match="path must be a str or an os.PathLike, not int"):
        weir.make_logging(pageable.resource, 3)
    with pytest.raises(ValueError):
        weir.make_logging(pageable.resource, "a\0b")


def test_a_log_is_complete_when_the_interpreter_ends(tmp_path):
    path = tmp_path / "run.trace"
    program = f"""
        import weir
        host = weir.host_device()
        logged = weir.make_logging(weir.make_pool(host), {str(path)!r})
        logged.allocate(4321, stream=weir.Stream(host)).close()
        """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert any("4321" in line for line in operations(path))

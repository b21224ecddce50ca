# SPDX-License-Identifier: Apache-2.0
"""Interpreters that end while something is still going on. Each is a process of its own."""

import subprocess
import sys
import textwrap

import pytest

import weir

LIMIT = 60  # seconds, for what never ends


def run(program):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=LIMIT
    )


def ends_well(program):
    done = run(program)
    assert (done.returncode, done.stderr) == (0, "")


CALLS = {
    "allocate": "memory.allocate(4096, stream=stream)",
    "copy": "buffer.copy_to(stream=stream)",
    "fill": "buffer.fill(1, stream=stream)",
    "synchronize": "stream.synchronize()",
    "wait": "stream.record().wait()",
    "devices": "weir.devices()",
    "export": "buffer.__dlpack__(max_version=(1, 3), copy=True)",
    "import": "weir.from_dlpack(numpy.zeros(100000)).buffer.fill(1, stream=stream)",
    "close": "memory.allocate(4096, stream=stream).close()",
}


@pytest.mark.parametrize("call", CALLS)
def test_daemon_threads_inside_our_calls(call):
    ends_well(
        f"""
        import threading, numpy, weir
        stream = weir.Stream(weir.host_device())
        memory = weir.current_resource(weir.host_device())
        buffer = memory.allocate(1 << 20, stream=stream)
        started = threading.Barrier(5)
        def go():
            {CALLS[call]}
            started.wait()
            while True:
                {CALLS[call]}
        for _ in range(4): threading.Thread(target=go, daemon=True).start()
        started.wait()
        """
    )


def test_a_daemon_thread_that_waits_for_what_never_comes():
    ends_well(
        """
        import threading, time, weir
        device = weir.host_device()
        stream = weir.Stream(device)
        inside = threading.Event()
        def forever():
            inside.set()
            while True: stream.synchronize(timeout=0.001)
        threading.Thread(target=forever, daemon=True).start()
        inside.wait()
        """
    )


# NumPy's deleter wants the GIL. The tensor's last use ends on a thread of weir, maybe after the interpreter.
def test_a_deleter_that_wants_the_gil_at_the_end():
    ends_well(
        """
        import numpy, weir
        stream = weir.Stream(weir.host_device())
        target = weir.current_resource(weir.host_device()).allocate(64 << 20, stream=stream)
        for _ in range(4):
            tensor = weir.from_dlpack(numpy.ones(64 << 20, numpy.uint8), stream=stream)
            target.copy_from(tensor.buffer, stream=stream)
            tensor.buffer.close(stream)
            del tensor
        """
    )


def test_a_server_that_lives_and_one_that_is_made_at_the_end(tmp_path):
    ends_well(
        f"""
        import atexit, weir
        first = weir.ipc.Server({str(tmp_path / "first")!r})
        atexit._run_exitfuncs()
        second = weir.ipc.Server({str(tmp_path / "second")!r})
        """
    )
    assert not (tmp_path / "first").exists()


def test_the_module_is_loaded_once():
    done = run(
        """
        import sys, weir
        first = weir.Tensor
        del sys.modules["weir"], sys.modules["weir._weir"], sys.modules["weir.ipc"]
        try:
            import weir
        except ImportError as refused:
            print(refused)
        else:
            print(weir.Tensor is first)
        """
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert done.stdout == "True\n" or "once" in done.stdout, done.stdout


def test_subinterpreters_are_refused():
    done = run(
        """
        import weir
        try:
            import _xxsubinterpreters as interpreters
        except ImportError:
            import _interpreters as interpreters
        one = interpreters.create()
        try:
            failed = interpreters.run_string(one, "import weir")
        except Exception as refused:
            failed = refused
        print(failed)
        interpreters.destroy(one)
        """
    )
    assert done.returncode == 0, done.stderr
    assert "interpreter" in done.stdout or "once" in done.stdout, done.stdout


def test_owners_end_under_the_gil_also_after_another_interpreter():
    """Python itself cannot say any more who has the GIL."""
    done = run(
        """
        import ctypes, threading, time
        import weir
        try:
            import _xxsubinterpreters as interpreters
        except ImportError:
            import _interpreters as interpreters
        interpreters.destroy(interpreters.create())
        ended = []

        class Owner:
            def __init__(self, memory):
                self.memory = memory

            def __del__(self):
                ended.append(threading.current_thread() is threading.main_thread())

        stream = weir.Stream(weir.host_device())
        memory = (ctypes.c_char * (32 << 20))()
        source = weir.make_resource(weir.host_device()).allocate(32 << 20, stream=stream)
        for count in range(20):
            owner = Owner(memory)
            buffer = weir.Buffer.from_handle(weir.host_device(), ctypes.addressof(memory), len(memory), owner, stream=stream)
            del owner
            buffer.copy_from(source, stream=stream)
            buffer.close()
            deadline = time.monotonic() + 30
            while len(ended) == count and time.monotonic() < deadline:
                sum(range(1000))
        print(ended)
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{[True] * 20}\n", done.stdout

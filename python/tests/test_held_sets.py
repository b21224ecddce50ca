# SPDX-License-Identifier: Apache-2.0
"""weir.ipc.SetWriter and SetReader, with the holder in a process of its own."""

import _thread
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from gates import Gate
from stopped import interrupted_while_stopped

import weir


@pytest.fixture
def holder(tmp_path):
    """The path of a holder's socket."""
    path = str(tmp_path / "holder")
    process = subprocess.Popen([sys.executable, "-m", "weir", "hold", path], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == f"weir: holding sets at {path}\n"
        yield path, process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_dict_goes_in_and_comes_out(holder, shared_memory):
    path, _process = holder
    stream = shared_memory.stream
    writer = weir.ipc.SetWriter(path, "weights")
    buffers = [shared_memory.filled(400, i) for i in range(10)]
    first = writer.commit({f"w{i}": b.view("float32", (10, 10)) for i, b in enumerate(buffers)}, stream=stream)
    for buffer in buffers:
        buffer.close()
    reader = weir.ipc.SetReader(path, "weights")
    epoch, tensors = reader.open(stream=stream, timeout=60)
    assert epoch == first
    assert sorted(tensors) == [f"w{i}" for i in range(10)]
    for i in range(10):
        tensor = tensors[f"w{i}"]
        assert (tensor.shape, str(tensor.dtype)) == ((10, 10), "float32")
        assert shared_memory.bytes_of(tensor.buffer) == bytes([i]) * 400
    with pytest.raises(weir.Error) as raised:
        tensors["w0"].buffer.fill(1, stream=stream)
    assert raised.value.condition == weir.Errc.permission_denied
    with pytest.raises(weir.Error) as raised:
        reader.open(stream=stream, timeout=0.01, newer_than=epoch)
    assert raised.value.condition == weir.Errc.timed_out
    second = writer.commit({}, stream=stream)
    assert reader.open(stream=stream, timeout=60, newer_than=epoch) == (second, {})
    writer.remove(timeout=60)


def test_buffers_are_tensors_of_bytes(holder, shared_memory):
    path, _process = holder
    stream, buffer = shared_memory.stream, shared_memory.filled(64, 5)
    writer, reader = weir.ipc.SetWriter(Path(path), "set"), weir.ipc.SetReader(Path(path), "set")
    writer.commit({"bytes": buffer, "numbers": buffer.view("int32")}, stream=stream)
    _epoch, tensors = reader.open(stream=stream, timeout=60)
    assert {name: (t.dtype, t.shape) for name, t in tensors.items()} == {
        "bytes": ("uint8", (64,)),
        "numbers": ("int32", (16,)),
    }
    assert shared_memory.bytes_of(tensors["bytes"].buffer) == b"\5" * 64


def test_what_is_no_set(holder, shared_memory):
    path, _process = holder
    stream, tensor = shared_memory.stream, shared_memory.filled(64, 5).view()
    writer = weir.ipc.SetWriter(path, "set")
    for tensors, error, words in (
        ({"a": tensor, "b": None}, TypeError, r"tensors\['b'\] must be a weir.Tensor or a weir.Buffer, not NoneType"),
        ({1: tensor}, TypeError, "the name of a tensor must be a str, not int"),
        ({"\ud800": tensor}, ValueError, r"the name of a tensor has characters that have no UTF-8: '\\ud800'"),
    ):
        with pytest.raises(error, match=words):
            writer.commit(tensors, stream=stream)
    for end in (weir.ipc.SetWriter, weir.ipc.SetReader):
        with pytest.raises(TypeError, match="path must be a str or an os.PathLike, not int"):
            end(3, "set")


def test_sets_of_two_threads_are_whole(holder, cuda):
    path, _process = holder
    held, idle = weir.Stream(weir.host_device()), weir.Stream(weir.host_device())
    tensor = weir.make_shared_resource().allocate(64, stream=idle).view("uint8", (64,))
    writer, epochs = weir.ipc.SetWriter(path, "set"), {}

    def commit(name, stream):
        epochs[writer.commit({name: tensor}, stream=stream, timeout=60)] = [name]

    with Gate(cuda.stream):
        held.wait(cuda.stream.record())
        first = threading.Thread(target=commit, args=("first", held))
        second = threading.Thread(target=commit, args=("second", idle))
        first.start()
        time.sleep(0.2)  # whichever comes first, both are whole
        second.start()
        time.sleep(0.2)
    first.join()
    second.join()
    epoch, tensors = weir.ipc.SetReader(path, "set").open(stream=idle, timeout=60)
    assert epoch == 2 and sorted(epochs) == [1, 2]
    assert list(tensors) == epochs[2]


def test_a_killed_writer_leaves_its_set(holder, shared_memory):
    path, _process = holder
    child = Path(__file__).with_name("held_set_child.py")
    writer = subprocess.Popen(
        [sys.executable, str(child), path, shared_memory.device.id, shared_memory.info.kind.name],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert writer.stdout.readline() == "committed\n"
    finally:
        writer.kill()
        writer.communicate()
    _epoch, tensors = weir.ipc.SetReader(path, "weights").open(stream=shared_memory.stream, timeout=60)
    for name, value in (("embedding", 3), ("head", 4)):
        assert shared_memory.bytes_of(tensors[name].buffer) == bytes([value]) * 4096


def test_refusals(holder, pageable):
    path, process = holder
    stream = pageable.stream
    with pytest.raises(weir.Error, match="weir hold") as raised:
        weir.ipc.SetWriter(path + "2", "weights")
    assert raised.value.condition == weir.Errc.peer_gone
    writer = weir.ipc.SetWriter(path, "weights")
    mine = pageable.filled(16, 1).view("uint8", (16,))
    with pytest.raises(weir.Error, match="exportable") as raised:
        writer.commit({"a": mine}, stream=stream)
    assert raised.value.condition == weir.Errc.unsupported
    for wrong in ({1: mine}, {"a": 1}, 5):
        with pytest.raises((TypeError, RuntimeError)):
            writer.commit(wrong, stream=stream)
    with pytest.raises(ValueError, match="timeout"):
        writer.commit({}, stream=stream, timeout=-1)
    assert writer.commit({}, stream=stream, timeout=60) == 1  # nothing of a commit that failed is left
    reader = weir.ipc.SetReader(path, "weights")
    process.kill()
    process.wait()
    with pytest.raises(weir.Error) as raised:
        reader.open(stream=stream, timeout=60)
    assert raised.value.condition == weir.Errc.peer_gone


def test_ctrl_c_ends_a_wait(holder, pageable):
    path, _process = holder
    reader = weir.ipc.SetReader(path, "nobody")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for limit in (30, None):
            with pytest.raises(KeyboardInterrupt):
                threading.Timer(0.05, _thread.interrupt_main).start()
                reader.open(stream=pageable.stream, timeout=limit)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("call", ["commit", "remove", "writer", "reader"])
def test_ctrl_c_ends_a_wait_for_a_holder_that_says_nothing(holder, pageable, call):
    path, process = holder
    writer = weir.ipc.SetWriter(path, "set")
    calls = {
        "commit": lambda: writer.commit({}, stream=pageable.stream, timeout=30),
        "remove": lambda: writer.remove(timeout=30),
        "writer": lambda: weir.ipc.SetWriter(path, "set", timeout=30),
        "reader": lambda: weir.ipc.SetReader(path, "set", timeout=30),
    }
    with interrupted_while_stopped(process):
        calls[call]()
    writer.commit({}, stream=pageable.stream, timeout=30)
    assert weir.ipc.SetReader(path, "set").open(stream=pageable.stream, timeout=30)[1] == {}

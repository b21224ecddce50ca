# SPDX-License-Identifier: Apache-2.0
"""weir.ipc.Server and Client: tensors by name, here and in a second process."""

import _thread
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from stopped import interrupted_while_stopped

import weir

CHILD = """
import sys, numpy as np, weir
client = weir.ipc.Client(sys.argv[1])
device = weir.device(sys.argv[2])
stream = weir.Stream(device)
tensor = client.get("weights", stream=stream)
assert (tensor.dtype, tensor.shape, tensor.strides) == ("float32", (4, 3), (1, 4))
tensor.fill(7.0, stream=stream)
stream.synchronize()
"""


@pytest.fixture
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("n") / "server"


def comes_to(wanted):
    """What clients give back comes by itself."""
    deadline = time.monotonic() + 30
    while not wanted() and time.monotonic() < deadline:
        time.sleep(0.001)
    return wanted()


def test_a_tensor_is_the_same_memory(shared_memory, path):
    stream = shared_memory.stream
    mine = shared_memory.filled(96, 7).view("float32", (3, 4)).T[:, 1:]
    with weir.ipc.Server(path) as server, weir.ipc.Client(path, timeout=30) as client:
        version = server.publish("weights", mine, stream=stream)
        (listed,) = client.list(timeout=30)
        assert (listed.name, listed.version, listed.dtype) == ("weights", version, "float32")
        assert (listed.shape, listed.strides) == (mine.shape, mine.strides)
        assert (listed.nbytes, listed.where.split()[0]) == (mine.buffer.size, shared_memory.device.id)
        got = client.get("weights", stream=stream, timeout=30)
        assert (got.dtype, got.shape, got.strides) == ("float32", (4, 2), (1, 4))
        got.fill(1.5, stream=stream)
        assert np.frombuffer(shared_memory.bytes_of(mine.buffer), "float32")[4:12].tolist() == [1.5] * 8
        (guest,) = server.clients
        assert [(loan.name, loan.version, loan.count) for loan in guest.loans] == [("weights", version, 1)]
        assert client.guests(timeout=30)[0].number == guest.number and guest.connected and not guest.subscribed
        assert [listing.name for listing in server.names] == ["weights"]
        got.buffer.close()
        del got
        stream.synchronize()
        assert comes_to(lambda: not server.clients[0].loans)
        assert server.withdraw("weights") and not server.withdraw("weights")
        with pytest.raises(weir.Error) as raised:
            client.get("weights", stream=stream, timeout=30)
        assert raised.value.condition == weir.Errc.invalid_argument
    assert not path.exists()


def test_numpy_reads_what_another_process_wrote(path):
    stream = weir.Stream(weir.host_device())
    resource = weir.make_resource(weir.host_device(), "shared", exportable=True)
    tensor = resource.allocate(48, stream=stream).view("float32", (3, 4)).T
    with weir.ipc.Server(str(path)) as server:
        server.publish("weights", tensor, stream=stream)
        subprocess.run([sys.executable, "-c", CHILD, str(path), "host:0"], check=True, timeout=60)
        assert (np.from_dlpack(tensor) == 7).all()
        assert comes_to(lambda: not server.clients)


def test_buffers_are_tensors_of_bytes(shared_memory, path):
    server = weir.ipc.Server(path)
    server.publish("raw", shared_memory.filled(10, 3), stream=shared_memory.stream)
    got = weir.ipc.Client(path, timeout=30).get("raw", stream=shared_memory.stream, timeout=30)
    assert (got.dtype, got.shape) == ("uint8", (10,))
    assert shared_memory.bytes_of(got.buffer) == b"\3" * 10


@pytest.mark.parametrize("name", ["caf\u00e9", "\udcff", b"bytes"], ids=ascii)
def test_paths_are_those_of_python(path, name):
    path = os.path.join(os.fsencode(path.parent) if isinstance(name, bytes) else path.parent, name)
    with weir.ipc.Server(path) as server, weir.ipc.Client(path, timeout=30) as client:
        assert os.path.exists(path)
        assert server.path == os.fsdecode(path)
        assert client.list(timeout=30) == []


def test_what_is_no_path(path):
    for end in (weir.ipc.Server, weir.ipc.Client):
        with pytest.raises(TypeError, match="path must be a str or an os.PathLike, not int"):
            end(3)
        with pytest.raises(ValueError, match=r"path has characters that no file name has: '.*\\ud800'"):
            end(f"{path}\ud800")
        with pytest.raises(ValueError, match="embedded null"):
            end(f"{path}\0")


def test_news(shared_memory, path):
    with weir.ipc.Server(path) as server:
        news = weir.ipc.Client(path, timeout=30).subscribe("camera/*", timeout=30)
        buffer = shared_memory.filled(10, 3)
        server.publish("other", buffer, stream=shared_memory.stream)
        server.publish("camera/0", buffer, stream=shared_memory.stream)
        server.withdraw("camera/0")
        first, second = news.next(30), news.next(30)
        assert (first.change, first.tensor.name, first.tensor.shape) == (weir.ipc.Change.published, "camera/0", (10,))
        assert (second.change, second.tensor.version) == (weir.ipc.Change.withdrawn, first.tensor.version + 1)
        with pytest.raises(weir.Error) as raised:
            news.next(0.01)
        assert raised.value.condition == weir.Errc.timed_out
    with pytest.raises(weir.Error) as raised:
        news.next(30)
    assert raised.value.condition == weir.Errc.peer_gone


def test_a_slow_subscriber_is_told(path):
    stream = weir.Stream(weir.host_device())
    buffer = weir.make_resource(weir.host_device(), "shared", exportable=True).allocate(8, stream=stream)
    with weir.ipc.Server(path, remembered=2) as server:
        news = weir.ipc.Client(path, timeout=30).subscribe(timeout=30)
        for _ in range(2000):
            server.publish("a", buffer, stream=stream)
        changes = set()
        version = 0
        while version < 2000:
            told = news.next(30)
            changes.add(told.change)
            version = told.tensor.version
        assert weir.ipc.Change.missed in changes


def test_ctrl_c_ends_a_wait_for_news(path):
    with weir.ipc.Server(path):
        news = weir.ipc.Client(path, timeout=30).subscribe(timeout=30)
        timer = threading.Timer(0.05, _thread.interrupt_main, [signal.SIGINT])
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            news.next(60)
        timer.join()


def test_refusals(shared_memory, path):
    for bad in ({"most_clients": 0}, {"most_name_bytes": 256}, {"patience": 0.0}):
        with pytest.raises(weir.Error) as raised:
            weir.ipc.Server(path, **bad)
        assert raised.value.condition == weir.Errc.invalid_argument
    with pytest.raises(weir.Error) as raised:
        weir.ipc.Client(path)
    assert raised.value.condition == weir.Errc.peer_gone
    server = weir.ipc.Server(path, users=[99999])
    with pytest.raises(weir.Error, match="may not connect") as raised:
        weir.ipc.Client(path, timeout=30)
    assert raised.value.condition == weir.Errc.permission_denied
    server.close()
    with pytest.raises(weir.Error) as raised:
        server.publish("a", shared_memory.filled(10, 1), stream=shared_memory.stream)
    assert raised.value.condition == weir.Errc.closed


def test_limits_of_time_are_numbers(shared_memory, path):
    with weir.ipc.Server(path) as server, weir.ipc.Client(path, timeout=30) as client:
        server.publish("a", shared_memory.filled(10, 1), stream=shared_memory.stream)
        for wrong in (-1, float("nan")):
            with pytest.raises(ValueError, match="^timeout must be a number of seconds >= 0$"):
                client.get("a", stream=shared_memory.stream, timeout=wrong)
            with pytest.raises(ValueError, match="^patience must be a number of seconds >= 0$"):
                weir.ipc.Server(f"{path}2", patience=wrong)
            with pytest.raises(ValueError, match="^timeout must be a number of seconds >= 0$"):
                weir.ipc.SetWriter(path, "set", timeout=wrong)
        assert client.get("a", stream=shared_memory.stream, timeout=float("inf")).size == 10


def test_what_a_server_says_is_shown_whatever_its_bytes(path):
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(path))
    listener.listen()

    def refuse():
        with listener.accept()[0] as connection:
            connection.recv(65536)  # the greeting
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with ours, theirs:
                file = (socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", theirs.fileno()))
                connection.sendmsg([struct.pack("<II", 17, 1)], [file])
                number = struct.unpack("<I", connection.recv(65536)[4:8])[0]
                text = b"odd \xff\xfe"
                connection.send(struct.pack("<IIIH", 18, number, 7, len(text)) + text)
                connection.recv(65536)

    thread = threading.Thread(target=refuse)
    thread.start()
    with weir.ipc.Client(path, timeout=30) as client, pytest.raises(weir.Error) as caught:
        client.list(timeout=30)
    assert caught.value.condition is not None
    thread.join()
    listener.close()


SILENT = "import sys, weir; server = weir.ipc.Server(sys.argv[1]); print(flush=True); sys.stdin.read()"


@pytest.mark.parametrize("call", ["client", "list", "get", "subscribe", "guests"])
def test_ctrl_c_ends_a_wait_for_a_server_that_says_nothing(path, call):
    stream = weir.Stream(weir.host_device())
    with subprocess.Popen([sys.executable, "-c", SILENT, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        server.stdout.readline()
        client = weir.ipc.Client(path, timeout=30)
        calls = {
            "client": lambda: weir.ipc.Client(path, timeout=30),
            "list": lambda: client.list(timeout=30),
            "get": lambda: client.get("a", stream=stream, timeout=30),
            "subscribe": lambda: client.subscribe(timeout=30),
            "guests": lambda: client.guests(timeout=30),
        }
        with interrupted_while_stopped(server):
            calls[call]()
        assert client.list(timeout=30) == []
        server.stdin.close()

# SPDX-License-Identifier: Apache-2.0
"""`weir ipc` of the same build: what it serves is what it reads, and NumPy reads its files."""

import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

import weir

PROGRAM = Path(weir._weir.__file__).parents[2] / "tools" / "weir"
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"not built: {PROGRAM}")


def run(*arguments):
    return subprocess.run([PROGRAM, "ipc", *map(str, arguments)], capture_output=True, text=True, timeout=60)


@pytest.fixture
def serve(tmp_path_factory):
    running = []

    def serve(*words, options=()):
        path = tmp_path_factory.mktemp("s") / "server"
        call = [PROGRAM, "ipc", "serve", *options, path, *words]
        running.append(subprocess.Popen(call, stdout=subprocess.PIPE, text=True))
        assert running[-1].stdout.readline().startswith(f"serving {len(words)} tensors at {path}")
        return path

    yield serve
    for process in running:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        process.stdout.close()


ARRAYS = {
    "matrix": np.arange(6, dtype="float32").reshape(2, 3),
    "fortran": np.asfortranarray(np.arange(24, dtype="int16").reshape(2, 3, 4)),
    "scalar": np.array(7, dtype="uint64"),
    "vector": np.array([1 + 2j, 3], dtype="complex64"),
    "truth": np.array([True, False]),
    "empty": np.zeros((3, 0), dtype="float64"),
}


@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
def test_files_go_round(serve, tmp_path, version):
    for name, array in ARRAYS.items():
        with open(tmp_path / f"{name}.npy", "wb") as file:
            np.lib.format.write_array(file, array, version=version)
    path = serve(*(f"{name}={tmp_path}/{name}.npy" for name in ARRAYS))
    for name, array in ARRAYS.items():
        done = run("read", path, name, tmp_path / "copy.npy")
        assert done.returncode == 0 and done.stderr == "" and done.stdout == ""
        copy = np.load(tmp_path / "copy.npy")
        assert copy.dtype == array.dtype and copy.shape == array.shape and (copy == array).all()
    assert run("read", path, "matrix").stdout == "0 1 2\n3 4 5\n"
    assert run("read", path, "scalar").stdout == "7\n"
    listed = run("list", path).stdout
    assert "fortran  int16      [2, 3, 4]" in listed and "host:0 shared" in listed


def test_files_of_every_type(serve, tmp_path):
    arrays = {
        name: np.arange(5).astype(name)
        for name in (
            "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
            "float16", "float32", "float64", "complex64", "complex128", "bool",
        )
    }
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    path = serve(*(f"{name}={tmp_path}/{name}.npy" for name in arrays))
    client, stream = weir.ipc.Client(path), weir.Stream(weir.host_device())
    for name, array in arrays.items():
        assert client.get(name, stream=stream).dtype == name
        done = run("read", path, name, tmp_path / "copy.npy")
        assert (done.returncode, done.stderr) == (0, "")
        copy = np.load(tmp_path / "copy.npy")
        assert copy.dtype == array.dtype and (copy == array).all()


def test_zeros_are_written_by_clients(serve):
    path = serve("frame=float32:2x600", "one=uint8:1")
    client = weir.ipc.Client(path)
    stream = weir.Stream(weir.host_device())
    frame = client.get("frame", stream=stream)
    assert (frame.dtype, frame.shape) == ("float32", (2, 600))
    frame.fill(2.5, stream=stream)
    stream.synchronize()
    printed = run("read", path, "frame").stdout.splitlines()
    assert printed[0] == " ".join(["2.5"] * 600)
    assert printed[-1] == "... 1200 elements in all; name a file to get them"
    first = run("stat", path).stdout.splitlines()[1].split()
    assert first[2:6] == ["connected", "frame", "1", "1"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"\x93NUMPY\x01\x00\xff\xff",
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff",
        b"\x93NUMPY\x01\x00\x02\x00{}",
        *(
            b"\x93NUMPY\x01\x00" + bytes([len(text), 0]) + text
            for text in (
                b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
                b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
                b"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }",
                b"{'descr': '<f4', 'fortran_order': False, 'shape': (100,), }",
                b"{'descr': '<f4', 'fortran_order': False, 'shape': (1,",
            )
        ),
    ],
)
def test_what_is_no_file_of_numpy_is_refused(tmp_path, content):
    (tmp_path / "bad.npy").write_bytes(content)
    done = run("serve", tmp_path / "s", f"a={tmp_path}/bad.npy")
    assert done.returncode == 1 and done.stderr.startswith("weir: ") and done.stdout == ""
    assert not (tmp_path / "s").exists()


def test_what_is_served_read_only(serve):
    stream = weir.Stream(weir.device("host:0"))
    for options in [(), ("--read-only",)]:
        path = serve("frame=float32:3x5", options=options)
        got = weir.ipc.Client(path).get("frame", stream=stream)
        assert got.buffer.is_read_only == bool(options)
        assert ("read-only" in run("list", path).stdout) == bool(options)


@pytest.mark.parametrize("word", ["a", "a=float32", "a=float33:1", "a=float32:1x", "a=float32:x1", "=uint8:1", "a=no.npy"])
def test_words_that_name_no_tensor_are_refused(tmp_path, word):
    done = run("serve", tmp_path / "s", word)
    assert done.returncode == 1 and done.stderr.startswith("weir: ")


@pytest.mark.parametrize("words", [(), ("serve", "s"), ("serve", "--read-only", "s"), ("list",), ("read", "s"), ("stat", "s", "t"), ("nothing",)])
def test_misuse_shows_the_usage(words):
    done = run(*words)
    assert done.returncode == 2 and done.stderr.startswith("usage: weir ipc serve") and done.stdout == ""


def test_nobody_serves(tmp_path):
    done = run("list", tmp_path / "s")
    assert done.returncode == 1 and "there is no server" in done.stderr

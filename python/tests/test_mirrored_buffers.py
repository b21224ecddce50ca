# SPDX-License-Identifier: Apache-2.0
"""The same bytes on several streams and devices: written to all or one, read from one or all."""

import random
import threading

import numpy as np
import pytest

import weir

SEED = random.randrange(1 << 30)


def streams():
    """Two of each device of this machine, cuda first."""
    return [weir.Stream(device) for device in weir.devices() for _ in range(2)]


def test_write_all_and_read_one_or_all():
    with weir.MirroredBuffer(16, streams()) as mirrored:
        data = np.arange(4, dtype="int32")
        mirrored.write(data)
        data[...] = 0  # it has been read
        expected = np.arange(4, dtype="int32").tobytes()
        assert len(mirrored) == len(streams()) and mirrored.size == 16
        assert mirrored.read() == [expected] * len(mirrored)
        assert all(mirrored.read(i) == expected for i in range(len(mirrored)))
        assert bytes(mirrored.copy(0)) == expected
    assert mirrored.is_closed


def test_write_one():
    mirrored = weir.MirroredBuffer(4, streams())
    mirrored.write(b"aaaa")
    mirrored.write(b"bbbb", index=np.int64(1))
    assert mirrored.read() == [b"bbbb" if i == 1 else b"aaaa" for i in range(len(mirrored))]
    mirrored.broadcast(1)
    assert mirrored.read() == [b"bbbb"] * len(mirrored)


def test_reads_into_memory_of_the_caller():
    mirrored = weir.MirroredBuffer(4, streams())
    for i in range(len(mirrored)):
        mirrored.write(bytes([i] * 4), i)
    one, all_of_them = bytearray(4), np.zeros((len(mirrored), 4), "u1")
    assert mirrored.read_into(one, 1) is one
    assert mirrored.read_into(all_of_them) is all_of_them
    assert mirrored.synchronize() is True and mirrored.synchronize(timeout=30) is True
    assert one == b"\1" * 4 and (all_of_them == np.arange(len(mirrored))[:, None]).all()
    one.append(0)  # it is locked no longer


def test_work_on_any_copy():
    mirrored = weir.MirroredBuffer(4, streams())
    mirrored.synchronize()
    assert {mirrored.any() for _ in range(4 * len(mirrored))} == set(range(len(mirrored)))
    index = mirrored.any()
    mirrored.copy(index).fill(b"wxyz", stream=mirrored.stream(index))
    mirrored.broadcast(index)
    assert mirrored.read() == [b"wxyz"] * len(mirrored)


def test_resources_of_the_caller(pageable):
    second = weir.make_pool(pageable.resource)
    both = [pageable.stream, weir.Stream(pageable.device)]
    mirrored = weir.MirroredBuffer(8, both, [pageable.resource, second])
    assert mirrored.copy(0).memory_resource.name == pageable.resource.name
    assert isinstance(mirrored.copy(1).memory_resource, weir.Pool)
    assert [mirrored.stream(i) for i in range(2)] == both and mirrored.stream(0) == pageable.stream


def test_random_programs():
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    for _ in range(10):
        size = rng.randint(1, 5000)
        mirrored = weir.MirroredBuffer(size, streams())
        model = [rng.randbytes(size)] * len(mirrored)
        mirrored.write(model[0])
        for _ in range(20):
            what, index = rng.randrange(4), rng.randrange(len(mirrored))
            if what == 0:
                model[index] = rng.randbytes(size)
                mirrored.write(model[index], index)
            elif what == 1:
                model = [model[index]] * len(model)
                mirrored.broadcast(index)
            elif what == 2:
                assert mirrored.read(index) == model[index], SEED
            else:
                assert mirrored.read() == model, SEED


def test_refusals(pageable):
    stream = pageable.stream
    mirrored = weir.MirroredBuffer(4, [stream, stream])
    for call in (lambda i: mirrored.write(b"abcd", i), mirrored.read, lambda i: mirrored.read_into(bytearray(4), i),
                 mirrored.copy, mirrored.stream, mirrored.broadcast):
        with pytest.raises(weir.Error, match="there is no copy 2; there are 2"):
            call(2)
        with pytest.raises(ValueError, match="index must not be negative: -1"):
            call(-1)
        with pytest.raises(TypeError, match="index must be an integer, not str"):
            call("0")
    for call in (lambda: mirrored.write(b"abc"), lambda: mirrored.write(b"abcde", 0),
                 lambda: mirrored.read_into(bytearray(4)), lambda: mirrored.read_into(bytearray(8), 1)):
        with pytest.raises(weir.Error, match="bytes were given, . are needed"):
            call()
    for call in (lambda: mirrored.write(1), lambda: mirrored.read_into("a")):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(BufferError):
        mirrored.read_into(b"abcdefgh")
    for arguments, words in [
        ((4, stream), "streams must be a sequence of weir.Stream, not "),
        ((4, [stream, 1]), r"streams\[1\] must be a weir.Stream, not int"),
        ((4, [stream], [None]), r"resources\[0\] must be a weir.MemoryResource, not NoneType"),
        ((4, [stream], pageable.resource), "resources must be a sequence of weir.MemoryResource, not "),
        ((4.0, [stream]), "size must be an integer, not float"),
    ]:
        with pytest.raises(TypeError, match=words):
            weir.MirroredBuffer(*arguments)
    for arguments, words in [((4, []), "no stream"), ((4, [stream], []), "0 resources for 1 streams")]:
        with pytest.raises(weir.Error, match=words):
            weir.MirroredBuffer(*arguments)
    with pytest.raises(ValueError, match="timeout"):
        mirrored.synchronize(timeout=-1)


def test_closed(pageable):
    mirrored = weir.MirroredBuffer(4, [pageable.stream], [pageable.resource])
    live = pageable.resource.stats()["live_buffers"]
    mirrored.close()
    mirrored.close()
    pageable.stream.synchronize()
    assert pageable.resource.stats()["live_buffers"] == live - 1
    assert repr(mirrored) == "<weir.MirroredBuffer closed>" and mirrored.size == 0 and mirrored
    for call in (mirrored.read, mirrored.any, mirrored.synchronize, lambda: mirrored.write(b"abcd"),
                 lambda: mirrored.copy(0), lambda: mirrored.stream(0), lambda: mirrored.broadcast(0), lambda: len(mirrored)):
        with pytest.raises(weir.Error, match="MirroredBuffer.*: the MirroredBuffer is closed") as caught:
            call()
        assert caught.value.condition is weir.Errc.closed


def test_several_threads():
    mirrored = weir.MirroredBuffer(64, streams())
    failures = []

    def work(seed):
        try:
            rng = random.Random(seed)
            for _ in range(30):
                index = mirrored.any()
                mirrored.write(bytes([seed] * 64), rng.choice([None, index]))
                content = mirrored.read(index)
                assert set(content) <= set(range(4)) and len(content) == 64
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures

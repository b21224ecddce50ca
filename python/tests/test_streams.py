# SPDX-License-Identifier: Apache-2.0
"""Streams, events and truthful timeouts."""

import pytest

import weir


@pytest.fixture(params=[d.id for d in weir.devices()])
def device(request):
    return weir.device(request.param)


def test_a_new_stream_has_nothing_to_do(device):
    stream = weir.Stream(device)
    assert stream.device == device
    assert stream.done
    assert stream.synchronize() is True
    assert stream.synchronize(timeout=0) is True
    assert stream.record().wait(timeout=1) is True
    stream.flush()


def test_an_empty_event_is_done():
    assert weir.Event().done
    assert weir.Event().wait() is True


def test_streams_are_values_with_identity(device):
    a, b = weir.Stream(device), weir.Stream(device)
    assert a == a and a != b and a != 3
    assert a.id != b.id
    assert len({a, b, a}) == 2


def test_order_between_streams_of_any_two_devices(device):
    host = weir.host_device()
    producer, consumer = weir.Stream(device), weir.Stream(host)
    source = weir.make_resource(device).allocate(1 << 20, stream=producer)
    target = weir.make_resource(host).allocate(1 << 20, stream=consumer)
    for value in range(20):
        source.fill(value, stream=producer)
        consumer.wait(producer.record())
        target.copy_from(source, stream=consumer)
        producer.wait(consumer.record())
    consumer.synchronize()
    assert bytes(target) == bytes([19]) * (1 << 20)


@pytest.mark.parametrize("timeout", [-1, -0.001, float("nan")])
def test_senseless_timeouts_are_refused(device, timeout):
    with pytest.raises(ValueError, match="timeout must be"):
        weir.Stream(device).synchronize(timeout=timeout)


def test_only_cuda_streams_have_a_cuda_handle(device):
    stream = weir.Stream(device)
    if device.backend == "cuda":
        version, handle = stream.__cuda_stream__()
        assert version == 0 and handle > 0
    else:
        assert not hasattr(stream, "__cuda_stream__")


@pytest.mark.parametrize("handle", [True, "1", 1.5, None])
def test_borrowing_needs_a_number_or_the_protocol(handle):
    with pytest.raises(TypeError):
        weir.borrow_cuda_stream(weir.host_device(), handle)


def test_borrowing_needs_a_cuda_device():
    with pytest.raises(weir.Error):
        weir.borrow_cuda_stream(weir.host_device(), 1)

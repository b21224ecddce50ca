#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seed corpora: valid inputs of every fuzz target and their nearest invalid neighbours.

    tests/fuzz/seeds.py [FOLDER]     FOLDER: corpus/ beside this file

The sources of the targets say what each byte means. Inputs that a fuzzer found are kept beside the seeds.
"""

import pathlib
import struct
import sys

# Order of `enum class Stranger`.
(GENUINE, SEALED, LARGER, SEALED_WRITE, SEALED_SHRINK, UNSEALED, READ_ONLY, NULL, DIRECTORY, PIPE, EVENT, EPOLL, REGULAR,
 MISSING, READY, LATE, GONE, DATAGRAM, LISTENING, WRITES, BOTH) = range(21)

XOR, RAW, CUT, KEEP_CHECKSUM = 0, 1, 2, 4


def descriptor(memory=0, form=XOR, files=(GENUINE,), **fields):
    """Fields are `at_OFFSET=bytes`, exclusive-or'ed with the genuine descriptor's."""
    mask = bytearray(256 if fields else 0)
    for name, value in fields.items():
        at = int(name.removeprefix("at_"))
        mask[at:at + len(value)] = value
    return bytes([memory, form, len(files), *files]) + bytes(mask)


def u64(value):
    return struct.pack("<Q", value)


TWO_FILES = {"at_16": b"\3", "at_20": b"\2"}  # count 1 → 2, flag "ready point"
WITH_LEASE = {"at_16": b"\3", "at_20": b"\4"}
THREE_FILES = {"at_16": b"\2", "at_20": b"\6"}  # count 1 → 3, both flags
DESCRIPTORS = {
    **{f"genuine_{memory}": descriptor(memory) for memory in range(8)},
    "read_only": descriptor(at_20=b"\1"),
    "no_files": descriptor(files=()),
    "two_files": descriptor(files=(GENUINE, GENUINE)),
    "missing": descriptor(files=(MISSING,)),
    **{f"file_{kind}": descriptor(files=(kind,)) for kind in range(SEALED, MISSING)},
    **{f"ready_{kind}": descriptor(files=(GENUINE, kind), **TWO_FILES)
       for kind in (READY, LATE, GONE, DATAGRAM, LISTENING, NULL, MISSING)},
    **{f"lease_{kind}": descriptor(files=(GENUINE, kind), **WITH_LEASE)
       for kind in (WRITES, BOTH, PIPE, READY, NULL, SEALED, MISSING)},
    "other_memory_lease": descriptor(2, files=(GENUINE, WRITES), **WITH_LEASE),
    "ready_and_lease": descriptor(files=(GENUINE, LATE, WRITES), **THREE_FILES),
    "other_memory_ready": descriptor(2, files=(GENUINE, LATE), **TWO_FILES),
    "cut": descriptor(form=CUT) + bytes(100),
    "raw": descriptor(form=RAW) + b"weir.ipc\1\0\0\1" + bytes(244),
    "empty": descriptor(form=RAW, files=()),
    "checksum": descriptor(form=KEEP_CHECKSUM, at_248=b"\1"),
    "version": descriptor(at_8=b"\3"),
    "another_handle": descriptor(at_12=b"\3"),
    "another_kind": descriptor(at_14=b"\1"),
    "another_device": descriptor(at_24=b"\1"),
    "another_boot": descriptor(at_40=b"\1"),
    "another_driver": descriptor(at_120=b"\1"),
    "huge": descriptor(files=(SEALED,), at_72=u64(1 << 40)),
    "huger": descriptor(files=(SEALED,), at_72=u64(1 << 61)),
    "odd_size": descriptor(files=(SEALED,), at_72=u64(3)),
    "range": descriptor(at_80=u64(256)),
    "inner_range": descriptor(at_80=u64(256), at_88=u64(8192 ^ 100)),
    "past_the_end": descriptor(at_80=u64(1 << 63)),
    "alignment": descriptor(at_96=u64(256 ^ 3)),
    "reserved": descriptor(at_184=b"\1"),
}

STREAM, PACKETS, DATAGRAMS = range(3)


def socket(kind, hang_up, *pieces):
    """Pieces are (files, length) or (files, bytes)."""
    text = bytes([kind, hang_up])
    for files, piece in pieces:
        content = piece if isinstance(piece, bytes) else bytes(i & 0xff for i in range(piece))
        text += bytes([files]) + struct.pack("<H", len(content)) + content
    return text


SOCKETS = {
    **{f"{name}_{'closed' if hang_up else 'open'}_{files}": socket(kind, hang_up, (files, 256))
       for name, kind in (("stream", STREAM), ("packets", PACKETS), ("datagrams", DATAGRAMS))
       for hang_up in (0, 1) for files in (0, 2)},
    "nothing": socket(STREAM, 0),
    "closed": socket(STREAM, 1),
    "pieces": socket(STREAM, 1, (1, 100), (0, 100), (0, 56)),
    "files_in_every_piece": socket(STREAM, 1, (2, 100), (2, 100), (1, 56)),
    "byte_by_byte": socket(STREAM, 1, *[(1, 1)] * 256),
    "two": socket(STREAM, 1, (1, 256), (2, 256)),
    "two_in_one": socket(STREAM, 1, (2, 512)),
    "short": socket(STREAM, 1, (1, 255)),
    "larger": socket(PACKETS, 1, (1, 257)),
    "empty_packet": socket(PACKETS, 1, (1, b""), (1, 256)),
    "five_files": socket(STREAM, 1, (5, 256)),
    "eight_files": socket(PACKETS, 1, (8, 256)),
}

LEGACY, DEVICE, ADDRESS, OFFSET, DIMENSIONS, NO_DELETER, VERSION, FLAGS = (1 << i for i in range(8))
WIDE, TOP, BOTTOM, POWER = b"\xff", b"\xfd", b"\xfc", b"\xfb"


def number(value):
    if -64 <= value < 0xc0:
        return struct.pack("B", value & 0xff)
    return WIDE + struct.pack("<q", value)


def tensor(shape, strides=None, arena=0, form=0, data=0, extra=(), dtype=(2, 32, 1), no_shape=False, ndim=None):
    """`extra`: what the form's bits ask for, in their order, DIMENSIONS excepted, which takes `ndim`."""
    arrays = (1 if no_shape else 0) | (2 if strides is None else 0)
    body = bytes([arena, form])
    parts = list(extra)
    if form & DEVICE:
        body += parts.pop(0)
    body += struct.pack("<H", data)
    for bit in (ADDRESS, OFFSET):
        if form & bit:
            body += parts.pop(0)
    body += number(ndim) if form & DIMENSIONS else bytes([len(shape)])
    for bit in (VERSION, FLAGS):
        if form & bit:
            body += parts.pop(0)
    body += struct.pack("<BBHB", *dtype, arrays)
    steps = strides if strides is not None else [0] * len(shape)
    return body + b"".join(map(number, [*shape, *steps]))


TENSORS = {
    **{f"matrix_{arena}": tensor((4, 5), (5, 1), arena) for arena in range(8)},
    "legacy": tensor((4, 5), form=LEGACY),
    "scalar": tensor(()),
    "empty": tensor((3, 0, 5)),
    "negative_strides": tensor((4, 5), (-5, -1), data=2048),
    "broadcast": tensor((100,), (0,)),
    "read_only": tensor((4,), form=FLAGS, extra=(b"\1",)),
    "byte_offset": tensor((4,), form=OFFSET, extra=(number(128),)),
    "offset_wraps": tensor((4,), form=OFFSET, extra=(number(-1),)),
    "another_version": tensor((4,), form=VERSION, extra=(b"\2\0",)),
    "minor_version": tensor((4,), form=VERSION, extra=(b"\1\x63",)),
    "null": tensor((4,), form=ADDRESS, extra=(number(0),)),
    "top_of_memory": tensor((4,), form=ADDRESS, extra=(number(-1),)),
    "no_deleter": tensor((4,), form=NO_DELETER),
    "no_deleter_refused": tensor((-4,), form=NO_DELETER),
    "no_shape": tensor((4,), no_shape=True),
    "dimensions": tensor((), form=DIMENSIONS, ndim=65),
    "negative_dimensions": tensor((), form=DIMENSIONS, ndim=-1),
    "most_dimensions": tensor((1,) * 64, form=DIMENSIONS, ndim=64),
    "cuda": tensor((4,), form=DEVICE, extra=(b"\2\0",)),
    "vulkan": tensor((4,), form=DEVICE, extra=(b"\7\0",)),
    "unknown_device": tensor((4,), form=DEVICE, extra=(b"\x63\5",)),
    "half_bytes": tensor((4,), dtype=(0, 4, 1)),
    "lanes": tensor((4,), dtype=(1, 8, 4)),
    "no_bits": tensor((4,), dtype=(2, 0, 0)),
    "overflow": tensor((1 << 40, 1 << 40)),
    "stride_overflow": tensor((3,), ((1 << 62),)),
    "lowest_stride": tensor((2,), (-(1 << 63),)),
}


def layout(shape, strides=None, dtype=(2, 32, 1), offset=b"\0"):
    body = struct.pack("<BBH", *dtype) + offset + bytes([len(shape)])
    steps = [1] * len(shape) if strides is None else strides
    body += bytes([0]) if len(steps) == len(shape) else bytes([3, len(steps)])
    return body + b"".join(map(number, [*shape, *steps]))


LAYOUTS = {
    "vector": layout((10,)),
    "matrix": layout((4, 5), (5, 1)),
    "scalar": layout(()),
    "empty": layout((0,)),
    "empty_but_huge": layout((0, 1 << 62, 8)),
    "offset": layout((10,), offset=number(100)),
    "negative": layout((10,), (-1,), offset=number(36)),
    "below_zero": layout((2,), (-(1 << 63),), dtype=(1, 8, 1)),
    "bits": layout((8,), dtype=(6, 1, 8)),
    "overflow": layout((1 << 40, 1 << 40), (1 << 40, 1)),
    "strides_missing": layout((4, 5), ()),
    "more_strides": layout((4,), (5, 1)),
    "negative_extent": layout((-1,)),
    "top": layout((2,), (1 << 62,)),
}

DEVICES = {
    str(i): text.encode() for i, text in enumerate(
        ("host", "host:0", "host:1", "cuda:0", "cuda:1", "vulkan:0", "vulkan", "host:", ":0", "", "host:-1", "host:00",
         "host:+0", "HOST:0", "host:0:0", "host:99999999999999999999", "cuda:2147483648", "moon:1", "host:0\0", " host"))
}



def trace(*lines):
    """Of weir: (thread, operation, buffer, bytes, alignment, stream, result)."""
    text = "# weir trace 1\thost:0\thost.pageable\n# a remark\n"
    for thread, operation, buffer, size, alignment, stream, result in lines:
        text += f"1\t{thread}\thost:0\thost.pageable\t{operation}\t{buffer}\t{size}\t{alignment}\t{stream}\t{result}\n"
    return text.encode()


TRACES = {
    "empty": b"",
    "header_only": trace(),
    "weir": trace((7, "allocate", 9, 1000, 256, 1, "ok"), (8, "use", 9, 1000, 0, 2, "ok"), (7, "close", 9, 1000, 0, 1, "ok"),
                  (7, "trim", 0, 64, 0, 0, 128), (8, "allocate", 9, 30, 4096, 2, "ok")),
    "refused": trace((1, "allocate", 0, 1 << 50, 256, 1, "out of memory: mmap: Cannot allocate memory")),
    "twice": trace((1, "allocate", 9, 10, 256, 1, "ok"), (1, "allocate", 9, 10, 256, 1, "ok")),
    "used_too_late": trace((1, "allocate", 9, 10, 256, 1, "ok"), (1, "close", 9, 10, 0, 1, "ok"), (1, "use", 9, 10, 0, 2, "ok")),
    "odd_alignment": trace((1, "allocate", 9, 10, 3, 1, "ok")),
    "newer": b"# weir trace 2\thost:0\thost.pageable\n",
    "pytorch": b"op,addr,size,stream\na,0,1000,0\na,0x10,500,3\nf,0,1000,0\nf,16,500,0\r\nf,17,1,0\na,5,0,0\n",
    "torn": b"op,addr,size,stream\na,0,1000,0\na,1,10",
    "too_many_bytes": b"op,addr,size,stream\na,1,4611686018427387903,0\na,2,4611686018427387903,0\n",
    "no_number": b"op,addr,size,stream\na,-1,1,0\n",
    "rmm": b"Thread,Time,Action,Pointer,Size,Stream\n12,11:26:50.990234,allocate,0x7f0000,256,0x0\n"
           b"13,11:26:50:990235,allocate failure,(nil),99999,0x2\n13,11:26:51,free,0x7f0000,256,0x2\n",
    "gzip": b"\x1f\x8b\x08\0\n",
}

SPECS = {
    str(i): text.encode() for i, text in enumerate(
        ("host", "cuda:1.pinned", "pool(host)", "pool(cuda.async, limit=2GiB, segment=64MiB, initial=1KiB, reuse=passed_only)",
         "pool( log( host.shared , file=/tmp/trace ), 2GiB )", "", "pool", "pool()", "pool(host", "pool(host))", "pool(host, )",
         "pool(host, limit=)", "pool(host, limt=1)", "pool(host, 1, limit=2)", "pool(host, 1, 2, 3, passed_only, 5)",
         "pool(host, reuse=never)", "pool(host, 16777216TiB)", "log(host)", "pol(host)", "pool(" * 70, "host host",
         "limit(pool(vulkan.device), 2GiB)", "aligned(statistics(tracking(host)), 4KiB, threshold=1MiB)",
         "debug(host, guard=64B, quarantine=1MiB)", "limit(host)"))
}



def cut(granules, own=False, log_alignment=0, quick=False, pages=False):
    """A request of one stream's ranges, or of everyone's."""
    large = granules > 24
    aligned = [0, log_alignment] if log_alignment else [1]
    sort = [1] if pages and granules + (1 << log_alignment) - 1 <= 8 else []  # which of both sorts of addresses
    return bytes([0, not own, not large, granules - 1, *aligned, *sort, not quick])


def put(which, everyones=False, closed_at=7):
    return bytes([6, which, everyones, closed_at])


def clear(*kept):
    return bytes([10, *kept])


def open_addresses(granules, large=True):
    return bytes([12, not large]) + ((granules - 1).to_bytes(2, "little") if large else bytes([granules - 1]))


SETTLE = {True: bytes([12, 0]), False: bytes([12, 1])}  # with memory or without
RENEW = bytes([12, 0, 13, 1, 12, 2, 13, 3])
GROWN = b"\1" + open_addresses(64) + SETTLE[True] + open_addresses(32, False) + SETTLE[True]

ARENAS = {
    "empty": b"",
    "two_streams": b"\0" + cut(8) + cut(8) + cut(8) + put(1) + put(0) + cut(16, own=True) + put(1, True) + clear(0, 1, 0),
    "aligned": b"\0" + b"".join(cut(3, log_alignment=n) for n in range(5)) + put(2) + put(1, True) + cut(2, log_alignment=4),
    "large": b"\0" + cut(90) + cut(150) + put(0) + cut(80, own=True) + put(0, True) + cut(150) + cut(70, quick=True),
    "renewed": b"\0" + cut(8) + RENEW + put(0, True) + RENEW,
    "pages": GROWN + cut(20, pages=True) + cut(5, pages=True) + put(0) + cut(20, own=True, pages=True) + clear(0),
    "refused": GROWN + open_addresses(100) + cut(4, pages=True) + SETTLE[False] + open_addresses(100) + SETTLE[True],
    "moved": GROWN + bytes([14, 0, 0, 1]) + open_addresses(48) + bytes([14, 1]) + SETTLE[True] + bytes([14, 0, 1, 0, 14, 0]),
    "holes": GROWN + cut(20, pages=True) * 3 + put(1, True) + bytes([14, 0, 0, 0, 14, 1]) + open_addresses(40) + SETTLE[True],
    "all_addresses": b"\1" + (open_addresses(250) + SETTLE[True]) * 4 + (open_addresses(90, False) + SETTLE[False]) * 3,
}


def message(kind, body):
    body += bytes(-(len(body) + 4) % 8)
    return struct.pack("<HH", kind, (len(body) + 4) // 8) + body


def packet(*messages, files=0):
    body = b"".join(messages)
    return bytes([files]) + struct.pack("<H", len(body)) + body


def grant(number=1, segment=1, offset=0, size=1, payload=b"", word=0, value=0, reserved=0):
    fields = struct.pack("<IQQQIHHQ", segment, number, offset, size, word, len(payload), reserved, value)
    return message(4, fields + payload)


def releases(*numbers):
    return message(5, struct.pack(f"<I{len(numbers)}Q", len(numbers), *numbers))


HELLO = message(1, struct.pack("<II", 2, 16))
SEGMENT = [message(2, struct.pack("<I", n) + b"\x64" + bytes(255)) for n in range(8)]
PAGE, BYE = message(3, bytes(4)), message(8, bytes(4))
FIRST, SECOND = 1 << 32, (1 << 32) + 1
CHANNELS = {
    "hello": packet(HELLO),
    "all": packet(HELLO, SEGMENT[1], PAGE, grant(payload=b"hello", word=511, value=1), releases(FIRST, SECOND),
                  message(6, struct.pack("<I", 2)), message(7, struct.pack("<I", 1)), BYE, files=2),
    "two_packets": packet(HELLO) + packet(SEGMENT[1], files=1) + packet(grant()) + packet(releases(FIRST)),
    "released_twice": packet(releases(FIRST, FIRST)),
    "too_many": packet(SEGMENT[1], *[grant(n) for n in range(6)], files=1),
    "too_many_segments": packet(*SEGMENT[1:7], files=6),
    "outside": packet(SEGMENT[1], grant(offset=99, size=2), files=1),
    "overflow": packet(SEGMENT[1], grant(offset=2**64 - 1, size=2), files=1),
    "credit": packet(message(6, struct.pack("<I", 3))),
    "retired": packet(SEGMENT[1], message(7, struct.pack("<I", 1)), grant(), files=1),
    "reserved": packet(SEGMENT[1], grant(reserved=1), files=1),
    "no_page": packet(SEGMENT[1], grant(value=1), files=1),
    "no_file_of_a_page": packet(PAGE),
    "second_page": packet(PAGE, files=1) + packet(PAGE, files=1),
    "word_outside": packet(SEGMENT[1], PAGE, grant(word=512, value=1), files=2),
    "value_outside": packet(SEGMENT[1], PAGE, grant(value=2**63), files=2),
    "word_alone": packet(SEGMENT[1], PAGE, grant(word=1), files=2),
    "no_file": packet(SEGMENT[1]),
    "one_file_more": packet(HELLO, files=1),
    "unknown": packet(message(9, bytes(4))),
    "empty_message": packet(bytes(8)),
    "longer_than_the_packet": packet(struct.pack("<HHI", 8, 2, 0)),
    "many_releases": packet(message(5, struct.pack("<IQ", 0xffffffff, FIRST))),
    "payload": packet(SEGMENT[1], grant(payload=bytes(256)), files=1),
}


def page(*writes, file=GENUINE, seals=0x16):
    """Writes are a word, what is written, and the value that is looked for."""
    return bytes([file, seals]) + b"".join(struct.pack("<HBqBq", word, 0xff, stands, 0xff, value)
                                           for word, stands, value in writes)


PAGES = {
    "reached": page((7, 2, 2), (7, 3, 2), (511, 1, 1)),
    "pending": page((7, 1, 2), (7, 0, 1)),
    "given_up": page((7, 2 - 2**63, 3), (7, 2 - 2**63, 2), (7, -2**63, 1)),
    "goes_back": page((7, 5, 5), (7, 1, 5)),
    "largest": page((511, 2**63 - 1, 2**63 - 1), (0, -1, 2**63 - 1)),
    "halves": page((1, 2**32, 2**32 + 1), (1, 2**32 - 1, 2**32)),
    **{f"seals_{seals:x}": page(seals=seals) for seals in (0, 0x2, 0x4, 0x6, 0x10, 0x12, 0x14, 0x17)},
    **{f"file_{kind}": page(file=kind) for kind in range(SEALED, BOTH + 1)},
}


def held(kind, number, body=b"", files=0):
    """A message between a holder and a client, as a packet."""
    text = struct.pack("<HHI", kind, 0, number) + body
    return bytes([files]) + struct.pack("<H", len(text)) + text


def held_segments(*entries, files=None):
    fresh = sum(entry == 0xffffffff for entry in entries)
    body = b"".join(struct.pack("<I", entry) for entry in entries) + bytes(256 * fresh)
    return held(4, len(entries), body, fresh if files is None else files)


def held_tensor(name=b"w", dimensions=1, segment=0, size=4):
    names = 40 + 16 * dimensions + len(name)
    whole = (names + 7) // 8 * 8
    return (struct.pack("<HHBBBBIHHQQQ", whole, len(name), dimensions, 2, 32, 0, segment, 1, 0, 0, size, 0)
            + bytes(16 * dimensions) + name + bytes(whole - names))


def held_tensors(*tensors):
    return held(5, len(tensors), b"".join(tensors))


def held_commit(tensors, segments, lease=0, files=None):
    return held(6, tensors, struct.pack("<II", segments, lease), lease if files is None else files)


def held_set(segments, tensors, request=1, epoch=1, lease=0):
    return held(10, request, struct.pack("<QIIII", epoch, segments, tensors, lease, 0), lease)


FRESH = 0xffffffff
HELD = {
    "writer": b"\0" + held_segments(FRESH, FRESH) + held_tensors(held_tensor(), held_tensor(b"v", 3, 1)) + held_commit(2, 2),
    "writer_again": b"\0" + held_segments(FRESH) + held_commit(0, 1, 1) + held_segments(0, FRESH) + held_commit(0, 2)
                    + held(8, 0),
    "writer_too_many_files": b"\0" + held_segments(FRESH, FRESH) + held_segments(FRESH, FRESH) + held_commit(0, 4),
    "writer_too_many_tensors": b"\0" + held_tensors(*[held_tensor()] * 21) + held_commit(21, 0) + held_commit(0, 0),
    "writer_lies": b"\0" + held_segments(FRESH) + held_commit(0, 2),
    "writer_names_one_again_and_again": b"\0" + held_segments(FRESH) + held_commit(0, 1) + held_segments(0, 0)
                                        + held_segments(0, 0) + held_commit(0, 4),
    "writer_names_what_it_never_told": b"\0" + held_segments(0),
    "writer_without_file": b"\0" + held_segments(FRESH, files=0),
    "reader": b"\1" + held(9, 1, bytes(8)) + held(9, 2, bytes(8)),
    "greets_twice": b"\0" + held(1, 1, b"weirhold" + struct.pack("<II", 1, 1) + b"a"),
    "arrives": b"\1" + held_set(2, 2, lease=1) + held_segments(FRESH, FRESH)
               + held_tensors(held_tensor(), held_tensor(b"name", 0, 0xffffffff, 0)),
    "arrives_empty": b"\1" + held_set(0, 0),
    "arrives_again": b"\1" + held_set(1, 0, request=7) + held_segments(FRESH) + held_set(1, 0) + held_segments(0),
    "arrives_twice": b"\1" + held_set(1, 0, request=7) + held_segments(FRESH) + held_set(2, 0) + held_segments(0, 0),
    "arrives_too_much": b"\1" + held_set(1, 1) + held_segments(FRESH, FRESH),
    "arrives_torn": b"\1" + held_set(0, 1) + held(5, 1, held_tensor()[:-8]),
    "arrives_without_set": b"\1" + held_segments(FRESH),
    "unknown": b"\0" + held(11, 0),
    "reserved": b"\0" + b"\0\x08\0" + struct.pack("<HHI", 8, 1, 0),
}


def text(value):
    return struct.pack("<H", len(value)) + value


def said(*packets, by_server=False):
    return b"".join(bytes([by_server]) + struct.pack("<H", len(p)) + p for p in packets)


def asked(kind, *numbers, tail=b""):
    return struct.pack(f"<I{len(numbers)}I", kind, *numbers) + tail


def listing(name=b"ab", shape=((3, 5), (5, 1)), dtype=(2, 32, 1)):
    body = struct.pack("<QQQBBHI", 7, 60, 0, *dtype, len(shape)) + b"".join(struct.pack("<qq", *d) for d in shape)
    return body + text(name) + text(b"host:0 shared")


HELLO = asked(1, 1, tail=text(b""))
NAMES = {
    "asks": said(HELLO, asked(2, 1, tail=text(b"a*") + text(b"a")), asked(3, 2, tail=text(b"ab")), asked(4, 3, 0, 0, 0, 0)),
    "greedy": said(HELLO, *(asked(3, i, tail=text(b"b")) for i in range(1, 6))),
    "subscribes": said(asked(1, 1, tail=text(b"a*"))),
    "asks_a_subscription": said(asked(1, 1, tail=text(b"*")), asked(3, 1, tail=text(b"b"))),
    "another_version": said(asked(1, 2, tail=text(b""))),
    "no_greeting": said(asked(3, 1, tail=text(b"b"))),
    "greets_twice": said(HELLO, HELLO),
    "unknown": said(HELLO, asked(3, 1, tail=text(b"c"))),
    "longer": said(HELLO, asked(3, 1, tail=text(b"c") + b"x")),
    "welcome": said(asked(17, 1), by_server=True),
    "refused": said(asked(18, 1, 2, tail=text(b"busy")), by_server=True),
    "names": said(asked(19, 1, tail=b"\1\0\2\0" + listing() + listing(b"b", ())), by_server=True),
    "got": said(asked(20, 1, tail=listing()), by_server=True),
    "negative": said(asked(20, 1, tail=listing(shape=((-1, 1),))), by_server=True),
    "guests": said(asked(21, 1, tail=b"\0\0\1\0" + struct.pack("<QIHHQQQ", 1, 1000, 1, 1, 7, 1, 60) + text(b"a")),
                   by_server=True),
    "published": said(asked(22, 1, tail=listing()), by_server=True),
    "withdrawn": said(asked(22, 2, tail=u64(8) + text(b"a")), by_server=True),
    "missed": said(asked(22, 3, tail=u64(9)), by_server=True),
}

CORPORA = {"descriptor": DESCRIPTORS, "socket": SOCKETS, "channel": CHANNELS, "page": PAGES, "hold": HELD, "names": NAMES,
           "dlpack": TENSORS, "layout": LAYOUTS, "device": DEVICES,
           "trace": TRACES, "spec": SPECS, "arena": ARENAS}


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "corpus")
    for target, seeds in CORPORA.items():
        (folder / target).mkdir(parents=True, exist_ok=True)
        for name, content in seeds.items():
            (folder / target / name).write_bytes(content)


if __name__ == "__main__":
    main()

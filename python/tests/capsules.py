# SPDX-License-Identifier: Apache-2.0
"""What is inside a DLPack capsule, read with ctypes: independent of the code that made it."""

import ctypes

READ_ONLY = 1
IS_COPIED = 2
PADDED = 4

_name = ctypes.pythonapi.PyCapsule_GetName
_name.restype, _name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_set_name = ctypes.pythonapi.PyCapsule_SetName
_set_name.restype, _set_name.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]

_USED = {b"dltensor": b"used_dltensor", b"dltensor_versioned": b"used_dltensor_versioned"}


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Legacy(ctypes.Structure):
    pass


class Versioned(ctypes.Structure):
    pass


_LegacyDeleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)  # releases the GIL around the call
Legacy._fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", _LegacyDeleter)]
Versioned._fields_ = [
    ("major", ctypes.c_uint32),
    ("minor", ctypes.c_uint32),
    ("context", ctypes.c_void_p),
    ("deleter", _LegacyDeleter),
    ("flags", ctypes.c_uint64),
    ("tensor", DLTensor),
]


def name(capsule) -> str:
    return _name(capsule).decode()


def managed(capsule):
    """The struct, borrowed from the capsule."""
    kind = Versioned if "versioned" in name(capsule) else Legacy
    return kind.from_address(_pointer(capsule, _name(capsule)))


def consume(capsule):
    """Take the struct as a consumer does. The caller owes a call of delete()."""
    struct = managed(capsule)
    assert _set_name(capsule, _USED[_name(capsule)]) == 0
    return struct


def delete(struct):
    struct.deleter(ctypes.addressof(struct))


def shape(struct):
    return tuple(struct.tensor.shape[i] for i in range(struct.tensor.ndim))


def strides(struct):
    return tuple(struct.tensor.strides[i] for i in range(struct.tensor.ndim))

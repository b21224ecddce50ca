// SPDX-License-Identifier: Apache-2.0
#pragma once
// Names that several headers use. There is nothing to read here; start at buffer.hpp.

#include <cstddef>
#include <cstdint>
#include <memory>

struct DLManagedTensor;           // <dlpack/dlpack.h>, needed only by callers that unpack tensors themselves
struct DLManagedTensorVersioned;

/// Memory that GPUs, CPUs, processes and frameworks share.
namespace weir {

class Buffer;
class Device;
class Event;
class MemoryResource;
class Stream;
class Tensor;
struct DType;
struct Layout;

/// Handle of a resource. It is shared, so that a Buffer can keep the resource it came from alive.
using ResourcePtr = std::shared_ptr<MemoryResource>;

/// Alignment, in bytes, of every allocation that does not ask for more.
inline constexpr std::size_t default_alignment = 256;

namespace ipc {
class Descriptor;
}

namespace spi {
struct Backend;
struct Block;
struct DeviceState;
struct Location;
struct Request;
class Segment;
class StreamState;
}  // namespace spi

}  // namespace weir

// SPDX-License-Identifier: Apache-2.0
#pragma once
// What stands behind the public handles that functions of weir/vulkan.hpp are given. `what` begins the messages of
// errors.

#include <cstddef>

#include "segment.hpp"
#include "stream.hpp"
#include "weir/buffer.hpp"
#include "weir/stream.hpp"

namespace weir::vulkan {

/// Throws invalid_argument for a stream of another backend, and unsupported in a forked child.
BatchedStream& stream_of(const Stream& stream, const char* what);

/// Return the memory, and the buffer's `offset` in it; null for zero bytes. For memory of another backend, this is the
/// view that `on` has of it, or the first listed device of that GPU if `on` is null. Throws closed, invalid_argument
/// for memory that Vulkan does not reach, and what the drivers refuse.
Memory* memory_of(const Buffer& buffer, const char* what, std::size_t& offset, spi::DeviceState* on = nullptr);

}  // namespace weir::vulkan

// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the core makes of a backend's segments: resources that hand out one segment for each buffer, and buffers over a
// single segment.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "weir/buffer.hpp"
#include "weir/memory_resource.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/segment.hpp"

namespace weir::spi {

/// Make the plain resource over one memory kind. Each buffer has a segment of its own, which is released in stream
/// order or, where the driver's release may block, by a thread of the library. Typed factories pass their own `flags`,
/// or a `source` of their own, which lives as long as the resource. Without a `source` the resource gets the one of
/// SegmentOps. Its name() is "backend.kind". Throws unsupported when the device has no such kind, or when `exportable`
/// is set and the device cannot share memory of that kind.
ResourcePtr make_segment_resource(DeviceState& device, MemoryKind kind, bool exportable, std::uint64_t flags = 0,
                                  std::shared_ptr<Source> source = nullptr);

/// Return the source of a resource of make_segment_resource; null for other resources, and where there is none. It
/// lives as long as the resource.
Source* source_of(const MemoryResource& resource) noexcept;

/// Make a buffer of `bytes` from `offset` of a segment that no resource made: an imported or adopted one.
Buffer make_adopted_buffer(Ref<Segment> segment, std::size_t offset, std::size_t bytes, const Stream& stream);

}  // namespace weir::spi

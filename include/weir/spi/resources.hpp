// SPDX-License-Identifier: Apache-2.0
#pragma once
// What becomes of a backend's segments: resources that hand out one for each buffer, and buffers over a single one.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "weir/buffer.hpp"
#include "weir/memory_resource.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/segment.hpp"

namespace weir::spi {

/// The plain resource over one memory kind: one segment per buffer, released in stream order or, where the driver's
/// release may block, by a thread of the library. Typed factories call it with their own `flags`, or with a source of
/// their own, which lives as long as the resource; else it gets that of SegmentOps. `name` is "backend.kind". Throws
/// unsupported when the device has no such kind, or cannot share it although `exportable`.
ResourcePtr make_segment_resource(DeviceState& device, MemoryKind kind, bool exportable, std::uint64_t flags = 0,
                                  std::shared_ptr<Source> source = nullptr);

/// Buffer over a segment that no resource made: imported, adopted. `bytes` from `offset` of it.
Buffer make_adopted_buffer(Ref<Segment> segment, std::size_t offset, std::size_t bytes, const Stream& stream);

}  // namespace weir::spi

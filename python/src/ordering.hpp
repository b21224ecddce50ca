// SPDX-License-Identifier: Apache-2.0
#pragma once
// Readers that name no stream: NumPy, memoryview, anything on the host. The memory must be complete when they get it.

#include "bind.hpp"
#include "weir/spi/dlpack.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::python {

/// Wait without the GIL until every use of `buffer` recorded so far is complete and the host sees what devices wrote.
void complete_on_host(const Buffer& buffer);
/// The same, but the host sees only the bytes that the elements reach. What it wrote beside them, and devices have not
/// been shown yet, stays as it is.
void complete_on_host(const Buffer& buffer, const spi::Elements& elements);

/// Return whether the driver has everything that was put on the stream, so that nobody waits until it has.
inline bool has_nothing_held_back(const spi::StreamState& stream) noexcept { return stream.submitted(stream.issued()); }

/// Return a stream of the host that this thread keeps, for memory whose work needs no stream of its own.
const Stream& host_stream();

/// Return the stream that `with work_stream(...)` names on this thread for work on `device`; null when none does.
const Stream* named_work_stream(const Device& device);

/// Return the allocation stream of an open buffer; host_stream() when it has none.
Stream allocation_stream(const Buffer& buffer);

}  // namespace weir::python

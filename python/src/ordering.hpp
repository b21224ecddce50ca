// SPDX-License-Identifier: Apache-2.0
#pragma once
// Readers that name no stream: NumPy, memoryview, anything on the host. The memory must be complete when they get it.

#include "bind.hpp"

namespace weir::python {

/// Wait without the GIL until every use of `buffer` recorded so far is complete and the host sees what devices wrote.
void complete_on_host(const Buffer& buffer);

/// Return the stream on which host readers of this thread are recorded.
const Stream& host_reader();

/// Return the allocation stream of an open buffer; host_reader() when it has none.
Stream allocation_stream(const Buffer& buffer);

}  // namespace weir::python

// SPDX-License-Identifier: Apache-2.0
#include "tensor/export.hpp"

#include <exception>
#include <utility>

#include "weir/error.hpp"
#include "weir/spi/segment.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::detail {

thread_local constinit Export::Kept Export::kept{};

bool Export::Kept::make_room() noexcept {
  constexpr unsigned most = 64;
  if (std::exchange(used, true)) return false;
  struct AtEnd {
    ~AtEnd() { kept.sweep(); }
  };
  thread_local const AtEnd at_end;
  (void)&at_end;  // naming it makes it
  room = most;
  return true;
}

void Export::Kept::sweep() noexcept {
  room = 0;
  while (first) delete std::exchange(first, first->next_);
}

void Export::end_writes() noexcept {
  const auto bytes = std::exchange(written_, 0);
  try {
    block_->segment->after_host_write(written_at_, bytes);
  } catch (const std::exception& refused) {
    report({{}, "deleting a DLPack tensor", refused.what()});
  }
}

// The close needs no memory, because the export recorded the stream. A point that covers all work of the device is made
// now; the driver is asked for it when somebody wants to know whether it has passed, which covers even more.
void Export::end_work(Buffer& last) noexcept {
  const Stream consumer = *std::exchange(consumer_, std::nullopt);
  if (std::exchange(everything_, false)) {
    try {
      consumer.state().put(spi::NativeOp{});
    } catch (const std::exception&) {  // the device is lost, which ends its work, too
    }
  }
  last.close(consumer);
}

}  // namespace weir::detail

// SPDX-License-Identifier: Apache-2.0
#include "tensor/export.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "weir/error.hpp"
#include "weir/spi/segment.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::detail {

/// Those that this thread has deleted. A deleter may run when the objects of the thread have ended already, so this one
/// has no end of its own.
struct Export::Kept {
  static constexpr unsigned most = 64;
  Export* first;
  unsigned count;
  bool swept;  // at the end of the thread, or soon: nothing is kept any more
  bool will_be_swept;

  void sweep() noexcept {
    swept = true;
    while (first) delete std::exchange(first, first->next_);
  }
  static thread_local constinit Kept mine;
};
thread_local constinit Export::Kept Export::Kept::mine{};

bool Export::keep(Export& ended) noexcept {
  Kept& mine = Kept::mine;
  if (mine.swept || mine.count == Kept::most) return false;
  if (!mine.will_be_swept) {
    struct AtEnd {
      ~AtEnd() { Kept::mine.sweep(); }
    };
    thread_local const AtEnd at_end;
    (void)&at_end;  // naming it makes it
    mine.will_be_swept = true;
  }
  ended.next_ = std::exchange(mine.first, &ended);
  ++mine.count;
  return true;
}

Export::Owner Export::take(std::span<const std::int64_t> shape, std::span<const std::int64_t> strides) {
  Kept& mine = Kept::mine;
  Owner taken;
  if (mine.first) {
    taken.reset(std::exchange(mine.first, mine.first->next_));
    --mine.count;
  } else {
    taken.reset(new Export);
  }
  taken->dimensions_ = shape.size();
  if (shape.size() > usual) taken->more_ = std::make_unique<std::int64_t[]>(2 * shape.size());
  std::int64_t *const extents = taken->shape(), *const steps = taken->strides();
  for (std::size_t i = 0; i < shape.size(); ++i) {  // few: a call for them takes longer
    extents[i] = shape[i];
    steps[i] = strides[i];
  }
  return taken;
}

void Export::end_writes() const noexcept {
  try {
    block_->segment->after_host_write(written_at_, written_);
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

void Export::recycle(Export* ended) noexcept {
  if (ended->block_) {
    if (std::exchange(ended->written_, 0) != 0) ended->end_writes();
    Buffer last(*std::exchange(ended->block_, nullptr));
    if (ended->consumer_) ended->end_work(last);
  }
  ended->more_.reset();
  if (!keep(*ended)) delete ended;
}

}  // namespace weir::detail

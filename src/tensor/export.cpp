// SPDX-License-Identifier: Apache-2.0
#include "tensor/export.hpp"

#include <algorithm>
#include <utility>

#include "weir/buffer.hpp"

namespace weir::detail {

/// Those that this thread has deleted.
struct Export::Kept {
  static constexpr unsigned most = 64;
  Export* first = nullptr;
  unsigned count = 0;

  ~Kept() {
    ended = true;
    while (first) delete std::exchange(first, first->next_);
  }
  // A deleter may run when the objects of the thread have ended already. This one needs no end.
  static inline thread_local constinit bool ended = false;
};

Export::Kept* Export::kept() noexcept {
  if (Kept::ended) return nullptr;
  thread_local Kept mine;
  return &mine;
}

Export::Owner Export::take(const Layout& layout) {
  Kept* const mine = kept();
  Owner taken;
  if (mine && mine->first) {
    taken.reset(std::exchange(mine->first, mine->first->next_));
    --mine->count;
  } else {
    taken.reset(new Export);
  }
  taken->set(layout);
  return taken;
}

void Export::set(const Layout& layout) {
  dimensions_ = layout.shape.size();
  if (dimensions_ > usual) more_ = std::make_unique<std::int64_t[]>(2 * dimensions_);
  std::ranges::copy(layout.shape, shape());
  std::ranges::copy(layout.strides, strides());
}

void Export::recycle(Export* ended) noexcept {
  if (ended->block_) {
    Buffer last(*std::exchange(ended->block_, nullptr));
    if (ended->consumer) last.close(*ended->consumer);  // needs no memory: to_dlpack recorded the stream
  }
  ended->consumer.reset();
  ended->more_.reset();
  Kept* const mine = kept();
  if (!mine || mine->count == Kept::most) {
    delete ended;
    return;
  }
  ended->next_ = std::exchange(mine->first, ended);
  ++mine->count;
}

}  // namespace weir::detail

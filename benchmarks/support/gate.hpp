// SPDX-License-Identifier: Apache-2.0
#pragma once
// A stream that stands still for a while, so that what is freed on it stays in use.

#include <atomic>
#include <memory>

#include "allocator.hpp"

namespace weir::bench {

/// From its construction to its end the stream does nothing that is put on it.
template <Ordered A>
class Standstill {
 public:
  Standstill(const A& allocator, const typename A::Stream& stream) : allocator_(allocator), stream_(stream) {
    allocator.call(stream, [open = open_] { open->wait(false); });
  }
  Standstill(const Standstill&) = delete;
  Standstill& operator=(const Standstill&) = delete;
  ~Standstill() {
    open_->test_and_set();
    open_->notify_all();
    try {
      allocator_.synchronize(stream_);
    } catch (...) {  // who uses the stream next is told
    }
  }

 private:
  const A& allocator_;
  const typename A::Stream& stream_;
  std::shared_ptr<std::atomic_flag> open_ = std::make_shared<std::atomic_flag>();
};

}  // namespace weir::bench

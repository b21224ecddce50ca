// SPDX-License-Identifier: Apache-2.0
#pragma once
// Something that holds streams back for as long as a test wants, so that order is seen and not guessed.

#include <future>

#include "weir/stream.hpp"

namespace weir::test {

/// A host stream that stands still until `open()`. Streams that wait for it stand still too.
class Gate {
 public:
  Gate() : stream_(host_device()) {
    stream_.call([opened = opened_.get_future().share()] { opened.wait(); });
    event_ = stream_.record();
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() { open(); }

  /// Everything put on `stream` from now on waits for `open()`.
  void hold(const Stream& stream) const { stream.wait(event_); }
  [[nodiscard]] const Event& event() const { return event_; }

  void open() {
    if (open_) return;
    open_ = true;
    opened_.set_value();
  }

 private:
  std::promise<void> opened_;
  bool open_ = false;
  Stream stream_;
  Event event_;
};

}  // namespace weir::test

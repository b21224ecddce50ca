// SPDX-License-Identifier: Apache-2.0
#pragma once
// A gate for streams that does not depend on its destructor: any part of it may fail to be made.

#include <atomic>
#include <memory>

#include "weir/device.hpp"
#include "weir/stream.hpp"

namespace weir::test {

/// Holds streams back until it is opened or destroyed, whatever fails meanwhile.
class Hold {
 public:
  Hold() {
    stream_.call([opened = door_.opened] { opened->wait(false); });
    event_ = stream_.record();
  }
  void open() { door_.open(); }
  [[nodiscard]] const Event& event() const { return event_; }

 private:
  struct Door {
    Door() = default;
    Door(const Door&) = delete;
    Door& operator=(const Door&) = delete;
    ~Door() { open(); }
    void open() {
      opened->store(true);
      opened->notify_all();
    }
    std::shared_ptr<std::atomic<bool>> opened = std::make_shared<std::atomic<bool>>(false);
  };
  Door door_;  // opens also when the rest cannot be made
  Stream stream_{host_device()};
  Event event_;
};

}  // namespace weir::test

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Objects of Python that can be closed by one thread while another one uses them without the GIL.

#include <memory>
#include <string>
#include <utility>

#include "bind.hpp"
#include "owners.hpp"

namespace weir::python {

/// A `T` until it is closed. An operation holds it, so its memory goes back when the last operation is over.
template <class T>
class Held {
 public:
  Held(const char* name, std::shared_ptr<T> object) : name_(name), object_(std::move(object)) {}
  [[nodiscard]] bool is_closed() const noexcept { return !object_; }
  /// Return the object. Throws closed, naming the operation. Needs the GIL.
  [[nodiscard]] std::shared_ptr<T> get(const char* operation) const {
    if (!object_) throw Error(Errc::closed, std::string(operation) + ": the " + name_ + " is closed");
    return object_;
  }
  /// Give the object up. Never blocks.
  void close() {
    without_gil([last = std::move(object_)]() mutable { last.reset(); });
    make_pending_calls();
  }

 private:
  const char* name_;
  std::shared_ptr<T> object_;  ///< guarded by the GIL; null when closed
};

}  // namespace weir::python

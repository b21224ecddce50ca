// SPDX-License-Identifier: Apache-2.0
#pragma once
// One run of a test: the objects of it, its threads, and what must hold in the end.

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "location.hpp"

namespace weir::explore {

class Scene {
 public:
  /// Make an object that lives until the end of the run.
  template <class T, class... Arguments>
  T& make(Arguments&&... arguments) {
    auto made = std::make_shared<T>(std::forward<Arguments>(arguments)...);
    T& object = *made;
    objects_.push_back(std::move(made));
    return object;
  }
  /// Add a thread, up to four. Threads count from 0.
  void thread(std::function<void()> body) { bodies_.push_back(std::move(body)); }
  /// Set what to do once every thread is over and every store is in memory.
  void finally(std::function<void()> check) { check_ = std::move(check); }
  /// Name an instrumented object in traces. `text` must outlive the search.
  template <class Object>
  void name(const Object& object, const char* text) {
    object.location().name = text;
  }

  Scene() = default;
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;
  ~Scene() {
    while (!objects_.empty()) objects_.pop_back();
  }
  [[nodiscard]] const std::vector<std::function<void()>>& bodies() const noexcept { return bodies_; }
  void check() const {
    if (check_) check_();
  }

 private:
  std::vector<std::shared_ptr<void>> objects_;
  std::vector<std::function<void()>> bodies_;
  std::function<void()> check_;
};

}  // namespace weir::explore

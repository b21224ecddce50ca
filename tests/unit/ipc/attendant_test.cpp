// SPDX-License-Identifier: Apache-2.0
// The library's threads that wait for files, when more files are ready than one look of theirs shows.
#include "ipc/attendant.hpp"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <cstddef>
#include <list>
#include <span>

#include "weir/spi/unique_fd.hpp"

namespace weir::test {
namespace {

/// Has files that are always ready, and attends to all of them in a round. It never ends, as its kind must.
class AlwaysReady final : public detail::Attendant {
 public:
  AlwaysReady()
      : Attendant({.purpose = "test", .thread = "weir test", .no_thread = "", .wait = "epoll_wait", .lost = ""}) {}

  /// Return whether a round was answered.
  bool answers(std::size_t count) {
    Lock lock(mutex_);
    need_thread();
    while (ready_.size() < count) {
      ready_.emplace_back(::eventfd(1, EFD_CLOEXEC));
      EXPECT_EQ(files().add(ready_.back().get(), EPOLLIN, 1), 0);
    }
    return is_elsewhere() && await_round(lock);
  }
  [[nodiscard]] std::size_t rounds() {
    const Lock lock(mutex_);
    return rounds_;
  }
  void stop() {
    const Lock lock(mutex_);
    for (const spi::UniqueFd& file : ready_) files().remove(file.get());
    ready_.clear();
  }

 private:
  [[nodiscard]] bool is_idle() const noexcept override { return ready_.empty(); }
  [[nodiscard]] bool sees_all() const noexcept override { return true; }
  void serve(std::span<const epoll_event>, bool round, Lock&) noexcept override { rounds_ += round ? 1 : 0; }
  void leave_to_parent() noexcept override {}

  std::list<spi::UniqueFd> ready_;
  std::size_t rounds_ = 0;
};

TEST(Attendants, AnswerBesideFilesThatAreAlwaysReady) {
  static auto& attendant = *new AlwaysReady;
  EXPECT_TRUE(attendant.answers(100));  // the watchdog ends it if there is no answer
  EXPECT_EQ(attendant.rounds(), 1U);
  attendant.stop();
}

}  // namespace
}  // namespace weir::test

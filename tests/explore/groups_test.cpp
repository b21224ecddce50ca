// SPDX-License-Identifier: Apache-2.0
// Closed memory that waits together: its owner begins a group and joins it, while others find that its point has passed.

#include <array>
#include <mutex>

#include "explore.hpp"
#include "pool/cache/waiting_group.hpp"
#include "weir/spi/sync.hpp"

namespace weir::test {
namespace {

using explore::require;
using explore::Scene;
using pool::WaitingGroup;

struct Piece {
  sync::Plain<Piece*> next{nullptr};
  sync::Plain<int> content{0};
  sync::Plain<bool> leads{false};
  int taken = 0;  // by whoever takes it, under the mutex
};

/// A cache with its group, and a stream's queue. Who does not join the group stands in the queue.
class World {
 public:
  void close(Piece& piece) {
    piece.content = 1;
    if (group_.waits_for(this, 1) && group_.join(piece)) return;
    piece.leads = group_.begin(piece, this, 1);
    const std::scoped_lock lock(mutex_);
    queue_.at(count_++) = &piece;
  }
  /// All that has waited so far is over.
  void settle() {
    const std::scoped_lock lock(mutex_);
    while (count_ != 0) {
      Piece& first = *queue_.at(--count_);
      for (Piece* piece = first.leads ? &group_.take() : &first; piece != &first; piece = piece->next) {
        require(piece->content == 1, "what joined is whole");
        ++piece->taken;
      }
      ++first.taken;
    }
  }
  [[nodiscard]] bool waits() const noexcept { return group_.latest() != nullptr; }

 private:
  WaitingGroup<Piece> group_;
  sync::Mutex mutex_;
  std::array<Piece*, 4> queue_{};
  std::size_t count_ = 0;
};

TEST(Groups, AreTakenAsAWholeAndOnce) {
  EXPECT_TRUE(explore::holds(
      [](Scene& scene) {
        auto& world = scene.make<World>();
        auto& pieces = scene.make<std::array<Piece, 4>>();
        scene.thread([&] {
          for (Piece& piece : pieces) world.close(piece);
        });
        scene.thread([&] { world.settle(); });
        scene.thread([&] { world.settle(); });
        scene.finally([&] {
          world.settle();
          require(!world.waits(), "nobody waits any more");
          for (const Piece& piece : pieces) require(piece.taken == 1, "each comes back once");
        });
      },
      {.preemptions = 3}));
}

}  // namespace
}  // namespace weir::test

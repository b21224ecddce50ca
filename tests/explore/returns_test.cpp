// SPDX-License-Identifier: Apache-2.0
// What closes of other threads are to a pool's cache: a place at the door, a count, and flags that are looked at in the
// step in which the close is counted.

#include <array>
#include <mutex>
#include <utility>

#include "explore.hpp"
#include "pool/cache/close_count.hpp"
#include "pool/cache/return_stack.hpp"
#include "weir/spi/sync.hpp"

namespace weir::test {
namespace {

using explore::require;
using explore::Scene;
using pool::CloseCount;
using pool::ReturnStack;

struct Piece {
  sync::Plain<Piece*> next{nullptr};
  sync::Plain<int> content{0};
  int taken = 0;  // by whoever drains, under the mutex
};

/// A cache, as far as others have to do with it, and the part of a pool that knows it. It ends with its last piece when
/// it is asked to, as a pool's shard and the pool itself do.
class Door {
 public:
  explicit Door(int pieces) noexcept : given_out_(pieces) {}

  /// Close a piece. Afterwards the door may be gone.
  void close(Piece& piece) {
    piece.content = 1;
    door_.push(piece);
    if (closes_.add()) return;
    bool ends = false;
    {
      const std::scoped_lock lock(mutex_);
      list();
      closes_.add_flagged();
      ends = abandoned_ && live() == 0;
      if (ends) closes_.clear(CloseCount::abandoned);
    }
    if (ends) end();
  }
  /// Take what is there, as whoever looks for memory does.
  void drain() {
    const std::scoped_lock lock(mutex_);
    if (closes_.flags() & CloseCount::unlisted) return;
    take();
    closes_.set(CloseCount::unlisted);
    if (!door_.empty()) list();
  }
  /// Whoever owned it goes: it ends now or with the last close.
  void abandon() {
    bool ends = false;
    {
      const std::scoped_lock lock(mutex_);
      closes_.set(CloseCount::abandoned);
      ends = live() == 0;
      abandoned_ = !ends;
      if (ends) closes_.clear(CloseCount::abandoned);
    }
    if (ends) end();
  }

  [[nodiscard]] bool listed() const noexcept { return (closes_.flags() & CloseCount::unlisted) == 0; }
  [[nodiscard]] bool empty() const noexcept { return door_.empty(); }
  [[nodiscard]] std::uint64_t live() const noexcept { return static_cast<std::uint64_t>(given_out_) - closes_.count(); }
  sync::Atomic<int>* ended = nullptr;

 private:
  void list() noexcept { closes_.clear(CloseCount::unlisted); }
  void take() {
    for (Piece* piece = door_.take_all(); piece;) {
      Piece& one = *std::exchange(piece, piece->next.get());
      require(one.content == 1, "what was closed is whole");
      require(one.taken++ == 0, "nothing is given out twice");
    }
  }
  void end() {
    take();
    require(!ended || ended->fetch_add(1) == 0, "it ends once");
    delete this;
  }

  sync::Plain<int> given_out_;
  ReturnStack<Piece> door_;
  CloseCount closes_;
  sync::Mutex mutex_;
  bool abandoned_ = false;
};

/// No piece is lost, none is there twice, and the pool knows of every door with something behind it.
TEST(Returns, ClosesAgainstADrain) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& door = scene.make<Door>(2);
    auto& first = scene.make<Piece>();
    auto& second = scene.make<Piece>();
    scene.thread([&] { door.close(first); });
    scene.thread([&] { door.close(second); });
    scene.thread([&] { door.drain(); });
    scene.finally([&] {
      require(door.live() == 0, "both are counted");
      require(door.empty() || door.listed(), "the pool knows what has something to give");
      const int before = first.taken + second.taken;
      door.drain();
      require(first.taken + second.taken == 2 && before <= 2, "nothing is lost");
    });
  }));
}

TEST(Returns, ClosesOfOneThreadAgainstTwoDrains) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& door = scene.make<Door>(2);
    auto& first = scene.make<Piece>();
    auto& second = scene.make<Piece>();
    scene.thread([&] {
      door.close(first);
      door.close(second);
    });
    scene.thread([&] {
      door.drain();
      door.drain();
    });
    scene.finally([&] {
      require(door.empty() || door.listed(), "the pool knows what has something to give");
      door.drain();
      require(first.taken == 1 && second.taken == 1, "nothing is lost");
    });
  }));
}

/// Several that are left in one step, against a close and a drain.
TEST(Returns, ThoseThatComeBackTogether) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& stack = scene.make<ReturnStack<Piece>>();
    auto* const pieces = &scene.make<std::array<Piece, 3>>();
    const auto take = [](ReturnStack<Piece>& from) {
      int taken = 0;
      for (Piece* piece = from.take_all(); piece; piece = piece->next, ++taken) {
        require(piece->content == 1, "it is seen as it was left");
      }
      return taken;
    };
    auto& drained = scene.make<sync::Atomic<int>>(0);
    scene.thread([&stack, pieces] {
      (*pieces)[0].content = (*pieces)[1].content = 1;
      (*pieces)[0].next = &(*pieces)[1];
      stack.push((*pieces)[0], (*pieces)[1]);
    });
    scene.thread([&stack, pieces] {
      (*pieces)[2].content = 1;
      stack.push((*pieces)[2]);
    });
    scene.thread([&, take] { drained = take(stack); });
    scene.finally([&, take] { require(drained + take(stack) == 3, "nothing is lost"); });
  }));
}

/// Two closes, and the end of everything else: exactly one of the three ends the door, and nobody uses it afterwards.
TEST(Returns, TheLastOfAllEndsIt) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto* const door = new Door(2);
    auto& ended = scene.make<sync::Atomic<int>>(0);
    door->ended = &ended;
    auto& first = scene.make<Piece>();
    auto& second = scene.make<Piece>();
    scene.thread([&, door] { door->close(first); });
    scene.thread([&, door] { door->close(second); });
    scene.thread([door] { door->abandon(); });
    scene.finally([&] {
      require(ended == 1, "it has ended");
      require(first.taken == 1 && second.taken == 1, "with all that was closed");
    });
  }));
}

TEST(Returns, OneThreadClosesAllAgainstTheEnd) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto* const door = new Door(2);
    auto& ended = scene.make<sync::Atomic<int>>(0);
    door->ended = &ended;
    auto& first = scene.make<Piece>();
    auto& second = scene.make<Piece>();
    scene.thread([&, door] {
      door->close(first);
      door->close(second);
    });
    scene.thread([door] {
      door->drain();
      door->abandon();
    });
    scene.finally([&] { require(ended == 1, "it has ended"); });
  }));
}

}  // namespace
}  // namespace weir::test

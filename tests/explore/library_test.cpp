// SPDX-License-Identifier: Apache-2.0
// Small protocols of the library, as they are.

#include <cstdint>
#include <utility>

#include "base/atomic_max.hpp"
#include "explore.hpp"
#include "weir/interop/buffer_table.hpp"
#include "weir/spi/segment.hpp"
#include "weir/spi/sync.hpp"

#if !defined(WEIR_EXPLORED)
#error "the library's own sync.hpp was found first"
#endif

namespace weir::test {
namespace {

using explore::require;
using explore::Scene;

// ---- atomic_max ----------------------------------------------------------------------------------------------------------

TEST(Raise, LeavesTheLargest) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& word = scene.make<sync::Atomic<std::uint64_t>>(3U);
    for (const std::uint64_t value : {5U, 7U, 2U}) {
      scene.thread([&word, value] {
        detail::atomic_max(word, value);
        require(word.load(std::memory_order_relaxed) >= value, "it is at least what this thread said");
      });
    }
    scene.finally([&word] { require(word == 7, "it is what the largest said"); });
  }));
}

TEST(Raise, NeverGoesBack) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& word = scene.make<sync::Atomic<std::uint64_t>>(0U);
    for (const std::uint64_t value : {1U, 2U}) scene.thread([&word, value] { detail::atomic_max(word, value); });
    scene.thread([&word] {
      const auto before = word.load(std::memory_order_relaxed);
      require(word.load(std::memory_order_relaxed) >= before, "a later look sees no less");
    });
  }));
}

/// What was written before the value was raised is there for whoever sees the value.
TEST(Raise, Releases) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& word = scene.make<sync::Atomic<std::uint64_t>>(0U);
    auto& first = scene.make<sync::Plain<int>>(0);
    auto& second = scene.make<sync::Plain<int>>(0);
    scene.thread([&] {
      first = 1;
      detail::atomic_max<std::uint64_t>(word, 1);
    });
    scene.thread([&] {
      second = 1;
      detail::atomic_max<std::uint64_t>(word, 2);
    });
    scene.thread([&] {
      const auto seen = word.load(std::memory_order_acquire);
      if (seen == 1) require(first == 1, "the first is there");
      if (seen == 2) require(second == 1, "the second is there");
    });
  }));
}

// ---- segments -------------------------------------------------------------------------------------------------------

class PlainSegment final : public spi::Segment {
 public:
  explicit PlainSegment(int& ended) : ended_(ended) {}

 private:
  ~PlainSegment() override { ++ended_; }
  int& ended_;
};

TEST(Segments, EndWithTheLastOwner) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& ended = scene.make<int>(0);
    auto* const segment = new PlainSegment(ended);
    segment->retain();
    scene.thread([segment] { segment->release(); });
    scene.thread([segment] {
      segment->retain();
      segment->release();
      segment->release();
    });
    scene.finally([&ended] { require(ended == 1, "it ended once"); });
  }));
}

TEST(Segments, HaveOneIdentityForAll) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto* const segment = new PlainSegment(scene.make<int>(0));
    auto& seen = scene.make<std::array<spi::SegmentId, 3>>();
    for (std::size_t i = 0; i < seen.size(); ++i) scene.thread([segment, &seen, i] { seen.at(i) = segment->id(); });
    scene.finally([segment, &seen] {
      const auto id = segment->id();
      require(id.high != 0 && id.low != 0, "it has one");
      for (const auto& one : seen) require(one == id, "every thread has got the same");
      segment->release();
    });
  }));
}

/// An import is published with the identity of its exporter's segment, while that segment may still get its own.
TEST(Segments, AreNotTakenForEachOther) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto* const segment = new PlainSegment(scene.make<int>(0));
    auto* const stranger = new PlainSegment(scene.make<int>(0));
    auto& import = scene.make<sync::Atomic<spi::Segment*>>(nullptr);
    scene.thread([&, segment] {
      auto* const made = new PlainSegment(scene.make<int>(0));
      made->set_id(segment->id());
      import.store(made, std::memory_order_release);
    });
    scene.thread([&, segment] {
      if (auto* const seen = import.load(std::memory_order_acquire)) {
        require(seen->known_as(*segment), "the import and its original are known as one");
      }
    });
    scene.thread([=] {
      stranger->set_id({1, 2});
      require(!stranger->known_as(*segment), "another one is not");
    });
    scene.finally([&, segment, stranger] {
      import.load()->release();
      segment->release();
      stranger->release();
    });
  }));
}

// ---- the table by address -------------------------------------------------------------------------------------------

const void* address(std::uintptr_t number) { return reinterpret_cast<const void*>(number); }  // never read

TEST(BufferTables, GiveEachBufferToOne) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& table = scene.make<BufferTable>();
    auto& taken = scene.make<std::array<int, 2>>();
    table.insert(address(1), Buffer(1));
    for (std::size_t i = 0; i < taken.size(); ++i) {
      scene.thread([&, i] { taken.at(i) = table.take(address(1)).name(); });
    }
    scene.thread([&] { table.insert(address(2), Buffer(2)); });
    scene.finally([&] {
      require(taken.at(0) + taken.at(1) == 1, "one of two has got it");
      require(table.size() == 1 && table.take(address(2)).name() == 2, "the other buffer is still there");
    });
  }));
}

/// An address is given out again by one thread as soon as another one has given it back.
TEST(BufferTables, AnAddressComesBack) {
  EXPECT_TRUE(explore::holds([](Scene& scene) {
    auto& table = scene.make<BufferTable>();
    auto& is_free = scene.make<sync::Atomic<bool>>(false);
    table.insert(address(1), Buffer(1));
    scene.thread([&] {
      require(table.take(address(1)).name() == 1, "the first buffer is there");
      is_free.store(true, std::memory_order_release);
    });
    scene.thread([&] {
      for (unsigned i = 0; !is_free.load(std::memory_order_acquire); ++i) sync::pause(i);
      table.insert(address(1), Buffer(2));
      require(table.take(address(1)).name() == 2, "and then the second");
    });
    scene.finally([&] { require(table.size() == 0, "none is left"); });
  }));
}

}  // namespace
}  // namespace weir::test

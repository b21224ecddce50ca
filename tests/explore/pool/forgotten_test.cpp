// SPDX-License-Identifier: Apache-2.0
// An application's stream that nobody names any more, while memory of it is live: who may still ask the native stream, and
// whether everything that ran there counts when the memory goes to others.

#include <optional>
#include <utility>
#include <vector>

#include "base/library_thread.hpp"
#include "memory.hpp"

namespace weir::test {
namespace {

using explore::require;
using explore::Scene;

/// Pools of two buffers each, an application's stream, and one of the library's that has all it needs.
struct Application {
  explicit Application(std::size_t count) {
    begin_world_of_pools();
    PoolOptions options;
    options.segment_bytes = options.limit = 2 * Bytes::unit;
    options.growth = 0;
    options.patience = {};
    options.paged = false;
    options.reuse = ReusePolicy::passed_only;
    for (std::size_t i = 0; i < count; ++i) pools.push_back(make_pool(upstream(), options));
    named = handle(&native);
    auto* const made = new Timeline;
    made->finish_all();
    other = handle(made);
  }

  static void drop(Stream& stream) { (void)Stream(std::move(stream)); }
  /// As an application does that found it by its native handle.
  [[nodiscard]] std::optional<Stream> borrow() {
    if (!native.try_retain()) return std::nullopt;
    return handle(&native);
  }
  /// Of two who use it: the last destroys the native stream.
  void is_done() {
    if (users.fetch_sub(1) == 1) native.end_native();
  }
  /// A buffer that another process has, and nobody here; a thread of the library closes it.
  static void end_lease(Buffer& leased) {
    const detail::LibraryThread mark;
    leased.close();
  }

  Timeline& native = *new Timeline(Timeline::Kind::foreign);
  const spi::Kept kept{native};
  sync::Atomic<int> users{2};
  std::vector<PoolPtr> pools;
  Stream named{nullptr_stream()}, other{nullptr_stream()};
  Buffer leased, buffer;

 private:
  static Stream nullptr_stream() { return Stream(spi::Ref<spi::StreamState>()); }
};

/// The last who names it drops it, and somebody borrows it again; then its native stream is destroyed. Another pool than the
/// one that has live memory there looks for memory all the while.
TEST(ForgottenStreams, AgainstABorrowerAndAnotherPoolThatLooks) {
  EXPECT_TRUE(explore::holds(
      [](Scene& scene) {
        auto& all = scene.make<Application>(2);
        all.leased = all.pools[0]->allocate(Bytes::unit, all.named);
        all.pools[1]->allocate(Bytes::unit, all.named).close();
        scene.thread([&all] {
          Application::drop(all.named);
          all.is_done();
        });
        scene.thread([&all] {
          if (auto borrowed = all.borrow()) Application::drop(*borrowed);
          all.is_done();
        });
        scene.thread([&all] { (void)all.pools[1]->try_allocate(2 * Bytes::unit, all.other); });
        scene.finally([&all] {
          Application::end_lease(all.leased);
          require(all.native.closed(), "with the last memory it has ended");
          require(all.pools[1]->try_allocate(2 * Bytes::unit, all.other).has_value(), "everybody has what it had");
        });
      },
      {.preemptions = 2}));
}

/// The application uses a buffer natively, and closes it, while the stream is forgotten: what the buffer was used for counts,
/// whichever thread of whoever has the last memory.
void uses_natively(Scene& scene, bool borrows) {
  auto& all = scene.make<Application>(1);
  all.leased = all.pools[0]->allocate(Bytes::unit, all.named);
  all.buffer = all.pools[0]->allocate(Bytes::unit, all.named);
  scene.thread([&all, borrows] {
    auto again = borrows ? all.borrow() : std::nullopt;
    all.native.start_kernel();
    all.buffer.close();
    again.reset();
    all.is_done();
  });
  scene.thread([&all] {
    Application::drop(all.named);
    all.is_done();
  });
  scene.thread([&all] {
    Application::end_lease(all.leased);
    require(!all.pools[0]->try_allocate(2 * Bytes::unit, all.other), "what a kernel uses goes to nobody");
    all.native.end_kernel();
  });
  scene.finally([&all] {
    require(all.native.closed(), "with the last memory it has ended");
    require(all.pools[0]->try_allocate(2 * Bytes::unit, all.other).has_value(), "everybody has what it had");
  });
}

TEST(ForgottenStreams, CountWhatRunsThereWhenTheyAreForgotten) {
  EXPECT_TRUE(explore::holds([](Scene& scene) { uses_natively(scene, false); }, {.preemptions = 2}));
}

TEST(ForgottenStreams, CountWhatRunsThereWhenTheyAreBorrowedAgain) {
  EXPECT_TRUE(explore::holds([](Scene& scene) { uses_natively(scene, true); }, {.preemptions = 1}));
}

}  // namespace
}  // namespace weir::test

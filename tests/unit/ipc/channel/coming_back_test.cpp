// SPDX-License-Identifier: Apache-2.0
// Memory that comes back over a channel is on its way until its resource has it: whoever waits for it must see so.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "memory/lent_returns.hpp"
#include "time_limits.hpp"
#include "weir/channel.hpp"
#include "weir/host.hpp"
#include "weir/memory_resource.hpp"
#include "weir/spi/block.hpp"
#include "weir/spi/unique_fd.hpp"

namespace weir::test {
namespace {

/// Looks whether memory is said to be on its way while it gets some back.
class Looking final : public MemoryResource {
 public:
  explicit Looking(ResourcePtr upstream)
      : MemoryResource(upstream->device(), "looking",
                       {upstream->kind(), true, upstream->is_device_accessible(), true, true}),
        upstream_(std::move(upstream)) {}
  [[nodiscard]] ResourceStats stats() const override { return upstream_->stats(); }
  std::size_t trim(std::size_t) override { return 0; }

  std::atomic<int> back{0}, on_its_way{0};

 private:
  spi::Block* do_allocate(const spi::Request& request, Shortage& shortage) override {
    spi::Block* const block = allocate_from(*upstream_, request, shortage);
    if (block) block->resource = this;
    return block;
  }
  void do_deallocate(spi::Block& block) noexcept override {
    deallocate_to(*upstream_, block);
    if (detail::some_return()) ++on_its_way;
    ++back;
  }

  ResourcePtr upstream_;
};

class ComingBack : public testing::Test {
 protected:
  ComingBack() {
    auto [here, there] = ipc::Channel::make_sockets();
    line = there.duplicate();
    lender.emplace(std::move(here));
    borrower.emplace(std::move(there));
  }
  void send() {
    Buffer buffer = resource->allocate(64, stream);
    lender->send(buffer, stream, {}, answer_limit());
    buffer.close();  // what the other side has is the last use
  }
  void expect_seen() const {
    const auto end = std::chrono::steady_clock::now() + answer_limit();
    while (resource->back == 0 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    EXPECT_EQ(resource->back, 1);
    EXPECT_EQ(resource->on_its_way, 1);
    while (detail::some_return() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    EXPECT_FALSE(detail::some_return());
  }

  const std::shared_ptr<Looking> resource = std::make_shared<Looking>(host::make_shared_resource());
  const Stream stream{host_device()};
  spi::UniqueFd line;
  std::optional<ipc::Channel> lender, borrower;
};

TEST_F(ComingBack, ABufferThatTheOtherSideCloses) {
  send();
  borrower->receive(stream, answer_limit()).buffer.close();
  stream.synchronize();
  expect_seen();
}

TEST_F(ComingBack, ABufferOfAPeerThatIsGone) {
  send();
  const Buffer held = borrower->receive(stream, answer_limit()).buffer;
  ASSERT_EQ(::shutdown(line.get(), SHUT_RDWR), 0);  // without a word, as when a process is killed
  expect_seen();
}

}  // namespace
}  // namespace weir::test

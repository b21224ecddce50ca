// SPDX-License-Identifier: Apache-2.0
// Very many buffers in very many processes, under the limit of open files that systems come with.

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "crowd.hpp"
#include "fixture.hpp"
#include "settle.hpp"
#include "spawn.hpp"
#include "threads.hpp"
#include "time_limits.hpp"
#include "weir/channel.hpp"
#include "weir/host.hpp"
#include "weir/ipc.hpp"
#include "weir/pool.hpp"

namespace weir::test {
namespace {

using ipc::Channel;

const std::chrono::seconds limit = answer_limit();

/// Sets the soft limit of open files, also for the children that start meanwhile.
class LimitOfFiles {
 public:
  explicit LimitOfFiles(rlim_t files) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit now{files, before_.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &now) != 0) ADD_FAILURE() << "setrlimit";
  }
  LimitOfFiles(const LimitOfFiles&) = delete;
  LimitOfFiles& operator=(const LimitOfFiles&) = delete;
  ~LimitOfFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

/// A process that borrows, and the channel to it.
class Borrower {
 public:
  Borrower(const std::string& program, const std::vector<std::string>& arguments) : child_(program, arguments) {}
  /// Lend the first buffer, so that the child opens what it needs and starts its drivers. Call this for all children
  /// before begun() for one: they start their drivers at once then, and none gives up while others start theirs.
  void begin(const Buffer& buffer, const Stream& stream) {
    first_.emplace(connect());
    first_->send(buffer, stream, {}, limit);
  }
  /// Return what the child says of the first buffer.
  std::string begun() {
    const std::string said = child_.line();
    first_.reset();
    return said;
  }
  void open() { channel_.emplace(connect()); }
  [[nodiscard]] Channel& channel() { return *channel_; }
  [[nodiscard]] Child& child() { return child_; }
  /// Return whether everything has come back.
  bool all_back() {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (channel_->stats().lent != 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    return channel_->stats().lent == 0;
  }

 private:
  [[nodiscard]] Channel connect() const {
    auto [mine, theirs] = Channel::make_sockets();
    std::vector<spi::UniqueFd> files;
    files.push_back(std::move(theirs));
    ipc::send(child_.socket(), ipc::Descriptor(Bytes(ipc::Descriptor::size), std::move(files)));
    return Channel(std::move(mine));
  }

  Child child_;
  std::optional<Channel> first_, channel_;
};
using Borrowers = std::vector<std::unique_ptr<Borrower>>;

std::unique_ptr<Borrower> borrower(const std::string& how, const Device& device, std::size_t count) {
  const std::vector<std::string> words{how, device.id(), std::to_string(count)};
  return std::make_unique<Borrower>(WEIR_CHILD_DIR "/crowd_child", words);
}

/// One memory of each device.
std::vector<Memory> one_of_each_device() {
  std::vector<Memory> all;
  for (Memory& memory : few_memories()) {
    if (memory.exportable && (all.empty() || !(all.back().device == memory.device))) all.push_back(std::move(memory));
  }
  return all;
}

class Crowds : public OnMemory {
 protected:
  [[nodiscard]] std::vector<Buffer> make(MemoryResource& from, std::size_t count) const {
    std::vector<Buffer> all;
    for (std::size_t i = 0; i < count; ++i) {
      all.push_back(from.allocate(crowd_bytes(i).size(), stream));
      if (i == 0 || i == count - 1) write(all.back(), crowd_bytes(i), stream);
    }
    stream.synchronize();
    return all;
  }
  static void lend(Channel& channel, const std::vector<Buffer>& buffers, const Stream& on) {
    std::vector<ipc::Parcel> parcels;
    for (const Buffer& buffer : buffers) parcels.push_back({buffer.share()});
    EXPECT_EQ(channel.send(parcels, on, limit), buffers.size());
  }
};
WEIR_FOR_EACH(Crowds, one_of_each_device(), MemoryName);

// The segments of a pool are few, and a channel sends each of them once: the files do not grow with the buffers.
TEST_P(Crowds, TenThousandBuffersLiveInSixteenProcesses) {
  constexpr std::size_t count = 10'000, processes = 16;
  const LimitOfFiles default_limit(1024);
  const auto pool = make_pool(resource, {.exportable = true});
  make(*pool, 1).clear();
  pool->trim(0);
  const Holdings before = holdings();
  {
    std::vector<Buffer> buffers = make(*pool, count);
    Borrowers crowd;
    for (std::size_t i = 0; i < processes; ++i) crowd.push_back(borrower("usual", device(), count));
    for (const auto& one : crowd) one->begin(buffers[0], stream);
    for (const auto& one : crowd) ASSERT_EQ(one->begun(), "ready");
    {
      std::vector<std::unique_ptr<Thread>> senders;
      for (const auto& one : crowd) {
        one->open();
        senders.push_back(std::make_unique<Thread>([&, to = one.get()] { lend(to->channel(), buffers, stream); }));
      }
    }
    for (const auto& one : crowd) EXPECT_EQ(one->child().line(), "holds");
    for (const auto& one : crowd) EXPECT_EQ(one->channel().stats().lent, count);
    buffers.clear();
    EXPECT_EQ(pool->stats().live_buffers, count);
    for (const auto& one : crowd) one->child().say("enough");
    for (const auto& one : crowd) {
      EXPECT_EQ(one->child().line(), "nothing left");
      EXPECT_TRUE(one->all_back());
      EXPECT_EQ(one->child().wait(), 0);
    }
  }
  stream.synchronize();
  pool->trim(0);
  EXPECT_EQ(pool->stats().live_buffers, 0U);
  EXPECT_EQ(pool->stats().reserved, 0U);
  EXPECT_EQ(difference(before, settled(before)), "nothing left");
}

/// Peers of one lender that are unlike each other.
class MixedCrowd : public testing::Test {
 protected:
  static constexpr std::size_t count = 500;

  MixedCrowd() {
    for (std::size_t i = 0; i < count; ++i) {
      buffers_.push_back(pool_->allocate(crowd_bytes(i).size(), stream_));
      write(buffers_.back(), crowd_bytes(i), stream_);
    }
    stream_.synchronize();
  }
  /// Lend all buffers to the process, which must then hold them.
  void lend_all(Borrower& to) {
    to.open();
    send_all(to);
    EXPECT_EQ(to.child().line(), "holds");
  }
  void send_all(Borrower& to) {
    std::vector<ipc::Parcel> parcels;
    for (const Buffer& buffer : buffers_) parcels.push_back({buffer.share()});
    EXPECT_EQ(to.channel().send(parcels, stream_, limit), count);
  }
  std::unique_ptr<Borrower> start(const std::string& how) {
    auto made = borrower(how, host_device(), count);
    made->begin(buffers_[0], stream_);
    EXPECT_EQ(made->begun(), "ready") << how;
    return made;
  }
  static void expect_all_back(Borrower& from) {
    from.child().say("enough");
    EXPECT_EQ(from.child().line(), "nothing left");
    EXPECT_TRUE(from.all_back());
  }

  Stream stream_{host_device()};
  ResourcePtr pool_ = make_pool(host::make_shared_resource(), {.exportable = true});
  std::vector<Buffer> buffers_;
};

TEST_F(MixedCrowd, OfAnotherUser) {
  if (::getuid() != 0) GTEST_SKIP() << "only root can become another user";
  const auto other = start("nobody");
  lend_all(*other);
  expect_all_back(*other);
}

TEST_F(MixedCrowd, WithFewFiles) {
  const auto few = start("few");
  lend_all(*few);
  expect_all_back(*few);
}

TEST_F(MixedCrowd, InOtherNamespaces) {
  constexpr char unshare[] = "/usr/bin/unshare";
  std::vector<std::string> words{"--user", "--map-root-user", "--ipc",        "--net",       "--mount",
                                 "--pid",  "--fork",          "--kill-child", "--mount-proc"};
  auto probe = words;
  probe.emplace_back("/bin/true");
  if (Child(unshare, probe).wait() != 0) GTEST_SKIP() << "unshare makes no namespaces here";
  words.insert(words.end(), {WEIR_CHILD_DIR "/crowd_child", "usual", "host:0", std::to_string(count)});
  Borrower apart(unshare, words);
  apart.begin(buffers_[0], stream_);
  ASSERT_EQ(apart.begun(), "ready");
  lend_all(apart);
  expect_all_back(apart);
}

// Nobody else notices a process that stands still, before it takes anything or while it holds what it took.
TEST_F(MixedCrowd, BesideProcessesThatStandStill) {
  const auto slow = start("usual"), stuck = start("usual"), usual = start("usual");
  slow->child().stop();
  lend_all(*stuck);
  stuck->child().stop();
  {
    slow->open();
    const Thread sender([&] { send_all(*slow); });
    lend_all(*usual);
    expect_all_back(*usual);
    EXPECT_EQ(stuck->channel().stats().lent, count);
    ::kill(slow->child().id(), SIGCONT);
  }
  EXPECT_EQ(slow->child().line(), "holds");
  expect_all_back(*slow);
  EXPECT_EQ(stuck->channel().stats().lent, count);
  stuck->child().kill();
  EXPECT_TRUE(stuck->all_back());
}

// Without a pool, each buffer has a file of its own.
TEST_F(MixedCrowd, TooManyFilesAreSaidToBeSo) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer of undefined behaviour ends a process that has no file left for looking at a type";
#endif
  const ResourcePtr plain = host::make_shared_resource();
  for (Buffer& buffer : buffers_) buffer = plain->allocate(512, stream_);
  write(buffers_[0], crowd_bytes(0), stream_);
  const auto before = open_fds();
  {
    const auto few = start("few");
    few->open();
    try {
      send_all(*few);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::peer_gone) << error.what();
    }
    const std::string said = few->child().line();
    EXPECT_NE(said.find("it may have 64 files open; raise that limit (ulimit -n)"), std::string::npos) << said;
    EXPECT_TRUE(few->all_back());
    EXPECT_ERROR(few->channel().send(buffers_[0], stream_, {}, limit), Errc::peer_gone, "");
  }
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (open_fds() > before && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_LE(open_fds(), before);
}

}  // namespace
}  // namespace weir::test

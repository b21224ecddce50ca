// SPDX-License-Identifier: Apache-2.0
// Buffers of paged pools in other processes, some of which are killed.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "channel_processes.hpp"
#include "holding.hpp"
#include "lent_pages.hpp"
#include "spawn.hpp"
#include "weir/channel.hpp"
#include "weir/held_set.hpp"
#include "weir/ipc.hpp"
#include "weir/tensor.hpp"

namespace weir::test {
namespace {

class LentPageProcesses : public LentPages {
 protected:
  [[nodiscard]] bool all_is_given_back() {
    stream.synchronize();
    pool->trim(0);
    return pool->stats().reserved == 0;
  }
};
WEIR_FOR_EACH(LentPageProcesses, paged_exportable(), MemoryName);

// One that lies in all of the pages, parts that lie in some of them, and parts of one page.
TEST_P(LentPageProcesses, WriteIntoSeveralPages) {
  const Buffer whole = in_pages(4);
  ChannelChild child("rewrite", device(), 5);
  ipc::Channel channel = child.connect();
  std::uint32_t seed = 0;
  for (const auto& [at, bytes] : {std::pair{std::size_t{0}, 4 * page},
                                  {page - 100, page + 200},
                                  {page - 100, 200},
                                  {2 * page, 2 * page},
                                  {3 * page + 5, 1000}}) {
    const Buffer part = whole.slice(at, bytes);
    put(part, pattern(bytes, seed));
    const std::byte told{static_cast<unsigned char>(seed++)};
    channel.send(part, stream, std::span(&told, 1), limit);
    EXPECT_TRUE(all_comes_back(channel));
    EXPECT_BYTES(read(part, stream), pattern(bytes, seed)) << "from byte " << at;
  }
  EXPECT_EQ(child.line(), "done");
  EXPECT_EQ(child.wait(), 0);
}

TEST_P(LentPageProcesses, OpenDescriptorsOfSeveral) {
  const Buffer buffer = in_pages(3, 7);
  put(buffer, pattern(buffer.size(), 1));
  const Child child(WEIR_CHILD_DIR "/import_child", {"rewrite", device().id(), std::to_string(buffer.size()), "1"});
  ipc::send(child.socket(), buffer.ipc_descriptor(stream));
  EXPECT_EQ(child.line(), "done");
  EXPECT_BYTES(read(buffer, stream), pattern(buffer.size(), 2));
}

// The pages that a process holds stay where they are, and serve others once it is dead.
TEST_P(LentPageProcesses, GivePagesBackWhenTheyAreKilled) {
  for (int round = 0; round < 3; ++round) {
    ChannelChild child("hold", device(), 4);
    ipc::Channel channel = child.connect();
    {
      const Buffer several = in_pages(3), one = pool->allocate(1000, stream);
      for (const Buffer& lent : {several.share(), several.slice(page, page), one.share(), several.slice(0, page + 1)})
        channel.send(lent, stream, {}, limit);
    }
    EXPECT_EQ(child.line(), "holds");
    EXPECT_EQ(channel.stats().lent, 4U);
    EXPECT_FALSE(all_is_given_back());
    EXPECT_GE(pool->stats().reserved, 4 * page);
    child.kill();
    EXPECT_TRUE(all_comes_back(channel));
    EXPECT_TRUE(all_is_given_back());
  }
}

// A writer whose tensors lie across pages leaves them to the holder.
TEST_P(LentPageProcesses, LeaveTensorsAcrossPages) {
  HolderThread holder;
  const auto child = [&](const char* mode) {
    return std::vector<std::string>{mode, holder.path(), device().id(), "6", std::to_string(page + page / 2)};
  };
  {
    Child writer(WEIR_CHILD_DIR "/hold_child", child("commit"));
    ASSERT_EQ(writer.line(), "added");
    writer.say("commit");
    ASSERT_EQ(writer.line(), "committed");
    writer.kill();
  }
  Child reader(WEIR_CHILD_DIR "/hold_child", child("open"));
  EXPECT_EQ(reader.line(), "holds");
  {
    ipc::SetReader to(holder.path(), "weights");
    const ipc::HeldSet set = to.open(stream, limit);
    for (std::uint32_t i = 0; i < 6; ++i) {
      const Buffer& held = set.tensors.at(std::to_string(i)).buffer();
      EXPECT_BYTES(read(held, stream), pattern(page + page / 2 + i, i)) << i;
    }
  }
  reader.say("go on");
  EXPECT_EQ(reader.line(), "done");
  EXPECT_EQ(reader.wait(), 0);
}

}  // namespace
}  // namespace weir::test

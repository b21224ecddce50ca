// SPDX-License-Identifier: Apache-2.0
// weir hold: what it says, what it costs, and what it does not load.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "expect.hpp"
#include "../ipc/holding.hpp"
#include "run.hpp"
#include "time_limits.hpp"
#include "weir/held_set.hpp"
#include "weir/host.hpp"
#include "weir/pool.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WEIR_TEST_SANITIZED 1
#else
#define WEIR_TEST_SANITIZED 0
#endif

namespace weir::test {
namespace {

using namespace std::chrono_literals;

const std::chrono::seconds limit = answer_limit();
constexpr char tool[] = WEIR_CHILD_DIR "/../tools/weir";

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Connect as soon as the holder serves.
ipc::SetWriter connect(const std::string& path) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (;;) {
    try {
      return {path, "weights"};
    } catch (const Error& error) {
      if (error.code() != Errc::peer_gone || std::chrono::steady_clock::now() > deadline) throw;
    }
    std::this_thread::yield();
  }
}

std::size_t resident_kilobytes(int process) {
  const std::string status = contents("/proc/" + std::to_string(process) + "/status");
  const auto at = status.find("VmRSS:");
  return at == std::string::npos ? 0 : std::stoul(status.substr(at + 6));
}

TEST(Hold, TenThousandTensorsAreAFewMegabytesAndNoDriver) {
  Folder folder;
  Child holder(tool, {"hold", folder / "holder"});
  ipc::SetWriter writer = connect(folder / "holder");
  const Stream stream(host_device());
  {
    const ResourcePtr pool = make_pool(host::make_shared_resource(), {.exportable = true});
    for (int i = 0; i < 10000; ++i) {
      const Buffer buffer = pool->allocate(256, stream);
      writer.add("model.layers." + std::to_string(i) + ".self_attn.q_proj.weight", buffer.view(f32, {8, 8}), stream);
    }
  }
  writer.commit(limit);
  ipc::SetReader reader(folder / "holder", "weights");
  EXPECT_EQ(reader.open(stream, limit).tensors.size(), 10000U);
  const std::size_t resident = resident_kilobytes(holder.id());
  RecordProperty("resident_kilobytes", static_cast<int>(resident));
  EXPECT_GT(resident, 0U);
  if (!WEIR_TEST_SANITIZED) {
    EXPECT_LE(resident, 10240U);
  }
  const std::string maps = contents("/proc/" + std::to_string(holder.id()) + "/maps");
  EXPECT_NE(maps.find("libc.so"), std::string::npos);
  for (const char* driver : {"cuda", "vulkan", "libLLVM", "lvp"}) EXPECT_EQ(maps.find(driver), std::string::npos) << driver;
}

TEST(Hold, EndsBySignalAndLeavesNoSocket) {
  Folder folder;
  Child holder(tool, {"hold", folder / "holder", "--sets", "1", "--patience", "100"});
  ipc::SetWriter writer = connect(folder / "holder");
  writer.commit(limit);
  ipc::SetWriter other(folder / "holder", "other");
  EXPECT_ERROR(other.commit(limit), Errc::out_of_memory, "1 sets");
  const Ended second = run("../tools/weir", {"hold", folder / "holder"});
  EXPECT_EQ(second.code, 1);
  EXPECT_NE(second.err.find("another holder"), std::string::npos) << second.err;
  ASSERT_EQ(::kill(holder.id(), SIGTERM), 0);
  EXPECT_EQ(holder.wait(), 0);
  EXPECT_FALSE(std::filesystem::exists(folder / "holder"));
  EXPECT_ERROR(ipc::SetWriter(folder / "holder", "weights"), Errc::peer_gone, "weir hold");
}

TEST(Hold, TakesTheLimitsThatItIsGiven) {
  struct Given {
    const char* option;
    const char* says;
  };
  for (const Given& given : {Given{"--tensors", "1 tensors of one set"},
                             {"--bytes", "1 bytes of names and layouts"},
                             {"--files", "1 files of memory"}}) {
    Folder folder;
    Child holder(tool, {"hold", folder / "holder", given.option, "1"});
    ipc::SetWriter writer = connect(folder / "holder");
    const ResourcePtr resource = host::make_shared_resource();
    const Stream stream(host_device());
    for (const char* name : {"one", "two"}) writer.add(name, resource->allocate(256, stream).view(f32, {8, 8}), stream);
    EXPECT_ERROR(writer.commit(limit), Errc::out_of_memory, given.says);
  }
  Folder folder;
  Child holder(tool, {"hold", folder / "holder", "--connections", "1"});
  const ipc::SetWriter writer = connect(folder / "holder");
  EXPECT_ERROR(ipc::SetWriter(folder / "holder", "other").commit(limit), Errc::out_of_memory, "1 connections");
}

TEST(Hold, LetsOtherUsersConnectIfItIsToldTo) {
  for (const bool told : {false, true}) {
    Folder folder;
    std::vector<std::string> words{"hold", folder / "holder"};
    if (told) words.emplace_back("--other-users");
    Child holder(tool, words);
    (void)connect(folder / "holder");
    struct stat socket {};
    ASSERT_EQ(::stat((folder / "holder").c_str(), &socket), 0);
    EXPECT_EQ(socket.st_mode & 0777U, told ? 0666U : 0600U);
  }
}

TEST(Hold, OpensAsManyFilesAsTheSystemLetsIt) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit lower{before.rlim_max - 1, before.rlim_max};
  Folder folder;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &lower), 0);
  Child holder(tool, {"hold", folder / "holder"});
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  (void)connect(folder / "holder");
  const std::string limits = contents("/proc/" + std::to_string(holder.id()) + "/limits");
  constexpr std::string_view label = "Max open files";
  const auto at = limits.find(label);
  ASSERT_NE(at, std::string::npos) << limits;
  std::istringstream line(limits.substr(at + label.size()));
  rlim_t soft = 0, hard = 0;
  line >> soft >> hard;
  EXPECT_EQ(hard, before.rlim_max);
  EXPECT_EQ(soft, hard);
}

TEST(Hold, OutlivesATerminalUnderNohup) {
  Folder folder;
  Child holder("/usr/bin/nohup", {WEIR_CHILD_DIR "/../tools/weir", "hold", folder / "holder"});
  ipc::SetWriter writer = connect(folder / "holder");
  ASSERT_EQ(::kill(holder.id(), SIGHUP), 0);
  EXPECT_EQ(writer.commit(limit), 1U);
  ASSERT_EQ(::kill(holder.id(), SIGTERM), 0);
  EXPECT_EQ(holder.wait(), 0);
}

TEST(Hold, SaysHowItIsUsed) {
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{"hold"},
                                                {"hold", "a", "b"},
                                                {"hold", "--sets"},
                                                {"hold", "a", "--sets", "0"},
                                                {"hold", "a", "--files", "1x"},
                                                {"hold", "a", "--patience", "0"},
                                                {"hold", "--what"}}) {
    const Ended ended = run("../tools/weir", wrong);
    EXPECT_EQ(ended.code, 2);
    EXPECT_NE(ended.err.find("usage: weir hold PATH"), std::string::npos) << ended.err;
  }
}

}  // namespace
}  // namespace weir::test

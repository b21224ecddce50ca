// SPDX-License-Identifier: Apache-2.0
// weir replay, end to end: a program writes a trace, another replays it, and the figures are those that it
// must have.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "fixture.hpp"
#include "replay/read_trace.hpp"
#include "run.hpp"
#include "spawn.hpp"

#if WEIR_HAS_ZLIB
#include <zlib.h>
#endif

namespace weir::test {
namespace {

namespace fs = std::filesystem;

constexpr char pytorch[] =
    "op,addr,size,stream\na,1,700000,0\na,2,600000,1\nf,1,700000,0\na,3,5000,0\nf,2,600000,1\n";

class ReplayFiles {
 protected:
  ReplayFiles() { fs::create_directories(folder_); }
  ~ReplayFiles() { fs::remove_all(folder_); }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }
  [[nodiscard]] static std::string contents(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static Ended replay(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "replay");
    return run("../tools/weir", arguments);
  }

 private:
  fs::path folder_ = fs::path(testing::TempDir()) / ("weir-replay-" + std::to_string(::getpid()));
};

#define EXPECT_SAYS(text, part) \
  EXPECT_TRUE((text).find(part) != std::string::npos) << "no " << (part) << " in " << (text)

class Replay : public testing::Test, protected ReplayFiles {};
class ReplayOnDevice : public OnDevice, protected ReplayFiles {};
WEIR_FOR_EACH_DEVICE(ReplayOnDevice);

TEST_P(ReplayOnDevice, FiguresOfARecordedProgramAreExact) {
  ASSERT_TRUE(ends_well("trace_program", {device().id(), path("trace"), "ends"}));
  const Ended plain = replay({path("trace"), "--resource", device().id(), "--json"});
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_EQ(plain.err, "");
  for (const char* figure :
       {"\"format\": \"weir\"", "\"operations\": 22", "\"buffers\": 10", "\"streams\": 2", "\"threads\": 2",
        "\"threads_used\": 2", "\"peak_live\": 55000", "\"left_open\": 0", "\"refused_when_recorded\": 0",
        "\"driver_allocations\": 10", "\"failures\": 0"}) {
    EXPECT_SAYS(plain.out, figure);
  }
  EXPECT_SAYS(plain.out, "\"operation\": \"allocate\", \"part\": \"all\", \"count\": 10");
  EXPECT_SAYS(plain.out, "\"operation\": \"close\", \"part\": \"all\", \"count\": 10");
  EXPECT_SAYS(plain.out, "\"operation\": \"use\", \"part\": \"all\", \"count\": 2");

  // Not the driver's own pool, whose memory another stream may use only later.
  const std::string base = device().id() + (device().find(MemoryKind::device) ? ".device" : "");
  const Ended pooled = replay({path("trace"), "--resource", "pool(" + base + ", segment=1MiB)", "--repeat",
                               "2", "--json", "--single-thread", "--html", path("page.html")});
  EXPECT_EQ(pooled.code, 0) << pooled.err;
  EXPECT_SAYS(pooled.out, "\"threads_used\": 1");
  EXPECT_SAYS(pooled.out, "\"peak_reserved\": 1048576");
  EXPECT_SAYS(pooled.out, "\"driver_allocations\": 1, \"grown\": 1");
  EXPECT_SAYS(pooled.out, "\"driver_allocations\": 0, \"grown\": 0");
  const std::string page = contents(path("page.html"));
  EXPECT_SAYS(page,
              "{\"begin\": 0, \"end\": 1, \"live\": [1000, 1000], \"reserved\": [1048576, 1048576], "
              "\"segments\": [1, 1]}");
  EXPECT_SAYS(page, "{\"begin\": 9, \"end\": 10, \"live\": [55000, 55000]");
  EXPECT_SAYS(page, "{\"begin\": 21, \"end\": 22, \"live\": [0, 0]");
  for (const char* elsewhere : {"http:", "https:", "src=", "@import", "url("}) {
    EXPECT_EQ(page.find(elsewhere), std::string::npos) << elsewhere;
  }
}

TEST_P(ReplayOnDevice, AnAllocationThatFailsAgainIsAFailure) {
  ASSERT_TRUE(ends_well("trace_program", {device().id(), path("trace"), "fails"}));
  const Ended ended = replay({path("trace"), "--resource", "pool(" + device().id() + ')'});
  EXPECT_EQ(ended.code, 1);
  EXPECT_SAYS(ended.out, "1 allocation failed when it was recorded");
  EXPECT_SAYS(ended.out, "failures  1\n  line 25: allocate: ");
  EXPECT_SAYS(ended.out, "53.71 KiB live");
}

TEST_F(Replay, AKilledProgramHasLeftWholeLines) {
  Child child(std::string(WEIR_CHILD_DIR) + "/trace_program", {"host", path("trace"), "waits"});
  ASSERT_EQ(child.line(), "ready");
  child.kill();
  const replay::Trace trace = weir::replay::read_trace(path("trace"));
  EXPECT_EQ(trace.operations.size(), 5U);
  EXPECT_EQ(trace.left_open, 5U);
  EXPECT_EQ(trace.peak_live, 15000U);
  EXPECT_FALSE(trace.torn);
  const Ended ended = replay({path("trace"), "--resource", "host"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_SAYS(ended.out, "5 buffers never closed in the trace");
}

TEST_F(Replay, ALimitThatIsTooLowFails) {
  const std::string trace = file("trace", pytorch);
  EXPECT_EQ(replay({trace, "--resource", "pool(host, limit=2MiB)"}).code, 0);
  const Ended ended = replay({trace, "--resource", "pool(host, limit=1MiB)"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_SAYS(ended.out, "failures  1\n  line 3: allocate: ");
}

TEST_F(Replay, SaysWhatItFound) {
  const Ended ended = replay({file("trace", pytorch), "--resource", "pool(host)", "--repeat", "3"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  for (const char* part :
       {"PyTorch trace, 5 operations, 3 buffers, 2 streams, 1 thread", "pool(host.pageable) on host:0",
        "1 buffer never closed in the trace", "pass 1, on a new resource", "pass 3, on the warm resource",
        "1.24 MiB live, 16 MiB reserved, ratio 12.9056", "allocate  first half", "second half"}) {
    EXPECT_SAYS(ended.out, part);
  }
}

TEST_F(Replay, ATornFileIsReadUpToItsLastWholeLine) {
  const std::string text = pytorch;
  const Ended ended =
      replay({file("trace", text.substr(0, text.size() - 3)), "--resource", "host", "--json"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_SAYS(ended.out, "\"operations\": 4");
  EXPECT_SAYS(ended.out, "\"torn\": true");
}

TEST_F(Replay, ReadsCompressedTraces) {
#if WEIR_HAS_ZLIB
  std::string text = "op,addr,size,stream\n";
  for (int i = 0; i < 50000; ++i) text += "a," + std::to_string(i * 7919 % 100003) + ",4096,0\n";
  const gzFile out = gzopen(path("trace.gz").c_str(), "wb");
  ASSERT_EQ(gzwrite(out, text.data(), static_cast<unsigned>(text.size())), static_cast<int>(text.size()));
  ASSERT_EQ(gzclose(out), Z_OK);
  const replay::Trace whole = weir::replay::read_trace(path("trace.gz"));
  EXPECT_EQ(whole.operations.size(), 50000U);
  EXPECT_FALSE(whole.torn);

  const std::string bytes = contents(path("trace.gz"));
  const std::string half = file("half.gz", bytes.substr(0, bytes.size() / 2));
  const Ended ended = replay({half, "--resource", "pool(host)"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_SAYS(ended.out, "the file ends within a line");
  const std::size_t seen = weir::replay::read_trace(half).operations.size();
  EXPECT_GT(seen, 100U);
  EXPECT_LT(seen, 50000U);

  std::string damaged = bytes;
  damaged[bytes.size() / 2] = static_cast<char>(~damaged[bytes.size() / 2]);
  const Ended refused = replay({file("damaged.gz", damaged), "--resource", "host"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_SAYS(refused.err, "damaged.gz");
#else
  const Ended ended = replay({file("trace.gz", "\x1f\x8b\b"), "--resource", "host"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_SAYS(ended.err, "built without zlib");
#endif
}

TEST_F(Replay, ErrorsAreSaidAndNothingIsPrinted) {
  const std::string trace = file("trace", pytorch);
  const auto expect = [](const Ended& ended, int code, const std::string& part) {
    EXPECT_EQ(ended.code, code) << ended.err;
    EXPECT_EQ(ended.out, "");
    EXPECT_SAYS(ended.err, part);
  };
  expect(replay({}), 2, "replay needs the file of a trace");
  expect(replay({trace}), 2, "replay needs a resource");
  expect(replay({trace, "--resource"}), 2, "--resource needs a resource");
  expect(replay({trace, "--resource", "host", "--repeat", "0"}), 2, "--repeat takes a number from 1");
  expect(replay({trace, "--resource", "host", "--loud"}), 2, "do not understand '--loud'");
  expect(replay({trace, trace, "--resource", "host"}), 2, "do not understand");
  expect(replay({path("none"), "--resource", "host"}), 1, "none: No such file or directory");
  expect(replay({trace, "--resource", "pool(moon)"}), 1, "\n  pool(moon)\n       ^");
  expect(replay({file("odd", "hello\n"), "--resource", "host"}), 1, "line 1: \"hello\" begins no trace");
  expect(replay({trace, "--resource", "host", "--html", path("no/page.html")}), 1, "page.html");
}

}  // namespace
}  // namespace weir::test

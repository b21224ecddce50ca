// SPDX-License-Identifier: Apache-2.0
// Answers that are the driver's last. After each of them whatever is called comes back, lost; nobody waits for work
// that never runs, and what weir counts is counted out. Needs the driver of fake/.
#include <future>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "cuda/sticky_errors.hpp"
#include "expect.hpp"
#include "modelled_driver.hpp"
#include "native.hpp"
#include "sink.hpp"
#include "weir/buffer.hpp"
#include "weir/pool.hpp"

namespace weir::cuda_test {
namespace {

using namespace std::chrono_literals;

struct Answer {
  int code;
  bool listed = true;      // else of a driver that is newer than the list
  bool stops_work = true;  // else what is on streams runs on
};
void PrintTo(const Answer& answer, std::ostream* out) { *out << answer.code; }

// From the comments in cuda.h, by hand: the list of the backend is what is tested.
constexpr Answer last_answers[] = {{214}, {220}, {226}, {700}, {702},       {709, true, false},
                                   {710}, {714}, {715}, {716}, {717},       {718},
                                   {719}, {721}, {810}, {911}, {998, false}};

class Sticky : public CudaTest, public testing::WithParamInterface<Answer> {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    fault_ = reinterpret_cast<decltype(fault_)>(test::find_in_model("fake_cuda_fault"));
    fail_ = reinterpret_cast<decltype(fail_)>(test::find_in_model("fake_cuda_fail"));
    if (!fault_ || !fail_) GTEST_SKIP() << "a real device faults in FaultOfAKernel, and not with a chosen error";
    (void)test::take_reports();
  }
  void TearDown() override { mend(); }

  void break_device() { fault_(0, GetParam().code); }
  /// A new context, as it were.
  void mend() {
    if (fail_) fail_("", 0, 0);
  }

 private:
  void (*fault_)(int, int) = nullptr;
  void (*fail_)(const char*, int, int) = nullptr;
};
INSTANTIATE_TEST_SUITE_P(Every, Sticky, testing::ValuesIn(last_answers),
                         [](const auto& each) { return "Error" + std::to_string(each.param.code); });

TEST_P(Sticky, EverythingComesBackLost) {
  const Device device = gpu();
  std::vector<ResourcePtr> resources;
  for (const KindInfo& info : device.kinds()) resources.push_back(make_resource(device, info.kind));
  resources.push_back(make_pool(cuda::make_vmm_resource(device)));
  const NativeStream busy, native;
  {
    const Stream own(device), borrowed = cuda::borrow(device, native.get());
    std::vector<Buffer> buffers;
    for (const ResourcePtr& resource : resources) {
      for (const Stream* stream : {&own, &borrowed}) buffers.push_back(resource->allocate(4096, *stream));
    }
    own.synchronize();
    borrowed.synchronize();
    {
      Busy kernel(busy.get());
      const Event held = cuda::borrow(device, busy.get()).record();
      own.wait(held);
      borrowed.wait(held);
      for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i].fill(std::uint8_t{1}, i % 2 == 0 ? own : borrowed);
      auto promise = std::make_shared<std::promise<void>>();
      auto called = promise->get_future();
      own.call([promise = std::move(promise)] { promise->set_value(); });
      const Event last = own.record();
      auto waiting = std::async(std::launch::async, [&] { return last.wait(-1ns); });
      auto synchronizing = std::async(std::launch::async, [&] { borrowed.synchronize(); });
      break_device();
      EXPECT_EQ(waiting.get(), WaitStatus::lost);
      EXPECT_ERROR(synchronizing.get(), Errc::device_lost, std::to_string(GetParam().code));
      EXPECT_ERROR(own.synchronize(), Errc::device_lost, std::to_string(GetParam().code));
      EXPECT_ERROR(own.synchronize(1h), Errc::device_lost, "is lost");
      EXPECT_ERROR((void)own.record(), Errc::device_lost, "");
      EXPECT_ERROR(Stream{device}, Errc::device_lost, "");
      if (GetParam().listed) {
        EXPECT_ERROR((void)cuda::borrow(device, busy.get()), Errc::device_lost, "");
      }
      for (const ResourcePtr& resource : resources) {
        EXPECT_ERROR((void)resource->allocate(std::size_t{4} << 20U, own), Errc::device_lost, "") << resource->name();
      }
      for (std::size_t i = 0; i < buffers.size(); ++i) i % 3 == 0 ? buffers[i].close() : buffers[i].close(borrowed);
      for (const ResourcePtr& resource : resources) resource->trim(0);
      if (GetParam().stops_work) {
        EXPECT_THROW(called.get(), std::future_error) << "what a function owns ends, because it is never called";
      }
      mend();  // so that the application can end its own
    }
  }
  for (const ResourcePtr& resource : resources) {
    resource->trim(0);
    const ResourceStats stats = resource->stats();
    EXPECT_EQ(stats.live_buffers, 0U) << resource->name();
    EXPECT_EQ(stats.in_use, 0U) << resource->name();
    EXPECT_EQ(stats.reserved, 0U) << resource->name();
  }
  (void)test::take_reports();
}

TEST(StickyErrors, AreThoseOfTheDocumentation) {
  std::set<int> expected, listed;
  for (const Answer& answer : last_answers) {
    if (answer.listed) expected.insert(answer.code);
  }
  for (const cuda::StickyError& one : cuda::sticky_errors()) {
    EXPECT_TRUE(listed.insert(one.result).second) << one.result << " twice";
    EXPECT_NE(std::string(one.words), "");
    for (const Answer& answer : last_answers) {
      if (answer.code == one.result) {
        EXPECT_EQ(answer.stops_work, one.stops_work) << one.result;
      }
    }
  }
  EXPECT_EQ(listed, expected);
}

}  // namespace
}  // namespace weir::cuda_test

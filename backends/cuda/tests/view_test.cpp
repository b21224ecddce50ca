// SPDX-License-Identifier: Apache-2.0
// Memory of another API, imported. The files are those of Mesa's CPU drivers, which the model knows; with a real
// driver, weir_conformance_tests asks the same of Vulkan's memory.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <future>
#include <thread>

#include "bytes.hpp"
#include "expect.hpp"
#include "fds.hpp"
#include "model.hpp"
#include "weir/spi/backend.hpp"

namespace weir::cuda_test {
namespace {

constexpr std::size_t header = 4096, size = 8192,
                      allocation = 12288;  // the driver allocates more than the buffer needs

/// Memory of a device of another backend. It notes how many imports are left when it ends.
class Elsewhere final : public spi::Segment {
 public:
  Elsewhere(spi::DeviceState& owner, std::atomic<std::size_t>& at_end) : at_end_(at_end) {
    device = &owner;
    spi::Segment::size = weir::cuda_test::size;
    exportable = true;
  }
  ~Elsewhere() override { at_end_ = 1 + live_imports(); }

  static std::size_t live_imports() {
    return reinterpret_cast<std::size_t (*)()>(test::find_in_model("fake_cuda_live_imports"))();
  }

 private:
  std::atomic<std::size_t>& at_end_;
};

class Imports : public Model {
 protected:
  void SetUp() override {
    Model::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    source_ = spi::Ref<spi::Segment>::adopt(new Elsewhere(host_device().state(), at_end_));
  }
  void TearDown() override {
    if (source_) expect_dedicated(false);
    source_ = {};
    Model::TearDown();
  }

  static void expect_dedicated(bool value) {
    reinterpret_cast<void (*)(int)>(test::find_in_model("fake_cuda_expect_dedicated"))(value ? 1 : 0);
  }
  static void fail(const char* call, int nth, CUresult code) {
    reinterpret_cast<void (*)(const char*, int, int)>(test::find_in_model("fake_cuda_fail"))(call, nth, code);
  }
  static spi::UniqueFd file() {
    spi::UniqueFd fd(memfd_create("elsewhere", MFD_CLOEXEC));
    EXPECT_EQ(ftruncate(fd.get(), header + allocation), 0);
    const std::array<std::size_t, 2> first{header + allocation, header};
    EXPECT_EQ(pwrite(fd.get(), first.data(), sizeof first, 0), static_cast<ssize_t>(sizeof first));
    return fd;
  }
  spi::Segment* open(spi::UniqueFd fd, std::size_t whole = allocation, bool dedicated = false) {
    auto& state = gpu().state();
    return state.backend->segments->open_view(state, *source_,
                                              {spi::HandleKind::vulkan_opaque_fd, std::move(fd), whole, dedicated});
  }

  std::atomic<std::size_t> at_end_ = 0;  // 1 + the imports that were there when the memory ended
  spi::Ref<spi::Segment> source_;
};

TEST_F(Imports, AreTheSameBytesAndEndBeforeTheMemory) {
  spi::UniqueFd fd = file();
  const spi::UniqueFd mine(fcntl(fd.get(), F_DUPFD_CLOEXEC, 3));
  spi::Segment* const view = open(std::move(fd));
  EXPECT_EQ(view->device, &gpu().state());
  EXPECT_EQ(view->size, size);
  EXPECT_EQ(view->host, nullptr);
  EXPECT_EQ(view->dlpack_device, 2);
  EXPECT_FALSE(view->exportable);
  EXPECT_CU(fill(view->address + 5, 1, stream_));
  finish(stream_);
  std::byte byte{};
  EXPECT_EQ(pread(mine.get(), &byte, 1, header + 5), 1);
  EXPECT_EQ(byte, std::byte{1});
  EXPECT_EQ(Elsewhere::live_imports(), 1U);
  source_->add_view(*view);
  source_ = {};
  EXPECT_EQ(at_end_, 1U) << "no import was left when the memory ended";
}

TEST_F(Imports, SayWhetherTheAllocationIsDedicatedAndHowLargeItIs) {
  expect_dedicated(true);
  source_->add_view(*open(file(), allocation, true));
  expect_dedicated(false);
  EXPECT_ERROR(open(file(), size), Errc::invalid_argument, "cuImportExternalMemory");
  expect_told("are not the whole allocation");
}

TEST_F(Imports, ThatFailLeaveNothing) {
  source_->add_view(*open(file()));  // the driver may open files of its own once
  const auto files = test::open_fds();
  for (const char* const call : {"cuImportExternalMemory", "cuExternalMemoryGetMappedBuffer"}) {
    fail(call, 1, CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_ERROR(open(file()), Errc::unsupported, call);
    fail("", 0, CUDA_SUCCESS);
    EXPECT_EQ(Elsewhere::live_imports(), 1U);
    EXPECT_FDS(files);
  }
  spi::UniqueFd other(memfd_create("no memory", MFD_CLOEXEC));
  EXPECT_ERROR(open(std::move(other)), Errc::invalid_argument, "cuImportExternalMemory");
  expect_told("is no memory of a driver");
  EXPECT_FDS(files);
}

// cuMemFree waits for the device, so it is put off while a stream waits for the host. The memory stays until then.
TEST_F(Imports, KeepTheMemoryWhileTheirEndIsPutOff) {
  source_->add_view(*open(file()));
  const Stream borrowed = cuda::borrow(gpu(), stream_);
  const Stream host(host_device());
  std::promise<void> opened;
  host.call([open = opened.get_future().share()] { open.wait(); });
  borrowed.wait(host.record());
  source_ = {};
  EXPECT_EQ(at_end_, 0U);
  EXPECT_EQ(Elsewhere::live_imports(), 1U);
  opened.set_value();
  borrowed.synchronize();
  while (at_end_ == 0) std::this_thread::yield();
  EXPECT_EQ(at_end_, 1U);
}

}  // namespace
}  // namespace weir::cuda_test

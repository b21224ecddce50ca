// SPDX-License-Identifier: Apache-2.0
// What it costs the driver to open a set of a holder: a few calls for each segment, and none for a tensor.
#include "weir/held_set.hpp"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "bytes.hpp"
#include "expect.hpp"
#include "modelled_driver.hpp"
#include "native.hpp"
#include "threads.hpp"
#include "time_limits.hpp"
#include "weir/holder.hpp"
#include "weir/pool.hpp"

namespace weir::cuda_test {
namespace {

const std::chrono::seconds limit = test::answer_limit();

class CudaHeldSets : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    calls = reinterpret_cast<std::size_t (*)(const char*)>(test::find_in_model("fake_cuda_calls"));
    if (!calls) GTEST_SKIP() << "real drivers do not count their calls";
  }
  std::size_t (*calls)(const char*) = nullptr;
};

TEST_F(CudaHeldSets, OpeningCostsTheDriverOneImportForEachSegment) {
  const auto folder = std::filesystem::path(testing::TempDir()) / ("weir-cuda-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const std::string path = folder / "holder";
  {
    ipc::Holder holder(path);
    const test::Thread thread([&] { holder.run(); });
    const test::OnLeaving stop([&] { holder.stop(); });

    const Stream stream(gpu());
    const ResourcePtr resource = cuda::make_vmm_resource(gpu(), {.exportable = true});
    constexpr std::int64_t segments = 3, tensors = 10000, size = 256;
    ipc::SetWriter writer(path, "weights");
    for (std::int64_t i = 0; i < segments; ++i) {
      Buffer all = resource->allocate(tensors * size, stream);
      all.fill(static_cast<std::uint8_t>(i), stream);
      for (std::int64_t j = i; j < tensors; j += segments)
        writer.add(std::to_string(j), all.slice(static_cast<std::size_t>(j * size), size).view(u8, {size}), stream);
    }
    writer.commit(limit);

    ipc::SetReader reader(path, "weights");
    const auto imports = calls("cuMemImportFromShareableHandle"), maps = calls("cuMemMap"),
               accesses = calls("cuMemSetAccess"), events = calls("cuEventRecord");
    const ipc::HeldSet set = reader.open(stream, limit);
    EXPECT_EQ(calls("cuMemImportFromShareableHandle") - imports, segments);
    EXPECT_EQ(calls("cuMemMap") - maps, segments);
    EXPECT_EQ(calls("cuMemSetAccess") - accesses, segments);
    EXPECT_EQ(calls("cuEventRecord") - events, 0U);
    ASSERT_EQ(set.tensors.size(), static_cast<std::size_t>(tensors));
    for (const char* name : {"0", "1", "2", "9998"}) {
      const auto value = static_cast<unsigned char>(std::stoi(name) % segments);
      EXPECT_BYTES(test::read(set.tensors.at(name).buffer(), stream), test::repeat(size, value));
    }
    writer.commit(limit);  // another epoch: nothing of the old one is opened again
    EXPECT_EQ(reader.open(stream, limit, set.epoch).tensors.size(), 0U);
    EXPECT_EQ(calls("cuMemImportFromShareableHandle") - imports, segments);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace weir::cuda_test

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Base of the conformance suites: one memory, its resource, and a stream of its device. Honours exclusions.hpp.

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <optional>

#include "bytes.hpp"
#include "exclusions.hpp"
#include "expect.hpp"
#include "gate.hpp"
#include "memory.hpp"
#include "weir/buffer.hpp"

namespace weir::test {

/// Runs a test that exclusions.hpp names with its failures turned into one skip.
class Excludable : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  /// The line that covers this test, or null.
  [[nodiscard]] virtual const Exclusion* exclusion() const;

 private:
  testing::TestPartResultArray results_;
  std::optional<testing::ScopedFakeTestPartResultReporter> interception_;
};

/// Suite over one memory.
class OnMemory : public Excludable, public testing::WithParamInterface<Memory> {
 protected:
  [[nodiscard]] const KindInfo& info() const { return GetParam().info; }
  [[nodiscard]] const Device& device() const { return GetParam().device; }

  /// A buffer of this memory that holds `bytes`, complete.
  [[nodiscard]] Buffer filled(std::span<const std::byte> bytes) const {
    Buffer buffer = resource->allocate(bytes.size(), stream);
    write(buffer, bytes, stream);
    stream.synchronize();
    return buffer;
  }

  /// What alignments are of: the device's address; without one the host's; without either the place in the segment.
  static std::uint64_t place_of(const Buffer& buffer) {
    if (buffer.device_address() != 0) return buffer.device_address();
    if (buffer.host_data() != nullptr) return reinterpret_cast<std::uintptr_t>(buffer.host_data());
    return buffer.location().offset;
  }

  /// Says what the stack of a test that failed was.
  void TearDown() override;

  ResourcePtr resource = GetParam().make();
  Stream stream{GetParam().device};
};

/// Suite over one device.
class OnDevice : public Excludable, public testing::WithParamInterface<Device> {
 protected:
  [[nodiscard]] const Device& device() const { return GetParam(); }
  Stream stream{GetParam()};
};

}  // namespace weir::test

#define WEIR_FOR_EACH(suite, list, names)               \
  GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(suite); \
  INSTANTIATE_TEST_SUITE_P(Every, suite, testing::ValuesIn(list), names())
#define WEIR_FOR_EACH_MEMORY(suite) WEIR_FOR_EACH(suite, ::weir::test::memories(), ::weir::test::MemoryName)
#define WEIR_FOR_EACH_MEMORY_OF(subset, suite) \
  WEIR_FOR_EACH(suite, ::weir::test::crossed(#suite, subset), ::weir::test::MemoryName)
#define WEIR_FOR_EACH_EXPORTABLE(suite) WEIR_FOR_EACH_MEMORY_OF(::weir::test::exportable, suite)
#define WEIR_FOR_EACH_ADDRESSABLE(suite) WEIR_FOR_EACH_MEMORY_OF(::weir::test::addressable, suite)
#define WEIR_FOR_EACH_UNADDRESSABLE(suite) WEIR_FOR_EACH_MEMORY_OF(::weir::test::unaddressable, suite)
#define WEIR_FOR_EACH_HOST_ACCESSIBLE(suite) WEIR_FOR_EACH_MEMORY_OF(::weir::test::host_accessible, suite)
#define WEIR_FOR_EACH_DEVICE(suite) WEIR_FOR_EACH(suite, ::weir::devices(), ::weir::test::DeviceName)

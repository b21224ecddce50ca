// SPDX-License-Identifier: Apache-2.0
// Choosing devices by name and by environment.

#include <stdlib.h>

#include <algorithm>
#include <optional>
#include <string>

#include "expect.hpp"
#include "weir/device.hpp"

namespace weir::test {
namespace {

/// Sets WEIR_DEVICE for one test.
class Selected {
 public:
  explicit Selected(const char* value) {
    if (const char* now = getenv(name)) before_ = now;
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Selected() { before_ ? setenv(name, before_->c_str(), 1) : unsetenv(name); }
  Selected(const Selected&) = delete;
  Selected& operator=(const Selected&) = delete;

 private:
  static constexpr const char* name = "WEIR_DEVICE";
  std::optional<std::string> before_;
};

TEST(Devices, HostIsAlwaysThere) {
  const Device host = host_device();
  EXPECT_EQ(host.backend(), "host");
  EXPECT_EQ(host.ordinal(), 0);
  EXPECT_EQ(host.id(), "host:0");
  EXPECT_FALSE(host.is_gpu());
  EXPECT_NE(host.name(), "");
  EXPECT_NE(host.uuid(), Uuid{});
  EXPECT_EQ(device("host"), host);
  EXPECT_EQ(device("host:0"), host);
  EXPECT_EQ(devices().back(), host);
}

TEST(Devices, EveryIdFindsItsDevice) {
  const auto all = devices();
  for (const Device& each : all) {
    EXPECT_EQ(device(each.id()), each);
    EXPECT_EQ(std::count_if(all.begin(), all.end(), [&](const Device& d) { return d.id() == each.id(); }), 1);
    EXPECT_TRUE(each.ordinal() != 0 || device(each.backend()) == each);
  }
}

TEST(Devices, BackendsSayWhyTheyHaveNone) {
  std::size_t count = 0;
  for (const BackendInfo& backend : backends()) {
    count += backend.devices.size();
    EXPECT_EQ(backend.devices.empty(), !backend.unavailable_because.empty()) << backend.name;
    EXPECT_EQ(backend.unavailable_because.find('\n'), std::string::npos) << "one line";
    for (const Device& each : backend.devices) EXPECT_EQ(each.backend(), backend.name);
  }
  EXPECT_EQ(count, devices().size());
}

TEST(Devices, WrongNamesAreRefusedWithTheListOfRightOnes) {
  for (const char* name :
       {"", ":", ":0", "host:", "host:x", "host:-1", "host:-0", "host:+0", "host:0x0", "host:00000000000000000001", "host:0 ",
        " host", "host:0:0", "host:1", "HOST", "gpu", "host:99999999999999999999"}) {
    EXPECT_ERROR(device(name), Errc::invalid_argument, "host:0") << name;
  }
  EXPECT_ERROR(device("nonsense:3"), Errc::invalid_argument, "nonsense:3");
}

TEST(Devices, MissingBackendsSayWhy) {
  for (const BackendInfo& backend : backends()) {
    if (!backend.devices.empty()) continue;
    EXPECT_ERROR(device(backend.name), Errc::invalid_argument, backend.unavailable_because);
  }
}

TEST(Devices, EnvironmentChooses) {
  const Selected selected("host:0");
  EXPECT_EQ(best_device(), host_device());
}

TEST(Devices, EnvironmentIsCheckedAndNamed) {
  const Selected selected("moon:1");
  EXPECT_ERROR(best_device(), Errc::invalid_argument, "WEIR_DEVICE");
  EXPECT_ERROR(best_device(), Errc::invalid_argument, "moon:1");
}

TEST(Devices, WithoutEnvironmentGpusComeFirst) {
  for (const char* value : {static_cast<const char*>(nullptr), ""}) {
    const Selected selected(value);
    const auto all = devices();
    const bool any = std::any_of(all.begin(), all.end(), [](const Device& d) { return d.is_gpu(); });
    EXPECT_EQ(best_device().is_gpu(), any);
    EXPECT_TRUE(any || best_device() == host_device()) << "a CPU driver of Vulkan does not come before the host";
  }
}

TEST(Devices, UuidText) {
  Uuid uuid;
  EXPECT_EQ(uuid.to_string(), "00000000-0000-0000-0000-000000000000");
  for (std::size_t i = 0; i < 16; ++i) uuid.bytes[i] = static_cast<std::uint8_t>(i * 17);
  EXPECT_EQ(uuid.to_string(), "00112233-4455-6677-8899-aabbccddeeff");
}

TEST(Devices, KindsHaveNames) {
  EXPECT_EQ(to_string(MemoryKind::pageable), "pageable");
  EXPECT_EQ(to_string(MemoryKind::vmm), "vmm");
  EXPECT_EQ(to_string(MemoryKind::external), "external");
  EXPECT_EQ(to_string(static_cast<MemoryKind>(77)), "unknown");
  EXPECT_TRUE(is_memory_kind(static_cast<std::uint64_t>(MemoryKind::external)));
  for (const std::uint64_t none : {11u, 255u, 256u, 266u}) EXPECT_FALSE(is_memory_kind(none)) << none;
}

}  // namespace
}  // namespace weir::test

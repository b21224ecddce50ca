// SPDX-License-Identifier: Apache-2.0
#include "same_gpu.hpp"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <exception>
#include <map>
#include <string_view>
#include <utility>

#include "weir/buffer.hpp"
#include "weir/device.hpp"
#include "weir/memory_resource.hpp"
#include "weir/spi/view.hpp"
#include "weir/stream.hpp"

namespace weir::test {
namespace {

constexpr const char* asks = "WEIR_TEST_SAYS_UUID_OF";

std::string this_program() {
  std::array<char, PATH_MAX> path{};
  const auto length = readlink("/proc/self/exe", path.data(), path.size() - 1);
  return {path.data(), length > 0 ? static_cast<std::size_t>(length) : 0};
}

}  // namespace

void choose_same_gpu() {
  const char* const wanted = getenv("FAKE_CUDA_UUID");
  if (!wanted || !std::string_view(wanted).starts_with("vulkan")) return;
  const std::string command =
      std::string(asks) + "=" + wanted + " FAKE_CUDA_UUID= '" + this_program() + "' 2>/dev/null";
  std::array<char, 64> line{};
  if (FILE* const answer = popen(command.c_str(), "r")) {
    const bool read = std::fgets(line.data(), line.size(), answer) != nullptr;
    if (pclose(answer) != 0 || !read) line[0] = '\0';
  }
  const std::string_view uuid(line.data());
  setenv("FAKE_CUDA_UUID", std::string(uuid.substr(0, uuid.find('\n'))).c_str(), 1);
}

bool said_uuid() {
  const char* const wanted = getenv(asks);
  if (!wanted) return false;
  try {
    std::printf("%s\n", device(wanted).uuid().to_string().c_str());
  } catch (const std::exception&) {  // there is none, which whoever asked is told by silence
  }
  return true;
}

std::string why_no_views() {
  for (const Device& owner : devices()) {
    if (spi::viewer_of(owner.state())) return {};
  }
  return "no two devices are one GPU with memory that one exports and the other opens";
}

namespace {

// Whether a kind is viewed depends on the memory type that the driver has for it.
bool is_viewed(const Memory& memory) {
  spi::DeviceState* const viewer = spi::viewer_of(memory.device.state());
  if (!memory.exportable || !viewer) return false;
  static std::map<std::pair<const spi::DeviceState*, MemoryKind>, bool> known;
  const auto [found, is_new] = known.try_emplace({&memory.device.state(), memory.info.kind});
  if (is_new) {
    const Buffer one = memory.plain().make()->allocate(1, Stream(memory.device));
    found->second = spi::can_view(*viewer, *one.location().segment);
  }
  return found->second;
}

}  // namespace

const Subset viewed{&is_viewed};
const Subset unviewed{[](const Memory& memory) { return unaddressable.has(memory) && !is_viewed(memory); }};

}  // namespace weir::test

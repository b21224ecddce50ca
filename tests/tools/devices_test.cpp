// SPDX-License-Identifier: Apache-2.0
// weir devices: what it says of a kind of memory is what that memory does.

#include <dlpack/dlpack.h>

#include <sstream>
#include <string>

#include "fixture.hpp"
#include "run.hpp"
#include "weir/dlpack.hpp"
#include "weir/memory_resource.hpp"
#include "weir/tensor.hpp"

namespace weir::test {
namespace {

class DevicesListed : public OnDevice {
 protected:
  // The row of a kind in the device's table.
  static std::string row(const std::string& listed, const Device& device, MemoryKind kind) {
    std::istringstream lines(listed.substr(listed.find(device.id() + "  ")));
    const std::string begin = "  " + std::string(to_string(kind)) + ' ';
    for (std::string line; std::getline(lines, line) && !line.empty();) {
      if (line.starts_with(begin)) return line;
    }
    return {};
  }
  // What frameworks get in a tensor; empty if they get none.
  [[nodiscard]] std::string as_dlpack(const KindInfo& info) const {
    const ResourcePtr resource = make_resource(device(), info.kind, {.exportable = info.exportable});
    const Tensor tensor(resource->allocate(64, stream), Layout::compact(u8, {64}));
    stream.synchronize();
    try {
      const ManagedTensor managed = tensor.to_dlpack(stream);
      return std::string(dlpack_device_name(managed.get()->dl_tensor.device.device_type));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::unsupported) << error.what();
      return {};
    }
  }
};
WEIR_FOR_EACH_DEVICE(DevicesListed);

TEST_P(DevicesListed, AKindSaysWhatFrameworksGetOfIt) {
  const Ended ended = run("../tools/weir", {"devices"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  for (const KindInfo& info : device().kinds()) {
    const std::string line = row(ended.out, device(), info.kind), name = as_dlpack(info);
    EXPECT_TRUE(line.ends_with(name.empty() ? " -" : ' ' + name) || line.ends_with(' ' + name + ", if exportable"))
        << '"' << line << "\" although it is \"" << name << '"';
  }
}

}  // namespace
}  // namespace weir::test

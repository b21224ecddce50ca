// SPDX-License-Identifier: Apache-2.0
// startup_program <n> <code>: find Vulkan and make a first stream twice, while the nth call of Vulkan fails once. Says
// on descriptor 3 which call that was, what came of the first try, and of the second.

#include <dlfcn.h>
#include <stdlib.h>

#include <array>
#include <string>

#include "shim.hpp"
#include "sink.hpp"
#include "spawn.hpp"
#include "weir/device.hpp"
#include "weir/error.hpp"
#include "weir/vulkan.hpp"

namespace {

using namespace weir;
using namespace weir::test;

vulkan_shim::Hit failed_call() {
  void* shim = dlopen(WEIR_VULKAN_SHIM, RTLD_NOW | RTLD_LOCAL);
  const auto disarm = shim ? reinterpret_cast<vulkan_shim::Disarm>(dlsym(shim, "failing_vulkan_disarm")) : nullptr;
  vulkan_shim::Hit hit{};
  if (disarm) disarm(&hit);
  return hit;
}

std::string start() {
  for (const BackendInfo& backend : backends()) {
    if (backend.name != "vulkan") continue;
    if (backend.devices.empty()) return "unavailable: " + backend.unavailable_because;
    try {
      const Stream stream(backend.devices.front());
      return "works";
    } catch (const Error& error) {
      return std::string("throws: ") + error.what();
    }
  }
  return "no such backend";
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  const std::string call = std::string(arguments[1]) + ',' + arguments[2];
  setenv("WEIR_FAIL_VULKAN_CALL", call.c_str(), 1);
  setenv("WEIR_VULKAN_LIBRARY", WEIR_VULKAN_SHIM, 1);
  install_sink();
  const std::string first = start();
  const auto hit = failed_call();
  const std::array tries{first, start()};
  write_line(Child::socket_in_child, hit.call ? hit.call : "no call");
  write_line(Child::socket_in_child, hit.code ? hit.code : "no code");
  write_line(Child::socket_in_child, std::to_string(hit.codes));
  for (const std::string& outcome : tries) write_line(Child::socket_in_child, outcome);
  std::string reports;
  for (const Reported& report : take_reports()) reports += report.where + ": " + report.message + "; ";
  write_line(Child::socket_in_child, reports);
  return vulkan::validation_errors() == 0 ? 0 : 1;
}

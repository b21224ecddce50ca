// SPDX-License-Identifier: Apache-2.0
// The weir command line: it shows what this machine has, and whether that works.

#include <cstdio>
#include <exception>
#include <span>
#include <string_view>

#include "commands.hpp"
#include "peer_process.hpp"
#include "weir/version.hpp"

namespace {

constexpr char usage[] =
    "usage: weir <command>\n"
    "\n"
    "  devices [--json]   backends, devices, kinds of memory; why a backend is missing\n"
    "  demo               allocate, fill, copy, share with a second process on every device; check every byte\n"
    "  replay TRACE --resource SPEC [--json] [--html FILE] [--single-thread] [--repeat N]\n"
    "                     play a recorded trace on a resource such as 'pool(cuda.async)'; times, peaks, failures\n"
    "  help               this text\n"
    "  --version          version of weir\n"
    "\n"
    "WEIR_DEVICE=vulkan:0 names the device that programs get as the best one.\n";

int misused(std::string_view argument) {
  std::fprintf(stderr, "weir: do not understand '%.*s'\n%s", static_cast<int>(argument.size()), argument.data(), usage);
  return 2;
}

int run(std::span<char*> arguments) {
  if (arguments.empty()) {
    std::fputs(usage, stderr);
    return 2;
  }
  const std::string_view command = arguments[0];
  const std::span options = arguments.subspan(1);
  if (command == "devices") {
    if (options.empty()) return weir::cli::devices(false);
    if (options.size() == 1 && std::string_view{options[0]} == "--json") return weir::cli::devices(true);
    return misused(options[std::string_view{options[0]} == "--json" ? 1 : 0]);
  }
  if (command == "replay") return weir::cli::replay(options);
  if (!options.empty()) return misused(options[0]);
  if (command == "demo") return weir::cli::demo();
  if (command == weir::cli::peer_command) return weir::cli::demo_peer(weir::cli::peer_socket);
  if (command == "help" || command == "--help" || command == "-h") return std::fputs(usage, stdout) < 0;
  if (command == "--version") return std::puts("weir " WEIR_VERSION_STRING) < 0;
  return misused(command);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    std::fprintf(stderr, "weir: %s\n", e.what());
    return 1;
  }
}
